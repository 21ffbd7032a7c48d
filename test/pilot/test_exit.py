"""Exit statuses: each command, where something is missing, ends as the table of docs/exit-status.md says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .servers import Server, needs_server, reachable
from .test_man import commands

PAGE = (Path(__file__).parents[2] / "docs/exit-status.md").read_text("utf-8")
ROWS = {
    row[0].split("`")[1]: [[int(one) for one in re.findall(r"\d+", cell)] for cell in row[1:5]]
    for line in PAGE.splitlines()
    if line.startswith("| `")
    for row in [[cell.strip() for cell in line.strip("|").split("|")]]
}
OTHERS = {"pilot list", "pilot report", "pilot compare", "pilot restore", "monitoring write", "monitoring list", "agent"}
folder = pytest.fixture(scope="module")(reachable)


def test_each_command_is_in_the_table() -> None:
    assert {f"pgflash {name}" for name in {*ROWS, *OTHERS}} == set(commands())
    assert all(f"`{name}`" in PAGE or f"`pgflash {name}`" in PAGE for name in OTHERS)


def scenario(dsn: str, place: Path) -> list[str]:
    (place / "load.sql").write_text("SELECT count(*) FROM t; -- not pgbench's tables\n")
    (place / "scenario.toml").write_text(
        'duration_s = 1\n[load]\nkind = "script"\nscript = "load.sql"\nwrites = false\nclients = [1]\n'
        f'[server]\ndsn = "{dsn}"\nallow = ["settings"]\n[[arm]]\nname = "off"\nenabled = "off"\n[[arm]]\nname = "on"\nenabled = "on"\n'
    )
    return ["pilot", "run", str(place / "scenario.toml"), "--study", str(place / "study"), "--dir", str(place), "--no-report"]


def rules(dsn: str, place: Path) -> list[str]:
    (place / "tier.toml").write_text(
        f'dsn = "{dsn}"\n[[table]]\nname = "public.parts"\n[[table.tier]]\nnewest = 1\ntablespace = "pg_default"\n'
        '[[table.tier]]\ntablespace = "pg_default"\n'
    )
    return ["tier", "apply", str(place / "tier.toml")]


def wanted(dsn: str, place: Path) -> list[str]:
    (place / "wanted.toml").write_text('[settings]\n"pg_flashcache.write_limit" = "1MB"\n[rolling]\nupdate_extension = ["bare"]\n')
    return ["cluster", "apply", str(place / "wanted.toml"), dsn]


COMMANDS: dict[str, Callable[[str, Path], list[str]]] = {
    "pilot run": scenario,
    "snapshot": lambda dsn, _: ["snapshot", "--dsn", dsn],
    "report": lambda dsn, _: ["report", "--list", "--dsn", dsn],
    "diff": lambda dsn, _: ["diff", "1..2", "1..2", "--dsn", dsn],
    "monitoring sample": lambda dsn, _: ["monitoring", "sample", dsn],
    "top": lambda dsn, _: ["top", "--once", "--interval", "0.1", dsn],
    "doctor": lambda dsn, _: ["doctor", dsn, "--only", "server", "--seconds", "0"],
    "drives": lambda dsn, _: ["drives", dsn],
    "place advise": lambda dsn, _: ["place", "advise", dsn, "--flash", "1GB"],
    "place script": lambda dsn, _: ["place", "script", dsn, "--tablespace", "fast", "--object", "public.t"],
    "place apply": lambda dsn, _: [
        "place", "apply", dsn, "--tablespace", "fast", "--object", "public.t", "--window", "now", "--no-repack", "--assume-room", "1GB",
        "--accept-loss-of-redundancy",
    ],
    "place back": lambda dsn, _: ["place", "back", dsn, "--window", "now", "--no-repack", "--assume-room", "1GB"],
    "place status": lambda dsn, _: ["place", "status", dsn],
    "tier apply": rules,
    "cluster status": lambda dsn, _: ["cluster", "status", dsn],
    "cluster top": lambda dsn, _: ["cluster", "top", dsn, "--once", "--interval", "0.1"],
    "cluster warmth": lambda dsn, _: ["cluster", "warmth", dsn],
    "cluster report": lambda dsn, _: ["cluster", "report", dsn, "--interval", "1"],
    "cluster apply": wanted,
}  # fmt: skip


def test_each_is_tried() -> None:
    assert set(COMMANDS) == set(ROWS)


def ends(words: list[str]) -> tuple[int, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    done = subprocess.run([sys.executable, "-m", "pgflash", *words], capture_output=True, text=True, env=env, check=False, timeout=300)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    """With the library, and databases with and without the extension."""
    server = Server(folder)
    # Nothing but what a test takes away is a problem to the doctor.
    server.sql("CREATE DATABASE bare", "ALTER SYSTEM SET fsync = on", "SELECT pg_reload_conf()")
    table = "CREATE TABLE t (i int); CREATE TABLE parts (i int) PARTITION BY RANGE (i); CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (9)"
    for name in ("bare", "postgres"):
        subprocess.run([f"{server.bin}/psql", "-Xqd", of(server, name), "-c", table], check=True)
    server.sql("SELECT pg_flashcache_snapshot(), pg_sleep(0.01)", "SELECT pg_flashcache_snapshot()")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def unloaded(server: Server) -> Server:
    """The same, without the library."""
    with (server.data / "postgresql.conf").open("a") as conf:
        conf.write("shared_preload_libraries = ''\n")
    server.command("pg_ctl", "--silent", "--wait", f"--log={server.data}/log", "restart")
    return server


def of(server: Server, database: str) -> str:
    return server.dsn.replace("dbname=postgres", f"dbname={database}")


@pytest.mark.parametrize("name", COMMANDS)
def test_no_server(name: str, tmp_path: Path) -> None:
    status, said = ends(COMMANDS[name]("host=/nowhere/at/all dbname=postgres", tmp_path))
    assert status in ROWS[name][0], said


@needs_server
@pytest.mark.parametrize("name", COMMANDS)
def test_no_extension(name: str, server: Server, tmp_path: Path) -> None:
    status, said = ends(COMMANDS[name](of(server, "bare"), tmp_path))
    assert status in ROWS[name][1], said


@pytest.fixture(scope="module")
def hers(server: Server) -> str:
    """A database with the extension in the schema public, of an owner who is no superuser."""
    server.sql("CREATE ROLE alice", "CREATE DATABASE hers TEMPLATE bare OWNER alice")
    subprocess.run([f"{server.bin}/psql", "-Xqd", of(server, "hers"), "-c", "CREATE EXTENSION pg_flashcache"], check=True)
    return of(server, "hers")


@needs_server
@pytest.mark.parametrize("name", COMMANDS)
def test_untrusted_schema(name: str, hers: str, tmp_path: Path) -> None:
    status, said = ends(COMMANDS[name](hers, tmp_path))
    assert status in ROWS[name][3], said
    if 0 not in ROWS[name][3]:
        assert 'belongs to "alice", who is no superuser' in said


@needs_server
def test_a_primary_alone_has_nobody_to_switch_over_to(server: Server) -> None:
    words = ["cluster", "warmth", server.dsn]
    status, said = ends(words)
    assert status == 10 and "no standby is known that could be warm" in said
    status, said = ends([*words, "--json"])
    found = json.loads(said)
    assert (status, found["warm"], found["remarks"]) == (10, False, ["no standby is known that could be warm"])


@needs_server
@pytest.mark.parametrize("name", COMMANDS)
def test_no_library(name: str, unloaded: Server, tmp_path: Path) -> None:
    status, said = ends(COMMANDS[name](unloaded.dsn, tmp_path))
    assert status in ROWS[name][2], said
    if name == "doctor":
        assert status == 10, said
