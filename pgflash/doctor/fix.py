"""--fix and --undo: makes reversible changes, and puts them back.

Before each change, what it was goes to a file and is synced, and is taken out again only where it is certain that nothing was changed.
--undo works from that file, backwards, and leaves alone what somebody has changed since, or what belongs to another node: that stays
noted. What cannot be put back stays noted as well, and is no reason to leave the others. Values of sysfs and procfs last until the machine is booted: after
that they are "changed since".
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from pgflash.connection import said
from pgflash.doctor.check import Change, Finding, Result, Write
from pgflash.doctor.facts.machine import Machine
from pgflash.doctor.facts.server import Server
from pgflash.errors import BrokeOff, MachineError
from pgflash.system import is_root

Connection = psycopg.Connection[tuple[Any, ...]]
RESET = None
_UNDO = "pgflash doctor --undo puts it back"


def default_state() -> Path:
    """For root one place of the machine, for others one of their own."""
    if is_root():
        return Path("/var/lib/pgflash/doctor.json")
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "pgflash/doctor.json"


@dataclass
class Undo:
    """The file of what was changed."""

    path: Path

    def read(self) -> list[dict[str, Any]]:
        try:
            found = json.loads(self.path.read_text("utf-8"))
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise MachineError(f"{self.path} cannot be read: {error}", "--state names another file") from error
        if not isinstance(found, list) or not all(isinstance(item, dict) and _complete(item) for item in found):
            raise MachineError(f"{self.path} is not a file of pgflash doctor", "--state names another file")
        return found

    def write(self, entries: list[dict[str, Any]]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            fresh = self.path.with_name(self.path.name + ".new")
            with fresh.open("w", encoding="utf-8") as file:
                json.dump(entries, file, indent=1, ensure_ascii=False)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self.path)
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise MachineError(f"what is changed cannot be noted in {self.path}: {error}", "--state names another file") from error


def _complete(item: dict[str, Any]) -> bool:
    keys = {"write": ("path", "to", "undo_path", "was"), "alter": ("name", "to", "was", "server")}
    return item.get("kind") in keys and all(key in item for key in keys[item["kind"]])


def changes(results: list[Result]) -> list[tuple[Result, Finding, Change]]:
    return [(result, found, found.change) for result in results for found in result.findings if found.change]


def refusal(change: Change, machine: Machine, server: Server | None) -> str:
    """Why it cannot be made, or nothing."""
    if isinstance(change, Write):
        path = machine.at(change.path)
        if not path.exists():
            return f"there is no {change.path}"
        return "" if os.access(path, os.W_OK) else "needs root" if not is_root() else f"{change.path} cannot be written here (a container?)"
    if server and change.name in server.overruled:
        return "is set on the server's command line, which ALTER SYSTEM does not overrule"
    if server is None or change.name not in server.changeable:
        return f"needs a superuser, or GRANT ALTER SYSTEM ON PARAMETER {change.name}"
    if not server.may_reload:
        return "needs a superuser, or GRANT EXECUTE ON FUNCTION pg_reload_conf()"
    return ""


class Unchanged(BrokeOff):
    """Certainly nothing was changed."""


class Fixer:
    def __init__(self, machine: Machine, undo: Undo, connection: Connection | None = None, server: Server | None = None) -> None:
        self.machine = machine
        self.undo = undo
        self.connection = connection
        self.server = server
        self.failed = 0  # of what try_each should have put back

    def make(self, result: Result, change: Change) -> None:
        entry: dict[str, Any] = {"check": result.check.id, "at": datetime.now(UTC).isoformat(timespec="seconds")}
        if isinstance(change, Write):
            back = change.undo_path or change.path
            text = _chosen(self.machine.text(back))
            entry |= {
                "kind": "write",
                "path": change.path,
                "to": change.value,
                "undo_path": back,
                "was": text,
                "host": socket.gethostname(),
            }
        else:
            assert self.server
            was = self._written(change.name)
            entry |= {"kind": "alter", "name": change.name, "to": change.value, "was": was, "server": self.server.identifier}
            entry |= self._node()
        entries = self.undo.read()
        self.undo.write([*entries, entry])
        try:
            if isinstance(change, Write):
                self._put(change.path, change.value)
            else:
                self._alter(change.name, change.value)
        except Unchanged:
            self.undo.write(entries)
            raise

    def _put(self, path: str, value: str) -> None:
        try:
            self.machine.at(path).write_text(value)
        except OSError as error:
            raise Unchanged(f"{path} could not be set to {value}: {error.strerror}") from error

    def _alter(self, name: str, value: str | None) -> None:
        """Written, and loaded."""
        assert self.connection
        what = sql.SQL(".").join(sql.Identifier(part) for part in name.split("."))
        try:
            if value is RESET:
                self.connection.execute(sql.SQL("ALTER SYSTEM RESET {}").format(what))
            else:
                self.connection.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(what, sql.Literal(value)))
        except psycopg.Error as error:
            refused = error.sqlstate and not self.connection.broken and not error.sqlstate.startswith("57")  # not cut off in it
            raise (Unchanged if refused else BrokeOff)(
                f"{name} could not be changed: {said(error)}", "" if refused else f"it may have been changed: {_UNDO}"
            ) from error
        try:
            self.connection.execute("SELECT pg_reload_conf()")
        except psycopg.Error as error:
            raise BrokeOff(
                f"{name} is written to postgresql.auto.conf, but could not be loaded: {said(error)}",
                f"SELECT pg_reload_conf() as a superuser loads it; {_UNDO}",
            ) from error

    def _node(self) -> dict[str, str]:
        """Which of the nodes: a primary and its standbys have one system identifier."""
        assert self.connection and self.server
        host = socket.gethostname() if self.server.local else self.connection.info.host
        return {"host": host, "port": self.server.get("port"), "data_directory": self.server.data_directory}

    def _written(self, name: str) -> str | None:
        """Its value in postgresql.auto.conf; None if it has no line there."""
        assert self.connection
        try:
            cursor = self.connection.execute(
                "SELECT setting FROM pg_file_settings WHERE name = %s AND sourcefile LIKE '%%/postgresql.auto.conf' ORDER BY seqno DESC LIMIT 1",
                (name,),
            )
            row = cursor.fetchone()
        except psycopg.Error as error:
            raise BrokeOff(
                f"{name}: what it is in postgresql.auto.conf cannot be read: {said(error)}",
                "a superuser, or GRANT EXECUTE ON FUNCTION pg_show_all_file_settings and GRANT SELECT ON pg_file_settings",
            ) from error
        return row[0] if row else RESET

    def put_back(self) -> Iterator[str]:
        """Each change, the last first."""
        return (words for words, _ in self.try_each())

    def try_each(self) -> Iterator[tuple[str, bool]]:
        """The same, and whether it was put back; what is leaves the file at once."""
        entries = self.undo.read()
        for entry in reversed(list(entries)):
            try:
                words, done = self._put_back_one(entry)
            except BrokeOff as error:
                words, done = f"{error.message}: it stays noted", False
                self.failed += 1
            if done:
                entries.remove(entry)
                try:
                    self.undo.write(entries)
                except MachineError as error:  # this one is put back all the same; the next --undo finds it as it was
                    raise BrokeOff(f"{words}; then: {error.message}", error.hint) from error
            yield words, done
        if not entries:
            with contextlib.suppress(OSError):
                self.undo.path.unlink()

    def _put_back_one(self, entry: dict[str, Any]) -> tuple[str, bool]:
        if entry["kind"] == "write":
            if entry.get("host", socket.gethostname()) != socket.gethostname():
                return f"{entry['path']}: belongs to another machine ({entry['host']}): kept for that", False
            seen = _chosen(self.machine.text(entry["path"]))
            if entry["path"] == entry["undo_path"] and seen == entry["was"]:
                return f"{entry['path']}: is {seen}, as it was", True
            if seen != entry["to"]:
                return f"{entry['path']}: is {seen or 'gone'}, not {entry['to']} as the doctor set it: left as it is", False
            self._put(entry["undo_path"], entry["was"])
            return f"{entry['undo_path']}: {entry['was']} again", True
        name = entry["name"]
        if self.connection is None or self.server is None:
            return f"{name}: belongs to a server; name it: pgflash doctor CONNINFO --undo", False
        if self.server.identifier != entry["server"]:
            return f"{name}: belongs to another server (system identifier {entry['server']}): kept for that", False
        if any(entry.get(key) != value for key, value in self._node().items()):
            where = f"host {entry.get('host')}, port {entry.get('port')}, data directory {entry.get('data_directory')}"
            return f"{name}: belongs to another node ({where}): kept for that", False
        now = self._written(name)
        if now != entry["to"] and now != entry["was"]:
            return f"{name}: is {now or 'not set'} in postgresql.auto.conf, not {entry['to']} as the doctor set it: left as it is", False
        self._alter(name, entry["was"])
        return f"{name}: {'ALTER SYSTEM RESET' if entry['was'] is RESET else entry['was'] + ' again'}", True


def _chosen(text: str) -> str:
    """Of a file that lists its choices, the one in brackets."""
    return text.partition("[")[2].partition("]")[0] or text
