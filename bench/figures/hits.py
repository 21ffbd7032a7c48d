"""One process reading random pages through the buffer manager, every one from flash, beside fio on the same file.

sql        the reads of one statement, a second
fio        random reads of 8 kB, one at a time, of the slots that the cache has written
resident   the same statement when it reads nothing: what SQL itself costs, which no cache can save
"""

from __future__ import annotations

from bench.harness import DATABASE, Bench, counters, expect_plan, say, set_probe
from pgflash.lab.cluster import Cluster

PAGES = 131072
# Reads every page once, in random order, and prints the seconds it took. The addresses are in a temporary table, whose pages are
# in the session's own buffers.
READS = f"""
SET enable_hashjoin = off; SET enable_mergejoin = off;
CREATE TEMP TABLE tids AS SELECT format('(%s,1)', id)::tid AS tid FROM generate_series(0, {PAGES - 1}) id ORDER BY random();
ANALYZE tids;
SELECT extract(epoch FROM clock_timestamp()) AS t0 \\gset
EXPLAIN SELECT count(*) FROM tids JOIN pages ON pages.ctid = tids.tid;
SELECT extract(epoch FROM clock_timestamp()) - :t0;
"""


def read_all(cluster: Cluster) -> float:
    return float(cluster.script(DATABASE, READS.replace("EXPLAIN ", "")).split()[-1])


def figure(bench: Bench) -> None:
    seconds = bench.seconds(10)
    say(f"a table of {PAGES} pages, and a flash file that holds it")
    a = bench.pages("a", PAGES)
    a.stop()
    # Usage counts must not save pages from the clock: 16 MB of buffers for 1 GB of table. Disk and flash may be the same device:
    # whether one is faster is chance then.
    settings = {"shared_buffers": "16MB", "temp_buffers": "64MB"}
    bench.start_flash("a", "1280MB", settings | {"pg_flashcache.pause_when_slow": "off"})
    expect_plan(a.script(DATABASE, READS), "Tid Scan")
    # Where the machine's disk is faster than its flash, the probe would prefer it to filling.
    set_probe(a, "off")
    for turn in range(1, 7):
        a.forget()  # or the page cache would answer what is in flash already
        before = counters(a)
        read_all(a)
        misses = counters(a).since(before, "misses")
        say(f"filling, pass {turn}: {misses} misses")
        if misses <= PAGES // 1000:
            break
    set_probe(a, "auto")
    # Unwritten space is answered without the device: fio may read only what the cache has written.
    slots = a.number(DATABASE, "SELECT max(slot) + 1 FROM pg_flashcache_pages")
    for rep in bench.reps(5):
        a.forget()
        before = counters(a)
        elapsed = read_all(a)
        after = counters(a)
        hits = after.since(before, "hits")
        bench.record.add(
            "sql", rep, reads_per_s=round(hits / elapsed), hit_ratio=round(after.hit_ratio_since(before), 4),
            read_us=round(after.since(before, "read_time_us") / max(1, hits), 2),
        )  # fmt: skip
        more = ("--bs=8k", f"--runtime={seconds}", "--time_based", "--norandommap", "--randrepeat=0")
        bench.record.add("fio", rep, reads_per_s=int(bench.fio("a", slots, "psync", "randread", *more)[7]))
    a.stop()
    bench.start("a", {"shared_buffers": "1200MB", "temp_buffers": "64MB"})
    read_all(a)
    bench.record.add("resident", 1, reads_per_s=round(PAGES / read_all(a)))
    bench.record.table(["reads_per_s", "hit_ratio", "read_us"], ["sql", "fio", "resident"])
    bench.record.ratio("SQL all hits / fio psync", "at least 0.85", "reads_per_s", "sql", "fio")
