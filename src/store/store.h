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
 * The writer has the device process (store_process.h) open the device for the
 * server, which holds an flock() on it against a second server, and write to
 * it.  Every other process opens it once for itself, to read, and accepts it
 * only if it is the file or the device that was checked; device and inode
 * alone could be those of another file by now, which is why nothing is
 * written on their word (fc_store_adopt).
 *
 * A device may stop to answer, for seconds or for ever.  Nobody waits longer
 * than the time-out that is handed in: sessions read by io_uring into memory
 * of this module, and memory that the device may still write to is left alone
 * until it has.  A session that can't use io_uring does not read.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_STORE_H
#define FC_STORE_H

#include "reason.h"
#include "types.h"

#include "datatype/timestamp.h"

/*
 * Which device.  The first one is pg_flashcache.file; it has the log, and the
 * cache does not begin without it.  The others come and go while the cache is
 * in use.  Each has a state of its own (store_map.c).  A slot lies where its
 * chunk does.
 */
typedef uint8 FcDeviceNo;

#define FC_DEVICES 8
#define FC_THE_DEVICE ((FcDeviceNo) 0)
#define FC_NO_DEVICE ((FcDeviceNo) 0xFF)

/* Several of them. */
#define FC_DEVICE_BIT(no) (UINT32_C(1) << (no))
#define FC_ALL_DEVICES ((UINT32_C(1) << FC_DEVICES) - 1)

typedef enum FcDeviceState
{
	FC_DEVICE_NONE,				/* there is no such device */
	FC_DEVICE_CLOSED,			/* it has not been opened yet */
	FC_DEVICE_ACTIVE,
	FC_DEVICE_DRAINING,			/* is about to be removed: nothing is filled */
	FC_DEVICE_OFF,				/* in trouble; the reason says which */
	FC_DEVICE_DISABLED,			/* somebody wants it so */
} FcDeviceState;

/* What has been done with a device; since start. */
typedef enum FcDeviceCounter
{
	FC_DEVICE_READS,			/* pages */
	FC_DEVICE_READ_REQUESTS,	/* of those whose time is known */
	FC_DEVICE_READ_NS,
	FC_DEVICE_WRITES,
	FC_DEVICE_WRITE_REQUESTS,
	FC_DEVICE_WRITE_NS,
	FC_DEVICE_READ_ERRORS,
	FC_DEVICE_WRITE_ERRORS,
	FC_DEVICE_TIMEOUTS,
	FC_DEVICE_COUNTERS
} FcDeviceCounter;

/* Most slots written by one call. */
#define FC_STORE_MAX_RUN 64

/* Pages read by one call, at most. */
#define FC_STORE_MAX_READ 128

typedef enum FcIo
{
	FC_IO_OK,
	FC_IO_FAILED,				/* this slot's content is unknown */
	FC_IO_BROKEN,				/* and that is enough: switch off,
								 * fc_store_trouble() says why */
} FcIo;

/*
 * The writer may be interrupted while it waits for the device.  stop(): it was
 * asked to end, or the postmaster has gone; does not return unless the process
 * is exiting already.  reload(): it waits without a limit, and the settings
 * have changed; reads them, and returns io_timeout in ms, or -1 if the device is
 * no longer wanted.
 */
typedef struct FcStoreOwner
{
	void		(*stop) (void);
	int			(*reload) (void);
} FcStoreOwner;

extern FcPart fc_store_part(void);
extern FcPart fc_store_map_part(void);

/* For so many slots, the first ones of which lie on the first device. */
extern void fc_store_shmem_init(uint32 slots, uint32 first);

/* ---- where slots lie: store_map.c ---- */

/* On which device; FC_NO_DEVICE if on none.  A late answer does no harm: R3. */
extern FcDeviceNo fc_store_device_of(FcSlotNo slot);

/* How many of n slots from that one on lie in a row on one device, the first one included. */
extern int	fc_store_in_a_row(FcSlotNo first, int n);

/*
 * The chunk lies in that place of a device, or nowhere (FC_NO_DEVICE).  Writer
 * only: none of its slots is in use, each has had its version raised since it
 * last was, and from then on whoever looks one up finds that in R3.
 */
extern void fc_store_set_chunk(uint32 chunk, FcDeviceNo no, uint32 index);
extern FcDeviceNo fc_store_chunk(uint32 chunk, uint32 *index);

extern FcDeviceState fc_store_state(FcDeviceNo no);
extern const char *fc_store_state_name(FcDeviceState state);

/*
 * Writer only.  What else enters FC_DEVICE_OFF is a request to the device, in
 * any process, that has failed for good.  The first device is active but while
 * it is off and others are in use.
 */
extern void fc_store_set_state(FcDeviceNo no, FcDeviceState state, const FcReason *why);

/* Is another device in use? */
extern bool fc_store_others(FcDeviceNo no);

/* What fc_store_trouble() says takes the first device off, alone.  In any process. */
extern void fc_store_first_is_off(void);

/* The reason of the state, and since when it is. */
extern TimestampTz fc_store_reason(FcDeviceNo no, FcReason *why);

/* When the writer tries it again; 0 = it has no reason to.  For views. */
extern void fc_store_set_next_probe(FcDeviceNo no, TimestampTz at);
extern TimestampTz fc_store_next_probe(FcDeviceNo no);

/* What a place in the list means. */
extern FcDeviceNo fc_store_place_of_list(uint32 word, uint32 *index);

/*
 * A page with wrong content was read from that slot, of a device that had
 * `enough` of them in a row: that goes off.  True if it is the first device, of
 * which the caller has to see to that.
 */
extern bool fc_store_wrong_page(FcSlotNo slot, uint32 enough);

/* A good page, if there has been a wrong one. */
extern bool fc_store_any_wrong(void);
extern void fc_store_good_page_slow(FcSlotNo slot);

/* Writer only.  Must what is on the device be forgotten? */
extern bool fc_store_doubtful(FcDeviceNo no);
extern void fc_store_forget_wrong(FcDeviceNo no);

/* Another reason for the same state; the caller logs it, or not. */
extern void fc_store_set_reason(FcDeviceNo no, const FcReason *why);

/* True once after it went off: the writer then warns. */
extern bool fc_store_take_warning(FcDeviceNo no, FcReason *why);

extern uint64 fc_store_counter(FcDeviceNo no, FcDeviceCounter counter);

/* Pages written since the day began, or the device was added. */
extern void fc_store_begin_day(FcDeviceNo no);
extern uint64 fc_store_written_today(FcDeviceNo no);

/* Slots of the device as opened last. */
extern uint32 fc_store_slots(FcDeviceNo no);

/*
 * A writer that is to end turns away from a call under way after so long; 0 at
 * once.  Its time-out holds as well.
 */
extern void fc_store_patience(int ms);

/* This process is the writer, which all the rest that says so is for. */
extern void fc_store_own(const FcStoreOwner *owner);

/* The writer has a lot to do, and sees whether it is to stop(). */
extern void fc_store_look_for_stop(void);

/*
 * Opens, checks, locks and preallocates the device for `slots` slots and so
 * many blocks of the log, of BLCKSZ each.
 * Returns false with a message and a hint if that fails; the device opened
 * before may then be open still, without its lock.  `require_mount`: a file
 * must not lie on a file system that fc_store_shares() would name.  Called by
 * the writer.
 *
 * Before sessions are led to it, before_use() is called until it says that it
 * has come to its end.  `same`: it is the file or device that was open last, of
 * the same size, and began with the very header that was written then.
 */
typedef bool (*FcStoreBeforeUse) (bool same);

extern bool fc_store_open(FcDeviceNo no, const char *path, uint32 slots, uint32 log_blocks, bool require_mount, int timeout_ms,
						  FcStoreBeforeUse before_use, FcReason *error);

/*
 * The same of a device beyond the first one.  `known`: it is the same if its
 * header has this identity, for so many slots, though it may have been another
 * server that wrote it; NULL: it is not.  `make`: makes the file if it is not
 * there.
 */
typedef struct FcKnownDevice
{
	const uint8 *identity;
	uint32		slots;
} FcKnownDevice;

extern bool fc_store_open_other(FcDeviceNo no, const char *path, uint32 slots, const FcKnownDevice *known, bool make,
								bool require_mount, int timeout_ms, FcStoreBeforeUse before_use, FcReason *error);

/*
 * H8: the same step by step, where nobody waits.  Each step is begun, which may
 * end it, and looked at until it is not FC_STEP_MORE.  One at a time for each
 * device, and no other request to it meanwhile, but that it be let go of.
 */
typedef enum FcStoreStep
{
	FC_STEP_MORE,				/* it has not been answered yet */
	FC_STEP_DONE,
	FC_STEP_FAILED,
} FcStoreStep;

/* Of pages that were written to free slots and read back: without `written`, none could be. */
typedef struct FcStoreTrial
{
	int			written;
	uint64		ns;				/* a page takes to be read */
	bool		answered;		/* else the reason says all */
	FcIo		io;
} FcStoreTrial;

/* As fc_store_answers(), fc_store_open() and fc_store_open_other(); and the trial. */
extern FcStoreStep fc_store_begin_to_ask(FcDeviceNo no, int timeout_ms, FcReason *error);
extern FcStoreStep fc_store_begin_to_open(FcDeviceNo no, const char *path, uint32 slots, uint32 log_blocks, const FcKnownDevice *known,
										  bool make, bool require_mount, int timeout_ms, FcReason *error);
extern FcStoreStep fc_store_begin_to_try(FcDeviceNo no, const FcSlotNo *slots, char *const *pages, int n, int timeout_ms, FcReason *error);
extern FcStoreStep fc_store_look(FcDeviceNo no, int timeout_ms, FcStoreBeforeUse before_use, FcStoreTrial *trial, FcReason *error);

/* Opened, and before_use() has not come to its end?  Then it is to be looked at again at once. */
extern bool fc_store_prepares(FcDeviceNo no);

/* Nobody looks any more.  The device process may do it all the same, and other requests come after that (H5). */
extern void fc_store_turn_away(FcDeviceNo no);

/*
 * Before it becomes shorter: what can't be read behind that is no news about it.
 * Or, by a new writer, what a change that was interrupted had made of it is undone.
 */
extern void fc_store_set_slots(FcDeviceNo no, uint32 slots);

/* Another device may get the number. */
extern void fc_store_forget(FcDeviceNo no);

/* The identity in its header, random and new with each opening; FC_IDENTITY_BYTES. */
extern const uint8 *fc_store_identity(FcDeviceNo no);

/*
 * With what of the server the file that was opened last shares its file
 * system: the data directory, the write-ahead log, the root directory; ""
 * if with none of them, or for a block device.
 */
extern const char *fc_store_shares(FcDeviceNo no);

/*
 * Does the device that is open answer?  Only a device that doesn't is an
 * error here; one that fails, or is not open, may be opened anew.  Called by
 * the writer first of all: opening takes longer to find that out.
 */
extern bool fc_store_answers(FcDeviceNo no, int timeout_ms, FcReason *error);

/*
 * For a writer that replaces one that died, or has let go of devices, and before
 * a scrub: to which of these may the device process write as opened last?  Of the
 * others the reason, by number.  All that opening checks is checked again, and
 * that the header is the very one that was written then.  Nothing is made, and
 * nothing written.  D10: all are asked at once.
 */
extern uint32 fc_store_adopt(uint32 devices, int timeout_ms, FcReason *why);

/*
 * Lets go of the device, so that its file system can be unmounted: a cache
 * that is off or disabled needs it no more, and whoever does opens it again.
 * The first is for sessions, the second for the writer.
 */
extern void fc_store_close_all(int timeout_ms);
extern void fc_store_release(FcDeviceNo no, int timeout_ms);

/*
 * It is in use: a file that opening it has made stays.  Before that it is
 * removed when the device is let go of, or the writer ends.
 */
extern void fc_store_keep(FcDeviceNo no);

/* The first, of devices that have gone off or were removed: to be called by who reads pages, also those that are not on flash. */
extern void fc_store_let_go(int timeout_ms);

/* D10: the second of several at once; those that do not answer are given up. */
extern void fc_store_release_all(uint32 devices, int timeout_ms);

/*
 * D9.  Somebody has waited in vain for another device, so these may hang as
 * well, and are not read from.  Are there any?  Is this one?  The writer tries
 * them in its next round: those that do not answer go off.  FC_IO_BROKEN if the
 * first one is among them.  Or it forgets that: nobody reads at present.
 */
extern bool fc_store_any_suspect(void);
extern bool fc_store_is_suspect(FcDeviceNo no);
extern FcIo fc_store_try_suspects(int timeout_ms);
extern void fc_store_forget_suspects(void);

/* For how long has it not answered the writer?  0: it has. */
extern uint64 fc_store_unanswered_ns(FcDeviceNo no);

/* Has the process of a device that was given up ended, so that its number may be used again?  Writer only. */
extern bool fc_store_is_idle(FcDeviceNo no);

/* The path of the device that was opened last. */
extern const char *fc_store_path(FcDeviceNo no);

/* Does it bypass the page cache? */
extern bool fc_store_direct_io(FcDeviceNo no);

/* Can this process turn away from a device that doesn't answer? */
extern bool fc_store_can_time_out(void);

/* May this process read from flash?  Not if there were no end to its waits though there should be. */
extern bool fc_store_may_read(FcDeviceNo no, int timeout_ms);
extern bool fc_store_may_read_slot(FcSlotNo slot, int timeout_ms);

/* errno of a process that could not bound its waits since this was last asked, or 0. */
extern int	fc_store_unbounded(FcDeviceNo no);

/* Is there any process that could?  For the writer; the device has been opened. */
extern bool fc_store_can_bound(FcDeviceNo no, int timeout_ms, FcReason *error);

/* What was wrong when this process last got FC_IO_BROKEN. */
extern const FcReason *fc_store_trouble(void);

/* Has the device been opened anew since?  A session may hear late from a descriptor that it has opened before. */
extern bool fc_store_trouble_is_over(void);

/* Why this process last failed to read or write; 0 if less than wanted was read or written.  And what to do about it. */
extern int	fc_store_last_errno(void);
extern const char *fc_store_hint(FcDeviceNo no, int code);

/*
 * Reads slots into memory of any alignment: neighbouring ones by one request,
 * several requests at once where the kernel can.  Returns how many of the
 * first ones were read; *io tells whether a failure stopped it.  timeout_ms,
 * here and below: 0 is none.
 */
extern int	fc_store_read(const FcSlotNo *slots, char *const *pages, int n, int timeout_ms, FcIo *io);

/* How long that took, with what the caller has done with the pages: for the device's mean, for which nobody looks at the clock. */
extern void fc_store_read_took(const FcSlotNo *slots, int n, uint64 ns);

/*
 * Reading ahead: starts to read `n` slots in a row into memory aligned to
 * FC_IO_ALIGN, and returns.  The FcAhead and the pages stay where they are until
 * fc_store_ahead_done() says true.
 */
typedef struct FcAhead
{
	FcDeviceNo	no;
	uint32		opening;		/* of the device */
	int			n;
	off_t		offset;
	ssize_t		result;
} FcAhead;

/* So much memory of this process for it, never given back; NULL if there is none. */
extern char *fc_store_memory(int pages);

/*
 * False if there is no way to read ahead here, or not now; FC_IO_BROKEN if
 * the device could not be opened.
 */
extern bool fc_store_ahead_start(FcAhead *ahead, FcSlotNo first, char *pages, int n, int timeout_ms, FcIo *io);
extern bool fc_store_ahead_done(FcAhead *ahead);

/* Will it never be done, because this process's io_uring has failed?  The pages may be written to for ever. */
extern bool fc_store_ahead_lost(const FcAhead *ahead);

/*
 * Waits for it, once.  Returns how many of the first pages were read; *io
 * tells whether a failure stopped it.
 */
extern int	fc_store_ahead_finish(FcAhead *ahead, char *pages, int timeout_ms, FcIo *io);

/* ---- for the writer ---- */

/* Reads up to FC_STORE_MAX_RUN slots of one device; *ns becomes what that took. */
extern int	fc_store_try_read(const FcSlotNo *slots, char *const *pages, int n, int timeout_ms, uint64 *ns, FcIo *io);

/* Writes `n` slots in a row, n <= FC_STORE_MAX_RUN.  All or nothing is reported. */
extern FcIo fc_store_write(FcSlotNo first, char *const *pages, int n, int timeout_ms);

/*
 * The log's blocks, up to FC_STORE_MAX_RUN neighbouring ones.  What is read is
 * not judged: a block may never have been written.
 */
extern FcIo fc_store_read_log(uint32 first, char *const *blocks, int n, int timeout_ms);
extern FcIo fc_store_write_log(uint32 first, char *const *blocks, int n, int timeout_ms);

/*
 * Makes what was written outlast a loss of power, on all devices in use.  D10: all
 * are asked at once.  Of those beyond the first one, one that can't goes off;
 * returned is what has come of the first one.
 */
extern FcIo fc_store_sync(int timeout_ms);

/* The same on these, in use or adopted (FC_DEVICE_BIT), and which of them, the first one included, have failed. */
extern FcIo fc_store_sync_devices(uint32 devices, int timeout_ms, uint32 *failed);

#endif							/* FC_STORE_H */
