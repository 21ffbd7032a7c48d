/*-------------------------------------------------------------------------
 *
 * cache_load.c
 *	  Pages that a session reads from a data file, for the cache.
 *
 * Steps L1-L4 are those of src/protocol.md.  The session chooses pages (L1) and
 * takes their guards (L2), reads (L3, its caller) and looks at what it has got
 * (L4); the writer then does F4-F6.  What passes between the two is in writer/writer_load.c.
 *
 * Nothing here pins, reads or changes a buffer, and nobody waits for it.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "bufscan.h"
#include "cache/cache.h"
#include "cache/cache_internal.h"
#include "directory/directory.h"
#include "failpoint.h"
#include "pagecmp.h"
#include "rules/rules.h"
#include "stats/stats.h"
#include "storage/bufpage.h"
#include "storage/checksum.h"

/* Slots looked at in one go. */
#define LOOK 65536

/* ---- the session's side ---- */

void
fc_cache_load_begin(FcLoad *load, const FcTag *first, int n, FcLoadMask wanted, FcLoadCounts *counts)
{
	FcTag		tag = *first;

	Assert(n > 0 && n <= FC_LOAD_PAGES && !fc_directory_locked());
	load->n = 0;
	load->next = 0;
	for (int i = 0; i < n; i++, tag.blk++)
	{
		FcSlotRef	ref;

		if ((wanted & ((FcLoadMask) 1 << i)) == 0)
			continue;
		if (fc_directory_lookup(&tag, fc_directory_hash(&tag), &ref))
			counts->exists++;
		else if (fc_bufscan_dirty(&tag))	/* L1 */
			counts->dirty++;
		else
			load->tag[load->n++] = tag;
	}
	if (load->n == 0)
		return;
	fc_failpoint_of(FC_FP_LOAD_CHOSEN, tag.rel);
	for (int i = 0; i < load->n; i++)
		load->guard[i] = fc_directory_guard(fc_directory_hash(&load->tag[i]));	/* L2 */
	fc_failpoint_of(FC_FP_LOAD_GUARDED, tag.rel);
}

/*
 * Is it what belongs there?  Whoever reads a page while it is written may get
 * half of it: that is no damage.  While the page is being written its buffer
 * is dirty, and when it no longer is, the guard has been broken (C3).
 */
static bool
is_whole(const FcTag *tag, const FcGuard *guard, const char *page, FcLoadCounts *counts)
{
	if (fc_page_sane(page) &&
		(!DataChecksumsEnabled() ||
		 pg_checksum_page((char *) page, tag->blk) == ((const PageHeaderData *) page)->pd_checksum))
		return true;
	if (fc_bufscan_dirty(tag))
		counts->dirty++;
	else if (fc_directory_guard_broken(tag, fc_directory_hash(tag), guard))
		counts->modified++;
	else
	{
		fc_count(FC_SKIP_CORRUPT);
		counts->corrupt++;
	}
	return false;
}

void
fc_cache_load_check(FcLoad *load, const char *read, int nread, FcLoadCounts *counts)
{
	BlockNumber first = load->tag[0].blk;
	int			n = 0;

	Assert(load->n > 0 && load->n <= FC_LOAD_PAGES);
	fc_failpoint_of(FC_FP_LOAD_READ, load->tag[0].rel);
	counts->read += nread;
	for (int i = 0; i < load->n; i++)
	{
		BlockNumber at = load->tag[i].blk - first;
		const char *page = read + (Size) at * BLCKSZ;

		if (at >= nread)
			counts->modified++; /* the file has become shorter */
		else if (PageIsNew((Page) page))
			counts->empty++;
		else if (is_whole(&load->tag[i], &load->guard[i], page, counts))	/* L4 */
		{
			load->tag[n] = load->tag[i];
			load->guard[n] = load->guard[i];
			memcpy(load->page[n++], page, BLCKSZ);
		}
	}
	load->n = n;
}

/* ---- the writer's side ---- */

FcLoadStep
fc_cache_load_step(FcLoad *load, FcLap *lap, FcLoadCounts *counts)
{
	FcSlotNo	slots[FC_LOAD_PAGES];
	FcLoadStep	result = FC_LOAD_DONE;
	uint32		look = LOOK;
	int			n = 0;

	Assert(fc_directory_is_mine() && !fc_directory_locked());
	Assert(load->n >= 0 && load->n <= FC_LOAD_PAGES);
	for (; load->next < load->n; load->next++)
	{
		const FcTag *tag = &load->tag[load->next];
		const FcGuard *guard = &load->guard[load->next];
		uint64		hash = fc_directory_hash(tag);
		FcSlotRef	ref;

		/* as in a fill: what is stale shall not come to the device (Z2) */
		if (!fc_directory_guard_holds(tag, hash, guard))
		{
			fc_count(FC_SKIP_MODIFICATION);
			counts->modified++;
			continue;
		}
		if (fc_rule_now(fc_tag_rel(tag)) == FC_RULE_NONE)
		{
			fc_count(FC_SKIP_POLICY);
			counts->unwanted++;
			continue;
		}
		if (fc_directory_lookup(tag, hash, &ref))
		{
			fc_count(FC_SKIP_EXISTS);
			counts->exists++;
			continue;
		}
		if (lap->left > 0 && !fc_cache_may_write_spare())
		{
			result = FC_LOAD_LATER;
			break;
		}
		slots[n] = fc_directory_reserve_in_lap(lap, tag, &look);	/* F4 */
		if (slots[n] != FC_NO_SLOT)
		{
			fc_cache_stage(tag, hash, guard, load->page[load->next], lap->mark);
			n++;
		}
		else if (lap->left == 0)
			counts->full++;
		else
		{
			result = FC_LOAD_MORE;
			break;
		}
	}
	if (n > 0)
		fc_cache_write_staged(slots, n, counts);	/* F5, F6 */
	return result;
}
