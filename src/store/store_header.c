/*-------------------------------------------------------------------------
 *
 * store_header.c
 *	  What a device holds: is it ours, is it large enough?  Writing its header.
 *	  In the device process.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <linux/fs.h>
#include <sys/ioctl.h>

#include "store/store_internal.h"
#include "store/store_place.h"

/* Bytes read at a place of the device, before it is in use; -1 with the reason. */
static ssize_t
read_block(int fd, const char *path, char *block, off_t offset, FcReason *error)
{
	ssize_t		n = fc_pread(fd, block, FC_HEADER_BLOCK, offset);

	Assert((uintptr_t) block % FC_IO_ALIGN == 0 && offset % FC_HEADER_BLOCK == 0);
	if (n >= 0)
		return n;
	errno = -n;
	fc_fail(error, "Check the device.", "could not read \"%s\": %m", path);
	return -1;
}

/* It has no header.  Only what this server has had open may be called ours all the same. */
static bool
foreign(FcDevice *device, const char *path, const struct stat *st, FcReason *error)
{
	static const char what[] = "\"%s\" holds something that is not a flash cache";

	if (S_ISBLK(st->st_mode))
		return fc_fail_restart(error, fc_place_hint("If nobody needs what is on it, clear its first megabyte (dd; wipefs clears less) and call pg_flashcache_enable(); else choose another device and restart the server.",
													"If nobody needs what is on it, clear its first megabyte (dd; wipefs clears less) and add it again; else name another device.", "If nobody needs what is on it, clear its first megabyte (dd; wipefs clears less); else remove it by pg_flashcache_remove_device()."),
							   what, path);
	if (pg_atomic_read_u32(&device->generation) != 0 && fc_same_thing(st, &device->seen))
		return fc_fail(error, fc_place_hint("It was the cache's file until somebody wrote to it. Remove it if what it holds now is not needed.",
											"It was the cache's file until somebody wrote to it. Remove it if what it holds now is not needed.", "It was the cache's file until somebody wrote to it. Remove it if what it holds now is not needed; pg_flashcache_remove_device(), then pg_flashcache_add_device(), make it anew."),
					   what, path);
	return fc_fail_restart(error, fc_place_hint("If nobody needs what is in it, move it elsewhere and call pg_flashcache_enable(); else choose another path and restart the server.",
												"Name another path; or, if nobody needs what is in it, move it elsewhere.", "If nobody needs what is in it, move it elsewhere. Then pg_flashcache_remove_device() and pg_flashcache_add_device() make the file anew, there or under another path."), what, path);
}

/*
 * A file that begins like an empty one: is it empty where its data goes on?
 * That of a terabyte of zeros can't be read, so some places must do.  Negative
 * if the file can't be read.
 */
static ssize_t
look_beyond(int fd, const char *path, off_t size, char *block, bool *empty, FcReason *error)
{
	off_t		step = (size - FC_EMPTY_BYTES) / FC_EMPTY_PLACES;
	ssize_t		n = 0;

	for (int i = 0; *empty && n >= 0 && i < FC_EMPTY_PLACES; i++)
	{
		off_t		place = FC_EMPTY_BYTES + i * step;
		off_t		data = lseek(fd, place, SEEK_DATA);

		if (data < 0 && errno == ENXIO)
			break;
		if (data < 0)
			data = place;
		n = read_block(fd, path, block, data - data % FC_HEADER_BLOCK, error);
		*empty = n <= 0 || fc_layout_is_empty(block, n);
	}
	return n;
}

bool
fc_header_check(FcDevice *device, int fd, const char *path, const struct stat *st, char *block, FcReason *error)
{
	off_t		offset = 0;
	ssize_t		n;
	bool		empty;

	Assert(S_ISREG(st->st_mode) || S_ISBLK(st->st_mode));
	if (S_ISREG(st->st_mode) && st->st_size == 0)
		return true;
	n = read_block(fd, path, block, 0, error);
	if (n == FC_HEADER_BLOCK && fc_layout_is_header(block, n))
		return true;
	empty = n == FC_HEADER_BLOCK;
	while (empty && n > 0 && offset < FC_EMPTY_BYTES)
	{
		empty = fc_layout_is_empty(block, n);
		offset += n;
		n = read_block(fd, path, block, offset, error);
	}
	if (empty && n > 0 && S_ISREG(st->st_mode))
		n = look_beyond(fd, path, st->st_size, block, &empty, error);
	if (n < 0)
		return false;
	return empty || foreign(device, path, st, error);
}

bool
fc_header_is_same(const FcDevice *device, const char *block, size_t len)
{
	static char wanted[FC_HEADER_BLOCK] pg_attribute_aligned(FC_IO_ALIGN);

	fc_layout_make_header(wanted, device->slots, device->identity);
	return len == FC_HEADER_BLOCK && memcmp(wanted, block, FC_HEADER_BLOCK) == 0;
}

bool
fc_header_check_same(const FcDeviceRequest *r, int fd, FcReason *error)
{
	static char found[FC_HEADER_BLOCK] pg_attribute_aligned(FC_IO_ALIGN);
	const FcDevice *device = &r->device;
	ssize_t		n = read_block(fd, device->path, found, 0, error);

	if (n < 0)
		return false;
	if (fc_header_is_same(device, found, n) || (r->offered && fc_layout_has_identity(found, n, r->offer)))
		return true;
	return fc_fail(error, "Find out who has written to it. It is opened anew if it still is a flash cache.",
				   "\"%s\" no longer begins with what the server wrote there", device->path);
}

bool
fc_header_check_size(int fd, const char *path, const struct stat *st, uint32 slots, uint32 log_blocks, bool first, FcReason *error)
{
	uint64		needed = fc_layout_bytes(slots, log_blocks);
	uint64		size = st->st_size;

	Assert(slots >= FC_MIN_SLOTS);
	if (S_ISBLK(st->st_mode) && ioctl(fd, BLKGETSIZE64, &size) != 0)
		size = 0;
	if (size >= needed)
		return true;
	if (!S_ISBLK(st->st_mode))
		return fc_fail(error, "It is given its length back when it is opened anew.",
					   "\"%s\" has %llu bytes, %llu are needed",
					   path, (unsigned long long) size, (unsigned long long) needed);
	if (size == 0)
		return fc_fail(error, "Check that the device is attached.",
					   "block device \"%s\" has 0 bytes, %llu are needed", path, (unsigned long long) needed);
	if (!first)
		return fc_fail(error, "Choose a smaller size: pg_flashcache_remove_device(), if it is a device of the cache, then pg_flashcache_add_device().",
					   "block device \"%s\" has %llu bytes, %llu are needed",
					   path, (unsigned long long) size, (unsigned long long) needed);
	return fc_fail_restart(error, "Lower pg_flashcache.size, and restart the server.",
						   "block device \"%s\" has %llu bytes, %llu are needed",
						   path, (unsigned long long) size, (unsigned long long) needed);
}

bool
fc_header_write(int fd, const char *path, uint32 slots, const uint8 *identity, char *block, FcReason *error)
{
	ssize_t		n;

	Assert(slots >= FC_MIN_SLOTS);
	Assert((uintptr_t) block % FC_IO_ALIGN == 0);
	fc_layout_make_header(block, slots, identity);
	n = fc_pwrite(fd, block, FC_HEADER_BLOCK, 0);
	if (n == FC_HEADER_BLOCK)
		return true;
	errno = n < 0 ? -n : EIO;
	return fc_fail(error, "Check the device.", "could not write to \"%s\": %m", path);
}
