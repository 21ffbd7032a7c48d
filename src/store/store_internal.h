/*-------------------------------------------------------------------------
 *
 * store_internal.h
 *	  What the files of this module share, and nobody else.
 *
 * Who calls whom: each of these those after it.
 *
 *		store.c, store_writer.c	read and write
 *		store_together.c	several devices at once
 *		store_opening.c		the writer opens the device, and lets go of it
 *		store_state.c		what results mean
 *		store_follow.c		a session's own descriptor
 *		store_call.c		calls that end, whatever the device does
 *		store_device.c		(in the device process) what the writer asks for
 *		store_open.c		(in the device process) checks, claims, locks
 *		store_header.c		(in the device process) what the device holds
 *		store_made.c		(in the device process) the file that opening has made
 *		store_space.c		(in the device process) space for the file
 *		store_process.c		the device process
 *		store_list.c		the list of devices
 *		store_map.c			where slots lie, and the states of devices
 *		store_shared.c		what is known of the device, which process this is
 *		store_place.c, store_foreign.c, store_mount.c, store_uring.c
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_STORE_INTERNAL_H
#define FC_STORE_INTERNAL_H

#include "compat.h"
#include "failpoint.h"
#include "layout.h"
#include "store/store.h"
#include "store/store_uring.h"

#include <sys/stat.h>
#include <unistd.h>

#include "port/atomics.h"
#include "storage/spin.h"

#define FC_REPLACED "\"%s\" has been replaced by another file"
#define FC_REPLACED_HINT "Nobody but the server may touch the file."

/* What is known of a device: shared by all processes, and a copy in each request to the device process. */
typedef struct FcDevice
{
	pg_atomic_uint32 generation;	/* counts openings, after the rest has
									 * been set; 0 = not open */
	pg_atomic_uint32 read_failures; /* in a row; no order needed */
	pg_atomic_uint32 write_failures;	/* likewise; reads don't excuse them */
	bool		direct;
	bool		in_memory;		/* tmpfs: nothing hangs there */
	bool		by_thread;		/* FUSE: a thread of the kernel has to read,
								 * since to ask may take as long */
	uint32		slots;
	uint32		log_blocks;
	pg_atomic_uint32 no_ring;	/* errno of a process that could not bound its
								 * wait; 0 = none, or reported */
	uint8		identity[FC_IDENTITY_BYTES];	/* what its header has; for
												 * the writer */
	pg_atomic_uint32 alignment; /* of memory that is read into; no order
								 * needed */
	struct stat seen;			/* what was opened; see fc_same_thing() */
	char		path[MAXPGPATH];
	char		shares[32];		/* as fc_store_shares() */
} FcDevice;

/* FC_DEVICES of them.  NULL in the device process.  Each read from flash looks there, so it is hidden. */
#pragma GCC visibility push(hidden)
extern FcDevice *fc_devices;
#pragma GCC visibility pop

/* ---- store_shared.c ---- */

/* The number of the current opening of a device; the writer's requests are all of that. */
extern uint32 fc_state_opening(FcDeviceNo no);

/* ---- store_map.c: where slots lie, and the states of devices ---- */

/* What is known of a device beside that: whether it may be used, and counters. */
extern void fc_store_map_init(uint32 slots, uint32 first);

/* Where a slot lies. */
typedef struct FcPlace
{
	FcDeviceNo	no;				/* FC_NO_DEVICE: nowhere */
	off_t		offset;
} FcPlace;

extern FcPlace fc_place_of(FcSlotNo slot);

/* May it be read?  Of the first one the state of the cache tells. */
extern bool fc_device_readable(FcDeviceNo no);

/* For store_list.c: of the device's entry; the chunk of a slot; places of all. */
extern slock_t *fc_device_lock(FcDeviceNo no);
extern uint32 fc_map_chunk(FcSlotNo slot);
extern void fc_map_export(uint32 *slots, uint32 *place);

/* There is trouble with that opening of a device that is in use: it goes off.  Not the first one. */
extern void fc_device_trouble(FcDeviceNo no, uint32 opening, const FcReason *why);

/* Counts states that were left: a session then closes what it no longer needs. */
extern uint32 fc_device_changes(void);

/* D9: those that may hang, a bit for each. */
extern uint32 fc_device_suspects(void);

static inline bool
fc_is_among(uint32 devices, FcDeviceNo no)
{
	return unlikely((devices & (UINT32_C(1) << no)) != 0);
}

extern void fc_device_suspect(uint32 devices);
extern void fc_device_clear(uint32 devices);

/* A trial of it that was begun then has been answered; when was the last one?  ns. */
extern void fc_device_passed(FcDeviceNo no, uint64 begun);
extern uint64 fc_device_passed_at(FcDeviceNo no);

/* Its process got a request then, or goes on with it, ns; 0: it has answered, or there is none any more. */
extern void fc_device_asked(FcDeviceNo no, uint64 now);

extern void fc_device_count(FcDeviceNo no, FcDeviceCounter counter, uint64 n);
extern void fc_device_forget_counters(FcDeviceNo no);

static inline FcDevice *
fc_device(FcDeviceNo no)
{
	Assert(fc_devices != NULL && no < FC_DEVICES);
	return &fc_devices[no];
}

/*
 * Are these the same file or device?  A device is known by its number: its
 * node may be made anew, and there may be several.
 */
static inline bool
fc_same_thing(const struct stat *a, const struct stat *b)
{
	if (S_ISBLK(a->st_mode) || S_ISBLK(b->st_mode))
		return S_ISBLK(a->st_mode) && S_ISBLK(b->st_mode) && a->st_rdev == b->st_rdev;
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* As the system calls, but -errno for errno. */
static inline ssize_t
fc_pread(int fd, char *to, size_t bytes, off_t offset)
{
	ssize_t		n;

	Assert(bytes > 0 && offset >= 0);
	do
		n = pread(fd, to, bytes, offset);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static inline ssize_t
fc_pwrite(int fd, const char *from, size_t bytes, off_t offset)
{
	ssize_t		n;

	Assert(fd >= 0 && bytes > 0 && offset >= 0);
	do
		n = pwrite(fd, from, bytes, offset);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* ---- store_state.c: what results mean ---- */

/*
 * Judges the result of a read or write: a time-out is enough, other failures
 * may happen.  What was lost with a ring says nothing about the device, and
 * what another opening than the current one answers nothing about that.
 */
extern FcIo fc_state_judge(FcDeviceNo no, uint32 opening, bool write, bool ok, ssize_t result, size_t bytes, off_t offset, int timeout_ms);

/* fc_follow() has failed, errno says why: is the device gone, or is this process to blame? */
extern FcIo fc_state_no_way(FcDeviceNo no, int timeout_ms);

/* Why a request got no answer: its result is not one that fc_has_answered(); returns false. */
extern bool fc_state_no_answer(ssize_t result, int timeout_ms, FcReason *error);

/* The writer begins, or ends, to judge results of all devices at once: those make none suspect. */
extern void fc_state_judges_together(bool begins);

/*
 * What has come of asking whether it is what was opened, and still there: no
 * answer counts as a read that was not answered.  That nothing was asked does not.
 */
extern void fc_state_count_hang(FcDeviceNo no, ssize_t result);

/* ---- store_together.c: several devices at once ---- */

/* D9: may the writer make a request to it?  If it is suspect, all that are have been tried then. */
extern FcIo fc_together_may_ask(FcDeviceNo no, int timeout_ms);

/* ---- store_follow.c: a session's own descriptor ---- */

/* This process's way to the device, to read; -1 before fc_follow(). */
extern int	fc_follow_fd[FC_DEVICES];

/* The opening that it is of, or that fc_follow() has tried to go to. */
extern uint32 fc_follow_opening[FC_DEVICES];

/*
 * Makes fc_follow_fd lead to the device as opened last.  What it returns is
 * believed only if the checksum of R3 agrees.  False with errno: ETIMEDOUT if
 * there was no answer, EAGAIN if it may be better the next time, ESTALE if
 * another file is there.
 */
extern bool fc_follow(FcDeviceNo no, int timeout_ms);

/* ---- store_call.c: calls that end, whatever the device does ---- */

/* What the writer wants of the device process, and its answer. */
typedef enum FcDeviceOp
{
	FC_OP_OPEN,
	FC_OP_ADOPT,
	FC_OP_READ,
	FC_OP_WRITE,
	FC_OP_SYNC,
	FC_OP_CLOSE,
	FC_OP_TRY,					/* writes pages, reads them back, compares */
} FcDeviceOp;

/* The file of another device, as far as is known of it. */
typedef struct FcOtherDevice
{
	uint32		slots;			/* 0: there is none */
	uint8		identity[FC_IDENTITY_BYTES];
	bool		offered;		/* or it has that one */
	uint8		offer[FC_IDENTITY_BYTES];
	struct stat seen;			/* zeros: not opened in this run */
} FcOtherDevice;

typedef struct FcDeviceRequest
{
	FcDeviceOp	op;
	FcDeviceNo	no;
	FcFault		fault;			/* what a test wants to go wrong */
	FcFault		read_fault;		/* of FC_OP_TRY, when it reads */
	FcDevice	device;			/* a copy: of what was opened last, then of
								 * what is open now */
	char		path[MAXPGPATH];
	uint32		slots;
	uint32		log_blocks;
	bool		require_mount;
	bool		make;			/* the file, if it is not there */
	bool		kept;			/* the file that FC_OP_OPEN has made is in
								 * use, and stays; at any time */
	bool		known;			/* it is the same if it has this header: */
	uint8		known_identity[FC_IDENTITY_BYTES];
	uint32		known_slots;
	bool		offered;		/* or that identity, */
	uint8		offer[FC_IDENTITY_BYTES];	/* which FC_OP_OPEN gives it then */
	FcOtherDevice other[FC_DEVICES];	/* that must not be what is added */
	bool		same;			/* answer of FC_OP_OPEN: as fc_store_open() */
	bool		claimed;		/* by this process, as of its last answer:
								 * what was opened is open */
	int			n;
	off_t		offset[FC_STORE_MAX_RUN];	/* of each page; those of a write
											 * lie in a row */
	ssize_t		result;			/* bytes or -errno; for opening -1 and why not */
	uint64		ns;				/* what the device took; of FC_OP_TRY to read
								 * a page */
	uint64		write_ns;		/* of FC_OP_TRY, and how many pages it has
								 * written, */
	int			written;		/* 0 if the first one has failed */
	FcReason	error;
	char		pages[FC_STORE_MAX_RUN][BLCKSZ] pg_attribute_aligned(FC_IO_ALIGN);
} FcDeviceRequest;

/*
 * The result of a request when there is no device process to make it to; when
 * the last one has not been answered, so that it was not made (H5); no answer in
 * time is -ETIMEDOUT.
 */
#define FC_NO_PROCESS ((ssize_t) -ECHILD)
#define FC_NOT_ASKED ((ssize_t) -EALREADY)

/* Has a device process answered? */
static inline bool
fc_has_answered(ssize_t result)
{
	return result != -ETIMEDOUT && result != FC_NOT_ASKED && result != FC_NO_PROCESS;
}

/* A request to be filled in; NULL, and the result instead of one, if none can be made.  Only the writer makes any. */
extern FcDeviceRequest *fc_call_new(FcDeviceNo no, FcDeviceOp op, ssize_t *result);

/*
 * store_opening.c: opening, how long a step of it may take.  It is to be adopted;
 * what has come of that, false with the reason.
 */
extern int	fc_open_timeout(int timeout_ms);
extern FcDeviceRequest *fc_new_adopt(FcDeviceNo no, ssize_t *result);
extern bool fc_end_adopt(FcDeviceNo no, const FcDeviceRequest *r, ssize_t result, int timeout_ms, FcReason *error);

/*
 * store_opening.c: the device is to be let go of, and what is under way is of no
 * interest any more; how long that may take; it has been let go of, or the
 * process is given up.
 */
extern FcDeviceRequest *fc_new_close(FcDeviceNo no, ssize_t *result);
extern int	fc_close_timeout(int timeout_ms);
extern void fc_end_close(FcDeviceNo no, ssize_t result);

/* Makes it, and returns its result. */
extern ssize_t fc_call_make(FcDeviceRequest *r, int timeout_ms);

/* H8: makes it, and looks for its result; false if there is nobody to make it to. */
#define FC_NO_ANSWER_YET ((ssize_t) -EINPROGRESS)

extern bool fc_call_begin(FcDeviceRequest *r);
extern FcDeviceOp fc_call_under_way(FcDeviceNo no);
extern FcDeviceRequest *fc_call_look(FcDeviceNo no, int timeout_ms, ssize_t *result);

/*
 * Makes several at once, at most one of each device, and waits for all of them
 * as long as for one, since `begin`.  By number of the device; where r is NULL
 * there is none, and the result stays as it is.
 */
extern void fc_call_send_all(FcDeviceRequest *const *r);
extern void fc_call_await_all(FcDeviceRequest *const *r, ssize_t *result, uint64 begin, int timeout_ms);

/* The end of a wait that begins now. */
extern uint64 fc_call_deadline(int timeout_ms);

/* As open(), by io_uring; errno is ETIMEDOUT when there was no answer in time, and EAGAIN as long as that is so. */
extern int	fc_call_open(FcDeviceNo no, const char *path, int flags, int timeout_ms);

/*
 * Closes what was opened too late, and once more what could not be closed.
 * False: the former is still being opened, or can't be closed now.
 */
extern bool fc_call_close_late(FcDeviceNo no);

/* Is a descriptor being closed, or still to be?  Also one that was opened too late, and has come or may come. */
extern bool fc_call_closing(FcDeviceNo no);

/* That number has just been opened: if it was to be closed, it has been. */
extern void fc_call_opened(int fd);

/*
 * As close(); `bounded`: by io_uring, since it may have to wait for the device.
 * It is taken care of then until it is closed.  False: not now, since one is
 * being closed already, or there is no ring.
 */
extern bool fc_call_close(FcDeviceNo no, int fd, bool bounded);

/* Memory that a session has read into by io_uring, FC_STAGE_PAGES pages. */
#define FC_STAGE_PAGES FC_URING_BATCH

typedef struct FcStage
{
	char	   *memory;			/* never given back (H2); NULL: none yet */
	ssize_t		result[FC_STAGE_PAGES];
	int			nresults;		/* all of them in one ring */
} FcStage;

/* One that no request is under way for; NULL if there is none. */
extern FcStage *fc_call_stage(void);

/* Has this process lost so much memory to rings that broke that it takes no more? */
extern bool fc_call_has_given_up(void);

/* ---- store_device.c: what the device process does ---- */

/* Answers the request; or the writer has gone.  For fc_process_ready(). */
extern void fc_device_serve(void *request);
extern void fc_device_leave(void *request);

/* ---- store_open.c: checks, claims and locks, in the device process ---- */

/* FC_OP_OPEN and FC_OP_ADOPT: true, or false with r->error.  A file that FC_OP_OPEN has made and can't use is removed. */
extern bool fc_open_for_server(FcDeviceRequest *r);
extern bool fc_open_adopt(FcDeviceRequest *r);

/* The descriptor, or -1; may it be written to?  Only what was checked and locked may. */
extern int	fc_open_fd(void);
extern bool fc_open_claimed(void);

/* Lets go of it; `undo`: the file that FC_OP_OPEN has made is removed. */
extern void fc_open_close(bool undo);

/* What to do about errno of an open(); in any process. */
extern const char *fc_open_hint(bool is_device);

/*
 * H6: a read that updates the time of access writes to the file system's
 * journal, and so could hang where the read itself can be turned away from.
 * Only the owner may ask for this.  In any process.
 */
extern void fc_open_without_atime(int fd);

/* ---- store_made.c: the file that opening has made; in the device process ---- */

/* It has been made, and is open; it stays; it goes, unless it has been replaced or somebody else has it. */
extern void fc_made(const char *path, int fd);
extern void fc_made_stays(void);
extern void fc_made_undo(void);

/* ---- store_header.c: what the device holds; in the device process ---- */

/* Its header must be ours, or the place must be empty.  `block`: memory for a header, aligned. */
extern bool fc_header_check(FcDevice *device, int fd, const char *path, const struct stat *st, char *block, FcReason *error);

/*
 * Is that the header which was written when the device was opened, to the last
 * bit?  It must be, or the one that an opening has written of which nothing has
 * been heard.
 */
extern bool fc_header_is_same(const FcDevice *device, const char *block, size_t len);
extern bool fc_header_check_same(const FcDeviceRequest *r, int fd, FcReason *error);

/* It must be large enough; `first`: what the hint says. */
extern bool fc_header_check_size(int fd, const char *path, const struct stat *st, uint32 slots, uint32 log_blocks, bool first, FcReason *error);
extern bool fc_header_write(int fd, const char *path, uint32 slots, const uint8 *identity, char *block, FcReason *error);

#endif							/* FC_STORE_INTERNAL_H */
