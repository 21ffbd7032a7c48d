/*-------------------------------------------------------------------------
 *
 * stats_relation.c
 *	  See stats_relation.h.
 *
 * The rests have a table of their own.  The first place of that is the rest of
 * databases for which there was none.
 *
 * The writer alone may count for a relation while its file is being removed.
 * Whoever reads or extends it holds a lock on it.  Who writes a page of it need
 * not, as the checkpointer; but the page is under I/O until it has been counted,
 * and that is waited for before the file goes.  So nobody pins a place, and a
 * count of the writer's may come to be that of the next relation in it.
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

/* One of so many places is kept for relations that are read. */
#define KEPT_FOR_READ 4

bool		fc_setting_track_relations = true;
int			fc_setting_max_tracked_relations = 10000;

static FcPlaces *table = NULL;
static FcPlaces *rests = NULL;
static FcPlace *rest_of_all = NULL;

static FcPlace *remembered[REMEMBERED];

static FcKey
key_of(FcRel rel)
{
	FcKey		key = {((uint64) rel.spc << 32) | rel.db, rel.rel, 1};

	return key;
}

FcPart
fc_stats_relation_part(void)
{
	return fc_part("pg_flashcache relations",
				   add_size(fc_places_size(fc_setting_max_tracked_relations), fc_places_size(FC_REST_PLACES)));
}

void
fc_stats_relation_shmem_init(void)
{
	FcPart		part = fc_stats_relation_part();
	FcKey		key = key_of(fc_rest_of(InvalidOid));
	bool		found;

	table = ShmemInitStruct(part.name, part.size, &found);
	fc_places_init(table, fc_setting_max_tracked_relations);
	rests = (FcPlaces *) ((char *) table + fc_places_size(fc_setting_max_tracked_relations));
	fc_places_init(rests, FC_REST_PLACES);
	rest_of_all = fc_places_get(rests, &key);
	memset(remembered, 0, sizeof(remembered));
}

static FcPlace *
rest_place(Oid db)
{
	FcKey		key = key_of(fc_rest_of(db));
	FcPlace    *place = fc_places_get(rests, &key);

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
		place = fc_places_get(table, &key);
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
fc_count_written_relation(FcRel rel, FcRelCounter counter, uint64 n)
{
	if (table != NULL && pg_atomic_read_u32(&table->nfree) > table->nplaces / KEPT_FOR_READ)
		fc_count_relation(rel, counter, n, 0);
	else
		fc_count_old_relation(rel, counter, n);
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
	FcKey		rest = key_of(fc_rest_of(db));

	if (table == NULL || !OidIsValid(db))
		return;
	for (uint32 i = 0; i < table->nplaces; i++)
	{
		FcKey		key = table->place[i].key;

		if (key.c != 0 && (uint32) key.a == db)
			fc_places_give_up(table, &key, NULL);
	}
	fc_places_give_up(rests, &rest, NULL);
}

void
fc_stats_relation_reset(void)
{
	if (table == NULL)
		return;
	fc_places_reset(table);
	fc_places_reset(rests);
}

uint32
fc_stats_relation_places(void)
{
	return table != NULL ? table->nplaces + rests->nplaces : 0;
}

bool
fc_stats_relation_read(uint32 place, FcRel *rel, uint64 *counter)
{
	FcKey		key;

	if (place < table->nplaces ? !fc_places_read(table, place, &key, counter) :
		!fc_places_read(rests, place - table->nplaces, &key, counter))
		return false;
	rel->spc = (Oid) (key.a >> 32);
	rel->db = (Oid) key.a;
	rel->rel = (Oid) key.b;
	return true;
}

uint32
fc_stats_relations_tracked(void)
{
	return table != NULL ? table->nplaces - pg_atomic_read_u32(&table->nfree) : 0;
}
