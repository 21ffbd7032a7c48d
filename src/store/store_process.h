/*-------------------------------------------------------------------------
 *
 * store_process.h
 *	  The device process: does what could block, in the writer's stead.
 *
 * A system call on a file whose device hangs, or whose file system is frozen,
 * does not return, and a process within it cannot be ended: the server could
 * neither stop nor recover from a crash while its writer is there.  So
 * whatever the writer wants of the device is done by a process that nobody
 * waits for: a child of the writer which the postmaster does not know, and
 * which has nothing of the server's: no shared memory, no descriptor, no
 * signal of its process group, not its current directory.  It ends by itself
 * when the writer has gone.
 *
 * The two share a piece of memory, for one request at a time, and a socket.
 * The writer waits there, and may turn away: then it makes no further request
 * before that one has been answered, and the memory stays as it is (H5).
 *
 * Each device has a process of its own: one that hangs keeps the writer from no
 * other.
 *
 * What the process runs must not touch shared memory, raise, allocate with
 * palloc, count, or wait for anything but the device.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_STORE_PROCESS_H
#define FC_STORE_PROCESS_H

#include "postgres.h"

#include "failpoint.h"
#include "store/store.h"

typedef enum FcAnswer
{
	FC_ANSWERED,
	FC_NOT_ANSWERED,			/* in time; or an earlier request has not
								 * been, and this one was not made */
	FC_NOBODY,					/* there is no device process, or it has died;
								 * errno if it could not be made */
} FcAnswer;

/* Who is it that runs here?  For assertions. */
extern bool fc_in_writer(void);
extern bool fc_in_device_process(void);

/* ---- for the writer ---- */

/* See fc_store_patience(). */
extern int	fc_process_patience_ms;

/* What the writer does when it is interrupted while it waits. */
extern const FcStoreOwner *fc_process_owner;
extern bool fc_is_device_process;

/* The memory of the request, so many bytes; the same ones each time.  NULL if there is none. */
extern void *fc_process_memory(FcDeviceNo no, size_t bytes);

/*
 * Can a request be made?  Only then may the memory be written to.  FC_NOBODY
 * unless `make`: then a process is made that calls serve() for each request,
 * and leaves() when the writer has gone, also within serve().
 */
typedef void (*FcServe) (void *memory);

extern FcAnswer fc_process_ready(FcDeviceNo no, bool make, FcServe serve, FcServe leaves);

/* Makes the request and waits for the answer; timeout_ms 0 is for ever, unless the settings change. */
extern FcAnswer fc_process_call(FcDeviceNo no, int timeout_ms);

/*
 * The same in two steps, so that several devices can be asked at once: makes
 * the request; and waits for its answer, as if it had been made at `begin`.  The
 * latter can be done again.  False, and there is no process any more, if it has
 * died.
 */
extern bool fc_process_send(FcDeviceNo no);
extern FcAnswer fc_process_await(FcDeviceNo no, uint64 begin, int timeout_ms);

/*
 * H8: the same without waiting.  Begins: false if there is nobody.  Looks: FC_NOT_ANSWERED
 * is not yet, or `late`, and then nobody looks any more.  In between there is no other
 * request to this device; fc_process_turn_away() ends that without an answer.
 */
extern bool fc_process_begin(FcDeviceNo no);
extern FcAnswer fc_process_look(FcDeviceNo no, int timeout_ms, bool *late);
extern void fc_process_turn_away(FcDeviceNo no);

/*
 * A request may be under way from which somebody has turned away.  Nobody has
 * waited for it in vain, so it is waited for, once.
 */
extern void fc_process_settle(FcDeviceNo no, int timeout_ms);

/* Gives up the process, which ends as soon as it can. */
extern void fc_process_abandon(FcDeviceNo no);

/* ---- for serve(), within the device process ---- */

/* It goes on: the writer's time-out begins anew. */
extern void fc_process_goes_on(void);

/* A pause point: the writer, which has shared memory, stands there; a delay is this process's. */
extern bool fc_process_failpoint(FcFailpointId id);

/* Waits; ends the process when the writer goes meanwhile. */
extern void fc_process_sleep(uint32 us);

#endif							/* FC_STORE_PROCESS_H */
