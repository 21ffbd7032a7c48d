/*-------------------------------------------------------------------------
 *
 * writer_patience.c
 *	  See writer_patience.h, and fc_writer_hanging_device() in writer.h.
 *
 * Runs in sessions.  What it looks at is what the writer has noted of its
 * requests to the device processes: when the one was made that has not been
 * answered.  A late look does no harm.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "settings.h"
#include "store/store.h"
#include "store/store_list.h"
#include "writer/writer.h"
#include "writer/writer_patience.h"

/* One that answers takes no longer, as a rule. */
#define HANGS_S 5

bool
fc_writer_hanging_device(FcReason *what)
{
	FcDeviceNo	which = FC_NO_DEVICE;
	uint64		longest = HANGS_S * UINT64CONST(1000000000);
	FcDeviceEntry entry = {""};

	for (FcDeviceNo no = 0; no < FC_DEVICES; no++)
	{
		uint64		ns = fc_store_unanswered_ns(no);

		if (ns < longest)
			continue;
		which = no;
		longest = ns;
	}
	if (which == FC_NO_DEVICE)
		return false;
	/* one that was removed is in no list any more */
	if (which == FC_THE_DEVICE)
		strlcpy(entry.path, fc_setting_file, sizeof(entry.path));
	else if (!fc_list_entry(which, &entry))
		snprintf(entry.path, sizeof(entry.path), "device %d", which + 1);
	(void) fc_fail(what, fc_setting_io_timeout > 0 ?
				   "See the kernel's log for what ails the device. The call can be cancelled." :
				   "pg_flashcache.io_timeout is 0, so nothing bounds that: set it and reload the configuration, or cancel the call.",
				   "\"%s\" has not answered for %u s", entry.path, (unsigned) (longest / 1000000000));
	return true;
}

void
fc_writer_tell_wait(bool *told)
{
	FcReason	what;

	if (*told || !fc_writer_hanging_device(&what))
		return;
	*told = true;
	ereport(NOTICE,
			(errmsg("waiting for a flash device: %s", what.message),
			 errhint("%s", what.hint)));
}
