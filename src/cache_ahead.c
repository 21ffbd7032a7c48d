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

#include <sys/mman.h>

#include "cache.h"
#include "cache_internal.h"
#include "compat.h"
#include "directory.h"
#include "stats.h"
#include "store.h"

/* Pages of one process; 256 kB, taken when it first prefetches. */
#define PLACES 32

typedef struct Place
{
	bool		used;
	FcTag		tag;
	FcSlotRef	ref;
	FcAhead		ahead;
} Place;

static Place places[PLACES];
static char *memory = NULL;		/* PLACES pages */
static int	next = 0;			/* in order, so that the oldest is reused */
static int	in_use = 0;
static bool impossible = false;

static char *
page_of(const Place *p)
{
	return memory + (p - places) * BLCKSZ;
}

static void
leave(Place *p)
{
	p->used = false;
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

void
fc_cache_ahead_start(const FcTag *tag, const FcSlotRef *ref)
{
	Place	   *p = &places[next];

	if (impossible || find(tag, ref) != NULL)
		return;
	if (memory == NULL)
	{
		/* not palloc: this is called within the storage manager */
		memory = mmap(NULL, PLACES * BLCKSZ, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED)
		{
			memory = NULL;
			impossible = true;
			return;
		}
	}

	/* named, but never asked for; while the device writes there it stays */
	if (p->used)
	{
		if (!fc_store_ahead_done(&p->ahead))
			return;
		leave(p);
	}
	if (!fc_store_ahead_start(&p->ahead, ref->slot, page_of(p)))
	{
		impossible = true;
		return;
	}
	p->tag = *tag;
	p->ref = *ref;
	p->used = true;
	in_use++;
	next = (next + 1) % PLACES;
	fc_count(FC_PREFETCHES);
}

bool
fc_cache_ahead_take(const FcTag *tag, const FcSlotRef *ref, char *page, FcIo *io)
{
	Place	   *p = find(tag, ref);
	bool		ok;

	if (p == NULL)
		return false;
	ok = fc_store_ahead_finish(&p->ahead, io);
	if (ok)
		memcpy(page, page_of(p), BLCKSZ);
	if (fc_store_ahead_done(&p->ahead))
		leave(p);
	return ok;
}
