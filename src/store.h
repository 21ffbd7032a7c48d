/*-------------------------------------------------------------------------
 *
 * store.h
 *	  The flash device: slots that are read and written.
 *
 * Knows nothing of pages, tags or policy.  Reports a status and never
 * raises, so it may be used inside storage-manager calls.  Opening checks
 * that the path is ours to write to; the error then comes as a sentence and
 * a hint for the DBA.
 *
 * One process at a time holds the device open for the server (the
 * postmaster, later the writer) and with it an flock() against a second
 * server.  Backends inherit the postmaster's descriptor; after the device
 * was opened anew each opens it once for itself and accepts it only if
 * device and inode are those that were checked.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_STORE_H
#define FC_STORE_H

#include <sys/uio.h>

#include "types.h"

/* Most slots written by one call. */
#define FC_STORE_MAX_RUN 64

/* Pages read by one call, at most. */
#define FC_STORE_MAX_READ 128

typedef enum FcIo
{
	FC_IO_OK,
	FC_IO_FAILED,				/* this slot's content is unknown */
	FC_IO_BROKEN,				/* failed, and once too often: switch off */
} FcIo;

typedef struct FcStoreError
{
	char		message[FC_REASON_LEN];
	char		hint[FC_HINT_LEN];
} FcStoreError;

extern Size fc_store_shmem_size(void);
extern void fc_store_shmem_init(void);

/*
 * Opens, checks, locks and preallocates the device for `slots` slots.
 * Returns false with a message and a hint, and nothing is open then.
 * Called by the postmaster at start and by the writer to try again.
 */
extern bool fc_store_open(const char *path, uint32 slots, FcStoreError *error);

/*
 * For a writer that replaces one that died: makes sure that this process, or
 * the postmaster, holds the lock of the device as opened last.
 */
extern bool fc_store_adopt(FcStoreError *error);

/* Is it open, and does it bypass the page cache? */
extern bool fc_store_direct_io(void);

/*
 * Reads slots into memory of any alignment: neighbouring ones by one request,
 * several requests at once where the kernel can.  Returns how many of the
 * first ones were read; *io tells whether a failure stopped it.
 */
extern int	fc_store_read(const FcSlotNo *slots, char *const *pages, int n, FcIo *io);

/*
 * Reading ahead: starts to read `n` neighbouring slots into memory aligned to
 * FC_IO_ALIGN, and returns.  The FcAhead and the pages stay where they are until
 * fc_store_ahead_done() says true.
 */
typedef struct FcAhead
{
	struct iovec iov;
	ssize_t		result;
} FcAhead;

/* False if there is no way to read ahead here. */
extern bool fc_store_ahead_start(FcAhead *ahead, FcSlotNo first, char *pages, int n);
extern bool fc_store_ahead_done(FcAhead *ahead);

/*
 * Waits for it, once.  Returns how many of the first pages were read; *io
 * tells whether a failure stopped it.
 */
extern int	fc_store_ahead_finish(FcAhead *ahead, FcIo *io);

/*
 * Writes `n` neighbouring slots, n <= FC_STORE_MAX_RUN, from pages that
 * begin at FC_IO_ALIGN boundaries.  All or nothing is reported.
 */
extern FcIo fc_store_write(FcSlotNo first, char *const *pages, int n);

#endif							/* FC_STORE_H */
