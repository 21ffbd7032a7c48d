"""Advice from stored snapshots: the same counters, of a time that is over."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgflash.place.observe import ESTIMATED, PHYSICAL

from .servers import Server, await_, needs_flashcache, needs_server, tool

pytestmark = [needs_server, needs_flashcache]
MB = 1 << 20
EXTENSION = "CREATE EXTENSION pg_flashcache"


def advise(dsn: str, *words: str) -> tuple[int, Any]:
    done = tool("place", "advise", dsn, "--flash=8MB", "--disk-ms=5", "--json", *words)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)


def take(server: Server, database: str) -> None:
    done = tool("snapshot", "--dsn", server.dsn(database))
    assert done.returncode == 0, done.stdout + done.stderr


def counted(server: Server, database: str) -> dict[str, int]:
    """Reads as the server counts them, by unit; and of TOAST."""
    statement = """SELECT jsonb_object_agg(name, reads) FROM (
        SELECT relname, heap_blks_read FROM pg_statio_user_tables
        UNION ALL SELECT relname || ' toast', toast_blks_read + tidx_blks_read FROM pg_statio_user_tables
        UNION ALL SELECT indexrelname, idx_blks_read FROM pg_statio_user_indexes) s (name, reads)"""
    return {name: int(reads or 0) for name, reads in server.sql(statement, database=database).items()}


def load(server: Server, database: str, *statements: str) -> None:
    """In a session that has told all its counters when it is over.

    It tells them when the statement that asks for it has ended, before the client may send the next one; nothing of these tables is read
    after that. Parallel workers tell theirs when they exit, which the leader waits for.
    """
    server.sql(*statements, "SELECT pg_stat_force_next_flush()", "SELECT 1", database=database)


def seconds(server: Server, database: str, first: int, last: int) -> float:
    """Between two snapshots: what the rates were divided by."""
    between = f"extract(epoch FROM max(taken_at) - min(taken_at))::float8 FROM pg_flashcache_snapshots WHERE id IN ({first}, {last})"
    return float(server.sql(f"SELECT {between}", database=database))


def pages(rate: float, over_s: float) -> int:
    """A number of pages, which a rate is of: to the page."""
    whole = round(rate * over_s)
    assert abs(rate * over_s - whole) < 1e-3, (rate, over_s)
    return whole


READS = (
    "SELECT count(*), sum(length(x)) FROM wide", "SELECT count(*) FROM t", "SET enable_seqscan = off",
    "SELECT count(x) FROM t WHERE id % 7 = 0 AND id BETWEEN 1 AND 30000",
)  # fmt: skip


@pytest.fixture
def filled(server: Server, database: str) -> str:
    load(
        server, database, EXTENSION, "CREATE TABLE wide (id int PRIMARY KEY, x text)", "ALTER TABLE wide ALTER x SET STORAGE EXTERNAL",
        "INSERT INTO wide SELECT i, repeat('x', 6000) FROM generate_series(1, 1500) i", "CREATE TABLE t (id int PRIMARY KEY, x text)",
        "INSERT INTO t SELECT i, repeat('x', 300) FROM generate_series(1, 30000) i", "CREATE TABLE lost AS SELECT * FROM t",
        "VACUUM ANALYZE", "CHECKPOINT",
    )  # fmt: skip
    return database


def test_it_is_what_moved_between_two(server: Server, filled: str) -> None:
    """To the page: what was before, and what came afterwards, is not in it. The output is that of what is observed.

    Nobody else reads these tables (autovacuum is off), and all who have read them have told so before the counters are looked at (load).
    """
    load(server, filled, *READS)
    take(server, filled)
    before = counted(server, filled)
    load(server, filled, *READS, "UPDATE t SET x = x || 'y' WHERE id <= 300", "SELECT count(*) FROM lost", "CHECKPOINT")
    after = counted(server, filled)
    take(server, filled)
    load(server, filled, *READS, "DROP TABLE lost")
    take(server, filled)
    status, plan = advise(server.dsn(filled), "--from=1", "--to=2")
    assert status == 0 and plan["since_reset"] is False and plan["window_s"] > 0
    moved = {name: after[name] - before[name] for name in after}
    assert min(moved["t"], moved["wide"], moved["wide toast"], moved["t_pkey"]) > 0
    found = {entry["name"]: entry for entry in plan["objects"]}
    ours = ("t", "t_pkey", "wide", "wide_pkey")
    window = seconds(server, filled, 1, 2)
    assert plan["window_s"] == round(window, 3)
    read = {name: pages(found[name]["reads_per_s"], window) for name in ours if moved[name]}
    assert read == {name: moved[name] + moved.get(f"{name} toast", 0) for name in read} and "lost" not in found
    assert pages(found["wide"]["toast_reads_per_s"], window) == moved["wide toast"]
    assert any("estimated from changes of rows" in note for note in plan["notes"]), "without a cache nobody counts what is written"
    assert found["t"]["writes_per_s"] > 0 and found["wide"]["writes_per_s"] == 0 and found["t"]["growth_bytes_per_day"] is None
    assert {entry["disk_ms_from"] for entry in found.values()} == {"given"}
    assert any("1 object that were read meanwhile have been dropped since, as public.lost" in note for note in plan["notes"])
    # the same keys as of what is observed now
    assert set(plan) == set(advise(server.dsn(filled), "--for=1s")[1])
    later = advise(server.dsn(filled), "--from=2", "--to=3")[1]
    assert {entry["name"]: entry["writes_per_s"] for entry in later["objects"]}["t"] == 0
    # by time, and by a role that only looks
    server.sql("DROP ROLE IF EXISTS keeper", "CREATE ROLE keeper LOGIN IN ROLE pg_monitor")
    status, timed = advise(server.dsn(filled, "keeper"), "--from=2000-01-01", "--to=now")
    assert status == 0 and any("Snapshot 1 is the nearest to the time asked for" in note for note in timed["notes"])
    text = tool("place", "advise", server.dsn(filled), "--flash=8MB", "--from=1", "--to=2")
    assert text.returncode == 0 and "by flash bought" in text.stdout, text.stdout + text.stderr
    server.sql("DROP ROLE keeper")


def test_a_plan_of_it_is_carried_out(server: Server, filled: str, tmp_path: Any) -> None:
    take(server, filled)
    load(server, filled, *READS)
    take(server, filled)
    status, plan = advise(server.dsn(filled), "--flash=64MB", "--from=1", "--to=2")
    assert status == 0 and not [entry["name"] for entry in plan["objects"] if entry["name"].startswith("pg_flashcache")]
    # which objects move depends on how long the reads took
    for entry in plan["objects"]:
        entry["place"] = "move" if entry["name"] == "wide" else "disk"
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    script = tool("place", "script", server.dsn(filled), "--tablespace=flash", f"--plan={tmp_path / 'plan.json'}")
    assert script.returncode == 0 and '"wide"' in script.stdout, script.stdout + script.stderr


def test_what_is_wrong_with_them(server: Server, filled: str) -> None:
    dsn = server.dsn(filled)

    def wrong(message: str, hint: str, *words: str, status: int = 2) -> None:
        ended, error = advise(dsn, *words)
        assert (ended, error["exit"]) == (status, status)
        assert message in error["message"] and hint in error["hint"], error

    wrong("there are no snapshots in this database", "pgflash snapshot", "--from=1", "--to=2")
    take(server, filled)
    wrong("are the same snapshot", "pgflash report --list", "--from=1", "--to=now")
    wrong("there is no snapshot 7", "snapshots here go from 1", "--from=1", "--to=7")
    load(server, filled, *READS)
    take(server, filled)
    wrong("snapshot 2 is later than 1", "the earlier one comes first", "--from=2", "--to=1")
    wrong("is neither a snapshot nor a time", "snapshots here go from 1", "--from=whenever", "--to=2")
    wrong("goes with the other one", "--help", "--from=1")
    wrong("goes with the other one", "--help", "--to=2")
    wrong("does not go with --from and --to", "--help", "--from=1", "--to=2", "--for=1s")
    server.sql("UPDATE pg_flashcache_snapshots SET database = 'elsewhere'", database=filled)
    wrong(f"are of the database elsewhere, not of {filled}", "pgflash report --list", "--from=1", "--to=2")
    server.sql("UPDATE pg_flashcache_snapshots SET database = current_database()", database=filled)
    server.sql("DELETE FROM pg_flashcache_snapshot_data WHERE section = 'relations'", database=filled)
    wrong("the snapshots 1 to 2 do not have what was read of relations: not in these snapshots", "take others", "--from=1", "--to=2")
    server.sql("DROP EXTENSION pg_flashcache", database=filled)
    wrong("the extension pg_flashcache is not in the database", "CREATE EXTENSION", "--from=1", "--to=2", status=3)
    assert advise(dsn)[0] == 0


@pytest.fixture
def cached() -> Iterator[Server]:
    """A server with a cache: it counts what is written. PostgreSQL does not time its reads there."""
    folder = Path(tempfile.mkdtemp(prefix="c."))
    cache = {"file": str(folder / "socket" / "cache"), "size": "8MB", "io_timeout": "0"}
    settings = {f"pg_flashcache.{name}": value for name, value in cache.items()}
    server = Server(folder, None, **settings, track_io_timing="off", bgwriter_lru_maxpages="0")
    try:
        server.sql(EXTENSION)
        await_(lambda: server.sql("SELECT state FROM pg_stat_flashcache") == "active", "an active cache")
        yield server
    finally:
        server.remove()


def test_writes_are_those_that_were_counted(cached: Server) -> None:
    """Not the changes of rows: of a hot row 500 changes are one page, or a few, and of a cold table each is one."""
    database = "postgres"
    load(
        cached, database, "CREATE TABLE hot (id int, x text) WITH (fillfactor = 10)", "INSERT INTO hot VALUES (1, 'x')",
        "CREATE TABLE cold (id int, x text)", "INSERT INTO cold SELECT i, repeat('x', 1500) FROM generate_series(1, 8000) i",
        "CREATE INDEX ON cold (id)", "VACUUM ANALYZE", "CHECKPOINT",
    )  # fmt: skip
    written = "SELECT jsonb_object_agg(relname, disk_writes + disk_extends) FROM pg_stat_flashcache_relation WHERE relname IN ('hot', 'cold', 'cold_id_idx')"
    take(cached, database)
    before = cached.sql(written)
    load(
        cached, database, *["UPDATE hot SET x = x || 'y'"] * 500, "UPDATE cold SET x = x || 'y' WHERE id <= 40", "SELECT sum(length(x)) FROM cold",
        "CHECKPOINT",
    )  # fmt: skip
    after = cached.sql(written)
    take(cached, database)
    load(cached, database, "UPDATE cold SET x = x || 'z' WHERE id <= 400", "CHECKPOINT")  # afterwards: not in it
    moved = {name: after[name] - before.get(name, 0) for name in after}
    assert moved["hot"] < 100 < 500 and moved["cold"] > 0
    dsn = cached.dsn(database)
    done = tool("place", "advise", dsn, "--flash=8MB", "--from=1", "--to=2", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    plan = json.loads(done.stdout)
    window = seconds(cached, database, 1, 2)
    found = {entry["name"]: pages(entry["writes_per_s"], window) for entry in plan["objects"] if entry["name"] in moved}
    assert {name: count for name, count in found.items() if count} == {name: count for name, count in moved.items() if count}
    assert PHYSICAL in plan["notes"] and ESTIMATED not in plan["notes"]
    # and the times of reads are the cache's own, of which both say which view has them
    timed = [entry["disk_ms_from"] for entry in plan["objects"] if entry["reads_per_s"] + entry["writes_per_s"]]
    assert timed and set(timed) <= {"object", "tablespace", "objects", "server"}, timed
    assert any("track_io_timing is off; times of reads are what the cache has measured itself" in note for note in plan["notes"])
    checked = json.loads(tool("doctor", dsn, "--only=server", "--seconds=0", "--json").stdout)
    (said,) = (one["what"] for result in checked["checks"] if result["id"] == "server.track_io_timing" for one in result["findings"])
    assert said.startswith("is off; by the cache's own measurement a page from disk takes ") and said.endswith(" (pg_stat_flashcache)")
