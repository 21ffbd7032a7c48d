/*-------------------------------------------------------------------------
 *
 * cache_fill.c
 *	  Filling the cache; runs in the writer process only.
 *
 * Steps F1-F6 and E1-E2 are those of src/protocol.md.  Pages are copied one by
 * one (F1-F3), written together (F4, F5), published one by one (F6).  A fill
 * that fails at any step leaves nothing behind but a count.  Pages that a
 * session has read from a data file (cache_load.c) join them before F4.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "admission/admission.h"
#include "bufscan.h"
#include "cache/cache.h"
#include "cache/cache_devices.h"
#include "cache/cache_internal.h"
#include "cache/cache_looked.h"
#include "compat.h"
#include "directory/directory.h"
#include "failpoint.h"
#include "handoff.h"
#include "pagecmp.h"
#include "rules/rules.h"
#include "settings.h"
#include "stats/stats.h"
#include "stats/stats_relation.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/checksum.h"
#include "store/store.h"
#include "utils/memutils.h"

/* Pages written and published together; 512 kB of the writer's memory. */
#define BATCH FC_STORE_MAX_RUN

/* Slots swept in one go: 1 ms, and 35 to 90 ms if all of them are to be freed. */
#define SWEEP_STEP 65536

/* A sweep rests for so many times as long as it took: a tenth of one processor at most. */
#define SWEEP_RESTS 9

/* The same of a pass that applies policies, which somebody waits for. */
#define RULES_REST 2

typedef struct Staged
{
	FcTag		tag;
	uint64		hash;
	FcGuard		guard;
	uint32		crc;			/* of the copy */
	FcMark		mark;
} Staged;

static Staged staged[BATCH];
static char *pages[BATCH];
static int	nstaged = 0;

static FcSlotNo sweep_at = FC_NO_SLOT;	/* FC_NO_SLOT: no sweep under way */
static FcSlotNo rules_at = FC_NO_SLOT;	/* the same of policies */

void
fc_cache_fill_start(void)
{
	char	   *memory = MemoryContextAlloc(TopMemoryContext, (Size) BATCH * BLCKSZ);

	Assert(pages[0] == NULL);
	for (int i = 0; i < BATCH; i++)
		pages[i] = memory + (Size) i * BLCKSZ;
	nstaged = 0;
	fc_looked_start();
	sweep_at = 0;				/* a writer before this one may have left one
								 * undone */
	fc_directory_reclaim();
}

void
fc_cache_fill_forget(void)
{
	nstaged = 0;
	sweep_at = FC_NO_SLOT;
}

#ifdef USE_ASSERT_CHECKING

bool
fc_cache_fill_has_staged(void)
{
	return nstaged > 0;
}

#endif

char	   *const *
fc_cache_idle_pages(void)
{
	StaticAssertStmt(BATCH >= FC_IDLE_PAGES, "too few pages");
	Assert(pages[0] != NULL && nstaged == 0);
	return pages;
}

/* Under these settings, and once a damaged page was seen, a clean buffer may differ from the disk. */
static bool
may_be_damaged(void)
{
	return zero_damaged_pages || ignore_checksum_failure ||
		pg_atomic_read_u32(&fc_cache->filling_stopped);
}

/* May a page be written now?  Counts the reason if not. */
static bool
may_fill(void)
{
	if (may_be_damaged())
	{
		fc_count(FC_SKIP_CORRUPT);
		return false;
	}
	if (!fc_cache_may_write())
	{
		fc_count(FC_SKIP_WRITE_LIMIT);
		return false;
	}
	return true;
}

/*
 * Is a page wanted that the buffer pool evicts from that frame?  One that was
 * offered before in the same stay there is not evicted for a second time.
 */
static bool
is_wanted(const FcTag *tag, uint64 hash, int frame, bool written)
{
	FcRule		rule = fc_rule_now(fc_tag_rel(tag));
	FcLooked	before;
	uint64		region;
	bool		any;

	if (rule == FC_RULE_NONE)
	{
		fc_count(FC_SKIP_POLICY);
		return false;
	}
	if (!fc_cache_worth_filling() || !fc_bypass_fills(tag, hash))
	{
		fc_count(FC_SKIP_NOT_USEFUL);
		return false;
	}
	any = rule == FC_RULE_KEEP &&
		fc_policy_keeps(fc_directory_kept(), fc_directory_capacity(), fc_setting_keep_limit);
	before = fc_looked_before(frame, hash);
	region = fc_directory_region(tag);
	if (before == FC_LOOKED_NOT)
		fc_admission_offered(hash, region, written);
	fc_directory_set_admission(fc_admission_mode((FcAdmission) fc_setting_admission));
	switch (fc_directory_offer(tag, hash, region, any, before, fc_setting_keep_limit))
	{
		case FC_OFFER_EXISTS:
			fc_looked_note(frame, hash, FC_LOOKED_EXISTS);
			fc_count(FC_SKIP_EXISTS);
			return false;
		case FC_OFFER_NOT_USEFUL:
			if (before == FC_LOOKED_NOT)
				fc_looked_note(frame, hash, FC_LOOKED_REFUSED);
			fc_count(FC_SKIP_NOT_USEFUL);
			return false;
		case FC_OFFER_WANTED:
			fc_looked_note(frame, hash, FC_LOOKED_WANTED);
			break;
	}
	return may_fill();
}

/* F3: is the copied page one to keep? */
static bool
is_sound(const char *page)
{
	/*
	 * Asked again: since may_fill() the frame may have got the page anew from
	 * disk, damaged.  That process sets the flag before it makes the buffer
	 * valid, and F2 has seen it valid.
	 */
	if (pg_atomic_read_u32(&fc_cache->filling_stopped))
	{
		fc_count(FC_SKIP_CORRUPT);
		return false;
	}
	if (PageIsNew((Page) page))
	{
		fc_count(FC_SKIP_NOT_USEFUL);
		return false;
	}
	if (!fc_page_sane(page))
	{
		fc_count(FC_SKIP_CORRUPT);
		return false;
	}
	return true;
}

/* F3 of a page in the pool: what is on disk, but for hints? */
static bool
is_fit(char *page, BlockNumber blk)
{
	if (!is_sound(page))
		return false;
	if (fc_page_ahead_of_disk(page))
	{
		fc_count(FC_SKIP_NOT_CURRENT);
		return false;
	}
	/* the frame's own checksum dates from its last write or earlier */
	FC_SET_PAGE_CHECKSUM((Page) page, blk);
	return true;
}

/* F3 of a page that was written: it is what is on disk, and has the checksum made for that. */
static bool
is_as_written(const char *page, BlockNumber blk)
{
	if (!is_sound(page))
		return false;
	if (DataChecksumsEnabled() &&
		pg_checksum_page((char *) page, blk) != ((const PageHeaderData *) page)->pd_checksum)
	{
		fc_count(FC_SKIP_CORRUPT);
		return false;
	}
	return true;
}

/* The page in pages[nstaged] belongs to the batch. */
static void
add_to_batch(const FcTag *tag, uint64 hash, const FcGuard *guard, FcMark mark)
{
	Assert(nstaged >= 0 && nstaged < BATCH);
	staged[nstaged].tag = *tag;
	staged[nstaged].hash = hash;
	staged[nstaged].guard = *guard;
	staged[nstaged].crc = fc_page_checksum(tag, pages[nstaged]);
	staged[nstaged].mark = mark;
	nstaged++;
}

static void
stage(const FcTag *tag, uint64 hash, const FcGuard *guard)
{
	add_to_batch(tag, hash, guard, fc_extents_mark());
	if (nstaged == BATCH)
		fc_cache_fill_flush();
}

void
fc_cache_stage(const FcTag *tag, uint64 hash, const FcGuard *guard, const char *page, FcMark mark)
{
	Assert(fc_directory_is_mine() && nstaged < BATCH);
	memcpy(pages[nstaged], page, BLCKSZ);
	add_to_batch(tag, hash, guard, mark);
}

/* For pause points: whose pages these are. */
static uint32
rel_staged(int i)
{
	Assert(i >= 0 && i < BATCH);
	return staged[i].tag.rel;
}

FcFill
fc_cache_fill_from_pool(uint32 frame, const FcTag *tag)
{
	uint64		hash = fc_directory_hash(tag);
	char	   *page = pages[nstaged];
	FcGuard		guard;

	Assert(fc_directory_is_mine() && nstaged < BATCH);
	if (!is_wanted(tag, hash, (int) frame, false))
		return FC_FILL_DONE;
	guard = fc_directory_guard(hash);	/* F1 */
	fc_failpoint_of(FC_FP_FILL_BEGIN, tag->rel);
	switch (fc_bufscan_copy_if_clean(frame, tag, page)) /* F2 */
	{
		case FC_COPY_PINNED:
			fc_count(FC_SKIP_PINNED);
			return FC_FILL_LATER;
		case FC_COPY_NOT_CURRENT:
			fc_count(FC_SKIP_NOT_CURRENT);
			return FC_FILL_DONE;
		case FC_COPY_DONE:
			break;
	}
	fc_failpoint_of(FC_FP_FILL_COPIED, tag->rel);
	if (is_fit(page, tag->blk)) /* F3 */
	{
		fc_looked_note((int) frame, hash, FC_LOOKED_EXISTS);
		stage(tag, hash, &guard);
	}
	return FC_FILL_DONE;
}

FcCopyHot
fc_cache_fill_hot(uint32 frame, const FcTag *tag)
{
	uint64		hash = fc_directory_hash(tag);
	char	   *page = pages[nstaged];
	FcSlotRef	ref;
	FcGuard		guard;

	Assert(fc_directory_is_mine() && nstaged < BATCH);
	if (fc_rule_now(fc_tag_rel(tag)) == FC_RULE_NONE)
		return FC_HOT_LEFT;
	if (may_be_damaged() || !fc_cache_worth_filling() || !fc_bypass_fills(tag, hash) || fc_directory_lookup(tag, hash, &ref))
		return FC_HOT_LEFT;
	if (!fc_cache_may_write())
		return FC_HOT_NO_BUDGET;
	guard = fc_directory_guard(hash);	/* F1 */
	fc_failpoint_of(FC_FP_FILL_BEGIN, tag->rel);
	if (fc_bufscan_copy_if_clean(frame, tag, page) != FC_COPY_DONE) /* F2 */
		return FC_HOT_LEFT;
	fc_failpoint_of(FC_FP_FILL_COPIED, tag->rel);
	if (!is_fit(page, tag->blk))	/* F3 */
		return FC_HOT_LEFT;
	stage(tag, hash, &guard);
	return FC_HOT_TAKEN;
}

bool
fc_cache_fill_from_handoff(void)
{
	char	   *page = pages[nstaged];
	FcTag		tag;
	FcGuard		guard;
	uint64		hash;
	int			frame;

	Assert(fc_directory_is_mine() && nstaged < BATCH);
	if (!fc_handoff_pop(&tag, &frame, &guard, page))	/* E2 */
		return false;
	hash = fc_directory_hash(&tag);
	if (fc_looked_before(frame, hash) == FC_LOOKED_NOT)
		frame = -1;				/* it may have another page by now */
	if (is_wanted(&tag, hash, frame, true) && is_as_written(page, tag.blk)) /* F3 */
		stage(&tag, hash, &guard);
	if (frame >= 0)
		fc_looked_no(frame);	/* it has left */
	return true;
}

/* F6 for one page whose slot has been written. */
static void
publish(const Staged *s, FcSlotNo slot, FcLoadCounts *counts)
{
	fc_directory_mark(slot, s->mark);
	switch (fc_directory_publish(slot, &s->tag, s->hash, &s->guard, s->crc))
	{
		case FC_PUBLISH_DONE:
			fc_count(FC_INSERTS);
			fc_count_written_relation(fc_tag_rel(&s->tag), FC_REL_INSERTS, 1);
			counts->loaded++;
			if (s->mark == FC_MARK_EXTENT)
				fc_count(FC_EXTENT_INSERTS);
			else if (s->mark == FC_MARK_ASKED)
				pg_atomic_fetch_add_u64(&fc_cache->asked_inserts, 1);
			break;
		case FC_PUBLISH_MODIFIED:
			fc_count(FC_SKIP_MODIFICATION);
			counts->modified++;
			break;
		case FC_PUBLISH_EXISTS:
			fc_count(FC_SKIP_EXISTS);
			counts->exists++;
			break;
	}
}

/*
 * Leaves out what was modified or dropped since it was copied.  F6 would not
 * publish it; but neither shall it come to the device, since it may have been
 * erased there meanwhile (Z2).
 */
static void
leave_out_stale(void)
{
	int			n = 0;

	for (int i = 0; i < nstaged; i++)
	{
		char	   *page = pages[i];

		if (!fc_directory_guard_holds(&staged[i].tag, staged[i].hash, &staged[i].guard))
		{
			fc_count(FC_SKIP_MODIFICATION);
			continue;
		}
		pages[i] = pages[n];
		pages[n] = page;
		staged[n++] = staged[i];
	}
	nstaged = n;
}

/* A slot's device may have gone off since the slot was taken. */
static bool
in_use(FcSlotNo slot)
{
	FcDeviceNo	no = fc_store_device_of(slot);

	return fc_store_state(no) == FC_DEVICE_ACTIVE;
}

void
fc_cache_write_staged(const FcSlotNo *slots, int nslots, FcLoadCounts *counts)
{
	int			run;

	Assert(nslots >= 0 && nslots <= nstaged && nstaged <= BATCH);
	fc_failpoint_about(FC_FP_FILL_RESERVED, rel_staged, nstaged);

	/* neighbouring slots are written by one call */
	for (int first = 0; first < nslots; first += run)
	{
		FcIo		io = FC_IO_FAILED;

		for (run = 1; first + run < nslots && slots[first + run] == slots[first] + run; run++)
			;
		run = fc_store_in_a_row(slots[first], run);
		Assert(run <= FC_STORE_MAX_RUN && !fc_directory_locked());
		/* a device that was given up meanwhile is not tried again */
		if (fc_cache_state() == FC_STATE_ACTIVE && in_use(slots[first]))
			io = fc_store_write(slots[first], &pages[first], run, fc_setting_io_timeout);	/* F5 */
		fc_failpoint_about(FC_FP_FILL_WRITTEN, rel_staged, nstaged);
		for (int i = first; i < first + run; i++)
		{
			if (io == FC_IO_OK)
				publish(&staged[i], slots[i], counts);
			else
			{
				fc_directory_release(slots[i]);
				counts->failed++;
			}
		}
		if (io == FC_IO_BROKEN)
			fc_cache_device_broken();
		if (io != FC_IO_OK)
			fc_devices_note_trouble();
	}
	nstaged = 0;
}

void
fc_cache_fill_flush(void)
{
	FcSlotNo	slots[BATCH];
	uint64		hashes[BATCH];
	FcLoadCounts unused = {0};
	int			nslots;

	leave_out_stale();
	if (nstaged == 0)
		return;

	fc_failpoint_about(FC_FP_FILL_STAGED, rel_staged, nstaged);
	for (int i = 0; i < nstaged; i++)
		hashes[i] = staged[i].hash;
	nslots = fc_directory_reserve(nstaged, hashes, fc_setting_keep_limit, slots);	/* F4 */
	fc_count_n(FC_SKIP_OVERLOADED, nstaged - nslots);
	fc_cache_write_staged(slots, nslots, &unused);
}

bool
fc_cache_apply_rules(void)
{
	static bool wanted = false;
	static uint64 took;
	static uint64 rests_until = 0;
	uint64		begin;
	bool		more;

	Assert(fc_directory_is_mine() && nstaged == 0);
	/* what was taken under the former ones has been linked by now */
	if (fc_rules_refresh())
		wanted = true;
	if (likely(!wanted && rules_at == FC_NO_SLOT))
		return false;
	begin = fc_now_ns();
	if (rules_at == FC_NO_SLOT)
	{
		if (begin < rests_until)
			return false;

		/*
		 * to the end, whatever is published meanwhile: that is for the next
		 * pass
		 */
		wanted = false;
		rules_at = 0;
		took = 0;
	}
	more = fc_directory_apply_rules(&rules_at, SWEEP_STEP);
	took += fc_now_ns() - begin;
	if (more)
		return true;
	rules_at = FC_NO_SLOT;
	rests_until = fc_now_ns() + took * RULES_REST;
	return false;
}

bool
fc_cache_sweep(void)
{
	static uint32 epoch;
	static uint64 took;
	static uint64 rests_until = 0;
	uint64		begin;
	bool		more;

	Assert(fc_directory_is_mine());
	if (sweep_at == FC_NO_SLOT && !fc_directory_sweep_wanted())
		return false;
	begin = fc_now_ns();
	if (sweep_at == FC_NO_SLOT)
	{
		if (begin < rests_until && !fc_directory_sweep_urgent())
			return false;
		sweep_at = 0;
	}
	if (sweep_at == 0)
	{
		epoch = fc_directory_sweep_begin();
		took = 0;
	}
	more = fc_directory_sweep(&sweep_at, SWEEP_STEP, epoch);
	took += fc_now_ns() - begin;
	if (more)
		return true;
	sweep_at = FC_NO_SLOT;
	rests_until = fc_now_ns() + took * SWEEP_RESTS;
	return false;
}
