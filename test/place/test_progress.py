"""How far a move is: the size of files that are not committed yet, and what is told of it while it goes on."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

from pgflash.place import objects
from pgflash.place.mover import connect
from pgflash.place.progress import Progress
from pgflash.units import show_bytes

from .servers import Server, await_, begin, needs_repack, needs_server

pytestmark = needs_server
ACCEPT = "--accept-loss-of-redundancy"
HELD = 4711


def filled(server: Server, database: str) -> int:
    """The size of a table with TOAST, and nothing else."""
    server.sql(
        "CREATE TABLE t (id int, x text)",
        "ALTER TABLE t ALTER x SET STORAGE EXTERNAL",
        "INSERT INTO t SELECT i, repeat('x', CASE WHEN i % 100 = 0 THEN 5000 ELSE 50 END) FROM generate_series(1, 5000) i",
        "CREATE TABLE there (i int) TABLESPACE flash",
        database=database,
    )
    return int(server.sql("SELECT pg_table_size('t')", database=database))


def test_the_size_of_a_copy(server: Server, database: str) -> None:
    """To both kinds of folder: of exactly what is not committed, without what was there, or was made by others meanwhile."""
    size = filled(server, database)
    oid = int(server.sql("SELECT 't'::regclass::oid", database=database))
    with connect(server.dsn(database)) as looking, server.connect(database) as unfinished:
        unfinished.execute("BEGIN")
        for number, target in enumerate(("flash", "pg_default")):
            unfinished.execute(f"CREATE TABLE unfinished{number} TABLESPACE {target} AS SELECT generate_series(1, 1000)".encode())
            item = objects.by_oid(looking, oid)
            assert item is not None and item.bytes == size
            progress = Progress(looking, item, target, "alter", 0)
            assert (progress.copied(), progress.news()) == (0, "")
            server.sql(
                "INSERT INTO there SELECT generate_series(1, 1000)",
                f"CREATE TABLE other{number} TABLESPACE {target} AS SELECT generate_series(1, 1000)",
                database=database,
            )
            with server.connect(database) as moving:
                moving.execute(f"BEGIN; ALTER TABLE t SET TABLESPACE {target}".encode())
                assert progress.copied() == size
                assert progress.news() == f"copied: {show_bytes(size)} of {show_bytes(size)}"
                assert progress.news() == ""
                moving.execute("COMMIT")
            assert progress.copied() == 0


def test_who_may_not_list_files_is_told_nothing(server: Server, database: str) -> None:
    filled(server, database)
    server.sql("DROP ROLE IF EXISTS plain", "CREATE ROLE plain LOGIN")
    with connect(server.dsn(database, "plain")) as looking:
        item = objects.by_oid(looking, int(server.sql("SELECT 't'::regclass::oid", database=database)))
        assert item is not None
        progress = Progress(looking, item, "flash", "alter", 0)
        with server.connect(database) as moving:
            moving.execute("BEGIN; ALTER TABLE t SET TABLESPACE flash")
            assert progress.news() == ""
    server.sql("DROP ROLE plain")


def lines(process: subprocess.Popen[str]) -> Iterator[str]:
    """What it prints; it is killed if it has not come to its end within minutes: what is waited for did not come."""
    timer = threading.Timer(120, process.kill)
    timer.start()
    assert process.stdout is not None
    try:
        for line in process.stdout:  # noqa: UP028 - yield from would close it
            yield line
    finally:
        timer.cancel()


def hold(server: Server, database: str, tag: str) -> None:
    """Statements of this kind wait at their end, before they are committed."""
    server.sql(
        f"CREATE FUNCTION held() RETURNS event_trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_advisory_xact_lock({HELD}); END$$",
        f"CREATE EVENT TRIGGER held ON ddl_command_end WHEN TAG IN ('{tag}') EXECUTE FUNCTION held()",
        database=database,
    )


def told_while_held(server: Server, database: str, expected: str, *words: str) -> None:
    with server.connect(database) as other:
        other.execute(f"SELECT pg_advisory_lock({HELD})".encode())
        process = begin("place", "apply", server.dsn(database), "--tablespace=flash", "--object=public.t", ACCEPT, "--json", *words)
        seen: list[dict[str, Any]] = []
        for line in lines(process):
            seen.append(json.loads(line))
            if seen[-1] == {"event": "progress", "object": "table public.t", "phase": expected} or seen[-1]["event"] == "end":
                break
    rest, _ = process.communicate(timeout=120)
    assert seen[-1]["event"] == "progress", seen
    assert process.returncode == 0, rest


def test_told_of_alter(server: Server, database: str) -> None:
    size = filled(server, database)
    hold(server, database, "ALTER TABLE")
    whole = f"copied: {show_bytes(size)} of {show_bytes(size)}"
    told_while_held(server, database, whole, "--window=now", "--lock-timeout=600")
    assert server.where("t", database) == "flash"


@needs_repack
def test_told_of_pg_repack(server: Server, database: str) -> None:
    """While it builds the indexes of its copy: what is left to do is what was changed meanwhile, here one row."""
    filled(server, database)
    server.sql("CREATE EXTENSION pg_repack", "ALTER TABLE t ADD PRIMARY KEY (id)", database=database)
    hold(server, database, "CREATE INDEX")
    with server.connect(database) as other:
        other.execute(f"SELECT pg_advisory_lock({HELD})".encode())
        process = begin("place", "apply", server.dsn(database), "--tablespace=flash", "--object=public.t", ACCEPT, "--json")
        waiting = f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = {HELD} AND NOT granted"
        await_(lambda: server.sql(waiting, database=database) > 0, "an index of the copy")
        server.sql("UPDATE t SET x = 'y' WHERE id = 1", database=database)
        seen = ""
        for line in lines(process):
            seen = json.loads(line).get("phase", "")
            if seen == "copied; changes to be applied: 1" or json.loads(line)["event"] == "end":
                break
    process.communicate(timeout=120)
    assert seen == "copied; changes to be applied: 1" and process.returncode == 0
    assert server.where("t", database) == "flash" and server.sql("SELECT x FROM t WHERE id = 1", database=database) == "y"


def test_told_of_reindex(server: Server, database: str) -> None:
    """Waiting for an older transaction, which is a phase of its own."""
    filled(server, database)
    server.sql("CREATE INDEX t_id ON t (id)", "CREATE TABLE other (i int)", database=database)
    with server.connect(database) as other:
        other.execute("BEGIN; UPDATE t SET x = x WHERE id = 1")
        process = begin("place", "apply", server.dsn(database), "--tablespace=flash", "--object=public.t_id", ACCEPT)
        line = next((line for line in lines(process) if "waiting for writers before build" in line or "t_id: done" in line), "")
        assert line == "index public.t_id: waiting for writers before build\n"
    rest, _ = process.communicate(timeout=120)
    assert process.returncode == 0, rest
