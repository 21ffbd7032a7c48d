/*-------------------------------------------------------------------------
 *
 * follow/follow.h
 *	  A standby pulls its primary's map of what is on flash, again and again,
 *	  and loads what it names from its own data files to its own flash.
 *
 * One background worker, the follower, only in recovery, and only with
 * pg_flashcache.follow.  It never connects itself: libpq waits for name
 * servers, Kerberos and files as long as these take, and a background worker
 * cannot be killed without a restart of the server.  So a process that is none
 * of the server's (child.h) has the connection, and the follower ends it
 * whenever it likes: no stop and no promotion waits for another machine.
 *
 * What the other server says is taken for hints; a row that cannot be of a map
 * ends the round.  Loading is that of a map that was imported (prewarm.h), by
 * one background worker for each database in turn, the loader.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_FOLLOW_H
#define FC_FOLLOW_H

#include "types.h"

#include "datatype/timestamp.h"
#include "map/map.h"

typedef enum FcFollowState
{
	FC_FOLLOW_OFF,				/* there is no follower */
	FC_FOLLOW_PULLING,
	FC_FOLLOW_LOADING,
	FC_FOLLOW_WAITING,			/* for the next round */
	FC_FOLLOW_FAILED,			/* as well: this round has failed */
} FcFollowState;

/* Why there is no follower, or why a round has failed. */
typedef enum FcFollowWhy
{
	FC_WHY_NONE,
	FC_WHY_STOP,				/* it is to end, and says nothing */
	FC_WHY_SETTING,
	FC_WHY_NO_CACHE,
	FC_WHY_NOT_STANDBY,
	FC_WHY_NO_FOLLOWER,
	FC_WHY_NOT_ACTIVE,
	FC_WHY_NO_LIBPQ,
	FC_WHY_NO_PROCESS,
	FC_WHY_NO_PRIMARY,
	FC_WHY_BAD_CONNINFO,
	FC_WHY_NO_ANSWER,
	FC_WHY_NOT_READY,
	FC_WHY_REFUSED,
	FC_WHY_TOO_SLOW,
	FC_WHY_LOST,
	FC_WHY_ITSELF,
	FC_WHY_OTHER_CLUSTER,
	FC_WHY_NO_EXTENSION,
	FC_WHY_UNTRUSTED,
	FC_WHY_NO_RIGHT,
	FC_WHY_QUERY,
	FC_WHY_BAD_MAP,
	FC_WHY_TOO_LARGE,
	FC_WHY_NO_SPACE,
	FC_WHY_NO_LOADER,
	FC_WHY_ERROR,
	FC_WHY_COUNT
} FcFollowWhy;

/* Of the last map: pages that were missing and are not here after it was loaded. */
typedef struct FcFollowMissing
{
	uint64		locked;			/* somebody has locked the relation */
	uint64		no_room;		/* no slot that is free, or not in use */
	uint64		database;		/* the database has not let the loader in */
	uint64		gone;			/* no relation here has that file, or it is
								 * shorter */
	uint64		unreadable;		/* damaged, or not to be read or written */
} FcFollowMissing;

typedef struct FcFollowInfo
{
	FcFollowState state;
	FcFollowWhy why;
	char		sqlstate[6];	/* of FC_WHY_QUERY */
	int			pid;
	bool		known;			/* a map has been pulled; what follows is of
								 * that */
	TimestampTz pulled_at;
	uint64		pulled_ns;		/* fc_now_ns(); 0 if !known */
	uint64		pause_ns;		/* between two rounds */
	FcMapCompared pages;		/* when they were compared */
	uint32		used;			/* pages that flash could answer then */
	FcFollowMissing missing;
	uint64		rounds;			/* since the start of the server */
	uint64		loaded;			/* pages, as well */
} FcFollowInfo;

extern FcPart fc_follow_part(void);
extern void fc_follow_shmem_init(void);

/* Also where there is no cache, and no follower. */
extern void fc_follow_info(FcFollowInfo *info);

extern const char *fc_follow_state_name(FcFollowState state);

/* NULL for FC_WHY_NONE.  In plain ASCII, and nothing of it is from another server or from libpq. */
extern const char *fc_follow_why(const FcFollowInfo *info);

/* How old the map is, in ns; and whether that is too old to rely on. */
extern uint64 fc_follow_age(const FcFollowInfo *info, bool *too_old);

/* Once in a round of the writer: has a follower started if there is to be one. */
extern void fc_follow_tend(void);

/* Bodies of the background workers. */
extern void fc_follow_run(void);
extern void fc_follow_load(Oid database);

#endif							/* FC_FOLLOW_H */
