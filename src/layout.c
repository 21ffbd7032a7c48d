/*-------------------------------------------------------------------------
 *
 * layout.c
 *	  See layout.h.  Calls nothing of the server, so that test/fuzz can run it
 *	  alone.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "layout.h"
#include "port/pg_crc32c.h"

static pg_crc32c
header_crc(const FcHeader *header)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, header, offsetof(FcHeader, crc));
	FIN_CRC32C(crc);
	return crc;
}

bool
fc_layout_is_header(const char *block, size_t len)
{
	FcHeader	header;

	if (len < sizeof(header))
		return false;
	memcpy(&header, block, sizeof(header));
	return memcmp(header.magic, FC_MAGIC, sizeof(FC_MAGIC)) == 0 && header.crc == header_crc(&header);
}

bool
fc_layout_is_empty(const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i] != 0)
			return false;
	return true;
}

void
fc_layout_make_header(char *block, uint32 slots, const uint8 *identity)
{
	FcHeader   *header = (FcHeader *) block;

	memset(block, 0, FC_HEADER_BLOCK);
	memcpy(header->magic, FC_MAGIC, sizeof(FC_MAGIC));
	header->layout_version = FC_LAYOUT_VERSION;
	header->block_size = BLCKSZ;
	header->slots = slots;
	header->crc = header_crc(header);
	memcpy(header->identity, identity, FC_IDENTITY_BYTES);
}

bool
fc_layout_has_identity(const char *block, size_t len, const uint8 *identity)
{
	static char wanted[FC_HEADER_BLOCK] pg_attribute_aligned(8);
	FcHeader	header;

	if (len < FC_HEADER_BLOCK || !fc_layout_is_header(block, len))
		return false;
	memcpy(&header, block, sizeof(header));
	fc_layout_make_header(wanted, (uint32) header.slots, identity);
	return memcmp(wanted, block, FC_HEADER_BLOCK) == 0;
}
