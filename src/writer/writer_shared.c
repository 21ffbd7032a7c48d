/*-------------------------------------------------------------------------
 *
 * writer_shared.c
 *	  Where the shared memory of the writer is, and what sessions see of it
 *	  there.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "pgstat.h"
#include "settings.h"
#include "storage/proc.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"
#include "writer/writer.h"
#include "writer/writer_internal.h"

FcWriterShared *fc_writer_shared = NULL;

int
fc_writer_pid(const char **wait_event)
{
	PGPROC	   *proc = fc_writer_shared != NULL ? fc_writer_shared->proc : NULL;
	int			pid = proc != NULL ? fc_writer_shared->pid : 0;

	*wait_event = NULL;
	if (proc != NULL)
	{
		uint32		info = *(volatile uint32 *) &proc->wait_event_info;

		*wait_event = pgstat_get_wait_event(info);
	}
	return pid;
}

TimestampTz
fc_writer_next_probe(void)
{
	return fc_writer_shared != NULL ? (TimestampTz) pg_atomic_read_u64(&fc_writer_shared->next_probe) : 0;
}

int
fc_writer_waits_bounded(void)
{
	if (fc_writer_shared == NULL || !fc_writer_shared->started)
		return -1;
	return fc_setting_io_timeout > 0;
}
