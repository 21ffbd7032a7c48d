/*-------------------------------------------------------------------------
 *
 * store_call.c
 *	  Calls that end, whatever the device does.
 *
 * The writer makes its calls by the device process, one at a time (H4, H5); a
 * session by io_uring, into memory of this file (H1, H2).  Who has waited in
 * vain turns away, and what the device may still write to stays as it is.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "failpoint.h"
#include "store/store_internal.h"
#include "store/store_list.h"
#include "store/store_process.h"

/* ---- requests to the device process ---- */

/* What an opening may have given it, what the headers of the other devices say, and which files they are. */
static void
note_known(FcDeviceRequest *r, FcDeviceNo no)
{
	FcDeviceEntry entry = {""};

	(void) fc_list_entry(no, &entry);
	r->offered = entry.offered;
	memcpy(r->offer, entry.offer, sizeof(r->offer));
	memset(r->other, 0, sizeof(r->other));
	for (FcDeviceNo i = 0; i < FC_DEVICES; i++)
	{
		const FcDevice *device = fc_device(i);
		FcOtherDevice *other = &r->other[i];
		bool		there = fc_list_entry(i, &entry);

		if (i == no)
			continue;
		if (pg_atomic_read_u32(unconstify(pg_atomic_uint32 *, &device->generation)) != 0)
			other->seen = device->seen;
		other->offered = entry.offered;
		memcpy(other->offer, entry.offer, sizeof(other->offer));
		if (i == FC_THE_DEVICE)
		{
			other->slots = device->slots;
			memcpy(other->identity, device->identity, sizeof(other->identity));
		}
		else if (there && entry.opened)
		{
			other->slots = entry.slots;
			memcpy(other->identity, entry.identity, sizeof(other->identity));
		}
	}
}

FcDeviceRequest *
fc_call_new(FcDeviceNo no, FcDeviceOp op, ssize_t *result)
{
	FcDeviceRequest *r = fc_process_memory(no, sizeof(FcDeviceRequest));
	bool		opens = op == FC_OP_OPEN || op == FC_OP_ADOPT;

	Assert(fc_in_writer());
	Assert(op >= FC_OP_OPEN && op <= FC_OP_TRY);
	*result = r != NULL ? 0 : FC_NO_PROCESS;
	if (r == NULL)
		return NULL;
	switch (fc_process_ready(no, opens, fc_device_serve, fc_device_leave))
	{
		case FC_ANSWERED:
			r->op = op;
			r->no = no;
			r->fault.action = FC_FP_OFF;
			r->fault.us = 0;
			r->read_fault = r->fault;
			if (opens)
				note_known(r, no);
			return r;
		case FC_NOT_ANSWERED:
			*result = FC_NOT_ASKED; /* H5 */
			break;
		case FC_NOBODY:
			*result = FC_NO_PROCESS;
			break;
	}
	return NULL;
}

static void
check_request(const FcDeviceRequest *r)
{
	Assert(fc_in_writer());
	if (r->op == FC_OP_READ || r->op == FC_OP_WRITE || r->op == FC_OP_TRY)
		Assert(r->n > 0 && r->n <= FC_STORE_MAX_RUN && r->offset[0] >= 0);
	if (r->op == FC_OP_WRITE || r->op == FC_OP_TRY)
		Assert(r->offset[0] >= FC_HEADER_BYTES);
}

static ssize_t
result_of(const FcDeviceRequest *r, FcAnswer answer)
{
	switch (answer)
	{
		case FC_ANSWERED:
			return r->result;
		case FC_NOT_ANSWERED:
			return -ETIMEDOUT;
		case FC_NOBODY:
			break;
	}
	return FC_NO_PROCESS;
}

ssize_t
fc_call_make(FcDeviceRequest *r, int timeout_ms)
{
	check_request(r);
	return result_of(r, fc_process_call(r->no, timeout_ms));
}

void
fc_call_send_all(FcDeviceRequest *const *r)
{
	for (FcDeviceNo no = 0; no < FC_DEVICES; no++)
		if (r[no] != NULL)
			(void) fc_process_send(no);
}

void
fc_call_await_all(FcDeviceRequest *const *r, ssize_t *result, uint64 begin, int timeout_ms)
{
	for (FcDeviceNo no = 0; no < FC_DEVICES; no++)
		if (r[no] != NULL)
		{
			result[no] = result_of(r[no], fc_process_await(no, begin, timeout_ms));

			/*
			 * without a limit: the settings have set one, which is over for
			 * all
			 */
			if (timeout_ms == 0 && result[no] == -ETIMEDOUT)
				timeout_ms = 1;
		}
}

bool
fc_call_begin(FcDeviceRequest *r)
{
	check_request(r);
	return fc_process_begin(r->no);
}

FcDeviceOp
fc_call_under_way(FcDeviceNo no)
{
	const FcDeviceRequest *r = fc_process_memory(no, sizeof(FcDeviceRequest));

	return r->op;
}

FcDeviceRequest *
fc_call_look(FcDeviceNo no, int timeout_ms, ssize_t *result)
{
	FcDeviceRequest *r = fc_process_memory(no, sizeof(FcDeviceRequest));
	bool		late;

	switch (fc_process_look(no, timeout_ms, &late))
	{
		case FC_ANSWERED:
			*result = r->result;
			return r;
		case FC_NOT_ANSWERED:
			*result = late ? -ETIMEDOUT : FC_NO_ANSWER_YET;
			return r;
		case FC_NOBODY:
			break;
	}
	*result = FC_NO_PROCESS;
	return r;
}

/* ---- io_uring ---- */

/*
 * Memory that is read into.  The device may write there until the results are
 * known, so that a stage which somebody turned away from stays as it is, and
 * the next read takes another.  When none is left this process reads no more
 * from flash, until an answer comes.  Of a request that was lost with its ring
 * none will: its stage leaves the memory to the kernel and gets other memory,
 * so often in the life of a process, and is left unused after that.
 */
#define STAGES (3 + FC_DEVICES)
#define MOST_RENEWED 16

static FcStage stages[STAGES];
static int	renewed = 0;

/*
 * Opening a device by io_uring, and the descriptor once it has come.  Closing
 * one: its number, -1 when that is done, and where it leads.
 */
typedef struct Way
{
	ssize_t		opening;
	ssize_t		closing;
	int			closing_fd;
	struct statx closing_file;
} Way;

#define NO_WAY {.opening = FC_NOT_BEGUN, .closing = FC_NOT_BEGUN, .closing_fd = -1}

static Way	ways[] = {NO_WAY, NO_WAY, NO_WAY, NO_WAY, NO_WAY, NO_WAY, NO_WAY, NO_WAY};

StaticAssertDecl(lengthof(ways) == FC_DEVICES, "a way to each device");

uint64
fc_call_deadline(int timeout_ms)
{
	Assert(timeout_ms >= 0);
	return timeout_ms > 0 ? fc_now_ns() + (uint64) timeout_ms * 1000000 : FC_FOR_EVER;
}

static bool
stage_idle(const FcStage *stage)
{
	Assert(stage->nresults >= 0 && stage->nresults <= FC_STAGE_PAGES);
	for (int i = 0; i < stage->nresults; i++)
		if (fc_in_flight(stage->result[i]))
			return false;
	return true;
}

/* Requests of a stage are all in one ring. */
static bool
stage_lost(const FcStage *stage)
{
	for (int i = 0; i < stage->nresults; i++)
		if (fc_uring_lost(stage->result[i]))
			return true;
	return false;
}

/* Can a stage that is in use be used again? */
static bool
can_use_again(FcStage *stage)
{
	Assert(stage->memory != NULL && stage->nresults > 0);
	Assert(renewed <= MOST_RENEWED);
	fc_uring_look();
	if (stage_lost(stage) && renewed < MOST_RENEWED)
	{
		renewed++;
		stage->memory = NULL;
		stage->nresults = 0;
	}
	return stage_idle(stage);
}

bool
fc_call_has_given_up(void)
{
	return renewed >= MOST_RENEWED;
}

FcStage *
fc_call_stage(void)
{
	Assert(!fc_in_writer());
	for (int i = 0; i < STAGES; i++)
	{
		FcStage    *stage = &stages[i];

		if (unlikely(!stage_idle(stage) && !can_use_again(stage)))
			continue;
		if (unlikely(stage->memory == NULL))
			stage->memory = fc_store_memory(FC_STAGE_PAGES);
		Assert(stage_idle(stage));
		if (stage->memory != NULL && i == 0)
			fc_uring_pin(stage->memory, BLCKSZ);	/* single pages */
		return stage->memory != NULL ? stage : NULL;
	}
	return NULL;
}

char *
fc_store_memory(int pages)
{
	/* not palloc: this is called within the storage manager */
	char	   *memory = mmap(NULL, (size_t) pages * BLCKSZ, PROT_READ | PROT_WRITE,
							  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	Assert(pages > 0);
	if (memory == MAP_FAILED)
		return NULL;

	/*
	 * a child would get its own copy when either writes, and the device might
	 * fill that one
	 */
	(void) madvise(memory, (size_t) pages * BLCKSZ, MADV_DONTFORK);
	return memory;
}

/* ---- closing ---- */

static void
begin_to_close(Way *way, int fd)
{
	way->closing_fd = fd;
	fc_uring_close(fd, &way->closing);
	fc_uring_submit();
}

/* Which file is it?  The device is not asked. */
static bool
which_file(int fd, struct statx *stx)
{
	return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, stx) == 0;
}

/* Is the number still that of the descriptor that was to be closed? */
static bool
still_open(const Way *way)
{
	struct statx stx;

	return which_file(way->closing_fd, &stx) && stx.stx_ino == way->closing_file.stx_ino &&
		stx.stx_dev_major == way->closing_file.stx_dev_major && stx.stx_dev_minor == way->closing_file.stx_dev_minor;
}

void
fc_call_opened(int fd)
{
	for (int no = 0; no < FC_DEVICES; no++)
		if (unlikely(ways[no].closing_fd == fd))
			ways[no].closing_fd = -1;	/* the number was free: that one has
										 * gone */
}

/*
 * Has what was begun been closed?  Begins anew if the kernel did not take the
 * request, or had no thread for it.  A file system may say the same
 * (ECANCELED) of a descriptor that has gone, hence still_open().  What was lost
 * with its ring is left alone: it may be closed at any moment, and the number
 * be somebody else's then.
 */
static bool
has_closed(Way *way)
{
	if (fc_in_flight(way->closing))
		fc_uring_look();
	for (int no = 0; no < FC_DEVICES; no++)
		if (unlikely(ways[no].opening >= 0))
			fc_call_opened((int) ways[no].opening);
	if (fc_in_flight(way->closing) && !fc_uring_lost(way->closing))
		return false;
	if (likely(way->closing_fd < 0))
		return true;
	if ((way->closing != -ECANCELED && way->closing != FC_NOT_TAKEN) || !still_open(way))
		way->closing_fd = -1;
	else if (fc_uring_ready())
		begin_to_close(way, way->closing_fd);
	else if (fc_uring_never())
	{
		(void) close(way->closing_fd);
		way->closing_fd = -1;
	}
	return way->closing_fd < 0;
}

bool
fc_call_closing(FcDeviceNo no)
{
	return ways[no].closing_fd >= 0 || ways[no].opening != FC_NOT_BEGUN;
}

bool
fc_call_close_late(FcDeviceNo no)
{
	Way		   *way = &ways[no];

	(void) has_closed(way);
	if (likely(way->opening == FC_NOT_BEGUN))
		return true;
	fc_uring_look();
	if (fc_in_flight(way->opening) && !fc_uring_lost(way->opening))
		return false;
	if (way->opening >= 0 && !fc_call_close(no, (int) way->opening, true))
		return false;
	way->opening = FC_NOT_BEGUN;
	return true;
}

bool
fc_call_close(FcDeviceNo no, int fd, bool bounded)
{
	Way		   *way = &ways[no];

	Assert(fd >= 0);
	Assert(!fc_in_writer());
	fc_call_opened(fd);			/* as above */
	if (!bounded || (!fc_uring_ready() && fc_uring_never()))
	{
		/* not again if it fails: the number may be somebody else's by then */
		(void) close(fd);
		return true;
	}
	if (!has_closed(way) || !fc_uring_ready())
		return false;
	if (!which_file(fd, &way->closing_file))
		memset(&way->closing_file, 0, sizeof(way->closing_file));
	begin_to_close(way, fd);
	return true;
}

/* ---- opening ---- */

int
fc_call_open(FcDeviceNo no, const char *path, int flags, int timeout_ms)
{
	Way		   *way = &ways[no];
	int			fd;

	Assert(!fc_in_writer());
	Assert(path[0] == '/' && (flags & O_ACCMODE) == O_RDONLY);
	Assert(timeout_ms > 0);
	if (!fc_call_close_late(no))
	{
		errno = EAGAIN;
		return -1;
	}
	fc_uring_open(path, flags, &way->opening);
	fc_uring_wait(&way->opening, fc_call_deadline(timeout_ms));
	if (fc_in_flight(way->opening) || fc_uring_lost(way->opening) || fc_failpoint(FC_FP_STORE_LATE))
	{
		errno = fc_uring_lost(way->opening) ? EAGAIN : ETIMEDOUT;
		return -1;
	}
	fd = way->opening < 0 ? -1 : (int) way->opening;
	errno = way->opening < 0 ? (int) -way->opening : 0;
	way->opening = FC_NOT_BEGUN;
	return fd;
}
