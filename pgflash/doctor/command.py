"""pgflash doctor: the command. Gathers the facts, runs the checks, shows, fixes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import psutil
import psycopg
import typer
from rich.console import Console
from rich.text import Text

import pgflash.doctor.checks  # noqa: F401  (registers them)
from pgflash import safe
from pgflash.connection import parsed, said
from pgflash.doctor import report
from pgflash.doctor.check import AREAS, REGISTRY, Result, examine
from pgflash.doctor.facts import Facts
from pgflash.doctor.facts.machine import Machine
from pgflash.doctor.facts.server import gather
from pgflash.doctor.facts.waits import Waits, take
from pgflash.doctor.fix import Connection, Fixer, Undo, changes, default_state, refusal
from pgflash.errors import (
    EXIT_ADVICE,
    EXIT_BROKE_OFF,
    EXIT_OK,
    EXIT_PROBLEM,
    ArgumentError,
    BrokeOff,
    MachineError,
    PgflashError,
    Unreachable,
)
from pgflash.shown import console, json_text, visible

progress = Console(stderr=True, highlight=False)


class Session:
    """The connection, and the machine; a test has others."""

    command = "pgflash doctor"
    hint = "connection strings and PG* variables are libpq's; pgflash doctor without one looks at the machine alone"

    def __init__(self, conninfo: str, machine: Machine | None = None) -> None:
        self.machine = machine or Machine()
        self.connection: Connection | None = None
        if conninfo:
            parsed(conninfo, 1)  # libpq would quote a part of it, which may be one of a password
            try:
                self.connection = safe.connect(conninfo, application_name=self.command, connect_timeout="10")
                self.connection.execute("SELECT set_config('lock_timeout', '5s', false)")
            except psycopg.Error as error:
                raise Unreachable(f"the server cannot be reached: {said(error)}", self.hint) from error

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        assert self.connection
        try:
            return self.connection.execute(query.encode()).fetchall()
        except psycopg.Error as error:
            raise MachineError(f"the server could not be asked: {said(error)}\n{query}") from error

    def _cache_view(self) -> tuple[str, str, bool]:
        """Qualified name of the extension's view; or why it cannot be used, and what helps; and whether the extension is there."""
        assert self.connection
        try:
            found = safe.extension(self.connection)
            view = safe.relation(self.connection, "pg_stat_flashcache")
            if found is None or view is None:
                return "", "pg_stat_flashcache is not in this database: CREATE EXTENSION pg_flashcache, or name the one that has it", False
            allowed = self.connection.execute("SELECT has_table_privilege(%s::oid, 'SELECT')", (view,)).fetchone()
        except psycopg.Error as error:
            raise MachineError(f"the server could not be asked: {said(error)}") from error
        if found.danger:
            return "", f"{found.danger}: {safe.HINT}", True
        if found.lacking:
            return "", f"{found.closed}: {found.lacking}", True
        if allowed != (True,):
            return "", f"this role may not read pg_stat_flashcache: GRANT pg_monitor TO {found.role}", True
        return f"{found.schema}.pg_stat_flashcache", "", True

    def _view(self, name: str) -> tuple[str, str]:
        """Qualified name of a view of the extension, where this role may read it; else why not, if it is there."""
        assert self.connection
        try:
            found, view = safe.extension(self.connection), safe.relation(self.connection, name)
            if found is None or view is None:
                return "", ""
            allowed = self.connection.execute("SELECT has_table_privilege(%s::oid, 'SELECT')", (view,)).fetchone()
        except psycopg.Error as error:
            raise MachineError(f"the server could not be asked: {said(error)}") from error
        if allowed != (True,):
            return "", f"this role may not read {name}: GRANT pg_monitor TO {found.role}"
        return f"{found.schema}.{name}", ""

    def facts(self, flash: str, data: str, seconds: float, quiet: bool) -> Facts:
        if self.connection is None:
            return Facts(self.machine, None, flash, data)
        addresses = {item.address.split("%")[0] for items in psutil.net_if_addrs().values() for item in items}
        server = gather(self.rows, self.machine, self.connection.info.hostaddr, frozenset(addresses), self._cache_view, self._view)
        if server.version < 150000:
            raise MachineError(f"the server is PostgreSQL {server.version // 10000}, 15 or newer is needed")

        def sample() -> Waits:
            if quiet:
                return take(self.rows, seconds)
            with progress.status(f"sampling what the sessions wait for, {seconds:g} s"):
                return take(self.rows, seconds)

        return Facts(self.machine, server, flash, data, sample if seconds > 0 else None)

    def close(self) -> None:
        if self.connection:
            self.connection.close()


def look(facts: Facts, only: list[str]) -> list[Result]:
    return [examine(item, facts) for item in REGISTRY.values() if not only or item.area in only]


def _exit_code(results: list[Result]) -> int:
    states = {result.status for result in results}
    return EXIT_PROBLEM if "problem" in states else EXIT_ADVICE if "advice" in states else EXIT_OK


def _list(as_json: bool, only: list[str]) -> None:
    chosen = [item for item in REGISTRY.values() if not only or item.area in only]
    if as_json:
        keys = ("id", "area", "title", "question", "why", "source", "severity")
        print(json_text({"areas": AREAS, "checks": [{key: str(getattr(item, key)) for key in keys} for item in chosen]}))
        return
    for item in chosen:
        print(f"{item.id} ({item.severity})\n    {item.question}\n    source: {item.source}")


def _json(facts: Facts, results: list[Result], made: list[str], refused: list[str], status: int) -> dict[str, Any]:
    server = facts.server
    return {
        "server": {"version": server.version, "local": server.local, "system_identifier": server.identifier} if server else None,
        "places": [
            {
                "role": place.role, "path": place.path, "unseen": place.unseen,
                "mount": place.mount.point if place.mount else None, "file_system": place.mount.kind if place.mount else None,
                "device": str(place.block) if place.block else None,
            }
            for place in facts.places
        ],
        "checks": [result.as_json() for result in results], "fixed": made, "not_fixed": refused, "exit": status,
    }  # fmt: skip


def doctor_command(
    conninfo: Annotated[str, typer.Argument(help="Connection string of the server. Without it, the machine alone is looked at.")] = "",
    flash: Annotated[str, typer.Option(metavar="PATH", help="Path of the cache, or where it is to be.")] = "",
    data: Annotated[
        str, typer.Option(metavar="PATH", help="A data directory on this machine, if there is no connection to its server.")
    ] = "",
    only: Annotated[list[str] | None, typer.Option(metavar="AREA", help=f"Only this area; may be repeated. {', '.join(AREAS)}")] = None,
    seconds: Annotated[float, typer.Option(min=0, max=3600, help="How long waits are sampled; 0: not at all.")] = 5,
    fix: Annotated[bool, typer.Option("--fix", help="Make the changes that can be undone; asks before.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --fix: do not ask.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Put back what --fix has changed.")] = False,
    state: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where --fix notes what was. Default: /var/lib/pgflash/doctor.json.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the checks, with their sources.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also list what is fine.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="JSON on standard output, errors included.")] = False,
) -> None:
    """Checks machine and server: what to change, why, and with which command."""
    areas = only or []
    if wrong := [area for area in areas if area not in AREAS]:
        raise ArgumentError(f"there is no area {wrong[0]}", f"areas: {', '.join(AREAS)}")
    if fix and undo:
        raise ArgumentError("--fix and --undo exclude each other")
    if fix and not yes and (json_ or not sys.stdin.isatty()):
        raise ArgumentError("--fix asks before it changes something, and there is nobody to ask", "--yes makes the changes without asking")
    for name, path in (("--flash", flash), ("--data", data)):
        if path and not Path(path).is_absolute():
            raise ArgumentError(f"{name} {path} is not an absolute path")
    if data and _missing(data):
        raise ArgumentError(f"there is no {data}", "--data names the data directory, on this machine")
    if data and _missing(f"{data}/PG_VERSION"):
        raise ArgumentError(f"{data} is no data directory: it has no PG_VERSION", "--data names the data directory, on this machine")
    if list_:
        _list(json_, areas)
        return
    session = Session(conninfo)
    try:
        status = run(session, flash, data, areas, seconds, fix, yes, undo, Undo(state or default_state()), verbose, json_)
    finally:
        session.close()
    if status:
        raise typer.Exit(status)


def _missing(path: str) -> bool:
    """For certain: one that may not be looked at is another matter."""
    try:
        Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def run(
    session: Session,
    flash: str,
    data: str,
    areas: list[str],
    seconds: float,
    fix: bool,
    yes: bool,
    undo: bool,
    notes: Undo,
    verbose: bool,
    as_json: bool,
) -> int:
    quiet = as_json or not progress.is_terminal
    facts = session.facts(flash, data, seconds, quiet)
    fixer = Fixer(session.machine, notes, session.connection, facts.server)
    if undo:
        return _undo(fixer, as_json)
    results = look(facts, areas)
    made: list[str] = []
    refused: list[str] = []
    out = console()
    if not as_json:
        report.show(results, verbose, out)
    if fix:
        made, refused = _fix(fixer, results, yes, as_json, out)
        if made:
            facts = session.facts(flash, data, 0, True)
            kept = {result.check.id: result for result in results if result.check.area == "waits"}
            results = [kept.get(result.check.id, result) for result in look(facts, areas)]
    status = _exit_code(results)
    if as_json:
        print(json_text(_json(facts, results, made, refused, status)))
    return status


def _undo(fixer: Fixer, as_json: bool) -> int:
    """Says each change when it is put back: an error may come after it."""
    done: list[str] = []
    try:
        for words in fixer.put_back():
            done.append(words)
            if not as_json:
                print(visible(words, lines=True))
    except PgflashError as error:
        if not done:
            raise
        words = f"before: {'; '.join(done)}"
        raise BrokeOff(error.message, f"{error.hint}; {words}" if error.hint else words) from error
    status = EXIT_BROKE_OFF if fixer.failed else EXIT_OK
    if as_json:
        print(json_text({"undone": done, "exit": status}))
    elif not done:
        print("nothing to put back")
    return status


def _fix(fixer: Fixer, results: list[Result], yes: bool, as_json: bool, out: Console) -> tuple[list[str], list[str]]:
    able: list[tuple[Result, Any]] = []
    refused: list[str] = []
    for result, found, change in changes(results):
        if why := refusal(change, fixer.machine, fixer.server):
            refused.append(f"{found.subject}: {why}: {change.command}")
        else:
            able.append((result, change))

    def tell(text: str) -> None:
        if not as_json:
            out.print(Text(visible(text, lines=True)), soft_wrap=True)

    for line in refused:
        tell(f"cannot be changed: {line}")
    if not able:
        tell("nothing to fix")
        return [], refused
    tell("will be changed (pgflash doctor --undo puts it back, from " + f"{fixer.undo.path}):")
    for _, change in able:
        tell(f"  {change.command}")
    if not yes and not typer.confirm(f"Make {'this change' if len(able) == 1 else f'these {len(able)} changes'}?"):
        tell("nothing was changed")
        return [], refused
    made: list[str] = []
    for result, change in able:
        try:
            fixer.make(result, change)
        except PgflashError as error:
            if not made:
                raise
            words = f"made before, and noted in {fixer.undo.path}: {'; '.join(made)}"
            raise BrokeOff(error.message, f"{error.hint}; {words}" if error.hint else words) from error
        made.append(change.command)
        tell(f"done: {change.command}")
    return made, refused
