/*-------------------------------------------------------------------------
 *
 * writer_trouble.c
 *	  Trouble with the cache, as a series: when the next probe is due, and what
 *	  the server's log is told.
 *
 * A cache that went off, or paused because flash was slower than the disk, is
 * brought back by probes: the first one a second later, then after pauses
 * that double, up to five minutes; and at once where the disk has become twice
 * as slow as it was when the cache paused.  A cache that is back and goes off again
 * soon goes on with the longer pause, so that a device that comes and goes
 * costs less and less; a while without trouble, or pg_flashcache_enable(),
 * starts from the beginning.  Of such a series the first fault of each cause
 * is a WARNING, and then one an hour.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache.h"
#include "compat.h"
#include "policy.h"
#include "storage/proc.h"
#include "utils/timestamp.h"
#include "writer/writer.h"
#include "writer/writer_internal.h"

#define QUIET_NS UINT64CONST(600000000000)	/* ten minutes without trouble end
											 * a series */

/* All in ns of fc_now_ns(), 0 = none. */
static uint32 pause_s = FC_FIRST_PAUSE_S;
static uint64 probe_at;
static uint64 active_since;
static bool in_series;			/* there was trouble since it was forgotten */
static FcWarnings warnings;

void
fc_writer_schedule_probe(void)
{
	Assert(FC_IS_WRITER() && pause_s >= FC_FIRST_PAUSE_S && pause_s <= FC_LONGEST_PAUSE_S);
	probe_at = fc_now_ns() + (uint64) pause_s * 1000000000;
	pg_atomic_write_u64(&fc_writer_shared->next_probe,
						(uint64) TimestampTzPlusMilliseconds(GetCurrentTimestamp(), (int64) pause_s * 1000));
}

void
fc_writer_no_probe(void)
{
	probe_at = 0;
	pg_atomic_write_u64(&fc_writer_shared->next_probe, 0);
}

void
fc_writer_forget_trouble(void)
{
	pause_s = FC_FIRST_PAUSE_S;
	in_series = false;
	memset(&warnings, 0, sizeof(warnings));
	active_since = 0;
}

/* The cache is off or paused: does that continue a series, or begin one? */
static void
note_trouble(void)
{
	if (active_since != 0 && fc_now_ns() - active_since >= QUIET_NS)
		fc_writer_forget_trouble();
	else if (in_series && active_since != 0)
		pause_s = fc_policy_longer_pause(pause_s);
	in_series = true;
	active_since = 0;
	fc_writer_schedule_probe();
}

static void
tell_trouble(int level, const FcReason *why)
{
	ereport(level,
			(errmsg("pg_flashcache is %s: %s", fc_state_name(fc_cache_state()), why->message),
			 errdetail("PostgreSQL runs on without the cache, which tries again by itself in %u s.", pause_s),
			 why->restart ? errhint("%s", why->hint) :
			 errhint("%s%spg_flashcache_enable() tries at once.", why->hint, why->hint[0] ? " " : "")));
}

void
fc_writer_tell_log(void)
{
	FcReason	why;
	FcState		state = fc_cache_state();

	if (!fc_cache_take_warning(&why))
		return;
	if (state == FC_STATE_DETACHED)
	{
		ereport(WARNING,
				(errmsg("pg_flashcache is %s: %s", fc_state_name(state), why.message),
				 why.hint[0] ? errhint("%s", why.hint) : 0));
		return;
	}
	note_trouble();
	tell_trouble(fc_policy_warn(&warnings, why.message, fc_now_ns()) ? WARNING : LOG, &why);
}

bool
fc_writer_note_active(bool active)
{
	if (!active)
		return false;
	active_since = fc_now_ns();
	fc_writer_no_probe();
	return true;
}

uint64
fc_writer_probe_at(void)
{
	return probe_at;
}

void
fc_writer_probe_soon(void)
{
	pause_s = FC_FIRST_PAUSE_S;
}

void
fc_writer_probe_failed(const FcReason *other)
{
	pause_s = fc_policy_longer_pause(pause_s);
	fc_writer_schedule_probe();
	/* who has removed the first cause wants to know of the next one */
	if (other != NULL && fc_policy_warn(&warnings, other->message, fc_now_ns()))
		tell_trouble(WARNING, other);
}
