/*-------------------------------------------------------------------------
 *
 * stats_relation.c
 *	  See stats_relation.h.
 *
 * Place 0 is the rest of databases that have no other; FC_REST_PLACES more
 * are kept for those that have.
 *
 * The writer alone may count for a relation while its file is being removed,
 * since everybody else holds a lock on it: so nobody pins a place, and such a
 * count may come to be that of the next relation in it.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "stats/stats_relation.h"
#include "storage/shmem.h"

/* Places that a process remembers; a power of 2. */
#define REMEMBERED 16

bool		fc_setting_track_relations = true;
int			fc_setting_max_tracked_relations = 10000;

static FcPlaces *table = NULL;
static FcPlace *rest_of_all = NULL;

static FcPlace *remembered[REMEMBERED];

static uint32
nplaces(void)
{
	return (uint32) fc_setting_max_tracked_relations + FC_REST_PLACES + 1;
}

static FcKey
key_of(FcRel rel)
{
	FcKey		key = {((uint64) rel.spc << 32) | rel.db, rel.rel, 1};

	return key;
}

FcPart
fc_stats_relation_part(void)
{
	return fc_part("pg_flashcache relations", fc_places_size(nplaces()));
}

void
fc_stats_relation_shmem_init(void)
{
	FcPart		part = fc_stats_relation_part();
	FcKey		key = key_of(fc_rest_of(InvalidOid));
	bool		found;

	table = ShmemInitStruct(part.name, part.size, &found);
	fc_places_init(table, nplaces());
	rest_of_all = fc_places_get(table, &key, 0);
	memset(remembered, 0, sizeof(remembered));
}

static FcPlace *
rest_place(Oid db)
{
	FcKey		key = key_of(fc_rest_of(db));
	FcPlace    *place = fc_places_get(table, &key, 0);

	return place != NULL ? place : rest_of_all;
}

static FcPlace *
look_up(FcRel rel, bool old)
{
	FcKey		key = key_of(rel);
	FcPlace    *place;
	int			i = (rel.rel ^ (rel.rel >> 4)) % REMEMBERED;

	if (rel.rel == 0)
		return rest_place(rel.db);
	place = remembered[i];
	if (likely(place != NULL && fc_key_equal(&place->key, &key)))
		return place;
	if (old)
		place = fc_places_find(table, &key, true);
	else
		place = fc_places_get(table, &key, FC_REST_PLACES);
	if (place == NULL)
		return rest_place(rel.db);
	remembered[i] = place;
	return place;
}

void
fc_count_relation(FcRel rel, FcRelCounter counter, uint64 n, uint64 and)
{
	FcPlace    *place;

	if (table == NULL || !fc_setting_track_relations)
		return;
	place = look_up(rel, false);
	pg_atomic_fetch_add_u64(&place->counter[counter], n);
	if (and != 0)
		pg_atomic_fetch_add_u64(&place->counter[counter + 1], and);
}

void
fc_count_old_relation(FcRel rel, FcRelCounter counter, uint64 n)
{
	if (table != NULL && fc_setting_track_relations)
		pg_atomic_fetch_add_u64(&look_up(rel, true)->counter[counter], n);
}

void
fc_stats_forget_relation(FcRel rel)
{
	FcKey		key = key_of(rel);

	if (table == NULL || fc_places_find(table, &key, true) == NULL)
		return;
	fc_places_give_up(table, &key, rest_place(rel.db));
}

void
fc_stats_forget_database(Oid db)
{
	if (table == NULL)
		return;
	for (uint32 i = 0; i < table->nplaces; i++)
	{
		FcKey		key = table->place[i].key;

		if (OidIsValid(db) && key.c != 0 && (uint32) key.a == db)
			fc_places_give_up(table, &key, NULL);
	}
}

void
fc_stats_relation_reset(void)
{
	if (table != NULL)
		fc_places_reset(table);
}

uint32
fc_stats_relation_places(void)
{
	return table != NULL ? table->nplaces : 0;
}

bool
fc_stats_relation_read(uint32 place, FcRel *rel, uint64 *counter)
{
	FcKey		key;

	if (!fc_places_read(table, place, &key, counter))
		return false;
	rel->spc = (Oid) (key.a >> 32);
	rel->db = (Oid) key.a;
	rel->rel = (Oid) key.b;
	return true;
}

uint32
fc_stats_relations_tracked(void)
{
	uint32		n = 0;

	for (uint32 i = 0; i < fc_stats_relation_places(); i++)
		if (table->place[i].key.c != 0 && table->place[i].key.b != 0)
			n++;
	return n;
}
