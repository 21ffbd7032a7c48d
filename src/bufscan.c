/*-------------------------------------------------------------------------
 *
 * bufscan.c
 *	  See bufscan.h.
 *
 * Why a copy under the header lock is a copy of the disk (step F2): with no
 * pin nobody may read or change the page; nobody can pin while the header is
 * locked; not dirty and not under I/O means that the last change has been
 * written.  Copying unlocked and comparing the tag before and after is not
 * enough: the frame may have held p, then q, then p again.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bufscan.h"
#include "failpoint.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "storage/lwlock.h"

#if PG_VERSION_NUM < 160000
#define TAG_SPC(t) ((t)->rnode.spcNode)
#define TAG_DB(t) ((t)->rnode.dbNode)
#define TAG_REL(t) ((t)->rnode.relNode)
#else
#define TAG_SPC(t) ((t)->spcOid)
#define TAG_DB(t) ((t)->dbOid)
#define TAG_REL(t) ((t)->relNumber)
#endif

/* 19 keeps the content lock in the state as well, which takes 64 bits. */
#if PG_VERSION_NUM < 190000
typedef uint32 BufState;
#define READ_STATE(buf) pg_atomic_read_u32(&(buf)->state)
#define LOCK_STATE_ONCE(buf) pg_atomic_fetch_or_u32(&(buf)->state, BM_LOCKED)
#define UNLOCK_STATE(buf, s) UnlockBufHdr(buf, s)
#else
typedef uint64 BufState;
#define READ_STATE(buf) pg_atomic_read_u64(&(buf)->state)
#define LOCK_STATE_ONCE(buf) pg_atomic_fetch_or_u64(&(buf)->state, BM_LOCKED)
#define UNLOCK_STATE(buf, s) UnlockBufHdr(buf)
#endif

uint64
fc_bufscan_hand(void)
{
	static uint32 last_passes = 0;
	static uint64 rounds = 0;	/* of the server's count of passes, 2^32 each */
	uint32		passes;
	int			hand;

	/*
	 * A non-NULL second argument would take the allocation count away from
	 * the background writer.
	 */
	hand = StrategySyncStart(&passes, NULL);
	passes += FC_START_32;
	if (passes < last_passes)
		rounds++;
	last_passes = passes;
	return ((rounds << 32) + passes) * NBuffers + hand;
}

uint32
fc_bufscan_frames(void)
{
	return NBuffers;
}

bool
fc_bufscan_in_pool(const char *page)
{
	return page >= BufferBlocks && page < BufferBlocks + (Size) NBuffers * BLCKSZ;
}

uint32
fc_bufscan_frame(const char *page)
{
	Assert(fc_bufscan_in_pool(page));
	return (uint32) ((page - BufferBlocks) / BLCKSZ);
}

bool
fc_bufscan_permanent(const char *page)
{
	return (READ_STATE(GetBufferDescriptor(fc_bufscan_frame(page))) & BM_PERMANENT) != 0;
}

/*
 * The page of a main fork that a frame with these flags has.  Nobody has the
 * header's lock: the tag may be half another one by now, which is a page all the
 * same, or the frame has none any more: false.
 */
static bool
take_tag(const BufferDesc *buf, BufState state, BufState wanted, FcTag *tag)
{
	if ((state & wanted) != wanted || buf->tag.forkNum != MAIN_FORKNUM)
		return false;
	fc_failpoint_of(FC_FP_BUFFER_LOOK, TAG_REL(&buf->tag));
	tag->spc = TAG_SPC(&buf->tag);
	tag->db = TAG_DB(&buf->tag);
	tag->rel = TAG_REL(&buf->tag);
	tag->blk = buf->tag.blockNum;
	return tag->rel != InvalidOid && tag->blk != InvalidBlockNumber;
}

static FcPeek
look(const BufferDesc *buf, BufState state, FcTag *tag)
{
	if (!take_tag(buf, state, BM_VALID | BM_TAG_VALID | BM_PERMANENT, tag))
		return FC_PEEK_NO;
	if ((state & (BM_DIRTY | BM_IO_IN_PROGRESS | BM_LOCKED)) != 0 ||
		BUF_STATE_GET_REFCOUNT(state) != 0)
		return FC_PEEK_LATER;
	return FC_PEEK_CANDIDATE;
}

FcPeek
fc_bufscan_look(uint32 frame, FcTag *tag, int *usage)
{
	BufferDesc *buf = GetBufferDescriptor(frame);
	BufState	state = READ_STATE(buf);

	StaticAssertStmt(FC_USAGE_MAX == BM_MAX_USAGE_COUNT, "usage counts go to another number");
	*usage = BUF_STATE_GET_USAGECOUNT(state);
	return look(buf, state, tag);
}

bool
fc_bufscan_relation(uint32 frame, FcRel *rel)
{
	BufferDesc *buf = GetBufferDescriptor(frame);
	FcTag		tag;

	if (!take_tag(buf, READ_STATE(buf), BM_VALID | BM_TAG_VALID, &tag))
		return false;
	*rel = fc_tag_rel(&tag);
	return true;
}

bool
fc_bufscan_has_free(void)
{
#if PG_VERSION_NUM < 190000
	return have_free_buffer();
#else
	uint32		passes;

	/* there is no list of free frames: the hand takes them in its first lap */
	(void) StrategySyncStart(&passes, NULL);
	return passes == 0;
#endif
}

static bool
holds(const BufferDesc *buf, const FcTag *tag)
{
	return buf->tag.blockNum == tag->blk && buf->tag.forkNum == MAIN_FORKNUM &&
		TAG_REL(&buf->tag) == tag->rel && TAG_DB(&buf->tag) == tag->db &&
		TAG_SPC(&buf->tag) == tag->spc;
}

FcCopy
fc_bufscan_copy_if_clean(uint32 frame, const FcTag *tag, char *copy)
{
	BufferDesc *buf = GetBufferDescriptor(frame);
	const BufState wanted = BM_VALID | BM_TAG_VALID | BM_PERMANENT;
	const BufState unwanted = BM_DIRTY | BM_IO_IN_PROGRESS;
	BufState	state;
	FcCopy		result;

	/* tried once: whoever holds it is about to use the page */
	state = LOCK_STATE_ONCE(buf);
	if (state & BM_LOCKED)
		return FC_COPY_PINNED;
	state |= BM_LOCKED;

	if (BUF_STATE_GET_REFCOUNT(state) != 0)
		result = FC_COPY_PINNED;
	else if ((state & wanted) != wanted || (state & unwanted) != 0 || !holds(buf, tag))
		result = FC_COPY_NOT_CURRENT;
	else
	{
		memcpy(copy, BufferGetBlock(BufferDescriptorGetBuffer(buf)), BLCKSZ);
		result = FC_COPY_DONE;
	}
	UNLOCK_STATE(buf, state);
	return result;
}

/*
 * Which frame has that tag?  -1 if none.  The caller may hold a content lock
 * and I/O flags: nobody who holds a mapping lock waits for either, so taking
 * one here cannot deadlock.
 */
int
fc_bufscan_frame_of(const FcTag *tag)
{
	BufferTag	btag;
	uint32		hash;
	LWLock	   *lock;
	int			id;

#if PG_VERSION_NUM < 160000
	btag.rnode.spcNode = tag->spc;
	btag.rnode.dbNode = tag->db;
	btag.rnode.relNode = tag->rel;
	btag.forkNum = MAIN_FORKNUM;
	btag.blockNum = tag->blk;
#else
	btag.spcOid = tag->spc;
	btag.dbOid = tag->db;
	btag.relNumber = tag->rel;
	btag.forkNum = MAIN_FORKNUM;
	btag.blockNum = tag->blk;
#endif
	hash = BufTableHashCode(&btag);
	lock = BufMappingPartitionLock(hash);
	LWLockAcquire(lock, LW_SHARED);
	id = BufTableLookup(&btag, hash);
	LWLockRelease(lock);
	return id;
}

bool
fc_bufscan_holds(const FcTag *tag)
{
	return fc_bufscan_frame_of(tag) >= 0;
}

bool
fc_bufscan_dirty(const FcTag *tag)
{
	int			id = fc_bufscan_frame_of(tag);

	/* the frame may have another page by now: a hint */
	return id >= 0 && (READ_STATE(GetBufferDescriptor(id)) & BM_DIRTY) != 0;
}

int
fc_bufscan_being_evicted(const FcTag *tag)
{
	/*
	 * the caller is in FlushBuffer(): with its I/O flag the frame keeps its
	 * tag
	 */
	int			id = fc_bufscan_frame_of(tag);
	BufState	state;

	if (id < 0)
		return -1;

	/*
	 * The clock evicts at usage count 0.  A buffer ring reuses its own frames
	 * at 1, to which the scan's pin has set it.
	 */
	state = READ_STATE(GetBufferDescriptor(id));
	return (state & BM_PERMANENT) != 0 && (state & BM_IO_IN_PROGRESS) != 0 &&
		BUF_STATE_GET_USAGECOUNT(state) == 0 ? id : -1;
}
