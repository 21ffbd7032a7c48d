/*-------------------------------------------------------------------------
 *
 * warm_journal.c
 *	  The records of slots on flash: blocks that are written one after the
 *	  other, round and round (K4, K18).
 *
 * A record is never changed in place.  Of a slot that has several, the newest
 * counts, and what is overwritten is older than all that is left.  So whatever
 * is lost, no record outlives one that came after it.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "directory/directory.h"
#include "failpoint.h"
#include "postmaster/interrupt.h"
#include "warm/warm_internal.h"

/* A group of the journal, in fc_warm_blocks until it is written. */
typedef struct JournalGroup
{
	uint32		timeline;
	uint32		stretch;		/* whose turn it was when it began */
	int			n;				/* blocks */
} JournalGroup;

/* The one that is being filled in. */
static FcWarmBlock block;

/* ---- writing ---- */

static void
begin_block(const JournalGroup *group, FcSlotNo first, uint32 n)
{
	memset(&block, 0, sizeof(block));
	block.first = first;
	block.log = fc_warm->root.log;
	block.number = fc_warm->next + group->n;
	block.group = fc_warm->group;
	block.w = fc_warm->w;
	block.timeline = group->timeline;
	block.hand = fc_directory_hand();
	block.stretch = group->stretch;
	block.n = n;
}

static void
end_block(JournalGroup *group)
{
	Assert(group->n < FC_STORE_MAX_RUN);
	fc_warm_seal_block(&block);
	memset(fc_warm_blocks[group->n], 0, BLCKSZ);
	memcpy(fc_warm_blocks[group->n++], &block, sizeof(block));
}

static void
put_listed(JournalGroup *group, const FcSlotNo *slots, uint32 n)
{
	begin_block(group, FC_NO_SLOT, n);
	for (uint32 i = 0; i < n; i++)
	{
		block.of.listed[i].slot = slots[i];
		fc_directory_export(slots[i], 1, &block.of.listed[i].record);
	}
	end_block(group);
}

/* It has all that there is to say of these slots, so none of them counts as taken any more. */
static void
put_stretch(JournalGroup *group, uint32 stretch)
{
	FcSlotNo	first = stretch * FC_WARM_RECORDS;
	uint32		n = Min(fc_directory_slots() - first, FC_WARM_RECORDS);

	begin_block(group, first, n);
	fc_directory_export(first, n, block.of.stretch);
	end_block(group);
	fc_directory_forget_run(stretch);
}

/* Of the stretch whose turn it is; has a slot been taken there that is not listed? */
static bool
put_turn(JournalGroup *group)
{
	uint32		stretch = fc_warm->stretch;
	bool		taken = fc_directory_run_taken(stretch) == stretch;

	put_stretch(group, stretch);
	fc_warm->stretch = (stretch + 1) % fc_warm_stretches(fc_directory_slots());
	return taken;
}

FcIo
fc_warm_write_records(uint32 timeline)
{
	uint32		slots = fc_directory_slots();
	uint32		stretches = fc_warm_stretches(slots);
	uint32		blocks = fc_warm_journal_blocks(slots);
	int			most = fc_warm_most_blocks(slots);
	JournalGroup group = {.timeline = timeline,.stretch = fc_warm->stretch};
	uint32		nlisted;
	const FcSlotNo *listed = fc_directory_listed(&nlisted);
	uint64		number = fc_warm->next;
	uint32		taken;
	int			n;

	Assert(fc_warm->writing && fc_directory_is_mine());
	StaticAssertStmt(FC_WARM_MOST_LISTED <= 4 * FC_WARM_LISTED && FC_STORE_MAX_RUN >= 64, "a group of the log does not fit");
	for (uint32 i = 0; i < nlisted; i += FC_WARM_LISTED)
		put_listed(&group, listed + i, Min(nlisted - i, FC_WARM_LISTED));
	fc_directory_forget_listed();
	for (n = fc_breaks("K18-turn") ? 0 : group.n; n > 0; n--)
		(void) put_turn(&group);
	while (group.n + 2 <= most && (taken = fc_directory_run_taken(0)) < stretches)
		if (!put_turn(&group))
			put_stretch(&group, taken);
	Assert(group.n <= most);

	/*
	 * no two blocks get one number, even if another writer has to go on from
	 * here
	 */
	fc_warm->next += group.n;
	for (int i = 0; i < group.n; i += n)
	{
		uint32		place = (number + i) % blocks;
		FcIo		io;

		n = Min(group.n - i, blocks - place);
		io = fc_store_write_log(fc_warm_journal_at(slots) + place, fc_warm_blocks + i, n, fc_warm_timeout());
		if (io != FC_IO_OK)
			return io;
	}
	fc_failpoint(FC_FP_WARM_BLOCKS);
	return FC_IO_OK;
}

/* ---- reading ---- */

FcIo
fc_warm_read_journal(uint32 place, int n)
{
	uint32		first = fc_warm_journal_at(fc_directory_slots()) + place;
	FcIo		io = fc_store_read_log(first, fc_warm_blocks, n, fc_warm_timeout());

	if (io != FC_IO_FAILED)
		return io;

	/*
	 * One that cannot be read costs its records.  Several in a row make the
	 * device go off.
	 */
	for (int i = 0; i < n; i++)
	{
		io = fc_store_read_log(first + i, fc_warm_blocks + i, 1, fc_warm_timeout());
		if (io == FC_IO_BROKEN)
			return io;
		if (io == FC_IO_FAILED)
			memset(fc_warm_blocks[i], 0xFF, BLCKSZ);	/* FC_WARM_UNREADABLE */
	}
	return FC_IO_OK;
}

/*
 * Blocks before root->next are durable, and so is each group when the next one
 * begins.  So what a crash has kept from flash are blocks of one group: where
 * twice as many in a row are not there, the journal ends.  It may have gone
 * round since that root.
 */
FcIo
fc_warm_find_end(const FcWarmRoot *root, uint64 *end)
{
	uint32		slots = fc_directory_slots();
	uint32		blocks = fc_warm_journal_blocks(slots);
	uint64		most = fc_warm_most_blocks(slots);
	uint64		at = root->next;
	int			n;

	for (*end = at; at < *end + 2 * most && !ShutdownRequestPending; at += n)
	{
		uint32		place = at % blocks;
		FcIo		io;

		n = Min(blocks - place, FC_STORE_MAX_RUN);
		io = fc_warm_read_journal(place, n);
		if (io != FC_IO_OK)
			return io;
		for (int i = 0; i < n && at + i < *end + 2 * most; i++)
		{
			memcpy(&block, fc_warm_blocks[i], sizeof(block));
			if (!fc_warm_block_valid(&block, root->log, slots) ||
				block.number < at + i || block.number % blocks != place + i)
				continue;
			Assert(block.number - i >= at);
			at = block.number - i;
			*end = block.number + 1;
		}
	}
	return FC_IO_OK;
}
