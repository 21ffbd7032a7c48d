/*-------------------------------------------------------------------------
 *
 * prewarm/prewarm_run.c
 *	  See prewarm_internal.h.
 *
 * The session that asks does the work: it reads blocks in order, up to 32 at a
 * time, past the buffer manager, and gives them to the writer, which writes
 * them to flash as the write limit allows.  While the writer has one run, the
 * session reads the next.  Blocks that are on flash already are not read; so
 * whoever was interrupted just asks again.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "attach/data_read.h"
#include "catalog/pg_class.h"
#include "compat.h"
#include "handoff.h"
#include "miscadmin.h"
#include "prewarm/prewarm_internal.h"
#include "rules/rules.h"
#include "stats/stats.h"
#include "storage/latch.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

/* So long a policy is waited for, and so often it is looked whether it is in force. */
#define POLICIES_MS 30000
#define LOOK_MS 10

void
fc_prewarm_check_active(void)
{
	FcState		state = fc_cache_state();
	FcReason	why;

	if (fc_cache_in_use())
		return;
	fc_cache_reason(&why);
	if (state == FC_STATE_ACTIVE)
		state = FC_STATE_DISABLED;	/* for this session, and soon for all */
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the flash cache cannot be prewarmed while it is %s%s%s", fc_state_name(state),
					why.message[0] ? ": " : "", why.message),
			 errhint(state == FC_STATE_STARTING ? "Try again in a moment." :
					 state == FC_STATE_OFF ? "Call pg_flashcache_enable() first." :
					 state == FC_STATE_PAUSED ? "It comes back by itself when flash is faster than the disk again." :
					 "See the column \"reason\" of pg_stat_flashcache.")));
}

/* Where a relation is, unless it has no file, or another each time one asks. */
static bool
file_of(Oid relation, FcRel *file)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
	Form_pg_class form;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_class) GETSTRUCT(tuple);
	file->spc = OidIsValid(form->reltablespace) ? form->reltablespace : MyDatabaseTableSpace;
	file->db = MyDatabaseId;
	file->rel = form->relfilenode;
	ReleaseSysCache(tuple);
	return OidIsValid(file->rel);
}

/*
 * Whoever has set a policy, or made a relation, and loads it, means both.  No lock on a
 * relation is held here: the look may need one.  A session that has waited in
 * vain, as where no worker is free, does not wait for that change again.
 */
void
fc_prewarm_await_policies(Oid relation)
{
	static uint32 in_vain = 0;
	TimestampTz since = GetCurrentTimestamp();
	uint32		change;
	FcRel		file;

	if (!fc_rules_changed(MyDatabaseId, file_of(relation, &file) ? &file : NULL, &change))
		return;
	fc_handoff_wake();
	while (!fc_rules_heeded(MyDatabaseId, change))
	{
		if (change == in_vain || TimestampDifferenceExceeds(since, GetCurrentTimestamp(), POLICIES_MS))
		{
			in_vain = change;
			ereport(WARNING,
					(errmsg("a policy that was changed is not in force yet"),
					 errhint("pg_stat_flashcache_policy_databases says why.")));
			return;
		}
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, LOOK_MS, FC_WAIT_PREWARM);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * The writer must be ready for the next pages, or have dealt with the last
 * ones.  Adds up what has been counted so far.
 */
static void
wait_for_writer(FcLoadCounts *counts)
{
	FcLoadWait	result = fc_writer_load_wait();

	fc_writer_load_counts(counts);
	switch (result)
	{
		case FC_LOAD_READY:
			return;
		case FC_LOAD_NOT_ACTIVE:
			fc_prewarm_check_active();
			break;
		case FC_LOAD_NO_MEMORY:
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("the pg_flashcache writer could not attach to shared memory"),
					 errhint("The server log has the reason.")));
			break;
		case FC_LOAD_NO_WRITER:
			break;
	}
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the pg_flashcache writer is not running, or was away for a moment"),
			 errdetail_plural("%llu page has been loaded.", "%llu pages have been loaded.",
							  (unsigned long) counts->loaded, (unsigned long long) counts->loaded),
			 errhint("Call the function again: what is on flash is not read again.")));
}

void
fc_prewarm_begin(FcPrewarmRun *run, bool replace, const FcLoadProgress *about)
{
	memset(run, 0, sizeof(*run));
	run->load = palloc(sizeof(FcLoad));
	run->load->n = 0;
	run->pages = (char *) TYPEALIGN(FC_IO_ALIGN, palloc((Size) FC_LOAD_PAGES * BLCKSZ + FC_IO_ALIGN));
	if (!fc_writer_load_begin(replace, about))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("%d sessions are prewarming the flash cache already", FC_LOAD_JOBS),
				 errhint("Wait for one of them, or cancel it: pg_stat_progress_flashcache_prewarm lists them.")));
}

void
fc_prewarm_leave(int code, Datum arg)
{
	fc_writer_load_end();
}

void
fc_prewarm_read(FcPrewarmRun *run, FcRel name, BlockNumber blk, int n, FcLoadMask wanted)
{
	FcTag		tag = {name.spc, name.db, name.rel, blk};
	FcLoad	   *load = run->load;

	/* the writer asks as well; but then they would have been read */
	if (fc_rules_published(name) == FC_RULE_NONE)
	{
		int			unwanted = 0;

		for (int i = 0; i < n; i++)
			unwanted += (wanted >> i) & 1;
		fc_count_n(FC_SKIP_POLICY, unwanted);
		run->counts.unwanted += unwanted;
		return;
	}
	fc_cache_load_begin(load, &tag, n, wanted, &run->counts);	/* L1, L2 */
	if (run->full)
	{
		run->counts.full += load->n;
		load->n = 0;
	}
	if (load->n > 0)
	{
		int			span = load->tag[load->n - 1].blk - load->tag[0].blk + 1;
		int			nread = fc_data_read(&load->tag[0], span, run->pages);	/* L3 */

		fc_cache_load_check(load, run->pages, nread, &run->counts); /* L4 */
	}
}

void
fc_prewarm_give(FcPrewarmRun *run, Oid relid)
{
	if (run->load->n > 0)
	{
		FcLoadCounts sum;

		wait_for_writer(&sum);
		run->full = sum.full > 0;
		fc_writer_load_give(run->load);
		run->load->n = 0;
	}
	fc_writer_load_tell(relid, run->relations_done, run->blocks_done, &run->counts);
	memset(&run->counts, 0, sizeof(run->counts));
}

void
fc_prewarm_end(FcLoadCounts *counts)
{
	wait_for_writer(counts);
}
