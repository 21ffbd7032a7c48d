/*-------------------------------------------------------------------------
 *
 * stats_places.h
 *	  Counters by key, in a fixed number of places in shared memory: those of
 *	  relations (stats_relation.c) and of statements (stats_statement.c).
 *
 * A place is found without a lock, and its counters are added to atomically.
 * Places are taken and given up under the table's spinlock, a leaf that is
 * held for a few instructions.
 *
 * Whoever counts in a place that others may give up pins it meanwhile
 * (fc_places_pin); a place with pins is not given up.  Where a place goes only
 * together with what it counts, nobody need pin: the worst that can come of a
 * late count is that it is another place's.
 *
 * Nothing here raises or allocates.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_STATS_PLACES_H
#define FC_STATS_PLACES_H

#include "types.h"

#include "port/atomics.h"
#include "storage/spin.h"

#define FC_PLACE_COUNTERS 10

typedef struct FcKey
{
	uint64		a;				/* all three 0: no key */
	uint64		b;
	uint64		c;
} FcKey;

typedef struct FcPlace
{
	FcKey		key;
	pg_atomic_uint32 next;		/* in its chain, or among those that are free */
	pg_atomic_uint32 pins;
	pg_atomic_uint64 usage;		/* by which places are given up; see there */
	pg_atomic_uint64 counter[FC_PLACE_COUNTERS];	/* the first ones near the
													 * rest */
} FcPlace;

/* A place's number plus 1, or 0. */
typedef uint32 FcPlaceLink;

typedef struct FcPlaces
{
	slock_t		lock;			/* changes of chains and of what is free; leaf */
	uint32		nplaces;
	uint32		nchains;		/* a power of 2 */
	uint32		hand;			/* fc_places_make_room() */
	FcPlaceLink free;
	pg_atomic_uint32 nfree;
	pg_atomic_uint32 moves;		/* odd while a place is taken out of its chain */
	pg_atomic_uint64 given_up;
	FcPlace		place[FLEXIBLE_ARRAY_MEMBER];
	/* then the chains: pg_atomic_uint32[nchains] */
} FcPlaces;

static inline bool
fc_key_equal(const FcKey *x, const FcKey *y)
{
	return x->b == y->b && x->a == y->a && x->c == y->c;
}

extern Size fc_places_size(uint32 nplaces);
extern void fc_places_init(FcPlaces *table, uint32 nplaces);

/*
 * NULL if it has none.  Takes no lock; but where others go at that moment, a
 * place may be overlooked unless it is to be `sure`, which takes the lock then.
 */
extern FcPlace *fc_places_find(FcPlaces *table, const FcKey *key, bool sure);

/* Finds it, or makes one, with counters of 0; NULL if all places are taken. */
extern FcPlace *fc_places_get(FcPlaces *table, const FcKey *key);

/* Gives a place up that nobody has pinned.  Its counters are added to `heir`, which may be NULL. */
extern void fc_places_give_up(FcPlaces *table, const FcKey *key, FcPlace *heir);

/*
 * Gives up a place that was little used: a hand goes round and halves the
 * usage of what it passes, until it finds one whose usage is 0, or has looked
 * at a number of them and takes the least used of these.
 */
extern void fc_places_make_room(FcPlaces *table);

/* Keeps the place from being given up; false if it is no longer the key's. */
static inline bool
fc_places_pin(FcPlace *place, const FcKey *key)
{
	pg_atomic_fetch_add_u32(&place->pins, 1);	/* a full barrier */
	if (likely(fc_key_equal(&place->key, key)))
		return true;
	pg_atomic_fetch_sub_u32(&place->pins, 1);
	return false;
}

static inline void
fc_places_unpin(FcPlace *place)
{
	pg_atomic_fetch_sub_u32(&place->pins, 1);
}

/* Sets all counters to zero; nothing that is counted meanwhile is lost. */
extern void fc_places_reset(FcPlaces *table);

/* Key and counters of a place, by its number; false if it is free. */
extern bool fc_places_read(FcPlaces *table, uint32 number, FcKey *key, uint64 *counter);

#endif							/* FC_STATS_PLACES_H */
