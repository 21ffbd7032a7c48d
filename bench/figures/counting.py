"""What counting by relation and by statement costs: one server, which counts in one slice and does not in the next.

Each repetition is a pair of short slices, right after one another: what else the machine does then changes little between them,
and processor time hardly minds it.

memory     pgbench -S with everything in shared_buffers: each statement is counted, no read is
flash      one process reads random pages, every one from flash: each read is counted
"""

from __future__ import annotations

from bench.harness import DATABASE, Bench, counters, rotated, say, seconds_of, session_ticks, set_probe, timing
from pgflash.errors import BrokeOff
from pgflash.lab.cluster import Cluster

LOAD = ["-S", "-M", "prepared", "-c", "8", "-j", "2", DATABASE]
PREWARM = "SELECT pg_prewarm(oid) FROM pg_class WHERE relname ~ '^pgbench_.*' AND relkind IN ('r', 'i')"
PAIRS = 25
PAGES = 32768
# Query identifiers are what counting by statement asks the server for: without it, they are not computed.
ARMS = {
    "counted": {"pg_flashcache.track_relations": "on", "pg_flashcache.track_statements": "on", "compute_query_id": "auto"},
    "not counted": {"pg_flashcache.track_relations": "off", "pg_flashcache.track_statements": "off", "compute_query_id": "off"},
}
READS = """
SET enable_hashjoin = off; SET enable_mergejoin = off;
CREATE TEMP TABLE tids AS SELECT format('(%s,1)', id)::tid AS tid FROM generate_series(0, {pages} - 1) id ORDER BY random();
ANALYZE tids;
SELECT count(*) FROM tids JOIN pages ON pages.ctid = tids.tid;
\\timing on
SELECT count(*) FROM tids JOIN pages ON pages.ctid = tids.tid;
"""


def switch(cluster: Cluster, arm: str) -> None:
    for name, value in ARMS[arm].items():
        cluster.set(DATABASE, name, value)
    name = "compute_query_id"
    for _ in range(100):
        if cluster.sql(DATABASE, f"SHOW {name}") == ARMS[arm][name]:
            return
    raise BrokeOff(f"{name} does not become {ARMS[arm][name]}")


def in_memory(bench: Bench) -> None:
    seconds, scale = bench.seconds(2), bench.scale(20)
    settings = {"shared_buffers": f"{scale * 20 + 100}MB"}
    bench.loaded("a", scale, "CREATE EXTENSION pg_prewarm", buffers=settings["shared_buffers"]).stop()
    a = bench.start_flash("a", "256MB", settings)
    a.sql(DATABASE, PREWARM)
    a.pgbench("-T", "3", *LOAD)
    for rep in bench.reps(PAIRS):
        for arm in rotated(rep, list(ARMS)):
            switch(a, arm)
            before = session_ticks(a)
            result = a.pgbench("-T", str(seconds), *LOAD)
            each = 1e6 * seconds_of(session_ticks(a) - before) / max(1, result.transactions)
            bench.record.add(f"memory, {arm}", rep, tps=round(result.tps, 1), cpu_us=round(each, 2))
    a.stop()


def on_flash(bench: Bench) -> None:
    say(f"a table of {PAGES} pages, and a flash file that holds it")
    b = bench.pages("b", PAGES)
    b.stop()
    bench.start_flash("b", "400MB", {"shared_buffers": "16MB", "temp_buffers": "64MB", "pg_flashcache.pause_when_slow": "off"})
    set_probe(b, "off")
    for _ in range(6):
        b.script(DATABASE, READS.format(pages=PAGES))
    for rep in bench.reps(PAIRS):
        for arm in rotated(rep, list(ARMS)):
            switch(b, arm)
            before, ticks = counters(b), session_ticks(b)
            elapsed = timing(b.script(DATABASE, READS.format(pages=PAGES)))
            each = 1e6 * seconds_of(session_ticks(b) - ticks) / (2 * PAGES)  # the script reads them twice
            ratio = counters(b).hit_ratio_since(before)
            bench.record.add(f"flash, {arm}", rep, reads_per_s=round(PAGES / elapsed), cpu_us=round(each, 2), hit_ratio=round(ratio, 4))


def figure(bench: Bench) -> None:
    in_memory(bench)
    on_flash(bench)
    bench.record.table(["tps", "cpu_us", "reads_per_s", "hit_ratio"], [f"{load}, {arm}" for load in ("memory", "flash") for arm in ARMS])
    on, off = ARMS
    bench.record.ratio(
        "in shared_buffers: transactions/s, counted / not counted", "at least 0.99", "tps", f"memory, {on}", f"memory, {off}"
    )
    bench.record.ratio(
        "in shared_buffers: processor time of a transaction, not counted / counted", "at least 0.99", "cpu_us",
        f"memory, {off}", f"memory, {on}",
    )  # fmt: skip
    bench.record.ratio("all hits: reads/s, counted / not counted", "at least 0.99", "reads_per_s", f"flash, {on}", f"flash, {off}")
    bench.record.ratio(
        "all hits: processor time of a read, not counted / counted", "at least 0.99", "cpu_us", f"flash, {off}", f"flash, {on}"
    )
