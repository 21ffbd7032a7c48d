/*-------------------------------------------------------------------------
 *
 * follow/follow_pull.c
 *	  The follower's side of the process that has the connection.
 *
 * One such process at a time.  It is given up after a limit, and whenever the
 * follower is to end; it then ends by itself, and nobody waits for it longer
 * than a moment.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "child.h"
#include "compat.h"
#include "follow/follow_internal.h"
#include "miscadmin.h"
#include "postmaster/postmaster.h"
#include "settings.h"
#include "storage/fd.h"
#include "utils/timestamp.h"

#define SECOND_NS UINT64CONST(1000000000)

/* Until it is connected: several addresses, a time-out each, and a second look at why. */
#define CONNECT_NS (60 * SECOND_NS)

/* Until the first row: the other server sorts its map, which takes it a minute for a TB. */
#define FIRST_ROW_NS (600 * SECOND_NS)

/* Between two rows, and for all of it. */
#define NEXT_ROW_NS (60 * SECOND_NS)
#define ALL_NS (1800 * SECOND_NS)

static pid_t process = 0;		/* until it has been collected */
static int	sock = -1;			/* the pipe's end */

void
fc_follow_abandon(void)
{
	if (sock >= 0)
	{
		close(sock);
		ReleaseExternalFD();
	}
	sock = -1;
	if (process != 0)
	{
		(void) kill(process, SIGTERM);
		(void) fc_child_collected(&process);
	}
}

static bool
start(const FcFollowSelf *self)
{
	int			ends[2];

	fc_follow_abandon();
	if (process != 0)
		return false;			/* the former one hangs in the kernel */
	if (pipe2(ends, O_CLOEXEC) != 0)
		return false;
	process = fork();
	if (process == 0)
		fc_follow_client(PrimaryConnInfo, fc_setting_follow_conninfo, self, ends[1]);
	close(ends[1]);
	if (process < 0)
	{
		process = 0;
		close(ends[0]);
		return false;
	}
	sock = ends[0];
	ReserveExternalFD();
	return fcntl(sock, F_SETFL, O_NONBLOCK) == 0;
}

/* What has come through the pipe and was not looked at yet. */
static union
{
	FcFollowMessage message;
	char		bytes[64 * 1024];
}			in;
static int	have;

/* False: the process has ended, without a word. */
static bool
receive(bool *something)
{
	ssize_t		n = read(sock, in.bytes + have, sizeof(in.bytes) - have);

	*something = n > 0;
	if (n > 0)
		have += (int) n;
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* The next message, if it is complete. */
static bool
next_message(FcFollowMessage *message, FcMapRow *row, int *at)
{
	if (have - *at < (int) sizeof(*message))
		return false;
	memcpy(message, in.bytes + *at, sizeof(*message));
	if (have - *at < (int) sizeof(*message) + message->bytes)
		return false;
	Assert(message->bytes >= 0 && message->bytes <= (int) sizeof(*row));
	memcpy(row, in.bytes + *at + sizeof(*message), message->bytes);
	*at += (int) sizeof(*message) + message->bytes;
	return true;
}

/* All that has come.  *ended: the map is complete. */
static FcFollowWhy
take_messages(FcFollowMap *map, uint64 *limit, char *sqlstate, bool *ended)
{
	static FcMapRow row;
	FcFollowMessage message;
	FcFollowWhy why = FC_WHY_NONE;
	int			at = 0;

	while (why == FC_WHY_NONE && next_message(&message, &row, &at))
	{
		switch (message.what)
		{
			case FC_TELL_CONNECTED:
				*limit = FIRST_ROW_NS;
				break;
			case FC_TELL_ROW:
				*limit = NEXT_ROW_NS;
				why = fc_follow_map_add(map, &row);
				break;
			case FC_TELL_DONE:
				*ended = true;
				return fc_follow_map_finish(map);
			case FC_TELL_FAILED:
				memcpy(sqlstate, message.sqlstate, sizeof(message.sqlstate));
				return message.why;
		}
	}
	memmove(in.bytes, in.bytes + at, have - at);
	have -= at;
	return why;
}

static FcFollowWhy
receive_map(FcFollowMap *map, char *sqlstate)
{
	uint64		limit = CONNECT_NS;
	uint64		began = fc_now_ns();
	uint64		heard = began;
	FcFollowWhy why = FC_WHY_NONE;
	bool		ended = false;

	have = 0;
	while (why == FC_WHY_NONE && !ended)
	{
		uint64		now = fc_now_ns();
		bool		something;
		bool		there;

		why = fc_follow_look();
		if (why != FC_WHY_NONE)
			break;
		if (now - heard >= limit || now - began >= ALL_NS)
			return limit == CONNECT_NS ? FC_WHY_NO_ANSWER : FC_WHY_TOO_SLOW;
		there = receive(&something);
		if (something)
		{
			heard = now;
			why = take_messages(map, &limit, sqlstate, &ended);
		}
		else if (!there)
			return FC_WHY_LOST;
		else
			fc_follow_wait(sock, heard + limit - now);
	}
	return why;
}

FcFollowWhy
fc_follow_pull(FcFollowMap *map, char *sqlstate)
{
	FcFollowSelf self = {GetSystemIdentifier(), PgStartTime, PostPortNumber};
	FcFollowWhy why;

	if (!fc_follow_client_load())
		return FC_WHY_NO_LIBPQ;
	if (fc_setting_follow_conninfo[0] == '\0' && PrimaryConnInfo[0] == '\0')
		return FC_WHY_NO_PRIMARY;
	if (!fc_follow_map_create(map))
		return FC_WHY_NO_SPACE;
	why = start(&self) ? receive_map(map, sqlstate) : FC_WHY_NO_PROCESS;
	fc_follow_abandon();
	return why;
}
