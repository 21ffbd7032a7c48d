/*-------------------------------------------------------------------------
 *
 * cache/cache_looked.h
 *	  What came of the last look at each frame of the buffer pool.
 *
 * The writer looks at a frame ahead of the clock hand.  If the page stays, since
 * somebody uses it, the writer finds it there a lap later; if it is changed, it
 * is handed over when it is written.  It was evicted once at most: for admission
 * this is one eviction, however often it is looked at.
 *
 * What is known of a frame is known of the page that was there, until another
 * one is found there.  A page that was evicted and has come back to the very
 * same frame before that, since the hand was faster than the writer, is taken for
 * one that has stayed: its eviction is not counted.
 *
 * In the writer's own memory, 2 bytes a frame.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_CACHE_LOOKED_H
#define FC_CACHE_LOOKED_H

#include "directory/directory.h"

/* Writer only, all of them. */
extern void fc_looked_start(void);
extern void fc_looked_forget(void);

/* Was it offered from that frame before, in the same stay?  A frame of -1: not known. */
extern FcLooked fc_looked_before(int frame, uint64 hash);

/* It was; what came of it? */
extern void fc_looked_note(int frame, uint64 hash, FcLooked result);

/* The frame has no page that can be cached, or that page, and it was not offered. */
extern void fc_looked_no(uint32 frame);
extern void fc_looked_has(uint32 frame, const FcTag *tag);

#endif							/* FC_CACHE_LOOKED_H */
