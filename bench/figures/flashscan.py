"""Scans of a table all of whose pages are in flash, beside fio on the same file with requests of the same size and as many at once:
megabytes a second, scan / fio. Twice: with neighbouring pages in neighbouring slots, as a table that was read in order leaves them
(ordered), and scattered, as random reads leave them.

A scan through a buffer ring does not fill the cache, by design, so the table gets there by reads of single pages, slower than the
writer can copy, until pg_flashcache_pages has them all. The disk is slow and its page cache cold all the time: the cache goes by
what reads have cost, and would leave the table to a disk that it has known as fast.
"""

from __future__ import annotations

from bench.harness import DATABASE, Bench, expect_plan, rotated, say

PAGES = 98304  # 768 MB, six times shared_buffers
OTHER = 40960  # another table, to have the pages of the first one evicted
BATCH = 64
RATE = 6400  # pages a second, at most
STRIDE = 61981  # of scattered reads, in pages: a prime, so that every page is read once
DEPTH = 16  # effective_io_concurrency: PostgreSQL 18's default, so that prefetching means the same on every version
SETTINGS = {"shared_buffers": "128MB", "work_mem": "64MB", "effective_io_concurrency": str(DEPTH)}
TABLES = f"""
CREATE INDEX ON pages (id);
CREATE EXTENSION pg_prewarm;
-- unlogged: it is read from the disk each time, since no page of it ever gets into flash
CREATE UNLOGGED TABLE other (filler text);
ALTER TABLE other ALTER filler SET STORAGE PLAIN;
INSERT INTO other SELECT repeat('x', 7900) FROM generate_series(1, {OTHER});
VACUUM (FREEZE, ANALYZE) other;
"""
OURS = "FROM pg_flashcache_pages WHERE relfilenode = pg_relation_filenode('pages')"
SHARE = f"SELECT trunc(count(*)::numeric / {PAGES}, 4) {OURS}"
# The share of pages that have their right neighbour in the next slot.
IN_ORDER = f"SELECT round(avg((next = slot + 1)::int), 4) FROM (SELECT slot, lead(slot) OVER (ORDER BY relblocknumber) AS next {OURS}) s"
# Not count(*): up to PostgreSQL 17 a bitmap scan does not read the pages then.
ALL = "SELECT count(filler) FROM pages"
SCANS = {"seq": (ALL, "seqscan", "Seq Scan"), "bitmap": (f"{ALL} WHERE id BETWEEN 0 AND {PAGES - 1}", "bitmapscan", "Bitmap Heap Scan")}
COUNTED = ("hits", "misses", "disk_reads", "os_cache_hits", "stream_reads")


def figure(bench: Bench) -> None:
    bench.lab_disk(3500)
    say(f"a table of {PAGES} pages")
    a = bench.pages("a", PAGES, TABLES)
    # In kB; what reads at most in one request, and what each page of a bitmap scan is before PostgreSQL 18.
    combine = a.number(DATABASE, "SELECT coalesce((SELECT setting::int * 8 FROM pg_settings WHERE name = 'io_combine_limit'), 8)")
    a.stop()
    new = bench.major >= 18
    request = combine if new else 8
    if bench.major < 17:
        say(f"PostgreSQL {bench.major} reads one block at a time: so does fio")
    fio = {"fio_seq": (combine, 1), "fio_ahead": (64, 2)}  # kB and how many at once; ahead: the cache's own where it reads ahead
    # For information: what the device has for those who ask for more at once.
    fio |= {"fio_deep": (combine, DEPTH)} if new else {"fio_bitmap": (request, DEPTH)}
    arms = [*SCANS, *fio]
    for layout in ("ordered", "scattered"):
        _fill(bench, layout)
        for rep in bench.reps(5):
            for arm in rotated(rep, arms):
                if arm in SCANS:
                    _from_flash(bench, layout, arm, rep)
                else:
                    _fio(bench, layout, arm, rep, *fio[arm])
        if layout == "scattered" and combine > 8:  # what a scattered request is for the device
            for rep in bench.reps(5):
                _fio(bench, layout, "fio_pages", rep, 8, combine // 8)
        bench.disk.fast()
        a.stop()
    keys = ["mb_per_s", "from_flash", "in_order", "read_us_per_mb", "cpu_us_per_mb", "queue_us_per_mb"]
    bench.record.table(keys, [f"{layout}.{arm}" for layout in ("ordered", "scattered") for arm in arms])
    for layout in ("ordered", "scattered"):
        _result(bench, layout, "seq", "fio_seq", f"{combine} kB, depth 1")
        _result(bench, layout, "bitmap", "fio_seq" if new else "fio_bitmap", f"{request} kB, depth {1 if new else DEPTH}")
    bench.record.ratio("ordered: seq scan / fio 64 kB, depth 2", "none", "mb_per_s", "ordered.seq", "ordered.fio_ahead")
    if combine != 8:
        name = f"scattered: seq scan / fio 8 kB at random, depth {combine // 8}"
        bench.record.ratio(name, "none", "mb_per_s", "scattered.seq", "scattered.fio_pages")


def _result(bench: Bench, layout: str, scan: str, fio: str, words: str) -> None:
    """The ratio, and how many scans are not in it."""
    left = bench.record.count(f"{layout}.{scan}.left")
    note = f"{left} scans beside these were left to the disk"
    bench.record.ratio(f"{layout}: {scan} scan / fio {words}", "at least 0.8", "mb_per_s", f"{layout}.{scan}", f"{layout}.{fio}", note=note)


def _from_flash(bench: Bench, layout: str, scan: str, rep: int) -> None:
    """A scan that is read from flash, in at most five tries: a stream stays with the disk until the cache has found out that flash
    pays. One that is not, for more than a page in a hundred, is recorded as another arm."""
    if not any(_scan(bench, layout, scan, rep) for _ in range(5)):
        say(f"{layout} {scan}: the cache leaves this scan to the disk")


def _fill(bench: Bench, layout: str) -> None:
    """A server whose flash holds every page of the table."""
    a = bench.start_flash("a", "1500MB", SETTINGS)
    # One client's reads in order are a stream; 16 keep all spindles of the disk busy.
    stride, clients = (STRIDE, 16) if layout == "scattered" else (1, 1)
    expect_plan(a.sql(DATABASE, "EXPLAIN " + _batch("pages", 1, PAGES, "0")), "Tid Scan")
    bench.disk.slow()
    # 18 times one read in many only: it may know this disk by what the page cache answered before it was slow.
    a.forget()
    _read(bench, "other", 16 * 8 * BATCH, STRIDE, 16)
    for turn in range(1, 11):
        a.forget()  # or the page cache would answer what is in flash already, and look like a fast disk
        _read(bench, "pages", PAGES, stride, clients)
        _read(bench, "other", OTHER, 1, 1)
        share = a.sql(DATABASE, SHARE)
        say(f"{layout}, pass {turn}: {share} of the table in flash")
        if share == "1.0000":
            return
    say("the table is not completely in flash")


def _batch(table: str, stride: int, pages: int, first: str) -> str:
    """The statement that reads a batch of pages, from the given number on."""
    return (
        f"SELECT count(*) FROM {table} WHERE ctid = ANY (ARRAY(SELECT format('(%s,1)', i * {stride} % {pages})::tid"
        f" FROM generate_series({first}::bigint, {first} + {BATCH - 1}) i))"
    )


def _read(bench: Bench, table: str, pages: int, stride: int, clients: int) -> None:
    """So many pages, each once."""
    statement = _batch(table, stride, PAGES if table == "pages" else OTHER, ":from")
    script = bench.file("batch.sql", f"\\set from (:n * {clients} + :client_id) * {BATCH}\n{statement};\n\\set n :n + 1\n")
    each = str(pages // BATCH // clients)
    bench.clusters["a"].pgbench(
        "-M", "prepared", "-c", str(clients), "-j", "1", "-t", each, "-R", str(RATE // BATCH), "-D", "n=0", "-f", script, DATABASE
    )


def _cpu(field: int) -> str:
    """Processor time of this session (1), and how long it has waited for a processor (2); ns, 0 where the kernel does not tell."""
    return f"coalesce(split_part(pg_read_file('/proc/self/schedstat', 0, 100, true), ' ', {field})::bigint, 0)"


def _requests(bench: Bench) -> tuple[int, int]:
    """Requests that sessions have made so far, and their bytes: 18 counts them, before it only pages are counted."""
    if bench.major < 18:
        return 0, 0
    statement = "SELECT sum(reads), sum(read_bytes) FROM pg_stat_io WHERE backend_type = 'client backend'"
    count, size = bench.clusters["a"].sql(DATABASE, statement).split()
    return int(count), int(size)


def _scan(bench: Bench, layout: str, scan: str, rep: int) -> bool:
    """Whether it was read from flash."""
    a = bench.clusters["a"]
    query, way, words = SCANS[scan]
    share, in_order = float(a.sql(DATABASE, SHARE)), float(a.sql(DATABASE, IN_ORDER))
    a.forget()
    # Nothing of the table is left in the pool then but its index and its visibility map.
    a.sql(DATABASE, "SELECT pg_prewarm('other')", "SELECT pg_prewarm('pages_id_idx'), pg_prewarm('pages', 'buffer', 'vm')")
    before = _requests(bench)
    # One session, since a session's counters are its own; the catalogs are read by EXPLAIN and by the first look at them.
    counted = ", ".join(f"{name} - :{name}" for name in (*COUNTED, "read_time_us"))
    said = a.script(
        DATABASE,
        f"""
        SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;
        SET enable_{way} = on;
        EXPLAIN {query};
        SELECT * FROM pg_stat_flashcache_session \\gset
        SELECT extract(epoch FROM clock_timestamp()) AS began, {_cpu(1)} AS cpu_ns, {_cpu(2)} AS queue_ns,
          * FROM pg_stat_flashcache_session \\gset
        {query};
        SELECT 'measured', extract(epoch FROM clock_timestamp()) - :began, {_cpu(1)} - :cpu_ns, {_cpu(2)} - :queue_ns, {counted}
          FROM pg_stat_flashcache_session;
        """,
    )
    expect_plan(said, words)
    _, seconds, *rest = next(line for line in said.splitlines() if line.startswith("measured")).split()
    cpu_ns, queue_ns, *moved, read_us = map(int, rest)
    now = dict(zip(COUNTED, moved, strict=True))
    pages = now["hits"] + now["misses"]
    good = now["hits"] * 100 >= pages * 99
    after = _requests(bench)
    requests, size = after[0] - before[0], after[1] - before[1]
    more: dict[str, float | str] = {"data_checksums": a.sql(DATABASE, "SHOW data_checksums")}
    if bench.major >= 18:
        more["io_method"] = a.sql(DATABASE, "SHOW io_method")
    if requests:
        more["request_kb"] = round(size / requests / 1024, 1)
    bench.record.add(
        f"{layout}.{scan}" + ("" if good else ".left"), rep, mb_per_s=round(pages / 128 / float(seconds), 1),
        seconds=round(float(seconds), 4), from_flash=round(now["hits"] / PAGES, 4), in_flash=share, in_order=in_order, **now,
        read_us_per_mb=_per_mb(read_us, now["hits"]), cpu_us_per_mb=_per_mb(cpu_ns / 1000, pages),
        queue_us_per_mb=_per_mb(queue_ns / 1000, pages), disk=bench.disk.name, **more,
    )  # fmt: skip
    return good


def _per_mb(microseconds: float, pages: int) -> float:
    return round(microseconds * 128 / pages, 1) if pages else 0


def _fio(bench: Bench, layout: str, arm: str, rep: int, kb: int, depth: int) -> None:
    """One pass over the slots that the cache has written."""
    # Requests of one page are where the pages are; larger ones are given the best case.
    way = "randread" if layout == "scattered" and kb <= 8 else "read"
    slots = bench.clusters["a"].number(DATABASE, "SELECT max(slot) + 1 FROM pg_flashcache_pages")
    engine = "psync" if depth == 1 else "io_uring"
    speed = int(bench.fio("a", slots - slots % 16, engine, way, f"--iodepth={depth}", f"--bs={kb}k")[6]) / 1024
    bench.record.add(f"{layout}.{arm}", rep, mb_per_s=round(speed, 1), rw=way, request_kb=kb, depth=depth)
