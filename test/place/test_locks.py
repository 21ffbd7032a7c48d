"""Objects that somebody else has locked: planning waits for them briefly, says so, and gives up in the end; nothing is moved."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from .servers import TOOL, Server, environment, needs_server
from .test_tier import rules

pytestmark = needs_server
BRIEF = ("--lock-timeout=0.1", "--retries=1")
MOVE = ("--window=now", "--accept-loss-of-redundancy")
SAID = "another session has locked what is to be looked at"


def tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Ends by itself, however long the lock is held: it is held until then."""
    return subprocess.run([*TOOL, *arguments], capture_output=True, text=True, env=environment(), cwd="/", check=False, timeout=120)


def locked(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 3 and SAID in done.stderr and "pg_locks" in done.stderr, done.stdout + done.stderr


def test_planning_is_tried_again(server: Server, database: str, tmp_path: Path) -> None:
    server.sql(
        "CREATE TABLE parts (i int) PARTITION BY RANGE (i)", "CREATE TABLE p1 PARTITION OF parts FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE p2 PARTITION OF parts FOR VALUES FROM (10) TO (20)", "INSERT INTO parts SELECT generate_series(0, 19)", database=database,
    )  # fmt: skip
    file = rules(tmp_path, server, database, "public.parts", '[[table.tier]]\ntablespace = "flash"\n')
    with server.connect(database) as other:
        other.execute("BEGIN; LOCK p1 IN ACCESS EXCLUSIVE MODE")
        locked(tool("place", "script", server.dsn(database), "--tablespace=flash", "--object=public.p1"))
        for command in (
            ("place", "apply", server.dsn(database), "--tablespace=flash", "--object=public.p1", *MOVE),
            ("tier", "apply", file, "--dry-run"),
            ("tier", "apply", file, *MOVE),
        ):
            done = tool(*command, *BRIEF)
            locked(done)
            assert "what is to be moved: is in use; trying again (1)" in done.stderr
        done = tool("tier", "apply", file, "--dry-run", "--json", *BRIEF)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        assert [event["event"] for event in events] == ["retry", "error"] and events[1]["exit"] == 3
    assert server.where("p1", database) == "pg_default" and server.moves(database) == []
    assert "2 moves" in tool("tier", "apply", file, "--dry-run", *BRIEF).stdout


def test_a_lock_that_is_gone_by_then(server: Server, database: str) -> None:
    server.sql("CREATE TABLE held AS SELECT 1 AS i", database=database)
    with server.connect(database) as other:
        other.execute("BEGIN; LOCK held IN ACCESS EXCLUSIVE MODE")
        command = ("place", "apply", server.dsn(database), "--tablespace=flash", "--object=public.held", *MOVE, "--lock-timeout=0.1")
        work = subprocess.Popen([*TOOL, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment(), cwd="/")
        assert work.stderr is not None
        assert "trying again (1)" in work.stderr.readline()
        other.rollback()
        rest = work.stderr.read()
    assert work.wait() == 0 and rest.endswith("table public.held: done\n") and server.where("held", database) == "flash"


def test_back_and_status(server: Server, database: str) -> None:
    """Status waits for nobody; back says who is in the way, and has put nothing back by then."""
    server.sql("CREATE TABLE one AS SELECT 1 AS i", "CREATE TABLE two AS SELECT 1 AS i", database=database)
    objects = ("--object=public.one", "--object=public.two")
    assert tool("place", "apply", server.dsn(database), "--tablespace=flash", *objects, *MOVE).returncode == 0
    with server.connect(database) as other:
        other.execute("BEGIN; LOCK one IN ACCESS EXCLUSIVE MODE")
        moves = server.moves(database)
        assert [(move["name"], move["now_in"]) for move in moves] == [("one", None), ("two", "flash")]
        assert moves[0]["note"].startswith("is locked by another session") and moves[0]["state"] == "done"
        locked(tool("place", "back", server.dsn(database), "--window=now", *BRIEF))
    assert tool("place", "back", server.dsn(database), "--window=now", *BRIEF).returncode == 0
    assert [server.where(name, database) for name in ("one", "two")] == ["pg_default"] * 2
