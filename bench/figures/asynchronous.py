"""What the extension costs where the server reads asynchronously and the cache has nothing for it: a sequential scan, and one of
every tenth page, from the lab disk, at several depths of effective_io_concurrency. 18 and later. Speed of the scan, / stock.

stock      not loaded
disabled   loaded, pg_flashcache.enabled = off
empty      active, next to nothing of the table in flash (a cache of 64 slots)
"""

from __future__ import annotations

from itertools import product

from bench.harness import DATABASE, Bench, expect_plan, rotated, say, timing

PAGES = 16384  # 128 MB
METHODS = ("worker", "io_uring")
DEPTHS = (16, 64, 256)
ALL = "SELECT count(filler) FROM pages"
# Every tenth page is no stream of the cache's.
TENTH = f"{ALL} WHERE id = ANY (ARRAY(SELECT generate_series(0, {PAGES - 1}, 10)))"
SCANS = {"seq": (ALL, "seqscan", "Seq Scan"), "sparse": (TENTH, "bitmapscan", "Bitmap Heap Scan")}
TABLE = "CREATE INDEX ON pages (id); CREATE EXTENSION pg_prewarm; CREATE EXTENSION pg_buffercache;"


def figure(bench: Bench) -> None:
    arms = ["stock", "disabled", "empty"]
    if bench.major < 18:
        say(f"PostgreSQL {bench.major} reads synchronously")
        return
    bench.lab_disk(3500)
    bench.pages("original", PAGES, TABLE).stop()
    for arm in arms:
        bench.clone("original", arm)
    for method in METHODS:
        for arm in arms:
            _start(bench, arm, method)
        for rep in bench.reps(5):
            for depth, scan in product(DEPTHS, SCANS):
                for arm in rotated(rep, arms):
                    _scan(bench, arm, rep, method, depth, scan)
        for arm in arms:
            bench.clusters[arm].stop()
    for method, depth, scan, arm in product(METHODS, DEPTHS, SCANS, arms[1:]):
        what = f"{method}.{depth}.{scan}"
        name = f"{method}, depth {depth}, {scan}: speed, {arm} / stock"
        bench.record.ratio(name, "at least 0.98", "seconds", f"stock.{what}", f"{arm}.{what}")


def _start(bench: Bench, arm: str, method: str) -> None:
    """A process may pin its share of the buffers only, and reads no more than that at once: with so few connections and so many
    buffers it is 256 pages and more."""
    settings = {"shared_buffers": "256MB", "max_connections": "10", "io_method": method, "io_max_concurrency": "256"}
    match arm:
        case "stock":
            bench.start(arm, settings)
        case "empty":
            bench.start_flash(arm, "512kB", settings)
        case "disabled":
            bench.start_disabled(arm, "512kB", settings)


def _scan(bench: Bench, arm: str, rep: int, method: str, depth: int, scan: str) -> None:
    cluster = bench.clusters[arm]
    query, way, words = SCANS[scan]
    cluster.sql(DATABASE, "SELECT pg_buffercache_evict_relation('pages')")
    cluster.forget()
    cluster.sql(DATABASE, "SELECT pg_prewarm('pages_id_idx'), pg_prewarm('pages', 'buffer', 'vm')")
    bench.disk.slow()
    said = cluster.script(
        DATABASE,
        f"""
        SET effective_io_concurrency = {depth};
        SET enable_seqscan = off; SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_{way} = on;
        EXPLAIN {query};
        \\timing on
        {query};
        """,
    )
    bench.disk.fast()
    expect_plan(said, words)
    bench.record.add(f"{arm}.{method}.{depth}.{scan}", rep, seconds=timing(said), disk=bench.disk.name)
