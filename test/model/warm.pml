/*
 * The rules of src/warm.md, for spin: entries that survive an end of the server.  Rules bear the same numbers there, here and
 * in the code.
 *
 * What is modelled and what is left out, and why nothing is lost by that: README.md beside this file.
 *
 * Property: a hit returns D(p), and no hint in it is about a commit that this server does not know.  It is the assertion HIT.
 *
 * What takes part (-D):
 *	RELATION	the relation is made anew, with the same number: seen by its epoch alone
 *	HINTS		a commit, and a hint about it, which is not logged
 *	ROLLBACK	the data directory is set back to a copy of some moment, flash is not
 *	WITHOUT		runs without the library
 *	STANDBY		recovery ends when the server is consistent, without a checkpoint; it is then used, and goes on. The data
 *				directory says how far the log may go
 *	SWITCHES	a history that forks has a timeline of its own
 *	MINIMAL		changes that are synced instead of logged (wal_level = minimal)
 *
 * Rules that can be broken (-D BREAK_...) stand where they are broken; runs.txt says what comes of it.
 */

#ifndef LSNS
#define LSNS 2				/* records of the write-ahead log */
#endif
#ifndef VERSIONS
#define VERSIONS 2			/* changes of the page */
#endif

#define NOTHING 15			/* no page: in a slot, in a record */

mtype = { DOWN, RECOVERY, UP };			/* the server */
mtype = { ABSENT, CLEAN, DIRTY };		/* the page in the buffer pool */
mtype = { CHANGE, ANEW, COMMIT };		/* a record: of the page, of its relation, of a transaction */
mtype = { UNLINKED, LINKED, DEAD };		/* the entry */
/* A run, as it is named outside of flash: the one on flash; the former one there, while binding; any other one. */
mtype = { OTHER, PRESENT, FORMER };

/* ---- the data directory, which a copy of it has as well ---- */

typedef Directory
{
	byte page; bool hint;				/* D(p) */
	byte version[LSNS];					/* the write-ahead log */
	mtype kind[LSNS];
	byte flushed;
	byte redo;							/* pg_control: where recovery begins */
	bool clean;
	bit timeline;
	mtype identity;						/* K7 */
	byte far;							/* K14: W, in the file of the run of a standby */
	bool stamped;						/* is its checkpoint that of the stamp on flash? */
	bool stopped;						/* K10: the file, of its checkpoint, */
	mtype stop_identity;				/* and its run */
	bool stop_map
};

Directory d;
#ifdef ROLLBACK
Directory copy, zeros;
bool copied, set_back;
bool copy_checkpoint, copy_seen;		/* is its checkpoint that of the data directory, of K1? */
#endif

/* ---- flash: one slot, and the log ---- */

byte slot = NOTHING; bool slot_hint;
byte record = NOTHING; bool record_hint;
bool record_later;						/* of a later group than the stamp */
bit record_timeline;
bool map;								/* of the stamp */
bool stamped;							/* there is a stamp; of which checkpoint: d.stamped */
bit stamp_timeline;
byte w;									/* K6 */

/* ---- memory ---- */

mtype server = DOWN;
bool library;
byte end;								/* of the log, inserted */
byte replayed, recovered;
bool moved;								/* there was a checkpoint since */
bool seen_stamp, seen_stop, seen_clean;	/* K1; flash does not change before it is looked at */
mtype pool = ABSENT;
byte frame; bool frame_hint;
byte writing_out;						/* 1: md has written (C2), 2: I1 is done, or, broken, I2 */
mtype entry = UNLINKED;
byte entry_page; bool entry_hint;		/* of which its checksum was made */
bool touched, ended;					/* K3: the page; the epoch is not the first one */
bool loaded;							/* or given up */
byte binding;
bool logging, usable, leaving;
bool left_map;
bool fill, guard;
byte filled; bool filled_hint;
bool taken;								/* the slot, since the last group */
bool said;								/* K14: the data directory says how far the group goes */
byte checkpointing; bool must_write;
byte next_redo;
bool next_stamped;						/* the stamp is of the checkpoint under way */

byte versions = 1;

/* Is there a commit in the log of this server; also after a crash? */
#define COMMIT_IN(last) ((last > 0 && d.kind[0] == COMMIT) || (last > 1 && d.kind[1] == COMMIT) || (last > 2 && d.kind[LSNS - 1] == COMMIT))
#define COMMITTED COMMIT_IN(end)
#define COMMIT_FLUSHED COMMIT_IN(d.flushed)

#ifdef ROLLBACK
inline copy_directory(to, from)
{
	to.page = from.page; to.hint = from.hint;
	to.version[0] = from.version[0]; to.kind[0] = from.kind[0];
	to.version[1] = from.version[1]; to.kind[1] = from.kind[1];
#if LSNS > 2
	to.version[2] = from.version[2]; to.kind[2] = from.kind[2];
#endif
	to.flushed = from.flushed;
	to.redo = from.redo; to.clean = from.clean; to.stamped = from.stamped;
	to.timeline = from.timeline;
	to.identity = from.identity; to.far = from.far;
	to.stopped = from.stopped; to.stop_identity = from.stop_identity; to.stop_map = from.stop_map
}
#endif

inline log_record(what, v)
{
	d.kind[end] = what;
	d.version[end] = v;
	end++
}

inline forget_memory()
{
	server = DOWN;
	library = false;
	if
	:: d.flushed < 1 -> d.version[0] = 0; d.kind[0] = 0
	:: else
	fi;
	if
	:: d.flushed < 2 -> d.version[1] = 0; d.kind[1] = 0
	:: else
	fi;
#if LSNS > 2
	if
	:: d.flushed < 3 -> d.version[2] = 0; d.kind[2] = 0
	:: else
	fi;
#endif
	end = 0; replayed = 0; recovered = 0; seen_stamp = false; seen_stop = false; seen_clean = false; moved = false;
	pool = ABSENT; frame = 0; frame_hint = false; writing_out = 0;
	entry = UNLINKED; entry_page = 0; entry_hint = false;
	touched = false; ended = false;
	loaded = false; binding = 0; logging = false; usable = false; leaving = false; left_map = false;
	fill = false; guard = false; filled = 0; filled_hint = false; taken = false; said = false;
	checkpointing = 0; must_write = false; next_redo = 0;
	next_stamped = false
#ifdef ROLLBACK
	; copy_seen = false
#endif
}

inline unlink()
{
	entry = UNLINKED; entry_page = 0; entry_hint = false
}

/* What the log does not hold any more: flash and memory agree. */
inline forget_log()
{
	record = NOTHING; record_hint = false; record_later = false; record_timeline = 0;
	map = false; stamped = false; d.stamped = false; stamp_timeline = 0; w = 0
}

inline forget_stop()
{
	d.stopped = false; d.stop_map = false; d.stop_identity = OTHER
}

/* Another run is PRESENT on flash; who was that, is now `former`, and who was former, is nobody. */
inline rename(who, former)
{
	if
	:: who == PRESENT -> who = former
	:: who == FORMER -> who = OTHER
	:: else
	fi
}

inline bind(former)
{
	rename(d.identity, former);
	rename(d.stop_identity, former);
#ifdef ROLLBACK
	rename(copy.identity, former);
	rename(copy.stop_identity, former)
#endif
}

inline no_former(who)
{
	who = (who == FORMER -> OTHER : who)
}

inline bound()
{
	no_former(d.identity);
	no_former(d.stop_identity);
#ifdef ROLLBACK
	no_former(copy.identity);
	no_former(copy.stop_identity)
#endif
}

/* The stamp becomes that of the clean stop: of the checkpoint that was seen at start. */
inline stamp_of_stop()
{
	d.stamped = !moved;
#ifdef ROLLBACK
	copy.stamped = copy_seen
#endif
}

#define MARK touched = touched || (library && !loaded)

/* ---- which log is accepted ---- */

#ifdef BREAK_K7
#define SAME_RUN true
#else
#define SAME_RUN (d.identity != OTHER)
#endif
#define BY_STOP seen_stop
#define BY_STAMP (!seen_stop && seen_stamp)
#ifdef BREAK_TIMELINE
#define SAME_TIMELINE true
#else
#define SAME_TIMELINE (stamp_timeline == d.timeline && (record == NOTHING || !record_later || record_timeline == d.timeline))
#endif
#if defined(BREAK_K6)
#define FAR_ENOUGH true
#elif defined(BREAK_K6_LATE)
#define FAR_ENOUGH (w <= end)
#else
#define FAR_ENOUGH (w <= recovered)
#endif
#if !defined(STANDBY) || defined(BREAK_K14)
#define SAID true
#else
#define SAID (w <= d.far)
#endif
#if defined(MINIMAL) && !defined(BREAK_K8)
#define LOGGED seen_clean
#else
#define LOGGED true
#endif
#define ACCEPTED (SAME_RUN && (BY_STAMP || (BY_STOP && !record_later)) && SAME_TIMELINE && FAR_ENOUGH && SAID && LOGGED)

#if defined(BREAK_K5_MAP)
#define COUNTS true
#else
#define COUNTS (BY_STOP -> d.stop_map : (map || record_later))
#endif
#if defined(BREAK_K3_EPOCH)
#define NOT_TOUCHED !touched
#else
#define NOT_TOUCHED (!touched && !ended)
#endif

/* K2: from when on may a page be read from flash, and the log loaded? */
#ifdef BREAK_K2
#define MAY_LOAD (server != DOWN && replayed < end || server == UP)
#else
#define MAY_LOAD (server == UP)
#endif

/* K14: with the run, the data directory says how far its log goes. */
#ifdef STANDBY
#define SAY_W d.far = w;
#else
#define SAY_W
#endif

#ifdef BREAK_K5_SWEEP
#define SWEPT true
#else
#define SWEPT (entry != DEAD)
#endif

inline read_page()
{
	/* R1 to R3 */
	if
	:: library && usable && entry == LINKED && slot == entry_page && slot_hint == entry_hint ->
		frame = entry_page;
		frame_hint = entry_hint;
		assert(frame == d.page && (!frame_hint || COMMITTED))	/* HIT */
	:: else ->
		frame = d.page;
		frame_hint = d.hint;
		if
		:: server == RECOVERY ->
#ifndef BREAK_K3_READ
			MARK						/* K3 */
#else
			skip
#endif
		:: else
		fi
	fi;
	pool = CLEAN
}

init
{
	d_step
	{
		d.identity = OTHER; d.stop_identity = OTHER
#ifdef ROLLBACK
		; zeros.identity = OTHER; zeros.stop_identity = OTHER; copy.identity = OTHER; copy.stop_identity = OTHER
#endif
	}
	do
	/* ---- start and recovery ---- */
	:: d_step
		{
			server == DOWN ->
			server = RECOVERY;
			library = true;
			seen_stamp = d.stamped;		/* K1 */
#ifdef ROLLBACK
			copy_seen = copy_checkpoint;
#endif
			seen_stop = d.stopped && d.stop_identity == PRESENT;
#ifdef MINIMAL
			seen_clean = d.clean;
#endif
			replayed = d.redo;
			end = d.flushed
		}
#ifdef WITHOUT
	:: d_step
		{
#ifdef ROLLBACK
			server == DOWN && set_back ->
#else
			server == DOWN ->
#endif
			server = RECOVERY;
			replayed = d.redo;
			end = d.flushed
		}
#endif

	:: d_step
		{
			server == RECOVERY && replayed < end && d.kind[replayed] == CHANGE && pool == ABSENT && writing_out == 0 ->
			read_page()
		}
	:: d_step
		{
			/* redo; what is on disk already may be later */
			server == RECOVERY && replayed < end && d.kind[replayed] == CHANGE && pool != ABSENT && writing_out == 0 ->
			if
			:: frame < d.version[replayed] -> frame = d.version[replayed]; frame_hint = false; pool = DIRTY
			:: else
			fi;
			replayed++
		}
	:: d_step
		{
			/* the record has the whole page: nothing is read, and the frame is dirty */
			server == RECOVERY && replayed < end && d.kind[replayed] == CHANGE && pool == ABSENT && writing_out == 0 ->
			frame = d.version[replayed]; frame_hint = false;
			pool = DIRTY;
			replayed++
		}
	:: d_step
		{
			server == RECOVERY && replayed < end && d.kind[replayed] == ANEW && writing_out == 0 ->
			d.page = d.version[replayed]; d.hint = false;
			pool = ABSENT; frame = 0; frame_hint = false;
			ended = ended || library;
			replayed++
		}
	:: d_step { server == RECOVERY && replayed < end && d.kind[replayed] == COMMIT -> replayed++ }
	:: d_step
		{
#ifdef STANDBY
			server == RECOVERY && replayed == end ->
#else
			/* after a crash with a checkpoint, before anything else is logged */
			server == RECOVERY && replayed == end && (d.clean || (pool != DIRTY && writing_out == 0)) ->
			if
			:: !d.clean ->
				d.redo = end;
				d.stamped = false;
#ifdef ROLLBACK
				copy_checkpoint = false;
#endif
				moved = library;
				forget_stop()
			:: else
			fi;
#endif
			server = UP;
			recovered = end;
			d.clean = false;
			replayed = 0
		}

	/* ---- work ---- */
	:: d_step { server != DOWN && pool == ABSENT && writing_out == 0 && (server == UP || !library || usable) -> read_page() }
	:: d_step { pool == CLEAN && writing_out == 0 -> pool = ABSENT; frame = 0; frame_hint = false }
	:: d_step
		{
			server == UP && pool != ABSENT && writing_out == 0 && end < LSNS && versions <= VERSIONS && !leaving ->
			log_record(CHANGE, versions);
			frame = versions; frame_hint = false;
			versions++;
			pool = DIRTY
		}
#ifdef RELATION
	:: d_step
		{
			/* what md does is not undone by a crash, so the record is flushed first */
			server == UP && writing_out == 0 && end < LSNS && versions <= VERSIONS && !leaving ->
			log_record(ANEW, versions);
			d.flushed = end;
			d.page = versions; d.hint = false;
			versions++;
			pool = ABSENT; frame = 0; frame_hint = false; must_write = false;
			guard = false;
			ended = ended || library;
			entry = (entry == LINKED -> DEAD : entry)
		}
	:: d_step { entry == DEAD -> unlink() }		/* a sweep */
#endif
#if defined(HINTS) || defined(ROLLBACK)
	/* about anything but the page */
	:: d_step { server == UP && end < LSNS && !COMMITTED && !leaving -> log_record(COMMIT, 0) }
#endif
#ifdef HINTS
	:: d_step { server == UP && pool != ABSENT && writing_out == 0 && COMMIT_FLUSHED && !frame_hint -> frame_hint = true; pool = DIRTY }
#endif
#ifdef MINIMAL
	:: d_step
		{
			/* synced at the commit, and not logged */
			server == UP && pool != ABSENT && writing_out == 0 && versions <= VERSIONS && !leaving ->
			frame = versions; frame_hint = false;
			versions++;
			pool = DIRTY
		}
#endif
	:: d_step { d.flushed < end -> d.flushed = end }

	/* ---- the page is written: C2, I1, I2 ---- */
	:: d_step { pool == DIRTY && writing_out == 0 && server != DOWN -> d.flushed = end; d.page = frame; d.hint = frame_hint; writing_out = 1 }
#ifdef BREAK_C3
	:: d_step { writing_out == 1 -> writing_out = 0; pool = CLEAN; must_write = false }
#elif defined(BREAK_K3_ORDER)
	:: d_step { writing_out == 1 -> guard = false; unlink(); writing_out = 2 }
	:: d_step { writing_out == 2 -> MARK; writing_out = 0; pool = CLEAN; must_write = false }
#else
	:: d_step { writing_out == 1 -> MARK; guard = false; writing_out = 2 }				/* K3, I1 */
	:: d_step { writing_out == 2 -> unlink(); writing_out = 0; pool = CLEAN; must_write = false }	/* I2 */
#endif

	/* ---- a fill; or another page takes the slot ---- */
	:: d_step { usable && !leaving && !fill && !said && entry != LINKED && pool == CLEAN && writing_out == 0 -> filled = frame; filled_hint = frame_hint; guard = true; fill = true }
	:: d_step
		{
			fill ->
			slot = filled; slot_hint = filled_hint;
			taken = true;
			if
			:: guard && entry != LINKED -> entry = LINKED; entry_page = filled; entry_hint = filled_hint
			:: else -> unlink()
			fi;
			fill = false; guard = false; filled = 0; filled_hint = false
		}
	:: d_step { usable && !leaving && !fill && !said -> unlink(); slot = NOTHING; slot_hint = false; taken = true }

	/* ---- K4, K6, K14: a group ---- */
#ifdef STANDBY
	:: d_step { logging && taken && !fill && !said -> d.flushed = end; d.far = end; said = true }
#endif
	:: d_step
		{
#ifdef STANDBY
			said ->
			said = false;
#else
			logging && taken && !fill ->
			d.flushed = end;
#endif
#if defined(STANDBY)
			w = d.far;
#elif defined(BREAK_K6_LSN)
			w = (entry == LINKED && w < entry_page -> entry_page : w);	/* the page's own LSN */
#else
			w = end;
#endif
			record = (entry == LINKED -> entry_page : NOTHING);
			record_hint = (entry == LINKED -> entry_hint : false);
			record_later = true;
			record_timeline = d.timeline;
			taken = false
		}

	/* ---- a checkpoint ---- */
	:: d_step
		{
			server == UP && checkpointing == 0 && !leaving && d.redo < end ->
			next_redo = end;
			must_write = (pool == DIRTY || writing_out != 0);
			checkpointing = 1
		}
	:: d_step
		{
			checkpointing == 1 && !must_write ->
			d.flushed = end;
			d.redo = next_redo;
			d.stamped = next_stamped;
			next_stamped = false;
#ifdef ROLLBACK
			copy_checkpoint = false;
#endif
			moved = (library && !loaded);
			d.clean = false;
			forget_stop();				/* it is of another checkpoint */
			next_redo = 0;
			checkpointing = 0
		}

	/* ---- K5: its stamp ---- */
	:: d_step
		{
#ifdef BREAK_K5_SHOWN
			logging && !taken && !fill && !leaving && checkpointing == 1 && !next_stamped && SWEPT ->
			next_stamped = true;
			d.stamped = false;
#else
			logging && !taken && !fill && !leaving && !d.stamped && SWEPT ->
			d.stamped = true;
#endif
			stamped = true;
#ifdef ROLLBACK
			copy.stamped = copy_checkpoint;
#endif
			map = (entry != UNLINKED);
			stamp_timeline = d.timeline;
			record_later = false
		}

	/* ---- K11: the log is loaded, or given up ---- */
	:: d_step
		{
			MAY_LOAD && library && !loaded ->
			if
			:: ACCEPTED ->
				if
				:: record != NOTHING && COUNTS && NOT_TOUCHED && entry == UNLINKED ->
					entry = LINKED; entry_page = record; entry_hint = record_hint
				:: else
				fi;
				if
				:: BY_STOP -> stamped = true; stamp_of_stop(); stamp_timeline = d.timeline
				:: else
				fi;
				map = (entry == LINKED);
				record_later = false;
				bind(FORMER)
			:: else -> forget_log(); bind(OTHER)
			fi;
			/* K7: flash says both */
			binding = 1;
#if defined(BREAK_K2) || defined(BREAK_K7_ORDER)
			usable = true;
#endif
#ifdef BREAK_K7_ORDER
			logging = true;
#endif
			seen_stamp = false; seen_stop = false; seen_clean = false; moved = false; recovered = 0;
			loaded = true
		}

	/* ---- K7: binding, then it is usable ---- */
	:: d_step { server == UP && binding == 1 -> d.identity = PRESENT; SAY_W forget_stop(); binding = 2 }
	:: d_step { binding == 2 -> bound(); logging = true; usable = true; binding = 3 }

	/* ---- clean stop: the writer leaves; the last checkpoint; K10 ---- */
	:: d_step
		{
			server == UP && !leaving && checkpointing == 0 && !fill && !taken ->
			leaving = true
#ifdef BREAK_K10
			; left_map = (entry == LINKED)
#endif
		}
	:: d_step
		{
			leaving && pool != DIRTY && writing_out == 0 && checkpointing == 0 ->
			d.flushed = end;
			d.redo = end;
			d.clean = true;
			d.stamped = false;
			forget_stop();
#ifdef ROLLBACK
			copy_checkpoint = false;
#endif
			if
			:: logging && binding == 3 ->
				d.stopped = true;
				d.stop_identity = PRESENT;
#ifdef BREAK_K10
				d.stop_map = left_map
#else
				d.stop_map = (entry == LINKED)
#endif
				;
				record_later = false
			:: else
			fi;
			forget_memory()
		}

	/* ---- kill -9, at any moment ---- */
	:: d_step { server != DOWN -> forget_memory() }

#ifdef ROLLBACK
	/* where nothing could be logged any more there would be no other history */
	:: d_step { !copied && end < LSNS && d.flushed < LSNS && versions <= VERSIONS -> copy_directory(copy, d); copied = true; copy_checkpoint = true; copy_seen = !moved }
	:: d_step
		{
			copied && !set_back && server == DOWN ->
			copy_directory(d, copy);
#ifdef SWITCHES
			d.timeline = 1;
#endif
			copy_directory(copy, zeros);
			copy_checkpoint = false; copy_seen = false;
			set_back = true
		}
#endif
	od
}
