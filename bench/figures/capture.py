"""How many of the pages that the clock evicts clean does the writer get? Counters could flatter; so a table is read once, page by
page in random order, into a cache with room for all of it. Every page is then evicted once or still in shared_buffers, and the two
inventories, pg_flashcache_pages and pg_buffercache, say which of the evicted ones were captured. The table comes out of the page
cache, which the probe would prefer to filling: it is off.
"""

from __future__ import annotations

import time

from bench.harness import DATABASE, Bench, counters, expect_plan

PAGES = 131072
BATCH = 10
CLIENTS = 4
RATES = {"10000/s": 10000, "unlimited": 0}
SKIPS = ("exists", "overloaded", "pinned", "not_current", "not_useful")
BATCHES = f"""
CREATE EXTENSION pg_buffercache;
CREATE TABLE batches AS SELECT ((row_number() OVER (ORDER BY random()) - 1) / {BATCH})::int AS batch, format('(%s,1)', id)::tid AS tid
  FROM generate_series(0, {PAGES - 1}) id;
CREATE INDEX ON batches (batch);
VACUUM (FREEZE, ANALYZE) batches;
"""
READ_BATCH = "SELECT count(*) FROM batches JOIN pages ON pages.ctid = batches.tid WHERE batch = "
CAPTURED = f"""
SELECT count(*), count(*) FILTER (WHERE b IN (
    SELECT relblocknumber FROM pg_flashcache_pages WHERE relfilenode = pg_relation_filenode('pages')))
FROM generate_series(0, {PAGES - 1}) b
WHERE b NOT IN (SELECT relblocknumber FROM pg_buffercache
  WHERE relfilenode = pg_relation_filenode('pages') AND relforknumber = 0 AND relblocknumber IS NOT NULL)
"""
SETTINGS = {
    "shared_buffers": "128MB", "pg_flashcache.admission": "all", "pg_flashcache.os_cache_probe": "off", "enable_hashjoin": "off",
    "enable_mergejoin": "off", "plan_cache_mode": "force_generic_plan",
}  # fmt: skip


def figure(bench: Bench) -> None:
    a = bench.pages("a", PAGES, BATCHES)
    a.stop()
    script = bench.file("batch.sql", f"\\set mine :n * {CLIENTS} + :client_id\n{READ_BATCH}:mine;\n\\set n :n + 1\n")
    load = ["-M", "prepared", "-c", str(CLIENTS), "-j", "2", "-t", str(PAGES // BATCH // CLIENTS), "-D", "n=0", "-f", script, DATABASE]
    for rep in bench.reps(3):
        for arm, rate in RATES.items():
            bench.start_flash("a", "1500MB", SETTINGS)
            expect_plan(a.sql(DATABASE, f"EXPLAIN {READ_BATCH}1"), "Tid Scan")
            before, began = counters(a), time.monotonic()
            a.pgbench(*(["-R", str(rate // BATCH)] if rate else []), *load)
            elapsed, after = time.monotonic() - began, counters(a)
            evicted, captured = map(int, a.sql(DATABASE, CAPTURED).split())
            bench.record.add(
                arm, rep, evictions_per_s=round(PAGES / elapsed), evicted=evicted, captured=captured, ratio=round(captured / evicted, 4),
                **{name: after.since(before, name) for name in ("inserts", *(f"insert_skip_{skip}" for skip in SKIPS))},
            )  # fmt: skip
            a.stop()
    bench.record.table(["evictions_per_s", "evicted", "captured", "ratio"], list(RATES))
    speed = bench.record.median("10000/s", "evictions_per_s")
    bench.record.result(
        f"captured / evicted clean, at {speed} evictions a second", bench.record.median("10000/s", "ratio"), "at least 0.95"
    )
