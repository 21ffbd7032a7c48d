/*-------------------------------------------------------------------------
 *
 * store_map.c
 *	  Where slots lie, and the states of the devices beyond the first one.
 *
 * A word for each chunk of slots: the device, and the place there.  The writer
 * changes it; all others read it without a lock, between R1 and R2.  Before a
 * chunk is moved its slots have been drained, each with a raised version and
 * a full barrier.  So who reads the new word finds the new version in R3; and
 * who has read the old one has read from where nobody has written since the
 * page was there, or finds the new version as well.
 *
 * Each device has its state here, and whoever finds trouble changes it.  That
 * of the first one is active but while it is off and others are in use: alone,
 * it goes on and off with the cache (cache.c).
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/atomics.h"
#include "stats/stats.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "store/store_internal.h"
#include "store/store_list.h"
#include "store/store_process.h"
#include "utils/timestamp.h"

#define NOWHERE FC_LIST_NOWHERE
#define DEVICE_SHIFT 24
#define INDEX_MASK ((UINT32_C(1) << DEVICE_SHIFT) - 1)

StaticAssertDecl(FC_CHUNKS <= INDEX_MASK, "places of chunks do not fit");
StaticAssertDecl(FC_DEVICES < 0xFF, "numbers of devices do not fit");

typedef struct DeviceShared
{
	pg_atomic_uint32 state;		/* FcDeviceState; a late look does no harm */
	pg_atomic_uint64 next_probe;	/* TimestampTz, 0 = none; for views */
	pg_atomic_uint64 written_before;	/* today, of FC_DEVICE_WRITES; for
										 * views */
	pg_atomic_uint64 passed_at; /* when a trial of a suspect device was begun
								 * that it passed, ns; a late look does no
								 * harm */
	pg_atomic_uint64 asked_at;	/* when its process got the request that it
								 * has not answered, or said last that it goes
								 * on, ns, 0 = none; for who waits for the
								 * writer */
	pg_atomic_uint32 wrong_in_a_row;	/* pages with wrong content; no order
										 * needed */
	pg_atomic_uint32 doubtful;	/* what is there must be forgotten before it
								 * is used again */
	slock_t		lock;			/* protects what follows; leaf */
	bool		warn;			/* not logged yet */
	TimestampTz since;
	FcReason	why;
} DeviceShared;

typedef struct CounterStripe
{
	pg_atomic_uint64 counter[FC_DEVICES][FC_DEVICE_COUNTERS];
	char		pad[PG_CACHE_LINE_SIZE];
} CounterStripe;

typedef struct MapShared
{
	uint32		shift;			/* of a chunk; never changes */
	uint32		slots;
	pg_atomic_uint32 place[FC_CHUNKS];
	pg_atomic_uint32 changes;	/* of states; no order needed */
	pg_atomic_uint32 suspects;	/* D9: a bit for each device; a late look
								 * costs one wait */
	pg_atomic_uint32 any_wrong; /* is wrong_in_a_row of any device not 0? */
	DeviceShared device[FC_DEVICES];
	FcDeviceList list;
	CounterStripe stripe[FC_STRIPES];
} MapShared;

static MapShared *map = NULL;

FcPart
fc_store_map_part(void)
{
	return fc_part("pg_flashcache devices", sizeof(MapShared));
}

void
fc_store_map_init(uint32 slots, uint32 first)
{
	FcPart		part = fc_store_map_part();
	bool		found;

	map = ShmemInitStruct(part.name, part.size, &found);
	memset(map, 0, part.size);
	map->shift = fc_chunk_shift(slots);
	map->slots = slots;
	for (uint32 i = 0; i < FC_CHUNKS; i++)
		pg_atomic_init_u32(&map->place[i], (uint64) i << map->shift < first ? i : NOWHERE);
	pg_atomic_init_u32(&map->changes, FC_START_32);
	pg_atomic_init_u32(&map->suspects, 0);
	pg_atomic_init_u32(&map->any_wrong, 0);
	fc_device_list = &map->list;
	for (int no = 0; no < FC_DEVICES; no++)
	{
		pg_atomic_init_u32(&map->device[no].state, no == FC_THE_DEVICE ? FC_DEVICE_ACTIVE : FC_DEVICE_NONE);
		pg_atomic_init_u64(&map->device[no].next_probe, 0);
		pg_atomic_init_u64(&map->device[no].written_before, 0);
		pg_atomic_init_u64(&map->device[no].passed_at, 0);
		pg_atomic_init_u64(&map->device[no].asked_at, 0);
		pg_atomic_init_u32(&map->device[no].wrong_in_a_row, 0);
		pg_atomic_init_u32(&map->device[no].doubtful, 0);
		SpinLockInit(&map->device[no].lock);
	}
	for (int i = 0; i < FC_STRIPES; i++)
		for (int no = 0; no < FC_DEVICES; no++)
			for (int j = 0; j < FC_DEVICE_COUNTERS; j++)
				pg_atomic_init_u64(&map->stripe[i].counter[no][j], 0);
}

/* ---- places ---- */

FcPlace
fc_place_of(FcSlotNo slot)
{
	uint32		word = pg_atomic_read_u32(&map->place[slot >> map->shift]);
	FcPlace		place = {FC_NO_DEVICE, 0};

	Assert(slot < map->slots);
	if (unlikely(word == NOWHERE))
		return place;
	place.no = word >> DEVICE_SHIFT;
	place.offset = fc_slot_offset(((word & INDEX_MASK) << map->shift) + (slot & ((UINT32_C(1) << map->shift) - 1)));
	return place;
}

FcDeviceNo
fc_store_device_of(FcSlotNo slot)
{
	return fc_place_of(slot).no;
}

int
fc_store_in_a_row(FcSlotNo first, int n)
{
	FcPlace		place = fc_place_of(first);
	int			i;

	Assert(n > 0);
	if (place.no == FC_NO_DEVICE)
		return 1;
	for (i = 1; i < n && first + i < map->slots; i++)
	{
		FcPlace		p = fc_place_of(first + i);

		if (p.no != place.no || p.offset != place.offset + (off_t) i * BLCKSZ)
			break;
	}
	return i;
}

void
fc_store_set_chunk(uint32 chunk, FcDeviceNo no, uint32 index)
{
	Assert(chunk < FC_CHUNKS && (no == FC_NO_DEVICE || no < FC_DEVICES) && index <= INDEX_MASK);
	/* the versions were raised before, and what is read there comes after */
	pg_memory_barrier();
	pg_atomic_write_u32(&map->place[chunk], no == FC_NO_DEVICE ? NOWHERE : ((uint32) no << DEVICE_SHIFT) | index);
	pg_memory_barrier();
}

FcDeviceNo
fc_store_chunk(uint32 chunk, uint32 *index)
{
	uint32		word = pg_atomic_read_u32(&map->place[chunk]);

	Assert(chunk < FC_CHUNKS);
	*index = word == NOWHERE ? 0 : word & INDEX_MASK;
	return word == NOWHERE ? FC_NO_DEVICE : word >> DEVICE_SHIFT;
}

/* ---- states ---- */

FcDeviceState
fc_store_state(FcDeviceNo no)
{
	if (map == NULL)
		return FC_DEVICE_NONE;
	return (FcDeviceState) pg_atomic_read_u32(&map->device[no].state);
}

const char *
fc_store_state_name(FcDeviceState state)
{
	switch (state)
	{
		case FC_DEVICE_NONE:
			break;
		case FC_DEVICE_CLOSED:
			return "starting";
		case FC_DEVICE_ACTIVE:
			return "active";
		case FC_DEVICE_DRAINING:
			return "draining";
		case FC_DEVICE_OFF:
			return "off";
		case FC_DEVICE_DISABLED:
			return "disabled";
	}
	return "unknown";
}

bool
fc_store_others(FcDeviceNo no)
{
	for (FcDeviceNo other = 0; other < FC_DEVICES; other++)
		if (other != no && fc_device_readable(other))
			return true;
	return false;
}

bool
fc_device_readable(FcDeviceNo no)
{
	FcDeviceState state = fc_store_state(no);

	return state == FC_DEVICE_ACTIVE || state == FC_DEVICE_DRAINING;
}

uint32
fc_device_changes(void)
{
	return pg_atomic_read_u32(&map->changes);
}

uint32
fc_device_suspects(void)
{
	return pg_atomic_read_u32(&map->suspects);
}

void
fc_device_suspect(uint32 devices)
{
	pg_atomic_fetch_or_u32(&map->suspects, devices);
}

void
fc_device_clear(uint32 devices)
{
	pg_atomic_fetch_and_u32(&map->suspects, ~devices);
}

void
fc_device_passed(FcDeviceNo no, uint64 begun)
{
	pg_atomic_write_u64(&map->device[no].passed_at, begun);
}

uint64
fc_device_passed_at(FcDeviceNo no)
{
	return pg_atomic_read_u64(&map->device[no].passed_at);
}

void
fc_device_asked(FcDeviceNo no, uint64 now)
{
	Assert(fc_in_writer());
	pg_atomic_write_u64(&map->device[no].asked_at, now);
}

uint64
fc_store_unanswered_ns(FcDeviceNo no)
{
	uint64		asked_at = pg_atomic_read_u64(&map->device[no].asked_at);
	uint64		now = fc_now_ns();

	return asked_at != 0 && asked_at < now ? now - asked_at : 0;
}

/* `opening`: only if it is readable, and that is its opening; 0 whatever it is. */
static void
change_state(FcDeviceNo no, FcDeviceState state, const FcReason *why, uint32 opening)
{
	static const FcReason none = {""};
	DeviceShared *device = &map->device[no];
	TimestampTz now = GetCurrentTimestamp();
	bool		changed;

	Assert(no < FC_DEVICES);
	SpinLockAcquire(&device->lock);
	changed = opening == 0 || (fc_device_readable(no) && opening == fc_state_opening(no));
	if (changed)
	{
		pg_atomic_write_u32(&device->state, state);
		device->why = why != NULL ? *why : none;
		device->warn = state == FC_DEVICE_OFF;
		device->since = now;
	}
	SpinLockRelease(&device->lock);
	if (changed)
		pg_atomic_fetch_add_u32(&map->changes, 1);
}

void
fc_store_set_state(FcDeviceNo no, FcDeviceState state, const FcReason *why)
{
	Assert(fc_in_writer());
	change_state(no, state, why, 0);
}

void
fc_device_trouble(FcDeviceNo no, uint32 opening, const FcReason *why)
{
	Assert(opening != 0);
	change_state(no, FC_DEVICE_OFF, why, opening);
}

TimestampTz
fc_store_reason(FcDeviceNo no, FcReason *why)
{
	DeviceShared *device = &map->device[no];
	TimestampTz since;

	SpinLockAcquire(&device->lock);
	*why = device->why;
	since = device->since;
	SpinLockRelease(&device->lock);
	return since;
}

void
fc_store_set_reason(FcDeviceNo no, const FcReason *why)
{
	DeviceShared *device = &map->device[no];

	SpinLockAcquire(&device->lock);
	device->why = *why;
	SpinLockRelease(&device->lock);
}

bool
fc_store_take_warning(FcDeviceNo no, FcReason *why)
{
	DeviceShared *device = &map->device[no];
	bool		warn;

	SpinLockAcquire(&device->lock);
	warn = device->warn;
	device->warn = false;
	*why = device->why;
	SpinLockRelease(&device->lock);
	return warn;
}

void
fc_store_set_next_probe(FcDeviceNo no, TimestampTz at)
{
	pg_atomic_write_u64(&map->device[no].next_probe, (uint64) at);
}

TimestampTz
fc_store_next_probe(FcDeviceNo no)
{
	return (TimestampTz) pg_atomic_read_u64(&map->device[no].next_probe);
}

slock_t *
fc_device_lock(FcDeviceNo no)
{
	return &map->device[no].lock;
}

uint32
fc_map_chunk(FcSlotNo slot)
{
	return slot >> map->shift;
}

void
fc_map_export(uint32 *slots, uint32 *place)
{
	*slots = map->slots;
	for (uint32 i = 0; i < FC_CHUNKS; i++)
		place[i] = pg_atomic_read_u32(&map->place[i]);
}

FcDeviceNo
fc_store_place_of_list(uint32 word, uint32 *index)
{
	*index = word == NOWHERE ? 0 : word & INDEX_MASK;
	return word == NOWHERE ? FC_NO_DEVICE : word >> DEVICE_SHIFT;
}

/* ---- pages with wrong content ---- */

bool
fc_store_wrong_page(FcSlotNo slot, uint32 enough)
{
	FcDeviceNo	no = fc_store_device_of(slot);
	FcReason	why;

	if (no == FC_NO_DEVICE)
		return false;
	pg_atomic_write_u32(&map->any_wrong, 1);
	if (pg_atomic_add_fetch_u32(&map->device[no].wrong_in_a_row, 1) < enough)
		return false;
	if (!fc_store_others(no))
		return true;
	fc_fail(&why, "The device is failing, or somebody else writes to it.",
			"\"%s\" returned wrong content for %u pages in a row", fc_store_path(no), enough);
	/* in this order: it is not used again before that was seen */
	pg_atomic_write_u32(&map->device[no].doubtful, 1);
	pg_memory_barrier();
	fc_device_trouble(no, fc_state_opening(no), &why);
	return false;
}

void
fc_store_good_page_slow(FcSlotNo slot)
{
	FcDeviceNo	no = fc_store_device_of(slot);
	bool		any = false;

	if (no != FC_NO_DEVICE && pg_atomic_read_u32(&map->device[no].wrong_in_a_row) != 0)
		pg_atomic_write_u32(&map->device[no].wrong_in_a_row, 0);
	for (no = 0; no < FC_DEVICES; no++)
		any |= pg_atomic_read_u32(&map->device[no].wrong_in_a_row) != 0;
	/* a wrong one that comes between is counted with the next */
	if (!any)
		pg_atomic_write_u32(&map->any_wrong, 0);
}

void
fc_store_forget_wrong(FcDeviceNo no)
{
	pg_atomic_write_u32(&map->device[no].wrong_in_a_row, 0);
	pg_atomic_write_u32(&map->device[no].doubtful, 0);
}

bool
fc_store_doubtful(FcDeviceNo no)
{
	return pg_atomic_read_u32(&map->device[no].doubtful) != 0;
}

bool
fc_store_any_wrong(void)
{
	return pg_atomic_read_u32(&map->any_wrong) != 0;
}

/* ---- counters ---- */

void
fc_device_count(FcDeviceNo no, FcDeviceCounter counter, uint64 n)
{
	Assert(no < FC_DEVICES && counter < FC_DEVICE_COUNTERS);
	if (unlikely(fc_stats_my_stripe < 0))
		fc_stats_choose_stripe();
	pg_atomic_fetch_add_u64(&map->stripe[fc_stats_my_stripe].counter[no][counter], n);
}

void
fc_device_forget_counters(FcDeviceNo no)
{
	for (int i = 0; i < FC_STRIPES; i++)
		for (int j = 0; j < FC_DEVICE_COUNTERS; j++)
			pg_atomic_write_u64(&map->stripe[i].counter[no][j], 0);
	pg_atomic_write_u64(&map->device[no].written_before, 0);
}

uint64
fc_store_counter(FcDeviceNo no, FcDeviceCounter counter)
{
	uint64		sum = 0;

	for (int i = 0; i < FC_STRIPES; i++)
		sum += pg_atomic_read_u64(&map->stripe[i].counter[no][counter]);
	return sum;
}

void
fc_store_begin_day(FcDeviceNo no)
{
	pg_atomic_write_u64(&map->device[no].written_before, fc_store_counter(no, FC_DEVICE_WRITES));
}

uint64
fc_store_written_today(FcDeviceNo no)
{
	uint64		pages = fc_store_counter(no, FC_DEVICE_WRITES);
	uint64		before = pg_atomic_read_u64(&map->device[no].written_before);

	return pages - Min(before, pages);
}
