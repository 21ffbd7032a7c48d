/*-------------------------------------------------------------------------
 *
 * bufscan.h
 *	  Looks at the buffer pool from outside the buffer manager.
 *
 * The only module that includes buf_internals.h.  It reads buffer headers
 * without a lock to find candidates, and takes a header lock (tried once,
 * held for one 8 kB copy, 0.8 us) to copy a page.  It never pins, never
 * changes a usage count, never waits.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_BUFSCAN_H
#define FC_BUFSCAN_H

#include "types.h"

typedef enum FcPeek
{
	FC_PEEK_CANDIDATE,			/* clean, unpinned, permanent, main fork */
	FC_PEEK_LATER,				/* but dirty, pinned or under I/O: look again */
	FC_PEEK_NO,					/* empty, or not to be cached */
} FcPeek;

typedef enum FcCopy
{
	FC_COPY_DONE,
	FC_COPY_PINNED,				/* header locked, or in use */
	FC_COPY_NOT_CURRENT,		/* another page by now, or no longer clean */
} FcCopy;

/*
 * Frames the clock hand has passed since start; hand = this % frames.  To be
 * asked by one process, once in a round of the server's own count at least,
 * which has 32 bits of laps; the number that is returned never goes back.
 */
extern uint64 fc_bufscan_hand(void);
extern uint32 fc_bufscan_frames(void);

/* Does the address lie in the buffer pool? */
extern bool fc_bufscan_in_pool(const char *page);

/* Number of the frame at that address of the pool. */
extern uint32 fc_bufscan_frame(const char *page);

/* Number of the frame that has this page, or -1.  The next moment it may have another one. */
extern int	fc_bufscan_frame_of(const FcTag *tag);

/* Is the page at that address of the pool, which this process reads in, of a permanent relation? */
extern bool fc_bufscan_permanent(const char *page);

/* Does a frame have this page?  The next moment it may not. */
extern bool fc_bufscan_holds(const FcTag *tag);

/* Is that page there and dirty?  The next moment it may not be. */
extern bool fc_bufscan_dirty(const FcTag *tag);

/* What is in this frame, however warm it is, and its usage count, 0 to FC_USAGE_MAX?  Without a lock, so only a hint. */
#define FC_USAGE_MAX 5
extern FcPeek fc_bufscan_look(uint32 frame, FcTag *tag, int *usage);

/* Whose page of a main fork is in this frame?  False if there is none.  Without a lock, so only a hint. */
extern bool fc_bufscan_relation(uint32 frame, FcRel *rel);

/* Is there a frame that holds nothing yet, so that a read evicts no page? */
extern bool fc_bufscan_has_free(void);

/* F2: copies the page if it is `tag`, valid, clean and in nobody's hands. */
extern FcCopy fc_bufscan_copy_if_clean(uint32 frame, const FcTag *tag, char *copy);

/*
 * Is the page, which this process is writing out, being evicted by the clock
 * (rather than by a ring buffer, or written for another reason), and of a
 * permanent relation?  Then the frame that it is in; else -1.
 */
extern int	fc_bufscan_being_evicted(const FcTag *tag);

#endif							/* FC_BUFSCAN_H */
