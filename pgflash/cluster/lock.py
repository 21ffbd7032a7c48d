"""One `pgflash cluster apply` at a time: an advisory lock on the primary, held by a session of its own for the whole run.

Two that each restart a standby would see all of them up and take down both. Such locks are those of a database: so after it is taken,
the other databases are looked at too. Two that come at the same moment from two databases may both be refused, never both be let in.
"""

from __future__ import annotations

import contextlib

import psycopg

from pgflash.cluster.find import Node
from pgflash.connection import Connection, connect, reason
from pgflash.errors import Locked, PgflashError, ServerError
from pgflash.shown import visible

KEY = 0x7067666C61736831
APPLICATION = "pgflash cluster apply"
_HOLDERS = f"""
SELECT l.pid, l.pid = pg_backend_pid() AS own, a.application_name, to_char(a.backend_start, 'YYYY-MM-DD HH24:MI:SS TZ') AS since
  FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'advisory' AND l.classid::bigint = {KEY >> 32} AND l.objid::bigint = {KEY & 0xFFFFFFFF} AND l.objsubid = 1 AND l.granted
 ORDER BY l.pid
"""


class OneAtATime:
    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._connection: Connection | None = None
        self._at = ""

    def hold(self, primary: Node) -> None:
        """On this server, from now on. Locked: somebody else has it."""
        try:
            if self._connection is not None and self._at == primary.name and self._held(self._connection):
                return
        except psycopg.Error:  # the server was restarted
            pass
        self.release()
        try:
            self._connection = connect({"application_name": APPLICATION, **primary.parts}, self._timeout_s)
            self._at = primary.name
            self._connection.execute("SELECT set_config('idle_session_timeout', '0', false)")
            self._connection.execute(f"SELECT pg_try_advisory_lock({KEY})".encode())
            held = self._held(self._connection)
        except (psycopg.Error, PgflashError) as error:
            self.release()
            if isinstance(error, Locked):
                raise
            raise ServerError(f"{primary.name}: {reason(error)}") from None
        if not held:
            self.release()
            raise Locked(f"{primary.name}: another pgflash cluster apply is at work", "the same command goes on when that has ended")

    def release(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
        self._connection = None

    def _held(self, connection: Connection) -> bool:
        """Locked, where others have it as well, or instead."""
        rows = connection.execute(_HOLDERS.encode()).fetchall()
        for row in rows:
            if not row["own"]:
                name = visible(row["application_name"] or "")
                raise Locked(
                    f"{self._at}: another pgflash cluster apply is at work: pid {row['pid']}, application_name {name!r}, since {row['since']}",
                    f"the same command goes on when that has ended; if its program is gone: SELECT pg_terminate_backend({row['pid']})",
                )
        return bool(rows)
