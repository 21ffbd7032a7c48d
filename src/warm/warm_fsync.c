/*-------------------------------------------------------------------------
 *
 * warm_fsync.c
 *	  Was fsync off for a moment? (K9)
 *
 * What counts is not how the writer is configured, but the checkpointer, and
 * whoever syncs in its place: each process reads the configuration when it
 * gets to that, and of two reloads in a row some see one and some see both.
 * So each process says so itself, as soon as it is told: by a hook of the
 * setting, which the server leaves unused.  The postmaster sets the hook
 * before it starts anybody, and its children inherit it.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "compat.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "warm/warm_internal.h"

static GucBoolAssignHook next_assign = NULL;

/*
 * Before the process has the new value.  Not in a process without shared
 * memory, like the logger: those have no PGPROC.
 */
static void
assign_fsync(bool newval, void *extra)
{
	if (!newval && fc_warm != NULL && (!IsUnderPostmaster || MyProc != NULL))
	{
		fc_warm->fsync_was_off = true;
		pg_memory_barrier();
	}
	if (next_assign != NULL)
		next_assign(newval, extra);
}

void
fc_warm_watch_fsync(void)
{
	GucBoolAssignHook *hook = fc_assign_hook("fsync", &enableFsync);

	if (hook == NULL || !enableFsync)
		fc_warm->fsync_was_off = true;
	if (hook == NULL || *hook == assign_fsync)
		return;					/* set before the last crash */
	next_assign = *hook;
	*hook = assign_fsync;
}
