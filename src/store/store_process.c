/*-------------------------------------------------------------------------
 *
 * store_process.c
 *	  See store_process.h.
 *
 * Messages are single bytes.  From the writer: a request is in the memory; go
 * on after a pause point.  From the device process: the answer is in the
 * memory; it goes on; it has come to a pause point.
 *
 * It is made by fork() alone, and the writer collects it when it has ended: so
 * where the postmaster is process 1 of a container, and would get it as an
 * orphan, that only happens to one that ends after its writer, with status 0.
 * An unknown child that ends so is ignored by the postmasters of 15 to 17, and
 * logged by later ones.  A device has one device process at a time: the next one
 * is made when the former has been collected.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "child.h"
#include "compat.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "stats/stats.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/pmsignal.h"
#include "storage/proc.h"
#include "store/store_internal.h"
#include "store/store_process.h"
#include "utils/ps_status.h"

#define REQUEST 'R'
#define ANSWER 'A'
#define GOES_ON 'T'
#define POINT 'P'
#define GO 'G'

/* So often a writer that waits sees whether it is to stop. */
#define LOOK_MS 100

/* Begins the memory of a request. */
typedef struct Head
{
	FcFailpointId point;		/* of POINT */
	bool		fails;			/* of GO */
	uint32		us;				/* of GO: after so long */
	bool		points;			/* is any point armed? */
} Head;

/* The request begins at the next page, as direct I/O wants it. */
#define HEAD_BYTES FC_IO_ALIGN

int			fc_process_patience_ms = 0;

/* D3: one for each device, and what the writer knows of it. */
typedef struct Process
{
	Head	   *head;
	size_t		memory_bytes;
	int			sock;			/* the writer's end, -1 if there is none */
	pid_t		pid;			/* until it has been collected */
	bool		under_way;		/* a request has not been answered */
	bool		looked_for;		/* H8: its answer is */
	bool		turned_away;	/* H8: it was, and was not late */
	uint64		since;			/* it was made, or the process last said that
								 * it goes on; ns */
} Process;

#define NO_PROCESS {.sock = -1}

static Process processes[] = {NO_PROCESS, NO_PROCESS, NO_PROCESS, NO_PROCESS, NO_PROCESS, NO_PROCESS, NO_PROCESS, NO_PROCESS};

StaticAssertDecl(lengthof(processes) == FC_DEVICES, "a process for each device");

/* Of the device process itself: its memory, and its end. */
static Head *head = NULL;
static int	sock = -1;
static FcServe at_end;
static bool ends = false;

/* ---- the device process ---- */

/* The writer has gone.  What is done then may speak to it as ever, and is not heard. */
static void
leave(void)
{
	Assert(fc_is_device_process);
	if (ends)
		return;
	ends = true;
	at_end((char *) head + HEAD_BYTES);
	_exit(0);
}

static void
tell(char what)
{
	Assert(fc_is_device_process && sock >= 0);
	if (send(sock, &what, 1, MSG_NOSIGNAL) != 1)
		leave();
}

static void
hear(char what)
{
	char		byte;
	ssize_t		n;

	Assert(fc_is_device_process && sock >= 0);
	do
		n = recv(sock, &byte, 1, 0);
	while (n < 0 && errno == EINTR);
	if (n != 1 || byte != what)
		leave();
}

void
fc_process_goes_on(void)
{
	tell(GOES_ON);
}

bool
fc_process_failpoint(FcFailpointId id)
{
	Assert(fc_is_device_process);
	Assert(id < FC_FP_COUNT);
	if (!head->points || ends)
		return false;
	head->point = id;
	tell(POINT);
	hear(GO);
	fc_process_sleep(head->us);
	return head->fails;
}

void
fc_process_sleep(uint32 us)
{
	struct pollfd pfd = {
		.fd = sock,
		.events = POLLIN
	};

	Assert(fc_is_device_process);
	/* the writer has nothing to say now but that it has gone */
	if (us > 0 && !ends && poll(&pfd, 1, (us + 999) / 1000) > 0)
		leave();
}

static void
run(FcServe serve, FcServe leaves)
{
	Assert(head != NULL && sock >= 0);
	fc_is_device_process = true;
	at_end = leaves;
	fc_child_begin();
	fc_stats = NULL;
	fc_failpoint_forget();
	if (!fc_child_descriptors(sock) || !fc_child_memory(head) || chdir("/") != 0)
		_exit(0);
	init_ps_display("pg_flashcache device");
	for (;;)
	{
		hear(REQUEST);
		serve((char *) head + HEAD_BYTES);
		tell(ANSWER);
	}
}

/* ---- the writer ---- */

void *
fc_process_memory(FcDeviceNo no, size_t bytes)
{
	Process    *p = &processes[no];

	Assert(fc_in_writer());
	Assert(bytes > 0 && no < FC_DEVICES);
	if (p->head == NULL)
	{
		void	   *memory = mmap(NULL, HEAD_BYTES + bytes, PROT_READ | PROT_WRITE,
								  MAP_SHARED | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			return NULL;
		p->head = memory;
		p->memory_bytes = bytes;
	}
	Assert(p->memory_bytes == bytes);
	return (char *) p->head + HEAD_BYTES;
}

void
fc_process_abandon(FcDeviceNo no)
{
	Process    *p = &processes[no];

	Assert(fc_in_writer());
	if (p->sock < 0)
		return;
	close(p->sock);
	ReleaseExternalFD();
	p->sock = -1;
	p->under_way = false;
	p->looked_for = false;
	p->turned_away = false;
	fc_device_asked(no, 0);
}

static bool
make_process(Process *p, FcServe serve, FcServe leaves)
{
	int			ends[2];

	Assert(p->sock < 0 && p->pid == 0 && !p->under_way);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		return false;
	/* what the former process has left there is not so of this one */
	memset((char *) p->head + HEAD_BYTES, 0, p->memory_bytes);
	p->pid = fork();
	if (p->pid == 0)
	{
		sock = ends[1];
		head = p->head;
		run(serve, leaves);
	}
	close(ends[1]);
	if (p->pid < 0)
	{
		int			save_errno = errno;

		close(ends[0]);
		p->pid = 0;
		errno = save_errno;
		return false;
	}
	p->sock = ends[0];
	ReserveExternalFD();
	return true;
}

/* Takes what the device process says, if it has said something; false if it has died. */
static bool
listen_to_it(FcDeviceNo no, bool *goes_on)
{
	Process    *p = &processes[no];
	char		byte = 0;
	ssize_t		n = recv(p->sock, &byte, 1, MSG_DONTWAIT);

	Assert(fc_in_writer() && p->sock >= 0);
	Assert(p->under_way || n <= 0); /* it speaks when it is asked */
	*goes_on = false;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n == 1 && byte == ANSWER)
	{
		p->under_way = p->turned_away = false;
		fc_device_asked(no, 0);
	}
	else if (n == 1 && byte == GOES_ON)
	{
		*goes_on = true;
		fc_device_asked(no, fc_now_ns());
	}
	else if (n == 1 && byte == POINT)
	{
		char		go = GO;
		FcFault		fault = fc_failpoint_fault_of(p->head->point, no);

		*goes_on = true;
		p->head->us = fault.us;
		p->head->fails = fault.us == 0 && fc_failpoint_of(p->head->point, no + 1);
		n = send(p->sock, &go, 1, MSG_NOSIGNAL);
	}
	if (n == 1)
		return true;
	fc_process_abandon(no);
	return false;
}

FcAnswer
fc_process_ready(FcDeviceNo no, bool make, FcServe serve, FcServe leaves)
{
	Process    *p = &processes[no];
	bool		more = true;

	Assert(fc_in_writer());
	Assert(!p->under_way || p->sock >= 0);
	Assert(!p->looked_for);
	while (p->under_way && more)
		(void) listen_to_it(no, &more);
	if (p->under_way)
		return FC_NOT_ANSWERED;
	if (p->sock >= 0)
		return FC_ANSWERED;
	errno = 0;
	if (!make)
		return FC_NOBODY;
	if (!fc_child_collected(&p->pid))
		return FC_NOT_ANSWERED;
	errno = ENOMEM;
	return p->head != NULL && make_process(p, serve, leaves) ? FC_ANSWERED : FC_NOBODY;
}

bool
fc_store_is_idle(FcDeviceNo no)
{
	Process    *p = &processes[no];

	Assert(fc_in_writer());
	return p->sock >= 0 || fc_child_collected(&p->pid);
}

static uint64
limit_ns(int timeout_ms)
{
	return timeout_ms > 0 ? (uint64) timeout_ms * 1000000 : PG_INT64_MAX;
}

/*
 * The writer waits without a limit, and the settings have changed: there may
 * be one now, from this moment on.  False if the device is no longer wanted.
 */
static bool
reload(uint64 *begin, uint64 *limit)
{
	int			timeout_ms = fc_process_owner->reload();

	*begin = fc_now_ns();
	*limit = limit_ns(timeout_ms);
	return timeout_ms >= 0;
}

bool
fc_process_send(FcDeviceNo no)
{
	Process    *p = &processes[no];
	char		request = REQUEST;

	Assert(fc_in_writer());
	Assert(p->sock >= 0 && !p->under_way && !p->looked_for);
	p->head->points = fc_failpoints_armed();
	p->under_way = send(p->sock, &request, 1, MSG_NOSIGNAL) == 1;
	if (p->under_way)
		fc_device_asked(no, fc_now_ns());
	else
		fc_process_abandon(no);
	return p->under_way;
}

bool
fc_process_begin(FcDeviceNo no)
{
	Process    *p = &processes[no];

	if (!fc_process_send(no))
		return false;
	p->looked_for = true;
	p->since = fc_now_ns();
	return true;
}

void
fc_process_turn_away(FcDeviceNo no)
{
	Process    *p = &processes[no];

	p->turned_away |= p->looked_for;
	p->looked_for = false;
}

void
fc_process_settle(FcDeviceNo no, int timeout_ms)
{
	Process    *p = &processes[no];

	Assert(fc_in_writer());
	if (!p->under_way || !p->turned_away)
		return;
	p->turned_away = false;		/* once (H5) */
	(void) fc_process_await(no, fc_now_ns(), timeout_ms);
}

FcAnswer
fc_process_look(FcDeviceNo no, int timeout_ms, bool *late)
{
	Process    *p = &processes[no];
	bool		goes_on = true;

	Assert(fc_in_writer());
	Assert(p->looked_for && p->under_way);
	while (p->under_way && goes_on)
	{
		(void) listen_to_it(no, &goes_on);
		if (goes_on)
			p->since = fc_now_ns();
	}
	*late = p->under_way && timeout_ms > 0 && fc_now_ns() - p->since >= limit_ns(timeout_ms);
	p->looked_for = p->under_way && !*late;
	if (p->under_way)
		return FC_NOT_ANSWERED;
	errno = 0;
	return p->sock >= 0 ? FC_ANSWERED : FC_NOBODY;
}

FcAnswer
fc_process_call(FcDeviceNo no, int timeout_ms)
{
	(void) fc_process_send(no);
	return fc_process_await(no, fc_now_ns(), timeout_ms);
}

FcAnswer
fc_process_await(FcDeviceNo no, uint64 begin, int timeout_ms)
{
	Process    *p = &processes[no];
	uint64		limit = limit_ns(timeout_ms);
	uint64		asked_at = 0;	/* to end */

	Assert(fc_in_writer());
	Assert(timeout_ms >= 0);
	while (p->under_way)
	{
		struct pollfd pfd = {
			.fd = p->sock,
			.events = POLLIN
		};
		uint64		waited = fc_now_ns() - begin;
		uint64		left_ms = waited < limit ? (limit - waited + 999999) / 1000000 : 0;
		bool		goes_on = false;

		if (poll(&pfd, 1, (int) Min(left_ms, LOOK_MS)) > 0 && !listen_to_it(no, &goes_on))
			break;
		if (goes_on)
			begin = fc_now_ns();
		if (!p->under_way)
			return FC_ANSWERED;
		if (ShutdownRequestPending && asked_at == 0)
			asked_at = fc_now_ns();
		if ((asked_at != 0 && fc_now_ns() - asked_at >= (uint64) fc_process_patience_ms * 1000000) || !PostmasterIsAlive())
		{
			fc_process_owner->stop();
			return FC_NOT_ANSWERED;
		}
		if (!goes_on && left_ms == 0)
			return FC_NOT_ANSWERED;
		if (timeout_ms == 0 && ConfigReloadPending && !reload(&begin, &limit))
			return FC_NOT_ANSWERED;
	}
	errno = 0;
	return p->sock >= 0 ? FC_ANSWERED : FC_NOBODY;	/* it had answered before */
}
