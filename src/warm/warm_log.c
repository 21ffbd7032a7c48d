/*-------------------------------------------------------------------------
 *
 * warm_log.c
 *	  Writing the log, in the writer: binding (K7), groups (K4), stamps (K5).
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "compat.h"
#include "directory/directory.h"
#include "failpoint.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "settings.h"
#include "stats/stats.h"
#include "store/store_list.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "warm/warm_internal.h"

/*
 * Slots that may be written without their records, beside a batch: as many as
 * one block lists.  That is less than half of WRONG_LIMIT, which a loss of power
 * may leave, since the blocks of a group are durable with the next.
 */
#define MOST_TAKEN 275
#define LEAST_TAKEN 64

/* K12 */
#define WRONG_LIMIT 1000

/* So often pg_control is looked at. */
#define LOOK_NS UINT64CONST(200000000)

/* The last group has left something. */
static bool unfinished = false;

/* There was a writer before this one in this run: a group of its may have been cut off. */
static bool takes_over = false;

/* pg_control has shown this checkpoint; as soon as a sweep has ended that began later it will be the stamp. */
static ControlFileData next;
static bool has_next = false;
static uint32 next_epoch;

static void
set_writing(bool writing)
{
	fc_warm->writing = writing;
	/* what a stop interrupts would have to be done again, and is not */
	fc_store_patience(writing ? FC_WARM_LEAVE_MS : 0);
	SpinLockAcquire(&fc_warm->lock);
	fc_warm->info.writing = writing;
	SpinLockRelease(&fc_warm->lock);
}

void
fc_warm_start(void)
{
	char	   *memory;
	bool		was_left;

	if (fc_warm == NULL)
		return;
	memory = MemoryContextAlloc(TopMemoryContext, (Size) FC_STORE_MAX_RUN * BLCKSZ);
	fc_warm_blocks = MemoryContextAlloc(TopMemoryContext, FC_STORE_MAX_RUN * sizeof(char *));
	for (int i = 0; i < FC_STORE_MAX_RUN; i++)
		fc_warm_blocks[i] = memory + (Size) i * BLCKSZ;
	was_left = fc_warm->left;
	fc_warm->left = false;
	if (!fc_directory_track(FC_WARM_RECORDS, fc_failpoint_number("FC_WARM_LISTED", FC_WARM_MOST_LISTED)))
	{
		fc_warm->pending = false;
		fc_warm->keep = false;
		fc_warm->writing = false;
	}
	if (!fc_warm->writing)
		return;
	/* a writer before this one knew which slots have no record yet, if any */
	if (!was_left || fc_breaks("left"))
		fc_directory_taken_all();
	takes_over = !was_left;
	set_writing(true);			/* of this process, too */
}

uint32
fc_warm_log_blocks(void)
{
	uint32		slots = fc_directory_slots();

	return fc_warm != NULL ? fc_warm_journal_at(slots) + fc_warm_journal_blocks(slots) : 0;
}

void
fc_warm_end(void)
{
	if (fc_warm == NULL)
		return;
	set_writing(false);
	has_next = false;
}

/* Something is wrong with the log; `io` says whether also with the device. */
static FcIo
give_up(FcIo io, const char *what)
{
	if (fc_warm->writing)
	{
		ereport(LOG, (errmsg("pg_flashcache no longer writes its log: %s", what),
					  errdetail("The cache is used as before. Until it is opened again, and a new log begun, an end of the server after the next checkpoint leaves it empty.")));
		fc_warm->gave_up = true;
	}
	fc_warm_end();
	return io;
}

/* ---- roots ---- */

/* fc_warm->root, with the next number; durable, and so is what was written before. */
static FcIo
write_root(void)
{
	FcWarmRoot *root = &fc_warm->root;
	FcIo		io = fc_store_sync(fc_warm_timeout());

	if (io != FC_IO_OK)
		return io;
	root->number++;
	root->slots = fc_directory_slots();
	root->w = fc_warm->w;
	/* the writer before this one may not have come to write the last of them */
	if (!takes_over)
		root->next = fc_warm->next;
	fc_warm_seal_root(root);
	memset(fc_warm_blocks[0], 0, BLCKSZ);
	memcpy(fc_warm_blocks[0], root, sizeof(*root));
	io = fc_store_write_log(root->number % FC_WARM_ROOTS, fc_warm_blocks, 1, fc_warm_timeout());
	return io == FC_IO_OK ? fc_store_sync(fc_warm_timeout()) : io;
}

/* K9; true if the root must be written. */
static bool
note_fsync(void)
{
	pg_memory_barrier();
	if (!fc_warm->fsync_was_off || fc_warm->root.fsync_was_off)
		return false;
	fc_warm->root.fsync_was_off = true;
	if (!fc_warm_boot_id(fc_warm->root.boot_id))
		memset(fc_warm->root.boot_id, 0, sizeof(fc_warm->root.boot_id));
	return true;
}

/* The map of this moment to the place where the last one is not.  Not durable yet. */
static FcIo
write_map(void)
{
	FcWarmRoot *root = &fc_warm->root;
	uint8		where = root->map ^ 1;
	Size		bytes;
	const char *from = fc_directory_map(&bytes);
	uint32		at = fc_warm_map_at(fc_directory_slots(), where);
	uint32		nblocks = fc_warm_map_blocks(fc_directory_slots());
	pg_crc32c	crc;
	uint32		n;

	INIT_CRC32C(crc);
	for (uint32 i = 0; i < nblocks; i += n)
	{
		FcIo		io;

		n = Min(nblocks - i, FC_STORE_MAX_RUN);
		for (uint32 j = 0; j < n; j++)
		{
			Size		done = (Size) (i + j) * BLCKSZ;

			memset(fc_warm_blocks[j], 0, BLCKSZ);
			memcpy(fc_warm_blocks[j], from + done, Min(BLCKSZ, bytes - done));
			if (fc_breaks("K5"))
				memset(fc_warm_blocks[j], 0xFF, BLCKSZ);
			COMP_CRC32C(crc, fc_warm_blocks[j], BLCKSZ);
		}
		io = fc_store_write_log(at + i, fc_warm_blocks, n, fc_warm_timeout());
		if (io != FC_IO_OK)
			return io;
	}
	FIN_CRC32C(crc);
	root->map = where;
	root->map_crc = crc;
	return FC_IO_OK;
}

static void
set_stamp(XLogRecPtr checkpoint, const CheckPoint *copy, uint32 timeline)
{
	FcWarmStamp *stamp = &fc_warm->root.stamp;

	memset(stamp, 0, sizeof(*stamp));
	stamp->checkpoint = checkpoint;
	memcpy(&stamp->copy, copy, sizeof(stamp->copy));
	stamp->group = fc_warm->group;
	stamp->timeline = timeline;
	stamp->hand = fc_directory_hand();
	stamp->at = GetCurrentTimestamp();
	fc_warm->root.stamped = true;
}

static void
show_stamp(void)
{
	SpinLockAcquire(&fc_warm->lock);
	fc_warm->info.stamped_at = fc_warm->root.stamp.at;
	fc_warm->info.checkpoint = fc_warm->root.stamp.checkpoint;
	SpinLockRelease(&fc_warm->lock);
}

/* ---- K7 ---- */

/* What the file of the run has to say before a group is written (K14). */
static uint64
how_far(void)
{
	return RecoveryInProgress() ? fc_warm->w : FC_W_PRIMARY;
}

/* For tests. */
static void
crash_at(const char *point)
{
	if (fc_breaks(point))
		abort();
}

FcIo
fc_warm_begin(bool restored)
{
	FcWarmRoot *root;
	FcRunId		run;
	FcIo		io;

	if (fc_warm == NULL || !fc_warm->keep)
		return FC_IO_OK;
	root = &fc_warm->root;
	fc_warm->pending = false;
	fc_directory_touching_ends();
	fc_directory_forget_taken();
	has_next = false;
	takes_over = false;
	if (!pg_strong_random(&run, sizeof(run)))
		return give_up(FC_IO_OK, "could not generate random bytes");
	/* what a block did not say this time it must not say the next time (K18) */
	restored &= !fc_warm->spoilt || fc_breaks("K18-spoilt");
	fc_warm->spoilt = false;
	if (restored)
	{
		/*
		 * the same stamp as was loaded, with what was restored of it: nothing
		 * is of a later group
		 */
		FcWarmStamp stamp = root->stamp;

		io = write_map();
		set_stamp(stamp.checkpoint, &stamp.copy, stamp.timeline);
		root->former = root->run;
	}
	else
	{
		const ControlFileData *c = &fc_warm->control;
		FcWarmRoot	former = *root;

		memset(root, 0, sizeof(*root));
		/* whatever lies there: its numbers are lower */
		root->number = Max(former.number, (uint64) GetCurrentTimestamp());
		root->system_identifier = c->system_identifier;
		root->control_version = c->pg_control_version;
		root->catalog_version = c->catalog_version_no;
		root->checksum_version = c->data_checksum_version;
		fc_warm->group = 0;
		fc_warm->w = 0;
		fc_warm->next = 0;
		fc_warm->stretch = 0;
		io = FC_IO_OK;
		if (!fc_warm->control_read || !pg_strong_random(&root->log, sizeof(root->log)))
			return give_up(FC_IO_OK, "pg_control could not be read");
		/* pages kept while the device was away have no records in it */
		if (fc_directory_linked() > 0)
		{
			fc_directory_taken_all();
			root->doubtful = fc_directory_doubts_restored();
			root->fsync_was_off = former.fsync_was_off;
			memcpy(root->boot_id, former.boot_id, sizeof(root->boot_id));
		}
	}
	root->run = run;
	(void) note_fsync();
	if (io == FC_IO_OK)
		io = write_root();
	if (io != FC_IO_OK)
		return give_up(io, "it could not be written");
	crash_at("crash: bound flash");
	fc_warm->run_w = how_far();
	if (!fc_warm_write_run(&run, fc_warm->run_w))
		return give_up(FC_IO_OK, "\"" FC_RUN_FILE "\" could not be written to the data directory");
	fc_warm->fsync_noted = false;
	fc_warm_remove_stop();		/* of a former run, hence void */
	if (!fc_warm->listed)
		fc_warm_remove_list();
	crash_at("crash: bound file");
	memset(&root->former, 0, sizeof(root->former));
	io = write_root();
	if (io != FC_IO_OK)
		return give_up(io, "it could not be written");
	set_writing(true);
	if (fc_warm->gave_up)
		ereport(LOG, (errmsg("pg_flashcache writes its log again")));
	fc_warm->gave_up = false;
	if (restored)
		show_stamp();
	return FC_IO_OK;
}

/* ---- K4 ---- */

/* Invalid if there is none yet. */
static XLogRecPtr
bound(uint32 *timeline)
{
	ControlFileData control;
	XLogRecPtr	w;

	if (RecoveryInProgress())
	{
		if (!fc_warm_read_control(&control) || control.state != DB_IN_ARCHIVE_RECOVERY)
			return InvalidXLogRecPtr;
		*timeline = fc_warm_timeline();
		return control.minRecoveryPoint;
	}
	*timeline = GetWALInsertionTimeLine();
	w = GetXLogInsertRecPtr();

	/*
	 * at the begin of a page it points behind the page's header, which is not
	 * there yet
	 */
	if (w % XLOG_BLCKSZ == SizeOfXLogShortPHD || XLogSegmentOffset(w, wal_segment_size) == SizeOfXLogLongPHD)
		w -= w % XLOG_BLCKSZ;
	XLogFlush(w);
	return w;
}

bool
fc_warm_writes(void)
{
	return fc_warm != NULL && fc_warm->writing;
}

void
fc_warm_position(uint64 *log, uint64 *group)
{
	bool		writing = fc_warm != NULL && fc_warm->root.number != 0;

	*log = fc_warm_pending() ? FC_EVERY_LOG : writing ? fc_warm->root.log : 0;
	*group = writing ? fc_warm->group : 0;
}

bool
fc_warm_group_unfinished(void)
{
	return unfinished;
}

bool
fc_warm_group_due(void)
{
	if (fc_warm == NULL || !fc_warm->writing)
		return false;
	return fc_directory_taken() >= Max(LEAST_TAKEN, Min(MOST_TAKEN, fc_directory_slots() / 64));
}

FcIo
fc_warm_group(void)
{
	XLogRecPtr	w;
	uint64		far;
	uint32		timeline;
	FcIo		io;

	unfinished = false;
	if (fc_warm == NULL || !fc_warm->writing || fc_directory_taken() == 0)
		return FC_IO_OK;
	io = fc_store_sync(fc_warm_timeout());
	if (io != FC_IO_OK)
		return give_up(io, "it could not be written");
	w = bound(&timeline);		/* K6: all copies have been made */
	if (XLogRecPtrIsInvalid(w))
		return FC_IO_OK;
	fc_warm->w = Max(fc_warm->w, w);
	far = how_far();
	if (far > fc_warm->run_w)
	{
		fc_warm->run_w = far;
		if (!fc_warm_change_run(&fc_warm->root.run, far))
			return give_up(FC_IO_OK, "\"" FC_RUN_FILE "\" could not be written to the data directory");
	}
	if (takes_over)
	{
		/* blocks before that may be missing */
		takes_over = false;
		fc_warm->root.sound = fc_warm->next;
		io = write_root();
	}
	if (io == FC_IO_OK)
	{
		fc_warm->group++;
		fc_failpoint(FC_FP_WARM_GROUP);
		io = fc_warm_write_records(timeline);
	}
	unfinished = fc_directory_taken() > 0;
	return io == FC_IO_OK ? FC_IO_OK : give_up(io, "it could not be written");
}

/* ---- K5 ---- */

static bool
is_new(const ControlFileData *c)
{
	const FcWarmRoot *root = &fc_warm->root;

	return !root->stamped || c->checkPoint != root->stamp.checkpoint ||
		!fc_same_copy(&c->checkPointCopy, &root->stamp.copy);
}

/* pg_control shows a checkpoint that has no stamp: remembers it, and what must have been swept. */
static void
look_at_control(void)
{
	static uint64 looked_at = 0;
	uint64		now = fc_now_ns();
	ControlFileData c;

	if (now - looked_at < LOOK_NS)
		return;
	looked_at = now;
	if (!fc_warm_read_control(&c) || !is_new(&c))
		return;
	if (has_next && c.checkPoint == next.checkPoint &&
		fc_same_copy(&c.checkPointCopy, &next.checkPointCopy))
		return;
	memcpy(&next, &c, sizeof(next));
	next_epoch = fc_directory_epoch();
	has_next = true;
}

static FcIo
make_stamp(void)
{
	FcIo		io = fc_warm_group();
	uint32		timeline = fc_warm_timeline();

	if (io != FC_IO_OK || !fc_warm->writing || fc_directory_taken() > 0)
		return io;
	if (fc_failpoint(FC_FP_WARM_STAMP))
		return FC_IO_OK;
	fc_warm->root.checksum_version = next.data_checksum_version;
	io = write_map();
	set_stamp(next.checkPoint, &next.checkPointCopy, timeline);
	fc_failpoint(FC_FP_WARM_MAP);
	if (io == FC_IO_OK)
		io = write_root();
	if (io != FC_IO_OK)
		return give_up(io, "it could not be written");
	has_next = false;
	show_stamp();
	return FC_IO_OK;
}

void
fc_warm_round_unwritten(void)
{
	static uint64 tried_at = 0;

	if (fc_warm == NULL || fc_warm->writing || fc_warm->fsync_noted)
		return;
	pg_memory_barrier();
	if (!fc_warm->fsync_was_off || fc_now_ns() - tried_at < LOOK_NS)
		return;
	tried_at = fc_now_ns();
	fc_warm->fsync_noted = fc_warm_run_without_fsync();
}

FcIo
fc_warm_round(void)
{
	FcIo		io = FC_IO_OK;

	if (fc_warm == NULL || !fc_warm->writing)
		return FC_IO_OK;
	look_at_control();
	/* after pg_control was read: what it shows may not have been synced */
	if (note_fsync())
	{
		/* both, so that it is known if one of them is spoilt */
		io = write_root();
		if (io == FC_IO_OK)
			io = write_root();
	}
	if (io != FC_IO_OK)
		return give_up(io, "it could not be written");
	if (has_next && (int32) (fc_directory_swept() - next_epoch) >= 0)
		io = make_stamp();
	if (io == FC_IO_OK && fc_warm_group_due())
		io = fc_warm_group();
	return io;
}

/* ---- K12 ---- */

bool
fc_warm_restored_is_wrong(void)
{
	uint64		now;

	if (fc_warm == NULL || fc_warm->info.loaded_at == 0)
		return false;
	now = fc_stats_total(FC_RESTORED_WRONG);
	if (now - fc_warm->wrong_seen < WRONG_LIMIT)
		return false;
	fc_warm->wrong_seen = now;
	return true;
}

void
fc_warm_doubt_ends(void)
{
	if (fc_warm == NULL || fc_warm->pending)
		return;

	/*
	 * with the next root; should the server crash before, they are doubtful
	 * again
	 */
	fc_warm->root.doubtful = false;
	fc_directory_doubt_restored(false);
}

/* ---- the end ---- */

void
fc_warm_leave(void)
{
	uint64		began_at = fc_now_ns();
	FcIo		io;

	if (fc_warm == NULL || !fc_warm->writing)
		return;
	fc_warm_leaving = true;
	do
		io = fc_warm_group();
	while (io == FC_IO_OK && unfinished && fc_now_ns() - began_at < FC_WARM_LEAVE_MS * UINT64CONST(1000000));
	if (io == FC_IO_OK && fc_warm->writing)
		io = write_root();		/* syncs the group, too */
	fc_warm_leaving = false;
	/* what has been invalidated since may be linked still */
	fc_warm->left_epoch = fc_directory_swept();
	pg_memory_barrier();
	fc_warm->left = io == FC_IO_OK && fc_warm->writing && fc_directory_taken() == 0;
}

bool
fc_warm_unfinished(void)
{
	return fc_warm != NULL && fc_warm->writing && !fc_warm->left;
}
