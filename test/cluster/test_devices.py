"""A device that was added and is gone: every tool that says how a cache is says so, and none says more to whom it may not."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pilot.servers import Server, needs_server, reachable
from rich.console import Console

from pgflash.agent.answers import Answers
from pgflash.cluster import show
from pgflash.top.rates import rates
from pgflash.top.sample import Sample
from pgflash.top.screen import servers
from pgflash.top.watch import View

from .fakes import WHEN, look, seen
from .test_agent import Fixed

ROOT = Path(__file__).resolve().parents[2]
folder = pytest.fixture(scope="module")(reachable)
GONE = {"device": 2, "path": "/flash/2", "reason": "could not open it"}
WORDS = "device 2 of the cache is off, /flash/2: could not open it"


def test_of_a_cluster() -> None:
    assert show.problems([look("a", seen(devices_off=[GONE]))]) == [("a", WORDS)]


@pytest.mark.parametrize(
    ("state", "reason", "seconds", "words"),
    [
        ("disabled", "pg_flashcache.size is 0", 99, None),
        ("disabled", "pg_flashcache.enabled is off", 99, None),
        ("disabled", 'the value of pg_flashcache.size is refused: "64G"', 1, 'disabled: the value of pg_flashcache.size is refused: "64G"'),
        ("starting", "the flash device is being opened", 60, None),
        ("starting", "the flash device is being opened", 61, "starting: the flash device is being opened"),
        ("detached", "it could not attach", 1, "detached: it could not attach"),
    ],
)  # fmt: skip
def test_a_cache_that_did_not_start(state: str, reason: str, seconds: int, words: str | None) -> None:
    stat = {**(seen().stat or {}), "state": state, "reason": reason, "state_since": WHEN - timedelta(seconds=seconds)}
    assert show.problems([look("a", seen(stat=stat))]) == ([("a", f"the cache is {words}")] if words else [])


def test_the_agent_says_no_path() -> None:
    answers = Answers(Fixed(seen(devices_off=[GONE])), Fixed(None), 0.9, 1, 1)  # type: ignore[arg-type]
    text = answers.to("/status").text
    assert json.loads(text)["devices_off"] == [{"device": 2}] and "/flash" not in text


def test_of_top() -> None:
    sample = Sample(WHEN, "primary", 15, "", "postgres", 1, True, 0, {}, {"state": "active", "verdict": "useful"}, devices_off=[GONE])
    out = Console(width=200, record=True, file=io.StringIO())
    out.print(servers([View("a", rates(sample, sample), None)], None))
    assert WORDS in out.export_text()


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    """Its second device is lost."""
    server = Server(folder)
    with (server.data / "postgresql.conf").open("a") as conf:
        conf.write((ROOT / "test/lib/cache.conf").read_text() + "pg_flashcache.max_size = '8MB'\n")
    restart = server.restart_command.split()
    subprocess.run(restart, check=True, cwd="/", stdout=subprocess.DEVNULL)
    try:
        server.sql(
            "DO $$BEGIN FOR i IN 1..1200 LOOP EXIT WHEN (SELECT state = 'active' FROM pg_stat_flashcache); PERFORM pg_sleep(0.1); END LOOP; END$$"
        )
        server.sql(f"SELECT pg_flashcache_add_device('{folder}/flash/second', 2097152)")
        (folder / "flash/second").unlink()
        subprocess.run(restart, check=True, cwd="/", stdout=subprocess.DEVNULL)
        server.sql(
            "DO $$BEGIN FOR i IN 1..1200 LOOP EXIT WHEN EXISTS (SELECT FROM pg_stat_flashcache_device WHERE state = 'off');"
            " PERFORM pg_sleep(0.1); END LOOP; END$$"
        )
        yield server
    finally:
        server.stop()


def pgflash(*words: str) -> tuple[int, Any]:
    done = subprocess.run([sys.executable, "-m", "pgflash", *words, "--json"], capture_output=True, text=True, cwd=ROOT, timeout=300)
    return done.returncode, json.loads(done.stdout)


@needs_server
def test_every_tool_says_so(server: Server) -> None:
    path = f"{server.folder}/flash/second"
    assert server.sql("SELECT state FROM pg_stat_flashcache_device ORDER BY device") == "active\noff"
    status, found = pgflash("cluster", "status", server.dsn)
    assert status == 11 and [
        item["problem"].startswith(f"device 2 of the cache is off, {path}: could not open") for item in found["problems"]
    ] == [True]
    found = pgflash("top", server.dsn, "--interval", "0.1")[1]
    assert [row["path"] for row in found["servers"][0]["devices_off"]] == [path]
    found = pgflash("doctor", server.dsn, "--seconds", "0")[1]
    state = next(item for item in found["checks"] if item["id"] == "server.cache_devices")
    assert (state["status"], state["findings"][0]["subject"]) == ("problem", path)
    assert state["findings"][0]["commands"][1] == f"SELECT pg_flashcache_enable_device('{path}');"
    assert [place["path"] for place in found["places"] if place["role"] == "flash"] == [f"{server.folder}/flash/cache", path]


@needs_server
def test_who_may_not_look_is_told_so(server: Server) -> None:
    """To the role that sees the cache and not its devices, all is well as far as it knows: and that is not far."""
    server.sql("CREATE ROLE stats LOGIN IN ROLE pg_read_all_stats")
    dsn = server.dsn.replace("user=postgres", "user=stats")
    lacking = "pg_stat_flashcache_device: this role may not read it, so nothing is known of a device that is off: GRANT pg_monitor TO stats"
    status, found = pgflash("cluster", "status", dsn)
    assert (status, found["problems"]) == (0, [])
    assert [line for line in found["remarks"] if "pg_stat_flashcache_device" in line] == [f"{found['nodes'][0]['name']}: {lacking}"]
    assert any(lacking in line for line in pgflash("cluster", "report", dsn, "--interval", "1")[1]["remarks"])
    assert lacking in pgflash("top", dsn, "--interval", "0.1")[1]["servers"][0]["missing"]
    checks = {item["id"]: item for item in pgflash("doctor", dsn, "--only", "server", "--seconds", "0")[1]["checks"]}
    assert checks["server.cache_state"]["status"] == "fine"
    devices = checks["server.cache_devices"]
    assert devices["status"] == "not looked" and devices["reason"].endswith(
        "may not read pg_stat_flashcache_device: GRANT pg_monitor TO stats"
    )


@needs_server
def test_the_first_one_too(server: Server) -> None:
    """While the cache goes on with others, its own state says nothing of its first device."""
    second = f"{server.folder}/flash/second"
    wait = (
        "DO $$BEGIN FOR i IN 1..1200 LOOP EXIT WHEN EXISTS (SELECT FROM pg_stat_flashcache_device WHERE %s);"
        " PERFORM pg_sleep(0.1); END LOOP; END$$"
    )
    server.sql(f"SELECT pg_flashcache_remove_device('{second}')", f"SELECT pg_flashcache_add_device('{second}', 2097152)")
    first = server.sql("SELECT path FROM pg_stat_flashcache_device WHERE device = 1")
    Path(first).write_bytes(b"not a cache" * 1000)
    subprocess.run(server.restart_command.split(), check=True, cwd="/", stdout=subprocess.DEVNULL)
    server.sql(wait % "device = 1 AND state = 'off'")
    assert server.sql("SELECT state FROM pg_stat_flashcache") == "active"
    status, found = pgflash("cluster", "status", server.dsn)
    assert status == 11 and [item["problem"].startswith(f"device 1 of the cache is off, {first}: ") for item in found["problems"]] == [True]
    state = next(item for item in pgflash("doctor", server.dsn, "--seconds", "0")[1]["checks"] if item["id"] == "server.cache_devices")
    assert (state["status"], state["findings"][0]["commands"][1]) == ("problem", "SELECT pg_flashcache_enable();")
