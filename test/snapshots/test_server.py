"""The commands on a real server: what they store, say and refuse."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pgflash.snapshots import schedule
from pgflash.snapshots import server as snapshots
from pgflash.snapshots.schedule import Wanted

from .conftest import Database, restart

ROLES = (
    "DO $$ BEGIN CREATE ROLE snap_nobody LOGIN; CREATE ROLE snap_monitor LOGIN; CREATE ROLE snap_owner LOGIN;"
    " EXCEPTION WHEN duplicate_object THEN NULL; END $$",
    "GRANT pg_monitor TO snap_monitor",
)


def report(database: Database, *arguments: str, dsn: str = "") -> dict[str, Any]:
    done = database.pgflash(*arguments, "--json", dsn=dsn)
    assert done.returncode == 0, done.stdout + done.stderr
    values: dict[str, Any] = json.loads(done.stdout)
    return values


def refused(database: Database, *arguments: str, dsn: str = "") -> tuple[int, str, str]:
    """Exit status, message, hint."""
    done = database.pgflash(*arguments, "--json", dsn=dsn)
    error = json.loads(done.stdout.strip().splitlines()[-1])
    assert error["event"] == "error" and error["exit"] == done.returncode and "Traceback" not in done.stderr
    return done.returncode, error["message"], error["hint"]


def work(database: Database, rows: int) -> None:
    """So many rows inserted, counted at once."""
    database.sql(
        "CREATE TABLE IF NOT EXISTS t (v int)",
        f"INSERT INTO t SELECT generate_series(1, {rows})",
        "SELECT pg_stat_force_next_flush()",
        "SELECT 1",
    )


def test_an_interval_is_the_sum_of_its_snapshots(database: Database) -> None:
    assert database.pgflash("snapshot", "--note", "before").stdout == "snapshot 1\n"
    work(database, 10)
    assert json.loads(database.pgflash("snapshot", "--json").stdout)["id"] == 2
    work(database, 5)
    assert database.pgflash("snapshot", "--quiet").stdout == ""
    found = report(database, "report", "1", "3")
    assert (found["first"], found["last"], found["database"]) == (1, 3, database.name)
    assert [row["moved"]["tup_inserted"] for row in found["changes"] if row["labels"]["name"] == "t"] == [15]
    assert [row["moved"]["tup_inserted"] for row in report(database, "report", "2", "3")["changes"] if row["labels"]["name"] == "t"] == [5]
    assert found["restarted"] is False and found["resets"] == []
    assert found["notes"] == ["snapshot 1: before"]
    assert found["missing"]["statements"] == "the extension pg_stat_statements is not installed in this database"
    assert not {"cache", "database", "wal", "relations", "host"} & set(found["missing"]), "a column that is NULL is no obstacle"
    assert found["transactions"] > 0
    assert found["cache"]["state"] == "active"
    assert found["verdict"]["headline"]


def test_physical_writes(database: Database) -> None:
    """As many blocks as the file of a new table has: written once it was extended, and by the checkpointer."""
    database.pgflash("snapshot")
    database.sql("CREATE TABLE written AS SELECT v FROM generate_series(1, 20000) v", "CHECKPOINT")
    blocks = int(database.sql("SELECT pg_relation_size('written') / 8192"))
    database.pgflash("snapshot")
    found = report(database, "report", "1", "2")
    (mine,) = (row for row in found["writes"] if row["labels"].get("relname") == "written")
    again, added = (int(mine["moved"][name]) for name in ("disk_writes", "disk_extends"))
    assert blocks > 50 and blocks <= again < blocks + 8 and blocks <= added < blocks + 8, "with those of the free space map"
    assert (
        database.sql("SELECT disk_writes, disk_extends FROM pg_stat_flashcache_relation WHERE relid = 'written'::regclass")
        == f"{again}|{added}"
    )
    assert found["pages_written"] >= again + added
    text = database.pgflash("report", "1", "2").stdout
    assert re.search(rf"^\| public\.written \| {again + added} \| [0-9.]+% \| {again} \| {added} \|", text, re.MULTILINE)


def test_statements(database: Database) -> None:
    database.sql("CREATE EXTENSION pg_stat_statements")
    database.pgflash("snapshot")
    for _ in range(3):
        database.sql("SELECT 4711 AS unmistakable")
    database.pgflash("snapshot")
    found = report(database, "report", "1", "2")
    mine = [row for row in found["statements"] if row["labels"]["query"] == "SELECT $1 AS unmistakable"]
    assert [(row["moved"]["calls"], row["labels"]["datname"]) for row in mine] == [(3, database.name)]


def test_a_statement_in_another_encoding(database: Database) -> None:
    """Of one that has no form in this database's, pg_stat_statements shows no text, of any statement: figures stay, and it is said why."""
    database.sql("CREATE EXTENSION pg_stat_statements", "SELECT pg_stat_statements_reset()")
    raw = f"{database.name}_raw"
    database.sql(f"CREATE DATABASE {raw} TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C' ENCODING 'SQL_ASCII'")
    why = 'without texts: invalid byte sequence for encoding "UTF8": 0xe9 0x22 0x20'
    database.pgflash("snapshot")
    numbers = {}
    for columns, name in (("", "known"), ("1, ", "before"), ("1, 2, ", "after")):
        for _ in range(3):
            database.sql(f"SELECT {columns}4711 AS {name} FROM pg_sleep(0.2)")
        numbers[name] = database.sql(f"SELECT queryid FROM pg_stat_statements WHERE query LIKE '%AS {name} %'") if name != "after" else ""
        if name == "before":  # its text is in no snapshot
            with psycopg.connect(make_conninfo(database.dsn, dbname=raw, client_encoding="SQL_ASCII"), autocommit=True) as other:
                other.execute(b'SELECT 1 AS "caf\xe9" FROM pg_sleep(0)')
        taken = json.loads(database.pgflash("snapshot", "--json").stdout)
        assert taken["missing"].get("statements") == (None if name == "known" else why)
    found = report(database, "report", "1", "4")
    assert "statements" not in found["missing"] and found["statements_lack"] == f"in 2 of 3 snapshots {why}"
    calls = {row["key"].split("/")[2]: (row["moved"]["calls"], row["labels"].get("query")) for row in found["statements"]}
    assert calls[numbers["known"]] == (3, "SELECT $1 AS known FROM pg_sleep($2)") and calls[numbers["before"]] == (3, None)
    assert "flash_statements" not in found["missing"] and found["flash_statements"]
    text = database.pgflash("report", "1", "4").stdout
    assert f"| statement, query identifier {numbers['before']}, text not known | {database.name} | 3 |" in text
    assert f"pg_stat_statements: in 2 of 3 snapshots {why}." in text
    compared = database.pgflash("diff", "1..2", "2..4").stdout
    assert f"query identifier {numbers['before']}, text not known" in compared and f"B: pg_stat_statements: {why}." in compared
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        said: list[str] = []
        connection.add_notice_handler(lambda diagnostic: said.append(f"{diagnostic.message_primary}"))
        for _ in range(2):  # what has failed leaves nothing behind in the session
            assert connection.execute("SELECT count(*) > 0, count(query) FROM pg_stat_flashcache_statements").fetchone() == (True, 0)
        assert said == [f"texts of statements are not shown: {why.removeprefix('without texts: ')}"] * 2
        top = [sys.executable, "-m", "pgflash", "top", "--once", "--interval", "0.1", database.dsn]
        done = subprocess.run(top, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0 and said[0] in done.stdout and "Statements by" in done.stdout, done.stdout + done.stderr
        connection.execute("SELECT pg_stat_statements_reset(0, oid, 0) FROM pg_database WHERE datname = %s", (raw,))
    database.sql(f"DROP DATABASE {raw}")
    assert database.sql("SELECT count(query) > 0 FROM pg_stat_flashcache_statements") == "t", "without it there are texts again"


def test_statements_after_a_reset(database: Database) -> None:
    """More calls since the reset than before it: all of them count, not the difference."""
    database.sql("CREATE EXTENSION pg_stat_statements")
    for reset, calls in ((False, 3), (True, 5)):
        if reset:
            database.sql("SELECT pg_stat_statements_reset()", "SELECT pg_flashcache_reset_stats()")
        for _ in range(calls):
            database.sql("SELECT 4712 AS again")
        database.pgflash("snapshot")
    found = report(database, "report", "1", "2")
    assert [row["moved"]["calls"] for row in found["statements"] if row["labels"]["query"] == "SELECT $1 AS again"] == [5]
    flash = database.sql(
        "SELECT r -> 'moved' -> 'calls' FROM pg_flashcache_snapshot_data, jsonb_array_elements(data) r WHERE snapshot = 2"
        " AND section = 'flash_statements' AND r -> 'labels' ->> 'query' = 'SELECT $1 AS again'"
    )
    assert flash == "5"


@contextmanager
def sleeping(database: Database) -> Iterator[None]:
    """A session at work for as long as it takes."""
    with psycopg.connect(database.dsn, autocommit=True) as session, psycopg.connect(database.dsn, autocommit=True) as other:

        def sleep() -> None:
            with pytest.raises(psycopg.errors.QueryCanceled):
                session.execute("SELECT pg_sleep(600)")

        thread = threading.Thread(target=sleep)
        thread.start()
        asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
        while other.execute(asleep).fetchone() != (1,):
            time.sleep(0.02)
        yield
        session.cancel()
        thread.join()


def test_waits_are_sampled(database: Database) -> None:
    """One session that sleeps is in each look, and the whole of database time."""
    with sleeping(database):
        done = database.pgflash("snapshot", "--every", "10s", "--times", "2", "--note", "once")
    assert (done.returncode, done.stdout) == (0, "snapshot 1\nsnapshot 2\n")
    assert database.sql("SELECT string_agg(note, ',') FROM pg_flashcache_snapshots") == "once"
    found = report(database, "report", "1", "2")
    rows = json.loads(database.sql("SELECT data FROM pg_flashcache_snapshot_data WHERE snapshot = 2 AND section = 'sampled_waits'"))
    moved = {row["key"]: row["moved"] for row in rows}
    assert moved["Timeout/PgSleep"]["samples"] == moved[""]["looks"] > 0
    assert found["time"]["source"] == "sampled"
    slept = next(wait for wait in found["time"]["waits"] if wait["event"] == "Timeout: PgSleep")
    assert slept["group"] == "other waits" and slept["seconds"] == pytest.approx(found["seconds"])
    assert found["cpu_busy"] is not None and 0 < found["cpu_busy"] <= 1


def test_a_reset_and_a_restart(database: Database) -> None:
    work(database, 10)
    database.pgflash("snapshot")
    database.sql("SELECT pg_flashcache_reset_stats()")
    database.pgflash("snapshot")
    restart(database.server)
    work(database, 7)
    database.pgflash("snapshot")
    found = report(database, "report", "1", "3")
    assert found["restarted"] is True and "cache" in found["resets"]
    assert any("started again" in line for line in found["warnings"]) and any("counters of the cache" in line for line in found["warnings"])
    assert [row["moved"]["tup_inserted"] for row in found["changes"] if row["labels"]["name"] == "t"] == [7]
    assert report(database, "report", "2", "3")["restarted"] is True
    assert report(database, "report", "1", "2")["restarted"] is False


def test_it_goes_on_over_a_restart(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is restarted after the first snapshot; the second is taken all the same."""
    taken: list[int] = []
    lost: list[str] = []

    def told(one: snapshots.Taken) -> None:
        taken.append(one.id)
        if one.id == 1:
            restart(database.server)

    monkeypatch.setattr(schedule, "RETRY_S", 0.2)
    schedule.Schedule(database.dsn, 2, Wanted(), told, lost.append).run(2)
    assert taken == [1, 2] and len(lost) >= 1 and all("trying again" in line for line in lost)


def test_times(database: Database) -> None:
    for _ in range(4):
        database.pgflash("snapshot")
    database.sql(
        "UPDATE pg_flashcache_snapshots SET taken_at = 'yesterday 02:00'::timestamptz + id * interval '15 min' - interval '14 min'",
    )
    found = report(database, "report", "yesterday 02:00", "yesterday 02:30")
    assert (found["first"], found["last"]) == (1, 3)
    assert report(database, "report", "1", "now")["last"] == 4
    text = database.pgflash("report", "yesterday 02:00", "now").stdout
    assert "Snapshot 1 is the nearest to the time asked for, 1 min 00 s away." in text
    assert refused(database, "report", "now", "tomorrow")[:2] == (2, "'now' and 'tomorrow' are the same snapshot, 4")


def test_wrong_ones(database: Database) -> None:
    status, message, hint = refused(database, "report", "1", "2")
    assert (status, message) == (2, "there are no snapshots in this database") and "pgflash snapshot" in hint
    database.pgflash("snapshot")
    database.pgflash("snapshot")
    status, message, hint = refused(database, "report", "1", "7")
    assert (status, message) == (2, "there is no snapshot 7") and hint.startswith("snapshots here go from 1 (")
    assert refused(database, "report", "2", "1")[:2] == (2, "snapshot 2 is later than 1")
    assert refused(database, "report", "1", "1")[:2] == (2, "'1' and '1' are the same snapshot, 1")
    status, message, _ = refused(database, "report", "1", "soon")
    assert status == 2 and message.startswith("'soon' is neither a snapshot nor a time")
    assert refused(database, "report", "1")[:2] == (2, "a report takes FROM and TO")
    assert refused(database, "diff", "1..2", "1")[:2] == (
        2,
        "'1' is no interval; allowed: FROM..TO, as 12..15 or 'yesterday 02:00..yesterday 03:00'",
    )
    listed = json.loads(database.pgflash("report", "--list", "--json").stdout)["snapshots"]
    assert [item["id"] for item in listed] == [1, 2] and all(item["bytes"] > 0 for item in listed)
    table = database.pgflash("report", "--list", env={"COLUMNS": "100"})
    assert table.returncode == 0 and table.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--every", "often"), "--every: 'often' will not do"), (("--every", "1s"), "--every: '1s' will not do; allowed: 10s or more"),
        (("--keep", "2 weeks"), "--keep: '2 weeks' will not do"), (("--max-size", "50%"), "--max-size: '50%' will not do"),
        (("--max-size", "0MB"), "--max-size: '0MB' will not do"), (("--max-size", "99999999TB"), "--max-size: '99999999TB' will not do"),
        (("--keep", "5min"), "--keep: '5min' will not do; allowed: 1h or more"), (("--keep", "99999999d"), "--keep: '99999999d' will not do"),
        (("--every", "999999d"), "--every: '999999d' will not do"), (("--times", "2"), "--times goes with --every"),
    ],
)  # fmt: skip
def test_wrong_options(database: Database, arguments: tuple[str, ...], said: str) -> None:
    status, message, _ = refused(database, "snapshot", *arguments)
    assert status == 2 and message.startswith(said)
    assert database.sql("SELECT count(*) FROM pg_flashcache_snapshots") == "0"


def test_retention(database: Database) -> None:
    for _ in range(3):
        database.pgflash("snapshot")
    database.sql("UPDATE pg_flashcache_snapshots SET taken_at = taken_at - interval '20 days' WHERE id = 1")
    assert database.pgflash("snapshot", "--keep", "30d").stdout == "snapshot 4\n", "longer than the server's table says"
    assert database.pgflash("snapshot").stdout == "snapshot 5; 1 dropped\n"
    assert database.pgflash("snapshot", "--max-size", "1kB").stdout == "snapshot 6; 4 dropped\n"
    assert database.sql("SELECT count(DISTINCT snapshot) FROM pg_flashcache_snapshot_data") == "1"


def test_without_the_extension_or_with_an_old_one(empty_database: Database) -> None:
    for arguments in (("snapshot",), ("snapshot", "--every", "10s"), ("report", "1", "2"), ("diff", "1..2", "2..3")):
        status, message, hint = refused(empty_database, *arguments)
        assert (status, message) == (3, f"the extension pg_flashcache is not in the database {empty_database.name}")
        assert "CREATE EXTENSION pg_flashcache" in hint
    empty_database.sql("CREATE EXTENSION pg_flashcache VERSION '1.0'")
    status, message, hint = refused(empty_database, "snapshot")
    assert status == 3 and message.endswith("has the objects of version 1.0, which knows no snapshots")
    assert hint == "run ALTER EXTENSION pg_flashcache UPDATE there"
    empty_database.sql("ALTER EXTENSION pg_flashcache UPDATE")
    assert empty_database.pgflash("snapshot").stdout == "snapshot 1\n"
    status, message, _ = refused(empty_database, "snapshot", dsn="host=/nowhere")
    assert status == 7 and message.startswith("the server cannot be reached")


def test_privileges(database: Database) -> None:
    database.sql(*ROLES)
    nobody, monitor = database.as_user("snap_nobody"), database.as_user("snap_monitor")
    work(database, 1)
    database.pgflash("snapshot")
    database.pgflash("snapshot")
    status, message, hint = refused(database, "snapshot", dsn=monitor)
    assert (status, message) == (3, f"snap_monitor may not take snapshots in the database {database.name}") and "superuser" in hint
    assert report(database, "report", "1", "2", dsn=monitor)["last"] == 2
    status, message, hint = refused(database, "report", "1", "2", dsn=nobody)
    assert (status, message) == (3, f"snap_nobody may not read snapshots in the database {database.name}")
    assert hint == "GRANT pg_monitor TO snap_nobody, or connect as another role"
    assert refused(database, "snapshot", dsn=nobody)[0] == 3
    database.sql(
        "GRANT EXECUTE ON FUNCTION pg_flashcache_snapshot, pg_flashcache_snapshot_collect, pg_flashcache_drop_snapshots TO snap_monitor",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON pg_flashcache_snapshots, pg_flashcache_snapshot_data, pg_flashcache_snapshot_state"
        " TO snap_monitor",
        "GRANT SELECT, UPDATE (last_snapshot) ON pg_flashcache_snapshot_settings TO snap_monitor",
    )
    assert database.pgflash("snapshot", dsn=monitor).stdout == "snapshot 3\n"


def test_a_function_of_the_same_name(database: Database) -> None:
    """Whoever owns schema public makes one that would be a better match; a superuser's snapshot does not call it."""
    for third in ("integer", "smallint", "numeric", "text"):
        database.sql(
            f"CREATE FUNCTION pg_flashcache_snapshot(text, interval, {third}) RETURNS bigint AS $$ BEGIN RAISE 'trapped'; END $$ LANGUAGE plpgsql"
        )
    assert database.pgflash("snapshot", "--max-size", "1MB", "--keep", "1d", "--note", "x").stdout == "snapshot 1\n"
    assert database.pgflash("snapshot").stdout == "snapshot 2\n"


def test_dumps_have_no_snapshots(database: Database) -> None:
    """The database's owner, who may not read them, can dump it."""
    database.sql(
        *ROLES,
        f"ALTER DATABASE {database.name} OWNER TO snap_owner",
        "CREATE TABLE mine AS SELECT 1",
        "ALTER TABLE mine OWNER TO snap_owner",
    )
    database.pgflash("snapshot", "--note", "unmistakable")
    for user in ("snap_owner", "postgres"):
        command = [f"{database.server.bin}/pg_dump", "-d", database.as_user(user)]
        dumped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert "unmistakable" not in dumped and "pg_flashcache_snapshot" not in dumped
        assert "CREATE EXTENSION" in dumped and "mine" in dumped


def test_files(database: Database, tmp_path: Path) -> None:
    for _ in range(3):
        database.pgflash("snapshot")
    html, markdown = tmp_path / "r.html", tmp_path / "r.md"
    done = database.pgflash("report", "1", "3", "--html", html, "--markdown", markdown)
    assert done.returncode == 0 and f"html: {html}\nmarkdown: {markdown}\n" in done.stdout
    assert "Plotly.newPlot" in html.read_text() and markdown.read_text().startswith(f"# Database {database.name}, snapshots 1 to 3")
    done = database.pgflash("diff", "1..2", "2..3", "--html", html)
    assert done.returncode == 0 and "A: snapshots 1 to 2, B: 2 to 3" in html.read_text()
    values = report(database, "diff", "1..2", "2..3")
    assert (values["a"]["last"], values["b"]["first"]) == (2, 2) and values["verdict"]["headline"]
    status, message, _ = refused(database, "report", "1", "3", "--html", str(tmp_path / "no" / "r.html"))
    assert status == 2 and "cannot be written" in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.html", "r.md"]


def test_other_extensions(stand_ins: Database) -> None:
    database = stand_ins
    database.sql("INSERT INTO ws VALUES (1, 'IO', 'DataFileRead', 5, 100)", f"INSERT INTO kc VALUES ('{database.name}', 1, 2, 3)")
    assert database.pgflash("snapshot").returncode == 0
    database.sql(
        "INSERT INTO ws VALUES (2, 'IO', 'DataFileRead', 5, 30), (2, 'Client', 'ClientRead', 0, 7)", "UPDATE ws SET count = count + 20 WHERE pid = 1",
        "UPDATE kc SET exec_user_time = 1.5, exec_system_time = 4",
    )  # fmt: skip
    assert database.pgflash("snapshot").returncode == 0
    found = report(database, "report", "1", "2")
    assert found["kcache_cpu_s"] == 2.5
    assert found["time"]["source"] == "wait_sampling"
    assert [wait["seconds"] for wait in found["time"]["waits"] if wait["event"] == "IO: DataFileRead"] == [0.5]


def test_waits_of_sessions_only(stand_ins: Database) -> None:
    """Of what pg_wait_sampling counts, in one event: a session that is there, sessions that are gone; no process that is no session."""
    database = stand_ins
    gone = 2_000_000_000  # no system numbers processes so high
    writer = database.sql("SELECT writer_pid FROM pg_stat_flashcache")
    launcher = database.sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'logical replication launcher'")
    with psycopg.connect(database.dsn) as session:
        pids = {
            "there": session.info.backend_pid, "writer": writer, "launcher": launcher, "by its query": gone + 1, "by its client": gone + 2,
            "in doubt": gone + 3, "worker": gone + 4, "walsender": gone + 5, "autovacuum": gone + 6, "all": 0, "known late": gone + 7,
        }  # fmt: skip
        other = {"by its client": "'Client', 'ClientRead'", "in doubt": "'IO', 'DataFileRead'", "walsender": "'Activity', 'WalSenderMain'",
                 "autovacuum": "'Timeout', 'VacuumDelay'", "known late": "'IO', 'DataFileRead'", "writer": "'IO', 'DataFileRead'"}  # fmt: skip
        for name, pid in pids.items():
            database.sql(f"INSERT INTO ws VALUES ({pid}, 'Extension', 'Extension', {5 if name == 'by its query' else 0}, 1000)")
            if name in other:
                database.sql(f"INSERT INTO ws VALUES ({pid}, {other[name]}, 0, 50)")
        database.pgflash("snapshot")
        database.sql(f"SELECT pg_terminate_backend({launcher}, 600000)")
        for number, pid in enumerate(pids.values()):
            database.sql(f"UPDATE ws SET count = count + {10**number} WHERE pid = {pid} AND event = 'Extension'")
        database.pgflash("snapshot")
        # A process that counted as a session shows that it is none: what it had counted is not taken from the others, nor is it a reset.
        database.sql(
            f"INSERT INTO ws VALUES ({pids['known late']}, 'Activity', 'BgWriterMain', 0, 1)",
            f"UPDATE ws SET count = count + 7 WHERE pid = {session.info.backend_pid}",
        )
        database.pgflash("snapshot")
        database.sql(f"UPDATE ws SET count = count + 9 WHERE pid IN ({session.info.backend_pid}, {pids['known late']}, {writer})")
        database.pgflash("snapshot")
    moved = [
        database.sql(
            "SELECT coalesce(sum((r -> 'moved' ->> 'count')::bigint), 0) FROM pg_flashcache_snapshot_data, jsonb_array_elements(data) r"
            f" WHERE section = 'wait_sampling' AND snapshot = {number} AND r ->> 'key' = 'Extension/Extension'"
        )
        for number in (2, 3, 4)
    ]
    assert moved == [
        str(sum(10 ** list(pids).index(name) for name in ("there", "by its query", "by its client", "in doubt", "known late"))),
        "0",
        "9",
    ]
    assert report(database, "report", "1", "4")["resets"] == []


def test_processes_that_are_not_told_apart(stand_ins: Database) -> None:
    stand_ins.sql(
        f"ALTER DATABASE {stand_ins.name} SET pg_wait_sampling.profile_pid = off", "INSERT INTO ws VALUES (0, 'IO', 'DataFileRead', 5, 1)"
    )
    stand_ins.pgflash("snapshot")
    stand_ins.pgflash("snapshot")
    found = report(stand_ins, "report", "1", "2")
    assert found["missing"]["wait_sampling"].startswith("pg_wait_sampling.profile_pid is off") and found["time"]["source"] == "database"


def test_a_snapshot_by_hand_in_between(database: Database) -> None:
    """Samples go on over it."""

    def told(one: snapshots.Taken) -> None:
        if one.id == 1:
            database.sql("SELECT pg_flashcache_snapshot()")

    with sleeping(database):
        schedule.Schedule(database.dsn, 3, Wanted(), told, print).run(2)
    found = report(database, "report", "1", "3")["time"]
    assert found["source"] == "sampled" and 0 < found["covered"] <= 1
    assert [wait["group"] for wait in found["waits"] if wait["event"] == "Timeout: PgSleep"] == ["other waits"]


def test_advice(database: Database) -> None:
    """What is estimated of other sizes is kept as it was at each snapshot."""
    database.sql("SELECT pg_flashcache_snapshot()", "SELECT pg_flashcache_snapshot()")
    wanted = database.sql("SELECT string_agg(concat_ws(' ', kind, size, is_current), ',' ORDER BY kind, size) FROM pg_flashcache_advice")
    found = report(database, "report", "1", "2")["advice"]
    seen = [(row["labels"]["kind"], str(row["labels"]["size"]), "t" if row["labels"]["is_current"] else "f") for row in found]
    assert ",".join(map(" ".join, seen)) == wanted and len(found) == 16


def test_a_row_of_settings_that_is_lost(database: Database) -> None:
    database.pgflash("snapshot")
    database.sql("DELETE FROM pg_flashcache_snapshot_settings")
    status, message, hint = refused(database, "snapshot")
    assert (status, message) == (
        2,
        "no snapshot was taken: the row of pg_flashcache_snapshot_settings is missing",
    ) and "INSERT INTO" in hint
    database.sql("INSERT INTO pg_flashcache_snapshot_settings DEFAULT VALUES")
    assert database.pgflash("snapshot").stdout == "snapshot 2\n"


def test_locked_tables(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports and snapshots do not wait for good for whoever has locked the table of snapshots, and say so."""
    for _ in range(2):
        database.pgflash("snapshot")
    with psycopg.connect(database.dsn) as other:
        other.execute("LOCK pg_flashcache_snapshots IN ACCESS EXCLUSIVE MODE")
        for words in (("report", "--list"), ("report", "1", "2"), ("diff", "1..2", "1..2"), ("snapshot",)):
            status, message, hint = refused(database, *words)
            assert (status, message) == (3, "another session has locked what is to be looked at") and "pg_locks" in hint


def test_a_truncated_table_is_no_reset(database: Database) -> None:
    database.sql("CREATE EXTENSION pg_stat_statements")
    work(database, 10)
    database.pgflash("snapshot")
    database.sql("TRUNCATE t", "INSERT INTO t VALUES (1)", "SELECT pg_stat_force_next_flush()", "SELECT 1")
    database.pgflash("snapshot")
    assert report(database, "report", "1", "2")["resets"] == []
    database.sql("SELECT pg_stat_statements_reset()")
    database.pgflash("snapshot")
    assert report(database, "report", "2", "3")["resets"] == ["statements"]
    database.sql("SELECT pg_stat_reset()")
    database.pgflash("snapshot")
    assert report(database, "report", "3", "4")["resets"] == ["database", "relations"]


def test_limits_of_the_database(database: Database) -> None:
    """A statement_timeout that the database has set is for others; on a busy machine one may end the statement that says so."""
    database.sql(f"ALTER DATABASE {database.name} SET statement_timeout = '1ms'")
    taken = next((done for done in (database.pgflash("snapshot") for _ in range(50)) if done.returncode == 0), None)
    assert taken is not None and taken.stdout == "snapshot 1\n"
