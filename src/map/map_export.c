/*-------------------------------------------------------------------------
 *
 * map/map_export.c
 *	  Makes the map of this server.
 *
 * What is hottest is in shared_buffers and never comes to flash, and after a
 * failover it is what is asked for first.  Whoever wants gets that as well: its
 * heat is what the buffer pool's clock has counted beyond the first access.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bufscan.h"
#include "catalog/pg_type_d.h"
#include "compat.h"
#include "directory/directory.h"
#include "map/map.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "port/pg_bswap.h"
#include "utils/tuplesort.h"
#include "utils/typcache.h"

/* Slots or frames between two looks for a cancellation. */
#define LOOK 65536

/* What is sorted: a page, as a value of type bytea, whose order is that of its bytes. */
typedef struct Key
{
	char		header[VARHDRSZ];
	uint32		word[4];		/* database, tablespace, file, block; highest
								 * byte first */
	uint8		heat;
} Key;

#define KEY_BYTES (offsetof(Key, heat) + 1)

struct FcMapExport
{
	Tuplesortstate *sort;
	bool		ended;			/* there is no next page */
	FcTag		next;
	int			next_heat;

	/* the range whose rows are being returned */
	FcRel		rel;
	uint32		range;
	int			heat;			/* of the next row; -1: a new range */
	uint8		bits[FC_MAP_HEATS][FC_MAP_BYTES];
};

static void
put_page(Tuplesortstate *sort, const FcTag *tag, uint32 wanted)
{
	Key			key = {0};

	SET_VARSIZE(&key, KEY_BYTES);
	key.word[0] = pg_hton32(tag->db);
	key.word[1] = pg_hton32(tag->spc);
	key.word[2] = pg_hton32(tag->rel);
	key.word[3] = pg_hton32(tag->blk);
	key.heat = (uint8) Min(wanted, FC_MAP_HEATS - 1);
	tuplesort_putdatum(sort, PointerGetDatum(&key), false);
}

static void
put_flash(Tuplesortstate *sort, bool all, Oid db)
{
	for (FcSlotNo slot = 0; slot < fc_directory_slots(); slot++)
	{
		FcPageInfo	page;

		if (slot % LOOK == 0)
			CHECK_FOR_INTERRUPTS();
		if (fc_directory_page(slot, &page) && (all || page.tag.db == db))
			put_page(sort, &page.tag, page.hit ? page.refcount : 0);
	}
}

/* Pages that could be on flash, also those that are dirty or in use. */
static void
put_buffers(Tuplesortstate *sort, bool all, Oid db)
{
	for (uint32 frame = 0; frame < fc_bufscan_frames(); frame++)
	{
		FcTag		tag;
		int			usage;

		if (frame % LOOK == 0)
			CHECK_FOR_INTERRUPTS();
		if (fc_bufscan_look(frame, &tag, &usage) != FC_PEEK_NO && (all || tag.db == db))
			put_page(sort, &tag, (uint32) Max(usage - 1, 0));
	}
}

static void
get_page(FcMapExport *map)
{
	Datum		value;
	bool		isnull;
	Key			key;

	map->ended = !FC_TUPLESORT_GETDATUM(map->sort, &value, &isnull);
	if (map->ended)
		return;
	memcpy(&key, DatumGetPointer(value), KEY_BYTES);
	pfree(DatumGetPointer(value));
	map->next.db = pg_ntoh32(key.word[0]);
	map->next.spc = pg_ntoh32(key.word[1]);
	map->next.rel = pg_ntoh32(key.word[2]);
	map->next.blk = pg_ntoh32(key.word[3]);
	map->next_heat = key.heat;
}

FcMapExport *
fc_map_export_begin(bool all, Oid db, bool buffers)
{
	FcMapExport *map = palloc0(sizeof(FcMapExport));

	map->sort = tuplesort_begin_datum(BYTEAOID, lookup_type_cache(BYTEAOID, TYPECACHE_LT_OPR)->lt_opr,
									  InvalidOid, false, work_mem, NULL, TUPLESORT_NONE);
	put_flash(map->sort, all, db);
	if (buffers)
		put_buffers(map->sort, all, db);
	tuplesort_performsort(map->sort);
	map->heat = -1;
	get_page(map);
	return map;
}

/* Is the next page of the range? */
static bool
in_range(const FcMapExport *map)
{
	return !map->ended && map->next.rel == map->rel.rel && map->next.spc == map->rel.spc &&
		map->next.db == map->rel.db && map->next.blk / FC_MAP_BLOCKS == map->range;
}

static void
next_range(FcMapExport *map)
{
	CHECK_FOR_INTERRUPTS();
	map->rel = fc_tag_rel(&map->next);
	map->range = map->next.blk / FC_MAP_BLOCKS;
	map->heat = FC_MAP_HEATS - 1;
	memset(map->bits, 0, sizeof(map->bits));
	for (; in_range(map); get_page(map))
	{
		uint32		bit = map->next.blk % FC_MAP_BLOCKS;

		/* a page that comes more than once comes with its highest heat last */
		for (int heat = 0; heat < map->next_heat; heat++)
			map->bits[heat][bit / 8] &= (uint8) ~(1 << bit % 8);
		map->bits[map->next_heat][bit / 8] |= (uint8) (1 << bit % 8);
	}
}

/* False: no page of the range has this heat. */
static bool
make_row(const FcMapExport *map, int heat, FcMapRow *row)
{
	const uint8 *bits = map->bits[heat];
	int			from = 0;
	int			to = FC_MAP_BYTES;

	while (from < to && bits[from] == 0)
		from++;
	while (to > from && bits[to - 1] == 0)
		to--;
	row->rel = map->rel;
	row->heat = heat;
	row->first = (int64) map->range * FC_MAP_BLOCKS + (int64) from * 8;
	row->nbytes = to - from;
	memcpy(row->bits, bits + from, row->nbytes);
	row->pages = (int) pg_popcount((const char *) row->bits, row->nbytes);
	return row->pages > 0;
}

bool
fc_map_export_next(FcMapExport *map, FcMapRow *row)
{
	for (;;)
	{
		if (map->heat < 0)
		{
			if (map->ended)
				return false;
			next_range(map);
		}
		while (map->heat >= 0)
			if (make_row(map, map->heat--, row))
				return true;
	}
}

void
fc_map_export_end(FcMapExport *map)
{
	tuplesort_end(map->sort);
	pfree(map);
}
