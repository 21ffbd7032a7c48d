/*
 * The protocol of src/protocol.md, for spin.  Steps bear the same numbers there, here and in the code.
 *
 * What is modelled and what is left out, and why nothing is lost by that: README.md beside this file.
 *
 * Property: a hit returns D(p).  It is the assertion HIT in the process Page.  In addition, no page of an unlogged relation is
 * on flash (PERMANENT), and filling by extents pushes out nobody (FREE_ONLY).
 *
 * Sizes and what takes part (-D):
 *	PAGES		1: page P in full, Q is any other page, of which we only know that it is filled; 2: both in full
 *	SLOTS		1 or 2
 *	CELLS		places in the hand-off queue, 1 or 2
 *	NO_QUEUE	nothing is handed off
 *	NO_POOL		nothing is filled from the pool
 *	FILES		truncate, drop, re-create, extend
 *	SWITCH		the device is given up and comes back, perhaps as another one
 *	AHEAD		reading ahead
 *	LOAD		a session reads P from the data file, for the cache
 *	EXTENTS		the writer does, since somebody has read a page beside P
 *	UNLOGGED	the relation may be made anew as an unlogged one
 *	DEVICES		slot 1 lies on a second device, which comes, goes, and fails
 *	CHECKSUM	R3 compares the checksum
 *	LIES		the device loses what was written, at any time
 *
 * Rules that can be broken (-D BREAK_...) stand where they are broken; runs.txt says what comes of it.
 */

#ifdef EXTENTS
#define LOAD
#endif
#if defined(BREAK_LOAD_OPEN) || defined(BREAK_X_KEPT)
#define DESCRIPTOR
#endif
#ifndef PAGES
#define PAGES 1
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef CELLS
#define CELLS 1
#endif

#define P 0
#define Q 1
#define NONE 2				/* no page, or no slot */

/* Contents: of p before and after some change, rubbish, and no page at all. */
#define CONTENT(p, newer) (2 * (p) + (newer))
#define RUBBISH 4
#define NO_PAGE 5

mtype = { ABSENT, READING, CLEAN, DIRTY, WRITING };	/* a page in the buffer pool; READING, WRITING: its I/O flag */
mtype = { FREE, RESERVED, USED, RETIRED };			/* a slot */
mtype = { ACTIVE, OFF };							/* the cache */

/* PostgreSQL and the disk. */
byte D[2] = { 0, 2 };					/* CONTENT(p, 0) */
mtype pool[2] = { ABSENT, ABSENT };
byte frame[2] = { RUBBISH, RUBBISH };	/* what the buffer holds */
bool newer[2];							/* has the change happened that the property is about? */
bool exclusive;							/* somebody holds the relation's lock, or the database is closed */

/* The directory, and the device. */
mtype cache = ACTIVE;
mtype slot[SLOTS] = FREE;
bit tag[SLOTS];							/* of the entry */
bool current[SLOTS];					/* the entry's epoch is that of its relation and database */
byte device[SLOTS] = RUBBISH;
#ifdef CHECKSUM
byte sum[SLOTS] = RUBBISH;				/* what the entry's checksum was made of */
#endif

/* The writer's fill. */
byte w_page = NONE;
bool w_generation, w_epoch;				/* the guard: is it still that of F1? */
byte w_copy = RUBBISH;
byte w_locks = NONE;					/* whose partition the writer holds */
bool w_now;								/* F6: is the epoch that it read still the present one? */

/* The hand-off queue. */
byte h_page[CELLS] = NONE;
bool h_generation[CELLS], h_epoch[CELLS];
byte h_copy[CELLS] = RUBBISH;

/* P, on its way from a session that has read it from the data file. */
#ifdef LOAD
byte l_page = NONE;
bool l_generation, l_epoch;				/* the guard: is it still that of L2? */
byte l_copy = RUBBISH;
bool l_ready;							/* given to the writer */
#ifdef DESCRIPTOR
bool l_open, l_there;					/* its descriptor: is there one, and is it that of the present file? */
byte l_gone = NO_PAGE;					/* else what the file had when it was removed */
#endif
#endif

/* A hint that a page beside P was read. */
#ifdef EXTENTS
bool x_hint;
bool x_epoch;							/* X1: is the epoch still that of the read? */
bool w_extent;							/* the writer's fill is of that kind */
#endif
#ifdef UNLOGGED
bool unlogged;							/* P's relation */
#else
#define unlogged false
#endif

/* The second device. */
#ifdef DEVICES
bool lies;								/* the chunk of slot 1 lies on it; the chunk's word */
bool in_use;							/* it may be read */
#define READABLE(s) ((s) == 0 || in_use)
#define TAKEABLE(s) ((s) == 0 || (lies && in_use))
#else
#define READABLE(s) true
#define TAKEABLE(s) true
#endif

/* The read that has the page's I/O: what R1 found. */
byte r_slot[2] = { NONE, NONE };
bool r_version[2];						/* is the slot's version still that of R1? */
#ifdef CHECKSUM
byte r_sum[2] = { RUBBISH, RUBBISH };
#endif

/* A place for P in the memory of some process: read ahead. */
#ifdef AHEAD
byte a_slot = NONE;
bool a_version;							/* is the slot's version still that of A1? */
byte a_copy = RUBBISH;
bool a_done;
bool r_ahead;							/* R1 found slot and version of the place */
#endif

#define ENTRY(s, p) (slot[s] == USED && tag[s] == (p))
#if SLOTS == 1
#define ANY_ENTRY(p) ENTRY(0, p)
#define CURRENT_ENTRY(p) (ENTRY(0, p) && current[0])
#define FIND(p, s) s = 0
#else
#define ANY_ENTRY(p) (ENTRY(0, p) || ENTRY(1, p))
#define CURRENT_ENTRY(p) ((ENTRY(0, p) && current[0]) || (ENTRY(1, p) && current[1] && READABLE(1)))
#define FIND(p, s) s = (ENTRY(0, p) && current[0] -> 0 : 1)
#endif

#ifdef BREAK_R1_EPOCH
#define FOUND(p) ANY_ENTRY(p)
#undef FIND
#define FIND(p, s) s = (ENTRY(0, p) -> 0 : SLOTS - 1)
#else
#define FOUND(p) CURRENT_ENTRY(p)
#endif

/* R3: is what was read the page that was looked up? */
#ifdef BREAK_R3_VERSION
#define SAME_VERSION(p) true
#else
#define SAME_VERSION(p) r_version[p]
#endif
#ifdef CHECKSUM
#define GOOD(p) (SAME_VERSION(p) && frame[p] == r_sum[p])
#else
#define GOOD(p) SAME_VERSION(p)
#endif

/* ---- the directory; each of these is one step of somebody ---- */

inline set_slot(s, state)
{
	slot[s] = state;
	tag[s] = 0;
	current[s] = false;
#ifdef CHECKSUM
	sum[s] = RUBBISH;
#endif
}

/* Under the partition's lock. */
inline unlink(p)
{
#ifdef DEVICES
	/* the one that a look-up finds */
	if
	:: ENTRY(0, p) -> set_slot(0, FREE)
	:: !ENTRY(0, p) && ENTRY(1, p) -> set_slot(1, FREE)
	:: else
	fi
#else
	if
	:: ENTRY(0, p) -> set_slot(0, FREE)
	:: else
	fi;
#if SLOTS > 1
	if
	:: ENTRY(1, p) -> set_slot(1, FREE)
	:: else
	fi;
#endif
#endif
}

inline raise_version(s)
{
	if
	:: r_slot[P] == s -> r_version[P] = false
	:: else
	fi;
	if
	:: r_slot[Q] == s -> r_version[Q] = false
	:: else
	fi;
#ifdef AHEAD
	if
	:: a_slot == s -> a_version = false
	:: else
	fi;
#endif
}

inline bump_page(p)
{
	d_step
	{
		if
		:: w_page == p -> w_generation = false
		:: else
		fi;
		if
		:: h_page[0] == p -> h_generation[0] = false
		:: else
		fi;
#ifdef LOAD
		if
		:: l_page == p -> l_generation = false
		:: else
		fi;
#endif
#if CELLS > 1
		if
		:: h_page[1] == p -> h_generation[1] = false
		:: else
		fi;
#endif
	}
}

/* The epoch of the relation or of the database: both pages are of both. */
inline bump_epoch()
{
	d_step
	{
		w_epoch = false;
		w_now = false;
		h_epoch[0] = false;
		current[0] = false;
#ifdef LOAD
		l_epoch = false;
#endif
#ifdef EXTENTS
		x_epoch = false;
#endif
#if CELLS > 1
		h_epoch[1] = false;
#endif
#if SLOTS > 1
		current[1] = false;
#endif
	}
}

/* Invalidate p. */
inline I1(p)
{
	bump_page(p)			/* I1 */
}

inline I2(p)
{
#ifdef BREAK_I2_LOCK
	if						/* I2 */
	:: d_step { ANY_ENTRY(p) && w_locks != p -> unlink(p) }
	:: d_step { !ANY_ENTRY(p) -> skip }
	fi
#elif defined(BREAK_D5_INVALIDATES)
	d_step						/* I2 */
	{
		w_locks != p ->
		if
		:: in_use || !ENTRY(1, p) -> unlink(p)
		:: else
		fi
	}
#else
	d_step { w_locks != p -> unlink(p) }	/* I2 */
#endif
}

inline invalidate(p)
{
#ifdef BREAK_OFF_INVALIDATES
	if
	:: cache == ACTIVE -> I1(p); I2(p)
	:: cache != ACTIVE
	fi
#elif defined(BREAK_I_ORDER)
	I2(p);
	I1(p)
#else
	I1(p);
	I2(p)
#endif
}

/* ---- a page, and whoever has its I/O: a backend, the checkpointer, the background writer ---- */

/* A change of p.  Contents do not matter but for being the same or not: README.md, "Contents". */
inline change(p)
{
	if
	:: true
	:: p == P -> newer[p] = true
	fi;
}

inline forget_look(p)
{
	r_slot[p] = NONE;
	r_version[p] = false;
#ifdef CHECKSUM
	r_sum[p] = RUBBISH;
#endif
#ifdef AHEAD
	r_ahead = (p == P -> false : r_ahead);
#endif
}

proctype Page(bit p)
{
	bit c = 0;

end:
	do
	/* Somebody changes it in the pool. */
	:: atomic
		{
			(pool[p] == CLEAN || pool[p] == DIRTY) && !exclusive;
			change(p);
			frame[p] = CONTENT(p, newer[p]);
			pool[p] = DIRTY;
		}

	/* The clock evicts it, clean. */
	:: d_step { pool[p] == CLEAN -> pool[p] = ABSENT; frame[p] = RUBBISH }

	/* It is written: by the checkpointer, the background writer, or to be evicted. */
	:: atomic { pool[p] == DIRTY -> pool[p] = WRITING };
#ifdef BREAK_C3_EARLY
		invalidate(p);
#endif
#ifdef LOAD
		D[p] = RUBBISH;						/* C2 begins; only who reads past the pool can see it */
#endif
		if
		:: D[p] = frame[p]					/* C2 */
		:: d_step { D[p] = frame[p]; pool[p] = DIRTY };	/* md wrote, and raised */
			goto end
		fi;
#if !defined(BREAK_C3) && !defined(BREAK_C3_EARLY)
		invalidate(p);						/* C3 */
#endif
#ifndef NO_QUEUE
		if
		:: true
		:: atomic
			{
				/* E1 */
				cache == ACTIVE && !unlogged && (h_page[0] == NONE || h_page[CELLS - 1] == NONE);
#if CELLS > 1
				if
				:: h_page[0] == NONE -> c = 0
				:: else -> c = 1
				fi;
#endif
				h_page[c] = p; h_generation[c] = true; h_epoch[c] = true; h_copy[c] = frame[p];
				c = 0
			}
		fi;
#endif
		pool[p] = CLEAN

	/* It is read; if asynchronously, S1 is all of this but for the end of the I/O, which is S2. */
	:: atomic { pool[p] == ABSENT && D[p] != NO_PAGE && !exclusive -> pool[p] = READING };
		if
		:: cache == ACTIVE
		:: cache != ACTIVE -> goto disk
		fi;
		if
		:: d_step
			{
				/* R1 */
				w_locks != p && FOUND(p) ->
				FIND(p, r_slot[p]);
				r_version[p] = true;
#ifdef CHECKSUM
				r_sum[p] = sum[r_slot[p]];
#endif
#ifdef AHEAD
				/* A2 */
#ifdef BREAK_A2_VERSION
				r_ahead = (p == P -> a_slot == r_slot[p] : r_ahead);
#else
				r_ahead = (p == P -> a_slot == r_slot[p] && a_version : r_ahead);
#endif
#endif
			}
#ifdef BREAK_A2_LOOK
		:: d_step
			{
				p == P && a_slot != NONE ->
				r_slot[p] = a_slot;
				r_version[p] = a_version;
				r_ahead = true
			}
		:: d_step { w_locks != p && !FOUND(p) && (p != P || a_slot == NONE) -> skip };
#else
		:: d_step { w_locks != p && !FOUND(p) -> skip };
#endif
			goto disk
		fi;
#if defined(DEVICES) && !defined(BREAK_WORD)
		/* where the slot lies */
		if
		:: r_slot[p] == 0 || lies
		:: r_slot[p] == 1 && !lies -> d_step { frame[p] = RUBBISH; forget_look(p) };
			goto disk
		fi;
#endif
		/* R2; what is written meanwhile may be read in part */
		if
#ifdef AHEAD
		:: p == P && r_ahead ->
			d_step
			{
				a_done ->
				frame[P] = a_copy;
				a_slot = NONE; a_version = false; a_copy = RUBBISH; a_done = false
			}
		:: p != P || !r_ahead ->
#else
		:: true ->
#endif
			frame[p] = device[r_slot[p]];
			d_step
			{
				if
				:: device[r_slot[p]] != frame[p] -> frame[p] = RUBBISH
				:: else
				fi
			}
		fi;
		if
		:: d_step
			{
				GOOD(p) ->					/* R3 */
				assert(frame[p] == D[p]);	/* HIT */
				forget_look(p);
				pool[p] = CLEAN
			}
			goto end
		:: d_step
			{
				!GOOD(p) ->
#ifdef CHECKSUM
				/* the version is right and the content is not: the slot is not used again */
				if
				:: r_version[p] && w_locks != p && ENTRY(r_slot[p], p) -> set_slot(r_slot[p], RETIRED)
				:: else
				fi;
#endif
				frame[p] = RUBBISH;
				forget_look(p)
			}
		fi;
disk:
		atomic
		{
			frame[p] = D[p];
			pool[p] = CLEAN
		}
	od
}

/* ---- the writer ---- */

inline forget_fill()
{
	w_page = NONE;
	w_generation = false;
	w_epoch = false;
	w_now = false;
	w_copy = RUBBISH
#ifdef EXTENTS
	; w_extent = false
#endif
}

inline take_guard(p)
{
	d_step { w_page = p; w_generation = true; w_epoch = true }
}

/* F2: is the page in the pool, clean, in nobody's hands?  Q is, if it is not modelled. */
#if PAGES == 1
#define IS_CLEAN(p) ((p) == Q || pool[p] == CLEAN)
#define IN_FRAME(p) ((p) == Q -> CONTENT(Q, 0) : frame[p])
#else
#define IS_CLEAN(p) (pool[p] == CLEAN)
#define IN_FRAME(p) frame[p]
#endif
#if defined(BREAK_F2_VALID)
#define MAY_COPY_IT(p) (IS_CLEAN(p) || pool[p] == READING)
#elif defined(BREAK_F2_DIRTY)
#define MAY_COPY_IT(p) (IS_CLEAN(p) || pool[p] == DIRTY || pool[p] == WRITING)
#else
#define MAY_COPY_IT(p) IS_CLEAN(p)
#endif
#define MAY_COPY(p) (MAY_COPY_IT(p) && ((p) == Q || !unlogged))

#if defined(BREAK_F6_GUARD)
#define GUARD_HOLDS true
#elif defined(BREAK_F6_LSN)
/* the frame still has the page, with the LSN that it had: not every change moves it */
#define GUARD_HOLDS (IS_CLEAN(w_page) && w_epoch)
#elif defined(BREAK_F6_EPOCH)
#define GUARD_HOLDS w_generation
#else
#define GUARD_HOLDS (w_generation && w_epoch)
#endif

inline take_from_queue(c)
{
	d_step
	{
		/* E2 */
		cache == ACTIVE && h_page[c] != NONE ->
		w_page = h_page[c];
#ifdef BREAK_E1_GUARD
		w_generation = true;
		w_epoch = true;
#else
		w_generation = h_generation[c];
		w_epoch = h_epoch[c];
#endif
		w_copy = h_copy[c];
		h_page[c] = NONE; h_generation[c] = false; h_epoch[c] = false; h_copy[c] = RUBBISH
	}
}

#ifdef LOAD
inline close_file()
{
#if defined(DESCRIPTOR) && !defined(BREAK_X_KEPT)
	l_open = false;
	l_there = false;
	l_gone = NO_PAGE
#else
	skip
#endif
}

inline forget_load()
{
	close_file();
	l_page = NONE;
	l_generation = false;
	l_epoch = false;
	l_copy = RUBBISH;
	l_ready = false
}

inline take_loaded()
{
	d_step
	{
		cache == ACTIVE && l_ready ->
		w_page = P;
		w_generation = l_generation;
		w_epoch = l_epoch;
		w_copy = l_copy;
#ifdef EXTENTS
		w_extent = true;
#endif
		forget_load()
	}
}
#endif

/* X2: what an extent brings takes no slot of another page. */
#if defined(EXTENTS) && !defined(BREAK_X2)
#define MAY_TAKE(s) (TAKEABLE(s) && (!w_extent || slot[s] == FREE))
#else
#define MAY_TAKE(s) TAKEABLE(s)
#endif

proctype Writer()
{
	byte s = 0;

end:
	do
#ifndef NO_POOL
	:: cache == ACTIVE ->
#if defined(BREAK_F1_ORDER)
		if
		:: d_step { MAY_COPY(P) -> w_page = P; w_copy = IN_FRAME(P) }
		:: d_step { MAY_COPY(Q) -> w_page = Q; w_copy = IN_FRAME(Q) }
		:: cache != ACTIVE -> goto end
		fi;
		d_step { w_generation = true; w_epoch = true }
#else
		if
		:: take_guard(P)						/* F1 */
		:: take_guard(Q)
		fi;
#ifdef BREAK_F2_LOCK
		/* looks, copies, and looks whether the frame still has the page; in between it may have had another */
		if
		:: MAY_COPY(w_page)
		:: else -> goto forget
		fi;
		w_copy = (pool[w_page] == ABSENT -> CONTENT(1 - w_page, 0) : IN_FRAME(w_page));
		if
		:: MAY_COPY(w_page)
		:: else -> goto forget
		fi;
#else
		if
		:: d_step { MAY_COPY(w_page) -> w_copy = IN_FRAME(w_page) }	/* F2 */
		:: d_step { !MAY_COPY(w_page) -> skip };
			goto forget
		fi;
#endif
#endif
		goto store
#endif

#ifndef NO_QUEUE
	:: take_from_queue(0) -> goto store
#endif
#if CELLS > 1
	:: take_from_queue(1) -> goto store
#endif
#ifdef LOAD
	:: take_loaded() -> goto store
#endif

#ifdef DEVICES
	/* The second device is removed, disabled, or made shorter. */
	:: lies ->
#ifdef BREAK_D1_ORDER
		lies = false;
#endif
#ifdef BREAK_D1_VERSION
		d_step { set_slot(1, FREE) };
#else
		d_step { set_slot(1, FREE); raise_version(1) };			/* D1 */
#endif
		d_step { lies = false; in_use = false }
	:: d_step { !lies -> lies = true; in_use = true }			/* D2 */

	/* It comes back after trouble, D5: it is the same; or it is another one. */
	:: d_step { lies && !in_use -> in_use = true }
	:: lies && !in_use ->
#ifndef BREAK_D5_IDENTITY
		d_step { set_slot(1, FREE); raise_version(1) };
#endif
		device[1] = RUBBISH;
		in_use = true
#endif

#ifdef SWITCH
	/* The same device is used again: nothing is forgotten, the queue included. */
	:: cache == OFF -> cache = ACTIVE		/* O2, O4 */

	/* Another one is, or its content is doubtful. */
	:: cache == OFF ->
#ifdef BREAK_O_ORDER
		device[0] = RUBBISH;
#if SLOTS > 1
		device[1] = RUBBISH;
#endif
#endif
#ifndef BREAK_O2
		d_step
		{
			/* O2 */
			set_slot(0, FREE);
#ifndef BREAK_O2_VERSION
			raise_version(0)
#endif
		}
#if SLOTS > 1
		d_step
		{
			set_slot(1, FREE);
#ifndef BREAK_O2_VERSION
			raise_version(1)
#endif
		}
#endif
#endif
		if
		:: true
		:: device[0] = RUBBISH				/* O3 */
#if SLOTS > 1
			; device[1] = RUBBISH
#endif
		fi;
		cache = ACTIVE						/* O4 */
#endif
	od;

store:
	/* F3 changes only the copy.  Here a page may be left out, and a batch may wait. */
	if
	:: MAY_TAKE(0) -> s = 0
#if SLOTS > 1
	:: MAY_TAKE(1) -> s = 1
#endif
	:: goto forget
	fi;
#ifdef EXTENTS
	assert(!w_extent || slot[s] == FREE);						/* FREE_ONLY */
#endif
	if
	:: d_step { slot[s] != RETIRED -> set_slot(s, FREE) }	/* F4: its old entry */
	:: slot[s] == RETIRED -> goto forget
	fi;
#ifdef BREAK_F4_VERSION
	slot[s] = RESERVED;
#else
	d_step { slot[s] = RESERVED; raise_version(s) }			/* F4: its version */
#endif
	if
	:: cache == ACTIVE
	:: cache != ACTIVE -> goto release
	fi;
	device[s] = RUBBISH;					/* F5 begins */
	if
	:: device[s] = w_copy					/* F5 ends */
	:: goto release							/* it fails */
	fi;
#ifdef BREAK_F4_VERSION
	d_step { raise_version(s) }
#endif
	d_step { w_locks = w_page; w_now = true }	/* F6 */
	if
	:: GUARD_HOLDS && !CURRENT_ENTRY(w_page)
	:: !(GUARD_HOLDS && !CURRENT_ENTRY(w_page)) -> goto release
	fi;
	d_step
	{
#ifdef BREAK_D5_UNLINK
		if
		:: in_use || !ENTRY(1, w_page) -> unlink(w_page)
		:: else
		fi;
#else
		unlink(w_page);						/* a dead one, or one that may not be read */
#endif
		slot[s] = USED;
		tag[s] = w_page;
#ifdef BREAK_F6_ENTRY_EPOCH
		current[s] = true;
#else
		current[s] = w_now;
#endif
#ifdef CHECKSUM
		sum[s] = w_copy;
#endif
#ifdef UNLOGGED
		assert(w_page == Q || !unlogged || !current[s]);		/* PERMANENT */
#endif
	}
	goto forget;
release:
	atomic { set_slot(s, FREE) }
forget:
	atomic { forget_fill(); w_locks = NONE; s = 0 }
	goto end
}

/* ---- a process that reads ahead ---- */

#ifdef AHEAD
proctype Ahead()
{
end:
	do
	:: d_step
		{
			/* A1 */
			a_slot == NONE && cache == ACTIVE && w_locks != P && CURRENT_ENTRY(P) ->
			FIND(P, a_slot);
			a_version = true
		}
		a_copy = device[a_slot];
		d_step
		{
			if
			:: device[a_slot] != a_copy -> a_copy = RUBBISH
			:: else
			fi;
			a_done = true
		}
	/* never asked for: the place is used for something else */
	:: d_step { a_done && !r_ahead -> a_slot = NONE; a_version = false; a_copy = RUBBISH; a_done = false }
	od
}
#endif

/* ---- a session that reads P from the data file, whatever the pool has, and whoever has a lock; or the writer, with an extent ---- */

#ifdef LOAD
/*
 * The file that has the name now; one that is removed meanwhile is still there for who has it open, and then gives what it had
 * at that moment.  So to read it is no other than to read it just before: where the file is opened after L2, the two are one.
 */
#ifdef DESCRIPTOR
inline open_file()
{
	d_step
	{
		if
		:: !l_open -> l_open = true; l_there = true; l_gone = NO_PAGE
		:: else
		fi
	}
}

inline remove_file()
{
	d_step
	{
		if
		:: l_open && l_there -> l_there = false; l_gone = D[P]
		:: else
		fi;
		D[P] = NO_PAGE
	}
}

#define IN_FILE (l_there -> D[P] : l_gone)
#define THERE l_there
#else
#define IN_FILE D[P]
#define THERE true
#endif

#if defined(EXTENTS) && !defined(BREAK_X1)
#define GUARD_EPOCH x_epoch				/* X1 */
#else
#define GUARD_EPOCH true
#endif

inline take_load_guard()
{
	d_step
	{
		l_page = P; l_generation = true; l_epoch = GUARD_EPOCH
#ifdef EXTENTS
		; x_hint = false; x_epoch = false
#endif
	}
}

/* L3; what is written meanwhile may be read in part */
inline read_file()
{
	l_copy = IN_FILE;
	d_step
	{
		if
		:: THERE && D[P] != l_copy && D[P] != NO_PAGE && l_copy != NO_PAGE -> l_copy = RUBBISH
		:: else
		fi
	}
}

proctype Load()
{
end:
	do
#ifdef EXTENTS
	/* Somebody reads a page beside P, which nobody does without a lock on the relation. */
#ifdef BREAK_X_PERMANENT
	:: d_step { !x_hint && l_page == NONE && !exclusive && cache == ACTIVE -> x_hint = true; x_epoch = true }
#else
	:: d_step { !x_hint && l_page == NONE && !exclusive && !unlogged && cache == ACTIVE -> x_hint = true; x_epoch = true }
#endif
	:: x_hint ->
#else
	:: l_page == NONE ->					/* L1 needs not be right, so any page is chosen */
#endif
#if defined(BREAK_LOAD_GUARD)
		read_file();
		take_load_guard();
#elif defined(BREAK_LOAD_OPEN)
		open_file();
		take_load_guard();					/* L2 */
		read_file();						/* L3 */
#else
		take_load_guard();					/* L2 */
#ifdef DESCRIPTOR
		open_file();
#endif
		read_file();						/* L3 */
#endif
		/* L4; or the session leaves */
		if
		:: d_step
			{
				l_copy != NO_PAGE ->
				close_file();
				l_ready = true
			}
		:: d_step { forget_load() }
		fi
	od
}
#endif

/* ---- files: truncate, drop, re-create, extend; relation and database ---- */

#ifdef FILES
inline drop_buffers()
{
	d_step { pool[P] != READING && pool[P] != WRITING -> pool[P] = ABSENT; frame[P] = RUBBISH }
}

inline bump_relation()
{
#ifndef BREAK_EPOCH_RELATION
	bump_epoch()
#else
	skip
#endif
}

inline bump_database()
{
#ifndef BREAK_EPOCH_DATABASE
	bump_epoch()
#else
	skip
#endif
}

#ifndef DESCRIPTOR
inline remove_file()
{
	D[P] = NO_PAGE
}
#endif

/* A page where there was none. */
inline make_page()
{
#ifdef EXTENTS
	D[P] = RUBBISH;							/* only who reads past the pool can see it */
#endif
	atomic { change(P); D[P] = CONTENT(P, newer[P]) }
}

#define LOCKABLE (!exclusive && D[P] != NO_PAGE && pool[P] != READING)

proctype Files()
{
end:
	do
	/* Truncated, page by page. */
	:: atomic { LOCKABLE -> exclusive = true };
#ifdef BREAK_C_EARLY
		invalidate(P);
		drop_buffers();
		D[P] = NO_PAGE;
#else
		drop_buffers();
		invalidate(P);						/* C1 */
		D[P] = NO_PAGE;						/* C2 */
		invalidate(P);						/* C3 */
#endif
		exclusive = false

	/* Truncated by epoch, or dropped. */
	:: atomic { LOCKABLE -> exclusive = true };
		drop_buffers();
		bump_relation();					/* C1 */
		remove_file();						/* C2 */
		bump_relation();					/* C3 */
		if
		:: true
		:: bump_relation();					/* C1: created anew, with the same number */
#ifdef UNLOGGED
			if
			:: unlogged = false
			:: unlogged = true
			fi;
#endif
			bump_relation()					/* C3 */
		fi;
		exclusive = false

	/* Grows again. */
	:: atomic { D[P] == NO_PAGE && pool[P] == ABSENT -> pool[P] = WRITING };
#ifndef BREAK_EXTEND
		invalidate(P);						/* C1 */
#endif
		make_page();						/* C2 */
#ifndef BREAK_EXTEND
		invalidate(P);						/* C3 */
#endif
		d_step { frame[P] = D[P]; pool[P] = CLEAN }

	/* The database is dropped, and made anew with the same number; who makes it has a C1 and a C3 of his own. */
	:: atomic { LOCKABLE -> exclusive = true };
#ifdef BREAK_DATABASE_EARLY
		bump_database();
#endif
		drop_buffers();
		remove_file();						/* C2 */
#if !defined(BREAK_DATABASE_AFTER) && !defined(BREAK_DATABASE_EARLY)
		bump_database();					/* C3 */
#endif
#if !defined(BREAK_DATABASE_CREATE) && !defined(BREAK_DATABASE_EARLY)
		bump_database();					/* C1 */
#endif
#ifdef UNLOGGED
		unlogged = false;
#endif
		make_page();						/* C2 */
#if !defined(BREAK_DATABASE_CREATE) && !defined(BREAK_DATABASE_EARLY) && !defined(BREAK_DATABASE_COPIED)
		bump_database();					/* C3 */
#endif
		exclusive = false

	/* It is moved to another tablespace, by a commit before the files here are removed. */
	:: atomic { LOCKABLE -> exclusive = true };
		drop_buffers();
#ifndef BREAK_DATABASE_LATE
		bump_database();					/* C3 */
#endif
		remove_file();						/* C2 */
		/* And back, by a commit after they are copied. */
		make_page();						/* C2 */
#ifndef BREAK_DATABASE_LATE
		bump_database();					/* C3 */
#endif
		exclusive = false;
#ifdef BREAK_DATABASE_LATE
		bump_database()
#endif
	od
}
#endif

/* ---- the device ---- */

#if defined(SWITCH) || defined(LIES) || defined(DEVICES)
proctype Device()
{
end:
	do
#ifdef SWITCH
	:: atomic { cache == ACTIVE -> cache = OFF }	/* O1 */
#endif
#ifdef DEVICES
	:: d_step { lies && in_use -> in_use = false }				/* D4 */
	/* What lies nowhere is somebody else's. */
	:: d_step { !lies -> device[1] = RUBBISH }
#endif
#ifdef LIES
	:: device[0] = RUBBISH
#if SLOTS > 1
	:: device[1] = RUBBISH
#endif
#endif
	od
}
#endif

init
{
	atomic
	{
		run Page(P);
#if PAGES > 1
		run Page(Q);
#endif
		run Writer();
#ifdef AHEAD
		run Ahead();
#endif
#ifdef LOAD
		run Load();
#endif
#ifdef FILES
		run Files();
#endif
#if defined(SWITCH) || defined(LIES) || defined(DEVICES)
		run Device();
#endif
	}
	/* For the test of the runs themselves: an outcome that they must turn down. */
#ifdef SELF_TEST_UNREACHED
	if
	:: true
	:: newer[Q] -> newer[Q] = false
	fi
#endif
#ifdef SELF_TEST_OTHER
	assert(newer[Q])
#endif
}
