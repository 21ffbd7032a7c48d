/*-------------------------------------------------------------------------
 *
 * warm_load.c
 *	  May the log be loaded?  And loading it: K2, K6 to K11, K14.
 *
 * In the writer, before the cache is active: nobody reads from flash, and
 * nothing is filled.  The log is only read; what is written to flash before it
 * has been loaded are the trials, on slots that are not loaded then.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "compat.h"
#include "directory/directory.h"
#include "failpoint.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "stats/stats.h"
#include "utils/timestamp.h"
#include "store/store_list.h"
#include "warm/warm_internal.h"

/* What fc_warm_look() has found good: the root, the stamp and the map that go with it. */
static FcWarmRoot root;
static FcWarmStamp stamp;
static char *map = NULL;
static FcInvalidated *invalidated = NULL;
static uint32 ninvalidated;
static FcWarmRun run;			/* the file of it (K9, K14) */
static bool clean;				/* it is the stamp of a clean stop (K10) */

static void
forget_map(void)
{
	free(map);
	free(invalidated);
	map = NULL;
	invalidated = NULL;
}

static bool refuse(const char *fmt,...) pg_attribute_printf(1, 2);

/* The log is not loaded, and not asked for again; the rule is logged. */
static bool
refuse(const char *fmt,...)
{
	char		why[FC_REASON_LEN];
	va_list		args;

	va_start(args, fmt);
	vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	SpinLockAcquire(&fc_warm->lock);
	memset(&fc_warm->info, 0, sizeof(fc_warm->info));
	strlcpy(fc_warm->info.refused, why, sizeof(fc_warm->info.refused));
	SpinLockRelease(&fc_warm->lock);
	ereport(LOG, (errmsg("pg_flashcache starts with an empty cache: %s", why)));
	forget_map();
	fc_warm->pending = false;
	return false;
}

void
fc_warm_give_up(const char *why)
{
	FcRunId		other;

	Assert(fc_warm_pending() && fc_directory_is_mine());
	(void) refuse("%s", why);
	fc_directory_touching_ends();

	/*
	 * were this not written, the log would be harmless all the same: until
	 * the next checkpoint it stays right
	 */
	if (pg_strong_random(&other, sizeof(other)))
		(void) fc_warm_write_run(&other, 0);
	fc_warm_remove_stop();
}

/* The valid root with the highest number; false if there is none. */
static bool
read_root(bool *readable)
{
	bool		found = false;

	*readable = true;
	for (int i = 0; i < FC_WARM_ROOTS; i++)
	{
		FcWarmRoot	r;

		/*
		 * it may be the newer one: what the other one says may not be all
		 * (K9)
		 */
		if (fc_store_read_log(i, fc_warm_blocks, 1, fc_warm_timeout()) != FC_IO_OK)
		{
			*readable = false;
			return false;
		}
		memcpy(&r, fc_warm_blocks[0], sizeof(r));
		if (!fc_warm_root_valid(&r, fc_directory_slots()) || (found && r.number < root.number))
			continue;
		root = r;
		found = true;
		fc_warm->root.number = r.number;	/* a new log goes on counting */
	}
	return found;
}

/* The map of the root; false if it can't be read, or is not the one. */
static bool
read_map(void)
{
	uint32		nblocks = fc_warm_map_blocks(fc_directory_slots());
	uint32		at = fc_warm_map_at(fc_directory_slots(), root.map);
	pg_crc32c	crc;
	uint32		n;

	map = malloc((Size) nblocks * BLCKSZ);
	INIT_CRC32C(crc);
	for (uint32 i = 0; map != NULL && i < nblocks; i += n)
	{
		n = Min(nblocks - i, FC_STORE_MAX_RUN);
		if (fc_store_read_log(at + i, fc_warm_blocks, n, fc_warm_timeout()) != FC_IO_OK)
			return false;
		for (uint32 j = 0; j < n; j++)
		{
			memcpy(map + (Size) (i + j) * BLCKSZ, fc_warm_blocks[j], BLCKSZ);
			COMP_CRC32C(crc, fc_warm_blocks[j], BLCKSZ);
		}
	}
	FIN_CRC32C(crc);
	return map != NULL && crc == root.map_crc;
}

static bool
same_checkpoint(const FcWarmStamp *s)
{
	const ControlFileData *c = &fc_warm->control;

	return s->checkpoint == c->checkPoint &&
		fc_same_copy(&s->copy, &c->checkPointCopy);
}

/* The stamp of the clean stop, or the last one of the log, of the checkpoint that recovery began at. */
static bool
find_stamp(void)
{
	FcWarmStop	stop;

	clean = false;
	if (fc_warm_read_stop(&stop, fc_directory_slots(), &map, &invalidated))
	{
		if (stop.log == root.log && fc_run_equal(&stop.run, &root.run) && same_checkpoint(&stop.stamp))
		{
			if (stop.root != root.number && !fc_breaks("K10"))
				return refuse("its log is older than the stop of the server");
			stamp = stop.stamp;
			ninvalidated = stop.ninvalidated;
			/* and not of one that was killed while it loaded the log */
			clean = fc_warm->control.state == DB_SHUTDOWNED ||
				fc_warm->control.state == DB_SHUTDOWNED_IN_RECOVERY;
			return true;
		}
		forget_map();
	}
	ninvalidated = 0;
	if (!root.stamped)
		return refuse("its log has no checkpoint yet");
	if (!same_checkpoint(&root.stamp) && root.stamp.checkpoint == fc_warm->control.checkPoint)
		return refuse("the data directory says other things of checkpoint %X/%X than its log",
					  LSN_FORMAT_ARGS(root.stamp.checkpoint));
	if (!same_checkpoint(&root.stamp))
		return refuse("its log is of checkpoint %X/%X, the data directory of %X/%X",
					  LSN_FORMAT_ARGS(root.stamp.checkpoint), LSN_FORMAT_ARGS(fc_warm->control.checkPoint));
	if (!read_map())
		return refuse("the map in its log can't be read");
	stamp = root.stamp;
	return true;
}

/*
 * K6: how far the log may go.  Not as far as replay is by now: a standby may
 * by then have gone on with another history.
 *
 * K14: if WAL has been received from elsewhere since the checkpoint, it may be
 * of another history as well; the file of the run says how far both have the
 * same.  Else recovery ends where the WAL of that run does.
 */
static XLogRecPtr
may_go(void)
{
	const ControlFileData *c = &fc_warm->control;

	if (c->state == DB_SHUTDOWNED)
		return c->checkPoint;
	if (c->state != DB_SHUTDOWNED_IN_RECOVERY && c->state != DB_IN_ARCHIVE_RECOVERY &&
		XLogRecPtrIsInvalid(c->minRecoveryPoint))
		return Min(run.w, GetXLogReplayRecPtr(NULL));
	if (fc_breaks("K14"))
		return c->minRecoveryPoint;
	return run.w == FC_W_PRIMARY ? c->checkPoint : Min(run.w, c->minRecoveryPoint);
}

/* A server that crashed and goes on as a standby: nobody knows where its own WAL has ended. */
static bool
end_is_unknown(void)
{
	DBState		state = fc_warm->control.state;

	return state != DB_SHUTDOWNED && state != DB_SHUTDOWNED_IN_RECOVERY &&
		state != DB_IN_ARCHIVE_RECOVERY && RecoveryInProgress();
}

/* K9: it was off, and not in this boot of the machine. */
static bool
without_fsync(bool was_off, const char *boot)
{
	char		id[FC_BOOT_ID_BYTES];

	return was_off && (!fc_warm_boot_id(id) || memcmp(id, boot, sizeof(id)) != 0);
}

bool
fc_warm_look(void)
{
	const ControlFileData *c = &fc_warm->control;
	bool		readable;
	bool		found;

	Assert(fc_warm_pending() && fc_directory_is_mine());
	forget_map();
	if (!fc_warm->control_read)
		return refuse("pg_control could not be read at start");
	found = read_root(&readable);
	if (!readable)
		return refuse("a root of its log on \"%s\" can't be read", fc_store_path(FC_THE_DEVICE));
	if (!found)
		return refuse("there is no log of this version and size on \"%s\"", fc_store_path(FC_THE_DEVICE));
	if (root.system_identifier != c->system_identifier)
		return refuse("its log is of another database system");
	if (root.control_version != c->pg_control_version || root.catalog_version != c->catalog_version_no)
		return refuse("its log is of another version of the server");
	if (root.checksum_version != c->data_checksum_version)
		return refuse("data checksums have been switched on or off since its log was written");
	if (!fc_warm_read_run(&run))
		return refuse("the data directory does not say which run of the server was the last");
	/* K7 */
	if (!fc_run_equal(&run.run, &root.run) && !fc_run_equal(&run.run, &root.former) && !fc_breaks("K7"))
		return refuse("its log and the data directory are of different runs of the server");
	if (fc_warm->backup_label)
		return refuse("the server was started from a backup (backup_label)");
	if (!XLogRecPtrIsInvalid(c->backupStartPoint) || !XLogRecPtrIsInvalid(c->backupEndPoint) || c->backupEndRequired)
		return refuse("the server had not come to the end of a backup");
	/* K8 */
	if (c->state != DB_SHUTDOWNED && (c->wal_level <= WAL_LEVEL_MINIMAL || wal_level <= WAL_LEVEL_MINIMAL) && !fc_breaks("K8"))
		return refuse("wal_level is or was minimal, and the server was not stopped cleanly");
	/* K9 */
	if (without_fsync(root.fsync_was_off, root.boot_id) ||
		(without_fsync(run.fsync_off[0] != '\0', run.fsync_off) && !fc_breaks("K9-run")))
		return refuse("fsync was off before the machine was started again");
	if (run.fsync_off[0] != '\0')
	{
		root.fsync_was_off = true;
		memcpy(root.boot_id, run.fsync_off, sizeof(root.boot_id));
	}
	if (!fc_directory_epochs_whole())
		return refuse("too many relations were removed during recovery");
	if (!find_stamp())
		return false;
	if (stamp.timeline != fc_warm_timeline())
		return refuse("its log is of timeline %u, the server is on timeline %u", stamp.timeline, fc_warm_timeline());
	if (end_is_unknown())
		return refuse("the server crashed, and went on as a standby");
	if (root.w > may_go() && !fc_breaks("K6"))
		return refuse("its log goes to %X/%X, the data directory to %X/%X",
					  LSN_FORMAT_ARGS(root.w), LSN_FORMAT_ARGS(may_go()));
	if (stamp.hand < fc_directory_slots())
		fc_directory_set_hand(stamp.hand);
	return true;
}

typedef struct Loading
{
	uint8	   *seen;			/* a bit a slot: its newest record was */
	uint64		end;			/* of the journal: the number behind its last
								 * block */
	uint64		last_group;
	uint32		stretch;		/* whose turn it was when the last group began */
	uint64		turned;			/* a bit for each stretch from there on: the
								 * group has it */
	uint64		w;
	uint64		restored;
	uint64		touched;
	uint64		removed;
	uint64		torn;
} Loading;

static inline bool
in_map(FcSlotNo slot)
{
	return (((const uint32 *) map)[slot / 32] >> slot % 32 & 1) != 0;
}

/* Of a slot the newest record comes first; others say what it held before (K18). */
static void
load_record(Loading *l, FcSlotNo slot, const FcRecord *record, uint64 group)
{
	if (slot >= fc_directory_slots() || (l->seen[slot / 8] >> slot % 8 & 1) != 0)
		return;
	l->seen[slot / 8] |= 1 << slot % 8;
	if (!OidIsValid(record->tag.rel))
		return;
	if ((group <= stamp.group && !in_map(slot)) || !fc_list_believes(slot, root.log, group))
	{
		l->removed++;
		return;
	}
	switch (fc_directory_restore(slot, record))
	{
		case FC_RESTORE_DONE:
			l->restored++;
			break;
		case FC_RESTORE_TOUCHED:
			l->touched++;
			break;
		case FC_RESTORE_TAKEN:
		case FC_RESTORE_EXISTS:
			l->removed++;
			break;
	}
}

/* A block does not say what it should, and may do so the next time; also if a writer ends in this load, and the next one can read it. */
static void
note_spoilt(Loading *l)
{
	fc_warm->spoilt = true;
	l->torn++;
}

/*
 * The block of that number is not there, and nothing is left of it.  A crash
 * explains that if it was not durable.  Else the device has lost what it had
 * confirmed, or was set back, slots included: then older records agree with what
 * is in their slots, and may be of pages that have changed since.
 */
static bool
note_lost(Loading *l, uint64 number)
{
	if (number >= root.sound && number < root.next && !fc_breaks("K18-lost"))
		return refuse("blocks of its log are lost that were durable");
	note_spoilt(l);
	return true;
}

/* What lies where the block of that number belongs (`ever`: if there was one); false if the log is not good after all. */
static bool
load_block(Loading *l, uint64 number, bool ever, const char *bytes)
{
	static FcWarmBlock block;
	uint32		stretches = fc_warm_stretches(fc_directory_slots());

	memcpy(&block, bytes, sizeof(block));
	if (!fc_warm_block_valid(&block, root.log, fc_directory_slots()))
	{
		bool		spoilt = block.log == root.log || block.log == FC_WARM_UNREADABLE;

		if (ever && !spoilt)
			return note_lost(l, number);
		if (spoilt)
			note_spoilt(l);		/* else it was never written */
		return true;
	}

	/*
	 * no crash leaves that: what came before it is lost, and older records
	 * are not
	 */
	if (block.number >= l->end)
		return refuse("blocks of its log are missing");
	if (!ever || block.number != number)
		return ever ? note_lost(l, number) : true;
	if (block.group > stamp.group && block.timeline != stamp.timeline)
		return refuse("its log was written on timeline %u, the server is on timeline %u", block.timeline, stamp.timeline);
	if (block.group > stamp.group && map != NULL && invalidated != NULL)
		return refuse("its log goes on after the server was stopped");
	if (block.w > may_go() && !fc_breaks("K6"))
		return refuse("its log goes to %X/%X, the data directory to %X/%X",
					  LSN_FORMAT_ARGS(block.w), LSN_FORMAT_ARGS(may_go()));
	if (block.group > l->last_group)
	{
		l->last_group = block.group;
		l->stretch = block.stretch % stretches;
		l->turned = 0;
		if (block.group > stamp.group && block.hand < fc_directory_slots())
			fc_directory_set_hand(block.hand);
	}
	if (block.group == l->last_group && block.first != FC_NO_SLOT)
	{
		uint32		turn = (block.first / FC_WARM_RECORDS + stretches - l->stretch) % stretches;

		l->turned |= turn < 64 ? UINT64CONST(1) << turn : 0;
	}
	l->w = Max(l->w, block.w);
	/* backwards, as the blocks: the last of two counts */
	for (uint32 i = block.n; i-- > 0;)
	{
		if (block.first == FC_NO_SLOT)
			load_record(l, block.of.listed[i].slot, &block.of.listed[i].record, block.group);
		else
			load_record(l, block.first + i, &block.of.stretch[i], block.group);
	}
	return true;
}

/* From the newest block back. */
static FcWarmLoad
load_journal(Loading *l)
{
	uint32		blocks = fc_warm_journal_blocks(fc_directory_slots());
	uint32		n;

	if (fc_warm_find_end(&root, &l->end) != FC_IO_OK)
		return FC_WARM_FAILED;
	for (uint32 done = 0; done < blocks; done += n)
	{
		uint32		back = fc_breaks("K18") ? blocks - 1 - done : done;
		uint32		place = (l->end % blocks + blocks - 1 - back) % blocks;

		n = fc_breaks("K18") ? 1 : Min(Min(place + 1, blocks - done), FC_STORE_MAX_RUN);
		if (ShutdownRequestPending)
			return FC_WARM_STOPPED;
		if (fc_warm_read_journal(place + 1 - n, n) != FC_IO_OK)
			return FC_WARM_FAILED;
		fc_failpoint(FC_FP_WARM_LOAD);
		for (uint32 i = 0; i < n; i++)
			if (!load_block(l, l->end - 1 - back - i, back + i < l->end, fc_warm_blocks[n - 1 - i]))
				return FC_WARM_COLD;
	}
	return FC_WARM_LOADED;
}

FcWarmLoad
fc_warm_load(void)
{
	Loading		l = {.seen = calloc(fc_directory_slots() / 8 + 1, 1)};
	uint64		begin = fc_now_ns();
	uint64		loading_us;
	FcWarmLoad	result;

	Assert(fc_warm_pending() && map != NULL);
	if (l.seen == NULL)
	{
		(void) refuse("out of memory");
		return FC_WARM_COLD;
	}
	/* before anything is linked with the first epoch */
	fc_directory_invalidate_again(invalidated, ninvalidated);
	result = load_journal(&l);
	free(l.seen);
	/* K12; a block that was spoilt leaves older records of its slots */
	root.doubtful |= !clean || l.torn > 0 || fc_warm->spoilt;
	fc_directory_doubt_restored(root.doubtful);
	if (result == FC_WARM_LOADED && !fc_directory_epochs_whole())
	{
		(void) refuse("too many relations were removed");
		result = FC_WARM_COLD;
	}
	if (result == FC_WARM_FAILED)
		(void) refuse("its log could not be read");
	if (result != FC_WARM_LOADED)
		return result;
	fc_warm->pending = false;
	fc_warm_find_list(&root, &stamp, clean);
	forget_map();
	fc_warm->root = root;
	fc_warm->root.stamp = stamp;
	/* one may have been lost as a whole: no other gets its number (K16) */
	fc_warm->group = Max(l.last_group, stamp.group) + !clean;
	fc_warm->next = l.end;
	/* what the last group has of its turns is durable with the next root */
	for (; (l.turned & 1) != 0; l.turned >>= 1)
		l.stretch++;
	fc_warm->stretch = l.stretch % fc_warm_stretches(fc_directory_slots());
	fc_warm->w = Max(l.w, root.w);
	fc_warm->wrong_seen = fc_stats_total(FC_RESTORED_WRONG);
	loading_us = (fc_now_ns() - begin) / 1000;
	SpinLockAcquire(&fc_warm->lock);
	fc_warm->info.refused[0] = '\0';
	fc_warm->info.loaded_at = GetCurrentTimestamp();
	fc_warm->info.loading_us = loading_us;
	fc_warm->info.restored = l.restored;
	fc_warm->info.touched = l.touched;
	fc_warm->info.removed = l.removed;
	fc_warm->info.torn = l.torn;
	SpinLockRelease(&fc_warm->lock);
	ereport(LOG,
			(errmsg("pg_flashcache has restored %llu pages on flash", (unsigned long long) l.restored),
			 l.torn == 0 ?
			 errdetail("%llu others were changed during recovery, %llu were no longer current; it took %llu ms.",
					   (unsigned long long) l.touched, (unsigned long long) l.removed,
					   (unsigned long long) (loading_us / 1000)) :
			 errdetail("%llu others were changed during recovery, %llu were no longer current; it took %llu ms. Blocks of the log that are missing, damaged or unreadable: %llu. What they had is read from disk.",
					   (unsigned long long) l.touched, (unsigned long long) l.removed,
					   (unsigned long long) (loading_us / 1000), (unsigned long long) l.torn)));
	return FC_WARM_LOADED;
}
