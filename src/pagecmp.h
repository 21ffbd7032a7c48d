/*-------------------------------------------------------------------------
 *
 * pagecmp.h
 *	  Are two copies of a page the same, hint bits and checksum aside?
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_PAGECMP_H
#define FC_PAGECMP_H

#include "types.h"

/*
 * Both pages are BLCKSZ long and aligned to 8 bytes; neither is changed.
 * On a difference *where is the offset of the first byte that differs.
 * `restored`: entries have survived an end of the server.  Then flash may lack
 * changes that are written without WAL, or need no redo (src/warm.md).
 */
extern bool fc_pages_equal(const char *a, const char *b, bool restored, int *where);

/* Is the header that of an initialised page? */
extern bool fc_page_sane(const char *page);

/*
 * May the page in the buffer pool differ from the disk by more than hints
 * although its buffer is clean?
 */
extern bool fc_page_ahead_of_disk(const char *page);

#endif							/* FC_PAGECMP_H */
