"""How warm is the server in its first seconds, with persistence on? The load runs before the end of the server and again from its
first connection on; the disk keeps its real speed throughout, and the kernel's page cache is emptied in between, as by a boot.

clean          a fast stop under load (`pg_ctl restart -m fast`)
crash          kill -9 of all processes under load
crash_writes   the same with 5% updates, some 20 s after a checkpoint: recovery changes pages, which are not restored
off            a fast stop with persistence off: what a restart costs without it
restore        a million pages on flash: how fast the log is loaded, and when the cache is active

Published for comparison: Do, Zhang, Patel and DeWitt, "Fast peak-to-peak behavior with SSD buffer pool" (ICDE 2013), for SQL Server
2012, TPC-C and TPC-E: up to 3.8 times as fast back at the peak as with a cache that starts empty.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal

from bench.figures.writes import UPDATE
from bench.harness import DATABASE, GAUSSIAN, LOADING, Bench, rotated, say
from pgflash.lab.cluster import Cluster, Counters
from pgflash.lab.failover import end_under
from pgflash.system import free_bytes
from pgflash.units import MB

ARMS = ("clean", "crash", "crash_writes")
GOALS = {"clean": "at least 0.95", "crash": "at least 0.90", "crash_writes": "for comparison", "off": "for comparison"}
# After a crash nothing is accepted with wal_level = minimal.
PERSISTENT = {"pg_flashcache.persistence": "on", "wal_level": "replica"}
SOURCES = ("pg_stat_flashcache_persistence", "(SELECT * FROM pg_stat_database WHERE datname = current_database())")
MOMENT = re.compile(r"^(\S+ \S+) .*?(starting PostgreSQL|ready to accept connections|pg_flashcache is active)", re.MULTILINE)
# One row a page. WAL that nobody needs, hint bits and a page cache full of dirty pages would take longer than the figure.
MANY_PAGES = """
BEGIN;
CREATE TABLE pages (id int, filler text);
ALTER TABLE pages ALTER filler SET STORAGE PLAIN;
INSERT INTO pages SELECT i, repeat('x', 7900) FROM generate_series(1, {pages}) i;
COMMIT;
CHECKPOINT;
"""


def numbers(cluster: Cluster) -> Counters:
    return cluster.counters(DATABASE, *SOURCES)


def moments(cluster: Cluster, log: int) -> dict[str, float]:
    """Seconds from the start to the first connection, and until the cache was active; log: its size when the server was started."""
    found: dict[str, datetime] = {}
    for at, what in MOMENT.findall(cluster.log.read_bytes()[log:].decode("utf-8", "replace")):
        found.setdefault(what, datetime.fromisoformat(at))
    began, ready, active = (found[what] for what in ("starting PostgreSQL", "ready to accept connections", "pg_flashcache is active"))
    return {"connection_s": (ready - began).total_seconds(), "active_s": (active - began).total_seconds()}


def window(bench: Bench, cluster: Cluster, load: Sequence[str]) -> dict[str, float | int]:
    """What the load got. What the buffer loader reads is neither a hit nor an access of it. The page cache, which is empty after the
    restart, answers for pages on flash before it: that is no hit, and on_flash counts both."""
    before, reads = numbers(cluster), bench.disk.reads()
    result = cluster.pgbench("-T", str(bench.seconds(10)), *load)
    now, reads = numbers(cluster), bench.disk.reads() - reads
    counted = {name: now[name] - before.get(name, 0) for name in now}
    loaded = counted.get("buffers_loaded", 0)
    hits, accesses = counted["hits"] - loaded, counted["blks_hit"] + counted["blks_read"] - loaded
    wanted = max(1, hits + counted["misses"])
    return {
        "tps": round(result.tps, 1), "average_ms": result.average_ms, "hit_ratio": round(hits / wanted, 4),
        "on_flash": round((hits + counted["os_cache_hits"]) / wanted, 4), "without_disk": round(1 - reads / accesses, 5),
        "disk_reads_per_s": reads // bench.seconds(10), "buffer_misses": wanted,
    }  # fmt: skip


def restart(bench: Bench, cluster: Cluster, arm: str, rep: int, load: Sequence[str]) -> None:
    """Of a warm server; what the last arm has left of it is filled up first."""
    record, limit = bench.record, bench.limit_words(cluster)
    cluster.let_pause(DATABASE, False)
    cluster.sql(DATABASE, "CHECKPOINT")
    cluster.pgbench("-T", "10", *load)
    cluster.let_pause(DATABASE, True)
    bench.disk.slow()
    record.add(f"{arm}.before", rep, **window(bench, cluster, load), limit=limit, disk=bench.disk.name)
    stop_s = end_under(lambda: cluster.pgbench("-T", "20", *load), cluster.kill if arm.startswith("crash") else cluster.stop)
    cluster.forget()
    log = cluster.log.stat().st_size
    cluster.start_again()
    after = window(bench, cluster, load)
    bench.disk.fast()
    record.add(f"{arm}.after", rep, **after, stop_s=stop_s, **moments(cluster, log), **restored(cluster), limit=limit, disk=bench.disk.name)


def restored(cluster: Cluster) -> dict[str, int | str]:
    """What became of the log, and of shared_buffers."""
    names = ("restored", "not_restored_touched", "not_restored_removed", "load_time_us", "buffers_listed", "buffers_copied",
        "buffers_copy_time_us", "buffers_loaded", "buffers_load_time_us", "restored_wrong")  # fmt: skip
    now = numbers(cluster)
    refused = cluster.sql(DATABASE, "SELECT refused FROM pg_stat_flashcache_persistence")
    return {name: now[name] for name in names if name in now} | ({"refused": refused} if refused else {})


def figure(bench: Bench) -> None:
    scale = bench.scale(100)
    restore(bench, scale * 10_000)
    say(f"loading scale {scale}")
    bench.lab_disk(scale * 15 * 3 // 2 + 1500)
    a = bench.loaded("a", scale)
    database_mb = a.number(DATABASE, f"SELECT pg_database_size('{DATABASE}')") // MB
    size = f"{database_mb * 47 // 100}MB"
    a.stop()
    settings = {"shared_buffers": f"{scale // 2}MB", "synchronous_commit": "off", "pg_flashcache.keep_stats": "off"}
    limit = scale // 2 + 200
    select = ["-f", bench.file("gaussian.sql", GAUSSIAN)]
    both = ["-f", f"{select[1]}@19", "-f", bench.file("update.sql", UPDATE) + "@1"]
    common = ["-M", "prepared", "-c", "16", "-j", "1", "-s", str(scale)]
    loads = {arm: [*common, *(both if arm == "crash_writes" else select), DATABASE] for arm in GOALS}
    a.forget()
    bench.start_flash("a", size, settings | PERSISTENT, limit)
    bench.warm(a, loads["clean"], max_s=300, step_points=0.3)
    for rep in bench.reps(3):
        for arm in rotated(rep, ARMS):
            restart(bench, a, arm, rep, loads[arm])
    a.stop()
    for rep in bench.reps(3):
        a.forget()
        bench.start_flash("a", size, settings, limit)
        bench.warm(a, loads["off"], max_s=120, step_points=0.3)
        restart(bench, a, "off", rep, loads["off"])
        a.stop()
    results(bench)


def results(bench: Bench) -> None:
    record = bench.record
    record.table(
        ["tps", "average_ms", "hit_ratio", "on_flash", "without_disk"], [f"{arm}.{when}" for arm in GOALS for when in ("before", "after")]
    )
    record.table(["stop_s", "connection_s", "active_s", "restored", "buffers_loaded"], [f"{arm}.after" for arm in GOALS])
    words = {"on_flash": "reads of pages on flash", "without_disk": "share of all accesses without the disk", "tps": "transactions/s"}
    for arm, goal in GOALS.items():
        for key, what in words.items():
            name = f"{arm}: {what}, first {bench.seconds(10)} s after / before"
            record.ratio(name, goal if key == "on_flash" else "for comparison", key, f"{arm}.after", f"{arm}.before")


def restore(bench: Bench, pages: int) -> None:
    """On the machine's own disk, since a table of that size takes long enough there."""
    if free_bytes(bench.work.path) < (pages * 8192 * 2 + 6000 * MB):
        say(f"no room for a table of {pages} pages and as much flash: the log's loading is not measured")
        return
    say(f"a table of {pages} pages, all of it on flash")
    b = bench.make("b")
    bench.start("b", {**LOADING, "wal_level": "minimal"})
    b.sql("postgres", f"CREATE DATABASE {DATABASE}")
    b.script(DATABASE, MANY_PAGES.format(pages=pages))
    b.stop()
    settings = {"shared_buffers": "64MB", "pg_flashcache.pause_when_slow": "off", **PERSISTENT}
    bench.start_flash("b", f"{pages * 8192 // MB + 16}MB", settings)
    b.sql(DATABASE, "SELECT pg_flashcache_prewarm('pages')")
    ends: dict[Literal["restore.clean", "restore.crash"], Callable[[], None]] = {"restore.clean": b.stop, "restore.crash": b.kill}
    for rep in bench.reps(3):
        for arm, end in ends.items():
            began = time.monotonic()
            end()
            stop_s = round(time.monotonic() - began, 2)
            log = b.log.stat().st_size
            b.start_again()
            b.open_cache(DATABASE, bench.extension)
            found = restored(b)
            rate = round(1e6 * int(found["restored"]) / int(found["load_time_us"])) if "restored" in found else 0
            bench.record.add(arm, rep, entries_per_s=rate, stop_s=stop_s, **moments(b, log), **found)
    b.stop()
    shutil.rmtree(b.data)
    (bench.flash / "b").unlink()
    bench.record.table(["entries_per_s", "connection_s", "active_s", "restored", "load_time_us"], list(ends))
