/*-------------------------------------------------------------------------
 *
 * stats_internal.h
 *	  What stats.c and stats_stripe.c share.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_STATS_INTERNAL_H
#define FC_STATS_INTERNAL_H

#include "stats/stats.h"
#include "storage/proc.h"

/* The cell of a process, or NULL if it can have no parallel workers. */
extern FcWorkersCell *fc_stats_cell_of(const PGPROC *proc);

#endif							/* FC_STATS_INTERNAL_H */
