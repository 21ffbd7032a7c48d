/*-------------------------------------------------------------------------
 *
 * checksum.h
 *	  What ties a page's content to its full tag: a page's own checksum covers
 *	  the block number only, and need not be there at all.
 *
 * Of memory of this server for memory of this server: the sums are never
 * stored, so their definition may change.  Knows nothing of PostgreSQL.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_CHECKSUM_H
#define FC_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/*
 * Of a tag of any length, and a page that is aligned to 8 bytes and has a
 * multiple of 32.
 */
extern uint32_t fc_checksum(const void *tag, size_t tag_len, const void *page, size_t page_len);

/* The same without the processor's instruction; for the test. */
extern uint32_t fc_checksum_portable(const void *tag, size_t tag_len, const void *page, size_t page_len);

#endif							/* FC_CHECKSUM_H */
