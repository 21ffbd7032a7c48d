/*-------------------------------------------------------------------------
 *
 * objects.c
 *	  See objects.h.
 *
 * A sample takes one slot out of each group of neighbours, chosen by a hash of
 * the group's number: pages of a relation lie beside each other, and whatever
 * has a rhythm must not meet ours.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bufscan.h"
#include "common/hashfn.h"
#include "directory/directory.h"
#include "miscadmin.h"
#include "objects.h"

typedef struct FcObjectEntry
{
	FcObject	object;
	char		status;
} FcObjectEntry;

static inline uint32
hash_of(FcRel rel)
{
	return murmurhash32(rel.rel ^ (rel.spc << 16) ^ rel.db);
}

#define SH_PREFIX objects
#define SH_ELEMENT_TYPE FcObjectEntry
#define SH_KEY_TYPE FcRel
#define SH_KEY object.rel
#define SH_HASH_KEY(tb, key) hash_of(key)
#define SH_EQUAL(tb, a, b) ((a).rel == (b).rel && (a).spc == (b).spc && (a).db == (b).db)
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* Groups that are looked at while the memory of one is on its way. */
#define AHEAD 16

struct FcObjects
{
	objects_hash *found;
	objects_iterator next;
};

/* The entry of a relation, made if need be; valid until the next call. */
static FcObject *
object_of(objects_hash *found, FcRel rel)
{
	bool		was_there;
	FcObjectEntry *entry = objects_insert(found, rel, &was_there);

	if (!was_there)
	{
		entry->object.flash = 0;
		entry->object.buffers = 0;
	}
	return &entry->object;
}

/* The slot of a group that is looked at; the last group may not have it. */
static inline uint64
slot_of(uint32 group, uint32 every)
{
	return (uint64) group * every + (every > 1 ? murmurhash32(group) % every : 0);
}

static void
count_flash(objects_hash *found, Oid db, uint32 every)
{
	uint32		slots = fc_directory_slots();
	uint32		groups = slots / every + (slots % every != 0);

	for (uint32 group = 0; group < groups; group++)
	{
		uint64		slot = slot_of(group, every);
		uint64		soon = slot_of(group + AHEAD, every);
		FcPageInfo	page;

		if (group % 65536 == 0)
			CHECK_FOR_INTERRUPTS();
		if (every > 1 && soon < slots)
			fc_directory_prefetch((FcSlotNo) soon);
		if (slot < slots && fc_directory_page((FcSlotNo) slot, &page) &&
			(page.tag.db == db || page.tag.db == InvalidOid))
			object_of(found, fc_tag_rel(&page.tag))->flash += every;
	}
}

static void
count_buffers(objects_hash *found, Oid db)
{
	for (uint32 frame = 0; frame < fc_bufscan_frames(); frame++)
	{
		FcRel		rel;

		if (frame % 65536 == 0)
			CHECK_FOR_INTERRUPTS();
		if (fc_bufscan_relation(frame, &rel) && (rel.db == db || rel.db == InvalidOid))
			object_of(found, rel)->buffers++;
	}
}

FcObjects *
fc_objects_count(Oid db, uint64 max_slots, uint32 *every)
{
	FcObjects  *objects = palloc(sizeof(FcObjects));
	uint32		slots = fc_directory_slots();

	Assert(max_slots > 0);
	*every = slots > max_slots ? (uint32) ((slots + max_slots - 1) / max_slots) : 1;
	objects->found = objects_create(CurrentMemoryContext, 256, NULL);
	count_flash(objects->found, db, *every);
	count_buffers(objects->found, db);
	objects_start_iterate(objects->found, &objects->next);
	return objects;
}

bool
fc_objects_next(FcObjects *objects, FcObject *object)
{
	FcObjectEntry *entry = objects_iterate(objects->found, &objects->next);

	if (entry == NULL)
		return false;
	*object = entry->object;
	return true;
}
