/*-------------------------------------------------------------------------
 *
 * attach/data_read.h
 *	  Reads pages of a relation's main fork from its files, past the buffer
 *	  manager and the storage manager.
 *
 * The file is opened for each call, by name, and closed: a descriptor that was
 * kept could lead to a file that has been removed meanwhile, and whose number
 * another relation has got.  Raises on errors; not for the wrappers.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_ATTACH_DATA_READ_H
#define FC_ATTACH_DATA_READ_H

#include "cache/cache.h"
#include "types.h"

#include "utils/rel.h"

/* What the cache calls an open relation. */
extern FcRel fc_data_rel(Relation rel);

/* How many of n blocks from blk on are in one file. */
extern int	fc_data_in_file(BlockNumber blk, int n);

/*
 * L3: reads n blocks, which are in one file, into memory aligned to
 * FC_IO_ALIGN.  Returns how many there were.
 */
extern int	fc_data_read(const FcTag *first, int n, char *pages);

/*
 * The same for the writer, which waits for no disk and raises nothing: an
 * FcDataPeek.  What the page cache does not have it is told to read.
 */
extern int	fc_data_peek(const FcTag *first, int n, char *pages, bool again);

#endif							/* FC_ATTACH_DATA_READ_H */
