"""What the sessions of the torture do, each in a thread of its own.

A session draws every operation and all its parameters from the seed, the number of the round, its own name and the
number of the operation; nothing else decides, so a seed gives the same operations in the same order again. (What the
scheduler makes of several sessions at once is not in the seed. Parameters that are a part of what is there, such as the
last rows of a table, follow from the operations before.)

To add an operation: NAME and its weight in the class's OPERATIONS, and a method `op_NAME(rng)`, or what it runs in STATEMENTS if
it is one statement. ALLOWED and ALLOWED_IN have the SQLSTATEs that are no failure, because another session was in the way.
"""

from __future__ import annotations

import contextlib
import copy
import pathlib
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import pq
from cluster import FAILPOINT_SQL, Failure
from shadow import Books, Journal, Rows, compare

if TYPE_CHECKING:
    from torture import Torture

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

# What goes wrong with the device: a point, and what it is armed with in turn.
DEVICE_FAULTS = [
    (point, action)
    for point, actions in (
        ("store_open", "error nospace"),
        ("store_read", "error short flip misplaced delay:3000 delay:200000"),
        ("store_write", "error nospace short flip torn misplaced delay:3000 delay:200000"),
    )
    for action in actions.split()
]

# Points at which whoever comes by is held up for a few milliseconds, so that others come in between.
PAUSES = [
    (point, "pause")
    for point in (
        "fill_begin fill_copied fill_reserved fill_written invalidate_bumped read_looked_up read_done write_before_md write_after_md"
        " file_before_md file_after_md database_before database_after evict_written ahead_started async_read fill_staged"
        " switch_purged switch_opened"
    ).split()
]

# Settings that a reload changes, and what they are set to; never both values of a pair that would end the test.
SETTINGS: dict[str, tuple[str, ...]] = {
    "pg_flashcache.enabled": ("on", "off", "on"),
    "pg_flashcache.admission": ("all", "auto", "reuse"),
    "pg_flashcache.os_cache_probe": ("off", "auto"),
    "pg_flashcache.extents": ("on", "off", "auto"),
    "pg_flashcache.bypass": ("auto", "off"),
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


def check_points(conn: pq.Connection, points: Iterable[tuple[str, str]]) -> None:
    """Each can be armed with what it is armed with, or the torture would do less than it says; none is armed afterwards."""
    conn.run(FAILPOINT_SQL)
    for point, action in points:
        try:
            conn.run(f"SELECT fc_failpoint('{point}', '{action}')")
            conn.run(f"SELECT fc_failpoint('{point}', 'off')")
        except pq.SqlError as error:
            if error.state == UNKNOWN_POINT:
                raise Failure(f"the library cannot arm {point} with {action}: {error}") from error
            raise


def val_insert(table: str, gen: int, first: int, last: int) -> str:
    return f"INSERT INTO {table} (id, gen, val) SELECT id, {gen}, val({gen}, id) FROM generate_series({first}, {last}) id"


def val_update(table: str, gen: int, where: str) -> str:
    return f"UPDATE {table} SET gen = {gen}, val = val({gen}, id) WHERE {where}"


class Session:
    """One client. `work` is its thread; the other methods are called while no thread runs."""

    OPERATIONS: dict[str, int] = {}  # with their weights
    STATEMENTS: dict[str, tuple[str, ...]] = {}  # of operations that are one of these; {0} is a table of the session's own
    ALLOWED: tuple[str, ...] = ()
    ALLOWED_IN: dict[str, tuple[str, ...]] = {}  # besides, in these operations
    database = MAIN
    ends = 1  # in which turn
    pause_ms = 0  # at most, after each operation; how long is part of the seed

    def __init__(self, name: str, torture: Torture, logs: pathlib.Path) -> None:
        self.name = name
        self.torture = torture
        self.journal = Journal(logs / f"shadow.{name}.log")
        self.conn: pq.Connection | None = None
        self.failure: str | None = None
        self.last = ""  # the operation under way

    # ---- the thread ----

    def work(self, round_number: int, stop: threading.Event) -> None:
        number = 0
        left_out = self.left_out()
        operations = {name: weight for name, weight in self.OPERATIONS.items() if name not in left_out}
        while not stop.is_set() and self.failure is None:
            rng = random.Random(f"{self.torture.seed}/{round_number}/{self.name}/{number}")
            operation = rng.choices(list(operations), list(operations.values()))[0]
            self.last = f"round {round_number}, operation {number} of {self.name}: {operation}"
            self.journal.note(round=round_number, number=number, operation=operation)
            number += 1
            try:
                self.ready()
                self.do(operation, rng)
                self.torture.count(operation)
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

    def do(self, operation: str, rng: random.Random) -> None:
        if operation in self.STATEMENTS:
            table = self.own_table(rng)
            self.run(rng.choice(self.STATEMENTS[operation]).format(table))
        else:
            getattr(self, f"op_{operation}")(rng)

    def _after_error(self, error: pq.SqlError, operation: str) -> None:
        try:
            if self.conn is not None and self.conn.in_transaction():
                self.conn.run("ROLLBACK")
            self.refused()
        except pq.Lost:
            pass  # noticed by the next operation
        if error.state in (*self.ALLOWED, *self.ALLOWED_IN.get(operation, ())):
            self.torture.count(f"{operation}:{error.state}")
        else:
            seen = self.torture.testimony(self.database, error)
            self.failure = "\n".join((f"{self.last}: unexpected error: {error}", *seen))

    def _after_loss(self, lost: pq.Lost) -> bool:
        """True if it goes on: the session was ended by another one."""
        pid = self.conn.pid if self.conn is not None else 0
        self.disconnect()
        if self.torture.losses_expected(0):
            return False
        if not self.torture.losses_expected(pid):
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

    def left_out(self) -> set[str]:
        """Operations that are not for this round."""
        return set()

    def own_table(self, rng: random.Random) -> str:
        return ""

    def ready(self) -> None:
        if self.conn is None:
            self.conn = self.torture.server.connect(self.database, self.name)

    def disconnect(self) -> None:
        if self.conn is not None:
            self.conn.close()
            self.conn = None

    def prepare(self) -> None:
        """Makes what the session needs, once."""

    def memory(self) -> dict[str, object]:
        """What it knows of the database; for a time when that is set back."""
        return {name: copy.deepcopy(value) for name, value in vars(self).items() if name not in ("torture", "conn", "failure", "last")}

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

    @contextlib.contextmanager
    def without(self, *plans: str) -> Iterator[None]:
        """No such scans, where there is another way."""
        for plan in plans:
            self.run(f"SET enable_{plan} = off")
        yield
        for plan in plans:
            self.run(f"RESET enable_{plan}")

    def rows_of(self, table: str, rest: str = "") -> list[pq.Row]:
        """For compare()."""
        return self.run(f"SELECT id, gen, val = val(gen, id) FROM {table} {rest}")

    def make_space(self, space: str) -> None:
        """A tablespace, unless it has stayed because dropping it failed.

        A server killed within DROP TABLESPACE can leave one without its folder, or without the version's folder in it, which
        PostgreSQL removes before it commits: that one is dropped again.
        """
        found = self.run(
            f"SELECT EXISTS (SELECT FROM pg_ls_dir('pg_tblspc/' || oid, true, false)) FROM pg_tablespace WHERE spcname = '{space}'"
        )
        if found and found[0][0] == "t":
            return
        if found:
            self.run(f"DROP TABLESPACE {space}")
        self.run(f"CREATE TABLESPACE {space} LOCATION ''")

    def push_out(self, rng: random.Random) -> None:
        """Reads more pages than shared buffers have, in the order of an index: all others are evicted, and come to flash."""
        with self.without("seqscan", "bitmapscan"):
            first = rng.randrange(FILLER_ROWS // 2)
            self.run(f"SELECT sum(length(pad)) FROM (SELECT pad FROM filler WHERE id > {first} ORDER BY id) f")

    def op_push(self, rng: random.Random) -> None:
        self.push_out(rng)


class Writer(Session):
    """Reads and writes two tables of its own and its rows of the shared one, and everything that moves their files."""

    OPERATIONS = {
        "insert": 10, "update": 14, "update_shared": 14, "delete": 6, "delete_tail": 8, "savepoints": 5, "refill": 5, "recreate": 4,
        "alter_type": 2, "copy_table": 3, "toast": 4, "read": 14, "read_by_indexes": 6, "push": 8, "vacuum": 6, "vacuum_full": 3,
        "cluster": 3, "reindex": 3, "reindex_concurrently": 3, "index": 5, "move": 5, "maintain_shared": 3, "tablespace": 2,
        "catalog": 1, "repack": 3, "repack_concurrently": 5,
    }  # fmt: skip
    STATEMENTS = {
        "alter_type": tuple(f"ALTER TABLE {{0}} ALTER extra TYPE {kind}" for kind in ("int", "bigint", "numeric")),
        "vacuum": (
            "VACUUM {0}", "VACUUM (FREEZE) {0}", "VACUUM (INDEX_CLEANUP ON) {0}", "VACUUM (ANALYZE) {0}", "VACUUM (TRUNCATE off) {0}"
        ),
        "reindex": ("REINDEX TABLE {0}",),
        "reindex_concurrently": ("REINDEX TABLE CONCURRENTLY {0}",),
        "maintain_shared": (
            "VACUUM shared", "VACUUM FULL shared", "CLUSTER shared USING shared_pkey", "REINDEX TABLE shared",
            "REINDEX TABLE CONCURRENTLY shared", "VACUUM (FREEZE) books", "VACUUM FULL books",
            *(f"ALTER TABLE shared SET TABLESPACE {space}" for space in ("pg_default", *SPACES)),
        ),
    }  # fmt: skip
    ALLOWED = (DEADLOCK,)
    ALLOWED_IN = {"tablespace": (NOT_NOW,)}

    books_table = "books"

    def __init__(self, name: str, torture: Torture, logs: pathlib.Path, share: tuple[int, int]) -> None:
        super().__init__(name, torture, logs)
        self.mine, self.of = share  # rows of the shared table: id % of = mine
        self.books = Books(name, self.journal)

    def prepare(self) -> None:
        self.ready()
        self.run(f"INSERT INTO {self.books_table} VALUES ('{self.name}', 0)")
        for table in self.own_tables():
            for sql in self.create(table):
                self.run(sql)
            self.books.tables[table] = {}
        self.books.tables["shared"] = {i: 0 for i in range(SHARED_ROWS) if i % self.of == self.mine}

    def left_out(self) -> set[str]:
        if self.torture.major() < 19:
            return {"repack", "repack_concurrently"}
        # It decodes WAL, which has to be there.
        return {"repack_concurrently"} if self.torture.wal_level == "minimal" else set()

    def own_tables(self) -> tuple[str, ...]:
        return (f"{self.name}_x", f"{self.name}_y")

    def own_table(self, rng: random.Random) -> str:
        return rng.choice(self.own_tables())

    def create(self, table: str) -> list[str]:
        return [
            f"CREATE TABLE {table} (id int PRIMARY KEY, gen int NOT NULL, val text NOT NULL, extra int DEFAULT 0, bgen int,"
            " big text, tags int[] GENERATED ALWAYS AS (ARRAY[id % 10, 100 + gen % 10]) STORED,"
            " pt point GENERATED ALWAYS AS (point(id, gen % 10)) STORED)",
            f"ALTER TABLE {table} ALTER big SET STORAGE EXTERNAL",
        ]

    # ---- transactions ----

    def transaction(self, statements: list[str], changes: dict[str, Rows], commit: bool) -> None:
        self.run("BEGIN")
        for sql in statements:
            self.run(sql)
        if not commit:
            self.run("ROLLBACK")
            return
        self.number(changes)
        self.run("COMMIT")
        self.books.acknowledged()

    def number(self, changes: dict[str, Rows]) -> None:
        """The transaction's own change of the books, and the note of what it would lead to."""
        self.run(f"UPDATE {self.books_table} SET seq = {self.books.seq + 1} WHERE owner = '{self.name}'")
        self.books.intend(changes)

    def refused(self) -> None:
        self.books.refused()

    def settle(self) -> None:
        self.ready()
        self.books.settle(self.seq())

    def seq(self) -> int:
        """What the database says."""
        assert self.conn is not None
        return int(self.conn.one(f"SELECT seq FROM {self.books_table} WHERE owner = '{self.name}'"))

    def pick(self, rng: random.Random) -> tuple[str, Rows]:
        table = self.own_table(rng)
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
        self.transaction([val_update(table, gen, f"id % {every} = {rest}")], {table: new}, commit)

    def op_update_shared(self, rng: random.Random) -> None:
        rows = self.books.tables["shared"]
        gen, every, commit = rng.randrange(1000), rng.choice((5, 20, 60)), rng.random() < 0.85
        rest = rng.randrange(every)
        new = {i: gen if i // self.of % every == rest else g for i, g in rows.items()}
        where = f"id % {self.of} = {self.mine} AND id / {self.of} % {every} = {rest}"
        self.transaction([val_update("shared", gen, where)], {"shared": new}, commit)

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
        undone = rng.choice((f"TRUNCATE {table}", val_update(table, b, "true"), f"DROP TABLE {table}"))
        self.transaction([val_update(table, a, "id % 5 = 0"), "SAVEPOINT s", undone, "ROLLBACK TO s"], {table: kept}, commit)

    def op_refill(self, rng: random.Random) -> None:
        table = self.own_table(rng)
        gen, count, commit = rng.randrange(1000), rng.randrange(50, TABLE_ROWS), rng.random() < 0.6
        self.refill([f"TRUNCATE {table}"], table, gen, count, commit)

    def op_recreate(self, rng: random.Random) -> None:
        table = self.own_table(rng)
        gen, count, commit = rng.randrange(1000), rng.randrange(50, TABLE_ROWS), rng.random() < 0.6
        self.refill([f"DROP TABLE {table}", *self.create(table)], table, gen, count, commit)

    def refill(self, emptied: list[str], table: str, gen: int, count: int, commit: bool) -> None:
        self.transaction([*emptied, val_insert(table, gen, 1, count)], {table: {i: gen for i in range(1, count + 1)}}, commit)

    def op_copy_table(self, rng: random.Random) -> None:
        table, rows = self.pick(rng)
        copy = f"{self.name}_copy"
        space = rng.choice(("pg_default", *SPACES))
        self.run(f"DROP TABLE IF EXISTS {copy}")
        self.run(f"CREATE TABLE {copy} TABLESPACE {space} AS SELECT id, gen, val FROM {table}")
        self.run(f"CREATE INDEX ON {copy} (id)")
        if rng.random() < 0.5:
            self.push_out(rng)
        compare(f"the copy of {table}", rows, self.rows_of(copy))
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
            with self.without("seqscan", "bitmapscan"):
                compare(f"{table}, read by its index", rows, self.rows_of(table, f"WHERE {where} ORDER BY id"))
        else:
            compare(f"{table}, read from the beginning", rows, self.rows_of(table, f"WHERE {where}"))

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
        with self.without("seqscan"):
            for condition, count in expected.items():
                found = int(self.run(f"SELECT count(*) FROM {table} WHERE {condition}")[0][0] or 0)
                if found != count:
                    raise Failure(f"{table}: {found} rows where {condition}, by an index; {count} by what was committed")

    def op_read(self, rng: random.Random) -> None:
        self.look(rng.choice((*self.own_tables(), "shared")), rng.random() < 0.5)

    def op_read_by_indexes(self, rng: random.Random) -> None:
        self.look_by_indexes(self.own_table(rng), rng)

    # ---- statements that change files, and no rows ----

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
            self.torture.count("rewrite:refused")
            read_all()

    def op_vacuum_full(self, rng: random.Random) -> None:
        table = self.own_table(rng)
        self.rewrite(f"VACUUM FULL {table}", lambda: self.look(table, False))

    def op_cluster(self, rng: random.Random) -> None:
        table = self.own_table(rng)
        self.rewrite(f"CLUSTER {table} USING {table}_pkey", lambda: self.look(table, False))

    def repack(self, rng: random.Random, options: str) -> None:
        """A table of its own, or one that others read and write meanwhile."""
        table = rng.choice((*self.own_tables(), *self.own_tables(), "shared"))
        order = rng.choice(("", f" USING INDEX {table}_pkey"))
        self.rewrite(f"REPACK {options}{table}{order}", lambda: self.look(table, False))
        if rng.random() < 0.5:
            self.look(table, rng.random() < 0.5)

    def op_repack(self, rng: random.Random) -> None:
        self.repack(rng, rng.choice(("", "", "(ANALYZE) ")))

    def op_repack_concurrently(self, rng: random.Random) -> None:
        self.repack(rng, "(CONCURRENTLY) ")

    def op_index(self, rng: random.Random) -> None:
        table = self.own_table(rng)
        kind = rng.choice(self.torture.index_kinds)
        self.run(f"DROP INDEX IF EXISTS {table}_{kind}")
        if rng.random() < 0.9:
            how = rng.choice(("", "", "CONCURRENTLY "))
            space = rng.choice(("", f" TABLESPACE {rng.choice(SPACES)}"))
            self.run(f"CREATE INDEX {how}{table}_{kind} ON {table} USING {INDEX_SQL[kind]}{space}")

    def op_move(self, rng: random.Random) -> None:
        """There, another content, and back, where flash may still have the old one."""
        table = self.own_table(rng)
        first, second = rng.sample(("pg_default", *SPACES), 2)
        gen = rng.randrange(1000)
        for space in (first, second, first):
            self.run(f"ALTER TABLE {table} SET TABLESPACE {space}")
            self.run(f"ALTER INDEX {table}_pkey SET TABLESPACE {space}")
            if space == second:
                new = {i: gen if i % 3 == 0 else g for i, g in self.books.tables[table].items()}
                self.transaction([val_update(table, gen, "id % 3 = 0")], {table: new}, True)
            if rng.random() < 0.5:
                self.push_out(rng)
        self.look(table, True)

    def op_tablespace(self, rng: random.Random) -> None:
        """One that is made for the occasion; an earlier one may have stayed when dropping it failed."""
        table = self.own_table(rng)
        space = f"{self.name}_space"
        self.make_space(space)
        self.run(f"ALTER TABLE {table} SET TABLESPACE {space}")
        self.look(table, True)
        self.run(f"ALTER TABLE {table} SET TABLESPACE pg_default")
        self.run(f"DROP TABLESPACE {space}")

    def op_catalog(self, rng: random.Random) -> None:
        """Of catalogs whose rows nobody here updates, or which may lose some: see rewrite_catalog()."""
        self.rewrite_of(rng.choice(("pg_type", "pg_attrdef", "pg_statistic")))

    def rewrite_catalog(self, rng: random.Random) -> None:
        """The others, while no transaction of other sessions is in progress.

        PostgreSQL loses rows of a catalog whose updates are rolled back while it is rewritten: docs/reliability.md.
        """
        self.ready()
        self.rewrite_of(rng.choice(("pg_class", "pg_attribute", "pg_index", "pg_depend")))

    def rewrite_of(self, table: str) -> None:
        self.rewrite(f"VACUUM FULL {table}", lambda: self.run(f"SELECT sum(length(t::text)) FROM {table} t"))

    # ---- after a recovery ----

    def check(self, rng: random.Random, crashed: bool) -> None:
        self.ready()
        for table in ("shared", *self.own_tables()):
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

    OPERATIONS = {"begin_or_end": 10, "read_shared": 8, "push": 8, "checkpoint": 1}
    STATEMENTS = {"checkpoint": ("CHECKPOINT",)}

    def __init__(self, name: str, torture: Torture, logs: pathlib.Path, share: tuple[int, int]) -> None:
        super().__init__(name, torture, logs, share)
        self.gid: str | None = None
        self.step = ""  # preparing, prepared, committing, rolling back

    def op_read_shared(self, rng: random.Random) -> None:
        self.look("shared", rng.random() < 0.5)

    def op_begin_or_end(self, rng: random.Random) -> None:
        if self.gid is None:
            self.begin(rng)
        else:
            self.end(rng.random() < 0.7)

    def begin(self, rng: random.Random) -> None:
        gen, count = rng.randrange(1000), rng.randrange(50, TABLE_ROWS)
        table, rows = self.pick(rng)
        filled = {i: gen for i in range(1, count + 1)}
        match rng.choice(("refill", "update", "recreate", "index", "move")):
            case "refill":
                new, statements = filled, [f"TRUNCATE {table}", val_insert(table, gen, 1, count)]
            case "recreate":
                new, statements = filled, [f"DROP TABLE {table}", *self.create(table), val_insert(table, gen, 1, count)]
            case "index":
                kind = rng.choice(self.torture.index_kinds)
                index = f"{table}_{kind}"
                new, statements = rows, [f"DROP INDEX IF EXISTS {index}", f"CREATE INDEX {index} ON {table} USING {INDEX_SQL[kind]}"]
            case "move":
                new, statements = rows, [f"ALTER TABLE {table} SET TABLESPACE {rng.choice(('pg_default', *SPACES))}"]
            case _:
                new, statements = {i: gen for i in rows}, [val_update(table, gen, "true")]
        for sql in ("BEGIN", *statements):
            self.run(sql)
        self.number({table: new})
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
        there = [gid for (gid,) in self.run("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")]
        self.journal.note(prepared=there, step=self.step, gid=self.gid)
        if self.gid is not None and there == [self.gid]:
            self.step = "prepared"
            return
        if there:
            raise Failure(f"prepared transactions {there} are there, expected at most {self.gid}")
        if self.gid is not None and self.step == "prepared":
            raise Failure(f"the prepared transaction {self.gid} is gone")
        seq = self.seq()
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

    OPERATIONS = {
        "unlogged": 6, "set_logged": 4, "look_unlogged": 4, "temporary": 4, "large_object": 10, "look_large_objects": 6, "sequence": 6,
        "push": 6,
    }  # fmt: skip
    STATEMENTS = {"set_logged": ("ALTER TABLE unlogged SET LOGGED", "ALTER TABLE unlogged SET UNLOGGED")}

    def __init__(self, name: str, torture: Torture, logs: pathlib.Path, share: tuple[int, int]) -> None:
        super().__init__(name, torture, logs, share)
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

    def op_look_unlogged(self, rng: random.Random) -> None:
        compare("the unlogged table", self.books.tables["unlogged"], self.rows_of("unlogged"))

    def op_temporary(self, rng: random.Random) -> None:
        gen = rng.randrange(1000)
        self.run("DROP TABLE IF EXISTS temporary")
        self.run("CREATE TEMPORARY TABLE temporary (id int PRIMARY KEY, gen int, val text)")
        self.run(val_insert("temporary", gen, 1, TABLE_ROWS))
        self.push_out(rng)
        compare("the temporary table", {i: gen for i in range(1, TABLE_ROWS + 1)}, self.rows_of("temporary"))
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
            rewritten = [f"SELECT lo_truncate(lo_open({number}, 131072), 0)", f"SELECT lo_put({number}, 0, {content})"]
            self.transaction(rewritten, {"large objects": rows | {number: gen}}, commit)

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

    OPERATIONS = {"rewrite": 6, "look": 6, "copy": 8, "move": 8, "renew": 2, "tablespace": 3}
    ALLOWED_IN = {"copy": (IN_USE,), "move": (IN_USE, NOT_NOW), "renew": (IN_USE,), "tablespace": (IN_USE, NOT_NOW)}
    database = "postgres"
    DIRECTORY_EXISTS = "22023"
    FILES_THERE = "0A000"

    def __init__(self, name: str, torture: Torture, logs: pathlib.Path) -> None:
        super().__init__(name, torture, logs)
        self.books = {db: Books(db, self.journal) for db in ("side", "copy")}
        self.exists = {"side": True, "copy": False}  # False: may or may not be there
        self.stuck = False  # a move has left files behind
        self.oid = 70001

    def left_out(self) -> set[str]:
        return {"move"} if self.torture.safe_copies else set()

    def prepare(self) -> None:
        self.ready()
        self.make_side(0)

    def make_side(self, gen: int) -> None:
        self.exists["side"] = False
        self.run("DROP DATABASE IF EXISTS side WITH (FORCE)")
        self.run("CREATE DATABASE side")
        with self.torture.server.connect("side", self.name) as conn:
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
            sql = val_update("t", gen, f"id % 7 = {rest}")
        with self.torture.server.connect(database, self.name) as conn:
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
        with self.torture.server.connect(database, self.name) as conn:
            if settle:
                books.settle(int(conn.one("SELECT seq FROM books")))
            compare(f"{database}.t", books.tables["t"], conn.run("SELECT id, gen, val = val(gen, id) FROM t"))
            conn.run("SET enable_seqscan = off")
            conn.run("SET enable_bitmapscan = off")
            compare(f"{database}.t, by its index", books.tables["t"], conn.run("SELECT id, gen, val = val(gen, id) FROM t ORDER BY id"))

    def push(self, rng: random.Random) -> None:
        with self.torture.server.connect(MAIN, self.name) as conn:
            conn.run("SET enable_seqscan = off")
            conn.run("SET enable_bitmapscan = off")
            conn.run("SELECT sum(length(pad)) FROM (SELECT pad FROM filler WHERE id > 0 ORDER BY id) f")

    def drop_copy(self) -> None:
        self.exists["copy"] = False
        self.run("DROP DATABASE IF EXISTS copy WITH (FORCE)")

    def make_copy(self, rng: random.Random, space: str) -> None:
        """A copy of the same OID each time, hence with the same names of files, but of another content."""
        self.drop_copy()
        strategy = "wal_log" if self.torture.safe_copies else rng.choice(("file_copy", "wal_log"))
        for last in (False, False, True):
            try:
                self.run(f"CREATE DATABASE copy OID = {self.oid} TEMPLATE side STRATEGY {strategy} TABLESPACE {space}")
                break
            except pq.SqlError as error:
                # A crash has left a folder behind, for ever: of the last copy, or of a template that was on its way; or both.
                if error.state == self.DIRECTORY_EXISTS and not last:
                    self.oid += 1
                elif error.state == self.FILES_THERE and not last:
                    self.make_side(rng.randrange(1000))
                else:
                    raise
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

    OPERATIONS = {"shared": 10, "bitmap": 5, "points": 8, "parallel": 3, "push": 5}
    ALLOWED = (DEADLOCK, CONFLICT)

    def look(self, condition: str, expected: int) -> None:
        rows = self.run(f"SELECT count(*), count(*) FILTER (WHERE val <> val(gen, id)) FROM shared WHERE {condition}")
        if rows != [(str(expected), "0")]:
            raise Failure(f"shared, where {condition}: {rows[0][0]} rows, {rows[0][1]} of another content; expected {expected}, 0")

    def op_shared(self, rng: random.Random) -> None:
        self.look("true", SHARED_ROWS)

    def op_bitmap(self, rng: random.Random) -> None:
        with self.without("seqscan", "indexscan"):
            first = rng.randrange(SHARED_ROWS - 600)
            self.look(f"id >= {first} AND id < {first + 600}", 600)

    def op_points(self, rng: random.Random) -> None:
        for _ in range(30):
            self.look(f"id = {rng.randrange(SHARED_ROWS)}", 1)

    def op_parallel(self, rng: random.Random) -> None:
        for setting in ("parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size"):
            self.run(f"SET {setting} = 0")
        self.look("true", SHARED_ROWS)
        self.run("RESET ALL")


class Steering(Session):
    """Says what belongs on flash, brings it there, and looks at what all count."""

    OPERATIONS = {"policy": 6, "prewarm": 4, "figures": 3}
    ALLOWED = (DEADLOCK,)
    ALLOWED_IN = {"prewarm": (NOT_NOW,)}  # the cache is off
    pause_ms = 100
    TABLES = ("shared", "filler", "books")

    def op_policy(self, rng: random.Random) -> None:
        what = rng.choice(
            [*(f"'{name}'::regclass" for name in (*self.TABLES, "shared_pkey")), "'schema', 'public'", "'tablespace', 'pg_default'"]
        )
        policy = rng.choice(("keep", "none", "normal", "default", "default"))
        self.run("BEGIN")
        self.run(f"SELECT pg_flashcache_set_policy({what}, '{policy}')")
        self.run("COMMIT" if rng.random() < 0.7 else "ROLLBACK")

    def op_prewarm(self, rng: random.Random) -> None:
        table, replace = rng.choice(self.TABLES), rng.choice(("true", "false"))
        self.run(f"SELECT * FROM pg_flashcache_prewarm('{table}', indexes => true, replace => {replace})")

    def op_figures(self, rng: random.Random) -> None:
        for view in ("pg_stat_flashcache_relation", "pg_flashcache_relations", "pg_stat_flashcache_statements", "pg_flashcache_policies"):
            self.run(f"SELECT count(*) FROM {view}")


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
                self.torture.count(f"index_gone:{error.state}")

    def ready(self) -> None:
        if self.conn is None:
            if self.torture.standby is None:
                raise pq.Lost("there is no standby")
            self.conn = self.torture.standby.connect(self.database, self.name)

    def _after_loss(self, lost: pq.Lost) -> bool:
        self.disconnect()
        return not self.torture.losses_expected(0)


class Control(Session):
    """Settings, switches, checkpoints, other sessions' ends; the device's faults, and pauses within the protocol."""

    OPERATIONS = {
        "setting": 8, "enable": 3, "reset": 1, "checkpoint": 4, "switch_wal": 1, "views": 3, "terminate": 1, "pause": 12, "fault": 6,
        "slow_disk": 4,
    }  # fmt: skip
    STATEMENTS = {
        "enable": ("SELECT pg_flashcache_enable()",),
        "checkpoint": ("CHECKPOINT",),
        "switch_wal": ("SELECT pg_switch_wal()",),
    }
    ALLOWED_IN = {"enable": (NOT_NOW,), "fault": (NOT_NOW,)}
    ends = 0  # it holds up others
    database = "postgres"
    pause_ms = 100

    def left_out(self) -> set[str]:
        conditions = {
            "pause": not self.torture.widen, "fault": not self.torture.faults, "terminate": self.torture.calm, "reset": self.torture.calm,
            "enable": self.torture.without_cache, "views": self.torture.without_cache, "slow_disk": self.torture.without_cache,
        }  # fmt: skip
        return {operation for operation, left_out in conditions.items() if left_out}

    def ready(self) -> None:
        if self.conn is None:
            super().ready()
            assert self.conn is not None
            if self.torture.without_cache:
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
        if self.torture.calm and setting.startswith("pg_flashcache."):
            return
        self.run(f"ALTER SYSTEM SET {setting} = '{rng.choice(SETTINGS[setting])}'")
        self.run("SELECT pg_reload_conf()")

    def op_reset(self, rng: random.Random) -> None:
        assert self.conn is not None
        self.torture.check_counters(self.conn)
        self.run("SELECT pg_flashcache_reset_stats()")

    def op_views(self, rng: random.Random) -> None:
        self.run("SELECT * FROM pg_stat_flashcache")
        self.run("SELECT count(*), sum(refcount) FROM pg_flashcache_pages")
        self.run("SELECT * FROM pg_stat_flashcache_session")

    def op_terminate(self, rng: random.Random) -> None:
        victims = self.torture.victims()
        if victims:  # none while a standby must hear of every commit
            pid = rng.choice(victims)
            self.torture.may_terminate(pid)
            self.run(f"SELECT pg_terminate_backend({pid})")

    def hold(self, rng: random.Random, point: str, action: str, least_ms: int, most_ms: int) -> None:
        self.set_point(point, action)
        # How long is part of the seed; what happens meanwhile is not, and nothing waits for it.
        threading.Event().wait(rng.randrange(least_ms, most_ms) / 1000)
        self.set_point(point, "off")

    def op_slow_disk(self, rng: random.Random) -> None:
        """Reads of data files take as long as a disk's; else none would bring its neighbours, as the page cache has them all."""
        self.hold(rng, "disk_read", f"delay:{rng.choice((150, 500))}", 100, 600)

    def op_pause(self, rng: random.Random) -> None:
        self.hold(rng, *rng.choice(PAUSES), 1, 60)

    def op_fault(self, rng: random.Random) -> None:
        self.hold(rng, *rng.choice(DEVICE_FAULTS), 1, 300)
        self.run("SELECT pg_flashcache_enable()")
