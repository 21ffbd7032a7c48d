/*-------------------------------------------------------------------------
 *
 * amount.c
 *	  See amount.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "amount.h"

const char *
fc_amount(FcAmount *amount, double bytes, FcAmountAs as)
{
	static const char *const units[] = {"kB", "MB", "GB", "TB"};
	static const int largest_rounded = 2;	/* sizes of caches and machines
											 * are compared in GB */
	double		n = bytes / 1024;
	int			u = 0;

	if (as == FC_AMOUNT_EXACT)
		for (; u < lengthof(units) - 1 && n >= 1024 && fmod(n, 1024) == 0; u++)
			n /= 1024;
	else
	{
		for (; u < largest_rounded && n >= 10 * 1024; u++)
			n /= 1024;
		n = as == FC_AMOUNT_UP ? ceil(n) : floor(n);
	}
	snprintf(amount->string, sizeof(amount->string), "%.15g %s", n, units[u]);
	return amount->string;
}
