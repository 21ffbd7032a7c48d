/*-------------------------------------------------------------------------
 *
 * writer_process.c
 *	  The writer as a process: its signals and settings, and how it ends.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "cache/cache.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "settings.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "store/store.h"
#include "utils/guc.h"
#include "warm/warm.h"
#include "writer/writer.h"
#include "writer/writer_internal.h"

/* A SIGTERM came from the postmaster, which sends one only when the server is being shut down. */
static volatile sig_atomic_t server_ends = false;
static volatile sig_atomic_t hurries = false;

void
fc_writer_leave(void)
{
	Assert(FC_IS_WRITER());
	if (proc_exit_inprogress)
		return;
	if (server_ends && fc_writer_keeps_pages() && fc_warm_unfinished())
		ereport(LOG,
				(errmsg("pg_flashcache could not complete its log: the next start begins with an empty cache"),
				 fc_warm_group_unfinished() ?
				 errdetail("There was more of it to write than could be written while the server ended.") :
				 errdetail("The flash device did not answer while the server ended.")));
	/* 1 is started again, and tells the log; no FATAL in either case */
	proc_exit(server_ends ? 0 : 1);
}

bool
fc_writer_server_ends(void)
{
	return server_ends;
}

bool
fc_writer_hurries(void)
{
	return hurries;
}

static int
reload_settings(void)
{
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	return fc_setting_enabled ? fc_setting_io_timeout : -1;
}

void
fc_writer_reload(void)
{
	if (ConfigReloadPending)
		(void) reload_settings();
}

/* Who sends it tells an end of the server from one of this process alone. */
static void
on_sigterm(int signo, siginfo_t * info, void *context)
{
	int			save_errno = errno;

	if (MyProcPid != (int) getpid())
		return;					/* a child that has not got rid of this
								 * handler yet */
	if (info->si_pid == PostmasterPid)
		server_ends = true;
	else if (server_ends)
		hurries = true;
	ShutdownRequestPending = true;
	SetLatch(MyLatch);
	errno = save_errno;
}

void
fc_writer_take_signals(void)
{
	static const FcStoreOwner owner = {fc_writer_leave, reload_settings};
	struct sigaction sigterm = {
		.sa_sigaction = on_sigterm,
		.sa_flags = SA_RESTART | SA_SIGINFO
	};

	fc_store_own(&owner);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	sigemptyset(&sigterm.sa_mask);
	sigaction(SIGTERM, &sigterm, NULL);
	BackgroundWorkerUnblockSignals();
}
