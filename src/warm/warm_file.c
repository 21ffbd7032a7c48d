/*-------------------------------------------------------------------------
 *
 * warm_file.c
 *	  Files in the data directory: pg_control, which is only read, and three
 *	  of our own; by durable.c.
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
#include "durable.h"
#include "failpoint.h"
#include "port/pg_crc32c.h"
#include "warm/warm_internal.h"

/* It may be written at this moment: then the CRC is wrong, and the next look finds it whole. */
bool
fc_warm_read_control(ControlFileData *control)
{
	int			fd = fc_durable_open(XLOG_CONTROL_FILE);
	pg_crc32c	crc;
	bool		ok = fd >= 0 && fc_durable_read(fd, control, sizeof(*control));

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
fc_warm_read_run(FcWarmRun *file)
{
	int			fd = fc_durable_open(FC_RUN_FILE);
	bool		ok = fd >= 0 && fc_durable_read(fd, file, sizeof(*file)) && fc_warm_run_valid(file);

	if (fd >= 0)
		close(fd);
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

static bool
write_run(const FcWarmRun *file)
{
	int			fd = fc_durable_begin(FC_RUN_FILE FC_TMP);

	return fc_durable_finish(fd, fd >= 0 && fc_durable_write(fd, file, sizeof(*file)), FC_RUN_FILE FC_TMP, FC_RUN_FILE, true);
}

bool
fc_warm_write_run(const FcRunId *run, uint64 w)
{
	FcWarmRun	file;

	make_run(&file, run, w);
	return write_run(&file);
}

bool
fc_warm_run_without_fsync(void)
{
	FcWarmRun	file;

	if (!fc_warm_read_run(&file))
		return access(FC_RUN_FILE, F_OK) != 0 && errno == ENOENT;	/* no log is believed */
	/* of this boot, or of another one, which counts still */
	if (file.fsync_off[0] != '\0')
		return true;
	/* no boot is that one */
	if (!fc_warm_boot_id(file.fsync_off))
		strlcpy(file.fsync_off, "unknown", sizeof(file.fsync_off));
	fc_warm_seal_run(&file);
	return write_run(&file);
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
	ok = fc_durable_write(fd, &file, sizeof(file)) && fdatasync(fd) == 0;
	return close(fd) == 0 && ok;
}

bool
fc_warm_write_stop(const FcWarmStop *stop, const void *map, Size map_bytes, const FcInvalidated *list)
{
	int			fd = fc_durable_begin(FC_STOP_FILE FC_TMP);
	bool		ok = fd >= 0 && fc_durable_write(fd, stop, sizeof(*stop)) &&
		fc_durable_write(fd, map, map_bytes) &&
		fc_durable_write(fd, list, stop->ninvalidated * sizeof(FcInvalidated));

	return fc_durable_finish(fd, ok, FC_STOP_FILE FC_TMP, FC_STOP_FILE, true);
}

bool
fc_warm_read_stop(FcWarmStop *stop, uint32 slots, char **map, FcInvalidated **list)
{
	Size		bytes = ((Size) slots + 31) / 32 * sizeof(uint32);
	int			fd = fc_durable_open(FC_STOP_FILE);
	bool		ok = fd >= 0 && fc_durable_read(fd, stop, sizeof(*stop)) &&
		memcmp(stop->magic, FC_WARM_MAGIC, sizeof(FC_WARM_MAGIC)) == 0 &&
		stop->format == FC_WARM_FORMAT && stop->slots == slots && stop->ninvalidated <= FC_MOST_INVALIDATED;

	*map = ok ? malloc(bytes) : NULL;
	*list = ok ? malloc(Max(stop->ninvalidated, 1) * sizeof(FcInvalidated)) : NULL;
	ok = ok && *map != NULL && *list != NULL && fc_durable_read(fd, *map, bytes) &&
		fc_durable_read(fd, *list, stop->ninvalidated * sizeof(FcInvalidated)) &&
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
	int			fd = fc_durable_begin(FC_LIST_FILE FC_TMP);
	bool		ok = fd >= 0 && fc_durable_write(fd, list, sizeof(*list)) &&
		fc_durable_write(fd, slot, (size_t) list->n * sizeof(FcSlotNo));

	/* one that is torn has a wrong CRC, and only takes longer to be warm */
	return fc_durable_finish(fd, ok, FC_LIST_FILE FC_TMP, FC_LIST_FILE, false);
}

bool
fc_warm_read_list(FcWarmList *list, uint32 slots, FcSlotNo **slot)
{
	int			fd = fc_durable_open(FC_LIST_FILE);
	bool		ok = fd >= 0 && fc_durable_read(fd, list, sizeof(*list)) &&
		memcmp(list->magic, FC_WARM_MAGIC, sizeof(FC_WARM_MAGIC)) == 0 &&
		list->format == FC_WARM_FORMAT && list->slots == slots && list->n <= slots;

	*slot = ok ? malloc((size_t) Max(list->n, 1) * sizeof(FcSlotNo)) : NULL;
	ok = *slot != NULL && fc_durable_read(fd, *slot, (size_t) list->n * sizeof(FcSlotNo)) &&
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
