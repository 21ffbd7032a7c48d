/*
 * check.h
 *	  What the unit tests share: TAP lines on standard output.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stdio.h>

static int	checks = 0;
static int	failures = 0;

static inline void
check_at(bool ok, const char *what, int line)
{
	printf("%sok %d - %s\n", ok ? "" : "not ", ++checks, what);
	if (!ok)
	{
		printf("# line %d\n", line);
		failures++;
	}
}

#define check(ok, what) check_at((ok), (what), __LINE__)

static inline int
done(void)
{
	printf("1..%d\n", checks);
	return failures > 0;
}

#endif							/* CHECK_H */
