/*-------------------------------------------------------------------------
 *
 * handoff.c
 *	  See handoff.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "failpoint.h"
#include "handoff.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/shmem.h"

#define MIN_CELLS 32
#define MAX_CELLS 1024

/* A process tells of its allocations in groups, to spare the shared line. */
#define ALLOCATION_GROUP 16

/* With fewer frames than this every allocation counts. */
#define SMALL_POOL 2048

typedef struct Cell
{
	pg_atomic_uint64 turn;		/* hands the rest of the cell over, both ways;
								 * see lap_of() */
	FcTag		tag;
	FcGuard		guard;
	int			frame;
	char		page[BLCKSZ];
} Cell;

typedef struct Handoff
{
	Latch	   *volatile writer;	/* NULL when there is none */
	pg_atomic_uint32 allocations;	/* these two: hints, no order needed */
	pg_atomic_uint32 threshold;
	pg_atomic_uint32 trouble;	/* somebody has told of it, and the writer has
								 * not looked since */
	char		pad1[PG_CACHE_LINE_SIZE];
	pg_atomic_uint64 tail;		/* next to be pushed; taken by
								 * compare-and-swap */
	char		pad2[PG_CACHE_LINE_SIZE];
	uint64		head;			/* next to be popped; writer only */
	uint32		cells;			/* power of 2 */
	Cell		cell[FLEXIBLE_ARRAY_MEMBER];
} Handoff;

static Handoff *ring = NULL;

/* For assertions: a writer that has not said so yet is one, too. */
#define IS_WRITER() (ring->writer == NULL || ring->writer == MyLatch)

/* At most one page for each 8192 slots: 1 byte a slot. */
static uint32
cells_for(uint32 slots)
{
	uint32		n = MIN_CELLS;

	while (n * 2 <= slots / 8192 && n < MAX_CELLS)
		n *= 2;
	return n;
}

FcPart
fc_handoff_part(uint32 slots)
{
	return fc_part("pg_flashcache handoff", offsetof(Handoff, cell) + cells_for(slots) * sizeof(Cell));
}

static Cell *
cell_at(uint64 pos)
{
	Assert((ring->cells & (ring->cells - 1)) == 0);
	return &ring->cell[pos & (ring->cells - 1)];
}

/*
 * Whose turn a cell is: the lap's first position, while it is to be pushed;
 * that plus 1 while it is to be popped.  So it is 0 in new shared memory.
 */
static uint64
lap_of(uint64 pos)
{
	return pos & ~(uint64) (ring->cells - 1);
}

void
fc_handoff_shmem_init(uint32 slots)
{
	FcPart		part = fc_handoff_part(slots);
	bool		found;

	ring = ShmemInitStruct(part.name, part.size, &found);
	ring->writer = NULL;
	pg_atomic_init_u32(&ring->allocations, 0);
	pg_atomic_init_u32(&ring->threshold, 1);
	pg_atomic_init_u32(&ring->trouble, 0);
	pg_atomic_init_u64(&ring->tail, FC_START_64);
	ring->head = FC_START_64;
	ring->cells = cells_for(slots);
	/* memory that no page has needed yet stays untouched */
	for (uint64 pos = FC_START_64; FC_START != 0 && pos != FC_START_64 + ring->cells; pos++)
		pg_atomic_init_u64(&cell_at(pos)->turn, lap_of(pos));
}

bool
fc_handoff_push(const FcTag *tag, int frame, const FcGuard *guard, const char *page)
{
	uint64		pos = pg_atomic_read_u64(&ring->tail);
	Cell	   *cell;

	Assert(OidIsValid(tag->rel) && tag->blk != InvalidBlockNumber);
	for (;;)
	{
		int64		ahead;

		cell = cell_at(pos);
		ahead = (int64) (pg_atomic_read_u64(&cell->turn) - lap_of(pos));
		if (ahead < 0)
			return false;		/* still to be popped: full */
		if (ahead > 0)
			pos = pg_atomic_read_u64(&ring->tail);	/* somebody was faster */
		else if (pg_atomic_compare_exchange_u64(&ring->tail, &pos, pos + 1))
			break;				/* a full barrier; else pos is the new tail */
	}
	Assert(pg_atomic_read_u64(&cell->turn) == lap_of(pos));
	cell->tag = *tag;
	cell->guard = *guard;
	cell->frame = frame;
	memcpy(cell->page, page, BLCKSZ);
	pg_write_barrier();			/* the cell before its turn */
	pg_atomic_write_u64(&cell->turn, lap_of(pos) + 1);

	/* don't let it get full */
	if (((pos + 1) & (ring->cells / 4 - 1)) == 0)
		fc_handoff_wake();
	return true;
}

bool
fc_handoff_pop(FcTag *tag, int *frame, FcGuard *guard, char *page)
{
	Cell	   *cell = cell_at(ring->head);

	Assert(IS_WRITER());
	if (pg_atomic_read_u64(&cell->turn) != lap_of(ring->head) + 1)
		return false;
	pg_read_barrier();			/* its turn before the cell */
	*tag = cell->tag;
	*guard = cell->guard;
	*frame = cell->frame;
	memcpy(page, cell->page, BLCKSZ);
	pg_memory_barrier();		/* reading it before giving it back */
	pg_atomic_write_u64(&cell->turn, lap_of(ring->head) + ring->cells);
	ring->head++;
	return true;
}

void
fc_handoff_clear(void)
{
	Assert(IS_WRITER());
	/* at most once round: others may go on pushing */
	for (uint32 i = 0; i < ring->cells; i++)
	{
		Cell	   *cell = cell_at(ring->head);

		if (pg_atomic_read_u64(&cell->turn) != lap_of(ring->head) + 1)
			break;
		pg_atomic_write_u64(&cell->turn, lap_of(ring->head) + ring->cells);
		ring->head++;
	}
}

void
fc_handoff_note_allocations(uint32 n)
{
	static uint32 group = 0;
	uint32		sum;

	Assert(n > 0);
	group += n;
	if (group < ALLOCATION_GROUP && NBuffers >= SMALL_POOL)
		return;
	sum = pg_atomic_add_fetch_u32(&ring->allocations, group);
	if (sum >= pg_atomic_read_u32(&ring->threshold) && sum - group < pg_atomic_read_u32(&ring->threshold))
		fc_handoff_wake();
	group = 0;
}

void
fc_handoff_wake(void)
{
	Latch	   *writer = ring->writer;

	if (writer != NULL)
		SetLatch(writer);
}

/*
 * What the writer is to see has been changed before, by an operation with a full
 * barrier, which pairs with that of fc_handoff_take_trouble(): either the writer
 * sees it when it looks, or this sees that the writer has begun to look.
 */
void
fc_handoff_tell_trouble(void)
{
	if (pg_atomic_read_u32(&ring->trouble) != 0 || pg_atomic_exchange_u32(&ring->trouble, 1) != 0)
		return;
	fc_failpoint(FC_FP_TROUBLE_TOLD);
	fc_handoff_wake();
}

void
fc_handoff_take_trouble(void)
{
	Assert(IS_WRITER());
	(void) pg_atomic_exchange_u32(&ring->trouble, 0);
}

void
fc_handoff_set_writer(Latch *latch)
{
	Assert(latch == NULL || latch == MyLatch);
	Assert(IS_WRITER());
	ring->writer = latch;
}

bool
fc_handoff_has_writer(void)
{
	return ring->writer != NULL;
}

uint32
fc_handoff_take_allocations(void)
{
	Assert(IS_WRITER());
	return pg_atomic_exchange_u32(&ring->allocations, 0);
}

void
fc_handoff_set_threshold(uint32 allocations)
{
	Assert(IS_WRITER() && allocations > 0);
	pg_atomic_write_u32(&ring->threshold, allocations);

	/*
	 * Whoever passed a threshold that was higher woke nobody, and it is not
	 * passed again.  The barrier pairs with the addition in
	 * fc_handoff_note_allocations().
	 */
	pg_memory_barrier();
	if (pg_atomic_read_u32(&ring->allocations) >= allocations)
		fc_handoff_wake();
}
