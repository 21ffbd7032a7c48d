/*-------------------------------------------------------------------------
 *
 * stats_stripe.c
 *	  Where a process counts: its stripe and, for a parallel worker, the cell of
 *	  its leader.  All other files count by this.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "compat.h"
#include "miscadmin.h"
#include "stats/stats.h"
#include "stats/stats_internal.h"
#include "storage/proc.h"

FcStats    *fc_stats = NULL;
FcKept	   *fc_stats_kept = NULL;
int			fc_stats_my_stripe = -1;
uint64		fc_stats_mine[FC_COUNTERS];
FcWorkersCell *fc_stats_leader = NULL;

FcWorkersCell *
fc_stats_cell_of(const PGPROC *proc)
{
	int			number = FC_PROC_NUMBER(proc);

	return number < fc_stats->ncells ? &fc_stats->cell[number] : NULL;
}

/*
 * First count of a parallel worker.  Where the cell holds the numbers of an
 * earlier process, whose place the leader has taken, they are cleared.
 */
static void
find_leader(const PGPROC *leader)
{
	FcWorkersCell *cell = fc_stats_cell_of(leader);

	if (cell == NULL)
		return;
	SpinLockAcquire(&fc_stats->workers_lock);
	if (pg_atomic_read_u64(&cell->leader) != (uint64) leader->pid)
	{
		for (int c = 0; c < FC_SESSION_COUNTERS; c++)
			pg_atomic_write_u64(&cell->counter[c], 0);
		pg_write_barrier();		/* the leader reads without the lock: zeros
								 * before its name */
		pg_atomic_write_u64(&cell->leader, (uint64) leader->pid);
	}
	SpinLockRelease(&fc_stats->workers_lock);
	fc_stats_leader = cell;
}

void
fc_stats_choose_stripe(void)
{
	if (MyProc == NULL)
	{
		fc_stats_my_stripe = 0;
		return;
	}
	fc_stats_my_stripe = FC_PROC_NUMBER(MyProc) % FC_STRIPES;
	if (IsParallelWorker() && MyProc->lockGroupLeader != NULL)
		find_leader(MyProc->lockGroupLeader);
}
