/*-------------------------------------------------------------------------
 *
 * cache_ahead.c
 *	  Pages read from flash before they are asked for.
 *
 * Where the server prefetches (recovery, and bitmap heap scans up to 17; from
 * 18 on scans only with io_method = sync), it names the pages a while before it reads them.
 * Those on flash are read into memory of this process meanwhile, several at
 * a time, where a read alone would have to wait for each.
 *
 * Of a stream of pages on flash nobody names any: the server counts on the
 * kernel's reading ahead, which knows nothing of flash.  There the next pages
 * are read while the server works on those that it has.
 *
 * A page read ahead is used only if, when it is asked for, R1 finds the same
 * slot with the same version as when it was begun.  The version is raised
 * before a slot is written (F4), so what was read in between is what the slot
 * holds now; R3 then follows as for any other read.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache.h"
#include "cache_internal.h"
#include "compat.h"
#include "directory.h"
#include "failpoint.h"
#include "settings.h"
#include "stats.h"
#include "store.h"

/* Pages of one process; 256 kB, taken when it first reads ahead. */
#define PLACES 32

/* Pages of a stream that are read ahead; new ones when half of them are left. */
#define WINDOW 16

/* Pages of neighbouring slots, in neighbouring places. */
typedef struct Request
{
	FcAhead		ahead;
	int			places;			/* not left yet; the last is left when it has finished */
	int			read;			/* of its pages; -1 as long as nobody has waited */
} Request;

typedef struct Place
{
	bool		used;
	FcTag		tag;
	FcSlotRef	ref;
	Request    *request;
	int			index;			/* in the request */
} Place;

static Request requests[PLACES];
static Place places[PLACES];
static char *memory = NULL;		/* PLACES pages */
static int	next = 0;			/* in order, so that the oldest is reused */
static int	in_use = 0;
static bool impossible = false;
static FcTag continued;			/* where the last stream has been read ahead to */

static char *
page_of(const Place *p)
{
	return memory + (p - places) * BLCKSZ;
}

static void
leave(Place *p)
{
	p->used = false;
	p->request->places--;
	in_use--;
}

static Place *
find(const FcTag *tag, const FcSlotRef *ref)
{
	if (in_use == 0)
		return NULL;
	for (int i = 0; i < PLACES; i++)
	{
		Place	   *p = &places[i];

		if (p->used && p->ref.slot == ref->slot && p->ref.version == ref->version &&
			fc_tag_equal(&p->tag, tag))
			return p;
	}
	return NULL;
}

bool
fc_cache_ahead_has(const FcTag *tag, const FcSlotRef *ref)
{
	return find(tag, ref) != NULL;
}

static bool
have_memory(void)
{
	if (memory == NULL)
	{
		memory = fc_store_memory(PLACES);
		impossible = memory == NULL;
	}
	return memory != NULL;
}

/* How many places from `next` on, and not around the end, can be taken; at most n. */
static int
room(int n)
{
	int			i = 0;

	if (next == PLACES)
		next = 0;
	for (; i < n && next + i < PLACES; i++)
	{
		Place	   *p = &places[next + i];

		/* named, but never asked for; while the device writes there it stays */
		if (p->used)
		{
			if (!fc_store_ahead_done(&p->request->ahead))
				break;
			leave(p);
		}
	}
	return i;
}

static Request *
free_request(void)
{
	for (int i = 0; i < PLACES; i++)
		if (requests[i].places == 0)
			return &requests[i];
	return NULL;				/* there are as many as places */
}

/* Starts to read n pages, blocks and slots in a row.  False if not all of them could be. */
static bool
start(FcTag tag, const FcSlotRef *ref, int n)
{
	while (n > 0)
	{
		int			now = room(n);
		Request    *r = free_request();

		if (now == 0 || r == NULL)
			return false;
		if (!fc_store_ahead_start(&r->ahead, ref->slot, page_of(&places[next]), now))	/* A1 */
		{
			impossible = !fc_store_can_time_out();
			return false;
		}
		r->read = -1;
		r->places = now;
		for (int i = 0; i < now; i++, tag.blk++, ref++)
			places[next++] = (Place)
			{
				.used = true, .tag = tag, .ref = *ref, .request = r, .index = i,
			};
		in_use += now;
		fc_count_n(FC_PREFETCHES, now);
		fc_failpoint(FC_FP_AHEAD_STARTED);
		n -= now;
	}
	return true;
}

void
fc_cache_ahead_start(const FcTag *tag, const FcSlotRef *ref)
{
	if (!impossible && find(tag, ref) == NULL && have_memory())
		(void) start(*tag, ref, 1);
}

void
fc_cache_ahead_continue(const FcTag *tag)
{
	FcTag		t = *tag;
	FcTag		begin;
	FcSlotRef	ref[WINDOW];
	int			n = 0;

	if (impossible || !have_memory())
		return;
	if (continued.rel == tag->rel && continued.db == tag->db && continued.spc == tag->spc &&
		continued.blk >= t.blk && continued.blk - t.blk <= 2 * WINDOW)
	{
		if (continued.blk - t.blk > WINDOW / 2)
			return;
		t.blk = continued.blk;
	}
	for (int i = 0; i < WINDOW; i++, t.blk++)
	{
		if (!fc_directory_lookup(&t, fc_directory_hash(&t), &ref[n]))
			break;
		if (n > 0 && ref[n].slot != ref[n - 1].slot + 1)
		{
			if (!start(begin, ref, n))
				break;
			ref[0] = ref[n];
			n = 0;
		}
		if (n == 0)
			begin = t;
		n++;
	}
	if (n > 0)
		(void) start(begin, ref, n);
	continued = t;
}

int
fc_cache_ahead_take(const FcTag *tag, const FcSlotRef *ref, char *const *pages, int n, FcIo *io)
{
	FcTag		t = *tag;
	int			taken = 0;

	*io = FC_IO_OK;
	for (; taken < n; taken++, t.blk++)
	{
		Place	   *p = find(&t, &ref[taken]);	/* A2 */
		Request    *r;
		bool		ok;

		if (p == NULL)
			break;
		r = p->request;
		if (r->read < 0)
			r->read = fc_store_ahead_finish(&r->ahead, page_of(p) - (size_t) p->index * BLCKSZ, fc_setting_io_timeout, io);
		ok = p->index < r->read;
		if (ok)
			memcpy(pages[taken], page_of(p), BLCKSZ);
		if (fc_store_ahead_done(&r->ahead))
			leave(p);
		if (!ok)
			break;
	}
	return taken;
}
