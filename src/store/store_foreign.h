/*-------------------------------------------------------------------------
 *
 * store_foreign.h
 *	  Is there a folder of a database server on the way to a device?
 *
 * An empty file is one that may become a device, and so is one that has to be
 * made: in a data directory, or in a tablespace, of whatever server, it is
 * neither.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_STORE_FOREIGN_H
#define FC_STORE_FOREIGN_H

#include "postgres.h"

#include <limits.h>

typedef enum FcForeignKind
{
	FC_FOREIGN_NONE,
	FC_FOREIGN_DATA,			/* a data directory, or the folder of a
								 * database */
	FC_FOREIGN_TABLESPACE,		/* what a server has in a tablespace */
} FcForeignKind;

/* What was found on a walk, the outermost; begins as zeros. */
typedef struct FcForeign
{
	FcForeignKind kind;
	char		folder[PATH_MAX];
	int			depth;			/* so many folders below that */
	bool		linked;			/* left by a symbolic link, not by ".." */
} FcForeign;

/*
 * The walk has come to that folder, by that name (NULL: the root), which may be
 * "..".  Looks up one name in it, by its descriptor, as the walk itself does next:
 * a file system that hangs holds up neither more than the other.
 */
extern void fc_foreign_come_to(FcForeign *foreign, int folder, const char *at, const char *name);

#endif							/* FC_STORE_FOREIGN_H */
