"""One move at a time, on a connection of its own, so that it can be watched and cancelled from another.

What a move leaves behind when it is cut short, by whatever, is known beforehand and removed by `settle`: the invalid index of a REINDEX
CONCURRENTLY, the log table and trigger of pg_repack. A move by ALTER is one transaction with its line of the journal.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from pgflash import safe
from pgflash.connection import said
from pgflash.errors import BrokeOff, Locked, MachineError
from pgflash.pilot import db
from pgflash.pilot.target import ENVIRONMENT
from pgflash.place import journal as journals
from pgflash.place import objects
from pgflash.place.journal import Journal, Row
from pgflash.place.objects import Object
from pgflash.place.progress import Progress
from pgflash.place.room import require_room
from pgflash.system import end_group, environment, find_program, run, undisturbed

LOCK = (1886807657, 1886151019)  # of a session that moves; one in a database
WATCH_S = 0.5
LOOK_MS = 2000  # longest that a look at objects waits for a lock, where nothing else is asked for
UNBOUNDED = ("statement_timeout", "transaction_timeout", "idle_in_transaction_session_timeout")
WAIT_FOR_LOCK_S = 8
LEFT_BEHIND = re.compile(r"_cc(new|old)[0-9]*$")

T = TypeVar("T")
Tell = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Options:
    """How to move. `window`: when tables may be locked; None: never, "now", or from and to."""

    window: str | None = None
    lock_timeout_ms: int = 2000
    retries: int = 30
    pause_s: float = 2.0
    repack: bool = True
    assume_room: int | None = None
    accept_loss: bool = False


def in_window(window: str | None, now: datetime) -> bool:
    """Of the local time of day; one that ends before it begins goes over midnight."""
    if window is None or window == "now":
        return window == "now"
    begins, ends = window.split("-")
    at = now.strftime("%H:%M")
    return begins <= at < ends if begins <= ends else at >= begins or at < ends


def valid_window(window: str) -> bool:
    return window == "now" or re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d", window) is not None


def connect(dsn: str, lock_ms: int = LOOK_MS) -> db.Connection:
    """Moves take as long as they take, whatever the database has set; but locks of others are not waited for without an end."""
    connection = db.connect(dsn, application_name="pgflash place")
    db.rows(connection, "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = ANY (%s)", list(UNBOUNDED))
    db.bounded(connection, lock_ms)
    return connection


def patiently(look: Callable[[], T], options: Options, tell: Callable[[int], None]) -> T:
    """What `look` finds; again and again where another session has a lock, with pauses in between. Locked, if it keeps that."""
    for attempt in range(1, options.retries + 1):
        try:
            return look()
        except Locked:
            tell(attempt)
            time.sleep(min(options.pause_s * attempt, 30))
    return look()


@dataclass
class Mover:
    dsn: str
    options: Options
    tell: Tell
    uncached: frozenset[str] = frozenset()  # tablespaces of tiers whose partitions are not cached
    control: db.Connection = field(init=False)
    worker: db.Connection = field(init=False)
    journal: Journal = field(init=False)

    def __enter__(self) -> Mover:
        self.control = connect(self.dsn, self.options.lock_timeout_ms)
        self.worker = connect(self.dsn, self.options.lock_timeout_ms)
        self.journal = Journal(self.control)
        # The server ends the statement of a tool that was killed, and with its session the lock.
        with contextlib.suppress(BrokeOff):
            db.rows(self.worker, "SET client_connection_check_interval = '1s'")
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.close()
        self.control.close()

    def lock(self) -> None:
        """One at a time. A session of a tool that was killed needs a moment to notice."""
        until = time.monotonic() + WAIT_FOR_LOCK_S
        while not db.value(self.worker, "SELECT pg_try_advisory_lock(%s, %s)", *LOCK):
            if time.monotonic() > until:
                raise MachineError(
                    f"objects of this database are being moved by another pgflash (process {holder(self.control)} of the server)"
                )
            time.sleep(0.5)

    def patiently(self, what: str, look: Callable[[], T]) -> T:
        """A look at objects, which others may have locked: asked again as often as a lock is asked for again."""
        return patiently(look, self.options, lambda attempt: self.tell({"event": "retry", "object": what, "attempt": attempt}))

    def find(self, row: Row) -> Object | None:
        return self.patiently(row.label, lambda: find(self.control, row))

    # --- what an earlier one left ---

    def settle(self) -> list[Row]:
        """Rows that are under way although nobody moves: makes them true. The lock is held."""
        settled = [row for row in self.journal.rows() if row.state in journals.UNDER_WAY]
        for row in settled:
            self._settle(row)
        return settled

    def _settle(self, row: Row) -> None:
        returning = row.state == "returning"
        if row.kind == "temporary":
            self.journal.end(row, "done" if returning else "interrupted", "was cut short")
            return
        left = self._clean(row)
        item = self.find(row)
        if item is None:
            self.journal.end(row, "skipped", f"{row.label} was dropped meanwhile")
            return
        wanted = row.from_place if returning else row.to_place
        if item.tablespace == wanted and item.valid:
            self._policy(row, item, returning)
            self.journal.end(
                row, "back" if returning else "done", left or "was cut short, and is done", oid=item.oid, filenode=item.filenode
            )
        else:
            self.journal.end(row, "done" if returning else "interrupted", left or "was cut short")

    def _clean(self, row: Row) -> str:
        """Removes what a move left; names what it could not remove."""
        left: list[str] = []
        if row.method == "reindex":
            for oid in objects.invalid_indexes(self.control, row.table):
                item = self.patiently(row.label, partial(objects.by_oid, self.control, oid))
                if item is None or oid in row.invalid_before or not LEFT_BEHIND.search(item.name):
                    continue
                drop = sql.SQL("DROP INDEX CONCURRENTLY {}").format(item.identifier)
                try:
                    self._briefly(local=False)
                    db.execute(self.control, drop)
                except BrokeOff:
                    left.append(f"left behind: an invalid index; {drop.as_string(None)}; removes it")
        if row.method == "pg_repack":
            left += self._clean_repack(row)
        return "; ".join(left)

    def _briefly(self, *, local: bool) -> None:
        db.rows(self.control, "SELECT set_config('lock_timeout', %s, %s)", str(self.options.lock_timeout_ms), local)

    def _repack_at_work(self) -> bool:
        """By the advisory locks that pg_repack holds."""
        return bool(
            db.value(
                self.control,
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 16185446"
                " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            )
        )

    def _clean_repack(self, row: Row) -> list[str]:
        for _ in range(60):
            if not self._repack_at_work():
                break
            time.sleep(0.25)
        else:
            return ["pg_repack is still at work"]
        trigger = db.value(
            self.control, "SELECT count(*) FROM pg_trigger WHERE tgrelid = %s AND tgname = 'repack_trigger' AND NOT tgisinternal", row.oid
        )
        names = [f"{what}_{row.oid}" for what in ("log", "table")]
        there = [name for name in names if db.value(self.control, "SELECT to_regclass(%s)::text", f"repack.{name}")]
        kind = db.value(self.control, "SELECT to_regtype(%s)::text", f"repack.pk_{row.oid}")
        item = objects.by_oid(self.control, row.oid)
        if not (trigger or there or kind):
            return []
        try:
            with self.control.transaction():
                self._briefly(local=True)
                if trigger and item:
                    db.execute(self.control, sql.SQL("DROP TRIGGER repack_trigger ON {}").format(item.identifier))
                for name in there:
                    db.execute(self.control, sql.SQL("DROP TABLE {}").format(sql.Identifier("repack", name)))
                if kind:
                    db.execute(self.control, sql.SQL("DROP TYPE IF EXISTS {}").format(sql.Identifier("repack", f"pk_{row.oid}")))
        except (BrokeOff, psycopg.Error):
            return [f"left behind by pg_repack: the trigger repack_trigger, repack.log_{row.oid}, repack.table_{row.oid}"]
        return []

    # --- a move ---

    def method(self, item: Object) -> str:
        """reindex, pg_repack, or alter, which locks the object while it is copied."""
        if item.kind == "index":
            return "alter" if item.exclusion else "reindex"
        if item.kind == "table" and self.options.repack and item.keyed and repack_program(self.control):
            return "pg_repack"
        return "alter"

    def move(self, row: Row, *, back: bool = False) -> str:
        """Moves it, or puts it back; the state it ended in, or "later". What goes wrong ends up in the journal, and KeyboardInterrupt in the caller."""
        try:
            return self._move(row, back)
        except Locked as error:
            if row.state not in journals.UNDER_WAY:
                return self._not_moved(row, back, error.message)
            # Whether it was moved could not be looked at: the next run finds out.
            self.tell({"event": "end", "object": row.label, "state": row.state, "note": error.message})
            return "failed"

    def _move(self, row: Row, back: bool) -> str:
        target = row.from_place if back else row.to_place
        item = self.find(row)
        if item is None:
            return self._ended(row, "skipped", f"{row.label} was dropped meanwhile")
        note = changed(row, item)
        if row.method:  # an earlier try may have had to leave something
            self._clean(row)
        if item.tablespace == target:
            if back or row.state in journals.OPEN:
                self._policy(row, item, back)
            return self._ended(row, "back" if back else "done", "was there already", item)
        method = self.method(item)
        try:
            repack = method == "pg_repack"
            self.patiently(row.label, lambda: require_room(self.control, item, target, repack=repack, assumed=self.options.assume_room))
        except MachineError as error:
            return self._not_moved(row, back, error.message)
        if method == "alter" and not in_window(self.options.window, datetime.now()):
            self.tell({"event": "later", "object": item.label, "why": "locks the object while it is copied: only within --window"})
            return "later"
        self.journal.begin(row, "returning" if back else "running", method, objects.invalid_indexes(self.control, item.table or item.oid))
        self.tell({"event": "begin", "object": item.label, "bytes": item.bytes, "to": target, "method": method, "note": note})
        try:
            if method == "reindex":
                self._reindex(row, item, target)
            elif method == "pg_repack":
                self._repack(item, target)
            else:
                self._alter(row, item, target, "back" if back else "done", note)
        except KeyboardInterrupt:
            with undisturbed():
                self._after(row, back, "cancelled", "by the user")
            raise
        except (BrokeOff, MachineError, psycopg.Error) as error:
            text = error.message if isinstance(error, BrokeOff | MachineError) else said(error)
            return self._after(row, back, "failed", text)
        return self._after(row, back, "failed", note or "is not where it should be")

    def _ended(self, row: Row, state: str, note: str, item: Object | None = None) -> str:
        self.journal.end(row, state, note, oid=item.oid if item else None, name=item.name if item else None)
        self.tell({"event": "end", "object": row.label, "state": state, "note": note})
        return state

    def _not_moved(self, row: Row, back: bool, note: str) -> str:
        """It stays where it is, and counts as failed either way."""
        self.journal.end(row, "done" if back else "failed", note)
        self.tell({"event": "end", "object": row.label, "state": "failed", "note": note})
        return "failed"

    def _after(self, row: Row, back: bool, otherwise: str, note: str) -> str:
        """By what is true now."""
        if self.control.closed or self.control.broken:
            raise BrokeOff(
                f"{row.label}: the connection was lost: {note}", "pgflash place status says how far it is, apply --resume goes on"
            )
        left = self._clean(row)
        item = self.find(row)
        wanted = row.from_place if back else row.to_place
        if item is not None and item.valid and item.tablespace == wanted:
            moved = self._policy(row, item, back)
            said = "; ".join(text for text in (left, moved, note if note.startswith("renamed") else "") if text)
            self.journal.end(row, "back" if back else "done", said, oid=item.oid, name=item.name, filenode=item.filenode)
        else:
            text = f"{note}; {left}" if left else note
            self.journal.end(row, "done" if back else otherwise, text)
        self.tell({"event": "end", "object": row.label, "state": row.state, "note": row.note})
        return row.state if row.state != "done" or not back else "failed"

    def _watch(self, item: Object, target: str, method: str, work: Callable[[], None], stop: Callable[[], None]) -> None:
        """Does it in a thread, tells how far it is, and stops it when this thread is interrupted."""
        failed: list[BaseException] = []

        def body() -> None:
            try:
                work()
            except BaseException as error:
                failed.append(error)

        progress = Progress(self.control, item, target, method, self.worker.info.backend_pid)
        thread = threading.Thread(target=body, daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(WATCH_S)
                if thread.is_alive() and (news := progress.news()):
                    self.tell({"event": "progress", "object": item.label, "phase": news})
        except KeyboardInterrupt:
            with undisturbed():
                stop()
                thread.join(60)
            raise
        if failed:
            raise failed[0]

    def _statement(self, item: Object, target: str, method: str, work: Callable[[], None]) -> None:
        self._watch(item, target, method, work, self.worker.cancel)

    def _reindex(self, row: Row, item: Object, target: str) -> None:
        """Waits for other transactions, and blocks none of them: without lock_timeout."""
        db.rows(self.worker, "SET lock_timeout = 0")
        statement = reindex(item, target)
        self._statement(item, target, "reindex", lambda: db.execute(self.worker, statement))

    def _alter(self, row: Row, item: Object, target: str, state: str, note: str) -> None:
        """In one transaction with the journal. The lock is asked for briefly, again and again: who waits for it holds up others."""
        statement = alter(item, target)

        def once() -> None:
            with self.worker.transaction():
                db.rows(self.worker, "SELECT set_config('lock_timeout', %s, true)", str(self.options.lock_timeout_ms))
                self.worker.execute(statement)
                journals.end_on(self.worker, row, state, note, filenode=0)

        before = row.state
        for attempt in range(self.options.retries + 1):
            try:
                self._statement(item, target, "alter", once)
                return
            except psycopg.errors.LockNotAvailable:
                row.state = before
                if attempt == self.options.retries:
                    raise
                self.tell({"event": "retry", "object": item.label, "attempt": attempt + 1})
                time.sleep(min(self.options.pause_s * (attempt + 1), 30))

    def _repack(self, item: Object, target: str) -> None:
        program = repack_program(self.control)
        assert program
        info = self.control.info
        parameters = info.get_parameters() | ({"password": info.password} if info.password else {})
        env = {ENVIRONMENT[name]: text for name, text in parameters.items() if name in ENVIRONMENT and text}
        command = [
            program, f"--host={info.host}", f"--port={info.port}", f"--username={info.user}", f"--dbname={info.dbname}", "--no-password",
            f"--tablespace={target}", f"--table={item.quoted()}", "--no-order", "--no-kill-backend",
            f"--wait-timeout={max(1, self.options.lock_timeout_ms * (self.options.retries + 1) // 1000)}",
        ]  # fmt: skip
        # A killed tool cannot tell it to end; the kernel does. In a group of its own, since Ctrl-C is passed on by us.
        setpriv = find_program("setpriv")
        process = subprocess.Popen(
            [*([setpriv, "--pdeathsig", "INT"] if setpriv else []), *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            env=environment(env), start_new_session=True,
        )  # fmt: skip
        said: list[str] = []

        def work() -> None:
            said.append(process.communicate()[0] or "")

        def stop() -> None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)  # it then removes what it has made
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            end_group(process)

        self._watch(item, target, "pg_repack", work, stop)
        if process.returncode != 0:
            raise BrokeOff(f"pg_repack failed (exit status {process.returncode}): {' '.join(said).strip()[-1000:]}")

    def _policy(self, row: Row, item: Object, back: bool) -> str:
        """Not both moved and cached. Of tiers, by the tablespaces that the rules say are not cached."""
        if row.origin == "place":
            return self.set_policy(item, back)
        if row.to_place in self.uncached or row.from_place in self.uncached:
            return self.set_policy(item, row.to_place not in self.uncached)
        return ""

    def set_policy(self, item: Object, back: bool) -> str:
        """The policy none, or without it again. A cache without policies, or a user who may not set them, is no reason to fail.

        A rule of the user's own about the object stays what it is, there and back.
        """
        function, danger = policy_function(self.control)
        if danger:
            return f"its policy in the cache was not set: {danger}"
        if not function:
            return ""
        schema = function.rpartition(".")[0]
        rule = f"SELECT policy FROM {schema}.pg_flashcache_policy_rules WHERE kind = 'relation' AND schemaname = %s AND objname = %s"
        try:
            present = db.rows(self.control, rule, item.schema, item.name)
            if (present and present[0][0] != "none") or bool(present) != back:
                return ""
            db.rows(self.control, f"SELECT {function}(%s::oid::regclass, %s::text)", item.oid, "default" if back else "none")
        except BrokeOff as error:
            return f"its policy in the cache could not be set: {error.message.splitlines()[0]}"
        return ""


def alter(item: Object, target: str) -> sql.Composed:
    return sql.SQL("ALTER {} {} SET TABLESPACE {}").format(sql.SQL(KEYWORD[item.kind]), item.identifier, sql.Identifier(target))


def reindex(item: Object, target: str) -> sql.Composed:
    return sql.SQL("REINDEX (CONCURRENTLY, TABLESPACE {}) INDEX {}").format(sql.Identifier(target), item.identifier)


KEYWORD: dict[str, Any] = {"table": "TABLE", "index": "INDEX", "materialized view": "MATERIALIZED VIEW"}


def policy_function(connection: db.Connection) -> tuple[str, str]:
    """Qualified, and empty where the extension has none; and why it is not called."""
    found = db.asked(safe.extension, connection)
    if found is None or db.asked(safe.function, connection, "pg_flashcache_set_policy", "regclass, text") is None:
        return "", ""
    refused = found.danger or (f"{found.closed}: {found.lacking}" if found.lacking else "")
    return ("", refused) if refused else (f"{found.schema}.pg_flashcache_set_policy", "")


def find(connection: db.Connection, row: Row) -> Object | None:
    """By OID, wherever it was renamed to; an index that was rebuilt by its table and name."""
    item = objects.by_oid(connection, row.oid)
    if item is None and row.kind == "index":
        item = objects.index_of(connection, row.table, row.name)
    return item if item is not None and item.kind == row.kind else None


def changed(row: Row, item: Object) -> str:
    """What happened to it since it was planned."""
    if (item.schema, item.name) != (row.schema, row.name):
        return f"renamed meanwhile: {row.schema}.{row.name} is {item.schema}.{item.name}"
    return "rebuilt meanwhile" if row.filenode and item.filenode != row.filenode else ""


def holder(connection: db.Connection) -> int | None:
    """Process of the server whose session moves objects of this database."""
    found = db.value(
        connection,
        "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = %s AND objid = %s"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        *LOCK,
    )
    return int(found) if found is not None else None


def repack_program(connection: db.Connection) -> str:
    """pg_repack where the extension, the same version of the program and a superuser are there; else empty."""
    version = db.value(connection, "SELECT extversion FROM pg_extension WHERE extname = 'pg_repack'")
    if version is None or not objects.is_superuser(connection):
        return ""
    found = db.asked(safe.extension, connection, "pg_repack")
    if found is None or found.danger:
        return ""
    for program in _repack_programs(int(db.value(connection, "SHOW server_version_num")) // 10000):
        if run([program, "--version"], what="pg_repack", check=False).stdout.split()[-1:] == [version]:
            return program
    return ""


def _repack_programs(major: int) -> Iterator[str]:
    found = find_program("pg_repack")
    if found:
        yield found
    debian = Path(f"/usr/lib/postgresql/{major}/bin/pg_repack")
    if debian.exists():
        yield str(debian)
