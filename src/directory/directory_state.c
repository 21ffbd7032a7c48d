/*-------------------------------------------------------------------------
 *
 * directory_state.c
 *	  What all files of this module use: where shared memory is, and what it
 *	  says of the directory as a whole.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "directory/directory_internal.h"

FcDirectory *fc_dir = NULL;
LWLockPadded *fc_dir_locks;
FcEntry    *fc_dir_entries;

uint32
fc_directory_slots(void)
{
	return fc_dir ? fc_dir->slots : 0;
}

uint32
fc_directory_linked(void)
{
	return fc_dir ? pg_atomic_read_u32(&fc_dir->linked) : 0;
}

FcAdmission
fc_admission_now(void)
{
	return (FcAdmission) pg_atomic_read_u32(&fc_dir->admission);
}

uint64
fc_directory_hash(const FcTag *tag)
{
	return hash_bytes_extended((const unsigned char *) tag, sizeof(*tag), 0);
}

/* ---- assertions ---- */

#ifdef USE_ASSERT_CHECKING

static bool mine = false;

bool
fc_directory_is_mine(void)
{
	return mine;
}

void
fc_directory_note_mine(void)
{
	mine = true;
}

bool
fc_directory_locked(void)
{
	return LWLockAnyHeldByMe(&fc_dir_locks[0].lock, FC_PARTITIONS, sizeof(LWLockPadded));
}

#endif
