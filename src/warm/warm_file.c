/*-------------------------------------------------------------------------
 *
 * warm_file.c
 *	  Files in the data directory: pg_control, which is only read, and three
 *	  of our own.
 *
 * By system calls: the server's functions for that raise, or obey fsync.  All
 * names are relative to the data directory, where each process of the server
 * is.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog_internal.h"
#include "common/file_perm.h"
#include "failpoint.h"
#include "port/pg_crc32c.h"
#include "warm/warm_internal.h"

#define TMP ".tmp"

static bool
read_all(int fd, void *to, size_t bytes)
{
	char	   *p = to;

	while (bytes > 0)
	{
		ssize_t		n = read(fd, p, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		bytes -= n;
	}
	return true;
}

static bool
write_all(int fd, const void *from, size_t bytes)
{
	const char *p = from;

	while (bytes > 0)
	{
		ssize_t		n = write(fd, p, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		bytes -= n;
	}
	return true;
}

/* Something else by that name, such as a FIFO, is not waited for. */
static int
open_to_read(const char *path)
{
	return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

/* It may be written at this moment: then the CRC is wrong, and the next look finds it whole. */
bool
fc_warm_read_control(ControlFileData *control)
{
	int			fd = open_to_read(XLOG_CONTROL_FILE);
	pg_crc32c	crc;
	bool		ok = fd >= 0 && read_all(fd, control, sizeof(*control));

	if (fd >= 0)
		close(fd);
	if (!ok)
		return false;
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, control, offsetof(ControlFileData, crc));
	FIN_CRC32C(crc);
	return EQ_CRC32C(crc, control->crc) && control->pg_control_version == PG_CONTROL_VERSION;
}

bool
fc_warm_read_run(FcRunId *run, uint64 *w)
{
	FcWarmRun	file;
	int			fd = open_to_read(FC_RUN_FILE);
	bool		ok = fd >= 0 && read_all(fd, &file, sizeof(file)) && fc_warm_run_valid(&file);

	if (fd >= 0)
		close(fd);
	if (ok)
	{
		*run = file.run;
		*w = file.w;
	}
	return ok;
}

static int
begin(const char *path)
{
	return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, pg_file_create_mode);
}

/* The file is complete: under its name, and durable, unless that does not matter. */
static bool
finish(int fd, bool ok, const char *tmp, const char *path, bool durable)
{
	int			folder;

	if (fd < 0)
		return false;
	ok = ok && (!durable || fsync(fd) == 0);
	ok = close(fd) == 0 && ok && rename(tmp, path) == 0;
	if (!ok)
		(void) unlink(tmp);
	if (!durable)
		return ok;
	folder = open(".", O_RDONLY | O_CLOEXEC);
	ok = ok && folder >= 0 && fsync(folder) == 0;
	if (folder >= 0)
		close(folder);
	return ok;
}

static void
make_run(FcWarmRun *file, const FcRunId *run, uint64 w)
{
	memset(file, 0, sizeof(*file));
	file->run = *run;
	file->w = w;
	fc_warm_seal_run(file);
}

bool
fc_warm_write_run(const FcRunId *run, uint64 w)
{
	FcWarmRun	file;
	int			fd = begin(FC_RUN_FILE TMP);

	make_run(&file, run, w);
	return finish(fd, fd >= 0 && write_all(fd, &file, sizeof(file)), FC_RUN_FILE TMP, FC_RUN_FILE, true);
}

/*
 * One sector, without a name or a length that change: on most file systems
 * one write.  One that is torn has a wrong CRC.
 */
bool
fc_warm_change_run(const FcRunId *run, uint64 w)
{
	FcWarmRun	file;
	int			fd = open(FC_RUN_FILE, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	bool		ok;

	if (fd < 0)
		return false;
	make_run(&file, run, w);
	ok = write_all(fd, &file, sizeof(file)) && fdatasync(fd) == 0;
	return close(fd) == 0 && ok;
}

bool
fc_warm_write_stop(const FcWarmStop *stop, const void *map, Size map_bytes, const FcInvalidated *list)
{
	int			fd = begin(FC_STOP_FILE TMP);
	bool		ok = fd >= 0 && write_all(fd, stop, sizeof(*stop)) &&
		write_all(fd, map, map_bytes) &&
		write_all(fd, list, stop->ninvalidated * sizeof(FcInvalidated));

	return finish(fd, ok, FC_STOP_FILE TMP, FC_STOP_FILE, true);
}

bool
fc_warm_read_stop(FcWarmStop *stop, uint32 slots, char **map, FcInvalidated **list)
{
	Size		bytes = ((Size) slots + 31) / 32 * sizeof(uint32);
	int			fd = open_to_read(FC_STOP_FILE);
	bool		ok = fd >= 0 && read_all(fd, stop, sizeof(*stop)) &&
		memcmp(stop->magic, FC_WARM_MAGIC, sizeof(FC_WARM_MAGIC)) == 0 &&
		stop->format == FC_WARM_FORMAT && stop->slots == slots && stop->ninvalidated <= FC_MOST_INVALIDATED;

	*map = ok ? malloc(bytes) : NULL;
	*list = ok ? malloc(Max(stop->ninvalidated, 1) * sizeof(FcInvalidated)) : NULL;
	ok = ok && *map != NULL && *list != NULL && read_all(fd, *map, bytes) &&
		read_all(fd, *list, stop->ninvalidated * sizeof(FcInvalidated)) &&
		stop->crc == fc_warm_stop_crc(stop, *map, bytes, *list);
	if (fd >= 0)
		close(fd);
	if (ok)
		return true;
	free(*map);
	free(*list);
	*map = NULL;
	*list = NULL;
	return false;
}

void
fc_warm_remove_stop(void)
{
	(void) unlink(FC_STOP_FILE);
}

bool
fc_warm_write_list(const FcWarmList *list, const FcSlotNo *slot)
{
	int			fd = begin(FC_LIST_FILE TMP);
	bool		ok = fd >= 0 && write_all(fd, list, sizeof(*list)) &&
		write_all(fd, slot, (size_t) list->n * sizeof(FcSlotNo));

	/* one that is torn has a wrong CRC, and only takes longer to be warm */
	return finish(fd, ok, FC_LIST_FILE TMP, FC_LIST_FILE, false);
}

bool
fc_warm_read_list(FcWarmList *list, uint32 slots, FcSlotNo **slot)
{
	int			fd = open_to_read(FC_LIST_FILE);
	bool		ok = fd >= 0 && read_all(fd, list, sizeof(*list)) &&
		memcmp(list->magic, FC_WARM_MAGIC, sizeof(FC_WARM_MAGIC)) == 0 &&
		list->format == FC_WARM_FORMAT && list->slots == slots && list->n <= slots;

	*slot = ok ? malloc((size_t) Max(list->n, 1) * sizeof(FcSlotNo)) : NULL;
	ok = *slot != NULL && read_all(fd, *slot, (size_t) list->n * sizeof(FcSlotNo)) &&
		list->crc == fc_warm_list_crc(list, *slot);
	if (fd >= 0)
		close(fd);
	if (ok)
		return true;
	free(*slot);
	*slot = NULL;
	return false;
}

void
fc_warm_remove_list(void)
{
	(void) unlink(FC_LIST_FILE);
}

bool
fc_warm_boot_id(char *id)
{
	int			fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t		n = fd >= 0 ? read(fd, id, FC_BOOT_ID_BYTES - 1) : -1;

	if (fd >= 0)
		close(fd);
	memset(id + Max(n, 0), 0, FC_BOOT_ID_BYTES - Max(n, 0));
	if (fc_breaks("another boot"))
		id[0] = '-';
	return n > 0;
}
