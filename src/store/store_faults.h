/*-------------------------------------------------------------------------
 *
 * store_faults.h
 *	  What a test wants to go wrong with a read or a write, whoever makes it.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_STORE_FAULTS_H
#define FC_STORE_FAULTS_H

#include "failpoint.h"
#include "store/store_internal.h"

/* Where a test wants a request for n slots to go instead: to a neighbour. */
static inline off_t
misplaced(const FcFault *fault, const FcPlace *place, int n)
{
	if (likely(fault->action != FC_FP_MISPLACED))
		return place->offset;
	return place->offset + (place->offset + (off_t) (n + 1) * BLCKSZ <= fc_slot_offset(fc_device(place->no)->slots) ? BLCKSZ : -BLCKSZ);
}

/* What a test wants to go wrong with a device. */
static inline FcFault
read_fault(FcDeviceNo no)
{
	return fc_failpoint_fault_of(FC_FP_STORE_READ, no);
}

/* What a test wants the device to have answered. */
static inline ssize_t
spoiled(const FcFault *fault, ssize_t result, char *page)
{
	if (fault->action == FC_FP_ERROR)
		return -EIO;
	if (fault->action == FC_FP_SHORT && result > 0)
		return Min(result, BLCKSZ / 2);
	if (fault->action == FC_FP_FLIP && result > 0)
		page[BLCKSZ / 2] ^= 1;
	return result;
}

#endif							/* FC_STORE_FAULTS_H */
