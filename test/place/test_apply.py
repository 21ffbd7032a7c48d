"""Moves on a real server: there, back, refused, cancelled, cut short by kill -9 of the tool and of the server."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from .servers import Server, await_, begin, needs_repack, needs_root, needs_server, tool

pytestmark = needs_server
ACCEPT = "--accept-loss-of-redundancy"
ODD = 'we"ird; "'  # a name that must be quoted
QUOTED = '"' + ODD.replace('"', '""') + '"'


@pytest.fixture
def filled(server: Server, database: str) -> str:
    """A table with an index of an odd name and TOAST, and one without a key."""
    server.sql(
        "CREATE EXTENSION amcheck",
        "CREATE TABLE t (id int PRIMARY KEY, x text, y int)",
        "ALTER TABLE t ALTER x SET STORAGE EXTERNAL",
        "INSERT INTO t SELECT i, repeat('x', CASE WHEN i % 100 = 0 THEN 5000 ELSE 50 END), i % 100 FROM generate_series(1, 5000) i",
        f"CREATE INDEX {QUOTED} ON t (y)",
        "CREATE TABLE nokey AS SELECT * FROM t",
        database=database,
    )
    return database


def sound(server: Server, database: str) -> None:
    """By amcheck, and by what is in it; no index is invalid, nothing of pg_repack is left."""
    for check in (
        "SELECT count(bt_index_check(indexrelid, true)) FROM pg_index WHERE indrelid = 't'::regclass",
        "SELECT count(*) FROM verify_heapam('t')",
    ):
        server.sql(check, database=database)
    assert server.sql("SELECT count(*) FROM verify_heapam('t')", database=database) == 0
    assert server.sql("SELECT count(*) || ' ' || sum(length(x)) FROM t", database=database) == "5000 497500"
    assert server.sql("SELECT count(*) FROM pg_index WHERE NOT indisvalid", database=database) == 0
    assert server.sql("SELECT count(*) FROM pg_trigger WHERE tgname = 'repack_trigger'", database=database) == 0


def apply(server: Server, database: str, *more: str, loss: bool = True) -> subprocess.CompletedProcess[str]:
    return tool("place", "apply", server.dsn(database), *more, *([ACCEPT] if loss else []))


def ready(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stdout + done.stderr


def states(server: Server, database: str) -> list[tuple[str, str]]:
    return [(move["name"], move["state"]) for move in server.moves(database)]


@contextlib.contextmanager
def held(server: Server, database: str, *statements: str) -> Iterator[psycopg.Connection[Any]]:
    """A transaction that others wait for."""
    with server.connect(database) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        for statement in statements:
            connection.execute(statement.encode())
        yield connection


def reindexing(server: Server, database: str) -> bool:
    """The new index is there, and waits."""
    return bool(
        server.sql(
            "SELECT count(*) FROM pg_stat_activity a JOIN pg_class c ON c.relname LIKE '%ccnew'"
            " WHERE a.datname = current_database() AND a.query LIKE 'REINDEX%' AND a.wait_event_type = 'Lock'",
            database=database,
        )
    )


def idle(server: Server, database: str) -> bool:
    return not server.sql(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgflash place' AND datname = current_database()", database=database
    )


def test_there_and_back(server: Server, filled: str) -> None:
    before = server.sql("SELECT pg_total_relation_size('t')", database=filled)
    ready(
        apply(
            server, filled, "--tablespace=flash", "--object=public.t", f"--object=public.{QUOTED}", "--object=public.t_pkey", "--window=now"
        )
    )
    names = ("t", "t_pkey", QUOTED)
    assert [server.where(name, filled) for name in names] == ["flash"] * 3
    toast = "SELECT spcname FROM pg_class c JOIN pg_class m ON c.oid = m.reltoastrelid JOIN pg_tablespace s ON s.oid = c.reltablespace WHERE m.oid = 't'::regclass"
    assert server.sql(toast, database=filled) == "flash"
    sound(server, filled)
    moves = server.moves(filled)
    assert [(move["state"], move["method"], move["from"], move["now_in"]) for move in moves] == [
        ("done", "alter", "pg_default", "flash"), ("done", "reindex", "pg_default", "flash"), ("done", "reindex", "pg_default", "flash"),
    ]  # fmt: skip
    again = apply(server, filled, "--tablespace=flash", "--object=public.t", "--json")
    ready(again)
    assert json.loads(again.stdout.splitlines()[-1]) == {"event": "end of all", "done": 0, "later": 0, "failed": 0}
    ready(tool("place", "back", server.dsn(filled), "--window=now"))
    assert [server.where(name, filled) for name in names] == ["pg_default"] * 3
    assert {state for _, state in states(server, filled)} == {"back"}
    sound(server, filled)
    assert server.sql("SELECT pg_total_relation_size('t')", database=filled) <= before
    ready(tool("place", "back", server.dsn(filled)))


@needs_repack
def test_online_with_pg_repack(server: Server, filled: str) -> None:
    server.sql("CREATE EXTENSION pg_repack", database=filled)
    refused = apply(server, filled, "--tablespace=flash", "--object=public.t", "--object=public.nokey")
    assert refused.returncode == 3 and "locked while they are copied: table public.nokey" in refused.stderr
    ready(apply(server, filled, "--tablespace=flash", "--object=public.t"))
    assert [(move["state"], move["method"]) for move in server.moves(filled)] == [("done", "pg_repack")]
    assert (server.where("t", filled), server.where("t_pkey", filled)) == ("flash", "pg_default")
    sound(server, filled)
    ready(tool("place", "back", server.dsn(filled)))
    assert server.where("t", filled) == "pg_default"
    sound(server, filled)


@needs_repack
def test_pg_repack_and_the_tool_are_killed(server: Server, filled: str) -> None:
    server.sql("CREATE EXTENSION pg_repack", "CREATE TABLE other (i int)", database=filled)
    with held(server, filled, "INSERT INTO other VALUES (1)"):
        process = begin("place", "apply", server.dsn(filled), "--tablespace=flash", "--object=public.t", ACCEPT)
        await_(
            lambda: bool(server.sql("SELECT count(*) FROM pg_trigger WHERE tgname = 'repack_trigger'", database=filled)),
            "pg_repack's trigger",
        )
        below = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True).stdout.split()
        for pid in [*map(int, below), process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate()
        await_(lambda: idle(server, filled), "the end of its session")
        assert states(server, filled) == [("t", "interrupted")]
    ready(apply(server, filled, "--resume"))
    assert states(server, filled) == [("t", "done")] and server.where("t", filled) == "flash"
    assert (
        server.sql(
            "SELECT count(*) FROM pg_class WHERE relnamespace = 'repack'::regnamespace AND relname ~ '^(log|table)_'", database=filled
        )
        == 0
    )
    sound(server, filled)


def test_cancelled(server: Server, filled: str) -> None:
    """Ctrl-C while a REINDEX waits for an old snapshot: its invalid index is removed."""
    server.sql("CREATE TABLE other (i int)", database=filled)
    with held(server, filled, "SELECT * FROM other"):
        process = begin(
            "place",
            "apply",
            server.dsn(filled),
            "--tablespace=flash",
            "--object=public.t_pkey",
            "--object=public.nokey",
            "--window=now",
            ACCEPT,
        )
        await_(lambda: reindexing(server, filled), "REINDEX")
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 130, output
        assert states(server, filled) == [("t_pkey", "cancelled"), ("nokey", "planned")]
        sound(server, filled)
    ready(apply(server, filled, "--resume", "--window=now"))
    assert (server.where("t_pkey", filled), server.where("nokey", filled)) == ("flash", "flash")
    sound(server, filled)


def test_cancelled_and_cannot_be_cleaned_yet(server: Server, filled: str) -> None:
    """A writer of the table holds up removing the invalid index, too: it is named, and removed by the next run."""
    with held(server, filled, "UPDATE t SET y = y WHERE id = 1"):
        process = begin("place", "apply", server.dsn(filled), "--tablespace=flash", "--object=public.t_pkey", "--lock-timeout=0.5", ACCEPT)
        await_(lambda: reindexing(server, filled), "REINDEX")
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 130, output
        (move,) = server.moves(filled)
        assert move["state"] == "cancelled" and 'DROP INDEX CONCURRENTLY "public"."t_pkey_ccnew"' in move["note"]
    ready(apply(server, filled, "--resume"))
    assert states(server, filled) == [("t_pkey", "done")]
    sound(server, filled)


def test_the_tool_is_killed(server: Server, filled: str) -> None:
    with held(server, filled, "UPDATE t SET y = y WHERE id = 1"):
        process = begin("place", "apply", server.dsn(filled), "--tablespace=flash", "--object=public.t_pkey", ACCEPT)
        await_(lambda: reindexing(server, filled), "REINDEX")
        process.kill()
        process.communicate()
        await_(lambda: idle(server, filled), "the end of its session")
        assert states(server, filled) == [("t_pkey", "interrupted")]
    assert server.where("t_pkey", filled) == "pg_default"
    ready(apply(server, filled, "--resume"))
    assert server.where("t_pkey", filled) == "flash"
    sound(server, filled)


def test_the_server_is_killed(server: Server, filled: str) -> None:
    with contextlib.suppress(psycopg.Error), held(server, filled, "UPDATE t SET y = y WHERE id = 1"):
        process = begin("place", "apply", server.dsn(filled), "--tablespace=flash", "--object=public.t_pkey", ACCEPT)
        await_(lambda: reindexing(server, filled), "REINDEX")
        server.kill()
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 4 and "Traceback" not in output, output
    server.start()
    assert states(server, filled) == [("t_pkey", "interrupted")]
    ready(tool("place", "back", server.dsn(filled)))
    assert states(server, filled) == [("t_pkey", "skipped")] and server.where("t_pkey", filled) == "pg_default"
    sound(server, filled)


def test_a_lock_is_asked_for_again(server: Server, filled: str) -> None:
    with held(server, filled, "SELECT 1 FROM nokey LIMIT 1"):
        failed = apply(server, filled, "--tablespace=flash", "--object=public.nokey", "--window=now", "--lock-timeout=0.1", "--retries=1")
    assert failed.returncode == 4 and "trying again (1)" in failed.stderr, failed.stderr
    assert states(server, filled) == [("nokey", "failed")] and server.where("nokey", filled) == "pg_default"
    ready(apply(server, filled, "--resume", "--window=now"))
    assert states(server, filled) == [("nokey", "done")] and server.where("nokey", filled) == "flash"


def test_not_in_the_window(server: Server, filled: str) -> None:
    hour = int(server.sql("SELECT extract(hour FROM localtime)"))
    later = f"--window={(hour + 12) % 24:02d}:00-{(hour + 12) % 24:02d}:01"
    done = apply(server, filled, "--tablespace=flash", "--object=public.nokey", "--object=public.t_pkey", later)
    ready(done)
    assert states(server, filled) == [("nokey", "planned"), ("t_pkey", "done")]
    assert "1 done, 1 for later, 0 failed" in done.stdout


def test_one_at_a_time(server: Server, filled: str) -> None:
    with held(server, filled, "SELECT pg_advisory_lock(1886807657, 1886151019)"):
        refused = apply(server, filled, "--tablespace=flash", "--object=public.t_pkey")
    assert refused.returncode == 3 and "are being moved by another pgflash" in refused.stderr


@needs_root
def test_no_room(server: Server, filled: str) -> None:
    server.sql("CREATE TABLE wide AS SELECT repeat('x', 1000) FROM generate_series(1, 6000)", database=filled)
    refused = apply(server, filled, "--tablespace=tiny", "--object=public.t_pkey", loss=False)
    assert refused.returncode == 3 and "is in memory (tmpfs)" in refused.stderr
    failed = apply(server, filled, "--tablespace=tiny", "--object=public.wide", "--object=public.t_pkey", "--window=now")
    assert failed.returncode == 4
    big, small = server.moves(filled)
    assert big["state"] == "failed" and "are free" in big["note"] and "WAL included" in big["note"]
    assert small["state"] == "done" and server.where("t_pkey", filled) == "tiny"
    ready(tool("place", "back", server.dsn(filled)))


def test_what_changed_meanwhile(server: Server, filled: str, tmp_path: Path) -> None:
    """Dropped, renamed and rebuilt since the plan: said, and the rest is moved."""
    server.sql("CREATE TABLE gone (i int)", "CREATE INDEX a ON t (id)", "CREATE INDEX b ON t (y)", database=filled)
    with server.connect(filled) as connection:
        found = connection.execute(
            "SELECT oid::bigint, CASE relkind WHEN 'r' THEN 'table' ELSE 'index' END, relname, pg_relation_filenode(oid)::bigint FROM pg_class"
            " WHERE relname IN ('gone', 'a', 'b', 'nokey')"
        ).fetchall()
    objects = [
        {"oid": oid, "kind": kind, "schema": "public", "name": name, "relfilenode": node, "place": "move"}
        for oid, kind, name, node in found
    ]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"objects": objects}))
    server.sql("DROP TABLE gone", "ALTER INDEX a RENAME TO c", "REINDEX INDEX CONCURRENTLY b", database=filled)
    done = apply(server, filled, "--tablespace=flash", f"--plan={plan}", "--window=now")
    ready(done)
    assert "table public.gone was dropped since the plan was made" in done.stderr
    assert "index public.a was renamed since the plan was made: it is public.c" in done.stderr
    assert "index public.b was rebuilt since the plan was made" in done.stderr
    assert [server.where(name, filled) for name in ("c", "b", "nokey")] == ["flash"] * 3
    plan.write_text("{}")
    assert apply(server, filled, "--tablespace=flash", f"--plan={plan}").returncode == 2


def test_rights_come_first(server: Server, filled: str) -> None:
    """Everything that is missing at once, and nothing was made."""
    server.sql("DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN IN ROLE pg_monitor")
    refused = tool(
        "place", "apply", server.dsn(filled, "reader"), "--tablespace=flash", "--object=public.t_pkey", "--object=public.nokey", ACCEPT
    )
    assert refused.returncode == 3
    for text in ("index public.t_pkey belongs to somebody else", "table public.nokey belongs", "tablespace flash: no privilege CREATE"):
        assert text in refused.stderr
    assert server.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'pgflash'", database=filled) == 0
    assert apply(server, filled, "--tablespace=nonesuch", "--object=public.t").returncode == 2
    assert apply(server, filled, "--tablespace=flash", "--object=public.nonesuch").returncode == 2
    assert apply(server, filled, "--tablespace=flash").returncode == 2


def test_the_schema_of_somebody_else(server: Server, filled: str) -> None:
    server.sql("CREATE SCHEMA pgflash", database=filled)
    refused = apply(server, filled, "--tablespace=flash", "--object=public.t_pkey")
    assert refused.returncode == 3 and "is not pgflash's" in refused.stderr
    assert server.where("t_pkey", filled) == "pg_default"
    server.sql("DROP SCHEMA pgflash", database=filled)
    ready(apply(server, filled, "--tablespace=flash", "--object=public.t_pkey"))
    server.sql("DROP ROLE IF EXISTS other", "CREATE ROLE other", "ALTER TABLE pgflash.place_journal OWNER TO other", database=filled)
    refused = tool("place", "back", server.dsn(filled))
    assert refused.returncode == 3 and server.where("t_pkey", filled) == "flash"
    server.sql("ALTER TABLE pgflash.place_journal OWNER TO postgres", "DROP ROLE other", database=filled)


def test_no_mirror(server: Server, filled: str) -> None:
    """The servers of tests are on one device, or on none that can be seen."""
    refused = apply(server, filled, "--tablespace=flash", "--object=public.t_pkey", loss=False)
    assert refused.returncode == 3 and "--accept-loss-of-redundancy" in refused.stderr
    assert server.where("t_pkey", filled) == "pg_default" and not server.moves(filled)


SPILL = ("SET work_mem = '64kB'", "SELECT count(*) FROM (SELECT i FROM generate_series(1, 100000) i ORDER BY -i OFFSET 0) x")


def test_temporary_files(server: Server, filled: str) -> None:
    """They need no mirror. A lost folder costs only them."""
    server.sql(f"ALTER DATABASE {filled} SET temp_tablespaces = 'flash', pg_default")
    server.sql("DROP ROLE IF EXISTS poor", "CREATE ROLE poor LOGIN")
    ready(apply(server, filled, "--tablespace=slow", "--temporary", loss=False))
    (move,) = server.moves(filled)
    assert move["state"] == "done" and "without effect for: poor" in move["note"]
    server.sql(*SPILL, database=filled)
    (folder,) = [path for path in (server.folder / "slow").glob("PG_*") if (path / "pgsql_tmp").is_dir()]
    server.stop()
    shutil.rmtree(folder)
    server.start()
    sound(server, filled)
    server.sql(*SPILL, database=filled)  # the server takes the database's own tablespace instead
    assert not folder.exists()
    ready(tool("place", "back", server.dsn(filled)))
    assert server.sql("SHOW temp_tablespaces", database=filled) == "flash, pg_default"
    server.sql(*SPILL, database=filled)
    server.sql("DROP TABLESPACE slow", f"CREATE TABLESPACE slow LOCATION '{server.folder}/slow'")


def test_script(server: Server, filled: str) -> None:
    """What it prints psql takes, and it does the same."""
    done = tool(
        "place", "script", server.dsn(filled), "--tablespace=flash", "--object=public.nokey", f"--object=public.{QUOTED}", "--temporary"
    )
    ready(done)
    assert server.where("nokey", filled) == "pg_default" and not server.moves(filled)
    psql = [f"{server.bin}/psql", "-X", "-q", "-d", server.dsn(filled)]
    subprocess.run(psql, input=done.stdout, text=True, check=True)
    assert (server.where("nokey", filled), server.where(QUOTED, filled)) == ("flash", "flash")
    assert server.sql("SHOW temp_tablespaces", database=filled) == "flash"


def test_temporary_files_that_would_not_go_there(server: Server, filled: str) -> None:
    """A new session has another setting: it failed, and the database's is as before."""
    server.sql("DROP ROLE IF EXISTS own", "CREATE ROLE own SUPERUSER LOGIN", "ALTER ROLE own SET temp_tablespaces = 'slow'")
    for before in ("slow", ""):
        server.sql(f"ALTER DATABASE {filled} " + (f"SET temp_tablespaces = {before}" if before else "RESET temp_tablespaces"))
        failed = tool("place", "apply", server.dsn(filled, "own"), "--tablespace=flash", "--temporary", "--json")
        assert failed.returncode == 4, failed.stdout
        move = json.loads(tool("place", "status", server.dsn(filled, "own"), "--json").stdout)["moves"][-1]
        assert (move["state"], move["note"]) == ("failed", "temp_tablespaces of a new session is slow, not flash")
        assert server.sql("SHOW temp_tablespaces", database=filled) == before
    server.sql("DROP OWNED BY own", database=filled)
    server.sql("DROP ROLE own")


def test_the_own_tablespace_needs_no_mirror(server: Server, filled: str) -> None:
    """The database is lost with it anyway."""
    ready(apply(server, filled, "--tablespace=flash", "--object=public.t_pkey"))
    ready(apply(server, filled, "--tablespace=pg_default", "--object=public.t_pkey", loss=False))
    assert server.where("t_pkey", filled) == "pg_default"


def test_whose_journal(server: Server, filled: str) -> None:
    """Of a superuser: for every superuser. Of another role: for that role. Everybody else is told so."""
    server.sql("DROP ROLE IF EXISTS second, other", "CREATE ROLE second SUPERUSER LOGIN", "CREATE ROLE other LOGIN")
    ready(apply(server, filled, "--tablespace=flash", "--object=public.t_pkey"))
    done = tool("place", "status", server.dsn(filled, "second"), "--json")
    assert done.returncode == 0 and [move["name"] for move in json.loads(done.stdout)["moves"]] == ["t_pkey"]
    for words in (("status",), ("back", "--window=now")):
        refused = tool("place", words[0], server.dsn(filled, "other"), *words[1:], "--json")
        error = json.loads(refused.stdout)
        assert refused.returncode == 3 and error["message"] == "the journal in the schema pgflash belongs to postgres, not to other"
        assert error["hint"] == "connect as postgres, or as another superuser"
    ready(tool("place", "back", server.dsn(filled, "second"), "--window=now"))
    server.sql("DROP ROLE second", "DROP ROLE other")
