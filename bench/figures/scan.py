"""A sequential scan of a table half of whose pages, picked at random, are in flash: the disk streams, and a cache that takes every
other page elsewhere breaks the stream. Speed of the scan, loaded (with and without the page-cache probe) / not loaded.
"""

from __future__ import annotations

from bench.harness import DATABASE, Bench, counters, rotated, say, set_probe, timing
from pgflash.lab.cluster import Cluster

ARMS = {"without": "", "probe": "auto", "no_probe": "off"}
COUNTED = ("hits", "os_cache_hits", "stream_reads")
# A row of every page whose number hashes even.
READ_HALF = """
SET enable_hashjoin = off; SET enable_mergejoin = off;
CREATE TEMP TABLE tids AS
  SELECT format('(%s,1)', b)::tid AS tid
  FROM generate_series(0, pg_relation_size('pgbench_accounts') / 8192 - 1) b
  WHERE hashint8(b) % 2 = 0 ORDER BY random();
ANALYZE tids;
SELECT count(*) FROM tids JOIN pgbench_accounts a ON a.ctid = tids.tid
"""
SHARE = """
SELECT round(count(*) * 8192.0 / pg_relation_size('pgbench_accounts'), 4) FROM pg_flashcache_pages
WHERE relfilenode = pg_relation_filenode('pgbench_accounts')
"""


def share(cluster: Cluster) -> float:
    return float(cluster.sql(DATABASE, SHARE))


def figure(bench: Bench) -> None:
    scale = bench.scale(80)
    arms = list(ARMS)
    settings = {"shared_buffers": "32MB"}
    bench.lab_disk(scale * 15 * 5 // 2 + 1500)
    without = bench.loaded("without", scale, "CREATE EXTENSION pg_prewarm")
    without.stop()
    bench.clone("without", "loaded")
    bench.start("without", settings)
    loaded = bench.start_flash("loaded", f"{scale * 15}MB", settings)
    # What the cache is filled from here is in the page cache, which the probe would prefer to filling.
    set_probe(loaded, "off")
    for turn in range(1, 7):
        loaded.sql(DATABASE, READ_HALF)
        say(f"half of the table's pages read, pass {turn}: {share(loaded)} of the table in flash")
        if share(loaded) >= 0.49:
            break
    for rep in bench.reps(3):
        for arm in rotated(rep, arms):
            _scan(bench, arm, rep)
    bench.record.table(["seconds", "in_flash", *COUNTED], arms)
    for arm, words in (("probe", "with"), ("no_probe", "without")):
        bench.record.ratio(f"speed, loaded {words} probe / not loaded", "at least 0.95", "seconds", "without", arm)


def _scan(bench: Bench, arm: str, rep: int) -> None:
    cached = arm != "without"
    cluster = bench.clusters["loaded" if cached else "without"]
    if cached:
        set_probe(cluster, ARMS[arm])
    # Another relation goes through the buffer pool: no page of the table is left there.
    cluster.sql(DATABASE, "SELECT pg_prewarm('pgbench_accounts_pkey')")
    cluster.forget()
    in_flash = share(cluster) if cached else 0
    before = counters(cluster) if cached else None
    bench.disk.slow()
    seconds = timing(cluster.psql(DATABASE, "-c", "\\timing on", "-c", "SELECT sum(abalance) FROM pgbench_accounts"))
    bench.disk.fast()
    more = {}
    if before is not None:
        after = counters(cluster)
        more = {name: after.since(before, name) for name in COUNTED}
    bench.record.add(arm, rep, seconds=seconds, in_flash=in_flash, disk=bench.disk.name, **more)
