/*-------------------------------------------------------------------------
 *
 * layout.h
 *	  What lies where on the flash device.
 *
 *		offset 0			header (one 4 kB block used, the rest reserved)
 *		FC_HEADER_BYTES		slot 0
 *		+ n * BLCKSZ		slot n
 *		behind the last		the log, where entries are kept (warm/warm_format.h)
 *
 * The header says "this file is a cache": it keeps a mistyped path from
 * overwriting somebody's data.  And its identity, random and new with each
 * opening, says "this is the very cache that I opened": before the device is
 * written to again after it was out of sight, the whole block must be what
 * was written then.  Nothing else read from the device is believed without
 * the checksum and version held in shared memory.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_LAYOUT_H
#define FC_LAYOUT_H

#include "types.h"

#define FC_MAGIC			"pg_flashcache\n\032"	/* with its zero byte, 16 */
#define FC_LAYOUT_VERSION	3	/* 1 had no identity, 2 no log */
#define FC_HEADER_BYTES		65536	/* keeps slots aligned to flash pages */
#define FC_HEADER_BLOCK		4096
#define FC_IDENTITY_BYTES	16

/*
 * A device without a header must be empty so far from its start.  Many file
 * systems and volume managers leave the first blocks alone: Btrfs begins at
 * 64 kB, ZFS at 16 kB, software RAID at 4 kB.  A file is looked at in so many
 * places beyond that as well.
 */
#define FC_EMPTY_BYTES		1048576
#define FC_EMPTY_PLACES		64

typedef struct FcHeader
{
	char		magic[16];
	uint32		layout_version;
	uint32		block_size;		/* BLCKSZ of the server that made it */
	uint64		slots;
	uint32		crc;			/* of everything above, in all layout versions */
	uint8		identity[FC_IDENTITY_BYTES];
} FcHeader;

StaticAssertDecl(sizeof(FC_MAGIC) <= sizeof(((FcHeader *) 0)->magic), "magic does not fit");

/* Is what was read of the first block a header of ours, of any size and version? */
extern bool fc_layout_is_header(const char *block, size_t len);

/* Are these bytes zeros? */
extern bool fc_layout_is_empty(const char *bytes, size_t len);

/* Makes the first block; `block` is aligned to 8 bytes at least. */
extern void fc_layout_make_header(char *block, uint32 slots, const uint8 *identity);

/* Is it the very header that this makes, for whatever number of slots? */
extern bool fc_layout_has_identity(const char *block, size_t len, const uint8 *identity);

static inline off_t
fc_slot_offset(FcSlotNo slot)
{
	return FC_HEADER_BYTES + (off_t) slot * BLCKSZ;
}

static inline off_t
fc_layout_bytes(uint32 slots, uint32 log_blocks)
{
	return fc_slot_offset(slots) + (off_t) log_blocks * BLCKSZ;
}

#endif							/* FC_LAYOUT_H */
