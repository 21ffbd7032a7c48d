/*-------------------------------------------------------------------------
 *
 * attach/locator.h
 *	  Names of relations, as the storage manager of this major version
 *	  writes them, and as the cache does.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_ATTACH_LOCATOR_H
#define FC_ATTACH_LOCATOR_H

#include "stats/stats_relation.h"
#include "storage/smgr.h"
#include "types.h"

#if PG_VERSION_NUM < 160000
typedef RelFileNode FcLocator;
typedef RelFileNodeBackend FcLocatorBackend;
#define FC_LOCATOR_SPC(l)			((l).spcNode)
#define FC_LOCATOR_DB(l)			((l).dbNode)
#define FC_LOCATOR_REL(l)			((l).relNode)
#define FC_LOCATOR_OF_BACKEND(l)	((l).node)
#define FC_LOCATOR_OF_SMGR(reln)	((reln)->smgr_rnode.node)
#define FC_LOCATOR_IS_TEMP(l)		RelFileNodeBackendIsTemp(l)
#else
typedef RelFileLocator FcLocator;
typedef RelFileLocatorBackend FcLocatorBackend;
#define FC_LOCATOR_SPC(l)			((l).spcOid)
#define FC_LOCATOR_DB(l)			((l).dbOid)
#define FC_LOCATOR_REL(l)			((l).relNumber)
#define FC_LOCATOR_OF_BACKEND(l)	((l).locator)
#define FC_LOCATOR_OF_SMGR(reln)	((reln)->smgr_rlocator.locator)
#define FC_LOCATOR_IS_TEMP(l)		RelFileLocatorBackendIsTemp(l)
#endif

static inline bool
fc_is_cacheable(SMgrRelation reln, ForkNumber forknum)
{
	return forknum == MAIN_FORKNUM && !SmgrIsTemp(reln);
}

static inline FcRel
fc_rel_of(FcLocator l)
{
	FcRel		rel = {FC_LOCATOR_SPC(l), FC_LOCATOR_DB(l), FC_LOCATOR_REL(l)};

	return rel;
}

static inline FcTag
fc_tag_of(SMgrRelation reln, BlockNumber blk)
{
	FcLocator	l = FC_LOCATOR_OF_SMGR(reln);
	FcTag		tag = {FC_LOCATOR_SPC(l), FC_LOCATOR_DB(l), FC_LOCATOR_REL(l), blk};

	return tag;
}

/* Whose reads of these files are: temporary relations have no counters of their own. */
static inline FcRel
fc_counted_as(SMgrRelation reln)
{
	FcRel		rel = fc_rel_of(FC_LOCATOR_OF_SMGR(reln));

	return SmgrIsTemp(reln) ? fc_rest_of(rel.db) : rel;
}

#endif							/* FC_ATTACH_LOCATOR_H */
