/*-------------------------------------------------------------------------
 *
 * buffers.h
 *	  A background worker that loads pages from flash into shared_buffers,
 *	  after a start: K13 of src/warm.md.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_BUFFERS_H
#define FC_BUFFERS_H

#include "types.h"

/* Its body, for one database, and shared relations if it is to.  May raise, as any session. */
extern void fc_buffers_load(Oid db, bool shared);

#endif							/* FC_BUFFERS_H */
