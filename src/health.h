/*-------------------------------------------------------------------------
 *
 * health.h
 *	  What the drives below the devices have said about themselves.
 *
 * The server does not ask them: that takes rights that it must not have.
 * `pgflash drives` asks, by smartctl, and hands over what it was told; it is kept
 * here until the server ends, and shown with its age.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_HEALTH_H
#define FC_HEALTH_H

#include "types.h"

#include "datatype/timestamp.h"
#include "policy_health.h"
#include "store/store.h"

#define FC_DRIVE_NAME 64

/* Each is FC_UNKNOWN where the drive does not say. */
typedef enum FcHealthValue
{
	FC_HEALTH_PASSED,			/* its own assessment: 1 or 0 */
	FC_HEALTH_USED,				/* percent of its rated life; may be over 100 */
	FC_HEALTH_SPARE,			/* percent */
	FC_HEALTH_SPARE_THRESHOLD,
	FC_HEALTH_MEDIA_ERRORS,
	FC_HEALTH_TEMPERATURE,		/* degrees Celsius */
	FC_HEALTH_WRITTEN,			/* bytes, in its life */
	FC_HEALTH_RATED,			/* bytes a day that it is made for */
	FC_HEALTH_VALUES
} FcHealthValue;

typedef struct FcHealth
{
	TimestampTz reported;		/* 0: never */
	char		drive[FC_DRIVE_NAME];
	char		model[FC_DRIVE_NAME];
	int64		value[FC_HEALTH_VALUES];
	FcWritten	days[FC_WRITTEN_DAYS];
} FcHealth;

extern FcPart fc_health_part(void);
extern void fc_health_shmem_init(void);

/*
 * A report on the device that has that path now.  FC_HEALTH_RATED is what people
 * say, not the drive: where it is unknown, that of the last report stays.
 */
extern void fc_health_report(FcDeviceNo no, const char *path, const char *drive, const char *model, const int64 *values);

/* False if there is none on the device of that path. */
extern bool fc_health_of(FcDeviceNo no, const char *path, FcHealth *health);

/* Once a round of the writer: notes what was written when a day begins (UTC). */
extern void fc_health_note_day(void);

/* Bytes that the cache has written to the device on this day, or since the server was started. */
extern uint64 fc_health_cache_written_today(FcDeviceNo no);

#endif							/* FC_HEALTH_H */
