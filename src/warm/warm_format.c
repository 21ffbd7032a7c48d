/*-------------------------------------------------------------------------
 *
 * warm_format.c
 *	  See warm_format.h.  Pure functions.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_crc32c.h"
#include "warm/warm_format.h"

static uint32
crc_of(const void *bytes, size_t n)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, bytes, n);
	FIN_CRC32C(crc);
	return crc;
}

void
fc_warm_seal_root(FcWarmRoot *root)
{
	memcpy(root->magic, FC_WARM_MAGIC, sizeof(FC_WARM_MAGIC));
	root->format = FC_WARM_FORMAT;
	root->crc = crc_of(root, offsetof(FcWarmRoot, crc));
}

bool
fc_warm_root_valid(const FcWarmRoot *root, uint32 slots)
{
	return memcmp(root->magic, FC_WARM_MAGIC, sizeof(FC_WARM_MAGIC)) == 0 &&
		root->crc == crc_of(root, offsetof(FcWarmRoot, crc)) &&
		root->format == FC_WARM_FORMAT && root->slots == slots && root->map < FC_WARM_MAPS;
}

void
fc_warm_seal_block(FcWarmBlock *block)
{
	block->crc = crc_of((char *) block + sizeof(block->crc), sizeof(*block) - sizeof(block->crc));
}

bool
fc_warm_block_valid(const FcWarmBlock *block, uint64 log, uint32 slots)
{
	if (block->log != log ||
		block->crc != crc_of((const char *) block + sizeof(block->crc), sizeof(*block) - sizeof(block->crc)))
		return false;
	if (block->first == FC_NO_SLOT)
		return block->n <= FC_WARM_LISTED;
	return block->n <= FC_WARM_RECORDS && block->first < slots && block->n <= slots - block->first;
}

void
fc_warm_seal_run(FcWarmRun *run)
{
	memcpy(run->magic, FC_WARM_MAGIC, sizeof(FC_WARM_MAGIC));
	run->crc = crc_of(run, offsetof(FcWarmRun, crc));
}

bool
fc_warm_run_valid(const FcWarmRun *run)
{
	return memcmp(run->magic, FC_WARM_MAGIC, sizeof(FC_WARM_MAGIC)) == 0 &&
		run->crc == crc_of(run, offsetof(FcWarmRun, crc));
}

uint32
fc_warm_list_crc(const FcWarmList *list, const FcSlotNo *slot)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, list, offsetof(FcWarmList, crc));
	COMP_CRC32C(crc, slot, (Size) list->n * sizeof(FcSlotNo));
	FIN_CRC32C(crc);
	return crc;
}

uint32
fc_warm_stop_crc(const FcWarmStop *stop, const void *map, Size map_bytes, const FcInvalidated *list)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, stop, offsetof(FcWarmStop, crc));
	COMP_CRC32C(crc, map, map_bytes);
	COMP_CRC32C(crc, list, stop->ninvalidated * sizeof(FcInvalidated));
	FIN_CRC32C(crc);
	return crc;
}
