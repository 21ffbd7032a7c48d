/*
 * test_table.c
 *	  attach/table.c on made-up programs; the Makefile says which.
 */
#include "check.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "attach/table.h"

#define N 5

/* "md": each function says which one it is */
#define MD(n) static int md##n(void) { return n; }
MD(0)
MD(2)
MD(3)
MD(4)
static int
other(void)
{
	return 99;
}

typedef int (*Call) (void);

typedef struct
{
	const char *before;			/* an odd neighbour */
	Call		call[N];
	const char *after;
} Table;

#define THE_TABLE {"before", {md0, NULL, md2, md3, md4}, "after"}

#if TABLES >= 1
static PLACE Table table1 = THE_TABLE;
#endif
#if TABLES >= 2
static PLACE Table table2 = THE_TABLE;
#endif

/* the program must look there when it calls: the compiler knows too much about constants */
#define LOOK(x) (*({ __typeof__(&(x)) volatile p_ = &(x); p_; }))

/* not matches: the last entry differs, the order differs, the end is missing */
static PLACE Table nearly = {"before", {md0, NULL, md2, md3, other}, "after"};
static PLACE Table shuffled = {"before", {md0, md2, NULL, md3, md4}, "after"};
static PLACE Call cut[3] = {md0, NULL, md2};

/* the protection of an address, as the kernel sees it */
static void
protection_of(const volatile void *address, char *prot)
{
	FILE	   *f = fopen("/proc/self/maps", "r");
	char		line[512];
	unsigned long begin;
	unsigned long end;

	strcpy(prot, "?");
	while (f && fgets(line, sizeof(line), f))
	{
		char		p[8];

		if (sscanf(line, "%lx-%lx %4s", &begin, &end, p) == 3 &&
			(uintptr_t) address >= begin && (uintptr_t) address < end)
			strcpy(prot, p);
	}
	if (f)
		fclose(f);
}

int
main(void)
{
	/* built at run time: otherwise the sequence itself would be found */
	void	  **sequence = malloc(N * sizeof(void *));
	void	   *replacement[N] = {NULL, NULL, NULL, NULL, NULL};
	FcTable		found;
	char		prot[8];

	sequence[0] = (void *) md0;
	sequence[1] = NULL;
	sequence[2] = (void *) md2;
	sequence[3] = (void *) md3;
	sequence[4] = (void *) md4;
	replacement[3] = (void *) other;

	fc_table_find(sequence, N, &found);
	check(found.matches == TABLES, "all tables are found, and nothing that resembles one");
	check(LOOK(nearly).call[4]() == 99 && LOOK(shuffled).call[1]() == 2 && LOOK(cut)[2]() == 2, "what resembles one is there");

#if TABLES == 1
	check(found.entries == N && found.entry == (void **) (uintptr_t) LOOK(table1).call, "it is the table");
	protection_of(&table1, prot);
	check(strcmp(prot, PROTECTION) == 0, "its protection before is what this program is about");
	check(LOOK(table1).call[3]() == 3, "an entry leads to the original");

	check(fc_table_replace(&found, replacement), "entries can be replaced");
	check(LOOK(table1).call[3]() == 99, "the replaced entry leads to the replacement");
	check(LOOK(table1).call[0]() == 0 && LOOK(table1).call[1] == NULL && LOOK(table1).call[2]() == 2 && LOOK(table1).call[4]() == 4,
		  "the others are left alone");
	check(strcmp(LOOK(table1).before, "before") == 0 && strcmp(LOOK(table1).after, "after") == 0, "so are the neighbours");
	protection_of(&table1, prot);
	check(strcmp(prot, PROTECTION) == 0, "the protection afterwards is that of before");

	fc_table_find(sequence, N, &found);
	check(found.matches == 0, "it is no longer found");
#else
	(void) prot;
	(void) replacement;
	(void) protection_of;
#endif
#if TABLES == 2
	check(LOOK(table1).call[3]() == 3 && LOOK(table2).call[3]() == 3, "finding changes nothing");
#endif
	free(sequence);
	return done();
}
