/*-------------------------------------------------------------------------
 *
 * stats_statement.c
 *	  See stats_statement.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "stats/stats_statement.h"
#include "stats/stats_places.h"
#include "storage/shmem.h"

/* In a key, beside its being of the top level: every key has this bit. */
#define STATEMENT 2

/* Tries to find a place that is not taken away at once. */
#define TRIES 16

StaticAssertDecl(FC_STATEMENT_COUNTERS <= FC_PLACE_COUNTERS, "too many counters of a statement");

int			fc_setting_track_statements = FC_TRACK_STATEMENTS_AUTO;
int			fc_setting_max_tracked_statements = 5000;

static FcPlaces *table = NULL;

/*
 * Where this process has counted lately: a session executes few statements,
 * again and again.  A place may be another's by now: its key says whose it is.
 */
#define RECENT 8
static FcPlace *recent[RECENT];

FcPart
fc_stats_statement_part(void)
{
	return fc_part("pg_flashcache statements", fc_places_size(fc_setting_max_tracked_statements));
}

void
fc_stats_statement_shmem_init(void)
{
	FcPart		part = fc_stats_statement_part();
	bool		found;

	table = ShmemInitStruct(part.name, part.size, &found);
	fc_places_init(table, fc_setting_max_tracked_statements);
}

bool
fc_stats_statements_counted(void)
{
	return table != NULL;
}

static void
add(FcPlace *place, const FcReads *reads)
{
	const uint64 *c = reads->counter;
	const uint64 n[FC_STATEMENT_COUNTERS] = {
		[FC_STATEMENT_CALLS] = 1,
		[FC_STATEMENT_HITS] = c[FC_HITS],
		[FC_STATEMENT_READ_NS] = c[FC_READ_NS],
		[FC_STATEMENT_DISK_READS] = c[FC_DISK_READS],
		[FC_STATEMENT_DISK_READ_NS] = c[FC_DISK_READ_NS],
		[FC_STATEMENT_OS_CACHE_HITS] = c[FC_OS_CACHE_HITS],
		[FC_STATEMENT_MISSES] = c[FC_MISSES],
	};

	for (int i = 0; i < FC_STATEMENT_COUNTERS; i++)
		if (n[i] != 0)
			pg_atomic_fetch_add_u64(&place->counter[i], n[i]);
	/* for make_room() alone: a lost race loses a use */
	pg_atomic_write_u64(&place->usage, pg_atomic_read_u64(&place->usage) + 1 + c[FC_HITS] + c[FC_DISK_READS]);
}

static bool
add_if_still(FcPlace *place, const FcKey *key, const FcReads *reads)
{
	if (!fc_places_pin(place, key))
		return false;
	add(place, reads);
	fc_places_unpin(place);
	return true;
}

void
fc_count_statement(const FcStatement *statement, const FcReads *reads)
{
	FcKey		key = {((uint64) statement->user << 32) | statement->db, statement->query, STATEMENT | statement->toplevel};
	FcPlace   **lately = &recent[statement->query % RECENT];

	if (table == NULL)
		return;
	if (*lately != NULL && fc_key_equal(&(*lately)->key, &key) && add_if_still(*lately, &key, reads))
		return;
	for (int i = 0; i < TRIES; i++)
	{
		FcPlace    *place = fc_places_get(table, &key);

		if (place == NULL)
			fc_places_make_room(table);
		else if (add_if_still(place, &key, reads))
		{
			*lately = place;
			return;
		}
	}
}

void
fc_stats_statement_reset(void)
{
	if (table == NULL)
		return;
	for (uint32 i = 0; i < table->nplaces; i++)
	{
		FcKey		key = table->place[i].key;

		if (key.c != 0)
			fc_places_give_up(table, &key, NULL);
	}
	fc_places_reset(table);		/* who was just being counted */
}

uint32
fc_stats_statement_places(void)
{
	return table != NULL ? table->nplaces : 0;
}

bool
fc_stats_statement_read(uint32 place, FcStatement *statement, uint64 *counter)
{
	FcKey		key;

	if (!fc_places_read(table, place, &key, counter) || counter[FC_STATEMENT_CALLS] == 0)
		return false;
	statement->user = (Oid) (key.a >> 32);
	statement->db = (Oid) key.a;
	statement->query = key.b;
	statement->toplevel = (key.c & 1) != 0;
	return true;
}

uint32
fc_stats_statements_tracked(uint64 *given_up)
{
	*given_up = 0;
	if (table == NULL)
		return 0;
	*given_up = pg_atomic_read_u64(&table->given_up);
	return table->nplaces - pg_atomic_read_u32(&table->nfree);
}
