"""A connection to PostgreSQL through libpq, by psycopg's lowest layer (run_torture in test/lib/suites.sh says which psycopg).

Every query goes as plain text and every value comes back as text. Two things can go wrong, and the torture has to tell
them apart: the server answered with an error (SqlError: the statement had no effect), or it did not answer any more
(Lost: it may or may not have had one).
"""

from __future__ import annotations

import psycopg
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, PGconn, TransactionStatus
from psycopg.pq.abc import PGresult

Row = tuple[str | None, ...]


class SqlError(Exception):
    """The server refused a statement."""

    def __init__(self, state: str, message: str, sql: str) -> None:
        super().__init__(f"{state} {message} -- in: {sql[:300]}")
        self.state = state
        self.message = message


class Lost(Exception):
    """The connection is gone, or could not be made."""


class Connection:
    """One session. To be used by one thread at a time."""

    def __init__(self, conninfo: str) -> None:
        self._conn = PGconn.connect(conninfo.encode())
        if self._conn.status != ConnStatus.OK:
            raise Lost(self._conn.error_message.decode(errors="replace").strip())
        self.pid: int = self._conn.backend_pid

    def close(self) -> None:
        self._conn.finish()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _rows(self, result: PGresult, sql: str) -> list[Row]:
        if result.status in (ExecStatus.BAD_RESPONSE, ExecStatus.FATAL_ERROR):
            state = (result.error_field(DiagnosticField.SQLSTATE) or b"").decode()
            message = result.error_message.decode(errors="replace").strip()
            # Class 57P is the server saying good-bye: whether a COMMIT came through is not known.
            if self._conn.status != ConnStatus.OK or not state or state.startswith("57P"):
                raise Lost(message)
            raise SqlError(state, message, sql)
        values = ((result.get_value(i, field) for field in range(result.nfields)) for i in range(result.ntuples))
        return [tuple(None if value is None else value.decode() for value in row) for row in values]

    def run(self, sql: str) -> list[Row]:
        """Rows of the last statement in sql."""
        try:
            return self._rows(self._conn.exec_(sql.encode()), sql)
        except psycopg.OperationalError as error:
            raise Lost(str(error)) from error

    def prepare(self, name: str, sql: str) -> None:
        self._rows(self._conn.prepare(name.encode(), sql.encode()), sql)

    def run_prepared(self, name: str, *values: str) -> list[Row]:
        return self._rows(self._conn.exec_prepared(name.encode(), [value.encode() for value in values]), name)

    def one(self, sql: str) -> str:
        """The only value of a query."""
        rows = self.run(sql)
        if len(rows) != 1 or len(rows[0]) != 1 or rows[0][0] is None:
            raise AssertionError(f"one value expected, got {rows[:3]}: {sql}")
        return rows[0][0]

    def in_transaction(self) -> bool:
        return self._conn.transaction_status in (TransactionStatus.ACTIVE, TransactionStatus.INTRANS, TransactionStatus.INERROR)
