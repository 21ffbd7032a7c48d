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

from bench.figures.restart import window
from bench.figures.writes import UPDATE
from bench.harness import DATABASE, GAUSSIAN, Bench, rotated, say
from pgflash.lab.cluster import Cluster
from pgflash.lab.failover import REPLICATED, end_under, following, make_standby, promote, replayed, wait_until_warm
from pgflash.units import MB

ARMS = ("warm", "cold")
GOALS = {"warm": "at least 0.90", "cold": "for comparison"}


def figure(bench: Bench) -> None:
    scale = bench.scale(100)
    say(f"loading scale {scale}")
    bench.lab_disk(scale * 15 * 4 + 2500)
    pristine = bench.loaded("pristine", scale)
    database_mb = pristine.number(DATABASE, f"SELECT pg_database_size('{DATABASE}')") // MB
    bench.extension.create(pristine, DATABASE)
    pristine.stop()
    size = f"{database_mb * 47 // 100}MB"
    settings = {"shared_buffers": f"{scale // 2}MB", "synchronous_commit": "off", "pg_flashcache.keep_stats": "off"} | REPLICATED
    select, update = bench.file("gaussian.sql", GAUSSIAN), bench.file("update.sql", UPDATE)
    load = ["-M", "prepared", "-c", "16", "-j", "1", "-s", str(scale), "-f", f"{select}@49", "-f", f"{update}@1", DATABASE]
    for rep in bench.reps(3):
        for arm in rotated(rep, ARMS):
            failover(bench, arm, rep, size, settings, scale // 2 + 200, load)
    results(bench)


def failover(bench: Bench, arm: str, rep: int, size: str, settings: dict[str, str], limit_mb: int, load: Sequence[str]) -> None:
    bench.disk.fast()
    primary, standby = (_copy(bench, name) for name in ("primary", "standby"))
    make_standby(standby)
    bench.start_flash("primary", size, settings, limit_mb)
    follows = settings | {"primary_conninfo": primary.conninfo(DATABASE)} | (following(DATABASE) if arm == "warm" else {})
    bench.start_flash("standby", size, follows, limit_mb)
    standby.let_pause(DATABASE, False)
    bench.warm(primary, load, max_s=300, step_points=0.3)
    primary.let_pause(DATABASE, False)
    share = _warmed(standby) if arm == "warm" else 0.0
    replayed(primary, standby, DATABASE)
    for cluster in (primary, standby):
        cluster.let_pause(DATABASE, True)
    record, limit = bench.record, bench.limit_words(standby)
    bench.disk.slow()
    record.add(f"{arm}.before", rep, **window(bench, primary, load), limit=limit, disk=bench.disk.name)
    end_under(lambda: primary.pgbench("-T", "20", *load), primary.kill)
    standby.forget()
    promoted = promote(standby, DATABASE)
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


def _warmed(standby: Cluster) -> float:
    began = time.monotonic()
    share = wait_until_warm(standby, DATABASE)
    say(f"the standby is warm after {time.monotonic() - began:.0f} s")
    return share


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
