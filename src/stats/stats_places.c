/*-------------------------------------------------------------------------
 *
 * stats_places.c
 *	  See stats_places.h.
 *
 * Who looks without the lock may follow a place that is being moved into
 * another chain: it then finds nothing, or gives up after MAX_STEPS.  A key is
 * complete before a link leads to it.  `moves` is odd during such a move, and
 * changes with it.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "stats/stats_places.h"

#define MAX_STEPS 64

/* Places that the hand looks at before it takes one that was used. */
#define PATIENCE 32

static const FcKey no_key = {0, 0, 0};

static uint32
chains_for(uint32 nplaces)
{
	return pg_nextpower2_32(Max(nplaces, 16));
}

static Size
places_size(uint32 nplaces)
{
	return add_size(offsetof(FcPlaces, place), mul_size(nplaces, sizeof(FcPlace)));
}

Size
fc_places_size(uint32 nplaces)
{
	return CACHELINEALIGN(add_size(places_size(nplaces), mul_size(chains_for(nplaces), sizeof(pg_atomic_uint32))));
}

/* The last step of murmur3, for 64 bits. */
static inline uint64
mixed(uint64 n)
{
	n ^= n >> 33;
	n *= UINT64CONST(0xff51afd7ed558ccd);
	n ^= n >> 33;
	n *= UINT64CONST(0xc4ceb9fe1a85ec53);
	return n ^ (n >> 33);
}

static pg_atomic_uint32 *
chain_of(FcPlaces *table, const FcKey *key)
{
	pg_atomic_uint32 *chains = (pg_atomic_uint32 *) ((char *) table + places_size(table->nplaces));
	uint64		hash = mixed(key->b ^ mixed(key->a ^ (key->c << 1)));

	return &chains[hash & (table->nchains - 1)];
}

static void
add_free(FcPlaces *table, FcPlace *place)
{
	place->key = no_key;
	pg_atomic_write_u32(&place->next, table->free);
	table->free = (FcPlaceLink) (place - table->place) + 1;
	pg_atomic_fetch_add_u32(&table->nfree, 1);
}

void
fc_places_init(FcPlaces *table, uint32 nplaces)
{
	pg_atomic_uint32 *chains;

	SpinLockInit(&table->lock);
	table->nplaces = nplaces;
	table->nchains = chains_for(nplaces);
	table->hand = 0;
	table->free = 0;
	pg_atomic_init_u32(&table->nfree, 0);
	pg_atomic_init_u32(&table->moves, 0);
	pg_atomic_init_u64(&table->given_up, 0);
	chains = (pg_atomic_uint32 *) ((char *) table + places_size(nplaces));
	for (uint32 i = 0; i < table->nchains; i++)
		pg_atomic_init_u32(&chains[i], 0);
	for (uint32 i = nplaces; i-- > 0;)
	{
		FcPlace    *place = &table->place[i];

		pg_atomic_init_u32(&place->next, 0);
		pg_atomic_init_u32(&place->pins, 0);
		for (int c = 0; c < FC_PLACE_COUNTERS; c++)
			pg_atomic_init_u64(&place->counter[c], 0);
		pg_atomic_init_u64(&place->usage, 0);
		add_free(table, place);
	}
}

static FcPlace *
walk(FcPlaces *table, const FcKey *key, uint32 steps)
{
	FcPlaceLink link = pg_atomic_read_u32(chain_of(table, key));

	for (; link != 0 && steps > 0; steps--)
	{
		FcPlace    *place = &table->place[link - 1];

		if (fc_key_equal(&place->key, key))
			return place;
		link = pg_atomic_read_u32(&place->next);
	}
	return NULL;
}

FcPlace *
fc_places_find(FcPlaces *table, const FcKey *key, bool sure)
{
	uint32		moves = pg_atomic_read_u32(&table->moves);
	FcPlace    *place;

	pg_read_barrier();
	place = walk(table, key, sure ? table->nplaces : MAX_STEPS);
	if (place != NULL || !sure)
		return place;
	/* no chain has changed but at its beginning: it has none */
	pg_read_barrier();
	if (moves % 2 == 0 && pg_atomic_read_u32(&table->moves) == moves)
		return NULL;
	SpinLockAcquire(&table->lock);
	place = walk(table, key, table->nplaces);
	SpinLockRelease(&table->lock);
	return place;
}

FcPlace *
fc_places_get(FcPlaces *table, const FcKey *key)
{
	FcPlace    *place = walk(table, key, MAX_STEPS);
	pg_atomic_uint32 *chain;

	/* full is what it stays, mostly: no need for the lock to see that */
	if (place != NULL || pg_atomic_read_u32(&table->nfree) == 0)
		return place;
	SpinLockAcquire(&table->lock);
	place = walk(table, key, table->nplaces);
	if (place == NULL && pg_atomic_read_u32(&table->nfree) > 0)
	{
		place = &table->place[table->free - 1];
		table->free = pg_atomic_read_u32(&place->next);
		pg_atomic_fetch_sub_u32(&table->nfree, 1);
		for (int c = 0; c < FC_PLACE_COUNTERS; c++)
			pg_atomic_write_u64(&place->counter[c], 0);
		pg_atomic_write_u64(&place->usage, 0);
		chain = chain_of(table, key);
		pg_atomic_write_u32(&place->next, pg_atomic_read_u32(chain));
		place->key = *key;
		pg_write_barrier();
		pg_atomic_write_u32(chain, (FcPlaceLink) (place - table->place) + 1);
	}
	SpinLockRelease(&table->lock);
	return place;
}

/* Under the lock.  False if somebody has pinned it. */
static bool
give_up(FcPlaces *table, FcPlace *place, FcPlace *heir)
{
	FcKey		key = place->key;
	FcPlaceLink number = (FcPlaceLink) (place - table->place) + 1;
	pg_atomic_uint32 *link = chain_of(table, &key);

	pg_atomic_fetch_add_u32(&table->moves, 1);
	place->key = no_key;
	pg_memory_barrier();		/* pairs with that of fc_places_pin() */
	if (pg_atomic_read_u32(&place->pins) != 0)
	{
		place->key = key;
		pg_atomic_fetch_add_u32(&table->moves, 1);
		return false;
	}
	while (pg_atomic_read_u32(link) != number)
		link = &table->place[pg_atomic_read_u32(link) - 1].next;
	pg_atomic_write_u32(link, pg_atomic_read_u32(&place->next));
	for (int c = 0; c < FC_PLACE_COUNTERS; c++)
	{
		uint64		n = pg_atomic_exchange_u64(&place->counter[c], 0);

		if (heir != NULL && n != 0)
			pg_atomic_fetch_add_u64(&heir->counter[c], n);
	}
	add_free(table, place);
	pg_atomic_fetch_add_u32(&table->moves, 1);
	return true;
}

void
fc_places_give_up(FcPlaces *table, const FcKey *key, FcPlace *heir)
{
	FcPlace    *place;

	SpinLockAcquire(&table->lock);
	place = walk(table, key, table->nplaces);
	if (place != NULL)
		(void) give_up(table, place, heir);
	SpinLockRelease(&table->lock);
}

void
fc_places_make_room(FcPlaces *table)
{
	FcPlace    *least = NULL;
	uint64		least_used = 0;

	SpinLockAcquire(&table->lock);
	for (int looked = 0; looked < PATIENCE && table->free == 0; looked++)
	{
		FcPlace    *place = &table->place[table->hand];
		uint64		used = pg_atomic_read_u64(&place->usage);

		table->hand = table->hand + 1 < table->nplaces ? table->hand + 1 : 0;
		if (least == NULL || used < least_used)
		{
			least = place;
			least_used = used;
		}
		if (used == 0)
			break;
		pg_atomic_write_u64(&place->usage, used / 2);
	}
	if (least != NULL && table->free == 0 && give_up(table, least, NULL))
		pg_atomic_fetch_add_u64(&table->given_up, 1);
	SpinLockRelease(&table->lock);
}

void
fc_places_reset(FcPlaces *table)
{
	for (uint32 i = 0; i < table->nplaces; i++)
		for (int c = 0; c < FC_PLACE_COUNTERS; c++)
			(void) pg_atomic_exchange_u64(&table->place[i].counter[c], 0);
	(void) pg_atomic_exchange_u64(&table->given_up, 0);
}

bool
fc_places_read(FcPlaces *table, uint32 number, FcKey *key, uint64 *counter)
{
	FcPlace    *place = &table->place[number];
	bool		used;

	*key = place->key;
	if (fc_key_equal(key, &no_key) || !fc_places_pin(place, key))
		return false;
	/* pinned: what the key is now, it stays */
	*key = place->key;
	used = !fc_key_equal(key, &no_key);
	for (int c = 0; c < FC_PLACE_COUNTERS; c++)
		counter[c] = pg_atomic_read_u64(&place->counter[c]);
	fc_places_unpin(place);
	return used;
}
