/*-------------------------------------------------------------------------
 *
 * attach/table.h
 *	  Finds a table of function pointers in the main program, and replaces
 *	  entries of it.
 *
 * Without postgres.h, so that a unit test can run it on made-up programs.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_ATTACH_TABLE_H
#define FC_ATTACH_TABLE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct FcTable
{
	void	  **entry;			/* first entry, in the main program */
	size_t		entries;
	int			matches;		/* how often the sequence occurs */
	int			protection;		/* PROT_* of its pages */
} FcTable;

/*
 * Looks through all loaded segments of the main program for the exact
 * sequence of `n` pointers.  Usable only if table->matches is 1.
 */
extern void fc_table_find(void *const *sequence, size_t n, FcTable *table);

/*
 * Puts replacement[i] into entry i where it is not NULL.  All or nothing;
 * false with errno if the pages cannot be made writable.
 */
extern bool fc_table_replace(const FcTable *table, void *const *replacement);

#endif							/* FC_ATTACH_TABLE_H */
