/*-------------------------------------------------------------------------
 *
 * directory_epochs.c
 *	  See directory_epochs.h.
 *
 * A set has 8 places, each with a relation or a database and the epoch of its
 * last invalidation.  (Without its tablespace: file numbers of one database in
 * two tablespaces are hardly ever the same.)  A place is free when that is not after `settled`: the
 * epoch in which the last but one sweep began.  (The last would do for
 * entries; but a guard may be as old as a round of the writer, and is turned
 * down only when it is older than `settled`.)  For each set beside that:
 *	newest	the epoch of the last invalidation in it.  Mostly older than the
 *			entry that is asked for, and then nothing else is looked at.
 *	crowded the epoch in which no place was free the last time.
 * Which set it is depends on random numbers drawn at start: file numbers are
 * known to everybody, and whoever may make tables could otherwise crowd the set
 * of a relation, or of a whole database, that is not his.
 *
 * What orders it.  An invalidation writes its place and its set, then, after a
 * write barrier, the epoch.  So who reads the epoch, and looks after a read
 * barrier, sees all invalidations up to it; F6 and the sweep date entries
 * so.  Who must see an invalidation otherwise comes after it by a lock of the
 * server (src/appendix.md, "Atomics").
 *
 * A place is reused under the eyes of those who look.  Its epoch is first set
 * to `settled`, then the relation changes, then the epoch of now is written;
 * who looks reads the epoch first.  So nobody takes a new epoch for that of the
 * former relation.  And the former relation misses nothing: before a place
 * becomes free, all sets are given `settled` as the epoch in which they were
 * crowded (settle()), so whoever looks with an older one finds it ended.
 *
 * Epochs are compared by their distance from the present one, and wrap around;
 * see FC_EPOCHS_UNSWEPT.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "directory/directory_epochs.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "stats/stats.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

#define PLACES 8
#define MIN_SETS 2048
#define MAX_SETS 8192

/*
 * A sweep is urgent when one place in so many is taken since the last.  Places
 * become free by the second sweep, so twice as many are taken when the writer
 * comes at once: one a set, and 9 in one set once in a million.
 */
#define URGENT_SHARE 16

typedef struct Place
{
	Oid			db;
	Oid			rel;			/* 0: the whole database */
	pg_atomic_uint32 epoch;
} Place;

typedef struct Set
{
	pg_atomic_uint32 newest;
	pg_atomic_uint32 crowded;
} Set;

typedef struct Epochs
{
	pg_atomic_uint32 now;
	slock_t		lock;			/* held to change it, and places and sets */
	char		pad[PG_CACHE_LINE_SIZE];
	uint32		nsets;			/* power of 2 */
	uint32		seed[2];		/* of the hash, drawn at start */
	pg_atomic_uint32 swept;		/* when the last complete sweep began */
	pg_atomic_uint32 settled;	/* when the one before that began */
	pg_atomic_uint32 overrun;	/* so many since a sweep that they might come
								 * round; never taken back */
} Epochs;

static Epochs *epochs;
static Set *sets;
static Place *places;

/* One set for each 128 slots, 0.8 bytes a slot; small caches have 2,048 as well, 210 kB. */
static uint32
sets_for(uint32 slots)
{
	uint32		n = MIN_SETS;

	while (n * 2 <= slots / 128 && n < MAX_SETS)
		n *= 2;
	return n;
}

Size
fc_epochs_size(uint32 slots)
{
	return CACHELINEALIGN(sizeof(Epochs)) +
		CACHELINEALIGN(sets_for(slots) * sizeof(Set)) +
		CACHELINEALIGN((Size) sets_for(slots) * PLACES * sizeof(Place));
}

/* Lets all that is not after `epoch` be of that epoch, as seen from the present one. */
static void
settle(uint32 epoch)
{
	for (uint32 i = 0; i < epochs->nsets; i++)
	{
		pg_atomic_uint32 *word[PLACES + 2] = {&sets[i].newest, &sets[i].crowded};
		uint32		now;

		for (int j = 0; j < PLACES; j++)
			word[2 + j] = &places[(Size) i * PLACES + j].epoch;
		SpinLockAcquire(&epochs->lock);
		now = pg_atomic_read_u32(&epochs->now);
		for (int j = 0; j < PLACES + 2; j++)
			if (now - pg_atomic_read_u32(word[j]) > now - epoch)
				pg_atomic_write_u32(word[j], epoch);
		SpinLockRelease(&epochs->lock);
	}
}

void
fc_epochs_init(void *memory, uint32 slots)
{
	char	   *p = memory;

	epochs = memory;
	p += CACHELINEALIGN(sizeof(Epochs));
	sets = (Set *) p;
	p += CACHELINEALIGN(sets_for(slots) * sizeof(Set));
	places = (Place *) p;

	SpinLockInit(&epochs->lock);
	epochs->nsets = sets_for(slots);
	Assert((epochs->nsets & (epochs->nsets - 1)) == 0);
	if (!pg_strong_random(epochs->seed, sizeof(epochs->seed)))
	{
		epochs->seed[0] = (uint32) GetCurrentTimestamp();
		epochs->seed[1] = (uint32) MyProcPid;
	}
	pg_atomic_init_u32(&epochs->now, FC_START_32);
	pg_atomic_init_u32(&epochs->swept, FC_START_32);
	pg_atomic_init_u32(&epochs->settled, FC_START_32);
	pg_atomic_init_u32(&epochs->overrun, 0);
	if (FC_START != 0)
		settle(FC_START_32);
}

uint32
fc_epoch_now(void)
{
	return pg_atomic_read_u32(&epochs->now);
}

static inline Place *
places_of(uint32 set)
{
	Assert(set < epochs->nsets);
	return &places[(Size) set * PLACES];
}

static inline bool
is_after(uint32 a, uint32 b)
{
	return (int32) (a - b) > 0;
}

static inline uint32
set_of(Oid db, Oid rel)
{
	return hash_combine(murmurhash32(rel ^ epochs->seed[0]), murmurhash32(db ^ epochs->seed[1])) & (epochs->nsets - 1);
}

/* The place of the relation; else one that is free; else NULL.  Caller holds the lock. */
static Place *
find_place(uint32 set, Oid db, Oid rel, uint32 settled)
{
	Place	   *free = NULL;

	for (Place *place = places_of(set); place < places_of(set) + PLACES; place++)
	{
		if (place->rel == rel && place->db == db)
			return place;
		if (!is_after(pg_atomic_read_u32(&place->epoch), settled))
			free = place;
	}
	if (free == NULL)
		return NULL;
	pg_atomic_write_u32(&free->epoch, settled);
	pg_write_barrier();
	free->db = db;
	free->rel = rel;
	pg_write_barrier();
	return free;
}

static uint32
invalidate(Oid db, Oid rel)
{
	uint32		set = set_of(db, rel);
	uint32		now;
	uint32		settled;
	Place	   *place;

	SpinLockAcquire(&epochs->lock);
	now = pg_atomic_read_u32(&epochs->now) + 1;
	settled = pg_atomic_read_u32(&epochs->settled);
	place = find_place(set, db, rel, settled);
	pg_atomic_write_u32(place != NULL ? &place->epoch : &sets[set].crowded, now);
	pg_write_barrier();
	pg_atomic_write_u32(&sets[set].newest, now);
	pg_write_barrier();
	pg_atomic_write_u32(&epochs->now, now);
	SpinLockRelease(&epochs->lock);
	if (unlikely(now - settled >= FC_EPOCHS_UNSWEPT))
		pg_atomic_write_u32(&epochs->overrun, 1);
	pg_memory_barrier();
	if (place == NULL)
		fc_count(FC_EPOCHS_CROWDED);
	return now - settled;
}

uint32
fc_epoch_invalidate(FcRel rel)
{
	Assert(OidIsValid(rel.rel));
	return invalidate(rel.db, rel.rel);
}

uint32
fc_epoch_invalidate_database(Oid db)
{
	Assert(OidIsValid(db));
	return invalidate(db, InvalidOid);
}

static bool
was_invalidated(Oid db, Oid rel, uint32 since)
{
	uint32		set = set_of(db, rel);

	if (likely(!is_after(pg_atomic_read_u32(&sets[set].newest), since)))
		return false;
	pg_read_barrier();
	if (is_after(pg_atomic_read_u32(&sets[set].crowded), since))
		return true;
	for (Place *place = places_of(set); place < places_of(set) + PLACES; place++)
	{
		if (!is_after(pg_atomic_read_u32(&place->epoch), since))
			continue;
		pg_read_barrier();		/* pairs with those of find_place() */
		if (place->rel == rel && place->db == db)
			return true;
	}
	return false;
}

bool
fc_epoch_ended(FcRel rel, uint32 since)
{
	return was_invalidated(rel.db, rel.rel, since) || was_invalidated(rel.db, InvalidOid, since);
}

bool
fc_epochs_sweep_wanted(void)
{
	return fc_epoch_now() != pg_atomic_read_u32(&epochs->swept);
}

bool
fc_epochs_sweep_urgent(void)
{
	return fc_epoch_now() - pg_atomic_read_u32(&epochs->swept) >= epochs->nsets * PLACES / URGENT_SHARE;
}

bool
fc_epoch_forgotten(uint32 epoch)
{
	return is_after(pg_atomic_read_u32(&epochs->settled), epoch);
}

uint32
fc_epochs_last_swept(void)
{
	return pg_atomic_read_u32(&epochs->swept);
}

/* The present epoch less the first one is less than FC_EPOCHS_UNSWEPT, or it has been more once: `overrun`. */
bool
fc_epochs_whole(void)
{
	return !pg_atomic_read_u32(&epochs->overrun) &&
		pg_atomic_read_u32(&epochs->settled) == FC_START_32;
}

int
fc_epochs_since(uint32 epoch, FcInvalidated *list, int max)
{
	int			n = 0;

	for (uint32 set = 0; set < epochs->nsets; set++)
	{
		if (!is_after(pg_atomic_read_u32(&sets[set].newest), epoch))
			continue;
		if (is_after(pg_atomic_read_u32(&sets[set].crowded), epoch))
			return -1;
		for (Place *place = places_of(set); place < places_of(set) + PLACES; place++)
		{
			if (!is_after(pg_atomic_read_u32(&place->epoch), epoch))
				continue;
			if (n == max)
				return -1;
			list[n].db = place->db;
			list[n++].rel = place->rel;
		}
	}
	return n;
}

void
fc_epochs_swept(uint32 begun)
{
	uint32		settled = pg_atomic_read_u32(&epochs->swept);

	Assert(!is_after(begun, fc_epoch_now()) && !is_after(settled, begun));
	Assert(!is_after(pg_atomic_read_u32(&epochs->settled), settled));

	/*
	 * before a place is free: who comes late with an older epoch finds it
	 * ended in every set
	 */
	settle(settled);
	pg_write_barrier();
	pg_atomic_write_u32(&epochs->settled, settled);
	pg_atomic_write_u32(&epochs->swept, begun);
}

void
fc_epochs_forget(void)
{
	uint32		now = fc_epoch_now();

	Assert(!is_after(pg_atomic_read_u32(&epochs->swept), now));
	settle(now);
	pg_write_barrier();
	pg_atomic_write_u32(&epochs->swept, now);
	pg_atomic_write_u32(&epochs->settled, now);
}
