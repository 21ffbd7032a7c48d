"""A connection to PostgreSQL through libpq, which is wherever the server is: nothing has to be installed for it.

Every query goes as plain text and every value comes back as text. Two things can go wrong, and the torture has to tell
them apart: the server answered with an error (SqlError: the statement had no effect), or it did not answer any more
(Lost: it may or may not have had one).
"""

from __future__ import annotations

import ctypes
import ctypes.util

Row = tuple[str | None, ...]

_CONNECTION_OK = 0
_BAD, _FATAL = 5, 7
_TUPLES = 2
_SQLSTATE = 67  # PG_DIAG_SQLSTATE
_IN_TRANSACTION = (1, 2, 3)


class SqlError(Exception):
    """The server refused a statement."""

    def __init__(self, state: str, message: str, sql: str) -> None:
        super().__init__(f"{state} {message.strip()} -- in: {sql[:300]}")
        self.state = state
        self.message = message.strip()


class Lost(Exception):
    """The connection is gone, or could not be made."""


def _library() -> ctypes.CDLL:
    lib = ctypes.CDLL(ctypes.util.find_library("pq") or "libpq.so.5")
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    signatures: dict[str, tuple[object, list[object]]] = {
        "PQconnectdb": (pointer, [text]),
        "PQstatus": (number, [pointer]),
        "PQerrorMessage": (text, [pointer]),
        "PQfinish": (None, [pointer]),
        "PQbackendPID": (number, [pointer]),
        "PQexec": (pointer, [pointer, text]),
        "PQprepare": (pointer, [pointer, text, text, number, pointer]),
        "PQexecPrepared": (pointer, [pointer, text, number, pointer, pointer, pointer, number]),
        "PQresultStatus": (number, [pointer]),
        "PQresultErrorField": (text, [pointer, number]),
        "PQresultErrorMessage": (text, [pointer]),
        "PQntuples": (number, [pointer]),
        "PQnfields": (number, [pointer]),
        "PQgetisnull": (number, [pointer, number, number]),
        "PQgetvalue": (text, [pointer, number, number]),
        "PQclear": (None, [pointer]),
        "PQtransactionStatus": (number, [pointer]),
        "PQsetNoticeProcessor": (pointer, [pointer, pointer, pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(lib, name)
        function.restype = result
        function.argtypes = arguments
    return lib


_lib = _library()
_QUIET = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)(lambda _arg, _message: None)


class Connection:
    """One session. To be used by one thread at a time."""

    def __init__(self, conninfo: str) -> None:
        self._conn: int | None = _lib.PQconnectdb(conninfo.encode())
        if _lib.PQstatus(self._conn) != _CONNECTION_OK:
            message = _lib.PQerrorMessage(self._conn).decode(errors="replace").strip()
            self.close()
            raise Lost(message)
        _lib.PQsetNoticeProcessor(self._conn, ctypes.cast(_QUIET, ctypes.c_void_p), None)
        self.pid: int = _lib.PQbackendPID(self._conn)

    def close(self) -> None:
        if self._conn is not None:
            _lib.PQfinish(self._conn)
            self._conn = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _result(self, result: int | None, sql: str) -> list[Row]:
        status = _lib.PQresultStatus(result)
        if status in (_BAD, _FATAL):
            state = (_lib.PQresultErrorField(result, _SQLSTATE) or b"").decode()
            message = _lib.PQresultErrorMessage(result).decode(errors="replace")
            _lib.PQclear(result)
            # Class 57P is the server saying good-bye: whether a COMMIT came through is not known.
            if _lib.PQstatus(self._conn) != _CONNECTION_OK or not state or state.startswith("57P"):
                raise Lost(message.strip())
            raise SqlError(state, message, sql)
        rows: list[Row] = []
        if status == _TUPLES:
            fields = _lib.PQnfields(result)
            for i in range(_lib.PQntuples(result)):
                rows.append(
                    tuple(
                        None if _lib.PQgetisnull(result, i, f) else _lib.PQgetvalue(result, i, f).decode()
                        for f in range(fields)
                    )
                )
        _lib.PQclear(result)
        return rows

    def run(self, sql: str) -> list[Row]:
        """Rows of the last statement in sql."""
        if self._conn is None:
            raise Lost("closed")
        return self._result(_lib.PQexec(self._conn, sql.encode()), sql)

    def prepare(self, name: str, sql: str) -> None:
        self._result(_lib.PQprepare(self._conn, name.encode(), sql.encode(), 0, None), sql)

    def run_prepared(self, name: str, *values: str) -> list[Row]:
        array = (ctypes.c_char_p * max(1, len(values)))(*[v.encode() for v in values])
        result = _lib.PQexecPrepared(
            self._conn, name.encode(), len(values), ctypes.cast(array, ctypes.c_void_p), None, None, 0
        )
        return self._result(result, name)

    def one(self, sql: str) -> str:
        """The only value of a query."""
        rows = self.run(sql)
        if len(rows) != 1 or len(rows[0]) != 1 or rows[0][0] is None:
            raise AssertionError(f"one value expected, got {rows[:3]}: {sql}")
        return rows[0][0]

    def in_transaction(self) -> bool:
        return self._conn is not None and _lib.PQtransactionStatus(self._conn) in _IN_TRANSACTION
