"""The shadow log: what the client knows must be in the database, kept outside of it.

Every session has tables of its own, and a row in `books` with the number of its last transaction. A transaction raises
that number together with what it changes. Before COMMIT is sent, the number and the state that it would lead to are
written down as a doubt; when the server says yes, the doubt becomes the state. After a crash the number in `books`
tells which it is: the old one, and nothing of the transaction may be there, or the next one, and then all of it. Any
other number means that an acknowledged commit was lost, or an unacknowledged one made twice.

A table is a map of id to generation; the rest of a row follows from these two, by val() in the database.
"""

from __future__ import annotations

import json
import pathlib
import time
from collections import deque

import pq
from cluster import Failure

Rows = dict[int, int]
Tables = dict[str, Rows]


class Journal:
    """What a session did, one line each, in DIR/NAME.log."""

    def __init__(self, path: pathlib.Path) -> None:
        self._file = open(path, "a", buffering=1)
        self.last: deque[str] = deque(maxlen=12)

    def __deepcopy__(self, memo: object) -> Journal:
        return self  # what has been done stays done

    def note(self, **what: object) -> None:
        line = json.dumps({"at": round(time.time(), 3), **what})
        self._file.write(line + "\n")
        self.last.append(line)


class Books:
    """The state of one session's tables, as far as it is known."""

    def __init__(self, owner: str, journal: Journal) -> None:
        self.owner = owner
        self.journal = journal
        self.seq = 0
        self.tables: Tables = {}
        self.doubt: Tables | None = None  # what number seq + 1 would change

    def intend(self, changes: Tables) -> None:
        assert self.doubt is None, "a transaction at a time"
        self.doubt = changes
        self.journal.note(commit=self.seq + 1, tables={t: len(r) for t, r in changes.items()})

    def acknowledged(self) -> None:
        assert self.doubt is not None
        self.tables.update(self.doubt)
        self.doubt = None
        self.seq += 1
        self.journal.note(acknowledged=self.seq)

    def refused(self) -> None:
        self.doubt = None
        self.journal.note(refused=self.seq + 1)

    def settle(self, seq: int) -> None:
        """The database says that this was the last one."""
        self.journal.note(settled=seq, known=self.seq, doubt=self.doubt is not None)
        if self.doubt is not None and seq == self.seq + 1:
            self.acknowledged()
        elif seq == self.seq:
            self.doubt = None
        else:
            raise Failure(
                f"{self.owner}: the database has transaction {seq}; {self.seq} was acknowledged, "
                + ("the next one was under way" if self.doubt is not None else "none was under way")
            )


def compare(what: str, expected: Rows, rows: list[pq.Row]) -> None:
    """Rows of (id, generation, is the rest of the row right?) against the state."""
    seen: Rows = {}
    for row in rows:
        number, generation = int(row[0] or -1), int(row[1] or -1)
        if number in seen:
            raise Failure(f"{what}: row {number} is there twice")
        if len(row) > 2 and row[2] != "t":
            raise Failure(f"{what}: row {number} of generation {generation} has another content")
        seen[number] = generation
    if seen == expected:
        return
    missing = sorted(expected.keys() - seen.keys())
    surplus = sorted(seen.keys() - expected.keys())
    other = sorted(i for i in expected.keys() & seen.keys() if expected[i] != seen[i])
    raise Failure(
        f"{what}: of {len(expected)} rows {len(missing)} are missing {missing[:5]}, {len(surplus)} too many {surplus[:5]}, "
        f"{len(other)} of another generation {[(i, seen[i], expected[i]) for i in other[:5]]} (id, found, expected)"
    )
