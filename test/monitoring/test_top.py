"""pgflash top: what it says of real servers, of some that do not answer, and how it behaves on a terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from rich.console import Console

from pgflash.connection import connect, name_of, parsed, reason
from pgflash.errors import ArgumentError
from pgflash.top.cli import State
from pgflash.top.rates import RELATION_ORDERS, STATEMENT_ORDERS, ordered, rates
from pgflash.top.sample import Sample, look
from pgflash.top.screen import page, statements
from pgflash.top.watch import View

from .conftest import LONGEST_S, PAGES_HIT, ROOT, SECRET, Monitored, pgflash, until

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOBODY = "host=/nowhere dbname=x"


@pytest.fixture
def silent() -> Iterator[str]:
    """A place that takes connections and says nothing, ever."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"host=127.0.0.1 port={listener.getsockname()[1]} user=x dbname=x sslmode=disable"


def sample(seconds: float, transactions: int, stat: dict[str, Any] | None = None, **more: Any) -> Sample:
    return Sample(
        NOW + timedelta(seconds=seconds), "primary", 17, "", "d", transactions, True, 1000, more.pop("server_reads", {}), stat, **more
    )


STAT = {
    "state": "active", "reason": None, "verdict": "useful", "slots": 100, "used": 25, "hits": 0, "misses": 0, "disk_reads": 0,
    "disk_read_time_us": 0, "read_time_us": 0, "os_cache_hits": 0, "write_bytes": 0, "stats_reset": NOW,
}  # fmt: skip
LATER = {
    **STAT, "hits": 300, "misses": 100, "disk_reads": 120, "disk_read_time_us": 240_000, "read_time_us": 30_000, "os_cache_hits": 20,
    "write_bytes": 8192,
}  # fmt: skip


def test_rates() -> None:
    found = rates(sample(0, 10, STAT), sample(2, 110, LATER))
    assert (found.interval_s, found.tps, found.hit_ratio, found.fill, found.capacity_bytes) == (2, 50, 0.75, 0.25, 100 * 8192)
    assert (found.flash.reads_per_s, found.flash.mean_latency_s) == (150, 0.0001)
    assert (found.page_cache.reads_per_s, found.page_cache.mean_latency_s) == (10, None)
    assert (found.disk.reads_per_s, found.disk.mean_latency_s, found.disk.estimated) == (50, 0.002, False)
    assert (found.write_bytes_per_s, found.write_limit_bytes_per_s) == (4096, 1000)


def test_what_cannot_be_known() -> None:
    """After a reset, on a server that does not time each read, and without the extension."""
    reset = rates(sample(0, 10, LATER), sample(1, 20, {**STAT, "stats_reset": NOW + timedelta(1)}))
    assert (reset.flash.reads_per_s, reset.disk.reads_per_s, reset.hit_ratio, reset.fill, reset.tps) == (None, None, None, 0.25, 10)
    untimed = sample(1, 20, LATER)
    untimed.timed = False
    assert rates(sample(0, 10, STAT), untimed).disk.mean_latency_s is None
    bare = rates(sample(0, 10), sample(1, 20))
    assert (bare.state, bare.tps, bare.flash.reads_per_s, bare.relations) == (None, 10, None, None)
    assert rates(sample(0, 10, STAT), sample(1, 5, STAT)).tps is None, "the server was restarted"


def test_without_a_cache() -> None:
    """Reads are the server's own: there is nothing that counts others."""
    none = {**STAT, "state": "disabled", "slots": 0}
    looks = [sample(at, 0, none, server_reads={"disk_reads": 50 * at, "disk_read_time_us": 100_000 * at}) for at in (0, 2)]
    found = rates(*looks)
    assert (found.disk.reads_per_s, found.disk.mean_latency_s) == (50, 0.002)
    assert (found.flash.reads_per_s, found.page_cache.reads_per_s, found.fill) == (0, None, None)
    for each in looks:
        each.server_reads["disk_read_time_us"] = None
    assert (rates(*looks).disk.reads_per_s, rates(*looks).disk.mean_latency_s) == (50, None), "track_io_timing is off"


def test_histograms() -> None:
    """Which tell how long a read takes from page cache and disk, within their width. How many pages were read is not theirs to tell: a
    request may be for several, and not each one is timed."""

    def counts(**counted: int) -> list[dict[str, Any]]:
        return [
            {"operation": name.replace("_", " "), "bucket": 3, "from_us": 100, "to_us": 400, "count": count}
            for name, count in counted.items()
        ]

    before = sample(0, 0, STAT, latency=counts(disk_read=5, page_cache_read=1))
    after = sample(1, 0, LATER, latency=counts(disk_read=25, page_cache_read=5, flash_read=7))
    found = rates(before, after)
    assert (found.page_cache.reads_per_s, found.disk.reads_per_s) == (20, 100)
    assert (found.page_cache.estimated, found.disk.estimated) == (True, True)
    assert found.page_cache.mean_latency_s == pytest.approx(0.0002) and found.disk.mean_latency_s == pytest.approx(0.0002)


def test_all_from_the_page_cache() -> None:
    """The server's line says what those of its objects do, and the disk's mean is not that of the page cache."""
    few = [{"operation": "page cache read", "bucket": 6, "from_us": 32, "to_us": 64, "count": 4}]
    found = rates(sample(0, 0, STAT, latency=[]), sample(10, 0, {**LATER, "disk_reads": 5136, "os_cache_hits": 5136}, latency=few))
    assert (found.page_cache.reads_per_s, found.disk.reads_per_s, found.disk.mean_latency_s) == (513.6, 0, None)
    assert found.page_cache.mean_latency_s == pytest.approx(45e-6, rel=0.02)


def test_relations_and_statements() -> None:
    def relation(oid: int | None, disk: int, hits: int, file: int = 1) -> dict[str, Any]:
        return {
            "relid": oid, "file": file if oid else None, "schema": "s", "relation": f"r{oid}" if oid else None, "hits": hits, "read_time_us": 0, "disk_reads": disk,
            "disk_read_time_us": 1000 * disk, "os_cache_hits": 0, "writes": 3 * disk,
        }  # fmt: skip

    def statement(queryid: int, calls: int) -> dict[str, Any]:
        return {
            "userid": 1, "dbid": 1, "queryid": queryid, "toplevel": True, "calls": calls, "hits": 0, "read_time_us": 0, "disk_reads": 0,
            "disk_read_time_us": 0, "query": None,
        }  # fmt: skip

    before = sample(
        0, 0, STAT, relations=[relation(1, 10, 0), relation(2, 50, 5), relation(3, 9, 9), relation(4, 70, 7)], statements=[statement(1, 5)]
    )  # fmt: skip
    after = sample(
        1, 0, LATER, relations=[relation(1, 30, 0), relation(2, 50, 105), relation(3, 14, 9, file=2), relation(None, 9 + 70 + 4, 9 + 7)],
        statements=[statement(1, 5), statement(2, 7)],
    )  # fmt: skip
    found = rates(before, after)
    assert found.relations is not None and found.statements is not None
    named = {row.relation: (row.disk_reads, row.hits) for row in found.relations}
    assert named == {"r1": (20, 0), "r2": (0, 100), "r3": (14, 9), "(everything else)": (4, 0)}, (
        "r3 has a new file, which counts from 0; its old one's past, and that of r4, which was dropped, is in the rest, and no work of now"
    )
    committed = rates(
        sample(0, 0, STAT, relations=[relation(None, 90, 0)]), sample(1, 0, LATER, relations=[relation(1, 60, 0), relation(None, 30, 0)])
    )
    assert [(row.relation, row.disk_reads) for row in committed.relations or []] == [("r1", 60)]
    assert [row.relation for row in ordered(found.relations, RELATION_ORDERS, "disk_read_time_s")] == [
        "r1",
        "r3",
        "(everything else)",
        "r2",
    ]
    assert ordered(found.relations, RELATION_ORDERS, "hits")[0].relation == "r2"
    first = ordered(found.relations, RELATION_ORDERS, "writes")[0]
    assert (first.relation, first.writes) == ("r1", 60)
    assert [(row.queryid, row.calls) for row in ordered(found.statements, STATEMENT_ORDERS, "calls")] == [(2, 7)]


def test_keys() -> None:
    state = State(3)
    for key in "npposs":
        state.press(key)
    assert (state.selected, state.relations, state.statements, state.ended) == (2, 1, 2, False)
    state.press("q")
    assert state.ended


def test_one_sample(server: Monitored) -> None:
    """With reads within the interval, whose number is known."""
    command = [sys.executable, "-m", "pgflash", "top", "--json", "--interval", "3", server.dsn]
    before = server.stat()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        while running.poll() is None:
            server.sql("SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT sum(length(pad)) FROM t WHERE id % 2 = 0 AND id > 0")
        assert running.stdout is not None
        (found,) = json.loads(running.stdout.read())["servers"]
        assert running.wait() == 0
    moved = server.stat()["hits"] - before["hits"]
    assert found["ok"] and found["problem"] is None
    assert (found["role"], found["state"], found["database"], found["cluster"]) == ("primary", "active", "postgres", "watched")
    assert found["tps"] > 0 and found["interval_s"] > 0
    assert 0 < found["flash"]["reads_per_s"] * found["interval_s"] <= moved + 0.5
    assert 0 <= found["hit_ratio"] <= 1 and 0 < found["fill"] <= 1
    assert found["write_limit_bytes_per_s"] == 100 * 1024 * 1024
    assert moved >= PAGES_HIT


def test_plain_text_of_several(server: Monitored, silent: str) -> None:
    """One that is well, one that is not there, one that says nothing: each is shown, and the whole ends in time."""
    started = time.monotonic()
    done = pgflash("top", "--once", "--interval", "1", "--timeout", "3", NOBODY, silent, server.dsn)
    assert done.returncode == 7
    assert time.monotonic() - started < LONGEST_S
    lines = done.stdout.splitlines()
    assert any("/nowhere/x" in line and "down" in line for line in lines), done.stdout
    assert "/nowhere/x: nothing listens there: socket /nowhere/.s.PGSQL.5432" in lines
    assert any("127.0.0.1" in line and "down" in line for line in lines), done.stdout
    assert any(line.startswith("127.0.0.1") and ("no answer" in line or "in time" in line) for line in lines), done.stdout
    assert any("watched" in line and "primary" in line and "active" in line for line in lines), done.stdout
    assert "Objects of postgres by time of disk reads" in done.stdout and "Statements by time of disk reads" in done.stdout
    assert "Traceback" not in done.stderr


def test_an_older_extension_and_none(server: Monitored) -> None:
    for name, extension in (("none", ""), ("ten", "CREATE EXTENSION pg_flashcache VERSION '1.0'")):
        server.sql(f"CREATE DATABASE {name}_of_it")
        dsn = server.dsn.replace("dbname=postgres", f"dbname={name}_of_it")
        if extension:
            subprocess.run([f"{server.bin}/psql", "-Xqd", dsn, "-c", extension], check=True)
        done = pgflash("top", "--json", "--interval", "0.5", dsn)
        assert done.returncode == 0, done.stdout + done.stderr
        (found,) = json.loads(done.stdout)["servers"]
        assert found["state"] == ("active" if extension else None)
        assert found["relations"] is None and found["tps"] >= 0
        missing = "pg_stat_flashcache_relation: not in version 1.0" if extension else "has no extension pg_flashcache"
        assert any(missing in line for line in found["missing"])


def test_statements_that_are_not_counted(server: Monitored) -> None:
    """None at all: why, and what to do, as the server says it. Others may be at work: until a look finds none of theirs."""
    words = "not counted: pg_flashcache.track_statements is off. Set pg_flashcache.track_statements = auto."
    with connect(parsed(f"{server.dsn} options='-c pg_flashcache.track_statements=off'", 1), 60) as connection:

        def none() -> Sample | None:
            connection.execute("SELECT public.pg_flashcache_reset_stats()")
            found = look(connection)
            return None if found.statements else found

        found = until(none)
    assert found.statements == [] and found.missing == [f"pg_stat_flashcache_statements: {words}"]
    output = io.StringIO()
    Console(file=output, width=300).print(statements(rates(found, found), "disk_read_time_s", 5))
    assert output.getvalue().strip() == f"statements: pg_stat_flashcache_statements: {words}"
    server.read()
    with connect(parsed(server.dsn, 1), 60) as connection:
        counted = look(connection)
    assert counted.statements and counted.missing == []


@pytest.mark.parametrize("output", ["--json", "--once"])
def test_passwords_are_not_shown(server: Monitored, output: str) -> None:
    """Neither a wrong one that the server refuses, nor a right one, nor one in a text that cannot be parsed."""
    place = f"host={server.folder}/socket dbname=postgres user=secretive"
    wrong = pgflash("top", output, "--interval", "0.2", f"{place} password=WRONG{SECRET}")
    right = pgflash("top", output, "--interval", "0.2", f"{place} password={SECRET}")
    url = pgflash("top", output, "--interval", "0.2", f"postgresql://secretive:{SECRET}@/postgres?host={server.folder}/socket")
    garbled = pgflash("top", output, f"{place} password='{SECRET}")
    odd = pgflash("top", output, f"{place} {SECRET}")
    option = pgflash("top", output, f"postgresql://x/y?{SECRET}=1")
    host = pgflash("top", output, "--interval", "0.2", "--timeout", "1", f"postgresql://u:{SECRET}@/x?host=/nowhere")
    sampled = pgflash("monitoring", "sample", f"{place} password=WRONG{SECRET}")
    assert [done.returncode for done in (wrong, right, url, garbled, odd, option, host, sampled)] == [7, 0, 0, 2, 2, 2, 7, 7]
    for done in (wrong, right, url, garbled, odd, option, host, sampled):
        assert SECRET not in done.stdout + done.stderr
    assert "the server refuses the password" in wrong.stdout


def test_names_and_reasons() -> None:
    assert name_of(parsed(f"postgresql://u:{SECRET}@db.example:5433/shop", 1)) == "db.example:5433/shop"
    assert name_of(parsed("service=shop", 1)) == "service shop"
    assert name_of(parsed("", 1)) == "local"
    with pytest.raises(ArgumentError) as caught:
        parsed(f"password='{SECRET}", 2)
    assert caught.value.message == "connection string 2 is none" and caught.value.__cause__ is None
    assert reason(ValueError(SECRET)) == "unexpected: ValueError"


@pytest.mark.parametrize(
    ("parts", "place"),
    [
        ({"host": "/nowhere"}, ": socket /nowhere/.s.PGSQL.5432"),
        ({"host": "127.0.0.1", "port": "1"}, ": 127.0.0.1, port 1"),
        ({}, ": socket /nowhere/at/all/.s.PGSQL.7"),  # what the environment names
        ({"host": "/nowhere,127.0.0.1", "port": "1,2"}, ""),
    ],
)
def test_where_nobody_listens(parts: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGHOSTADDR", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    if not parts:
        monkeypatch.setenv("PGHOST", "/nowhere/at/all")
        monkeypatch.setenv("PGPORT", "7")
    elif "port" not in parts:
        monkeypatch.delenv("PGPORT", raising=False)
    with pytest.raises(psycopg.OperationalError) as raised:
        connect(parts, 5)
    assert reason(raised.value) == f"nothing listens there{place}"
    assert reason(raised.value, places=False) == "nothing listens there"


def test_a_live_screen_needs_a_terminal() -> None:
    done = pgflash("top", NOBODY)
    assert done.returncode == 2 and "--once" in done.stderr


class Terminal:
    """pgflash top on a terminal of its own. Its other end stays open here, so that nothing is lost when the program ends."""

    def __init__(self, *arguments: str) -> None:
        self.file, self.other_end = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pgflash", "top", *arguments], cwd=ROOT, stdin=self.other_end, stdout=self.other_end,
            stderr=self.other_end, env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "180", "LINES": "40"}, start_new_session=True,
        )  # fmt: skip
        self.before = termios.tcgetattr(self.other_end)
        self.seen = ""

    def _read(self, longest_s: float) -> bool:
        if not select.select([self.file], [], [], longest_s)[0]:
            return False
        self.seen += os.read(self.file, 65536).decode("utf-8", "replace")
        return True

    def wait_for(self, text: str) -> None:
        end = time.monotonic() + LONGEST_S
        while text not in " ".join(re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", self.seen).split()):
            assert time.monotonic() < end and self.process.poll() is None, f"no {text!r} in {self.seen[-3000:]!r}"
            self._read(1)

    def press(self, key: str) -> None:
        self.seen = ""
        os.write(self.file, key.encode())

    def ends(self) -> None:
        """Well, and with the terminal as it was."""
        end = time.monotonic() + LONGEST_S
        while self.process.poll() is None:
            assert time.monotonic() < end, "it does not end"
            self._read(0.1)
        while self._read(0):
            pass
        assert self.process.returncode == 0, self.seen
        assert termios.tcgetattr(self.other_end) == self.before
        assert "\x1b[?1049l" in self.seen, "the screen is left"
        assert "\x1b[?25h" in self.seen, "the cursor is back"
        os.close(self.file)
        os.close(self.other_end)


def test_a_narrow_screen() -> None:
    """Has what matters, and cuts nothing short."""
    views = [View("db1.example/shop", rates(sample(0, 10, STAT), sample(2, 110, LATER)), None), View("db2", None, "nothing listens there")]
    for width, heads in ((80, ["state", "TPS", "flash/s", "disk/s", "hit %"]), (140, ["role", "page cache/s", "fill %", "written/s"])):
        console = Console(width=width, height=24, record=True, file=io.StringIO())
        console.print(page(views, 0, RELATION_ORDERS[0], STATEMENT_ORDERS[0], (width, 24), True, "pgflash top"))
        text = console.export_text()
        assert all(head in text for head in heads) and "…" not in text, text
        assert "db2: nothing listens there" in text
        assert len(text.splitlines()) <= 24


def test_objects_on_a_narrow_screen() -> None:
    """With a long name, and large numbers."""

    def relation(n: int) -> dict[str, Any]:
        counters = ("hits", "read_time_us", "disk_reads", "disk_read_time_us", "os_cache_hits", "writes")
        return {"relid": 1, "schema": "public", "relation": "history_of_orders_2026_p01", **dict.fromkeys(counters, n)}

    found = rates(sample(0, 0, STAT, relations=[relation(0)]), sample(1, 0, LATER, relations=[relation(123456)]))
    for width, heads in ((80, ["disk", "flash", "writes/s"]), (140, ["disk reads/s", "page cache/s", "disk writes/s"])):
        console = Console(width=width, record=True, file=io.StringIO())
        console.print(page([View("db1", found, None)], 0, "writes", STATEMENT_ORDERS[0], (width, 24)))
        text = console.export_text()
        assert all(head in text for head in heads) and "…" not in text and "history_of_orders_2026_p01" in text, text


def test_a_long_statement_leaves_its_figures() -> None:
    row = {
        "userid": 1, "dbid": 1, "queryid": 4711, "toplevel": True, "calls": 0, "hits": 0, "read_time_us": 0, "disk_reads": 0,
        "disk_read_time_us": 0, "query": "SELECT " + "a_column, " * 100 + "1",
    }  # fmt: skip
    found = rates(sample(0, 0, STAT, statements=[row]), sample(1, 0, LATER, statements=[row | {"calls": 321, "disk_reads": 654}]))
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(statements(found, STATEMENT_ORDERS[0], 10))
    line = next(text for text in console.export_text().splitlines() if "4711" in text)
    assert "321" in line and "654" in line and "SELECT a_column" in line and line.rstrip().endswith("…"), line


def test_the_live_screen(server: Monitored) -> None:
    """Two servers, every key, and the terminal as it was."""
    terminal = Terminal("--interval", "0.3", server.dsn, NOBODY)
    terminal.wait_for("Objects of postgres by time of disk reads")
    terminal.wait_for("nothing listens there")
    terminal.press("o")
    terminal.wait_for("Objects of postgres by disk reads")
    terminal.press("s")
    terminal.wait_for("Statements by disk reads")
    terminal.press("n")
    terminal.wait_for("> /nowhere/x")
    terminal.press("p")
    terminal.wait_for("Objects of postgres by disk reads")
    terminal.press("q")
    terminal.ends()


def test_interrupting_the_live_screen() -> None:
    terminal = Terminal("--interval", "0.3", NOBODY)
    terminal.wait_for("nothing listens there")
    os.kill(terminal.process.pid, signal.SIGINT)
    terminal.ends()


def test_a_server_that_goes_and_comes(server: Monitored) -> None:
    """It is shown as down, and then again."""
    terminal = Terminal("--interval", "0.3", server.dsn)
    terminal.wait_for("Objects of postgres")
    server.restart_in_between(lambda: terminal.wait_for("down"))
    terminal.seen = ""
    terminal.wait_for("Objects of postgres")
    terminal.press("q")
    terminal.ends()
