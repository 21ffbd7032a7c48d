/*-------------------------------------------------------------------------
 *
 * directory_keep.c
 *	  What is known of slots and pages so that entries survive an end of the
 *	  server (src/warm.md).  directory_restore.c links them again.
 *
 * Two maps in shared memory, where entries are kept; otherwise neither is there.
 * used	one bit a slot: an entry is linked.  Changed under the lock of the
 *		entry's partition, by atomic operations, since neighbours are of other
 *		partitions.
 * touched	four bits a slot, by the hash of a page, 128 kB at least: set
 *		before I2, and read under the lock of the page's partition.  Pages that
 *		share a bit count as touched together.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "directory/directory_internal.h"

static pg_atomic_uint32 *used_map = NULL;
static pg_atomic_uint32 *touched_map = NULL;
static uint32 touched_bits;

/*
 * Of the writer: slots taken since they were last forgotten.  Each is listed as
 * long as there is room; then the run is marked in which it lies.
 */
static FcSlotNo *listed = NULL;
static uint32 most_listed;
static uint32 nlisted;
static uint8 *run_taken = NULL;
static uint32 run_slots;
static uint32 runs_taken;		/* that are marked */
static uint32 unlisted;			/* slots taken in them */

/* ---- shared memory ---- */

static Size
map_bytes(uint32 bits)
{
	return ((Size) bits + 31) / 32 * sizeof(uint32);
}

static uint32
touched_bits_for(uint32 slots)
{
	uint32		n = Max(slots, UINT32_C(1) << 18);

	return n > PG_UINT32_MAX / 4 ? PG_UINT32_MAX : n * 4;
}

Size
fc_keep_size(uint32 slots)
{
	return CACHELINEALIGN(map_bytes(slots)) + CACHELINEALIGN(map_bytes(touched_bits_for(slots)));
}

void
fc_keep_init(void *memory, uint32 slots)
{
	used_map = memory;
	touched_map = (pg_atomic_uint32 *) ((char *) memory + CACHELINEALIGN(map_bytes(slots)));
	touched_bits = touched_bits_for(slots);
}

bool
fc_keep_is_on(void)
{
	return used_map != NULL;
}

/* ---- the maps ---- */

void
fc_keep_used(FcSlotNo slot, bool used)
{
	if (used_map == NULL)
		return;
	if (used)
		pg_atomic_fetch_or_u32(&used_map[slot / 32], UINT32_C(1) << slot % 32);
	else
		pg_atomic_fetch_and_u32(&used_map[slot / 32], ~(UINT32_C(1) << slot % 32));
}

void
fc_keep_taken(FcSlotNo slot)
{
	if (run_taken == NULL)
		return;
	if (nlisted < most_listed)
	{
		listed[nlisted++] = slot;
		return;
	}
	runs_taken += !run_taken[slot / run_slots];
	run_taken[slot / run_slots] = 1;
	unlisted++;
}

const void *
fc_directory_map(Size *bytes)
{
	*bytes = fc_dir != NULL ? map_bytes(fc_dir->slots) : 0;
	return used_map;
}

bool
fc_directory_touching(void)
{
	return fc_dir != NULL && pg_atomic_read_u32(&fc_dir->touching) != 0;
}

/* A full barrier, so that it comes before I2. */
void
fc_directory_note_touched(uint64 hash)
{
	uint32		bit = fc_scaled(hash, touched_bits);

	Assert(touched_map != NULL);
	pg_atomic_fetch_or_u32(&touched_map[bit / 32], UINT32_C(1) << bit % 32);
}

bool
fc_keep_touched(uint64 hash)
{
	uint32		bit = fc_scaled(hash, touched_bits);

	return (pg_atomic_read_u32(&touched_map[bit / 32]) >> bit % 32 & 1) != 0;
}

void
fc_directory_touching_ends(void)
{
	Assert(fc_directory_is_mine());
	pg_atomic_write_u32(&fc_dir->touching, 0);
}

bool
fc_directory_epochs_whole(void)
{
	return fc_epochs_whole();
}

uint32
fc_directory_epoch(void)
{
	return fc_epoch_now();
}

uint32
fc_directory_swept(void)
{
	return fc_epochs_last_swept();
}

int
fc_directory_invalidated(uint32 since, FcInvalidated *list, int max)
{
	return fc_epochs_since(since, list, max);
}

void
fc_directory_doubt_restored(bool doubt)
{
	Assert(fc_directory_is_mine());
	fc_dir->doubtful = doubt;
}

bool
fc_directory_doubts_restored(void)
{
	return fc_dir->restored && fc_dir->doubtful;
}

/* Only what was restored is in use with the first version. */
static bool
is_doubtful(uint32 version)
{
	return version == FC_FIRST_VERSION && fc_directory_doubts_restored();
}

bool
fc_directory_doubtful(const FcSlotRef *ref)
{
	return is_doubtful(ref->version);
}

bool
fc_entry_doubtful(const FcEntry *e)
{
	return is_doubtful(fc_word_version(pg_atomic_read_u32(unconstify(pg_atomic_uint32 *, &e->word))));
}

bool
fc_directory_has_restored(void)
{
	return fc_dir->restored;
}

static uint32
runs(void)
{
	return (fc_dir->slots + run_slots - 1) / run_slots;
}

bool
fc_directory_track(uint32 run, uint32 most)
{
	Assert(fc_directory_is_mine());
	run_slots = run;
	most_listed = most;
	if (listed == NULL)
		listed = calloc(most, sizeof(FcSlotNo));
	if (listed != NULL && run_taken == NULL)
		run_taken = calloc(runs(), 1);
	return run_taken != NULL;
}

uint32
fc_directory_taken(void)
{
	return nlisted + unlisted;
}

const FcSlotNo *
fc_directory_listed(uint32 *n)
{
	*n = nlisted;
	return listed;
}

void
fc_directory_forget_listed(void)
{
	Assert(fc_directory_is_mine());
	nlisted = 0;
}

uint32
fc_directory_run_taken(uint32 from)
{
	uint32		nruns = runs();
	uint8	   *found;

	Assert(fc_directory_is_mine() && run_taken != NULL && from <= nruns);
	found = from < nruns && runs_taken > 0 ? memchr(run_taken + from, 1, nruns - from) : NULL;
	return found != NULL ? found - run_taken : nruns;
}

void
fc_directory_forget_run(uint32 run)
{
	Assert(fc_directory_is_mine() && run_taken != NULL && run < runs());
	runs_taken -= run_taken[run];
	run_taken[run] = 0;
	if (runs_taken == 0)
		unlisted = 0;
}

void
fc_directory_taken_all(void)
{
	Assert(fc_directory_is_mine() && run_taken != NULL);
	fc_directory_forget_taken();
	runs_taken = (fc_reached() + run_slots - 1) / run_slots;
	memset(run_taken, 1, runs_taken);
	unlisted = fc_reached();
}

void
fc_directory_forget_taken(void)
{
	Assert(fc_directory_is_mine() && run_taken != NULL);
	memset(run_taken, 0, runs());
	nlisted = 0;
	runs_taken = 0;
	unlisted = 0;
}

FcSlotNo
fc_directory_hand(void)
{
	return fc_dir->hand;
}

void
fc_directory_set_hand(FcSlotNo slot)
{
	Assert(fc_directory_is_mine() && slot < fc_dir->slots);
	fc_dir->hand = slot;
}
