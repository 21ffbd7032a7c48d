/*-------------------------------------------------------------------------
 *
 * amount.h
 *	  A number of bytes, for people.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_AMOUNT_H
#define FC_AMOUNT_H

#include "postgres.h"

typedef enum FcAmountAs
{
	FC_AMOUNT_DOWN,				/* two digits of a unit or more, the rest left
								 * out: there is room for it */
	FC_AMOUNT_UP,				/* or counted as one more: it is enough */
	FC_AMOUNT_EXACT,			/* the largest unit of which it is a whole
								 * number: as somebody has written it */
} FcAmountAs;

/* Room for any. */
typedef struct FcAmount
{
	char		string[32];
} FcAmount;

/* The string lies in *amount.  Units are those of the settings. */
extern const char *fc_amount(FcAmount *amount, double bytes, FcAmountAs as);

#endif							/* FC_AMOUNT_H */
