/*-------------------------------------------------------------------------
 *
 * store_shared.c
 *	  What all files of this module use: which process this is, and what is
 *	  known of a device and does not change while it is open.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "store/store_internal.h"
#include "store/store_list.h"
#include "store/store_process.h"

FcDevice   *fc_devices = NULL;

FcDeviceList *fc_device_list = NULL;
bool	   *fc_list_changed = NULL;

/* ---- which process this is ---- */

const FcStoreOwner *fc_process_owner = NULL;
bool		fc_is_device_process = false;

bool
fc_in_writer(void)
{
	return fc_process_owner != NULL && !fc_is_device_process;
}

bool
fc_in_device_process(void)
{
	return fc_is_device_process;
}

/* ---- what it is ---- */

uint32
fc_state_opening(FcDeviceNo no)
{
	return pg_atomic_read_u32(&fc_device(no)->generation);
}

const char *
fc_store_shares(FcDeviceNo no)
{
	return fc_device(no)->shares;
}

const uint8 *
fc_store_identity(FcDeviceNo no)
{
	return fc_device(no)->identity;
}

uint32
fc_store_slots(FcDeviceNo no)
{
	return fc_device(no)->slots;
}

const char *
fc_store_path(FcDeviceNo no)
{
	return fc_device(no)->path;
}

bool
fc_store_direct_io(FcDeviceNo no)
{
	return fc_device(no)->direct;
}
