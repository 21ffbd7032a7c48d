"""The plan: from made-up counters by hand, and from a real server as somebody who may only look."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pgflash.place.advise import advise
from pgflash.place.mover import connect as db_connect
from pgflash.place.observe import ESTIMATED, PHYSICAL, Counters, Snapshot, Unit, compare
from pgflash.place.observe import snapshot as observed

from .servers import Server, needs_server, tool

MB = 1024 * 1024


def unit(
    oid: int, name: str, size: int, reads: int, touched: float, *, node: int = 1, seen: tuple[int, int] | None = None, scanned: float = 0
) -> Unit:
    counters = Counters(size, reads, 0, touched, scanned, *(seen or (None, None)))
    return Unit(oid, "public", name, "table", node, 0, "pg_default", "", counters)


def snapshot(at: float, written: float, read_ms: float, *units: Unit) -> Snapshot:
    reads = float(sum(item.now.reads for item in units))
    database = {"xact_commit": at * 10, "blks_read": reads, "blk_read_time": reads * read_ms, "temp_bytes": 0.0, "temp_files": 0.0}
    return Snapshot(at, {item.oid: item for item in units}, 1000.0, database, written, None)


def test_rates_are_differences() -> None:
    first = snapshot(10, 100, 4.0, unit(1, "a", 10 * MB, 1000, 50), unit(2, "b", MB, 0, 0), unit(3, "c", MB, 5, 0))
    last = snapshot(20, 200, 4.0, unit(1, "a", 11 * MB, 3000, 450, seen=(500, 3_000_000)), unit(2, "b", MB, 100, 0, node=2))
    found = compare(first, last, 10.0, None, None)
    a, b = found.rates
    assert (a.reads, a.writes, a.disk_ms, a.latency_from) == (200.0, 10.0, 6.0, "object")  # 400 changes, but 100 writes of the server
    assert a.growth == pytest.approx(MB * 86400 / 10)
    assert (b.reads, b.writes, b.disk_ms, b.latency_from) == (10.0, 0.0, 6.0, "tablespace")
    assert found.transactions == 10.0 and (found.flash_ms, found.flash_from) == (0.1, "assumed")
    assert found.notes == [ESTIMATED, "table public.b was rebuilt meanwhile", "table public.c was dropped meanwhile"]


def test_writes_are_physical_where_they_are_counted() -> None:
    """Not the changes of rows, which a small hot table has as many of as a large one; a new file counts from zero."""

    def counted(oid: int, touched: float, written: int | None, *, node: int = 1) -> Unit:
        one = unit(oid, f"t{oid}", MB, 1000, touched, node=node)
        return replace(one, now=replace(one.now, written=written))

    first = snapshot(10, 100, 4.0, counted(1, 0, 100), counted(2, 0, None), counted(3, 0, 50))
    last = snapshot(20, 5100, 4.0, counted(1, 1000, 800), counted(2, 1000, 2), counted(3, 1000, 90, node=2))
    found = compare(first, last, 10.0, None, None)
    assert [rates.writes for rates in found.rates] == [70.0, 0.2, 9.0] and PHYSICAL in found.notes
    since = compare(None, last, 10.0, None, None)
    assert [rates.writes for rates in since.rates] == [100.0] * 3 and ESTIMATED in since.notes, "the view counts from another moment on"


def test_a_reset_meanwhile_counts_from_zero() -> None:
    found = compare(snapshot(10, 100, 4.0, unit(1, "a", MB, 1000, 0)), snapshot(20, 10, 4.0, unit(1, "a", MB, 200, 0)), 10.0, None, None)
    assert found.rates[0].reads == 20.0


def test_the_plan() -> None:
    hot, read, cold = unit(1, "hot", 10 * MB, 1000, 9000), unit(2, "read", 100 * MB, 20000, 0), unit(3, "cold", 500 * MB, 10, 0)
    observation = compare(None, snapshot(10, 9000, 5.0, hot, read, cold), 10.0, None, None)
    plan = advise(observation, 50 * MB, 0.3)
    assert {line.rates.unit.name: line.place for line in plan.lines} == {"hot": "move", "read": "cache", "cold": "disk"}
    assert plan.split.cache == 40 * MB
    assert plan.words()[0] == "Move 10 MB to flash for good: table public.hot."
    fast = advise(observation, 50 * MB, 0.3, fast=frozenset({"pg_default"}))
    assert fast.words()[0].startswith("Nothing was read or written")


def test_reads_of_toast_count() -> None:
    """As reads of its table: what a table without TOAST would have to read."""
    wide = Unit(1, "public", "wide", "table", 1, 0, "pg_default", "", Counters(MB, 1000, 500, 0))
    then = Unit(1, "public", "wide", "table", 1, 0, "pg_default", "", Counters(MB, 400, 100, 0))
    (rates,) = compare(snapshot(10, 0, 5.0, then), snapshot(20, 0, 5.0, wide), 10.0, None, None).rates
    assert (rates.reads, rates.toast_reads) == (100.0, 40.0)
    plan = advise(compare(None, snapshot(10, 0, 5.0, wide), 10.0, None, None), MB, 0.3)
    assert plan.nothing == 150 * 5.0 and plan.as_json()["objects"][0]["toast_reads_per_s"] == 50.0


@needs_server
def test_reads_of_toast_and_of_indexes_are_those_of_the_server(server: Server, database: str) -> None:
    server.sql(
        "CREATE TABLE wide (id int PRIMARY KEY, x text)",
        "ALTER TABLE wide ALTER x SET STORAGE EXTERNAL",
        "INSERT INTO wide SELECT i, repeat('x', CASE WHEN i <= 20 THEN 9000 ELSE 10 END) FROM generate_series(1, 5000) i",
        database=database,
    )
    server.stop()
    server.start()  # nothing is in shared_buffers
    server.sql(
        "SET enable_seqscan = off; SET enable_bitmapscan = off",
        "SELECT sum(length(reverse(x))) FROM wide WHERE id <= 20",
        "SELECT sum(id) FROM wide WHERE id BETWEEN 4000 AND 4010",
        "SELECT pg_stat_force_next_flush()",
        "SELECT 1",
        database=database,
    )
    with db_connect(server.dsn(database)) as connection:
        units = {unit.name: unit.now for unit in observed(connection).units.values()}
    of_table = "pg_statio_all_tables WHERE relid = 'wide'::regclass"
    heap, toast, of_toast, index = (
        int(server.sql(f"SELECT {what}", database=database))
        for what in (
            f"heap_blks_read FROM {of_table}", f"toast_blks_read FROM {of_table}", f"tidx_blks_read FROM {of_table}",
            "idx_blks_read FROM pg_statio_all_indexes WHERE indexrelid = 'wide_pkey'::regclass",
        )
    )  # fmt: skip
    assert min(heap, toast, of_toast, index) > 0
    assert (units["wide"].reads, units["wide"].toast_reads) == (heap, toast + of_toast)
    assert (units["wide_pkey"].reads, units["wide_pkey"].toast_reads) == (index, 0)


def test_scans_are_not_cached() -> None:
    """A large table that is only scanned is moved or left: its reads go past a cache. One that is read both ways shares it."""
    scanned = unit(1, "scanned", 100 * MB, 20000, 0, scanned=30000)
    both = unit(2, "both", 100 * MB, 20000, 0, scanned=5000)
    found = compare(None, snapshot(10, 0, 5.0, scanned, both), 10.0, None, None)
    assert [rates.scans for rates in found.rates] == [2000.0, 500.0]
    plan = advise(found, 50 * MB, 0.3)
    assert {line.rates.unit.name: line.place for line in plan.lines} == {"scanned": "disk", "both": "cache"}
    assert next(line.why for line in plan.lines if line.place == "disk").startswith("read by large sequential scans")
    assert plan.split.cost == pytest.approx(2000 * 5.0 + 500 * 5.0 + 1500 * (5.0 - 0.5**0.3 * 4.9))
    assert [line.place for line in advise(found, 250 * MB, 0.3).lines] == ["move", "move"]


@needs_server
def test_who_may_only_look(server: Server, database: str, tmp_path: Path) -> None:
    server.sql("DROP ROLE IF EXISTS looker", "CREATE ROLE looker LOGIN")
    server.sql(
        "CREATE TABLE t AS SELECT i, repeat('x', 500) AS x FROM generate_series(1, 20000) i", "SELECT count(*) FROM t", database=database
    )
    page = tmp_path / "page.html"
    command = ("place", "advise", server.dsn(database, "looker"), "--flash=4MB", "--disk-ms=5", f"--html={page}", "--json")
    refused = tool(*command)
    assert refused.returncode == 3 and json.loads(refused.stdout)["hint"] == "GRANT pg_monitor TO looker" and not page.exists()
    server.sql("GRANT pg_monitor TO looker")
    done = tool(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    plan = json.loads(done.stdout)
    (table,) = [entry for entry in plan["objects"] if entry["name"] == "t"]
    assert table["reads_per_s"] > 0 and table["disk_ms"] == 5 and table["relfilenode"] > 0
    costs = [split["page_ms"] for split in plan["curve"]]
    assert costs == sorted(costs, reverse=True) and plan["moved_bytes"] + plan["cache_bytes"] <= 4 * MB
    assert "What belongs on flash" in page.read_text() and "Plotly" in page.read_text()
    text = tool(*command[:4], "--for=1s", "--disk-ms=5")
    assert text.returncode == 0 and "by flash bought" in text.stdout
    assert tool("place", "advise", server.dsn(database), "--flash=ten").returncode == 2
    assert tool("place", "advise", server.dsn(database), "--flash=1GB", "--for=99999999999999h").returncode == 2
    server.sql("DROP OWNED BY looker", "DROP ROLE looker")


@needs_server
def test_a_locked_table(server: Server, database: str) -> None:
    """Is said, after a while; advice waits for nobody's transaction."""
    server.sql("CREATE TABLE locked AS SELECT 1 AS i", database=database)
    with server.connect(database) as other:
        other.execute("BEGIN; LOCK locked")
        done = tool("place", "advise", server.dsn(database), "--flash=4MB", "--json")
    assert done.returncode == 3 and json.loads(done.stdout)["message"] == "another session has locked what is to be looked at"


def temporary(pages: int, *spaces: str) -> Unit:
    return Unit(0, "", "temporary files", "temporary", 0, 0, ", ".join(spaces), "", Counters(MB, pages, 0, pages), spaces)


def test_times_that_are_known_come_before_those_assumed() -> None:
    """Without track_io_timing: temporary files have the time of their tablespace, and nothing is assumed where something is known."""
    table, index, files = unit(1, "a", MB, 1000, 0, seen=(500, 10_000)), unit(2, "b", MB, 1000, 0), temporary(1000, "pg_default")
    found = compare(None, snapshot(10, 0, 0.0, table, index, files), 10.0, None, None)
    assert [(rate.disk_ms, rate.latency_from) for rate in found.rates] == [(0.02, "object"), (0.02, "tablespace"), (0.02, "tablespace")]
    assert found.notes == []
    elsewhere = temporary(1000, "other", "pg_default")
    found = compare(None, snapshot(10, 0, 0.0, table, elsewhere), 10.0, None, None)
    assert (found.rates[1].disk_ms, found.rates[1].latency_from) == (0.02, "tablespace")
    found = compare(None, snapshot(10, 0, 0.0, table, temporary(1000, "other")), 10.0, None, None)
    assert (found.rates[1].disk_ms, found.rates[1].latency_from) == (0.02, "objects") and found.notes == []


def test_without_a_cache_the_advice_knows() -> None:
    last = snapshot(10, 0, 0.0, unit(1, "a", MB, 1000, 0))
    assert compare(None, last, 10.0, None, None).notes == ["no time of a read was measured: 5 ms are assumed (--disk-ms gives another)"]
    last.advice_us = 4.0
    found = compare(None, last, 10.0, None, None)
    assert (found.rates[0].disk_ms, found.rates[0].latency_from, found.notes) == (0.004, "advice", [])


def test_without_track_io_timing_the_cache_knows() -> None:
    """And it is said which of its views does: that of all reads of the server, where too few of the objects' were timed."""
    words = "track_io_timing is off; times of reads are what the cache has measured itself: "
    first, last = (snapshot(at, 0, 0.0, unit(1, "a", MB, reads, 0)) for at, reads in ((0, 0), (10, 1000)))
    first.server, last.server, last.reads_timed = (900.0, 400_000.0), (1000.0, 4_200_000.0), False
    whole = f"{words}of the whole server (pg_stat_flashcache)"
    for before, ms in ((None, 4.2), (first, 38.0)):
        found = compare(before, last, 10.0, None, None)
        assert (found.rates[0].disk_ms, found.rates[0].latency_from, found.notes) == (ms, "server", [whole])
    seen = snapshot(10, 0, 0.0, unit(1, "a", MB, 1000, 0, seen=(500, 10_000)), unit(2, "b", MB, 1000, 0), temporary(10, "other"))
    seen.reads_timed = False
    by = [f"{what} (pg_stat_flashcache_relation)" for what in ("by object", "by tablespace", "of all objects")]
    assert compare(None, seen, 10.0, None, None).notes == [words + ", ".join(by)]
    last.server = (99.0, 1_000_000.0)
    unknown = "no time of a read was measured, and track_io_timing is off: 5 ms are assumed (--disk-ms gives another)"
    assert compare(None, last, 10.0, None, None).notes == [unknown]
    assert compare(None, last, 10.0, 3.0, None).notes == []


def test_temporary_files_that_are_on_flash_are_left_out() -> None:
    observation = compare(None, snapshot(10, 0, 5.0, temporary(1000, "one", "two")), 10.0, None, None)
    assert [line.item.key for line in advise(observation, MB, 0.3, fast=frozenset({"one"})).lines] == ["temporary files"]
    assert advise(observation, MB, 0.3, fast=frozenset({"one", "two"})).lines == []


@needs_server
def test_where_temporary_files_are(server: Server, database: str) -> None:
    def spaces() -> str:
        server.sql(
            "SET work_mem = '64kB'",
            "SELECT i FROM generate_series(1, 20000) i ORDER BY -i",
            "SELECT pg_stat_force_next_flush()",
            "SELECT 1",
            database=database,
        )
        found = json.loads(tool("place", "advise", server.dsn(database), "--flash=1MB", "--json").stdout)["objects"]
        return next(str(entry["tablespace"]) for entry in found if entry["kind"] == "temporary")

    assert spaces() == "pg_default"
    server.sql(f"ALTER DATABASE {database} SET temp_tablespaces = flash, slow")
    assert spaces() == "flash, slow"
