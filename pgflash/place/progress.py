"""How far a move is: what the server says of building an index, and how large the files are that the move writes.

A copy is not in the catalogs before it is committed. Its files are in the folder of the tablespace, though: those that came after the
move had begun, and that no relation which is known has. An unfinished transaction of somebody else that makes a relation there at the
same time is counted as well. Looks only; who may not list the folder, or has no time of a lock, is told nothing.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field

from pgflash.errors import PgflashError
from pgflash.pilot import db
from pgflash.place.objects import Object
from pgflash.units import show_bytes

PAUSE_S = 5.0  # between two that differ by figures only
CHANGES = 10000  # of those that pg_repack has to apply, no more are counted

_FOLDER = """
SELECT t.oid::bigint, CASE WHEN t.spcname = 'pg_default' THEN format('base/%%s', d.oid)
       ELSE format('pg_tblspc/%%s/PG_%%s_%%s/%%s', t.oid, current_setting('server_version_num')::int / 10000,
                   (SELECT catalog_version_no FROM pg_control_system()), d.oid) END
  FROM pg_tablespace t, pg_database d WHERE t.spcname = %s AND d.datname = current_database()
"""
_FILES = "FROM pg_ls_dir(%s, true, false) f WHERE f ~ '^[0-9]+(_fsm|_vm|_init)?([.][0-9]+)?$'"
_BEFORE = f"SELECT DISTINCT substring(f FROM '^[0-9]+') {_FILES}"
_COPIED = f"""
WITH fresh AS MATERIALIZED (SELECT f, substring(f FROM '^[0-9]+')::oid AS node {_FILES} AND NOT substring(f FROM '^[0-9]+') = ANY (%s))
SELECT coalesce(sum((pg_stat_file(%s || '/' || f, true)).size), 0)::bigint FROM fresh WHERE pg_filenode_relation(%s::oid, node) IS NULL
"""
_INDEX = """
SELECT phase, blocks_done, blocks_total, tuples_done, tuples_total FROM pg_stat_progress_create_index
 WHERE pid = %s OR relid = to_regclass(%s)::oid ORDER BY pid LIMIT 1
"""


@dataclass
class Progress:
    """Of one move by `method`, from the moment that this is made. `pid`: of the session that does it, but for pg_repack."""

    connection: db.Connection
    item: Object
    target: str
    method: str
    pid: int
    folder: str = ""
    space: int = 0
    before: list[str] = field(default_factory=list)
    told: str = ""
    told_at: float = 0.0

    def __post_init__(self) -> None:
        if self.method == "reindex":
            return
        with contextlib.suppress(PgflashError):
            ((space, folder),) = db.rows(self.connection, _FOLDER, self.target)
            self.before = [str(node) for (node,) in db.rows(self.connection, _BEFORE, folder)]
            self.space, self.folder = int(space), str(folder)

    def news(self) -> str:
        """What is to be told now; empty: nothing that is new."""
        now = ""
        with contextlib.suppress(PgflashError):
            now = self.phase()
        at = time.monotonic()
        if not now or now == self.told or (_words(now) == _words(self.told) and at < self.told_at + PAUSE_S):
            return ""
        self.told, self.told_at = now, at
        return now

    def phase(self) -> str:
        table = f"repack.table_{self.item.oid}" if self.method == "pg_repack" else ""
        for phase, done, total, tuples, all_tuples in db.rows(self.connection, _INDEX, self.pid, table or None):
            if total:
                return f"{phase}: {show_bytes(done * 8192)} of {show_bytes(total * 8192)}"
            return f"{phase}: {100 * tuples / all_tuples:.0f}%" if all_tuples else str(phase)
        copied = self.copied()
        if copied:
            most = "at most " if table else ""  # a copy by pg_repack has no dead rows
            return f"copied: {show_bytes(copied)} of {most}{show_bytes(self.item.bytes)}"
        if table and db.value(self.connection, "SELECT to_regclass(%s)::text", table):
            log = f"repack.log_{self.item.oid}"
            count = int(db.value(self.connection, f"SELECT count(*) FROM (SELECT FROM {log} LIMIT {CHANGES}) x"))
            return f"copied; changes to be applied: {count if count < CHANGES else f'{CHANGES} or more'}"
        return ""

    def copied(self) -> int:
        """Bytes of the files of what is not committed yet."""
        if not self.folder:
            return 0
        return int(db.value(self.connection, _COPIED, self.folder, self.before, self.folder, self.space))


def _words(text: str) -> str:
    return text.partition(":")[0]
