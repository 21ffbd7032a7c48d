/*-------------------------------------------------------------------------
 *
 * pagecmp.c
 *	  See pagecmp.h.
 *
 * A hint may be set on a page in shared buffers without making the page
 * dirty (MarkBufferDirtyHint() during recovery with checksums), so a clean
 * buffer can be ahead of the disk by hints.  These are: tuple status bits,
 * the prune horizon and page flags of a heap page; dead line pointers, the
 * "has garbage" flag and the vacuum cycle id of an index page.  WAL consistency checking masks
 * the same fields (bufmask.c and the rm_mask callbacks); it masks more, since
 * it compares pages that were written at different times.
 *
 * An entry that was restored may lack changes that the disk has, although it
 * has all that redo knows of: the same hints, an LSN that came with them (a
 * hint is logged where there are checksums, and without full_page_writes redo
 * does nothing with that), what SP-GiST remembers of its free space, and BRIN's
 * mark of a page that is being emptied.  Or the disk has zeros where a heap's
 * new, empty page was lost with the machine.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/brin_page.h"
#include "access/gist.h"
#include "access/hash.h"
#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/spgist_private.h"
#include "pagecmp.h"
#include "storage/bufpage.h"

/* Every access method but heap ends its page with a 16-bit page id. */
static uint16
page_id(Page page)
{
	return *(uint16 *) (page + BLCKSZ - sizeof(uint16));
}

bool
fc_page_sane(const char *page)
{
	const PageHeaderData *h = (const PageHeaderData *) page;

	return PageGetPageSize((Page) page) == BLCKSZ &&
		h->pd_lower >= SizeOfPageHeaderData && h->pd_lower <= h->pd_upper &&
		h->pd_upper <= h->pd_special && h->pd_special <= BLCKSZ &&
		h->pd_special == MAXALIGN(h->pd_special);
}

/*
 * Index access methods initialise a new or a deleted page in its buffer before
 * they know that all will go well, and mark it dirty when they know.  If it
 * does not, the page stays, initialised and clean, while the disk has zeros or
 * the deleted page:
 *	nbtree	_bt_split() finds that the right sibling is damaged.
 *	GiST	gistplacetopage() gets one new page, and an error for the next.
 *	hash	_hash_expandtable() finds the new bucket's page pinned; no error.
 *	SP-GiST allocNewBuffer() finds that the page's number has the wrong parity
 *			for the purpose; no error.
 * Initialising sets the LSN to 0, and any real change sets another, where
 * changes are logged.  Pages of heaps, which have no special space, are
 * initialised and marked dirty in one go.
 */
bool
fc_page_ahead_of_disk(const char *page)
{
	return ((const PageHeaderData *) page)->pd_special < BLCKSZ &&
		XLogRecPtrIsInvalid(PageGetLSN((Page) page));
}

static void
mask_heap_tuples(Page page)
{
	OffsetNumber max = PageGetMaxOffsetNumber(page);

	for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
	{
		ItemId		id = PageGetItemId(page, off);
		char	   *at;
		uint16		infomask;

		if (!ItemIdHasStorage(id) ||
			ItemIdGetOffset(id) + SizeofHeapTupleHeader > BLCKSZ)
			continue;

		/* a damaged page may say that a tuple begins at any byte */
		at = (char *) page + ItemIdGetOffset(id) + offsetof(HeapTupleHeaderData, t_infomask);
		memcpy(&infomask, at, sizeof(infomask));
		infomask &= ~(HEAP_XMIN_COMMITTED | HEAP_XMIN_INVALID |
					  HEAP_XMAX_COMMITTED | HEAP_XMAX_INVALID);
		memcpy(at, &infomask, sizeof(infomask));
	}
}

static void
mask_index(Page page)
{
	OffsetNumber max = PageGetMaxOffsetNumber(page);
	uint16		special = PageGetSpecialSize(page);

	for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
	{
		ItemId		id = PageGetItemId(page, off);

		/* LP_DEAD is a hint; storage is kept */
		if (ItemIdIsDead(id) && ItemIdHasStorage(id))
			id->lp_flags = LP_NORMAL;
	}
	if (page_id(page) == HASHO_PAGE_ID && special == MAXALIGN(sizeof(HashPageOpaqueData)))
		((HashPageOpaque) PageGetSpecialPointer(page))->hasho_flag &= ~LH_PAGE_HAS_DEAD_TUPLES;
	else if (page_id(page) == GIST_PAGE_ID && special == MAXALIGN(sizeof(GISTPageOpaqueData)))
		((GISTPageOpaque) PageGetSpecialPointer(page))->flags &= ~F_HAS_GARBAGE;
	else if (page_id(page) <= MAX_BT_CYCLE_ID && special == MAXALIGN(sizeof(BTPageOpaqueData)))
	{
		BTPageOpaque opaque = (BTPageOpaque) PageGetSpecialPointer(page);

		/* VACUUM clears the cycle id as a hint, too */
		opaque->btpo_flags &= ~BTP_HAS_GARBAGE;
		opaque->btpo_cycleid = 0;
	}
}

/* Those of an index page that are not hints for all; see above. */
static void
mask_unlogged(Page page)
{
	uint16		special = PageGetSpecialSize(page);

	if (page_id(page) == SPGIST_PAGE_ID && special == MAXALIGN(sizeof(SpGistPageOpaqueData)))
	{
		if (SpGistPageIsMeta(page))
			memset(&SpGistPageGetMeta(page)->lastUsedPages, 0, sizeof(SpGistLUPCache));
	}
	else if (special == MAXALIGN(sizeof(BrinSpecialSpace)) && BRIN_IS_REGULAR_PAGE(page))
		BrinPageFlags(page) &= ~BRIN_EVACUATE_PAGE;
}

static void
mask(Page page, bool restored)
{
	PageHeader	h = (PageHeader) page;

	h->pd_checksum = 0;
	if (PageIsNew(page) || !fc_page_sane(page))
		return;
	if (restored)
	{
		memset(&h->pd_lsn, 0, sizeof(h->pd_lsn));
		if (PageGetSpecialSize(page) != 0)
			mask_unlogged(page);
	}
	h->pd_prune_xid = 0;
	h->pd_flags &= ~(PD_HAS_FREE_LINES | PD_PAGE_FULL);
	if (PageGetSpecialSize(page) == 0)
		mask_heap_tuples(page);
	else
		mask_index(page);
}

/* A new page of a heap, as it is before its first change. */
static bool
is_empty(const char *page)
{
	const PageHeaderData *h = (const PageHeaderData *) page;

	return fc_page_sane(page) && h->pd_lower == SizeOfPageHeaderData &&
		h->pd_upper == BLCKSZ && XLogRecPtrIsInvalid(PageGetLSN((Page) page));
}

static bool
is_zero(const char *page)
{
	return page[0] == 0 && memcmp(page, page + 1, BLCKSZ - 1) == 0;
}

bool
fc_pages_equal(const char *a, const char *b, bool restored, int *where)
{
	PGAlignedBlock ma;
	PGAlignedBlock mb;

	if (memcmp(a, b, BLCKSZ) == 0)
		return true;
	if (restored && ((is_empty(a) && is_zero(b)) || (is_zero(a) && is_empty(b))))
		return true;
	memcpy(ma.data, a, BLCKSZ);
	memcpy(mb.data, b, BLCKSZ);
	mask((Page) ma.data, restored);
	mask((Page) mb.data, restored);
	for (int i = 0; i < BLCKSZ; i++)
	{
		if (ma.data[i] != mb.data[i])
		{
			*where = i;
			return false;
		}
	}
	return true;
}
