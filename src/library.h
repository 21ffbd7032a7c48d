/*-------------------------------------------------------------------------
 *
 * library.h
 *	  Which file this copy of the library was loaded from, and whether it is
 *	  the one that the server has preloaded.
 *
 * A process may have loaded the library twice, from two files: by another
 * path in shared_preload_libraries than $libdir, or after a change of
 * dynamic_library_path.  The second copy has variables of its own, and knows
 * nothing of the shared memory that the first one attached to.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_LIBRARY_H
#define FC_LIBRARY_H

#include "types.h"

/* The file of this copy, as it was given to the loader. */
extern const char *fc_library_path(void);

/* For the postmaster: this copy is the preloaded one; false if another is already. */
extern bool fc_library_claim(void);

/* The file of the copy that was preloaded, if that is another than this one; else NULL. */
extern const char *fc_library_preloaded(void);

/*
 * The name under which a process that the server starts finds this very copy:
 * its path, which nothing resolves again, or below $libdir, if the path is
 * too long.  False if that would be another file.
 */
extern bool fc_library_name(char *name, size_t len);

#endif							/* FC_LIBRARY_H */
