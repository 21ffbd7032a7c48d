"""What the sessions of the torture do, each in a thread of its own.

A session draws every operation and all its parameters from the seed, the number of the round, its own name and the
number of the operation; nothing else decides, so a seed gives the same operations in the same order again. (What the
scheduler makes of several sessions at once is not in the seed. Parameters that are a part of what is there, such as the
last rows of a table, follow from the operations before.)

To add an operation: a method `op_NAME(rng)` and a line in the class's OPERATIONS with its weight and the SQLSTATEs that
are no failure, because another session was in the way.
"""

from __future__ import annotations

import dataclasses
import pathlib
import random
import threading
from collections.abc import Callable
from typing import Protocol

import pq
from cluster import FAILPOINT_SQL, Failure
from shadow import Books, Journal, Rows, compare

MAIN = "main"  # the database of most sessions
SPACES = ("a", "b")  # tablespaces of tables
PLACES = ("pg_default", "c", "d")  # tablespaces of databases
SHARED_ROWS = 4000  # of the table in which all sessions have rows on the same pages
TABLE_ROWS = 1500  # about so many has a table of one session
FILLER_ROWS = 400  # one a page: more than shared buffers have

DEADLOCK = "40P01"
IN_USE = "55006"
NOT_NOW = "55000"  # object not in prerequisite state
CONFLICT = "40001"  # on a standby: with recovery
CORRUPTED = "XX001"
INTERNAL = "XX000"
UNKNOWN_POINT = "22023"

# The index of each kind, and a query that it answers: how many rows, by the model, have such an id and generation.
INDEXES = ("btree", "hash", "gin", "gist", "spgist", "brin")
INDEX_SQL = {
    "btree": "btree (gen, id)",
    "hash": "hash (id)",
    "gin": "gin (tags)",
    "gist": "gist (pt)",
    "spgist": "spgist (pt)",
    "brin": "brin (id) WITH (pages_per_range = 4)",
}

# What goes wrong with the device, and where: a point and what it is armed with, a line for each. What the library does not
# know is left out.
DEVICE_FAULTS = (
    ("store_open", "error"),
    ("store_open", "nospace"),
    ("store_read", "error"),
    ("store_read", "short"),
    ("store_read", "flip"),
    ("store_read", "misplaced"),
    ("store_read", "delay:3000"),
    ("store_read", "delay:200000"),
    ("store_write", "error"),
    ("store_write", "nospace"),
    ("store_write", "short"),
    ("store_write", "flip"),
    ("store_write", "torn"),
    ("store_write", "misplaced"),
    ("store_write", "delay:3000"),
    ("store_write", "delay:200000"),
    ("store_flip", "error"),
)

# Points at which whoever comes by is held up for a few milliseconds, so that others come in between. Likewise.
PAUSE_POINTS = (
    "fill_begin",
    "fill_copied",
    "fill_reserved",
    "fill_written",
    "invalidate_bumped",
    "read_looked_up",
    "read_done",
    "write_before_md",
    "write_after_md",
    "file_before_md",
    "file_after_md",
    "database_before",
    "database_after",
    "evict_written",
    "ahead_started",
    "async_read",
    "fill_staged",
    "switch_purged",
    "switch_opened",
)

# Settings that a reload changes, and what they are set to; never both values of a pair that would end the test.
SETTINGS: dict[str, tuple[str, ...]] = {
    "pg_flashcache.enabled": ("on", "off", "on"),
    "pg_flashcache.admission": ("all", "auto", "reuse"),
    "pg_flashcache.os_cache_probe": ("off", "auto"),
    "pg_flashcache.write_limit": ("0", "1", "50"),
    "pg_flashcache.verify": ("on", "off", "on", "on"),
    "bgwriter_lru_maxpages": ("0", "100", "1000"),
    "checkpoint_timeout": ("30s", "10min"),
    "effective_io_concurrency": ("0", "1", "16"),
    "wal_compression": ("off", "on"),
    "autovacuum": ("on", "off"),
}

SCHEMA = f"""
CREATE FUNCTION val(gen int, id int) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN repeat(md5(gen::text || ':' || id::text), 18);
CREATE FUNCTION big(gen int, id int) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN (SELECT string_agg(md5(gen::text || ':' || id::text || ':' || n::text), '') FROM generate_series(1, 150) n);
CREATE TABLE books (owner text PRIMARY KEY, seq bigint NOT NULL) WITH (fillfactor = 10);
CREATE TABLE books_twophase (LIKE books INCLUDING ALL);
CREATE TABLE shared (id int PRIMARY KEY, gen int NOT NULL, val text NOT NULL) WITH (autovacuum_enabled = off);
INSERT INTO shared SELECT id, 0, val(0, id) FROM generate_series(0, {SHARED_ROWS - 1}) id;
CREATE TABLE filler (id int PRIMARY KEY, pad text NOT NULL);
ALTER TABLE filler ALTER pad SET STORAGE PLAIN;
INSERT INTO filler SELECT id, repeat('x', 5000) FROM generate_series(1, {FILLER_ROWS}) id;
CREATE SEQUENCE sq
"""


@dataclasses.dataclass(frozen=True)
class Operation:
    name: str
    weight: int
    allowed: tuple[str, ...] = ()


def known_points(conn: pq.Connection, points: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those that the library knows, with what they are armed with; none is armed afterwards."""
    conn.run(FAILPOINT_SQL)
    known = []
    for point, action in points:
        try:
            conn.run(f"SELECT fc_failpoint('{point}', '{action}')")
            known.append((point, action))
            conn.run(f"SELECT fc_failpoint('{point}', 'off')")
        except pq.SqlError as error:
            if error.state != UNKNOWN_POINT:
                raise
    return known


class Context(Protocol):
    """What a session sees of the torture as a whole."""

    seed: int
    faults: bool  # may the device be damaged in this round?
    widen: bool  # may processes be held up in this round?
    calm: bool  # are settings left as they are?
    without_cache: bool  # is the library not loaded?
    index_kinds: tuple[str, ...]  # of INDEXES
    safe_copies: bool  # is no database to be copied file by file?
    pauses: list[tuple[str, str]]  # points, each with what it is armed with
    device_faults: list[tuple[str, str]]

    def connect(self, database: str, name: str) -> pq.Connection: ...
    def connect_standby(self, database: str, name: str) -> pq.Connection: ...
    def count(self, session: str, operation: str) -> None: ...
    def losses_expected(self, pid: int) -> bool: ...
    def may_terminate(self, pid: int) -> None: ...
    def victims(self) -> list[int]: ...
    def check_counters(self, conn: pq.Connection) -> None: ...


def val_insert(table: str, gen: int, first: int, last: int) -> str:
    return f"INSERT INTO {table} (id, gen, val) SELECT id, {gen}, val({gen}, id) FROM generate_series({first}, {last}) id"


class Session:
    """One client. `work` is its thread; the other methods are called while no thread runs."""

    OPERATIONS: tuple[Operation, ...] = ()
    database = MAIN
    ends = 1  # in which turn
    pause_ms = 0  # at most, after each operation; how long is part of the seed

    def __init__(self, name: str, context: Context, logs: pathlib.Path) -> None:
        self.name = name
        self.context = context
        self.journal = Journal(logs / f"shadow.{name}.log")
        self.conn: pq.Connection | None = None
        self.failure: str | None = None
        self.last = ""  # the operation under way

    # ---- the thread ----

    def work(self, round_number: int, stop: threading.Event) -> None:
        number = 0
        operations = self.operations()
        weights = [o.weight for o in operations]
        while not stop.is_set() and self.failure is None:
            rng = random.Random(f"{self.context.seed}/{round_number}/{self.name}/{number}")
            operation = rng.choices(operations, weights)[0]
            self.last = f"round {round_number}, operation {number} of {self.name}: {operation.name}"
            self.journal.note(round=round_number, number=number, operation=operation.name)
            number += 1
            try:
                self.ready()
                getattr(self, f"op_{operation.name}")(rng)
                self.context.count(self.name, operation.name)
                if self.pause_ms:
                    stop.wait(rng.randrange(self.pause_ms) / 1000)
            except pq.SqlError as error:
                self.journal.note(error=str(error))
                self._after_error(error, operation)
            except pq.Lost as lost:
                self.journal.note(lost=str(lost))
                if not self._after_loss(lost):
                    return
            except Failure as failure:
                self.failure = f"{self.last}: {failure}"
            except Exception as error:  # a fault of this program; it must not pass for a round without one
                self.failure = f"{self.last}: {type(error).__name__}: {error}"

    def _after_error(self, error: pq.SqlError, operation: Operation) -> None:
        try:
            if self.conn is not None and self.conn.in_transaction():
                self.conn.run("ROLLBACK")
            self.refused()
        except pq.Lost:
            pass  # noticed by the next operation
        if error.state in operation.allowed:
            self.context.count(self.name, f"{operation.name}:{error.state}")
        else:
            self.failure = f"{self.last}: unexpected error: {error}"

    def _after_loss(self, lost: pq.Lost) -> bool:
        """True if it goes on: the session was ended by another one."""
        pid = self.conn.pid if self.conn is not None else 0
        self.disconnect()
        if self.context.losses_expected(0):
            return False
        if not self.context.losses_expected(pid):
            self.failure = f"{self.last}: the connection is lost: {lost}"
            return False
        try:
            self.ready()
            self.settle()
        except pq.Lost:
            return False
        except Failure as failure:
            self.failure = f"{self.last}: after the session was terminated: {failure}"
        return True

    # ---- what sessions differ in ----

    def operations(self) -> list[Operation]:
        """Those of this round."""
        return list(self.OPERATIONS)

    def ready(self) -> None:
        if self.conn is None:
            self.conn = self.context.connect(self.database, self.name)

    def disconnect(self) -> None:
        if self.conn is not None:
            self.conn.close()
            self.conn = None

    def prepare(self) -> None:
        """Makes what the session needs, once."""

    def refused(self) -> None:
        """The server has refused a statement and rolled back."""

    def settle(self) -> None:
        """After a loss: asks the database what has become of the last transaction."""

    def check(self, rng: random.Random, crashed: bool) -> None:
        """Everything that was acknowledged is there, and nothing else."""

    def finish_prepared(self, rng: random.Random) -> None:
        """Ends prepared transactions, whose locks would stop pg_amcheck."""

    # ---- statements ----

    def run(self, sql: str) -> list[pq.Row]:
        assert self.conn is not None
        self.journal.note(sql=sql[:300])
        return self.conn.run(sql)

    def make_space(self, space: str) -> None:
        """A tablespace, unless it has stayed because dropping it failed.

        A server killed within DROP TABLESPACE can leave one without its folder, which PostgreSQL removes before it commits:
        that one is dropped again.
        """
        found = self.run(f"SELECT (pg_stat_file('pg_tblspc/' || oid, true)).isdir IS NOT NULL FROM pg_tablespace WHERE spcname = '{space}'")
        if found and found[0][0] == "t":
            return
        if found:
            self.run(f"DROP TABLESPACE {space}")
        self.run(f"CREATE TABLESPACE {space} LOCATION ''")

    def push_out(self, rng: random.Random) -> None:
        """Reads more pages than shared buffers have, in the order of an index: all others are evicted, and come to flash."""
        self.run("SET enable_seqscan = off")
        self.run("SET enable_bitmapscan = off")
        first = rng.randrange(FILLER_ROWS // 2)
        self.run(f"SELECT sum(length(pad)) FROM (SELECT pad FROM filler WHERE id > {first} ORDER BY id) f")
        self.run("RESET enable_seqscan")
        self.run("RESET enable_bitmapscan")


class Writer(Session):
    """Reads and writes two tables of its own and its rows of the shared one, and everything that moves their files."""

    OPERATIONS = (
        Operation("insert", 10, (DEADLOCK,)),
        Operation("update", 14, (DEADLOCK,)),
        Operation("update_shared", 14, (DEADLOCK,)),
        Operation("delete", 6, (DEADLOCK,)),
        Operation("delete_tail", 8, (DEADLOCK,)),
        Operation("savepoints", 5, (DEADLOCK,)),
        Operation("refill", 5, (DEADLOCK,)),
        Operation("recreate", 4, (DEADLOCK,)),
        Operation("alter_type", 2, (DEADLOCK,)),
        Operation("copy_table", 3, (DEADLOCK,)),
        Operation("toast", 4, (DEADLOCK,)),
        Operation("read", 14, (DEADLOCK,)),
        Operation("read_by_indexes", 6, (DEADLOCK,)),
        Operation("push", 8, (DEADLOCK,)),
        Operation("vacuum", 6, (DEADLOCK,)),
        Operation("vacuum_full", 3, (DEADLOCK,)),
        Operation("cluster", 3, (DEADLOCK,)),
        Operation("reindex", 3, (DEADLOCK,)),
        Operation("reindex_concurrently", 3, (DEADLOCK,)),
        Operation("index", 5, (DEADLOCK,)),
        Operation("move", 5, (DEADLOCK,)),
        Operation("maintain_shared", 3, (DEADLOCK,)),
        Operation("tablespace", 2, (DEADLOCK, NOT_NOW)),
        Operation("catalog", 1, (DEADLOCK,)),
    )

    books_table = "books"

    def __init__(self, name: str, context: Context, logs: pathlib.Path, share: tuple[int, int]) -> None:
        super().__init__(name, context, logs)
        self.mine, self.of = share  # rows of the shared table: id % of = mine
        self.books = Books(name, self.journal)

    def prepare(self) -> None:
        self.ready()
        self.run(f"INSERT INTO {self.books_table} VALUES ('{self.name}', 0)")
        for table in self.own_tables():
            self.create(table)
            self.books.tables[table] = {}
        self.books.tables["shared"] = {i: 0 for i in range(SHARED_ROWS) if i % self.of == self.mine}

    def own_tables(self) -> tuple[str, ...]:
        return (f"{self.name}_x", f"{self.name}_y")

    def create(self, table: str) -> None:
        self.run(
            f"CREATE TABLE {table} (id int PRIMARY KEY, gen int NOT NULL, val text NOT NULL, extra int DEFAULT 0, bgen int,"
            " big text, tags int[] GENERATED ALWAYS AS (ARRAY[id % 10, 100 + gen % 10]) STORED,"
            " pt point GENERATED ALWAYS AS (point(id, gen % 10)) STORED)"
        )
        self.run(f"ALTER TABLE {table} ALTER big SET STORAGE EXTERNAL")

    # ---- transactions ----

    def transaction(self, statements: list[str], changes: dict[str, Rows], commit: bool) -> None:
        self.run("BEGIN")
        for sql in statements:
            self.run(sql)
        if not commit:
            self.run("ROLLBACK")
            return
        self.run(f"UPDATE {self.books_table} SET seq = {self.books.seq + 1} WHERE owner = '{self.name}'")
        self.books.intend(changes)
        self.run("COMMIT")
        self.books.acknowledged()

    def refused(self) -> None:
        self.books.refused()

    def settle(self) -> None:
        self.ready()
        assert self.conn is not None
        self.books.settle(int(self.conn.one(f"SELECT seq FROM {self.books_table} WHERE owner = '{self.name}'")))

    def pick(self, rng: random.Random) -> tuple[str, Rows]:
        table = rng.choice(self.own_tables())
        return table, self.books.tables[table]

    def op_insert(self, rng: random.Random) -> None:
        table, rows = self.pick(rng)
        gen, count, commit = rng.randrange(1000), rng.randrange(20, 400), rng.random() < 0.9
        if len(rows) > TABLE_ROWS:
            return self.op_delete_tail(rng)
        first = max(rows, default=0) + 1
        new = rows | {i: gen for i in range(first, first + count)}
        self.transaction([val_insert(table, gen, first, first + count - 1)], {table: new}, commit)
        return None

    def op_update(self, rng: random.Random) -> None:
        table, rows = self.pick(rng)
        gen, every, commit = rng.randrange(1000), rng.choice((1, 3, 7, 20)), rng.random() < 0.85
        rest = rng.randrange(every)
        new = {i: gen if i % every == rest else g for i, g in rows.items()}
        self.transaction([f"UPDATE {table} SET gen = {gen}, val = val({gen}, id) WHERE id % {every} = {rest}"], {table: new}, commit)

    def op_update_shared(self, rng: random.Random) -> None:
        rows = self.books.tables["shared"]
        gen, every, commit = rng.randrange(1000), rng.choice((5, 20, 60)), rng.random() < 0.85
        rest = rng.randrange(every)
        new = {i: gen if i // self.of % every == rest else g for i, g in rows.items()}
        self.transaction(
            [
                f"UPDATE shared SET gen = {gen}, val = val({gen}, id)"
                f" WHERE id % {self.of} = {self.mine} AND id / {self.of} % {every} = {rest}"
            ],
            {"shared": new},
            commit,
        )

    def op_delete(self, rng: random.Random) -> None:
        table, rows = self.pick(rng)
        every, commit = rng.choice((3, 10, 40)), rng.random() < 0.85
        rest = rng.randrange(every)
        new = {i: g for i, g in rows.items() if i % every != rest}
        self.transaction([f"DELETE FROM {table} WHERE id % {every} = {rest}"], {table: new}, commit)

    def op_delete_tail(self, rng: random.Random) -> None:
        """The tail goes, VACUUM gives it back to the file system, and the file grows again."""
        table, rows = self.pick(rng)
        count, gen, regrow = rng.randrange(100, 1200), rng.randrange(1000), rng.random() < 0.7
        limit = max(rows, default=0) - count
        new = {i: g for i, g in rows.items() if i <= limit}
        self.transaction([f"DELETE FROM {table} WHERE id > {limit}"], {table: new}, True)
        self.run(f"VACUUM {table}")
        if regrow:
            first = max(new, default=0) + 1
            last = first + count // 2
            self.transaction([val_insert(table, gen, first, last)], {table: new | {i: gen for i in range(first, last + 1)}}, True)

    def op_savepoints(self, rng: random.Random) -> None:
        table, rows = self.pick(rng)
        a, b, commit = rng.randrange(1000), rng.randrange(1000), rng.random() < 0.8
        kept = {i: a if i % 5 == 0 else g for i, g in rows.items()}
        self.transaction(
            [
                f"UPDATE {table} SET gen = {a}, val = val({a}, id) WHERE id % 5 = 0",
                "SAVEPOINT s",
                rng.choice((f"TRUNCATE {table}", f"UPDATE {table} SET gen = {b}, val = val({b}, id)", f"DROP TABLE {table}")),
                "ROLLBACK TO s",
            ],
            {table: kept},
            commit,
        )

    def op_refill(self, rng: random.Random) -> None:
        table, _ = self.pick(rng)
        gen, count, commit = rng.randrange(1000), rng.randrange(50, TABLE_ROWS), rng.random() < 0.6
        self.transaction(
            [f"TRUNCATE {table}", val_insert(table, gen, 1, count)], {table: {i: gen for i in range(1, count + 1)}}, commit
        )

    def op_recreate(self, rng: random.Random) -> None:
        table, _ = self.pick(rng)
        gen, count, commit = rng.randrange(1000), rng.randrange(50, TABLE_ROWS), rng.random() < 0.6
        self.run("BEGIN")
        self.run(f"DROP TABLE {table}")
        self.create(table)
        self.run(val_insert(table, gen, 1, count))
        if not commit:
            self.run("ROLLBACK")
            return
        self.run(f"UPDATE {self.books_table} SET seq = {self.books.seq + 1} WHERE owner = '{self.name}'")
        self.books.intend({table: {i: gen for i in range(1, count + 1)}})
        self.run("COMMIT")
        self.books.acknowledged()

    def op_alter_type(self, rng: random.Random) -> None:
        table, _ = self.pick(rng)
        self.run(f"ALTER TABLE {table} ALTER extra TYPE {rng.choice(('int', 'bigint', 'numeric'))}")

    def op_copy_table(self, rng: random.Random) -> None:
        table, rows = self.pick(rng)
        copy = f"{self.name}_copy"
        space = rng.choice(("pg_default", *SPACES))
        self.run(f"DROP TABLE IF EXISTS {copy}")
        self.run(f"CREATE TABLE {copy} TABLESPACE {space} AS SELECT id, gen, val FROM {table}")
        self.run(f"CREATE INDEX ON {copy} (id)")
        if rng.random() < 0.5:
            self.push_out(rng)
        compare(f"the copy of {table}", rows, self.run(f"SELECT id, gen, val = val(gen, id) FROM {copy}"))
        if rng.random() < 0.8:
            self.run(f"DROP TABLE {copy}")

    def op_toast(self, rng: random.Random) -> None:
        table, rows = self.pick(rng)
        gen, rest, commit = rng.randrange(1000), rng.randrange(60), rng.random() < 0.8
        self.transaction([f"UPDATE {table} SET bgen = {gen}, big = big({gen}, id) WHERE id % 60 = {rest}"], {table: rows}, commit)

    # ---- looking ----

    def look(self, table: str, by_index: bool) -> None:
        rows = self.books.tables[table]
        where = f"id % {self.of} = {self.mine}" if table == "shared" else "big IS NULL OR big = big(bgen, id)"
        if by_index:
            self.run("SET enable_seqscan = off")
            self.run("SET enable_bitmapscan = off")
        found = self.run(f"SELECT id, gen, val = val(gen, id) FROM {table} WHERE {where}{' ORDER BY id' if by_index else ''}")
        if by_index:
            self.run("RESET enable_seqscan")
            self.run("RESET enable_bitmapscan")
        compare(f"{table}, read {'by its index' if by_index else 'from the beginning'}", rows, found)

    def look_by_indexes(self, table: str, rng: random.Random) -> None:
        """What each kind of index finds, where there is one."""
        rows = self.books.tables[table]
        some = rng.randrange(10)
        number = rng.choice(sorted(rows)) if rows else 1
        low = rng.randrange(1, 1000)
        expected = {
            f"tags @> ARRAY[{some}]": sum(i % 10 == some for i in rows),
            f"tags @> ARRAY[{100 + some}]": sum(g % 10 == some for g in rows.values()),
            f"pt <@ box(point({low}, -1), point({low + 100}, 20))": sum(low <= i <= low + 100 for i in rows),
            f"id = {number}": int(number in rows),
            f"id BETWEEN {low} AND {low + 200}": sum(low <= i <= low + 200 for i in rows),
            f"gen = {rows.get(number, -1)}": sum(g == rows.get(number, -1) for g in rows.values()),
        }
        self.run("SET enable_seqscan = off")
        for condition, count in expected.items():
            found = int(self.run(f"SELECT count(*) FROM {table} WHERE {condition}")[0][0] or 0)
            if found != count:
                raise Failure(f"{table}: {found} rows where {condition}, by an index; {count} by what was committed")
        self.run("RESET enable_seqscan")

    def op_read(self, rng: random.Random) -> None:
        self.look(rng.choice((*self.own_tables(), "shared")), rng.random() < 0.5)

    def op_read_by_indexes(self, rng: random.Random) -> None:
        self.look_by_indexes(self.pick(rng)[0], rng)

    def op_push(self, rng: random.Random) -> None:
        self.push_out(rng)

    # ---- statements that change files, and no rows ----

    def op_vacuum(self, rng: random.Random) -> None:
        table, _ = self.pick(rng)
        self.run(f"VACUUM {rng.choice(('', '(FREEZE) ', '(INDEX_CLEANUP ON) ', '(ANALYZE) ', '(TRUNCATE off) '))}{table}")

    def rewrite(self, sql: str, read_all: Callable[[], object]) -> None:
        """VACUUM FULL or CLUSTER, which PostgreSQL may refuse for a row that nobody can see any more.

        The oldest transaction that such a statement goes by can be older than the one that a VACUUM of the TOAST table
        went by a moment before: a snapshot counts the transactions of other databases. A deleted row in between is still
        copied, its TOAST chunks are gone. What is left in the table must be whole, or it was not that.
        """
        try:
            self.run(sql)
        except pq.SqlError as error:
            if error.state != CORRUPTED or "missing chunk number" not in error.message:
                raise
            self.journal.note(error=str(error))
            self.context.count(self.name, "rewrite:refused")
            read_all()

    def op_vacuum_full(self, rng: random.Random) -> None:
        table, _ = self.pick(rng)
        self.rewrite(f"VACUUM FULL {table}", lambda: self.look(table, False))

    def op_cluster(self, rng: random.Random) -> None:
        table, _ = self.pick(rng)
        self.rewrite(f"CLUSTER {table} USING {table}_pkey", lambda: self.look(table, False))

    def op_reindex(self, rng: random.Random) -> None:
        self.run(f"REINDEX TABLE {self.pick(rng)[0]}")

    def op_reindex_concurrently(self, rng: random.Random) -> None:
        self.run(f"REINDEX TABLE CONCURRENTLY {self.pick(rng)[0]}")

    def op_index(self, rng: random.Random) -> None:
        table, _ = self.pick(rng)
        kind = rng.choice(self.context.index_kinds)
        self.run(f"DROP INDEX IF EXISTS {table}_{kind}")
        if rng.random() < 0.9:
            how = rng.choice(("", "", "CONCURRENTLY "))
            space = rng.choice(("", f" TABLESPACE {rng.choice(SPACES)}"))
            self.run(f"CREATE INDEX {how}{table}_{kind} ON {table} USING {INDEX_SQL[kind]}{space}")

    def op_move(self, rng: random.Random) -> None:
        """There, another content, and back, where flash may still have the old one."""
        table, rows = self.pick(rng)
        first, second = rng.sample(("pg_default", *SPACES), 2)
        gen = rng.randrange(1000)
        for space in (first, second, first):
            self.run(f"ALTER TABLE {table} SET TABLESPACE {space}")
            self.run(f"ALTER INDEX {table}_pkey SET TABLESPACE {space}")
            if space == second:
                new = {i: gen if i % 3 == 0 else g for i, g in self.books.tables[table].items()}
                self.transaction([f"UPDATE {table} SET gen = {gen}, val = val({gen}, id) WHERE id % 3 = 0"], {table: new}, True)
            if rng.random() < 0.5:
                self.push_out(rng)
        self.look(table, True)

    def op_maintain_shared(self, rng: random.Random) -> None:
        self.run(
            rng.choice(
                (
                    "VACUUM shared",
                    "VACUUM FULL shared",
                    "CLUSTER shared USING shared_pkey",
                    "REINDEX TABLE shared",
                    "REINDEX TABLE CONCURRENTLY shared",
                    f"ALTER TABLE shared SET TABLESPACE {rng.choice(SPACES)}",
                    "ALTER TABLE shared SET TABLESPACE pg_default",
                    "VACUUM (FREEZE) books",
                    "VACUUM FULL books",
                )
            )
        )

    def op_tablespace(self, rng: random.Random) -> None:
        """One that is made for the occasion; an earlier one may have stayed when dropping it failed."""
        table, _ = self.pick(rng)
        space = f"{self.name}_space"
        self.make_space(space)
        self.run(f"ALTER TABLE {table} SET TABLESPACE {space}")
        self.look(table, True)
        self.run(f"ALTER TABLE {table} SET TABLESPACE pg_default")
        self.run(f"DROP TABLESPACE {space}")

    def op_catalog(self, rng: random.Random) -> None:
        table = rng.choice(("pg_class", "pg_attribute", "pg_index", "pg_depend", "pg_statistic"))
        self.rewrite(f"VACUUM FULL {table}", lambda: self.run(f"SELECT sum(length(t::text)) FROM {table} t"))

    # ---- after a recovery ----

    def check(self, rng: random.Random, crashed: bool) -> None:
        self.ready()
        for table in self.books.tables:
            if table == "shared" or table in self.own_tables():
                self.look(table, False)
                self.look(table, True)
        for table in self.own_tables():
            self.look_by_indexes(table, rng)


class TwoPhase(Writer):
    """Prepared transactions with DDL inside, which outlive the session and the server.

    They leave tables that others use alone: a session that waits for their locks would keep this one waiting, and no
    detector of deadlocks sees that.
    """

    ends = 2  # REINDEX CONCURRENTLY of another session waits for the prepared transaction
    books_table = "books_twophase"

    OPERATIONS = (
        Operation("begin_or_end", 10, (DEADLOCK,)),
        Operation("read_shared", 8, (DEADLOCK,)),
        Operation("push", 8, (DEADLOCK,)),
        Operation("checkpoint", 1, (DEADLOCK,)),
    )

    def __init__(self, name: str, context: Context, logs: pathlib.Path, share: tuple[int, int]) -> None:
        super().__init__(name, context, logs, share)
        self.gid: str | None = None
        self.step = ""  # preparing, prepared, committing, rolling back

    def op_read_shared(self, rng: random.Random) -> None:
        self.look("shared", rng.random() < 0.5)

    def op_checkpoint(self, rng: random.Random) -> None:
        self.run("CHECKPOINT")

    def op_begin_or_end(self, rng: random.Random) -> None:
        if self.gid is None:
            self.begin(rng)
        else:
            self.end(rng.random() < 0.7)

    def begin(self, rng: random.Random) -> None:
        gen, count = rng.randrange(1000), rng.randrange(50, TABLE_ROWS)
        table, rows = self.pick(rng)
        kind = rng.choice(("refill", "update", "recreate", "index", "move"))
        new = {i: gen for i in range(1, count + 1)}
        self.run("BEGIN")
        if kind == "refill":
            self.run(f"TRUNCATE {table}")
            self.run(val_insert(table, gen, 1, count))
        elif kind == "recreate":
            self.run(f"DROP TABLE {table}")
            self.create(table)
            self.run(val_insert(table, gen, 1, count))
        elif kind == "index":
            index = rng.choice(self.context.index_kinds)
            self.run(f"DROP INDEX IF EXISTS {table}_{index}")
            self.run(f"CREATE INDEX {table}_{index} ON {table} USING {INDEX_SQL[index]}")
            new = rows
        elif kind == "move":
            self.run(f"ALTER TABLE {table} SET TABLESPACE {rng.choice(('pg_default', *SPACES))}")
            new = rows
        else:
            self.run(f"UPDATE {table} SET gen = {gen}, val = val({gen}, id)")
            new = {i: gen for i in rows}
        self.run(f"UPDATE {self.books_table} SET seq = {self.books.seq + 1} WHERE owner = '{self.name}'")
        self.books.intend({table: new})
        self.gid, self.step = f"{self.name}_{self.books.seq + 1}", "preparing"
        self.run(f"PREPARE TRANSACTION '{self.gid}'")
        self.step = "prepared"
        self.journal.note(step=self.step, gid=self.gid)

    def end(self, commit: bool) -> None:
        self.step = "committing" if commit else "rolling back"
        self.journal.note(step=self.step, gid=self.gid)
        self.run(f"{'COMMIT' if commit else 'ROLLBACK'} PREPARED '{self.gid}'")
        if commit:
            self.books.acknowledged()
        else:
            self.books.refused()
        self.gid = None

    def refused(self) -> None:
        # An error in another operation leaves a prepared transaction as it is.
        if self.gid is None or self.step == "preparing":
            self.gid = None
            self.books.refused()

    def settle(self) -> None:
        self.ready()
        rows = self.run("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
        there = [row[0] for row in rows]
        self.journal.note(prepared=there, step=self.step, gid=self.gid)
        if self.gid is not None and there == [self.gid]:
            self.step = "prepared"
            return
        if there:
            raise Failure(f"prepared transactions {there} are there, expected at most {self.gid}")
        if self.gid is not None and self.step == "prepared":
            raise Failure(f"the prepared transaction {self.gid} is gone")
        assert self.conn is not None
        seq = int(self.conn.one(f"SELECT seq FROM {self.books_table} WHERE owner = '{self.name}'"))
        if self.gid is not None and self.step != "committing" and seq != self.books.seq:
            raise Failure(f"{self.gid} has come through while {self.step}")
        if self.gid is not None and self.step == "committing" and seq == self.books.seq:
            raise Failure(f"{self.gid} was to be committed; it is neither prepared nor done")
        self.gid = None
        self.books.settle(seq)

    def finish_prepared(self, rng: random.Random) -> None:
        if self.gid is not None:
            self.ready()
            self.end(rng.random() < 0.5)


class Others(Writer):
    """What is not cached, or not an ordinary table: unlogged and temporary tables, large objects, sequences."""

    OPERATIONS = (
        Operation("unlogged", 6, (DEADLOCK,)),
        Operation("set_logged", 4, (DEADLOCK,)),
        Operation("look_unlogged", 4, (DEADLOCK,)),
        Operation("temporary", 4, (DEADLOCK,)),
        Operation("large_object", 10, (DEADLOCK,)),
        Operation("look_large_objects", 6, (DEADLOCK,)),
        Operation("sequence", 6, (DEADLOCK,)),
        Operation("push", 6, (DEADLOCK,)),
    )

    def __init__(self, name: str, context: Context, logs: pathlib.Path, share: tuple[int, int]) -> None:
        super().__init__(name, context, logs, share)
        self.last_number = 0

    def prepare(self) -> None:
        super().prepare()
        self.run("CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY, gen int NOT NULL, val text NOT NULL)")
        self.books.tables["unlogged"] = {}
        self.books.tables["large objects"] = {}

    def op_unlogged(self, rng: random.Random) -> None:
        gen, count = rng.randrange(1000), rng.randrange(50, TABLE_ROWS)
        rows = {i: gen for i in range(1, count + 1)}
        self.transaction([rng.choice(("TRUNCATE unlogged", "DELETE FROM unlogged")), val_insert("unlogged", gen, 1, count)], {"unlogged": rows}, True)

    def op_set_logged(self, rng: random.Random) -> None:
        self.run(f"ALTER TABLE unlogged SET {rng.choice(('LOGGED', 'UNLOGGED'))}")

    def op_look_unlogged(self, rng: random.Random) -> None:
        found = self.run("SELECT id, gen, val = val(gen, id) FROM unlogged")
        compare("the unlogged table", self.books.tables["unlogged"], found)

    def op_temporary(self, rng: random.Random) -> None:
        gen = rng.randrange(1000)
        self.run("DROP TABLE IF EXISTS temporary")
        self.run("CREATE TEMPORARY TABLE temporary (id int PRIMARY KEY, gen int, val text)")
        self.run(val_insert("temporary", gen, 1, TABLE_ROWS))
        self.push_out(rng)
        found = self.run("SELECT id, gen, val = val(gen, id) FROM temporary")
        compare("the temporary table", {i: gen for i in range(1, TABLE_ROWS + 1)}, found)
        self.run("DROP TABLE temporary")

    def op_large_object(self, rng: random.Random) -> None:
        """Large object N of generation G holds `G:` and N and G many times over."""
        number, gen, commit = 900000 + rng.randrange(20), rng.randrange(1000), rng.random() < 0.8
        rows = self.books.tables["large objects"]
        content = f"convert_to('{gen}:' || repeat(md5('{gen}:{number}'), 300), 'UTF8')"
        if number not in rows:
            self.transaction([f"SELECT lo_from_bytea({number}, {content})"], {"large objects": rows | {number: gen}}, commit)
        elif rng.random() < 0.3:
            new = {i: g for i, g in rows.items() if i != number}
            self.transaction([f"SELECT lo_unlink({number})"], {"large objects": new}, commit)
        else:
            self.transaction(
                [f"SELECT lo_truncate(lo_open({number}, 131072), 0)", f"SELECT lo_put({number}, 0, {content})"],
                {"large objects": rows | {number: gen}},
                commit,
            )

    def op_look_large_objects(self, rng: random.Random) -> None:
        found = self.run(
            "SELECT oid, split_part(content, ':', 1), content = format('%s:%s', split_part(content, ':', 1),"
            " repeat(md5(split_part(content, ':', 1) || ':' || oid::text), 300))"
            " FROM (SELECT oid, convert_from(lo_get(oid), 'UTF8') AS content FROM pg_largeobject_metadata) lo"
        )
        compare("large objects", self.books.tables["large objects"], found)

    def op_sequence(self, rng: random.Random) -> None:
        self.run("BEGIN")
        found = [int(row[0] or 0) for row in self.run(f"SELECT nextval('sq') FROM generate_series(1, {rng.randrange(1, 60)})")]
        self.run("COMMIT")
        if found[0] <= self.last_number or found != sorted(found):
            raise Failure(f"the sequence gave {found[0]}; {self.last_number} had been given before")
        self.last_number = found[-1]
        if rng.random() < 0.2:
            self.run(f"ALTER SEQUENCE sq INCREMENT BY {rng.choice((1, 2))}")

    def check(self, rng: random.Random, crashed: bool) -> None:
        self.ready()
        assert self.conn is not None
        unlogged = self.conn.one("SELECT relpersistence FROM pg_class WHERE relname = 'unlogged'") == "u"
        if crashed and unlogged:
            self.books.tables["unlogged"] = {}
        self.op_look_unlogged(rng)
        self.op_look_large_objects(rng)
        self.op_sequence(rng)


class Databases(Session):
    """Database-level commands: files are copied and removed behind the storage manager."""

    OPERATIONS = (
        Operation("rewrite", 6),
        Operation("look", 6),
        Operation("copy", 8, (IN_USE,)),
        Operation("move", 8, (IN_USE, NOT_NOW)),
        Operation("renew", 2, (IN_USE,)),
        Operation("tablespace", 3, (IN_USE, NOT_NOW)),
    )
    database = "postgres"
    DIRECTORY_EXISTS = "22023"
    FILES_THERE = "0A000"

    def __init__(self, name: str, context: Context, logs: pathlib.Path) -> None:
        super().__init__(name, context, logs)
        self.books = {db: Books(db, self.journal) for db in ("side", "copy")}
        self.exists = {"side": True, "copy": False}  # False: may or may not be there
        self.stuck = False  # a move has left files behind
        self.oid = 70001

    def operations(self) -> list[Operation]:
        return [o for o in self.OPERATIONS if o.name != "move" or not self.context.safe_copies]

    def prepare(self) -> None:
        self.ready()
        self.make_side(0)

    def make_side(self, gen: int) -> None:
        self.exists["side"] = False
        self.run("DROP DATABASE IF EXISTS side WITH (FORCE)")
        self.run("CREATE DATABASE side")
        with self.context.connect("side", self.name) as conn:
            for sql in SCHEMA.split(";")[:3]:
                conn.run(sql)
            conn.run("BEGIN")
            conn.run("CREATE TABLE t (id int PRIMARY KEY, gen int NOT NULL, val text NOT NULL)")
            conn.run(val_insert("t", gen, 1, TABLE_ROWS))
            conn.run("INSERT INTO books VALUES ('side', 0)")
            conn.run("COMMIT")
        self.books["side"] = Books("side", self.journal)
        self.books["side"].tables["t"] = {i: gen for i in range(1, TABLE_ROWS + 1)}
        self.exists["side"] = True
        self.stuck = False

    def refused(self) -> None:
        for books in self.books.values():
            books.refused()

    def rewrite(self, database: str, rng: random.Random) -> None:
        """A part of the rows, and of every page; or more of them, or fewer."""
        books = self.books[database]
        rows, gen, rest = books.tables["t"], rng.randrange(1000), rng.randrange(7)
        what = rng.choice(("update", "update", "delete", "insert"))
        if what == "delete":
            limit = max(rows, default=0) - rng.randrange(100, 600)
            new, sql = {i: g for i, g in rows.items() if i <= limit}, f"DELETE FROM t WHERE id > {limit}"
        elif what == "insert" and len(rows) < TABLE_ROWS:
            first = max(rows, default=0) + 1
            last = first + rng.randrange(100, 600)
            new, sql = rows | {i: gen for i in range(first, last + 1)}, val_insert("t", gen, first, last)
        else:
            new = {i: gen if i % 7 == rest else g for i, g in rows.items()}
            sql = f"UPDATE t SET gen = {gen}, val = val({gen}, id) WHERE id % 7 = {rest}"
        with self.context.connect(database, self.name) as conn:
            self.journal.note(database=database, sql=sql)
            conn.run("BEGIN")
            conn.run(sql)
            conn.run(f"UPDATE books SET seq = {books.seq + 1}")
            books.intend({"t": new})
            conn.run("COMMIT")
            books.acknowledged()
            if what == "delete":
                conn.run("VACUUM t")

    def look(self, database: str, settle: bool = False) -> None:
        books = self.books[database]
        with self.context.connect(database, self.name) as conn:
            if settle:
                books.settle(int(conn.one("SELECT seq FROM books")))
            compare(f"{database}.t", books.tables["t"], conn.run("SELECT id, gen, val = val(gen, id) FROM t"))
            conn.run("SET enable_seqscan = off")
            conn.run("SET enable_bitmapscan = off")
            compare(f"{database}.t, by its index", books.tables["t"], conn.run("SELECT id, gen, val = val(gen, id) FROM t ORDER BY id"))

    def push(self, rng: random.Random) -> None:
        with self.context.connect(MAIN, self.name) as conn:
            conn.run("SET enable_seqscan = off")
            conn.run("SET enable_bitmapscan = off")
            conn.run("SELECT sum(length(pad)) FROM (SELECT pad FROM filler WHERE id > 0 ORDER BY id) f")

    def drop_copy(self) -> None:
        self.exists["copy"] = False
        self.run("DROP DATABASE IF EXISTS copy WITH (FORCE)")

    def make_copy(self, rng: random.Random, space: str) -> None:
        """A copy of the same OID each time, hence with the same names of files, but of another content."""
        self.drop_copy()
        strategy = "wal_log" if self.context.safe_copies else rng.choice(("file_copy", "wal_log"))
        try:
            self.run(f"CREATE DATABASE copy OID = {self.oid} TEMPLATE side STRATEGY {strategy} TABLESPACE {space}")
        except pq.SqlError as error:
            # A crash has left a folder behind, for ever: of the last copy, or of a template that was on its way.
            if error.state == self.DIRECTORY_EXISTS:
                self.oid += 1
            elif error.state == self.FILES_THERE:
                self.make_side(rng.randrange(1000))
            else:
                raise
            self.run(f"CREATE DATABASE copy OID = {self.oid} TEMPLATE side STRATEGY {strategy} TABLESPACE {space}")
        template = self.books["side"]
        self.books["copy"] = Books("copy", self.journal)
        self.books["copy"].seq = template.seq
        self.books["copy"].tables["t"] = dict(template.tables["t"])
        self.exists["copy"] = True

    def op_rewrite(self, rng: random.Random) -> None:
        self.rewrite("side", rng)

    def op_look(self, rng: random.Random) -> None:
        self.look("side")

    def op_copy(self, rng: random.Random) -> None:
        for _ in range(2):
            self.make_copy(rng, rng.choice(("pg_default", "c")))
            self.look("copy")
            if rng.random() < 0.5:
                self.rewrite("copy", rng)
            self.push(rng)
            self.look("copy")
            if rng.random() < 0.8:
                self.drop_copy()
                self.rewrite("side", rng)

    def op_move(self, rng: random.Random) -> None:
        """There, another content, and back, where flash may still have the old one."""
        if self.stuck:
            self.make_side(rng.randrange(1000))
        first, second = rng.sample(PLACES, 2)
        self.stuck = True  # until all three have been done
        for place in (first, second, first):
            self.look("side")
            if rng.random() < 0.7:
                self.push(rng)
            self.run(f"ALTER DATABASE side SET TABLESPACE {place}")
            self.rewrite("side", rng)
        self.push(rng)
        self.look("side")
        self.stuck = False

    def op_renew(self, rng: random.Random) -> None:
        self.drop_copy()
        self.make_side(rng.randrange(1000))

    def op_tablespace(self, rng: random.Random) -> None:
        self.drop_copy()
        self.make_space("short")
        self.make_copy(rng, "short")
        self.push(rng)
        self.look("copy")
        self.drop_copy()
        self.run("DROP TABLESPACE short")

    def settle(self) -> None:
        pass  # in check(), which connects to each database

    def check(self, rng: random.Random, crashed: bool) -> None:
        self.ready()
        there = [row[0] for row in self.run("SELECT datname FROM pg_database WHERE datname IN ('side', 'copy') AND datconnlimit <> -2")]
        for database in ("side", "copy"):
            if self.exists[database]:
                if database not in there:
                    raise Failure(f"the database {database} is gone")
                self.look(database, settle=True)
        if not self.exists["copy"]:
            self.drop_copy()
        if not self.exists["side"]:
            self.make_side(rng.randrange(1000))


class Reader(Session):
    """Reads only, everybody's rows, on the standby as well if there is one."""

    OPERATIONS = (
        Operation("shared", 10, (DEADLOCK, CONFLICT)),
        Operation("bitmap", 5, (DEADLOCK, CONFLICT)),
        Operation("points", 8, (DEADLOCK, CONFLICT)),
        Operation("parallel", 3, (DEADLOCK, CONFLICT)),
        Operation("push", 5, (DEADLOCK, CONFLICT)),
    )

    def look(self, condition: str, expected: int) -> None:
        rows = self.run(f"SELECT count(*), count(*) FILTER (WHERE val <> val(gen, id)) FROM shared WHERE {condition}")
        if rows != [(str(expected), "0")]:
            raise Failure(f"shared, where {condition}: {rows[0][0]} rows, {rows[0][1]} of another content; expected {expected}, 0")

    def op_shared(self, rng: random.Random) -> None:
        self.look("true", SHARED_ROWS)

    def op_bitmap(self, rng: random.Random) -> None:
        self.run("SET enable_seqscan = off")
        self.run("SET enable_indexscan = off")
        first = rng.randrange(SHARED_ROWS - 600)
        self.look(f"id >= {first} AND id < {first + 600}", 600)
        self.run("RESET enable_seqscan")
        self.run("RESET enable_indexscan")

    def op_points(self, rng: random.Random) -> None:
        for _ in range(30):
            self.look(f"id = {rng.randrange(SHARED_ROWS)}", 1)

    def op_parallel(self, rng: random.Random) -> None:
        for setting in ("parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size"):
            self.run(f"SET {setting} = 0")
        self.look("true", SHARED_ROWS)
        self.run("RESET ALL")

    def op_push(self, rng: random.Random) -> None:
        self.push_out(rng)


class StandbyReader(Reader):
    """The same on the standby, where recovery may end a session that is in its way.

    REINDEX CONCURRENTLY waits for the queries of its own server. On a standby the old index can go between the moment
    when a query has listed the indexes and when it opens them (PostgreSQL's own; docs/reliability.md). The query works
    when it is tried again, which it would not if the catalog's page were a stale one.
    """

    TRIES = 3

    def look(self, condition: str, expected: int) -> None:
        for n in range(1, self.TRIES + 1):
            try:
                return super().look(condition, expected)
            except pq.SqlError as error:
                if n == self.TRIES or error.state != INTERNAL or "could not open relation with OID" not in error.message:
                    raise
                self.context.count(self.name, f"index_gone:{error.state}")

    def ready(self) -> None:
        if self.conn is None:
            self.conn = self.context.connect_standby(self.database, self.name)

    def _after_loss(self, lost: pq.Lost) -> bool:
        self.disconnect()
        return not self.context.losses_expected(0)


class Control(Session):
    """Settings, switches, checkpoints, other sessions' ends; the device's faults, and pauses within the protocol."""

    OPERATIONS = (
        Operation("setting", 8),
        Operation("enable", 3, (NOT_NOW,)),
        Operation("reset", 1),
        Operation("checkpoint", 4),
        Operation("switch_wal", 1),
        Operation("views", 3),
        Operation("terminate", 1),
        Operation("pause", 12),
        Operation("fault", 6, (NOT_NOW,)),
    )
    ends = 0  # it holds up others
    database = "postgres"
    pause_ms = 100

    def operations(self) -> list[Operation]:
        left_out = {"pause": not self.context.widen, "fault": not self.context.faults}
        left_out |= {o: self.context.calm for o in ("terminate", "reset")}
        left_out |= {o: self.context.without_cache for o in ("enable", "views")}
        return [o for o in self.OPERATIONS if not left_out.get(o.name)]

    def ready(self) -> None:
        if self.conn is None:
            super().ready()
            assert self.conn is not None
            if self.context.without_cache:
                return
            self.conn.run(FAILPOINT_SQL)
            # A statement that is prepared reads no catalog when it stands in front of an armed point itself.
            self.conn.prepare("point", "SELECT fc_failpoint($1::text, $2::text)")
            self.conn.run_prepared("point", "fill_begin", "off")

    def set_point(self, point: str, action: str) -> None:
        assert self.conn is not None
        self.journal.note(point=point, action=action)
        self.conn.run_prepared("point", point, action)

    def op_setting(self, rng: random.Random) -> None:
        setting = rng.choice(sorted(SETTINGS))
        if self.context.calm and setting.startswith("pg_flashcache."):
            return
        self.run(f"ALTER SYSTEM SET {setting} = '{rng.choice(SETTINGS[setting])}'")
        self.run("SELECT pg_reload_conf()")

    def op_enable(self, rng: random.Random) -> None:
        self.run("SELECT pg_flashcache_enable()")

    def op_reset(self, rng: random.Random) -> None:
        assert self.conn is not None
        self.context.check_counters(self.conn)
        self.run("SELECT pg_flashcache_reset_stats()")

    def op_checkpoint(self, rng: random.Random) -> None:
        self.run("CHECKPOINT")

    def op_switch_wal(self, rng: random.Random) -> None:
        self.run("SELECT pg_switch_wal()")

    def op_views(self, rng: random.Random) -> None:
        self.run("SELECT * FROM pg_stat_flashcache")
        self.run("SELECT count(*), sum(refcount) FROM pg_flashcache_pages")
        self.run("SELECT * FROM pg_stat_flashcache_session")

    def op_terminate(self, rng: random.Random) -> None:
        victims = self.context.victims()
        if victims:  # none while a standby must hear of every commit
            pid = rng.choice(victims)
            self.context.may_terminate(pid)
            self.run(f"SELECT pg_terminate_backend({pid})")

    def hold(self, rng: random.Random, point: str, action: str, least_ms: int, most_ms: int) -> None:
        self.set_point(point, action)
        # How long is part of the seed; what happens meanwhile is not, and nothing waits for it.
        threading.Event().wait(rng.randrange(least_ms, most_ms) / 1000)
        self.set_point(point, "off")

    def op_pause(self, rng: random.Random) -> None:
        self.hold(rng, *rng.choice(self.context.pauses), 1, 60)

    def op_fault(self, rng: random.Random) -> None:
        self.hold(rng, *rng.choice(self.context.device_faults), 1, 300)
        self.run("SELECT pg_flashcache_enable()")
