"""A snapshot every so often, and samples of waits in between. Goes on over restarts of the server."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import psycopg

from pgflash.errors import BrokeOff, MachineError
from pgflash.pilot import db
from pgflash.pilot.db import Connection
from pgflash.snapshots import sampler, server
from pgflash.snapshots.sampler import HOST, PERIOD_S, WaitSampler, next_due

RETRY_S = 5.0


@dataclass
class Wanted:
    """What the command line asks of each snapshot; the note is for the first."""

    note: str | None = None
    keep_s: float | None = None
    max_bytes: int | None = None
    pg_profile: bool = False


def once(connection: Connection, schema: str, wanted: Wanted, waits: WaitSampler | None = None) -> server.Taken:
    if db.value(connection, "SELECT pg_catalog.pg_is_in_recovery()"):  # for good, as far as patience goes
        raise MachineError("this server is a standby: snapshots are kept in tables, which it cannot write", "take them on the primary")
    waits = waits or WaitSampler()
    extras = [waits.section(), sampler.host(connection, server.state_of(connection, schema, HOST))]
    taken = server.take(connection, schema, wanted.note, wanted.keep_s, wanted.max_bytes, extras, wanted.pg_profile)
    waits.clear()
    return taken


class Schedule:
    """Until it is interrupted, or `times` snapshots have been taken."""

    def __init__(self, dsn: str, every_s: float, wanted: Wanted, told: Callable[[server.Taken], None], lost: Callable[[str], None]) -> None:
        self.dsn = dsn
        self.every_s = every_s
        self.wanted = wanted
        self.told = told
        self.lost = lost
        self.waits = WaitSampler()
        self._left: int | None = None
        self._due = time.monotonic()

    def run(self, times: int | None = None) -> None:
        self._left = times
        connected = False
        while self._left is None or self._left > 0:
            try:
                with contextlib.closing(server.connect(self.dsn)) as connection:
                    connected = True
                    self._while_connected(connection)
            except (BrokeOff, psycopg.OperationalError) as error:
                if not connected:  # wrong from the beginning: for the user, not for patience
                    raise
                self.lost(f"{str(error).strip().splitlines()[0]}; trying again every {RETRY_S:g} s")
                time.sleep(RETRY_S)

    def _while_connected(self, connection: Connection) -> None:
        look = time.monotonic()
        while self._left is None or self._left > 0:
            if time.monotonic() >= self._due:
                schema = server.schema_of(connection, take=True)  # each time: it may have been renamed, and another be in its place
                self.told(once(connection, schema, self.wanted, self.waits))
                self.wanted.note = None
                self._due = next_due(self._due, self.every_s)
                self._left = None if self._left is None else self._left - 1
                continue
            if time.monotonic() >= look:
                self.waits.look(connection)
                look = next_due(look, PERIOD_S)
            time.sleep(max(0.0, min(look, self._due) - time.monotonic()))
