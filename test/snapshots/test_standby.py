"""A standby takes no snapshots, and says so at once."""

from __future__ import annotations

import time
from typing import Any

import psycopg
import pytest

from pgflash.errors import EXIT_MACHINE, BrokeOff, MachineError
from pgflash.pilot import db
from pgflash.snapshots import schedule, server
from pgflash.snapshots.schedule import Schedule, Wanted


class Standby:
    def close(self) -> None:
        pass


@pytest.fixture
def standby(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(_: Any, statement: str, *__: object) -> list[tuple[Any, ...]]:
        if "pg_is_in_recovery" in statement:
            return [(True,)]
        raise BrokeOff("cannot execute INSERT in a read-only transaction")

    def given_up(_: float) -> None:
        raise AssertionError("it tries again")

    monkeypatch.setattr(db, "rows", rows)
    monkeypatch.setattr(server, "connect", lambda dsn: Standby())
    monkeypatch.setattr(server, "schema_of", lambda connection, take=False: "public")
    monkeypatch.setattr(time, "sleep", given_up)


def test_a_schedule_ends(standby: None) -> None:
    lost: list[str] = []
    with pytest.raises(MachineError) as caught:
        Schedule("", 10, Wanted(), lambda taken: None, lost.append).run()
    assert caught.value.exit_code == EXIT_MACHINE and caught.value.hint == "take them on the primary" and lost == []


def test_a_single_one_says_why(standby: None) -> None:
    connection: psycopg.Connection[tuple[Any, ...]] = Standby()  # type: ignore[assignment]
    with pytest.raises(MachineError, match="this server is a standby"):
        schedule.once(connection, "public", Wanted())
