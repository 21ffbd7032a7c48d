/*-------------------------------------------------------------------------
 *
 * store_list.h
 *	  Which devices there are beyond the first one, and which chunk of slots
 *	  lies where: kept in a file in the data directory.
 *
 * The list is in shared memory.  The writer changes it, and writes the file; a
 * new writer finds it there, a new server in the file.  What the file says is
 * believed as far as the devices agree: each has a header with an identity, new
 * with each opening, and the list has that of the last one.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_STORE_LIST_H
#define FC_STORE_LIST_H

#include "layout.h"
#include "store/store.h"

#define FC_DEVICES_FILE		"pg_flashcache.devices"

typedef struct FcDeviceEntry
{
	char		path[MAXPGPATH];	/* "": there is none; of the first one
									 * pg_flashcache.file counts */
	uint32		slots;
	bool		disabled;
	bool		opened;			/* it has had that identity */
	uint8		identity[FC_IDENTITY_BYTES];
	bool		adding;			/* it is no device yet: not in the file */
	bool		offered;		/* an opening of which nothing has been heard
								 * may have given it that one */
	uint8		offer[FC_IDENTITY_BYTES];
} FcDeviceEntry;

/*
 * When the chunk got its place, or its device began empty: records of the log up
 * to that group are of what was there before.
 */
typedef struct FcChunkSince
{
	uint64		log;			/* or FC_EVERY_LOG */
	uint64		group;
} FcChunkSince;

/* Of every log that is there by now: the one that is still to be loaded is not known yet. */
#define FC_EVERY_LOG PG_UINT64_MAX

/* As a place in the list: absent. */
#define FC_LIST_NOWHERE PG_UINT32_MAX

typedef struct FcDeviceList
{
	char		magic[16];
	uint32		format;
	uint32		slots;			/* of all chunks */
	FcDeviceEntry device[FC_DEVICES];
	uint32		place[FC_CHUNKS];	/* as store_map.c has it */
	FcChunkSince since[FC_CHUNKS];
	uint32		crc;			/* of everything above; last */
} FcDeviceList;

/* The list in shared memory; NULL without a cache.  Writer only. */
extern FcDeviceList *fc_device_list;

/*
 * Has an entry of it changed since the file was written, by whatever writer?  The
 * file says then what is no longer so.  In shared memory.  Writer only.
 */
extern bool *fc_list_changed;

/* For whoever looks at it: a copy of the entry; false if there is none. */
extern bool fc_list_entry(FcDeviceNo no, FcDeviceEntry *entry);

/* Changes it; "" in the path removes it. */
extern void fc_list_set_entry(FcDeviceNo no, const FcDeviceEntry *entry);

/*
 * Makes sure that there is an identity for the next opening to give it, also to
 * the first device.  True if it is new: then the file is to be written first.
 * It has been given that, or another one: fc_list_take_back().
 */
extern bool fc_list_offer(FcDeviceNo no);
extern void fc_list_take_back(FcDeviceNo no);

/* Reads the file; false if there is none, or it is not good.  `there`: there is one. */
extern bool fc_list_read(FcDeviceList *list, bool *there);

/*
 * Writes it, with the places of this moment, and durably; what is being added
 * is left out.  A list of nothing is no file.
 */
extern bool fc_list_write(void);

/* What the log has of that slot in a block of that group is of this place of its chunk, as far as the list tells. */
extern bool fc_list_believes(FcSlotNo slot, uint64 log, uint64 group);

#endif							/* FC_STORE_LIST_H */
