"""The commands: what they check first, in which order they move, and what they say at the end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from pgflash.connection import reason
from pgflash.errors import ArgumentError, BrokeOff, Interrupted, Locked, MachineError, PgflashError
from pgflash.pilot import db
from pgflash.place import devices, mover, objects, temporary
from pgflash.place.journal import OPEN, UNDER_WAY, Journal, Row
from pgflash.place.mover import Mover, Options, Tell
from pgflash.place.objects import Object
from pgflash.place.observe import TEMPORARY
from pgflash.place.room import local_paths, path_of
from pgflash.shown import identifier, literal, visible
from pgflash.units import show_bytes

PLANNING = "what is to be moved"


@dataclass(frozen=True)
class Wanted:
    """What shall be where. `filenode` as it was when it was planned; 0: not known."""

    item: Object
    target: str
    schema: str
    name: str
    filenode: int


@dataclass
class Outcome:
    done: int = 0
    later: int = 0
    failed: int = 0


# --- what is wanted ---


def read_plan(path: Path) -> tuple[list[dict[str, Any]], bool]:
    """Objects to move, and whether the temporary files are among them, of what `advise --json` has written."""
    try:
        entries = [entry for entry in json.loads(path.read_text("utf-8"))["objects"] if entry["place"] == "move"]
        found = [{name: entry[name] for name in ("oid", "kind", "schema", "name", "relfilenode")} for entry in entries]
        if not all(isinstance(entry["oid"], int) and isinstance(entry["relfilenode"], int) for entry in found):
            raise ValueError("numbers are missing")
    except OSError as error:
        raise ArgumentError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ArgumentError(f"{path} is no plan: {error!r}", "pgflash place advise ... --json writes one") from error
    return [entry for entry in found if entry["kind"] != "temporary"], any(entry["kind"] == "temporary" for entry in found)


def wanted(connection: db.Connection, plan: Path | None, names: Sequence[str], target: str) -> tuple[list[Wanted], bool, list[str]]:
    """With notes on what is not there any more."""
    notes: list[str] = []
    found: dict[int, Wanted] = {}
    with_temporary = False
    if plan is not None:
        entries, with_temporary = read_plan(plan)
        for entry in entries:
            item = objects.by_oid(connection, entry["oid"])
            if item is None and entry["kind"] == "index":
                oid = db.value(
                    connection, "SELECT to_regclass(format('%%I.%%I', %s::text, %s::text))::oid::bigint", entry["schema"], entry["name"]
                )
                item = objects.by_oid(connection, int(oid)) if oid else None
            if item is None or item.kind != entry["kind"]:
                notes.append(f"{entry['kind']} {entry['schema']}.{entry['name']} was dropped since the plan was made")
                continue
            one = Wanted(item, target, entry["schema"], entry["name"], entry["relfilenode"])
            if (item.schema, item.name) != (one.schema, one.name):
                notes.append(f"{item.kind} {one.schema}.{one.name} was renamed since the plan was made: it is {item.schema}.{item.name}")
            elif item.filenode != one.filenode:
                notes.append(f"{item.label} was rebuilt since the plan was made")
            found[item.oid] = one
    for name in names:
        item = objects.by_name(connection, name)
        found[item.oid] = Wanted(item, target, item.schema, item.name, item.filenode)
    if plan is not None and not entries and not with_temporary:
        notes.append("the plan moves nothing")
    return list(found.values()), with_temporary, notes


# --- before anything is done ---


def require(moving: Mover, items: list[Wanted], targets: set[str], options: Options, *, with_temporary: bool) -> list[str]:
    """Rights, redundancy, how each can be moved; MachineError. Warnings of what was accepted."""
    connection = moving.control
    objects.require_rights(connection, [one.item for one in items], targets, database=with_temporary)
    moving.journal.may_create()
    warnings: list[str] = []
    paths = local_paths(connection) if items else None
    own = db.value(
        connection,
        "SELECT spcname FROM pg_tablespace t JOIN pg_database d ON d.dattablespace = t.oid WHERE datname = current_database()",
    )
    for name in sorted({one.target for one in items} - {own}):  # the database lives and dies with its own already
        if paths is not None:
            said = devices.require_lasting(name, path_of(connection, name, paths[0]), options.accept_loss)
            warnings += [said] if said else []
        elif not options.accept_loss:
            raise MachineError(f"tablespace {name}: its device cannot be seen from here, so it may be one without a mirror", devices.HINT)
    require_window(moving, [one.item for one in items if one.item.tablespace != one.target], options)
    return warnings


def require_window(moving: Mover, items: list[Object], options: Options) -> None:
    locking = [item.label for item in items if moving.method(item) == "alter"]
    if locking and options.window is None:
        raise MachineError(
            f"these would be locked while they are copied: {', '.join(locking)}",
            "say when: --window 01:00-04:00, or --window now; or install pg_repack, which moves tables with a unique key online",
        )


# --- apply, back ---


def apply(
    dsn: str, tell: Tell, options: Options, *, tablespace: str, plan: Path | None, names: Sequence[str], with_temporary: bool, resume: bool
) -> Outcome:
    with Mover(dsn, options, tell) as moving:
        moving.journal.exists()
        items, also, notes = moving.patiently(PLANNING, lambda: wanted(moving.control, plan, names, tablespace))
        with_temporary = with_temporary or also
        targets = {tablespace} if tablespace else set()
        moving.lock()
        chosen: list[Row] = []
        if resume:
            settled(moving, tell)
            chosen = [row for row in moving.journal.rows() if row.state in OPEN and row.origin == "place"]
            targets |= {row.to_place for row in chosen}
            items = [
                Wanted(item, row.to_place, row.schema, row.name, row.filenode)
                for row in chosen
                if row.kind != "temporary" and (item := moving.find(row)) is not None
            ]
            with_temporary = any(row.kind == "temporary" for row in chosen)
        warnings = require(moving, items, targets, options, with_temporary=with_temporary)
        for text in [*notes, *warnings]:
            tell({"event": "note", "note": text})
        moving.journal.create()
        if not resume:
            settled(moving, tell)
            chosen = open_rows(moving, items, "place", tell)
            if with_temporary:
                chosen += _temporary_row(moving, tablespace)
        return carry_out(moving, chosen, tell)


def settled(moving: Mover, tell: Tell) -> None:
    for row in moving.settle():
        tell({"event": "settled", "object": row.label, "state": row.state, "note": row.note})


def open_rows(moving: Mover, items: list[Wanted], origin: str, tell: Tell) -> list[Row]:
    """A line of the journal for each, all at once; one that is still open is used again."""
    waiting = {(row.oid, row.to_place): row for row in moving.journal.rows() if row.state in OPEN and row.origin == origin}
    rows: list[Row] = []
    with moving.control.transaction():
        for one in items:
            item = one.item
            if item.tablespace == one.target:
                tell({"event": "end", "object": item.label, "state": "done", "note": "was there already"})
                continue
            row = waiting.get((item.oid, one.target)) or moving.journal.add(
                origin, item.kind, item.schema, item.name, item.oid, item.filenode, item.table, item.bytes, item.tablespace, one.target
            )
            rows.append(row)
    return rows


def _temporary_row(moving: Mover, tablespace: str) -> list[Row]:
    before = temporary.of_database(moving.control)
    if temporary.names(before) == [tablespace]:
        return []
    return [moving.journal.add("place", "temporary", "", TEMPORARY, 0, 0, 0, 0, before, tablespace)]


def carry_out(moving: Mover, rows: list[Row], tell: Tell, *, back: bool = False) -> Outcome:
    """One at a time; what one of them runs into does not stop the others. A connection that is lost does: the journal, which the next
    run makes true, has what was done."""
    outcome = Outcome()
    try:
        for row in rows:
            state = _temporary(moving, row, tell, back) if row.kind == "temporary" else moving.move(row, back=back)
            if state == "later":
                outcome.later += 1
            elif state in ("done", "back", "skipped"):
                outcome.done += 1
            else:
                outcome.failed += 1
    except KeyboardInterrupt as error:
        raise Interrupted("interrupted; what was moved stays where it is now", "apply --resume goes on, back puts all back") from error
    except (PgflashError, psycopg.Error, OSError) as error:
        why = error.message if isinstance(error, PgflashError) else reason(error) if isinstance(error, psycopg.Error) else str(error)
        raise BrokeOff(
            f"{why}; done before: {outcome.done} of {len(rows)}",
            "pgflash place status shows what was moved and what was cut short; the next run goes on, place back puts back what place apply moved",
        ) from error
    return outcome


def _temporary(moving: Mover, row: Row, tell: Tell, back: bool) -> str:
    connection = moving.control
    moving.journal.begin(row, "returning" if back else "running", "alter database", [])
    tell(
        {
            "event": "begin",
            "object": row.label,
            "bytes": 0,
            "to": row.from_place if back else row.to_place,
            "method": row.method,
            "note": "",
        }
    )
    try:
        temporary.set_for_database(connection, row.from_place if back else sql.Identifier(row.to_place).as_string(None))
        if not back:
            with mover.connect(moving.dsn) as fresh:
                temporary.check(fresh, row.to_place)
    except (BrokeOff, MachineError) as error:
        if not back:  # new sessions go on as before
            with contextlib.suppress(BrokeOff):
                temporary.set_for_database(connection, row.from_place)
        moving.journal.end(row, "done" if back else "failed", error.message)
        tell({"event": "end", "object": row.label, "state": "failed", "note": error.message})
        return "failed"
    lacking = [] if back else temporary.without_privilege(connection, row.to_place)
    space = sql.Identifier(row.to_place).as_string(None)
    note = (
        f"without CREATE on it, and so without effect for: {', '.join(lacking)} (GRANT CREATE ON TABLESPACE {space} TO ...)"
        if lacking
        else ""
    )
    moving.journal.end(row, "back" if back else "done", note)
    tell({"event": "end", "object": row.label, "state": row.state, "note": note})
    return row.state


def back(dsn: str, tell: Tell, options: Options) -> Outcome:
    """The newest move first."""
    with Mover(dsn, options, tell) as moving:
        if not moving.journal.exists():
            return Outcome()
        moving.lock()
        settled(moving, tell)
        rows = [row for row in reversed(moving.journal.rows()) if row.state == "done" and row.origin == "place"]
        items = [item for row in rows if row.kind != "temporary" and (item := moving.find(row)) is not None]
        spaces = {row.from_place for row in rows if row.kind != "temporary"}
        objects.require_rights(moving.control, items, spaces, database=any(row.kind == "temporary" for row in rows))
        require_window(moving, items, options)
        outcome = carry_out(moving, rows, tell, back=True)
        # What was never moved will not be, unless it is asked for again.
        for row in moving.journal.rows():
            if row.state in OPEN and row.origin == "place":
                moving.journal.end(row, "skipped", "not moved before all was put back")
        return outcome


# --- status ---


def status(dsn: str) -> dict[str, Any]:
    """Reads only. A row that is under way while nobody moves was cut short."""
    with mover.connect(dsn) as connection:
        journal = Journal(connection)
        rows, pid = journal.rows(), mover.holder(connection)
        found: list[dict[str, Any]] = []
        for row in rows:
            entry = row.as_json()
            locked, item = False, None
            try:
                item = mover.find(connection, row) if row.kind != "temporary" else None
            except Locked:
                locked = True
            entry["now_in"] = item.tablespace if item else None
            if row.state in UNDER_WAY and pid is None:
                there = (
                    item is not None and item.valid and item.tablespace == (row.from_place if row.state == "returning" else row.to_place)
                )
                entry["state"] = "interrupted"
                entry["note"] = "was cut short" + (", and is done" if there else "") + "; apply --resume or back goes on"
            elif locked:
                entry["note"] = "is locked by another session: where it is was not looked at"
            elif row.kind != "temporary" and item is None and row.state == "done":
                entry["note"] = "was dropped meanwhile"
            elif item and row.state == "done" and item.tablespace != row.to_place:
                entry["note"] = f"is in {item.tablespace} now"
            found.append(entry)
        return {"moves": found, "at_work": pid}


# --- script ---


def script(dsn: str, *, tablespace: str, plan: Path | None, names: Sequence[str], with_temporary: bool) -> str:
    with mover.connect(dsn) as connection:
        objects.tablespace_oid(connection, tablespace)
        items, also, notes = wanted(connection, plan, names, tablespace)
        function, danger = mover.policy_function(connection)
        notes = [*notes, *([f"policies in the cache are left out: {danger}"] if danger else [])]
        lines = [
            f"-- Moves to the tablespace {_comment(tablespace)}, for psql, not in a transaction. Stops at the first error.",
            r"\set ON_ERROR_STOP on",
            "SET search_path = pg_catalog, pg_temp;",
        ]
        lines += [f"-- note: {_comment(note)}" for note in notes]
        for one in items:
            item = one.item
            if item.tablespace == tablespace:
                lines += ["", f"-- {_comment(item.label)} is there already"]
                continue
            lines += ["", f"-- {_comment(item.label)}, {show_bytes(item.bytes)}, from {_comment(item.tablespace)}"]
            name, space = quoted(item), identifier(tablespace)
            if item.kind == "index" and not item.exclusion:
                lines.append(f"REINDEX (CONCURRENTLY, TABLESPACE {space}) INDEX {name};")
            else:
                lines += [
                    "-- It is locked while it is copied. Without a long lock, for a table with a unique key: pg_repack",
                    "SET lock_timeout = '2s';", f"ALTER {mover.KEYWORD[item.kind]} {name} SET TABLESPACE {space};", "RESET lock_timeout;",
                ]  # fmt: skip
            if function:
                lines.append(f"SELECT {function}({literal(item.quoted())}::regclass, 'none');")
        if with_temporary or also:
            statement = f"ALTER DATABASE {identifier(connection.info.dbname)} SET temp_tablespaces = {literal(tablespace)};"
            lines += ["", "-- temporary files, of sessions that begin afterwards", statement]
            lacking = temporary.without_privilege(connection, tablespace)
            if lacking:
                grants = ", ".join(map(identifier, lacking))
                lines.append(f"-- GRANT CREATE ON TABLESPACE {identifier(tablespace)} TO {grants};")
        return "\n".join(lines) + "\n"


def quoted(item: Object) -> str:
    return f"{identifier(item.schema)}.{identifier(item.name)}"


def _comment(text: str) -> str:
    """A name must not end the comment that it is in, nor hide what follows."""
    return visible(text)
