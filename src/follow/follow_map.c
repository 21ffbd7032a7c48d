/*-------------------------------------------------------------------------
 *
 * follow/follow_map.c
 *	  The map of the other server, in a temporary file.
 *
 * Its size is that server's to choose: a map is 1 kB for each 64 MB in which
 * it has pages of one heat, so it does not belong into memory.  The file lies
 * where the server removes what a crash leaves, and is not copied by a base
 * backup.  Plain calls of the system: the loader reads it as well, and nothing
 * here raises.
 *
 * Rows are taken for what anybody may have sent.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bufscan.h"
#include "cache/cache.h"
#include "common/file_perm.h"
#include "common/file_utils.h"
#include "directory/directory.h"
#include "follow/follow_internal.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "postmaster/interrupt.h"
#include "storage/fd.h"

/* A map is not larger: that of 64 TB whose pages are of all heats everywhere. */
#define MAX_BYTES (UINT64CONST(4) << 30)

/* Rows between two looks for something else to do. */
#define LOOK 256

#define ROW_HEAD offsetof(FcMapRow, bits)

static char buffer[64 * 1024];
static int	buffered = 0;

const char *
fc_follow_path(int pid)
{
	static char path[MAXPGPATH];

	snprintf(path, sizeof(path), "base/%s/%s%d.flashcache_map", PG_TEMP_FILES_DIR, PG_TEMP_FILE_PREFIX, pid);
	return path;
}

/* ---- writing ---- */

bool
fc_follow_map_create(FcFollowMap *map)
{
	const char *path = fc_follow_path(MyProcPid);

	fc_follow_map_remove(map);
	map->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, pg_file_create_mode);
	if (map->fd < 0 && errno == ENOENT)
	{
		(void) mkdir("base/" PG_TEMP_FILES_DIR, pg_dir_create_mode);
		map->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, pg_file_create_mode);
	}
	return map->fd >= 0;
}

void
fc_follow_map_remove(FcFollowMap *map)
{
	if (map->fd >= 0)
		close(map->fd);
	(void) unlink(fc_follow_path(MyProcPid));
	map->fd = -1;
	map->bytes = 0;
	map->nparts = 0;
	buffered = 0;
}

static bool
flush(FcFollowMap *map)
{
	for (int done = 0; done < buffered;)
	{
		ssize_t		n = write(map->fd, buffer + done, buffered - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += (int) n;
	}
	buffered = 0;
	return true;
}

/* Can it be a row of a map?  The bits are counted anew. */
static bool
is_row(const FcMapRow *row)
{
	return OidIsValid(row->rel.rel) && row->heat >= 0 && row->heat < FC_MAP_HEATS &&
		row->first >= 0 && row->first <= (int64) MaxBlockNumber &&
		row->nbytes > 0 && row->nbytes <= FC_MAP_BYTES &&
		row->first + (int64) row->nbytes * 8 - 8 <= (int64) MaxBlockNumber;
}

/* The part of this row; NULL if its database has come before, so that the order is wrong, or there are too many. */
static FcFollowPart *
part_of(FcFollowMap *map, Oid db)
{
	FcFollowPart *last = map->nparts > 0 ? &map->part[map->nparts - 1] : NULL;

	if (last != NULL && last->db == db)
		return last;
	if ((last != NULL && last->db > db) || map->nparts == FC_FOLLOW_DATABASES)
		return NULL;
	last = &map->part[map->nparts++];
	last->db = db;
	last->from = last->to = map->bytes;
	last->missing = 0;
	return last;
}

FcFollowWhy
fc_follow_map_add(FcFollowMap *map, const FcMapRow *row)
{
	int			bytes = (int) ROW_HEAD + row->nbytes;
	FcFollowPart *part;
	FcMapRow	copy;

	if (!is_row(row))
		return FC_WHY_BAD_MAP;
	part = part_of(map, row->rel.db);
	if (part == NULL)
		return map->nparts == FC_FOLLOW_DATABASES ? FC_WHY_TOO_LARGE : FC_WHY_BAD_MAP;
	if (map->bytes + bytes > MAX_BYTES)
		return FC_WHY_TOO_LARGE;
	if (buffered + bytes > (int) sizeof(buffer) && !flush(map))
		return FC_WHY_NO_SPACE;
	memcpy(&copy, row, bytes);
	copy.pages = (int) pg_popcount((const char *) copy.bits, copy.nbytes);
	memcpy(buffer + buffered, &copy, bytes);
	buffered += bytes;
	map->bytes += bytes;
	part->to = map->bytes;
	return FC_WHY_NONE;
}

FcFollowWhy
fc_follow_map_finish(FcFollowMap *map)
{
	return flush(map) ? FC_WHY_NONE : FC_WHY_NO_SPACE;
}

/* ---- reading ---- */

void
fc_follow_read_begin(FcFollowReader *reader, int fd, uint64 from, uint64 to)
{
	reader->fd = fd;
	reader->at = from;
	reader->to = to;
	reader->have = reader->next = 0;
}

/* So many bytes more; false: there are none. */
static bool
take(FcFollowReader *reader, void *to, int bytes)
{
	if (reader->have - reader->next < bytes)
	{
		int			left = reader->have - reader->next;
		uint64		rest = reader->to - reader->at;
		ssize_t		n;

		memmove(reader->buffer, reader->buffer + reader->next, left);
		reader->next = 0;
		reader->have = left;
		do
			n = pread(reader->fd, reader->buffer + left, Min(rest, sizeof(reader->buffer) - left), (off_t) reader->at);
		while (n < 0 && errno == EINTR);
		if (n > 0)
		{
			reader->have += (int) n;
			reader->at += n;
		}
		if (reader->have < bytes)
			return false;
	}
	memcpy(to, reader->buffer + reader->next, bytes);
	reader->next += bytes;
	return true;
}

bool
fc_follow_read(FcFollowReader *reader, FcMapRow *row)
{
	return take(reader, row, (int) ROW_HEAD) &&
		is_row(row) && take(reader, row->bits, row->nbytes);
}

/* ---- comparing ---- */

/* The other server's readers want this page, and nobody here has asked for it yet: as if somebody had, once. */
static void
mark(const FcSlotRef *ref)
{
	FcPageInfo	page;

	if (fc_directory_page(ref->slot, &page) && page.refcount == 0)
		fc_directory_touch(ref);
}

static uint64
compare_row(const FcMapRow *row, FcMapCompared *pages)
{
	uint64		here = 0;

	for (int bit = 0; bit < row->nbytes * 8; bit++)
	{
		FcTag		tag = {row->rel.spc, row->rel.db, row->rel.rel, (BlockNumber) (row->first + bit)};
		FcSlotRef	ref;

		if (!fc_map_has(row, bit))
			continue;
		if (fc_directory_lookup(&tag, fc_directory_hash(&tag), &ref))
		{
			here++;
			if (row->heat > 0)
				mark(&ref);
		}
		else if (fc_bufscan_holds(&tag))
			here++;
	}
	pages->named[row->heat] += row->pages;
	pages->here[row->heat] += here;
	return row->pages - here;
}

FcFollowWhy
fc_follow_map_compare(FcFollowMap *map, FcMapCompared *pages)
{
	static FcFollowReader reader;
	FcMapRow	row;
	uint64		n = 0;

	memset(pages, 0, sizeof(*pages));
	for (int i = 0; i < map->nparts; i++)
	{
		FcFollowPart *part = &map->part[i];

		part->missing = 0;
		fc_follow_read_begin(&reader, map->fd, part->from, part->to);
		while (fc_follow_read(&reader, &row))
		{
			FcFollowWhy why = n++ % LOOK == 0 ? fc_follow_look() : FC_WHY_NONE;

			if (why != FC_WHY_NONE)
				return why;
			part->missing += compare_row(&row, pages);
		}
	}
	return fc_cache_in_use() ? FC_WHY_NONE : FC_WHY_NOT_ACTIVE;
}

FcFollowWhy
fc_follow_look_again(FcFollowMap *of)
{
	FcMapCompared pages;
	FcFollowWhy why = fc_follow_map_compare(of, &pages);

	if (why == FC_WHY_NONE)
		fc_follow_set_pages(&pages);
	return why;
}
