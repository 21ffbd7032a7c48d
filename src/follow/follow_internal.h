/*-------------------------------------------------------------------------
 *
 * follow/follow_internal.h
 *	  What the files of this room share.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_FOLLOW_INTERNAL_H
#define FC_FOLLOW_INTERNAL_H

#include "follow/follow.h"

#define FC_FOLLOW_DATABASES 1024

/* ---- follow_shared.c: what the view shows ---- */

/* Is there no other follower?  This process is it until it ends. */
extern bool fc_follow_claim(void);

extern void fc_follow_set_state(FcFollowState state, FcFollowWhy why, const char *sqlstate);
extern void fc_follow_set_pulled(const FcMapCompared *pages, uint64 pause_ns);
extern void fc_follow_set_pages(const FcMapCompared *pages);
extern void fc_follow_set_missing(const FcFollowMissing *missing);

/* Is there to be a follower in this server, at this moment? */
extern FcFollowWhy fc_follow_wanted(void);

/* What a loader has done, told by itself. */
typedef struct FcFollowLoaded
{
	bool		began;			/* the database has let it in */
	uint64		loaded;
	FcFollowMissing missing;
} FcFollowLoaded;

extern void fc_follow_set_loaded(const FcFollowLoaded *loaded);
extern void fc_follow_get_loaded(FcFollowLoaded *loaded);

/* ---- follow_map.c: the map, in a temporary file ---- */

/* Rows of one database lie together. */
typedef struct FcFollowPart
{
	Oid			db;
	uint64		from;			/* offset in the file */
	uint64		to;
	uint64		missing;		/* pages that are not here */
} FcFollowPart;

typedef struct FcFollowMap
{
	int			fd;
	uint64		bytes;
	int			nparts;
	FcFollowPart part[FC_FOLLOW_DATABASES];
} FcFollowMap;

/* Where it lies; `pid`: of the follower.  At start and at the end of the follower the file goes. */
extern const char *fc_follow_path(int pid);

/* An empty one; the former is no more. */
extern bool fc_follow_map_create(FcFollowMap *map);
extern void fc_follow_map_remove(FcFollowMap *map);

/* Adds a row; what is wrong with it, or FC_WHY_NONE.  Rows come in the order of databases. */
extern FcFollowWhy fc_follow_map_add(FcFollowMap *map, const FcMapRow *row);
extern FcFollowWhy fc_follow_map_finish(FcFollowMap *map);

/*
 * How much of it is here, on flash or in shared buffers; sets `missing` of each
 * part.  Pages that are hot there and were not hit here are marked as if they
 * had been hit once, so that nothing that is loaded takes their slots.
 */
extern FcFollowWhy fc_follow_map_compare(FcFollowMap *map, FcMapCompared *pages);

/* Compares the map again, for the view, and for what is not to go. */
extern FcFollowWhy fc_follow_look_again(FcFollowMap *map);

/* Reads the rows from `from` to `to`. */
typedef struct FcFollowReader
{
	int			fd;
	uint64		at;
	uint64		to;
	int			have;
	int			next;
	char		buffer[64 * 1024];
} FcFollowReader;

extern void fc_follow_read_begin(FcFollowReader *reader, int fd, uint64 from, uint64 to);
extern bool fc_follow_read(FcFollowReader *reader, FcMapRow *row);

/* ---- follow_pull.c, follow_client.c: from the other server ---- */

/*
 * Pulls the map.  Looks after signals, settings and promotion meanwhile:
 * FC_WHY_STOP if the follower is to end.
 */
extern FcFollowWhy fc_follow_pull(FcFollowMap *map, char *sqlstate);

/* Ends the process that has the connection, if there is one. */
extern void fc_follow_abandon(void);

/* Is libpq there?  Finds its functions; raises nothing. */
extern bool fc_follow_client_load(void);

/* This server, as it is to recognize itself. */
typedef struct FcFollowSelf
{
	uint64		system;
	TimestampTz started;
	int			port;
} FcFollowSelf;

/* Messages from there, through a pipe: a header, and for a row what is used of an FcMapRow. */
typedef enum FcFollowTell
{
	FC_TELL_CONNECTED,
	FC_TELL_ROW,
	FC_TELL_DONE,
	FC_TELL_FAILED,				/* .why, .sqlstate */
} FcFollowTell;

typedef struct FcFollowMessage
{
	FcFollowTell what;
	FcFollowWhy why;
	int			bytes;			/* that follow */
	char		sqlstate[6];
} FcFollowMessage;

/* The body of that process: connects, asks, tells, ends.  `fd` is the pipe. */
extern void fc_follow_client(const char *primary, const char *follow, const FcFollowSelf *self, int fd) __attribute__((noreturn));

/* ---- follow_wait.c ---- */

/* Has the follower something else to do than waiting? FC_WHY_STOP: it is to end. */
extern FcFollowWhy fc_follow_look(void);

/* Waits until something happens: on that descriptor, if >= 0, or for so long. */
extern void fc_follow_wait(int fd, uint64 ns);

/* ---- follow_load.c ---- */

/* Has all that is missing loaded, database by database. */
extern FcFollowWhy fc_follow_load_all(FcFollowMap *map, FcFollowMissing *missing);

#endif							/* FC_FOLLOW_INTERNAL_H */
