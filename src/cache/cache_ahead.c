/*-------------------------------------------------------------------------
 *
 * cache_ahead.c
 *	  Pages read from flash before they are asked for.
 *
 * Where the server prefetches (recovery, and bitmap heap scans up to 17; from
 * 18 on scans only with io_method = sync), it announces the pages a while
 * before it reads them.  Those on flash are read into memory of this process
 * meanwhile, several at a time, where a read alone would have to wait for
 * each.  It may announce more than there is space for; they wait in a queue,
 * and leave it when they are asked for first.
 *
 * Of a stream of pages on flash nobody announces any: the server counts on
 * the kernel's reading ahead, which knows nothing of flash.  There the next
 * pages are read while the server works on those that it has.
 *
 * A page read ahead is used only if, when it is asked for, R1 finds the same
 * slot with the same version as when it was begun.  The version is raised
 * before a slot is written (F4), so what was read in between is what the slot
 * holds now; R3 then follows as for any other read.
 *
 * The device reads no page twice: one that is in a place is not begun again,
 * and what is in a place stays until it is asked for.  Nobody may ever do so
 * (LIMIT, an aborted scan, a parallel bitmap scan, where it is another process
 * that asks); so a place may be taken for another page once this process has
 * read PATIENCE pages from flash since.  Hence of the pages that a process
 * reads no more than one in 16 is read in vain, beside the first ones,
 * whatever it does: it begins with few places, and gets more at that rate as
 * pages in them are asked for.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bufscan.h"
#include "cache/cache.h"
#include "cache/cache_internal.h"
#include "compat.h"
#include "directory/directory.h"
#include "failpoint.h"
#include "settings.h"
#include "stats/stats.h"
#include "storage/proc.h"
#include "store/store.h"

/* Pages of one process; 512 kB, taken when it first reads ahead. */
#define PLACES 64

/* A page that nobody has asked for keeps its place for so many others. */
#define PATIENCE (16 * PLACES)

/* A process begins with this many places, and has one more for so many pages that were asked for. */
#define FIRST_PLACES 8
#define TAKEN_PER_PLACE (PATIENCE / PLACES)

/* Announced pages that wait for a place: as many as the server's settings allow. */
#define MAX_ANNOUNCED 1024

/* Pages of neighbouring slots, in neighbouring places. */
typedef struct Request
{
	FcAhead		ahead;
	int			places;			/* not left yet; the last is left when it has
								 * finished */
	int			read;			/* of its pages; -1 as long as nobody has
								 * waited */
} Request;

typedef struct Place
{
	FcTag		tag;			/* no block number where the request was lost;
								 * used for ever then, but not in_use */
	FcSlotRef	ref;
	uint32		since;			/* pages_read then */
	Request    *request;
	int			index;			/* in the request */
	bool		used;
} Place;

static Request requests[PLACES];
static Place places[PLACES];
static char *memory = NULL;		/* PLACES pages */
static int	in_use = 0;
static int	found_last = 0;		/* where to look first: the next page is
								 * likely to follow */
static uint32 trust = 0;		/* pages that were asked for, less those that
								 * were not */
static bool no_memory = false;
static uint32 pages_read = 0;	/* from flash, by this process; wraps around */

/* A queue; no block number where the page has been asked for meanwhile. */
static FcTag announced[MAX_ANNOUNCED];
static uint32 first_announced = 0;
static int	nannounced = 0;
static LocalTransactionId announced_in = InvalidLocalTransactionId;

static char *
page_of(const Place *p)
{
	Assert(memory != NULL && p >= places && p < places + PLACES);
	return memory + (p - places) * BLCKSZ;
}

static void
leave(Place *p)
{
	Assert(p->used && p->request->places > 0 && in_use > 0);
	p->used = false;
	p->request->places--;
	in_use--;
}

/* It will never finish, and the kernel may write to its places whenever it likes: nobody else gets them. */
static void
lose(const Request *r)
{
	for (int i = 0; i < PLACES; i++)
		if (places[i].used && places[i].request == r)
		{
			places[i].tag.blk = InvalidBlockNumber;
			in_use--;
		}
}

static Place *
find(const FcTag *tag, const FcSlotRef *ref)
{
	Assert(in_use >= 0 && in_use <= PLACES);
	for (int i = 0; in_use > 0 && i < PLACES; i++)
	{
		Place	   *p = &places[(found_last + i) % PLACES];

		if (p->used && p->ref.slot == ref->slot && p->ref.version == ref->version &&
			fc_tag_equal(&p->tag, tag))
		{
			found_last = p - places;
			return p;
		}
	}
	return NULL;
}

bool
fc_cache_ahead_has(const FcTag *tag, const FcSlotRef *ref)
{
	return find(tag, ref) != NULL;
}

/* Needs io_uring, which this process may get later. */
static bool
can_read_ahead(void)
{
	if (no_memory || !fc_store_can_time_out())
		return false;
	if (memory == NULL)
	{
		memory = fc_store_memory(PLACES);
		no_memory = memory == NULL;
	}
	return memory != NULL;
}

/* ---- beginning ---- */

/* Gives up what nobody has asked for; but not while the device writes there. */
static void
give_up_old(void)
{
	for (int i = 0; i < PLACES; i++)
	{
		Place	   *p = &places[i];

		if (!p->used || p->tag.blk == InvalidBlockNumber || pages_read - p->since < PATIENCE)
			continue;
		if (fc_store_ahead_lost(&p->request->ahead))
			lose(p->request);
		else if (fc_store_ahead_done(&p->request->ahead))
		{
			leave(p);
			trust -= Min(trust, TAKEN_PER_PLACE);
		}
	}
}

/*
 * How many places in a row can be taken, at most n, and which is the first?
 * `leaving` places are about to be left, by pages that are being asked for.
 */
static int
room(int n, int leaving, int *first)
{
	int			best = 0;
	int			row = 0;

	Assert(leaving >= 0 && leaving <= in_use);
	n = Min(n, FIRST_PLACES + (int) trust / TAKEN_PER_PLACE - (in_use - leaving));
	for (int i = 0; i < PLACES && best < n; i++)
	{
		row = places[i].used ? 0 : row + 1;
		if (row > best)
		{
			best = row;
			*first = i + 1 - row;
		}
	}
	Assert(best == 0 || *first + best <= PLACES);
	return best;
}

static Request *
free_request(void)
{
	for (int i = 0; i < PLACES; i++)
		if (requests[i].places == 0)
			return &requests[i];
	return NULL;				/* there are as many as places */
}

/*
 * Begins to read n pages, blocks and slots in a row.  Returns how many could
 * be begun.  `leaving` as in room().
 */
static int
start(FcTag tag, const FcSlotRef *ref, int n, int leaving)
{
	int			started = 0;

	Assert(n > 0 && n <= FC_AHEAD_WINDOW + 1);
	while (started < n)
	{
		int			first;
		int			now = room(fc_store_in_a_row(ref->slot, n - started), leaving, &first);
		Request    *r = free_request();
		FcIo		io;

		if (now == 0 || r == NULL)
			break;
		Assert(!fc_directory_locked());
		if (!fc_store_ahead_start(&r->ahead, ref->slot, page_of(&places[first]), now, fc_setting_io_timeout, &io))	/* A1 */
		{
			if (io == FC_IO_BROKEN)
				fc_cache_device_broken();
			break;
		}
		r->read = -1;
		r->places = now;
		for (int i = 0; i < now; i++, tag.blk++, ref++)
		{
			Place	   *place = &places[first + i];

			place->used = true;
			place->since = pages_read;
			place->tag = tag;
			place->ref = *ref;
			place->request = r;
			place->index = i;
		}
		in_use += now;
		started += now;
		fc_count_n(FC_PREFETCHES, now);
		fc_failpoint(FC_FP_AHEAD_STARTED);
	}
	return started;
}

/* ---- what the server announces ---- */

static FcTag *
announced_at(int i)
{
	Assert(i >= 0 && i < MAX_ANNOUNCED);
	return &announced[(first_announced + i) % MAX_ANNOUNCED];
}

static void
drop_first(void)
{
	Assert(nannounced > 0);
	first_announced++;
	nannounced--;
}

/* What a scan has announced that is over by now nobody will ask for. */
static void
forget_former(void)
{
	if (nannounced > 0 && announced_in != FC_MY_TRANSACTION)
		nannounced = 0;
}

/* Begins with what was announced first, as far as there is space. */
static void
start_announced(void)
{
	for (; nannounced > 0; drop_first())
	{
		FcTag	   *tag = announced_at(0);
		FcSlotRef	ref;

		if (tag->blk == InvalidBlockNumber ||
			!fc_directory_lookup(tag, fc_directory_hash(tag), &ref) ||
			find(tag, &ref) != NULL)
			continue;
		give_up_old();
		if (start(*tag, &ref, 1, 0) == 0)
			break;
	}
}

void
fc_cache_ahead_announce(const FcTag *tag)
{
	forget_former();
	announced_in = FC_MY_TRANSACTION;
	if (!can_read_ahead() || nannounced == MAX_ANNOUNCED)
		return;
	*announced_at(nannounced++) = *tag;
	start_announced();
}

void
fc_cache_ahead_asked(const FcTag *tag)
{
	forget_former();
	/* as a rule it is the first */
	for (int i = 0; i < nannounced; i++)
	{
		FcTag	   *t = announced_at(i);

		if (fc_tag_equal(t, tag))
		{
			t->blk = InvalidBlockNumber;
			break;
		}
	}
}

/* ---- the next pages of a stream ---- */

/*
 * How many of the first pages of a run are in places, which it will leave?
 * They are not old, whenever they were read.
 */
static int
in_places(FcTag tag, const FcSlotRef *ref, int n)
{
	int			here = 0;
	Place	   *p;

	while (here < n && (p = find(&tag, &ref[here])) != NULL)
	{
		p->since = pages_read;
		here++;
		tag.blk++;
	}
	return here;
}

void
fc_cache_ahead_continue(FcStream *stream, const FcTag *tag, const FcSlotRef *run, int run_length)
{
	FcTag		t = *tag;
	FcTag		begin = *tag;
	FcSlotRef	ref[FC_AHEAD_WINDOW + 1];
	uint32		wanted = fc_policy_ahead(stream, tag->blk + run_length, &t.blk);
	int			leaving;
	int			n = 0;			/* pages in a row, from `begin` on, that are
								 * to be read */

	Assert(run_length > 0 && wanted <= FC_AHEAD_WINDOW);
	if (wanted == 0 || !can_read_ahead())
		return;
	(void) in_places(*tag, run, run_length);
	give_up_old();
	/* of a broken ring, some may be lost */
	leaving = in_places(*tag, run, run_length);
	for (; wanted > 0; wanted--, t.blk++)
	{
		bool		here;

		Assert(n < lengthof(ref));
		if (!fc_directory_lookup(&t, fc_directory_hash(&t), &ref[n]))
			break;
		here = find(&t, &ref[n]) != NULL || fc_bufscan_holds(&t);
		if (n > 0 && (here || ref[n].slot != ref[n - 1].slot + 1))
		{
			int			started = start(begin, ref, n, leaving);

			if (started < n)
			{
				t.blk -= n - started;
				n = 0;
				break;
			}
			ref[0] = ref[n];
			n = 0;
		}
		if (!here && n++ == 0)
			begin = t;
	}
	if (n > 0)
		t.blk -= n - start(begin, ref, n, leaving);
	stream->ahead_until = t.blk;
}

/* ---- asked for ---- */

int
fc_cache_ahead_take(const FcTag *tag, const FcSlotRef *ref, char *const *pages, int n, FcIo *io)
{
	FcTag		t = *tag;
	int			taken = 0;

	Assert(n > 0 && !fc_directory_locked());
	*io = FC_IO_OK;
	for (; taken < n; taken++, t.blk++)
	{
		Place	   *p = find(&t, &ref[taken]);	/* A2 */
		Request    *r;
		bool		ok;

		if (p == NULL)
			break;
		r = p->request;
		Assert(p->index >= 0 && p->index < PLACES && r->read <= PLACES);
		if (r->read < 0)
			r->read = fc_store_ahead_finish(&r->ahead, page_of(p) - (size_t) p->index * BLCKSZ, fc_setting_io_timeout, io);
		ok = p->index < r->read;
		if (ok)
		{
			memcpy(pages[taken], page_of(p), BLCKSZ);
			trust = Min(trust + 1, (PLACES - FIRST_PLACES) * TAKEN_PER_PLACE);
		}
		if (fc_store_ahead_lost(&r->ahead))
			lose(r);
		else if (fc_store_ahead_done(&r->ahead))
			leave(p);
		if (!ok)
			break;
	}
	pages_read += n;
	start_announced();
	return taken;
}
