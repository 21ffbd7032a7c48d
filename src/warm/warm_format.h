/*-------------------------------------------------------------------------
 *
 * warm_format.h
 *	  The log as it lies on flash, and the files in the data directory; see
 *	  src/warm.md.
 *
 * In blocks of BLCKSZ behind the last slot: two roots, two maps, the journal.
 * Everything begins as zeros, padding included, before it is filled in and its
 * CRC computed.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_WARM_FORMAT_H
#define FC_WARM_FORMAT_H

#include "postgres.h"

#include "catalog/pg_control.h"
#include "datatype/timestamp.h"
#include "directory/directory.h"

#define FC_WARM_MAGIC		"fc warm root\n\032\001"
#define FC_WARM_FORMAT		3

#define FC_WARM_ROOTS		2
#define FC_WARM_MAPS		2
#define FC_WARM_RECORDS		406 /* of a stretch */
#define FC_WARM_LISTED		339 /* of slots here and there */
#define FC_WARM_MOST_LISTED	(3 * FC_WARM_LISTED)	/* in a group */
#define FC_WARM_MAP_SLOTS	(BLCKSZ * 8)

/* In place of the identity of the log in a block that could not be read. */
#define FC_WARM_UNREADABLE	PG_UINT64_MAX

#define FC_RUN_BYTES		16
#define FC_BOOT_ID_BYTES	40

/* A run of the server; all zeros is none. */
typedef struct FcRunId
{
	uint8		byte[FC_RUN_BYTES];
} FcRunId;

/* Which slots held current pages when pg_control showed that checkpoint. */
typedef struct FcWarmStamp
{
	XLogRecPtr	checkpoint;
	CheckPoint	copy;			/* of pg_control */
	uint64		group;			/* the last group before it */
	uint32		timeline;		/* of that moment */
	uint32		hand;			/* of the clock */
	TimestampTz at;
} FcWarmStamp;

typedef struct FcWarmRoot
{
	char		magic[16];
	uint32		format;
	uint32		slots;
	uint64		number;			/* of the root; the higher one counts */
	uint64		log;			/* its identity, random */
	uint64		next;			/* blocks of the journal before that number
								 * are durable, and from this one on */
	uint64		sound;			/* all of them were written (K18) */
	FcRunId		run;
	FcRunId		former;			/* K7, while binding; else none */
	uint64		system_identifier;
	uint32		control_version;
	uint32		catalog_version;
	uint32		checksum_version;
	uint64		w;				/* K6, the largest so far */
	bool		stamped;
	bool		fsync_was_off;	/* K9, since the log was begun */
	bool		doubtful;		/* K12, since then */
	uint8		map;			/* which of the two */
	uint32		map_crc;
	char		boot_id[FC_BOOT_ID_BYTES];	/* when it was off */
	FcWarmStamp stamp;
	uint32		crc;			/* of everything above; last */
} FcWarmRoot;

StaticAssertDecl(sizeof(FcWarmRoot) <= 4096, "the log's root has grown");

typedef struct FcListed
{
	FcSlotNo	slot;
	FcRecord	record;
} FcListed;

/* Of the journal (K18): the records of a stretch of slots, or of those that are listed. */
typedef struct FcWarmBlock
{
	uint32		crc;			/* of everything after it */
	FcSlotNo	first;			/* of the stretch, or FC_NO_SLOT */
	uint64		log;
	uint64		number;			/* blocks written before it */
	uint64		group;
	uint64		w;
	uint32		timeline;
	uint32		hand;			/* of the clock */
	uint32		stretch;		/* whose turn it was when the group began */
	uint32		n;				/* records */
	union
	{
		FcRecord	stretch[FC_WARM_RECORDS];
		FcListed	listed[FC_WARM_LISTED];
	}			of;
} FcWarmBlock;

StaticAssertDecl(sizeof(FcRecord) == 20, "a record of the log has grown");
StaticAssertDecl(sizeof(FcWarmBlock) <= BLCKSZ, "a block of the log has grown");

/* In the data directory: the run (K7), and how far its log may go (K14). */
#define FC_RUN_FILE		"pg_flashcache.run"

typedef struct FcWarmRun
{
	char		magic[16];
	FcRunId		run;
	uint64		w;				/* the largest, or: */
	char		fsync_off[FC_BOOT_ID_BYTES];	/* K9: the boot in which it
												 * was, while the log was not
												 * written; else "" */
	uint32		crc;
} FcWarmRun;

/* Of a primary. */
#define FC_W_PRIMARY	PG_UINT64_MAX

/* And the clean stop (K10): this, the map, and what was invalidated. */
#define FC_STOP_FILE	"pg_flashcache.stop"

typedef struct FcWarmStop
{
	char		magic[16];
	uint32		format;
	uint32		slots;
	uint64		log;
	FcRunId		run;
	uint64		root;			/* the number of the last one */
	FcWarmStamp stamp;
	uint32		ninvalidated;
	uint32		crc;			/* of what is above and of what follows */
} FcWarmStop;

/* And shared_buffers (K13): this, and the slots that had their pages, the hottest first. */
#define FC_LIST_FILE	"pg_flashcache.buffers"

typedef struct FcWarmList
{
	char		magic[16];
	uint32		format;
	uint32		slots;
	uint64		log;
	FcRunId		run;
	uint64		group;			/* the last one of that run */
	uint32		n;				/* of the slots that follow */
	uint32		copied;			/* pages that were copied to flash at that
								 * stop, and */
	uint64		copy_us;		/* how long the stop took for that */
	uint32		crc;			/* of what is above and of what follows */
} FcWarmList;

static inline uint32
fc_warm_stretches(uint32 slots)
{
	return (slots + FC_WARM_RECORDS - 1) / FC_WARM_RECORDS;
}

/*
 * K18: a group has no more blocks, half of them of stretches whose turn it is;
 * at least as many as are listed, and no more than are written at once.
 */
static inline uint32
fc_warm_most_blocks(uint32 slots)
{
	return Max(8, Min(fc_warm_stretches(slots) / 4, 64) & ~UINT32_C(1));
}

/*
 * A block is overwritten when so many others have been written.  Half of these
 * are stretches in turn, hence all of them, and those that count are durable
 * with the next group; another two groups are for what a crash has torn, and
 * is written once more.
 */
static inline uint32
fc_warm_journal_blocks(uint32 slots)
{
	return 2 * fc_warm_stretches(slots) + 4 * fc_warm_most_blocks(slots);
}

static inline uint32
fc_warm_map_blocks(uint32 slots)
{
	return (slots + FC_WARM_MAP_SLOTS - 1) / FC_WARM_MAP_SLOTS;
}

/* The first block of a map, and of the journal. */
static inline uint32
fc_warm_map_at(uint32 slots, int map)
{
	return FC_WARM_ROOTS + map * fc_warm_map_blocks(slots);
}

static inline uint32
fc_warm_journal_at(uint32 slots)
{
	return fc_warm_map_at(slots, FC_WARM_MAPS);
}

/* Fill in the CRC; is it right? */
extern void fc_warm_seal_root(FcWarmRoot *root);
extern bool fc_warm_root_valid(const FcWarmRoot *root, uint32 slots);
extern void fc_warm_seal_block(FcWarmBlock *block);
extern bool fc_warm_block_valid(const FcWarmBlock *block, uint64 log, uint32 slots);
extern void fc_warm_seal_run(FcWarmRun *run);
extern bool fc_warm_run_valid(const FcWarmRun *run);
extern uint32 fc_warm_list_crc(const FcWarmList *list, const FcSlotNo *slot);
extern uint32 fc_warm_stop_crc(const FcWarmStop *stop, const void *map, Size map_bytes, const FcInvalidated *list);

/* Copies of pg_control's, byte by byte: what lies between their members was read and written with them. */
static inline bool
fc_same_copy(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(CheckPoint)) == 0;
}

static inline bool
fc_run_equal(const FcRunId *a, const FcRunId *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

#endif							/* FC_WARM_FORMAT_H */
