/*-------------------------------------------------------------------------
 *
 * store_open.c
 *	  Opening the device for the server: checks, claims, locks.  In the device
 *	  process.
 *
 * Refused, because each has cost somebody data or privacy: a path inside the
 * data directory or a tablespace (base backups would copy it, and
 * tools that walk the directory would stumble on it), folders in which others
 * could put another file in its place, symbolic links (they can be
 * re-pointed), files with other names (hard links), files owned by or
 * readable to others (all this in store_place.c), files that carry no header
 * of ours (a mistyped path), mounted block devices.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>

#include "store/store_internal.h"
#include "store/store_place.h"
#include "store/store_process.h"
#include "store/store_space.h"

/* A device that somebody else has is tried for so often, for 2 s. */
#define CLAIM_TRIES 200
#define CLAIM_STEP_US 10000

/* ---- the descriptor ---- */

/* The device process's way to the device. */
static int	device_fd = -1;

/* Was it checked and locked, so that it may be written to? */
static bool claimed = false;

int
fc_open_fd(void)
{
	Assert(fc_in_device_process());
	return device_fd;
}

bool
fc_open_claimed(void)
{
	Assert(fc_in_device_process());
	Assert(!claimed || device_fd >= 0);
	return claimed;
}

static void
close_device(void)
{
	Assert(!claimed || device_fd >= 0);
	if (device_fd >= 0)
		close(device_fd);
	device_fd = -1;
	claimed = false;
}

void
fc_open_close(bool undo)
{
	Assert(fc_in_device_process());
	if (undo)
		fc_made_undo();
	fc_made_stays();
	close_device();
}

/* From now on the way to the device is another descriptor. */
static void
replace_device(int fd)
{
	Assert(fd >= 0 && fd != device_fd);
	if (device_fd >= 0)
		close(device_fd);
	device_fd = fd;
}

/* Is that what this process has open? */
static bool
is_mine(const struct stat *st)
{
	struct stat mine;

	return device_fd >= 0 && fstat(device_fd, &mine) == 0 && fc_same_thing(&mine, st);
}

/* ---- opening ---- */

void
fc_open_without_atime(int fd)
{
	if (fd >= 0)
		(void) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NOATIME);
}

/* Opens without following a symbolic link; O_DIRECT where it can be had. */
static int
open_device(int folder, const char *name, int flags, bool *direct)
{
	int			fd;

	Assert(folder >= 0 && name[0] != '\0' && strchr(name, '/') == NULL);
	if (fc_process_failpoint(FC_FP_STORE_OPEN))
	{
		errno = EIO;
		return -1;
	}
	flags |= O_RDWR | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC;
	*direct = true;
	fd = openat(folder, name, flags | O_DIRECT, S_IRUSR | S_IWUSR);
	if (fd < 0 && errno == EINVAL)
	{
		*direct = false;
		/* some kernels have made the file all the same */
		if (flags & O_CREAT)
			flags &= ~O_EXCL;
		fd = openat(folder, name, flags, S_IRUSR | S_IWUSR);
	}

	fc_open_without_atime(fd);
	return fd;
}

/*
 * What the device asks of the memory that it reads into: often far less than
 * a page of memory, 4 bytes with NVMe and 512 with most others.  Kernels
 * before 6.1 don't say.
 */
static uint32
memory_alignment(int fd, bool direct)
{
#ifdef STATX_DIOALIGN
	struct statx stx;

	if (direct && statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) == 0 &&
		(stx.stx_mask & STATX_DIOALIGN) != 0 &&
		stx.stx_dio_mem_align > 0 && stx.stx_dio_mem_align < FC_IO_ALIGN)
		return stx.stx_dio_mem_align;
#endif
	return direct ? FC_IO_ALIGN : 1;
}

const char *
fc_open_hint(bool is_device)
{
	Assert(errno != 0);
	switch (errno)
	{
		case EACCES:
		case EPERM:
			return is_device ? "Give the device to the server's user, with a udev rule that lasts." :
				"Check that the flash device is mounted. The file and its folder must belong to the server's user.";
		case EBUSY:
			return "A block device that is mounted, or in use by others, cannot be used (lsblk, fuser).";
		case EROFS:
			return "The file system is mounted read-only.";
		case ENAMETOOLONG:
			return fc_place_hint("Set pg_flashcache.file to a shorter name and restart the server.",
								 "Name a shorter path.", NULL);
		case ELOOP:
			return fc_place_hint("Symbolic links are refused: put the file itself in that place, or name it and restart the server.",
								 "Symbolic links are refused: put the file itself in that place, or name it.", NULL);
		default:
			return fc_place_hint("Check that the flash device is there and mounted.",
								 "Check that the flash device is there and mounted.", "Check that the flash device is there and mounted. If the file is gone for good: pg_flashcache_remove_device(), then pg_flashcache_add_device().");
	}
}

/*
 * The device was not to be had, errno says why.  Somebody else has it: is it
 * worth another try?  A process that was killed lets go of its files after
 * its shared memory, and the kernel ends its requests later still: the server
 * may be up again by then.  So this waits, a little.
 */
static bool
try_again(int *tries)
{
	Assert(*tries >= 0 && *tries <= CLAIM_TRIES);
	if ((errno != EWOULDBLOCK && errno != EBUSY) || ++*tries >= CLAIM_TRIES)
		return false;
	(void) fc_process_failpoint(FC_FP_STORE_CLAIM);
	fc_process_sleep(CLAIM_STEP_US);
	fc_process_goes_on();
	return true;
}

/* Opens a block device for the whole server: nobody else uses it meanwhile. */
static int
open_exclusively(int folder, const char *name, const struct stat *st, bool *direct)
{
	/* refuses one that is mounted, and our own claim as well */
	int			fd = open_device(folder, name, O_EXCL, direct);

	Assert(S_ISBLK(st->st_mode));
	Assert(!claimed);
	if (fd < 0 && errno == EBUSY && is_mine(st))
	{
		close(device_fd);
		device_fd = -1;
		fd = open_device(folder, name, O_EXCL, direct);
	}
	for (int tries = 0; fd < 0 && try_again(&tries);)
		fd = open_device(folder, name, O_EXCL, direct);
	return fd;
}

/* Was there a device under that name when it was opened last? */
static bool
was_device(FcDevice *device, const char *path)
{
	return pg_atomic_read_u32(&device->generation) != 0 && S_ISBLK(device->seen.st_mode) &&
		strcmp(path, device->path) == 0;
}

/*
 * What is there, and may it be used?  Where it should be a device, no file is
 * made: the kernel would keep it in memory.
 */
static bool
look_at(FcDevice *device, int folder, const char *name, const char *path, bool *found, struct stat *st, FcReason *error)
{
	*found = fstatat(folder, name, st, AT_SYMLINK_NOFOLLOW) == 0;
	if (!*found && errno != ENOENT)
		return fc_fail(error, fc_open_hint(false), "could not open \"%s\": %m", path);
	if (*found && !fc_place_check(path, st, error))
		return false;
	if (*found && S_ISREG(st->st_mode) && fc_place_in_dev(folder))
		return fc_fail_restart(error, fc_place_hint("Name a block device, or a file on local flash, and restart the server.",
													"Name a block device, or a file on local flash.", NULL),
							   "\"%s\" is a regular file in /dev, which is kept in memory", path);
	if (!*found && (was_device(device, path) || fc_place_in_dev(folder)))
		return fc_fail(error, DEVICE_HINT,
					   "block device \"%s\" does not exist", path);
	return true;
}

/* May it lie on that file system? */
static bool
check_system(int at, const char *path, bool require_mount, FcReason *error)
{
	const char *with = require_mount ? fc_place_shares(at) : "";

	return with[0] == '\0' ||
		fc_fail(error, "Mount the flash device, or set pg_flashcache.require_mount to off.",
				"\"%s\" is on the same file system as %s", path, with);
}

/*
 * Opens what is to be the device; `make`: makes it if it is not there.  Looks
 * before: merely to open a tape or a watchdog is to do something to it.  And
 * after: what is open may no longer be what was seen.
 */
static int
open_checked(FcDevice *device, const char *path, bool make, bool require_mount, struct stat *st, bool *direct, FcReason *error)
{
	const char *name;
	int			folder = fc_place_open(path, &name, error);
	bool		found;
	int			fd = -1;

	Assert(!make || !claimed);
	if (folder < 0)
		return -1;
	if (!look_at(device, folder, name, path, &found, st, error) ||
		(!found && !check_system(folder, path, require_mount, error)))
	{
		close(folder);
		return -1;
	}
	Assert(!found || S_ISREG(st->st_mode) || S_ISBLK(st->st_mode));
	(void) fc_process_failpoint(FC_FP_STORE_LOOKED);
	errno = ENOENT;
	if (found && S_ISBLK(st->st_mode))
		fd = open_exclusively(folder, name, st, direct);
	else if (found)
		fd = open_device(folder, name, 0, direct);
	else if (make)
	{
		fd = open_device(folder, name, O_CREAT | O_EXCL, direct);
		if (fd >= 0)
			fc_made(path, fd);
	}
	if (fd < 0)
		fc_fail(error, fc_open_hint(found && S_ISBLK(st->st_mode)), "could not open \"%s\": %m", path);
	close(folder);
	if (fd < 0)
		return -1;
	if (fstat(fd, st) != 0)
		fc_fail(error, "Check the device.", "could not stat \"%s\": %m", path);
	else if (fc_place_check(path, st, error) &&
			 (S_ISBLK(st->st_mode) ||
			  (fc_place_check_foreign(fd, path, error) && check_system(fd, path, require_mount, error))))
		return fd;
	fc_made_undo();
	close(fd);
	return -1;
}

/* ---- for the whole server ---- */

/*
 * Locks it against other servers.  The descriptor is a new one even for a
 * file that is open already: the old one may belong to a device or a mount
 * that has gone and come back.  Hence the lock moves.
 */
static bool
lock_device(int fd, const char *path, bool first, FcReason *error)
{
	int			rc = flock(fd, LOCK_EX | LOCK_NB);

	Assert(fd >= 0 && fd != device_fd);
	Assert(!claimed);
	if (rc != 0 && errno == EWOULDBLOCK && device_fd >= 0 && flock(device_fd, LOCK_UN) == 0)
		rc = flock(fd, LOCK_EX | LOCK_NB);
	for (int tries = 0; rc != 0 && try_again(&tries);)
		rc = flock(fd, LOCK_EX | LOCK_NB);
	if (rc == 0)
		return true;
	if (errno == EWOULDBLOCK && !first)
		return fc_fail(error, "Give every server devices of its own: remove it by pg_flashcache_remove_device() from one of them. A server that ended while the device hung keeps it until the device answers.",
					   "\"%s\" is in use by another server", path);
	if (errno == EWOULDBLOCK)
		return fc_fail_restart(error, "Give every server a file of its own, and restart the server. One that ended while the device hung keeps it until the device answers.",
							   "\"%s\" is in use by another server", path);
	return fc_fail(error, "Check the file system.", "could not lock \"%s\": %m", path);
}

/* Who had the lock before may have made the file, and have removed it since (store_made.c). */
static bool
is_still_there(int fd, const char *path, FcReason *error)
{
	struct stat st;

	return fstat(fd, &st) != 0 || st.st_nlink > 0 ||
		fc_fail(error, "Try again.", "\"%s\" has just been removed", path);
}

/*
 * Is another file to be the device than before?  Then the space of the former
 * one, which may have been deleted, is needed: this process lets go of it.
 * Sessions may have it open still.
 */
static bool
leave_former(FcDevice *device, const struct stat *st)
{
	if (device_fd >= 0 && !is_mine(st))
		close_device();
	return pg_atomic_read_u32(&device->generation) != 0 && S_ISREG(device->seen.st_mode) &&
		device->seen.st_dev == st->st_dev && !fc_same_thing(&device->seen, st);
}

/* The header that a device beyond the first one must have to be the same; NULL if none will do. */
static char *
other_header(const FcDeviceRequest *r)
{
	static char wanted[FC_HEADER_BLOCK] pg_attribute_aligned(FC_IO_ALIGN);

	if (!r->known)
		return NULL;
	fc_layout_make_header(wanted, r->known_slots, r->known_identity);
	return wanted;
}

/*
 * Is it the one that was open last?  Its header is not yet written anew.  A
 * file that was shortened meanwhile is not: it has lost what was cut off.
 */
static bool
is_same_device(const FcDeviceRequest *r, int fd, const struct stat *st)
{
	static char block[FC_HEADER_BLOCK] pg_attribute_aligned(FC_IO_ALIGN);
	const FcDevice *device = &r->device;
	bool		offered;

	if (fc_pread(fd, block, FC_HEADER_BLOCK, 0) != FC_HEADER_BLOCK)
		return false;
	/* an opening of which nothing has been heard has found it to be the same */
	offered = r->offered && fc_layout_has_identity(block, FC_HEADER_BLOCK, r->offer);
	if (r->no != FC_THE_DEVICE)
	{
		/*
		 * the identity says it all, also of a device that this run has not
		 * had open
		 */
		char	   *wanted = other_header(r);

		return wanted != NULL &&
			(S_ISBLK(st->st_mode) || st->st_size >= fc_layout_bytes(Min(r->slots, r->known_slots), 0)) &&
			(offered || memcmp(wanted, block, FC_HEADER_BLOCK) == 0);
	}
	return pg_atomic_read_u32(unconstify(pg_atomic_uint32 *, &device->generation)) != 0 &&
		device->slots == r->slots && device->log_blocks == r->log_blocks && fc_same_thing(st, &device->seen) &&
		(S_ISBLK(st->st_mode) || st->st_size >= fc_layout_bytes(r->slots, r->log_blocks)) &&
		(offered || fc_header_is_same(device, block, FC_HEADER_BLOCK));
}

/* Is what is added another device of this cache already, under another name? */
static bool
is_other(const FcDeviceRequest *r, int fd, const struct stat *st, FcReason *error)
{
	static char block[FC_HEADER_BLOCK] pg_attribute_aligned(FC_IO_ALIGN);
	static char theirs[FC_HEADER_BLOCK] pg_attribute_aligned(FC_IO_ALIGN);

	if (!r->make || r->no == FC_THE_DEVICE || fc_pread(fd, block, FC_HEADER_BLOCK, 0) != FC_HEADER_BLOCK)
		return false;
	for (FcDeviceNo no = 0; no < FC_DEVICES; no++)
	{
		const FcOtherDevice *other = &r->other[no];

		if (other->slots == 0 || (other->seen.st_ino != 0 && !fc_same_thing(st, &other->seen)))
			continue;
		fc_layout_make_header(theirs, other->slots, other->identity);
		if (memcmp(theirs, block, FC_HEADER_BLOCK) == 0 ||
			(other->offered && fc_layout_has_identity(block, FC_HEADER_BLOCK, other->offer)))
			return !fc_fail(error, "See pg_stat_flashcache_device.",
							"\"%s\" is device %d of the cache already, under another name", r->path, no + 1);
	}
	return false;
}

bool
fc_open_for_server(FcDeviceRequest *r)
{
	static char block[FC_HEADER_BLOCK] pg_attribute_aligned(FC_IO_ALIGN);
	FcDevice   *device = &r->device;
	FcReason   *error = &r->error;
	bool		refuse = r->fault.action == FC_FP_NOSPACE;
	uint8		identity[FC_IDENTITY_BYTES];
	struct stat st;
	bool		direct;
	int			fd;

	Assert(fc_in_device_process());
	Assert(r->op == FC_OP_OPEN && r->slots >= FC_MIN_SLOTS);
	fc_place_for(r->no == FC_THE_DEVICE ? FC_FOR_FIRST : r->make ? FC_FOR_ADDED : FC_FOR_LISTED);
	claimed = false;			/* the lock may move */
	fc_made_stays();			/* what was made before has been in use */
	fd = open_checked(device, r->path, r->make, r->require_mount, &st, &direct, error);
	if (fd < 0)
		return false;
	if (r->no == FC_THE_DEVICE)
		fc_made_stays();
	fc_process_goes_on();
	if (is_other(r, fd, &st, error) ||
		!lock_device(fd, r->path, r->no == FC_THE_DEVICE, error) ||
		!is_still_there(fd, r->path, error) ||
		(S_ISBLK(st.st_mode) && !fc_header_check_size(fd, r->path, &st, r->slots, r->log_blocks, r->no == FC_THE_DEVICE, error)) ||
		!fc_header_check(device, fd, r->path, &st, block, error))
	{
		fc_made_undo();
		close(fd);
		return false;
	}

	/*
	 * D11: one that is not the same does not get what is offered: who does
	 * not hear of this opening would believe the next time that it is.
	 */
	r->same = is_same_device(r, fd, &st);
	if (r->same && r->offered)
		memcpy(identity, r->offer, sizeof(identity));
	else if (!pg_strong_random(identity, sizeof(identity)))
	{
		fc_made_undo();
		close(fd);
		return fc_fail(error, "Check the kernel's random number generator.", "could not generate random bytes");
	}
	if ((S_ISREG(st.st_mode) &&
		 !fc_space_reserve(fd, r->path, &st, fc_layout_bytes(r->slots, r->log_blocks),
						   r->no == FC_THE_DEVICE, leave_former(device, &st), refuse, error)) ||
		!fc_header_write(fd, r->path, r->slots, identity, block, error))
	{
		fc_made_undo();
		close(fd);
		return false;
	}

	replace_device(fd);
	claimed = true;
	memcpy(device->identity, identity, sizeof(identity));
	device->direct = direct;
	device->in_memory = fc_space_in_memory(fd);
	device->by_thread = fc_space_in_fuse(fd);
	device->slots = r->slots;
	device->log_blocks = r->log_blocks;
	pg_atomic_write_u32(&device->alignment, memory_alignment(device_fd, direct));
	device->seen = st;
	strlcpy(device->path, r->path, sizeof(device->path));
	strlcpy(device->shares, S_ISBLK(st.st_mode) ? "" : fc_place_shares(fd), sizeof(device->shares));
	return true;
}

/* Is what is open what was opened last, and as it was then? */
static bool
is_as_opened(FcDeviceRequest *r, int fd)
{
	FcDevice   *device = &r->device;
	FcReason   *error = &r->error;
	struct stat st;

	if (fstat(fd, &st) != 0)
		return fc_fail(error, "Check the device.", "could not stat \"%s\": %m", device->path);
	if (!fc_same_thing(&st, &device->seen))
		return fc_fail(error, FC_REPLACED_HINT, FC_REPLACED, device->path);
	return fc_place_check(device->path, &st, error) &&
		fc_header_check_size(fd, device->path, &st, device->slots, device->log_blocks, r->no == FC_THE_DEVICE, error) &&
		fc_header_check_same(r, fd, error);
}

/* See fc_store_adopt(). */
bool
fc_open_adopt(FcDeviceRequest *r)
{
	FcDevice   *device = &r->device;
	FcReason   *error = &r->error;
	struct stat st;
	bool		direct;
	int			fd;

	Assert(fc_in_device_process());
	Assert(r->op == FC_OP_ADOPT && pg_atomic_read_u32(&r->device.generation) != 0);
	fc_place_for(r->no == FC_THE_DEVICE ? FC_FOR_FIRST : FC_FOR_LISTED);
	if (claimed)
		return is_as_opened(r, device_fd);
	fd = open_checked(device, device->path, false, false, &st, &direct, error);
	if (fd < 0)
		return false;
	if (!lock_device(fd, device->path, r->no == FC_THE_DEVICE, error) || !is_as_opened(r, fd))
	{
		close(fd);
		return false;
	}
	replace_device(fd);
	claimed = true;
	return true;
}
