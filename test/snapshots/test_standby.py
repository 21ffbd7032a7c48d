"""A standby takes no snapshots, and says so at once; those that it has are its primary's, and it says that, too."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import psycopg
import pytest

from pgflash.errors import EXIT_MACHINE, BrokeOff, MachineError
from pgflash.pilot import db
from pgflash.snapshots import schedule, server
from pgflash.snapshots.schedule import Schedule, Wanted

from .conftest import Database
from .test_server import report, work


class Closed:
    def close(self) -> None:
        pass


@pytest.fixture
def recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(_: Any, statement: str, *__: object) -> list[tuple[Any, ...]]:
        if "pg_is_in_recovery" in statement:
            return [(True,)]
        raise BrokeOff("cannot execute INSERT in a read-only transaction")

    def given_up(_: float) -> None:
        raise AssertionError("it tries again")

    monkeypatch.setattr(db, "rows", rows)
    monkeypatch.setattr(server, "connect", lambda dsn: Closed())
    monkeypatch.setattr(server, "schema_of", lambda connection, take=False: "public")
    monkeypatch.setattr(time, "sleep", given_up)


def test_a_schedule_ends(recovery: None) -> None:
    lost: list[str] = []
    with pytest.raises(MachineError) as caught:
        Schedule("", 10, Wanted(), lambda taken: None, lost.append).run()
    assert caught.value.exit_code == EXIT_MACHINE and caught.value.hint == "take them on the primary" and lost == []


def test_a_single_one_says_why(recovery: None) -> None:
    connection: psycopg.Connection[tuple[Any, ...]] = Closed()  # type: ignore[assignment]
    with pytest.raises(MachineError, match="this server is a standby"):
        schedule.once(connection, "public", Wanted())


ELSEWHERE = "This server is a standby: the snapshots, and the load in them, are those of its primary, first, and not its own."


def inserted(found: dict[str, Any]) -> list[int]:
    return [row["moved"]["tup_inserted"] for row in found["changes"] if row["labels"]["name"] == "t"]


def test_it_says_whose_load_it_is(database: Database, standby: Database) -> None:
    """On a standby; and after a failover, from which on its own counters count, and not what they differ by from its primary's."""
    database.pgflash("snapshot")
    work(database, 10)
    database.pgflash("snapshot")
    lsn = database.sql("SELECT pg_current_wal_lsn()")
    while standby.sql(f"SELECT pg_last_wal_replay_lsn() >= '{lsn}'") != "t":
        time.sleep(0.05)
    here, there = report(database, "report", "1", "2"), report(standby, "report", "1", "2")
    assert inserted(here) == inserted(there) == [10]
    assert here["servers"] == there["servers"] == [{"name": "first", "timeline": 1}]
    assert (here["standby"], there["standby"]) == (False, True)
    assert (here["warnings"], there["warnings"]) == ([], [ELSEWHERE])
    assert ELSEWHERE in standby.pgflash("report", "1", "2").stdout and ", taken by first." in database.pgflash("report", "1", "2").stdout
    compared = report(standby, "diff", "1..2", "1..2")
    assert compared["warnings"] == [f"{name}: {ELSEWHERE}" for name in "AB"]
    assert "This server is a standby" in standby.pgflash("report", "--list").stdout
    assert report(standby, "report", "--list")["standby"] is True and report(database, "report", "--list")["standby"] is False
    advise = [sys.executable, "-m", "pgflash", "place", "advise", standby.dsn, "--flash", "1GB", "--from", "1", "--to", "2", "--json"]
    done = subprocess.run(advise, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0 and ELSEWHERE in json.loads(done.stdout)["notes"], done.stdout + done.stderr

    standby.sql("SELECT pg_promote()")
    work(standby, 7)
    taken = json.loads(standby.pgflash("snapshot", "--json").stdout)
    assert (taken["id"], taken["missing"]["relations"]) == (3, "counted from this snapshot on, the first after a failover")
    work(standby, 5)
    standby.pgflash("snapshot")
    found = report(standby, "report", "1", "4")
    assert inserted(found) == [15] and found["standby"] is False
    assert [one["name"] for one in found["servers"]] == ["first", "second"] and found["servers"][1]["timeline"] > 1
    assert any("failover in this interval, and first and second took snapshots" in line for line in found["warnings"])
    assert "failover" in found["missing"]["relations"]
    assert report(standby, "report", "3", "4")["warnings"] == []
