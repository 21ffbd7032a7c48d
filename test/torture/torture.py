#!/usr/bin/env python3
"""Tortures a server with the flash cache, and looks whether anything is lost, old or damaged.

Rounds of: sessions at work (sessions.py) until a number of operations is reached; then the server is hit in one of many
ways (EVENTS); then it recovers, and everything is checked: the tables against the shadow log (shadow.py), pg_amcheck
with heapallindexed, pg_checksums after clean stops, the counters and the logs. After two starts of three every hit is
compared with the disk (pg_flashcache.verify), and after about half of them entries survive an end of the server
(pg_flashcache.persistence). Shared buffers have 128 pages or a few more, and the cache not many more than that.

    torture.py [--minutes N | --rounds N | --kills N] [--persistence on|off] [--seed N] [--operations N] [--events A,B] [DIR]
    torture.py --health [--minutes N] [--every S] [--seed N] [DIR]        memory, descriptors and locks: health.py

The seed decides everything that is chosen; it is printed at the beginning and with every failure. The same seed gives
the same rounds of the same operations again. What the scheduler makes of them is not in it, so a failure that needs two
processes to meet may take several runs.

DIR is an empty folder on a short path (a socket lies in it). It is kept when something failed: `shadow.*.log` is what
each session did, `s*/log` what the servers said. Expects the private server's bin first in PATH, and not to be root:
`test/torture/run` does both. The last line is `N passed, N failed`.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import pathlib
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable

import devices
import health
import pq
import sessions
import witness
from cluster import TROUBLE, Failure, Server, lsn, run, wait_until

# By how much a round's number of operations differs from the one that was asked for.
SPREAD = (0.5, 1.5)
ROUND_PATIENCE_S = 300.0  # a guard against a hang
SHARES = 5  # sessions that have rows in the shared table

COUNTERS = ("hits", "misses", "verify_checks", "inserts", "eviction_aged_out", "eviction_invalidated", "prefetches")
EXTENT_COUNTERS = ("extent_reads", "extent_inserts")
COUNTERS_SQL = "SELECT {} FROM pg_stat_flashcache, (SELECT extent_reads, extent_inserts FROM pg_stat_flashcache_extents) e"
# Where the log of what is on flash is written (src/warm.md), and where it is loaded: a server is killed there.
LOG_POINTS = ("warm_group", "warm_blocks", "warm_stamp", "warm_map")
LOAD_POINTS = ("warm_load", "switch_opened")
# Where recovery is held up, so that it is not over when the server is killed.
REDO_POINTS = ("disk_read", "write_before_md", "file_after_md", "database_after", "invalidate_bumped")
# What the log of an earlier run gave at the last start. All are NULL while persistence is off.
RESTORED = ("restored", "not_restored_touched", "not_restored_removed", "torn_blocks", "restored_wrong")
# The stamp of a log that is being written, if the server has not been told to switch the cache off.
STAMP_SQL = (
    "SELECT coalesce(stamp_checkpoint, '0/0'), checkpoint_lsn FROM pg_stat_flashcache_persistence, pg_control_checkpoint()"
    " WHERE writing AND NOT EXISTS (SELECT FROM pg_file_settings WHERE name = 'pg_flashcache.enabled' AND setting <> 'on')"
)
# Pages on flash of a table that nobody changes.
FILLER_SQL = (
    "SELECT relblocknumber FROM pg_flashcache_pages WHERE relfilenode = pg_relation_filenode('filler')"
    " AND reldatabase = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
# A device that is full gives up so many when it is opened, for its trial (src/device.md); the first of several is.
TRIAL_PAGES = 16
# For the restarts at the end of a run; all that is on flash stays there.
PROOF_CONF = {
    "pg_flashcache.persistence": "on",
    "pg_flashcache.verify": "on",
    "pg_flashcache.admission": "all",
    "pg_flashcache.extents": "off",
    "pg_flashcache.size": "64MB",
    "shared_buffers": "1536kB",
    "wal_level": "replica",
    "max_wal_senders": "5",
}

WAIT_SQL = (
    "CREATE OR REPLACE FUNCTION fc_failpoint_wait(name text) RETURNS void"
    " AS '$libdir/pg_flashcache', 'fc_failpoint_wait' LANGUAGE C STRICT"
)
# The pages on flash of this database, by relation; and reading them through the buffer pool: from flash, and compared.
RESTORED_SQL = (
    "SELECT c.oid, string_agg(p.relblocknumber::text, ',')"
    " FROM pg_flashcache_pages p JOIN pg_database d ON d.oid = p.reldatabase AND d.datname = current_database()"
    " JOIN pg_class c ON pg_relation_filenode(c.oid) = p.relfilenode GROUP BY 1"
)
READ_SQL = (
    "SELECT count(pg_prewarm({0}::regclass, 'buffer', 'main', b, b)) FROM unnest('{{{1}}}'::bigint[]) b"
    " WHERE b < pg_relation_size({0}::regclass) / 8192"
)
GIVEN = re.compile(r"\"[^\"]*\"|\b[0-9A-F]+/[0-9A-F]+\b|\b\d+\b")

BASE_CONF = (
    "fsync = off  # a crash of the machine is not what this is about",
    "log_line_prefix = '%m %b[%p] %q%a '",
    "log_min_messages = warning",
    "log_lock_waits = off",
    "log_checkpoints = off",
    "allow_in_place_tablespaces = on",
    "max_prepared_transactions = 10",
    "max_connections = 40",
    "autovacuum_naptime = 1s",
    "max_wal_size = 128MB",
    "min_wal_size = 80MB",
    "wal_keep_size = 256MB",
    "deadlock_timeout = 200ms",
    "temp_buffers = 800kB",
    "maintenance_work_mem = 4MB",
    "statement_timeout = 200s  # a guard against a hang",
    "restart_after_crash = on",
    "jit = off  # which grows by itself: an index that is forced looks costly enough for it",
    "hot_standby = on",
    "shared_preload_libraries = 'pg_flashcache'",
    *(pathlib.Path(__file__).parent.parent / "lib" / "cache.conf").read_text().splitlines(),
    "pg_flashcache.max_policy_files = 1000",
    "pg_flashcache.advice = on",
)


class Torture:
    """The rounds, and what the sessions see of them."""

    def __init__(self, options: argparse.Namespace, directory: pathlib.Path) -> None:
        self.seed: int = options.seed
        self.options = options
        self.dir = directory
        self.round = 0
        self.passed = 0
        self.failed = 0
        self.faults = False  # the device may be damaged in this round
        self.index_kinds = sessions.INDEXES
        self.safe_copies = False  # no copies of databases that a standby's second recovery would do wrong
        self.widen = False  # processes may be held up in this round
        self.calm = False  # leave the settings alone
        self.without_cache: bool = options.without_cache
        self.threads: dict[sessions.Session, threading.Thread] = {}
        self.servers_made = 0
        self.server = self.new_server()
        self.standby: Server | None = None
        self.wal_level = "replica"
        self.crashing = False
        self.terminated: set[int] = set()
        self.stops = [threading.Event() for _ in range(3)]  # by Session.ends
        self.enough = threading.Event()
        self.lock = threading.Lock()
        self.operations: collections.Counter[str] = collections.Counter()
        self.in_round = 0
        self.target = 0
        self.events: collections.Counter[str] = collections.Counter()
        self.sums: collections.Counter[str] = collections.Counter()
        self.counted: dict[str, int] = {}
        self.deck: list[str] = []
        self.killed_at: collections.Counter[str] = collections.Counter()
        self.starts: collections.Counter[str] = collections.Counter()
        self.restored: collections.Counter[str] = collections.Counter()
        self.came_back: collections.Counter[str] = collections.Counter()
        self.began = time.monotonic()
        self.can_rewind = False
        # Of all servers of a run: another one is a cold start.
        self.several = not options.health and random.Random(f"{self.seed}/devices").random() < 0.75

        logs = directory
        writers = [sessions.Writer(f"w{i}", self, logs, (i, SHARES)) for i in range(3)]
        self.standby_reader = sessions.StandbyReader("standby", self, logs)
        self.devices = devices.Devices("devices", self, logs)
        self.sessions: list[sessions.Session] = [
            *writers,
            sessions.TwoPhase("twophase", self, logs, (3, SHARES)),
            sessions.Others("others", self, logs, (4, SHARES)),
            sessions.Databases("databases", self, logs),
            sessions.Reader("reader", self, logs),
            *([] if self.without_cache else [sessions.Steering("steering", self, logs)]),
            *([self.devices] if self.several else []),
            sessions.Control("control", self, logs),
        ]

    # ---- what sessions see ----

    def count(self, operation: str) -> None:
        with self.lock:
            self.operations[operation] += 1
            self.in_round += 1
            if self.in_round >= self.target:
                self.enough.set()

    def losses_expected(self, pid: int) -> bool:
        return self.crashing or (pid != 0 and pid in self.terminated)

    def may_terminate(self, pid: int) -> None:
        self.terminated.add(pid)

    def victims(self) -> list[int]:
        # A commit that waits for the standby would be made without it.
        if self.standby is not None:
            return []
        kinds = (sessions.Writer, sessions.Reader)
        return [s.conn.pid for s in self.sessions if isinstance(s, kinds) and s.conn is not None]

    def testimony(self, database: str, error: pq.SqlError) -> list[str]:
        if not witness.contradicts_itself(error):
            return []
        last = [f"{session.name}: {line[:200]}" for session in self.sessions for line in tuple(session.journal.last)]
        return [*witness.testimony(self.server, database, error), *last]

    def check_counters(self, conn: pq.Connection) -> None:
        counters = (*COUNTERS, *EXTENT_COUNTERS)
        columns = (*counters, *TROUBLE)
        row = conn.run(COUNTERS_SQL.format(", ".join(columns)))[0]
        now = {name: int(value or 0) for name, value in zip(columns, row, strict=True)}
        with self.lock:
            # They begin anew after a crash or a reset, and on another server.
            begun = any(now[name] < self.counted.get(name, 0) for name in counters)
            for name in counters:
                self.sums[name] += now[name] - (0 if begun else self.counted.get(name, 0))
            self.counted = now
            self.sums["verify_failures"] += now["verify_failures"]
        wrong = {name: now[name] for name in TROUBLE if now[name] and (name == "verify_failures" or not self.faults)}
        if wrong:
            raise Failure(f"counters that must be 0: {wrong}")

    # ---- the server ----

    def new_server(self) -> Server:
        self.servers_made += 1
        return Server(self.dir / f"s{self.servers_made}")

    def make(self) -> None:
        rng = random.Random(f"{self.seed}/make")
        checksums, whole_pages = rng.random() < 0.75, rng.random() < 0.7
        conf = [*BASE_CONF, *self.server.own_place()]
        if not whole_pages:
            # Recovery then reads every page that it changes. But of a BRIN index that was dropped later it may find no page
            # to put an entry on, and PostgreSQL crashes (brin_xlog_insert_update asks for the number of no buffer).
            conf.append("full_page_writes = off")
            self.index_kinds = tuple(kind for kind in sessions.INDEXES if kind != "brin")
        self.can_rewind = checksums and whole_pages
        self.server.initdb(checksums, conf)
        self.say(f"data checksums {'on' if checksums else 'off'}, full_page_writes {'on' if whole_pages else 'off'}; {run(['postgres', '--version']).strip()}")
        health_conf = {"pg_flashcache.verify": "on", "pg_flashcache.persistence": "on"}
        self.configure(rng, self.next_event(), health_conf if self.options.health else None)
        self.server.start()
        with self.server.connect() as conn:
            conn.run("CREATE EXTENSION pg_flashcache")
            conn.run("CREATE EXTENSION pg_prewarm")
            for space in (*sessions.SPACES, "c", "d"):
                conn.run(f"CREATE TABLESPACE {space} LOCATION ''")
            with self.server.connect("template1") as template:
                template.run("CREATE EXTENSION pg_prewarm")
                template.run("CREATE EXTENSION pg_flashcache")
            conn.run(f"CREATE DATABASE {sessions.MAIN}")
        with self.server.connect(sessions.MAIN) as conn:
            for sql in ("CREATE EXTENSION amcheck", *sessions.SCHEMA.split(";")):
                conn.run(sql)
        self.server.wait_ready()
        with self.server.connect() as conn:
            sessions.check_points(conn, [*sessions.DEVICE_FAULTS, *devices.FAULTS])
            self.forget_faults(conn)
            # Nothing goes by while the server is quiet, but for the writer; which is held up for a moment at the most.
            sessions.check_points(conn, sessions.PAUSES)
            for wrong in ((sessions.PAUSES[0][0], "no_such_action"), ("no_such_point", "pause")):
                try:
                    sessions.check_points(conn, [wrong])
                except Failure:
                    self.passed += 1
                else:
                    raise Failure(f"{wrong} was taken for a point and what it can be armed with")
        self.faults = True  # just now
        self.read_log(self.server)
        self.faults = False
        for session in self.sessions:
            session.prepare()
            session.disconnect()

    def configure(self, rng: random.Random, event: str, fixed: dict[str, str] | None = None) -> None:
        """Settings that need a restart, drawn for each; the round's event must be possible with them."""
        before = self.server.conf
        size = rng.choice(("512kB", "4MB", "32MB", "64MB"))
        if before and rng.random() >= 0.2:  # another size is a cold start
            size = before["pg_flashcache.size"]
        elif self.options.kills and not before:
            size = "4MB"
        persistence = rng.choice(("on", "off"))
        if self.options.persistence != "drawn":
            persistence = self.options.persistence
        elif before and rng.random() < 0.6:
            persistence = before["pg_flashcache.persistence"]
        # A crash with it is a cold start.
        minimal = rng.random() < (0.05 if persistence == "on" else 0.25) and event not in self.WITH_STANDBY
        conf = {
            # An index that is built pins 32 pages at once (log_newpage_range), as may the end of a transaction with
            # wal_level = minimal: four sessions at that take all the buffers of 1 MB.
            "shared_buffers": rng.choice(("1536kB", "1536kB", "2MB", "4MB")),
            "pg_flashcache.size": size,
            "pg_flashcache.persistence": persistence,
            "pg_flashcache.verify": rng.choice(("on", "on", "off")),
            "pg_flashcache.admission": rng.choice(("all", "all", "auto", "reuse")),
            # A stop with it also copies shared_buffers to flash, and the next start loads them again.
            "pg_flashcache.max_shutdown_delay": rng.choice(("0", "0", "2s")),
            "wal_level": "minimal" if minimal else "replica",
            "max_wal_senders": "0" if minimal else "5",
            "max_parallel_workers_per_gather": rng.choice(("0", "2")),
        }
        io_method = rng.choice(("worker", "sync", "io_uring"))
        combine = rng.choice(("8kB", "128kB", "256kB"))
        if self.major() >= 17:
            conf["io_combine_limit"] = combine
        if self.major() >= 18:
            conf["io_method"] = io_method
        conf["pg_flashcache.extents"] = rng.choice(("off", "on", "on", "auto"))
        conf["pg_flashcache.max_size"] = f"{devices.MAX_SIZE_MB}MB" if self.several else "0"
        conf |= fixed or {}
        self.wal_level = conf["wal_level"]
        same = all(conf[f"pg_flashcache.{name}"] == before.get(f"pg_flashcache.{name}") for name in ("size", "persistence"))
        if not same or minimal:
            self.server.good_for = 0
        self.server.conf = conf
        self.server.configure(f"{name} = '{value}'" for name, value in conf.items())
        self.server.configure([os.environ.get("FC_EXTRA_CONF", "")])
        self.say("settings: " + ", ".join(f"{n} = {v}" for n, v in conf.items()))

    def major(self) -> int:
        return int((self.server.data / "PG_VERSION").read_text())

    def add_standby(self) -> None:
        standby = self.server.standby(self.dir / f"s{self.servers_made + 1}")
        self.servers_made += 1
        self.start_standby(standby)

    def start_standby(self, standby: Server) -> None:
        standby.start()
        standby.wait_ready()
        self.standby = standby
        self.devices.forget(standby)
        if self.several:
            self.devices.give(standby, random.Random(f"{self.seed}/{self.round}/given"))
        with self.server.connect() as conn:
            self.alter_system(conn, "SET synchronous_standby_names = '*'")
            wait_until(
                "the standby is synchronous",
                lambda: bool(conn.run("SELECT FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'")),
            )

    def alter_system(self, conn: pq.Connection, change: str) -> None:
        conn.run(f"ALTER SYSTEM {change}")
        conn.run("SELECT pg_reload_conf()")

    def drop_standby(self) -> None:
        if self.standby is None:
            return
        self.read_log(self.standby)
        self.standby.kill_all()
        self.forget(self.standby)
        self.standby = None
        with self.server.connect() as conn:
            self.alter_system(conn, "RESET synchronous_standby_names")

    def forget(self, server: Server) -> None:
        self.devices.forget(server)
        server.remove()

    # ---- events: what ends a round ----
    # Each leaves the server running, or down for a start with other settings; true if it may have lost memory.

    def kill_first(self, pids: list[int]) -> bool:
        """Of these processes, the first that is still there."""
        self.crashing = True
        if not any(self.server.kill_child(pid) for pid in pids):
            self.say("there was nobody to kill")
            self.crashing = False
            return False
        self.join()
        return True

    def kill_child(self, kind: str) -> bool:
        self.choose_moment()
        return self.kill_first(self.server.find(kind)[:1])

    def kill_backend(self) -> bool:
        self.choose_moment()
        mine = [s.conn.pid for s in self.sessions if s.conn is not None]
        return self.kill_first(random.Random(f"{self.seed}/{self.round}/victim").sample(mine, len(mine)))

    def kill_server(self) -> bool:
        self.choose_moment()
        self.crashing = True
        self.server.kill_all()
        return True

    def kill_postmaster(self) -> bool:
        self.choose_moment()
        self.crashing = True
        self.server.kill_postmaster()
        return True

    def crash_in_recovery(self) -> bool:
        """Twice: after a moment, or while recovery is held up. It then begins anew, with the log that it had."""
        self.kill_server()
        for delay_ms in (20, 150):
            self.start_and_kill(random.Random(f"{self.seed}/{self.round}/{delay_ms}"), delay_ms)
        return True

    def start_and_kill(self, rng: random.Random, delay_ms: int) -> None:
        logged = self.server.log.stat().st_size
        if rng.random() < 0.6:
            self.server.start(arm=f"{rng.choice(REDO_POINTS)} pause", wait=False)
            with contextlib.suppress(Failure):  # there may be nothing to recover
                wait_until("recovery has begun", lambda: "redo starts at" in self.server.log_since(logged), 3.0)
        else:
            self.server.start(wait=False)
        time.sleep(rng.randrange(delay_ms) / 1000)
        self.server.kill_all()
        log = self.server.log_since(logged)
        in_recovery = "redo starts at" in log and "redo done at" not in log
        if in_recovery:
            self.server.good_for = self.server.due
        self.killed_at["recovery" if in_recovery else "around recovery"] += 1

    # The log of what is on flash (src/warm.md): the server is killed where it is written, and where it is loaded.

    def stands(self, conn: pq.Connection, point: str, patience_ms: int) -> bool:
        """Does a process stand there, or come by so soon?"""
        conn.run(f"SET statement_timeout = {patience_ms}")
        try:
            conn.run_prepared("wait", point)
        except pq.SqlError:
            return False
        finally:
            conn.run("SET statement_timeout = 0")
        return True

    def prepare_to_arm(self, conn: pq.Connection) -> None:
        """What is prepared reads no catalog, which might be the first to stand at the point."""
        conn.run(sessions.FAILPOINT_SQL)
        conn.run(WAIT_SQL)
        conn.prepare("arm", "SELECT fc_failpoint($1::text, $2::text)")
        conn.prepare("wait", "SELECT fc_failpoint_wait($1::text)")

    def persists(self) -> bool:
        return self.server.conf["pg_flashcache.persistence"] == "on"

    def note_stamp(self, conn: pq.Connection) -> bool:
        """A start at the checkpoint of the stamp must load the log; is there no later one?"""
        for stamp, checkpoint in conn.run(STAMP_SQL):
            if not self.faults and self.wal_level != "minimal":
                self.server.good_for = lsn(stamp or "")
            return stamp == checkpoint
        return False

    def wait_stamp(self) -> bool:
        """Until a crash now would leave a log that is good, if it can be so soon."""
        if not self.persists():
            return False
        with self.server.connect() as conn:
            with contextlib.suppress(Failure):
                wait_until("the log is complete", lambda: self.note_stamp(conn), 3.0)
                return True
        return False

    def wait_stamp_at_work(self) -> None:
        self.wait_threads(0)  # who switches the cache off
        with contextlib.suppress(pq.Lost, pq.SqlError):  # the sessions may have taken all connections
            self.wait_stamp()

    def choose_moment(self) -> None:
        """Any; or one at which the log is complete, which the next start must then load."""
        if random.Random(f"{self.seed}/{self.round}/moment").random() < 0.5:
            self.wait_stamp_at_work()

    def stop_cleanly(self) -> None:
        """The next start must load what is on flash, if the log was written until now."""
        # A fast shutdown waits for who is held up by a pause point, and would end who could let them go.
        self.wait_threads(0)
        with self.server.connect() as conn:
            written = bool(conn.run(STAMP_SQL)) and not self.faults
        self.crashing = True
        self.server.stop("fast")
        self.server.good_for = self.server.checkpoint() if written else 0

    def touch(self, rng: random.Random, checkpoints: bool = True) -> None:
        """Changes pages, not rows; some are written, some by a checkpoint."""
        with self.server.connect(sessions.MAIN) as conn:
            conn.run(f"UPDATE shared SET gen = gen WHERE id % {rng.choice((7, 40, 200))} = {rng.randrange(7)}")
            if rng.random() < 0.4 and checkpoints:
                conn.run("CHECKPOINT")
        self.push_out()

    def push_out(self) -> None:
        with self.server.connect(sessions.MAIN, options="-c enable_seqscan=off -c enable_bitmapscan=off") as conn:
            conn.run("SELECT sum(length(pad)) FROM (SELECT pad FROM filler WHERE id > 0 ORDER BY id) f")

    def kill_in_log(self) -> bool:
        """Kill -9 of everything while the writer stands in a group or a stamp."""
        if not self.persists():
            return self.kill_server()
        rng = random.Random(f"{self.seed}/{self.round}/log")
        point = rng.choice(LOG_POINTS)
        self.join()
        self.crashing = True
        stood = False
        with self.server.connect() as conn:
            self.prepare_to_arm(conn)
            self.reset_settings(conn)
            self.disarm(conn)
            self.activate(conn)
            conn.run_prepared("arm", point, "pause")
            for _ in range(10):
                self.touch(rng)
                conn.run("CHECKPOINT")
                stood = self.stands(conn, point, 300)
                if stood:
                    self.note_stamp(conn)
                    break
        self.server.kill_all()
        self.killed_at[point if stood else f"not {point}"] += 1
        return True

    def kill_in_load(self) -> bool:
        """Kill -9 of everything, or a clean stop; and kill -9 of everything while the log is being loaded after it."""
        if not self.persists():
            return self.kill_server()
        rng = random.Random(f"{self.seed}/{self.round}/load")
        point = rng.choice(LOAD_POINTS)
        if rng.random() < 0.5:
            self.stop_cleanly()
        else:
            self.wait_stamp_at_work()
            self.crashing = True
            self.server.kill_all()
        self.server.start(arm=f"{point} pause")
        with self.server.connect() as conn:
            self.prepare_to_arm(conn)
            stood = self.stands(conn, point, 3000)
        # What is changed now, recovery has not touched.
        if stood and rng.random() < 0.7:
            self.touch(rng)
        self.server.kill_all()
        if stood and point == "warm_load" and self.wal_level != "minimal":
            self.server.good_for = self.server.due  # the log has been left alone
        self.killed_at[point if stood else f"not {point}"] += 1
        return True

    def kill_often(self) -> bool:
        """Kill -9 of everything, again and again: at any moment of recovery, of loading, and of work after it."""
        rng = random.Random(f"{self.seed}/{self.round}/often")
        self.kill_server()
        for _ in range(12 if self.options.kills else 6):
            if rng.random() < 0.4:
                self.server.start(wait=False)
                time.sleep(rng.random() * 0.5)
            else:
                self.server.start()
                self.server.wait_ready()
                with self.server.connect() as conn:
                    self.reset_settings(conn)
                    self.activate(conn)
                self.look_at_restored(self.server)
                for _ in range(rng.randrange(3)):
                    self.touch(rng)
                if rng.random() < 0.7:
                    self.wait_stamp()
                    if rng.random() < 0.5:
                        self.touch(rng)
                time.sleep(rng.random() * 0.3)
            self.server.kill_all()
            self.killed_at["any moment"] += 1
        return True

    def immediate(self) -> bool:
        self.crashing = True
        self.server.stop("immediate")
        return True

    def set_back(self) -> bool:
        """The data directory is set back to a copy of the stopped or killed server; what is on flash is of later.

        Later is the work of the sessions, or changed pages and no checkpoint. And the server may run without the library
        before the cache sees the data directory again: then the same places of the WAL have other records.
        """
        rng = random.Random(f"{self.seed}/{self.round}/back")
        self.join()
        self.drop_standby()
        with self.server.connect() as conn:
            self.reset_settings(conn)
            self.disarm(conn)
            self.activate(conn)
        crashed = rng.random() < 0.4
        if crashed:
            self.wait_stamp()
            self.crashing = True
            self.server.kill_all()
        else:
            self.stop_cleanly()
        copy = self.server.dir / "copy"
        shutil.copytree(self.server.data, copy, symlinks=True)
        memories, conf = [session.memory() for session in self.sessions], self.server.conf
        if rng.random() < 0.3:
            self.configure(rng, "")
        self.server.start()
        self.server.wait_ready()
        if rng.random() < 0.5:
            self.check_all(rng, crashed)
            self.round += 1  # other operations than before
            self.run_sessions(False)
        else:
            for _ in range(4):
                self.touch(rng, checkpoints=False)
        if rng.random() < 0.3:
            self.stop_cleanly()
        self.crashing = True
        self.server.kill_all()
        self.join()
        shutil.rmtree(self.server.data)
        copy.rename(self.server.data)
        for session, memory in zip(self.sessions, memories, strict=True):
            vars(session).update(memory)
        self.server.conf, self.server.good_for = conf, 0
        self.wal_level = conf["wal_level"]
        if rng.random() < 0.5:
            self.run_without_library(rng)
            crashed = True
        return crashed

    def run_without_library(self, rng: random.Random) -> None:
        """Until it is killed. It writes more WAL than flash has seen, or less."""
        self.server.configure(["shared_preload_libraries = ''"])
        self.server.start()
        with self.server.connect() as conn:
            conn.run(f"SELECT pg_logical_emit_message(false, 'x', repeat('x', {rng.choice((1, 30, 30))} << 20))")
        if rng.random() < 0.3:
            self.touch(rng, checkpoints=False)
        self.server.kill_all()
        self.server.configure(["shared_preload_libraries = 'pg_flashcache'"])

    def restart(self) -> bool:
        self.stop_cleanly()
        if "1" in run(["pg_controldata", str(self.server.data)]).split("checksum version:")[1].split("\n")[0]:
            self.server.remove_unfinished_tablespaces()
            run(["pg_checksums", "--check", f"--pgdata={self.server.data}"])
            self.passed += 1
        return False

    def quiet(self) -> bool:
        self.join()
        return False

    def end_writer(self) -> bool:
        """By SIGTERM: another one takes its place, without a crash."""
        pids = self.server.find("pg_flashcache writer")
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        wait_until("another writer is there", lambda: bool(set(self.server.find("pg_flashcache writer")) - set(pids)))
        return self.quiet()

    def promote(self) -> bool:
        """Failover: the primary is killed, and its standby takes over, with the cache that it has filled itself.

        What it has on flash is read and compared. The former primary may come back as its standby: by pg_rewind, with a flash
        of the history that has ended, or made anew. And that one may take over in turn. As to pg_rewind, the server that it has
        set back recovers from the last common checkpoint: see kill_standby for databases that are copied.
        """
        rng = random.Random(f"{self.seed}/{self.round}/promote")
        former = self.fail_over()
        how = rng.choice(("by pg_rewind", "by pg_rewind", "made anew", "not at all"))
        if how == "by pg_rewind" and not self.can_rewind:
            how = "made anew"
        again = rng.random() < 0.5
        self.came_back[how] += 1
        if how == "by pg_rewind":
            self.rewind(former)
        else:
            self.forget(former)
            if how == "not at all":
                return True
            self.add_standby()
        self.compare_standby()
        if again:
            self.check_all(rng, True, keep_standby=True)
            self.round += 1  # other operations than before
            self.run_sessions(True)
            self.came_back["and took over"] += 1
            self.forget(self.fail_over())
        return True

    def fail_over(self) -> Server:
        """Returns the former primary."""
        assert self.standby is not None
        self.crashing = True
        self.server.kill_all()
        self.read_log(self.server)
        former, self.server, self.standby = self.server, self.standby, None
        run(["pg_ctl", "--wait", "--silent", f"--pgdata={self.server.data}", "promote"])
        self.join()
        self.crashing = False
        self.look_at_flash(self.server)
        return former

    def rewind(self, former: Server) -> None:
        # Before 17 pg_rewind takes a tablespace in place on a running server for a link.
        running = self.major() >= 17
        if not running:
            self.stop_cleanly()
            self.crashing = False
        former.rewind(self.server)
        if not running:
            self.server.start()
            self.server.wait_ready()
            self.look_at_restored(self.server)
        self.start_standby(former)
        self.look_at_restored(former, of_another_history=True)

    def wait_standby(self, conn: pq.Connection, other: pq.Connection) -> None:
        lsn = conn.one("SELECT pg_current_wal_lsn()")
        wait_until("the standby has caught up", lambda: other.one(f"SELECT pg_last_wal_replay_lsn() >= '{lsn}'") == "t")

    def restartpoint(self) -> None:
        """A recovery of the standby begins here, or later."""
        assert self.standby is not None
        with self.server.connect() as conn, self.standby.connect() as other:
            conn.run("CHECKPOINT")
            self.wait_standby(conn, other)
            other.run("CHECKPOINT")

    def kill_standby(self) -> bool:
        """The standby crashes, recovers and catches up; what it then has in its tables is what the primary has.

        A standby recovers from its last restartpoint and copies once more a database that was moved, or copied file by
        file, since then: from a folder that is gone or has changed meanwhile. That is how PostgreSQL loses such a
        database, with or without a cache; so no session does that in this round (safe_copies).
        """
        assert self.standby is not None
        rng = random.Random(f"{self.seed}/{self.round}/standby")
        victims = self.standby.find(rng.choice(("startup", "flashcache writer", "checkpointer")))
        self.quiet()
        how = rng.random()
        if how < 0.2:
            self.standby.stop("fast")
        elif how < 0.6 or not victims:
            self.standby.kill_all()
        else:
            self.standby.kill_child(victims[0])
            standby = self.standby
            time.sleep(0.5)  # it may come back, or give up: both are right, and both are waited for below
            if not standby.accepts():
                standby.kill_all()
        if self.standby.postmaster() is None:
            self.standby.start()
        self.standby.wait_ready()
        self.look_at_restored(self.standby)
        self.compare_standby()
        return False

    def compare_standby(self) -> None:
        """It has caught up, and has the same rows.

        A transaction that has ended with a former primary, without a record of that, keeps its locks on a standby until a
        record of a checkpoint says that it can't run any more; which none says while an older one is prepared (PostgreSQL's
        own, StandbyReleaseOldLocks).
        """
        assert self.standby is not None
        rng = random.Random(f"{self.seed}/{self.round}/compare")
        for session in self.sessions:
            if isinstance(session, sessions.TwoPhase):
                session.settle()
                session.finish_prepared(rng)
        with self.server.connect() as conn, self.standby.connect(sessions.MAIN) as other:
            conn.run("CHECKPOINT")
            self.wait_standby(conn, other)
            with self.server.connect(sessions.MAIN) as here:
                for table in ("shared", "w0_x", "w1_x", "w2_y"):
                    sql = f"SELECT count(*), coalesce(sum(id), 0), coalesce(sum(gen), 0), count(*) FILTER (WHERE val <> val(gen, id)) FROM {table}"
                    if here.run(sql) != other.run(sql):
                        raise Failure(f"{table} on the standby: {other.run(sql)}; on the primary: {here.run(sql)}")
            self.check_counters(other)

    EVENTS: dict[str, Callable[[Torture], bool]] = {
        "kill_server": kill_server,
        "kill_backend": kill_backend,
        "kill_writer": lambda self: self.kill_child("pg_flashcache writer"),
        "kill_checkpointer": lambda self: self.kill_child("checkpointer"),
        "kill_background_writer": lambda self: self.kill_child("background writer"),
        "kill_autovacuum": lambda self: self.kill_child("autovacuum"),
        "kill_postmaster": kill_postmaster,
        "crash_in_recovery": crash_in_recovery,
        "kill_in_log": kill_in_log,
        "kill_in_load": kill_in_load,
        "kill_often": kill_often,
        "set_back": set_back,
        "immediate": immediate,
        "restart": restart,
        "quiet": quiet,
        "end_writer": end_writer,
        "promote": promote,
        "kill_standby": kill_standby,
    }
    WITH_STANDBY = ("promote", "kill_standby")
    NO_KILLS = ("immediate", "restart", "quiet", "end_writer", "kill_autovacuum")

    def next_event(self) -> str:
        """From a shuffled deck, so that none is left out for long; a failover is among the first, however short the run."""
        if not self.deck:
            self.deck = list(self.options.events)
            random.Random(f"{self.seed}/{self.round}/deck").shuffle(self.deck)
            if self.round == 0 and "promote" in self.deck[:-2]:
                self.deck.remove("promote")
                self.deck.insert(len(self.deck) - 1, "promote")
        return self.deck[-1]

    # ---- a round ----

    def wait_threads(self, last: int = 2) -> None:
        """All end, in the order of Session.ends; or those up to `last`."""
        deadline = time.monotonic() + ROUND_PATIENCE_S
        for turn in range(last + 1):
            self.stops[turn].set()
            for session, thread in self.threads.items():
                if session.ends == turn:
                    thread.join(max(0.0, deadline - time.monotonic()))
                    if thread.is_alive():
                        raise Failure(f"{session.name} has not ended: {self.activity()}")

    def join(self) -> None:
        self.wait_threads()
        for session in (*self.sessions, self.standby_reader):
            session.disconnect()
        self.report_failures()

    def check_counters_of_round(self) -> None:
        with self.server.connect() as conn:
            self.check_counters(conn)

    def report_failures(self) -> None:
        failures = [s.failure for s in (*self.sessions, self.standby_reader) if s.failure is not None]
        if failures:
            raise Failure("\n".join(failures))

    def activity(self) -> str:
        try:
            with self.server.connect() as conn:
                rows = conn.run("SELECT pid, application_name, state, wait_event_type, wait_event, left(query, 100) FROM pg_stat_activity")
                return "\n".join(str(row) for row in rows)
        except (pq.Lost, pq.SqlError) as error:
            return str(error)

    def play(self) -> None:
        """One round."""
        self.round += 1
        event = self.next_event()
        self.deck.pop()
        rng = random.Random(f"{self.seed}/{self.round}")
        self.faults = rng.random() < 0.35
        self.widen = rng.random() < 0.6
        self.target = int(self.options.operations * rng.uniform(*SPREAD))
        began = time.monotonic()
        if event in self.WITH_STANDBY and self.wal_level == "minimal":
            self.server.stop("fast")
            self.configure(rng, event)
            self.server.start()
            self.server.wait_ready()
            self.look_at_restored(self.server)
        if event in self.WITH_STANDBY and self.standby is None:
            self.add_standby()
        standby = self.standby is not None
        self.safe_copies = event in self.WITH_STANDBY
        if self.safe_copies:
            self.restartpoint()
        before = sum(self.operations.values())
        self.run_sessions(standby)
        worked = time.monotonic() - began
        self.check_counters_of_round()
        crashed = self.EVENTS[event](self)
        self.events[event] += 1
        self.join()
        self.crashing = False
        stopped = self.server.postmaster() is None
        if stopped:
            self.configure(rng, self.next_event())
            self.server.start()
        self.check_all(rng, crashed, stopped or (crashed and event != "promote"))
        hits = self.sums["hits"]
        self.say(
            f"{event}{' of faults' if self.faults else ''}{', widened' if self.widen else ''}{', with a standby' if standby else ''}: "
            f"{sum(self.operations.values()) - before} operations in {worked:.1f} s, all well after {time.monotonic() - began:.1f} s; "
            f"{hits} hits so far"
        )

    def start_sessions(self, standby: bool) -> None:
        for stop in self.stops:
            stop.clear()
        self.enough.clear()
        self.crashing = False
        self.terminated.clear()
        self.in_round = 0
        crew = [*self.sessions, self.standby_reader] if standby else self.sessions
        self.threads = {}
        for session in crew:
            self.threads[session] = threading.Thread(target=session.work, args=(self.round, self.stops[session.ends]), name=session.name, daemon=True)
        for thread in self.threads.values():
            thread.start()

    def run_sessions(self, standby: bool) -> None:
        self.start_sessions(standby)
        deadline = time.monotonic() + ROUND_PATIENCE_S
        while not self.enough.wait(0.1):
            self.report_failures()
            if time.monotonic() > deadline:
                raise Failure(f"only {self.in_round} operations of {self.target} in {ROUND_PATIENCE_S:.0f} s:\n{self.activity()}")

    def read_log(self, server: Server) -> None:
        bad = server.log_complaints(server.new_log(), self.faults)
        if bad:
            raise Failure(f"{server.log} has\n" + "\n".join(bad[:20]))

    def check_all(self, rng: random.Random, crashed: bool, started: bool = True, keep_standby: bool = False) -> None:
        server = self.server
        server.wait_ready()
        with server.connect() as conn:
            self.reset_settings(conn)
            self.disarm(conn)
            self.activate(conn)
        if started:
            self.look_at_restored(server)
        for session in self.sessions:
            session.settle()
        for session in self.sessions:
            session.finish_prepared(rng)
        for session in self.sessions:
            session.check(rng, crashed)
            session.disconnect()
            self.passed += 1
        self.amcheck(rng)
        with server.connect() as conn:
            self.check_counters(conn)
            if self.faults:
                self.forget_faults(conn)  # the next round has none, perhaps
        self.read_log(server)
        if self.standby is not None:
            with self.standby.connect() as conn:
                self.check_counters(conn)
            self.read_log(self.standby)
            if (rng.random() < 0.5 and not keep_standby) or self.wal_level == "minimal":
                self.drop_standby()
        self.passed += 2

    def look_at_restored(self, server: Server, of_another_history: bool = False) -> None:
        """Was the log loaded, where it must have been?  Then each page that it has restored is read, and with verify compared."""
        due, server.due = server.due, 0
        with server.connect() as conn:
            refused, loaded, writing = conn.run("SELECT refused, loaded_at, writing FROM pg_stat_flashcache_persistence")[0]
        how = "without persistence" if writing is None else f"cold: {refused}" if loaded is None else "warm"
        self.starts[GIVEN.sub("N", how)] += 1
        self.starts["that had to be warm"] += due > 0
        if due and loaded is None:
            raise Failure(f"the log was complete for the checkpoint at which the server has started, and was not loaded: {refused}")
        if of_another_history and loaded is not None:
            raise Failure("after pg_rewind the log of the history that has ended was loaded")
        self.read_flash(server)
        with server.connect() as conn:
            values = conn.run(f"SELECT {', '.join(RESTORED)} FROM pg_stat_flashcache_persistence")[0]
            entries = {name: int(value or 0) for name, value in zip(RESTORED, values, strict=True)}
            self.restored.update(entries)
            self.check_counters(conn)
        self.say(f"started {how}{', as it had to' if due else ''}; {', '.join(f'{n} {name}' for name, n in entries.items() if n)}")
        self.passed += 1

    def look_at_flash(self, server: Server) -> None:
        """Of a server that was promoted: what it has on flash is right, as far as can be seen by reading it."""
        with server.connect() as conn:
            self.reset_settings(conn)
            self.disarm(conn)
            self.activate(conn)
            self.check_counters(conn)
            there = int(conn.one("SELECT used FROM pg_stat_flashcache") or 0)
            before = self.sums["verify_checks"]
            self.read_flash(server)
            self.check_counters(conn)
        self.restored["compared at failovers"] += self.sums["verify_checks"] - before
        self.say(f"promoted with {there} pages on flash; {self.sums['verify_checks'] - before} hits compared")
        self.passed += 1

    def read_flash(self, server: Server) -> None:
        """Each page on flash is read through the buffer pool, and compared with the disk."""
        with server.connect() as conn:
            databases = conn.one(
                "SELECT coalesce(string_agg(DISTINCT datname, ' '), '')"
                " FROM pg_flashcache_pages JOIN pg_database d ON d.oid = reldatabase AND datallowconn AND datconnlimit <> -2"
            )
        for database in databases.split():
            with server.connect(database, options="-c pg_flashcache.verify=on") as conn:
                conn.run("SET lock_timeout = '50ms'")  # a prepared transaction may have locked the relation, or made it
                for relation, blocks in conn.run(RESTORED_SQL):
                    with contextlib.suppress(pq.SqlError):
                        conn.run(READ_SQL.format(relation, blocks))

    def fill_flash(self) -> set[str]:
        """Most pages of the table that nobody changes are there: which?"""
        with self.server.connect(sessions.MAIN) as conn:

            def most() -> bool:
                self.push_out()
                return len(self.on_flash(conn)) >= sessions.FILLER_ROWS * 3 // 4

            wait_until("a table is on flash", most)
            there = self.on_flash(conn)
            conn.run("CHECKPOINT")  # the log is complete when this one has its stamp
            return there

    def on_flash(self, conn: pq.Connection) -> set[str]:
        return {block or "" for (block,) in conn.run(FILLER_SQL)}

    def check_persistence(self) -> None:
        """At the end, so that no run passes without it: after a kill, and after a clean stop, all of a table is there again."""
        self.drop_standby()
        self.faults = False
        self.server.stop("fast")
        # The pages are on the first device, or on others.
        size = {"pg_flashcache.size": "2MB"} if self.several else {}
        self.configure(random.Random(f"{self.seed}/persistence"), "", PROOF_CONF | size)
        self.server.start()
        self.server.wait_ready()
        if self.several:
            self.devices.prepare_proof()
        with self.server.connect(sessions.MAIN) as conn:
            conn.run("SELECT pg_flashcache_set_policy('filler'::regclass, 'normal')")
        for clean in (False, True):
            before = self.fill_flash()
            if clean:
                self.stop_cleanly()
            else:
                self.wait_stamp()
                self.server.kill_all()
            self.server.start()
            if not self.server.due:
                raise Failure("the log of what is on flash does not become complete")
            self.server.wait_ready()
            with self.server.connect(sessions.MAIN) as conn:
                lost = before - self.on_flash(conn)
            if len(lost) > (TRIAL_PAGES if self.several else 0):
                raise Failure(f"of {len(before)} pages that nobody has changed {len(lost)} are not restored")
            self.look_at_restored(self.server)
            self.passed += 1
        self.read_log(self.server)

    def forget_faults(self, conn: pq.Connection) -> None:
        """A page that was spoiled on its way to the device is found when somebody reads it, much later perhaps."""
        if conn.run("SELECT state FROM pg_stat_flashcache")[0][0] in ("off", "paused"):
            conn.run("SELECT pg_flashcache_enable()")
        conn.run("SELECT pg_flashcache_scrub(true)")
        conn.run("SELECT pg_flashcache_reset_stats()")

    def reset_settings(self, conn: pq.Connection) -> None:
        conn.run("ALTER SYSTEM RESET ALL")
        if self.standby is not None:
            conn.run("ALTER SYSTEM SET synchronous_standby_names = '*'")
        conn.run("SELECT pg_reload_conf()")

    def disarm(self, conn: pq.Connection) -> None:
        """A session that was cut off may have left a point armed, where the server has lived on."""
        conn.run(sessions.FAILPOINT_SQL)
        for point in {point for point, _ in (*sessions.PAUSES, *sessions.DEVICE_FAULTS)}:
            conn.run(f"SELECT fc_failpoint('{point}', 'off')")

    def activate(self, conn: pq.Connection) -> None:
        """What was switched off comes back: by a setting, by itself, or by hand."""

        def active() -> bool:
            if conn.one("SELECT state FROM pg_stat_flashcache") == "off":
                conn.run("SELECT pg_flashcache_enable()")
            return conn.one("SELECT state FROM pg_stat_flashcache") == "active"

        wait_until("the cache is active", active)

    def amcheck(self, rng: random.Random) -> None:
        """An index that could not be made is not checked: it goes first."""
        deeper = ["--parent-check", "--rootdescend"] if rng.random() < 0.3 else []
        with self.server.connect(sessions.MAIN) as conn:
            for (name,) in conn.run("SELECT indexrelid::regclass FROM pg_index WHERE NOT indisvalid"):
                conn.run(f"DROP INDEX {name}")
            if conn.run("SELECT FROM pg_proc WHERE proname = 'gin_index_check'"):
                conn.run(
                    "SELECT gin_index_check(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam"
                    " WHERE a.amname = 'gin' AND c.relkind = 'i'"
                )
        run(
            ["pg_amcheck", f"--host={self.server.dir}", "--port=5432", "--username=postgres", "--all", "--install-missing"]
            + ["--heapallindexed", *deeper]
        )
        self.passed += 1

    # ---- the whole ----

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.began:6.0f} s] round {self.round}: {text}", flush=True)

    def command(self) -> str:
        server = os.environ.get("FC_PG_MAJOR", "15")
        events = "" if list(self.options.events) == list(self.EVENTS) else f" --events {','.join(self.options.events)}"
        persistence = "" if self.options.persistence == "drawn" else f" --persistence {self.options.persistence}"
        return (
            f"test/torture/run --server {server} --seed {self.seed} --rounds {max(1, self.round)}"
            f" --operations {self.options.operations}{events}{persistence}"
        )

    def rounds(self) -> None:
        deadline = self.began + self.options.minutes * 60

        def more() -> bool:
            if self.options.kills:
                return Server.kills < self.options.kills
            return self.round < self.options.rounds if self.options.rounds else time.monotonic() < deadline

        while more():
            self.play()
        if self.options.persistence != "off":
            self.check_persistence()
        if self.sums["verify_checks"] == 0 or self.sums["inserts"] == 0:
            raise Failure(f"the cache was not used: {dict(self.sums)}")

    def summary(self) -> None:
        print(f"kills: {Server.kills}")
        counted = {"events": self.events, "operations": self.operations, "killed at": self.killed_at}
        for what, counts in (counted | {"starts": self.starts, "former primaries": self.came_back, "entries": self.restored, "cache": self.sums}).items():
            print(f"{what}: " + ", ".join(f"{n} {name}" for name, n in sorted(counts.items())))
        if self.server.in_the_way:
            print("started twice, as these files were in recovery's way: " + ", ".join(self.server.in_the_way))

    def close(self) -> None:
        self.crashing = True
        for stop in self.stops:
            stop.set()
        for server in (self.server, self.standby):
            if server is not None:
                server.clean_up()


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2.0, help="no new round after so many (default 2)")
    parser.add_argument("--rounds", type=int, default=0, help="so many rounds, however long they take")
    parser.add_argument("--kills", type=int, default=0, help="until so many servers or processes were killed; short rounds, no other events")
    persistence = "pg_flashcache.persistence (default: drawn for each start)"
    parser.add_argument("--persistence", choices=("drawn", "on", "off"), default="drawn", help=persistence)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--operations", type=int, default=0, help="of all sessions in a round, on the average (default 1500; with --kills 300)")
    parser.add_argument("--events", default="", help="only these, separated by commas: " + ", ".join(Torture.EVENTS))
    parser.add_argument("--health", action="store_true", help="no events; memory, descriptors and locks are sampled")
    parser.add_argument("--without-cache", action="store_true", help="with --health: the library is not loaded, to compare")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between samples of --health")
    parser.add_argument("directory", nargs="?", default="")
    options = parser.parse_args(arguments)
    options.operations = options.operations or (300 if options.kills else 1500)
    usual = [e for e in Torture.EVENTS if e not in Torture.NO_KILLS] if options.kills else list(Torture.EVENTS)
    options.events = [e for e in options.events.split(",") if e] or usual
    if options.without_cache and not options.health:
        parser.error("--without-cache goes with --health")
    unknown = set(options.events) - set(Torture.EVENTS)
    if unknown:
        parser.error(f"no such event: {', '.join(sorted(unknown))}")
    return options


def main() -> int:
    options = parse(sys.argv[1:])
    if os.getuid() == 0:
        print("PostgreSQL does not run as root; test/torture/run takes care of that", file=sys.stderr)
        return 2
    made = not options.directory
    directory = pathlib.Path(options.directory or tempfile.mkdtemp(prefix="fc-torture.")).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    torture = Torture(options, directory)
    kept = f"kept in {directory}" if made else f"in {directory}, which test/torture/run keeps with --keep only"
    status = 1
    try:
        print(f"seed {torture.seed}: {torture.command()}", flush=True)
        torture.make()
        if options.health:
            health.watch(torture)
        else:
            torture.rounds()
        torture.passed += 1
        status = 0
    except Exception as error:
        torture.failed += 1
        found = error if isinstance(error, (Failure, pq.SqlError, pq.Lost)) else traceback.format_exc()
        print(f"not ok: {found}\nin {torture.command()}\n{kept}", flush=True)
    finally:
        torture.close()
    torture.summary()
    if made and status == 0:
        shutil.rmtree(directory, ignore_errors=True)
    print(f"{torture.passed} passed, {torture.failed} failed")
    return status


if __name__ == "__main__":
    sys.exit(main())
