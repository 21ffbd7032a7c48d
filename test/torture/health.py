"""Does a server with the cache stay as it is, hour after hour? Memory, descriptors, locks and counters, sampled.

The sessions of the torture work without an end and without a crash. Every few seconds each process of the server is
looked at; the samples go to DIR/samples.jsonl, one line each. At the end there is a verdict, as a table (DIR/health.md):

memory      what a process has for itself (Private_* of smaps_rollup). The slope of a series is the median of the slopes
            between all pairs of its samples (Theil and Sen), so that single steps do not make it; the first quarter,
            in which the server's caches of catalogs fill, is left out. Flat: the growth that this slope makes over the
            rest is within BOUND_KB. Of processes that were there from the first quarter to the end.
descriptors counted by what they lead to. To the cache: at most one a process, none in the cache's writer, one exactly in
            its device process; rings of io_uring: the same number in every sample after the first quarter. Sockets and the like: the same in every
            tenth of the time, at the least; a connection that the postmaster is about to hand over is one more for a moment.
            Data files are left out, which the server opens and closes as it likes.
locks       nobody waits for a lock of the cache in two samples running; at the end, with all sessions at rest, nobody holds a
            heavyweight lock, and the cache can be switched off and on, which takes each of its own locks.
counters    of trouble: 0. Of work: still growing in every tenth of the time.
shared      what the cache has allocated of shared memory: the same at the beginning and at the end.

With --without-cache the library is not loaded, and what the server's processes do by themselves is seen: the same load,
the same table, nothing of the cache; it passes whatever it shows.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import pathlib
import random
import statistics
import time
from typing import TYPE_CHECKING

import pq
from cluster import TROUBLE, Failure, children_of, title, wait_until

if TYPE_CHECKING:
    from torture import Torture

WARM_UP = 0.25  # of the time
WRITER = "pg_flashcache writer"
OPEN = {WRITER: [0], "pg_flashcache device": [1]}  # descriptors of the cache that these processes have
# The cache's writer and the server's other processes allocate once; sessions keep what they know of tables that come and go.
BOUND_KB = {"server process": 128.0, "session": 1024.0}


def private_kb(pid: int) -> int:
    lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def descriptors(pid: int, flash: str, data: str) -> dict[str, int]:
    kinds: collections.Counter[str] = collections.Counter(flash=0, uring=0, data=0, other=0)
    for entry in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/{pid}/fd/{entry}")
            kinds["flash" if target == flash else "uring" if "io_uring" in target else "data" if target.startswith(data) else "other"] += 1
    return dict(kinds)


def theil_sen(points: list[tuple[float, float]]) -> float:
    slopes = [(y2 - y1) / (x2 - x1) for i, (x1, y1) in enumerate(points) for x2, y2 in points[i + 1 :] if x2 > x1]
    return statistics.median(slopes) if slopes else 0.0


def least_by_tenth(points: list[tuple[float, int]]) -> list[int]:
    step = max(1, len(points) // 10)
    return [min(n for _, n in points[i : i + step]) for i in range(0, len(points) - step + 1, step)]


class Watch:
    def __init__(self, torture: Torture) -> None:
        self.torture = torture
        self.server = torture.server
        self.file = open(torture.dir / "samples.jsonl", "w", buffering=1)
        self.series: dict[int, list[tuple[float, dict[str, int]]]] = {}
        self.names: dict[int, str] = {}
        self.counters: list[tuple[float, dict[str, int]]] = []
        self.waiting: set[int] = set()
        self.problems: list[str] = []

    def take(self, conn: pq.Connection, at: float) -> None:
        postmaster = self.server.postmaster()
        if postmaster is None:
            raise Failure("the postmaster is gone")
        sample: dict[str, object] = {"at": round(at, 1)}
        processes: dict[str, object] = {}
        sessions: dict[str | None, str | None] = dict(conn.run("SELECT pid, coalesce(nullif(application_name, ''), backend_type) FROM pg_stat_activity"))
        writers = self.server.find(WRITER)
        for pid in [postmaster, *children_of(postmaster), *(child for writer in writers for child in children_of(writer))]:
            try:
                now = {"private": private_kb(pid)} | descriptors(pid, str(self.server.dir / "flash"), str(self.server.data))
            except OSError:
                continue  # it has ended meanwhile
            name = "postmaster" if pid == postmaster else sessions.get(str(pid)) or title(pid).removeprefix("postgres: ").strip()
            # A session is not named yet when it has just begun.
            if pid not in self.names or str(pid) in sessions:
                self.names[pid] = name
            self.series.setdefault(pid, []).append((at, now))
            processes[str(pid)] = {"name": name, **now}
        sample["processes"] = processes

        locks = conn.run("SELECT count(*), count(*) FILTER (WHERE NOT granted) FROM pg_locks WHERE pid <> pg_backend_pid()")
        sample["locks"], sample["locks_waited_for"] = int(locks[0][0] or 0), int(locks[0][1] or 0)
        waiting = {int(row[0] or 0) for row in conn.run("SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'LWLock' AND wait_event = 'pg_flashcache'")}
        sample["waiting_for_ours"] = sorted(waiting)
        if waiting & self.waiting:
            self.problems.append(f"processes {waiting & self.waiting} wait for a lock of the cache in two samples running")
        self.waiting = waiting

        counters = {} if self.torture.without_cache else self.counters_of_cache(conn)
        counters["operations"] = sum(self.torture.operations.values())
        self.counters.append((at, counters))
        sample["counters"] = counters
        self.file.write(json.dumps(sample) + "\n")
        for name in TROUBLE:
            if counters.get(name):
                raise Failure(f"{name} is {counters[name]} after {at:.0f} s")

    def counters_of_cache(self, conn: pq.Connection) -> dict[str, int]:
        columns = [row[0] for row in conn.run("SELECT attname FROM pg_attribute WHERE attrelid = 'pg_stat_flashcache'::regclass AND attnum > 0 AND atttypid = 'int8'::regtype")]
        values = conn.run(f"SELECT {', '.join(c or '' for c in columns)} FROM pg_stat_flashcache")[0]
        return {str(c): int(v or 0) for c, v in zip(columns, values, strict=True)}

    def verdict(self, span: float) -> list[str]:
        """Rows of the table; what is wrong is in `problems`."""
        warm = span * WARM_UP
        rows: list[str] = []
        missing = set() if self.torture.without_cache else set(OPEN)
        for pid, series in sorted(self.series.items(), key=lambda item: self.names[item[0]]):
            name = self.names[pid]
            if any(now["flash"] > 1 for _, now in series):
                self.problems.append(f"{name} {pid} had the cache open more than once")
            late = [(at, now) for at, now in series if at >= warm]
            if series[0][0] > warm or not late or late[-1][0] < span * 0.95 or len(late) < 5:
                continue
            points = [(at, float(now["private"])) for at, now in late]
            growth = theil_sen(points) * (points[-1][0] - points[0][0])
            kind = "session" if name in {s.name for s in self.torture.sessions} else "server process"
            flat = growth <= BOUND_KB[kind]
            counts = {of: sorted({now[of] for _, now in late}) for of in ("flash", "uring")}
            counts["other"] = sorted(set(least_by_tenth([(at, now["other"]) for at, now in late])))
            steady = all(len(c) == 1 for c in counts.values())
            if counts["flash"] != OPEN.get(name, counts["flash"]):
                steady = False
            if not flat:
                self.problems.append(f"{name} {pid} has grown by {growth:.0f} kB in {points[-1][0] - points[0][0]:.0f} s")
            if not steady:
                self.problems.append(f"{name} {pid}: its descriptors were not constant: {counts}")
            descriptors = ", ".join(" or ".join(map(str, counts[of])) for of in ("flash", "uring", "other"))
            rows.append(
                f"| {name} | {points[0][1]:.0f} | {points[-1][1]:.0f} | {growth:.1f} | {BOUND_KB[kind]} | {descriptors}"
                f" | {'yes' if flat and steady else 'no'} |"
            )
            missing.discard(name)
        self.problems += [f"{name} was not there all the time" for name in sorted(missing)]
        for name in ("operations",) if self.torture.without_cache else ("operations", "hits", "inserts"):
            for tenth in range(10):
                values = [c[name] for at, c in self.counters if span * tenth / 10 <= at < span * (tenth + 1) / 10]
                if len(values) > 1 and max(values) == min(values):
                    self.problems.append(f"{name} stood still in tenth {tenth + 1} of the time")
        return rows


def at_rest(torture: Torture, watch: Watch) -> None:
    rng = random.Random(f"{torture.seed}/rest")
    for session in torture.sessions:
        session.finish_prepared(rng)
    with torture.server.connect() as conn:
        held = "SELECT pid, locktype, mode, relation FROM pg_locks WHERE pid <> pg_backend_pid() AND pid IN (SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend')"
        wait_until("no session holds a lock", lambda: not conn.run(held), 20.0)
        if torture.without_cache:
            return
        # Forgetting everything takes each lock of the cache exclusively.
        for value, state in (("off", "disabled"), ("on", "active")):
            conn.run(f"ALTER SYSTEM SET pg_flashcache.enabled = {value}")
            conn.run("SELECT pg_reload_conf()")
            wait_until(f"the cache is {state}", lambda state=state: conn.one("SELECT state FROM pg_stat_flashcache") == state, 20.0)


def shared_memory(conn: pq.Connection) -> list[pq.Row]:
    return conn.run("SELECT name, size FROM pg_shmem_allocations WHERE name LIKE 'pg_flashcache%' ORDER BY name")


def watch(torture: Torture) -> None:
    span = torture.options.minutes * 60
    watcher = Watch(torture)
    torture.target = 1 << 62
    # Nobody is cut off here, and switching the cache off would only make the samples say less.
    torture.widen = torture.faults = False
    torture.calm = True
    torture.round = 1
    if torture.without_cache:
        torture.server.stop("fast")
        torture.server.configure(["shared_preload_libraries = ''"])
        torture.server.start()
        torture.server.wait_ready()
    conn = torture.server.connect(name="health")
    allocated = shared_memory(conn)
    began = time.monotonic()
    torture.start_sessions(False)
    while (at := time.monotonic() - began) < span:
        watcher.take(conn, at)
        torture.report_failures()
        time.sleep(max(0.0, torture.options.every - (time.monotonic() - began - at)))
    watcher.take(conn, span)
    torture.wait_threads()
    at_rest(torture, watcher)
    if shared_memory(conn) != allocated:
        watcher.problems.append(f"shared memory: {shared_memory(conn)}; at the beginning {allocated}")
    conn.close()
    rows = watcher.verdict(span)
    torture.join()
    if not torture.without_cache:
        torture.check_counters_of_round()
    torture.read_log(torture.server)
    report(torture, watcher, rows, span)
    if watcher.problems and not torture.without_cache:
        raise Failure("\n".join(watcher.problems))


def report(torture: Torture, watcher: Watch, rows: list[str], span: float) -> None:
    last = watcher.counters[-1][1]
    text = "\n".join(
        [
            f"{span:.0f} s, {last['operations']} operations, {last.get('hits', 0)} hits, {last.get('inserts', 0)} inserts, "
            f"{len(watcher.counters)} samples; seed {torture.seed}",
            "",
            "| process | private kB after warm-up | at the end | growth kB | bound kB | flash, rings, others | flat |",
            "|---|---|---|---|---|---|---|",
            *rows,
            *(f"- {problem}" for problem in watcher.problems),
        ]
    )
    (torture.dir / "health.md").write_text(text + "\n")
    print(text, flush=True)
