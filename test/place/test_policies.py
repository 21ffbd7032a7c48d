"""Nothing is both moved and cached: the policies of moves, of the script, and of tiers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pgflash.errors import ArgumentError
from pgflash.place.tier import read_rules

from .servers import Server, needs_flashcache, needs_server, tool
from .test_tier import rules

pytestmark = needs_server
MOVE = ("--window=now", "--accept-loss-of-redundancy")
RULES = "SELECT coalesce(string_agg(objname || ' ' || policy, ', ' ORDER BY objname), '') FROM pg_flashcache_policy_rules"


def ready(*words: str) -> str:
    done = tool(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def events(text: str, kind: str) -> list[dict[str, Any]]:
    return [event for line in text.splitlines() if (event := json.loads(line))["event"] == kind]


@needs_flashcache
def test_of_moves(server: Server, database: str) -> None:
    """There by ALTER and by REINDEX: none. Back: gone. One of the user's own stays."""
    server.sql(
        "CREATE EXTENSION pg_flashcache", "CREATE TABLE a (i int)", "CREATE INDEX a_i ON a (i)", "CREATE TABLE mine (i int)",
        "SELECT pg_flashcache_set_policy('mine', 'keep')", database=database,
    )  # fmt: skip
    objects = [f"--object=public.{name}" for name in ("a", "a_i", "mine")]
    ready("place", "apply", server.dsn(database), "--tablespace=flash", *objects, *MOVE)
    assert server.sql(RULES, database=database) == "a none, a_i none, mine keep"
    ready("place", "back", server.dsn(database), "--window=now")
    assert server.sql(RULES, database=database) == "mine keep"


@needs_flashcache
def test_of_the_script(server: Server, database: str) -> None:
    server.sql('CREATE TABLE "a\'b" (i int)', 'CREATE INDEX a_i ON "a\'b" (i)', database=database)
    words = ("place", "script", server.dsn(database), "--tablespace=flash", '--object=public."a\'b"', "--object=public.a_i")
    assert "policy" not in ready(*words)
    server.sql("CREATE EXTENSION pg_flashcache", database=database)
    lines = ready(*words).splitlines()
    policies = [line for line in lines if "policy" in line]
    assert policies == [
        "SELECT public.pg_flashcache_set_policy('\"public\".\"a''b\"'::regclass, 'none');",
        "SELECT public.pg_flashcache_set_policy('\"public\".\"a_i\"'::regclass, 'none');",
    ]
    server.sql(*policies, database=database)
    assert server.sql(RULES, database=database) == "a'b none, a_i none"


TIERS = """
[[table.tier]]
tablespace = "flash"
newest = 2
cached = false
[[table.tier]]
tablespace = "pg_default"
cached = true
"""


@pytest.fixture
def parts(server: Server, database: str) -> str:
    """Four by number, all of which hold rows; the newest is on flash already, with a rule of its user; n0 has one, too."""
    server.sql("CREATE TABLE n (i bigint NOT NULL) PARTITION BY RANGE (i)", database=database)
    for number in range(4):
        server.sql(
            f"CREATE TABLE n{number} PARTITION OF n FOR VALUES FROM ({number * 100}) TO ({number * 100 + 100})"
            + (" TABLESPACE flash" if number == 3 else ""),
            database=database,
        )
    server.sql("INSERT INTO n SELECT generate_series(0, 399)", database=database)
    return database


@needs_flashcache
def test_of_tiers(server: Server, parts: str, tmp_path: Path) -> None:
    """none for what comes to flash, or was made there; as before for what leaves; others are let alone, and all the second time."""
    server.sql("CREATE EXTENSION pg_flashcache", "SELECT pg_flashcache_set_policy('n0', 'none')", database=parts)
    file = rules(tmp_path, server, parts, "public.n", TIERS)

    def planned() -> list[tuple[str, str, str, str | None]]:
        moves = json.loads(ready("tier", "apply", file, "--dry-run", "--json"))["moves"]
        return [(move["object"].removeprefix("table public."), move["from"], move["to"], move["policy"]) for move in moves]

    assert planned() == [("n3", "flash", "flash", "none"), ("n2", "pg_default", "flash", "none")]
    text = ready("tier", "apply", file, "--dry-run").splitlines()
    assert text[0] == "table public.n3; policy none in the cache" and text[1].endswith("pg_default -> flash; policy none in the cache")
    assert text[2] == "1 move" and server.sql(RULES, database=parts) == "n0 none"
    assert events(ready("tier", "apply", file, *MOVE, "--json"), "policy") == [
        {"event": "policy", "object": "table public.n3", "policy": "none", "note": ""}
    ]
    assert server.sql(RULES, database=parts) == "n0 none, n2 none, n3 none"
    assert planned() == [] and events(ready("tier", "apply", file, *MOVE, "--json"), "policy") == []
    server.sql("CREATE TABLE n4 PARTITION OF n FOR VALUES FROM (400) TO (500)", "INSERT INTO n VALUES (400)", database=parts)
    server.sql("SELECT pg_flashcache_set_policy('n4', 'keep')", database=parts)
    assert planned() == [("n4", "pg_default", "flash", None), ("n2", "flash", "pg_default", "default")]
    ready("tier", "apply", file, *MOVE)
    assert server.sql(RULES, database=parts) == "n0 none, n3 none, n4 keep"
    assert server.where("n2", parts) == "pg_default"
    server.sql("SELECT pg_flashcache_set_policy('n4', 'default')", database=parts)
    ready("tier", "apply", file, *MOVE)  # no move: still what its tier says
    assert server.sql(RULES, database=parts) == "n0 none, n3 none, n4 none"


@needs_flashcache
def test_a_first_run_without_moves(server: Server, parts: str, tmp_path: Path) -> None:
    server.sql("CREATE EXTENSION pg_flashcache", database=parts)
    file = rules(tmp_path, server, parts, "public.n", '[[table.tier]]\ntablespace = "flash"\nnewest = 1\ncached = false\n')
    ready("tier", "apply", file)
    assert server.sql(RULES, database=parts) == "n3 none" and server.moves(parts) == []


def test_without_the_extension(server: Server, parts: str, tmp_path: Path) -> None:
    file = rules(tmp_path, server, parts, "public.n", TIERS)
    moves = json.loads(ready("tier", "apply", file, "--dry-run", "--json"))["moves"]
    assert [(move["object"], move["policy"]) for move in moves] == [("table public.n2", None)]
    ready("tier", "apply", file, *MOVE)
    assert server.where("n2", parts) == "flash"


def test_rules_that_contradict_each_other(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    table = "[[table]]\nname = 't'\n[[table.tier]]\ntablespace = 'a'\nnewest = 1\ncached = {}\n"
    file.write_text("dsn = ''\n" + table.format("true") + table.format("false"))
    with pytest.raises(ArgumentError, match="tablespace a: cached is true in one tier and false in another"):
        read_rules(file)
    file.write_text("dsn = ''\n" + table.format("true") + "[[table.tier]]\ntablespace = 'b'\n")
    assert read_rules(file).said == {"a": True, "b": None}
