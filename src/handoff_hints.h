/*-------------------------------------------------------------------------
 *
 * handoff_hints.h
 *	  Pages that processes have just read from disk, and whose neighbours the
 *	  writer may want (src/protocol.md, "Fill by extents").
 *
 * A bounded queue like that of handoff.h, but of names only, and small.  A hint
 * that finds no place is lost: nobody waits, and nobody counts on it.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_HANDOFF_HINTS_H
#define FC_HANDOFF_HINTS_H

#include "types.h"

typedef struct FcHint
{
	FcTag		tag;			/* of a permanent relation ... */
	uint32		epoch;			/* ... at that time */
} FcHint;

extern FcPart fc_hints_part(void);
extern void fc_hints_shmem_init(void);

extern void fc_hints_push(const FcHint *hint);

/* Writer only; false: there is none. */
extern bool fc_hints_pop(FcHint *hint);

/* Writer only: forgets those that there are now. */
extern void fc_hints_clear(void);

#endif							/* FC_HANDOFF_HINTS_H */
