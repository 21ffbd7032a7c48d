"""How warm is a standby that takes over? A primary is warm and under load; it is killed, the standby is promoted, and the load goes on
there from its first connection on. The disk keeps its real speed from the last seconds of the primary on, and the kernel's page cache
has nothing of the standby's files, as on a machine that only replays.

warm    the standby follows its primary's map (pg_flashcache.follow), and pg_flashcache_is_warm() is the gate for the switch
cold    it has the same cache, and does not follow: what a failover costs without it

Both servers lie on one lab disk, and one of them reads at a time: the standby has loaded its pages before the measurement begins.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence

from bench.figures.restart import end_under, window
from bench.figures.writes import UPDATE
from bench.harness import DATABASE, GAUSSIAN, Bench, rotated, say
from pgflash.errors import BrokeOff
from pgflash.lab.cluster import Cluster
from pgflash.system import give_to_server_user
from pgflash.units import MB

ARMS = ("warm", "cold")
GOALS = {"warm": "at least 0.90", "cold": "for comparison"}
REPLICATED = {"wal_level": "replica", "max_wal_senders": "4", "hot_standby": "on", "synchronous_commit": "off"}
FOLLOWING = {
    "pg_flashcache.follow": "on", "pg_flashcache.follow_interval": "2", "pg_flashcache.follow_conninfo": f"dbname={DATABASE} user=postgres",
}  # fmt: skip
# A library that is staged beside the server has its objects from a script, and a follower asks for the extension by its name.
REGISTER = """
SET allow_system_table_mods = on;
INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
SELECT pg_nextoid('pg_extension', 'oid', 'pg_extension_oid_index'), 'pg_flashcache', 10, 'public'::regnamespace, false, 'staged'
WHERE NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'pg_flashcache');
"""
GATE = 0.95  # of the primary's pages, before it is killed
PATIENCE_S = 300


def figure(bench: Bench) -> None:
    scale = bench.scale(100)
    say(f"loading scale {scale}")
    bench.lab_disk(scale * 15 * 4 + 2500)
    pristine = bench.loaded("pristine", scale)
    database_mb = pristine.number(DATABASE, f"SELECT pg_database_size('{DATABASE}')") // MB
    bench.extension.create(pristine, DATABASE)
    pristine.script(DATABASE, REGISTER)
    pristine.stop()
    size = f"{database_mb * 47 // 100}MB"
    settings = {"shared_buffers": f"{scale // 2}MB", "pg_flashcache.keep_stats": "off"} | REPLICATED
    select, update = bench.file("gaussian.sql", GAUSSIAN), bench.file("update.sql", UPDATE)
    load = ["-M", "prepared", "-c", "16", "-j", "1", "-s", str(scale), "-f", f"{select}@49", "-f", f"{update}@1", DATABASE]
    for rep in bench.reps(3):
        for arm in rotated(rep, ARMS):
            failover(bench, arm, rep, size, settings, scale // 2 + 200, load)
    results(bench)


def failover(bench: Bench, arm: str, rep: int, size: str, settings: dict[str, str], limit_mb: int, load: Sequence[str]) -> None:
    bench.disk.fast()
    primary, standby = (_copy(bench, name) for name in ("primary", "standby"))
    (standby.data / "standby.signal").touch()
    give_to_server_user(standby.data / "standby.signal")
    bench.start_flash("primary", size, settings, limit_mb)
    follows = settings | {"primary_conninfo": primary.conninfo(DATABASE)} | (FOLLOWING if arm == "warm" else {})
    bench.start_flash("standby", size, follows, limit_mb)
    standby.let_pause(DATABASE, False)
    bench.warm(primary, load, max_s=300, step_points=0.3)
    primary.let_pause(DATABASE, False)
    share = _wait_until_warm(standby) if arm == "warm" else 0.0
    _replayed(primary, standby)
    for cluster in (primary, standby):
        cluster.let_pause(DATABASE, True)
    record, limit = bench.record, bench.limit_words(standby)
    bench.disk.slow()
    record.add(f"{arm}.before", rep, **window(bench, primary, load), limit=limit, disk=bench.disk.name)
    end_under(primary, load, primary.kill)
    standby.forget()
    began = time.monotonic()
    if standby.sql(DATABASE, "SELECT pg_promote(true, 300)") != "t":
        raise BrokeOff("the standby was not promoted within 300 s")
    promoted = round(time.monotonic() - began, 2)
    after = window(bench, standby, load)
    bench.disk.fast()
    record.add(f"{arm}.after", rep, **after, share=round(share, 4), promote_s=promoted, limit=limit, disk=bench.disk.name)
    standby.stop()


def _copy(bench: Bench, name: str) -> Cluster:
    """As it was loaded, instead of what an earlier arm has left."""
    cluster = bench.cluster(name)
    shutil.rmtree(cluster.data, ignore_errors=True)
    bench.clone("pristine", name)
    cluster.forget()
    return cluster


def _wait_until_warm(standby: Cluster) -> float:
    """The gate that docs/operation.md names; the share that is here by then."""
    began = time.monotonic()
    while standby.sql(DATABASE, f"SELECT pg_flashcache_is_warm({GATE})") != "t":
        if time.monotonic() - began > PATIENCE_S:
            seen = standby.sql(DATABASE, "SELECT state, reason, share FROM pg_flashcache_warmth")
            raise BrokeOff(f"the standby did not get warm within {PATIENCE_S} s: {seen}")
        time.sleep(0.5)
    say(f"the standby is warm after {time.monotonic() - began:.0f} s")
    return float(standby.sql(DATABASE, "SELECT share FROM pg_flashcache_warmth"))


def _replayed(primary: Cluster, standby: Cluster) -> None:
    """All that was committed so far."""
    target = primary.sql(DATABASE, "SELECT pg_current_wal_flush_lsn()")
    while standby.sql(DATABASE, f"SELECT pg_last_wal_replay_lsn() >= '{target}'") != "t":
        time.sleep(0.1)


def results(bench: Bench) -> None:
    record = bench.record
    record.table(
        ["tps", "average_ms", "hit_ratio", "on_flash", "without_disk"], [f"{arm}.{when}" for arm in GOALS for when in ("before", "after")]
    )
    record.table(["share", "promote_s"], [f"{arm}.after" for arm in GOALS])
    for arm, goal in GOALS.items():
        name = f"{arm}: transactions/s, first {bench.seconds(10)} s after / before"
        record.ratio(name, goal, "tps", f"{arm}.after", f"{arm}.before")
        record.ratio(f"{arm}: reads of pages on flash, first {bench.seconds(10)} s after / before", "for comparison", "on_flash",
            f"{arm}.after", f"{arm}.before")  # fmt: skip
