/*-------------------------------------------------------------------------
 *
 * handoff_hints.c
 *	  See handoff_hints.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "handoff.h"
#include "handoff_hints.h"
#include "port/atomics.h"
#include "storage/shmem.h"

/* A power of 2. */
#define CELLS 256

/* The writer is woken for so many: well before they are all. */
#define WAKE_EVERY 8

typedef struct Cell
{
	pg_atomic_uint64 turn;		/* as in handoff.c: see lap_of() there */
	FcHint		hint;
} Cell;

typedef struct Hints
{
	pg_atomic_uint64 tail;		/* next to be pushed */
	char		pad[PG_CACHE_LINE_SIZE];
	uint64		head;			/* next to be popped; writer only */
	Cell		cell[CELLS];
} Hints;

static Hints *hints = NULL;

FcPart
fc_hints_part(void)
{
	return fc_part("pg_flashcache hints", sizeof(Hints));
}

static uint64
lap_of(uint64 pos)
{
	return pos & ~(uint64) (CELLS - 1);
}

void
fc_hints_shmem_init(void)
{
	FcPart		part = fc_hints_part();
	bool		found;

	hints = ShmemInitStruct(part.name, part.size, &found);
	pg_atomic_init_u64(&hints->tail, FC_START_64);
	hints->head = FC_START_64;
	for (uint64 pos = FC_START_64; pos != FC_START_64 + CELLS; pos++)
		pg_atomic_init_u64(&hints->cell[pos % CELLS].turn, lap_of(pos));
}

void
fc_hints_push(const FcHint *hint)
{
	uint64		pos = pg_atomic_read_u64(&hints->tail);
	Cell	   *cell;

	for (;;)
	{
		int64		ahead;

		cell = &hints->cell[pos % CELLS];
		ahead = (int64) (pg_atomic_read_u64(&cell->turn) - lap_of(pos));
		if (ahead < 0)
			return;				/* full */
		if (ahead > 0)
			pos = pg_atomic_read_u64(&hints->tail);
		else if (pg_atomic_compare_exchange_u64(&hints->tail, &pos, pos + 1))
			break;
	}
	cell->hint = *hint;
	pg_write_barrier();			/* the cell before its turn */
	pg_atomic_write_u64(&cell->turn, lap_of(pos) + 1);
	if (pos % WAKE_EVERY == 0)
		fc_handoff_wake();
}

bool
fc_hints_pop(FcHint *hint)
{
	Cell	   *cell = &hints->cell[hints->head % CELLS];

	if (pg_atomic_read_u64(&cell->turn) != lap_of(hints->head) + 1)
		return false;
	pg_read_barrier();			/* its turn before the cell */
	*hint = cell->hint;
	pg_memory_barrier();		/* reading it before giving it back */
	pg_atomic_write_u64(&cell->turn, lap_of(hints->head) + CELLS);
	hints->head++;
	return true;
}

void
fc_hints_clear(void)
{
	FcHint		hint;

	for (int i = 0; i < CELLS && fc_hints_pop(&hint); i++)
		;
}
