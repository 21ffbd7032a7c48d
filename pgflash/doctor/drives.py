"""pgflash drives: asks the drives below the devices of the cache how they are, and has the server show it.

The server does not ask them itself: smartctl needs rights that it must not have. Whoever runs this has them, and needs of the
server no more than pg_monitor and the function by which drives are reported.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import psycopg
import typer
from psycopg import sql
from rich.table import Column, Table

from pgflash import safe
from pgflash.doctor.check import Severity
from pgflash.doctor.command import Session
from pgflash.doctor.drive import left, wrong
from pgflash.doctor.facts.blocks import Block
from pgflash.doctor.facts.machine import Machine, Mount
from pgflash.doctor.facts.places import look_at
from pgflash.doctor.facts.smart import Health, health_of
from pgflash.errors import EXIT_ADVICE, EXIT_OK, EXIT_PROBLEM, ArgumentError, BrokeOff, MachineError
from pgflash.shown import cell, console, json_text

ARGUMENTS = "text, text, text, boolean, integer, integer, integer, bigint, integer, bigint, bigint"
VIEW = "pg_stat_flashcache_device_health"
MOST = 1000


@dataclass(frozen=True)
class Found:
    """What is wrong with a drive."""

    drive: str
    severity: str
    what: str


@dataclass(frozen=True)
class Report:
    """What the server is told of a device; of several drives below it, of the one that is worst. `problem`: of those that could not be
    asked, which may be some of them. `findings`: of all that could be."""

    path: str
    drive: str = ""
    health: Health | None = None
    rated_bytes_a_day: int | None = None
    problem: str = ""
    findings: tuple[Found, ...] = ()


def ask(machine: Machine, path: str, mounts: list[Mount], writes_a_day: float | None) -> Report:
    place = look_at(machine, "flash", path, mounts)
    if place.block is None:
        kind = place.mount.kind if place.mount else "nothing that is known"
        return Report(path, problem=f"{path} is on {kind}, which has no drive")
    found: list[tuple[int, Block, Health]] = []
    problems = []
    leaves = list(place.block.leaves())
    for leaf in leaves:
        drive = Block(machine, leaf.disk)
        answer = health_of(machine, drive.name)
        if isinstance(answer, str):
            problems.append(answer if len(leaves) == 1 or drive.name in answer else f"{drive.name}: {answer}")
        else:
            found.append((left(answer), drive, answer))
    problem = "; ".join(dict.fromkeys(problems))
    if not found:
        return Report(path, problem=problem)
    _, drive, health = min(found, key=lambda item: item[0])
    rated = round(drive.disk_bytes * writes_a_day) if writes_a_day else 0
    findings = tuple(
        Found(block.name, str(Severity.ADVICE if one.advice else Severity.PROBLEM), one.what)
        for _, block, said in found
        for one in wrong(said)
    )
    return Report(path, drive.name, health, rated or None, problem, findings)


def values(report: Report) -> list[Any]:
    """The arguments of the server's function."""
    health = report.health
    assert health is not None
    return [
        report.path, report.drive, health.model or None, health.passed if not health.critical_warning else False, health.used_percent,
        health.spare_percent, health.spare_threshold, health.media_errors, health.temperature, health.written, report.rated_bytes_a_day,
    ]  # fmt: skip


class DrivesSession(Session):
    command = "pgflash drives"
    hint = "connection strings and PG* variables are libpq's; without one it is the server that these name"


class Cache:
    """The server's side."""

    def __init__(self, connection: safe.Connection) -> None:
        self.connection = connection
        try:
            found = safe.extension(connection)
            safe.require(found)
            there = found and safe.relation(connection, VIEW) and safe.function(connection, "pg_flashcache_report_drive", ARGUMENTS)
        except psycopg.Error as error:
            raise MachineError(f"the server could not be asked: {str(error).strip()}") from error
        if found is None:
            raise MachineError(
                "the extension pg_flashcache is not in this database", "name another database, or run CREATE EXTENSION pg_flashcache there"
            )
        if not there:
            raise MachineError(
                f"version {found.version} of the extension does not show drives", "ALTER EXTENSION pg_flashcache UPDATE, in this database"
            )
        self.schema = sql.SQL(found.schema)  # quoted by the server
        self.role = found.role

    def _run(self, statement: sql.Composed, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
        try:
            cursor = self.connection.execute(statement, parameters)
            return cursor.fetchall()
        except psycopg.errors.InsufficientPrivilege as error:
            raise MachineError(
                f"this role may not do that: {str(error).strip()}",
                f"GRANT pg_monitor TO {self.role}; GRANT EXECUTE ON FUNCTION pg_flashcache_report_drive({ARGUMENTS}) TO {self.role}",
            ) from error
        except psycopg.Error as error:
            raise BrokeOff(f"the report could not be stored on the server: {str(error).strip()}") from error

    def paths(self) -> list[str]:
        rows = self._run(sql.SQL("SELECT path FROM {}.{} ORDER BY device").format(self.schema, sql.SQL("pg_stat_flashcache_device_health")))
        return [str(row[0]) for row in rows]

    def tell(self, report: Report) -> None:
        given = sql.SQL(
            "%s::text, %s::text, %s::text, %s::boolean, %s::integer, %s::integer, %s::integer, %s::bigint, %s::integer, %s::bigint, %s::bigint"
        )
        self._run(sql.SQL("SELECT {}.pg_flashcache_report_drive({})").format(self.schema, given), values(report))

    def shown(self) -> list[dict[str, Any]]:
        rows = self._run(
            sql.SQL("SELECT pg_catalog.to_jsonb(h) FROM {}.pg_stat_flashcache_device_health h ORDER BY device").format(self.schema)
        )
        return [dict(row[0]) for row in rows]


def drives_command(
    conninfo: Annotated[
        str, typer.Argument(help="Connection string of the server. What is not in it comes from PGHOST, PGDATABASE ...")
    ] = "",
    drive_writes_a_day: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="How often the drive may be written in full in a day, by its data sheet (DWPD): drives do not say. For rated_bytes_a_day;"
            " not given: as it was.",
        ),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="JSON on standard output, errors included.")] = False,
) -> None:
    """Asks the drives below the cache how they are, by smartctl, for the view pg_stat_flashcache_device_health.

    Exit status 11 if one is in trouble, 10 if one is worn or hot, or some could not be asked."""
    if drive_writes_a_day is not None and not 0 < drive_writes_a_day <= MOST:
        raise ArgumentError(f"--drive-writes-a-day: {drive_writes_a_day:g} will not do", f"more than 0, and {MOST} at most; 1 is usual")
    with contextlib.closing(DrivesSession(conninfo or "application_name='pgflash drives'")) as session:
        status = run(session, drive_writes_a_day, json_)
    if status:
        raise typer.Exit(status)


def run(session: Session, writes_a_day: float | None, as_json: bool) -> int:
    assert session.connection
    cache = Cache(session.connection)
    paths = cache.paths()
    if not paths:
        raise MachineError("this server has no cache", "pg_stat_flashcache says why, in state and reason")
    facts = session.facts("", "", 0, True)
    if facts.server and not facts.server.local:
        where, _, place = facts.server.not_local.partition(": run the doctor ")
        raise MachineError(where, f"run pgflash drives {place.removesuffix(' as well')}, where smartctl can ask the drives")
    mounts = session.machine.mounts(facts.server.postmaster if facts.server else None)
    reports = [ask(session.machine, path, mounts, writes_a_day) for path in paths]
    for report in reports:
        if report.health:
            cache.tell(report)
    if not any(report.health for report in reports):
        unasked = dict.fromkeys(report.problem for report in reports)
        raise MachineError("no drive could be asked: " + "; ".join(unasked), "smartctl needs root, and a drive of its own")
    status = exit_status(reports)
    _show(cache.shown(), reports, status, as_json)
    return status


def exit_status(reports: list[Report]) -> int:
    """As the doctor's: a drive is in trouble; or something is to be known of one, or one could not be asked."""
    severities = {found.severity for report in reports for found in report.findings}
    if Severity.PROBLEM in severities:
        return EXIT_PROBLEM
    return EXIT_ADVICE if severities or any(report.problem for report in reports) else EXIT_OK


def words_of(report: Report) -> list[str]:
    """What there is to know of the drives below a device, worst first."""
    ordered = sorted(report.findings, key=lambda found: found.severity != Severity.PROBLEM)
    return [f"{found.severity}: {found.drive} {found.what}" for found in ordered] + ([report.problem] if report.problem else [])


def _show(rows: list[dict[str, Any]], reports: list[Report], status: int, as_json: bool) -> None:
    problems = {report.path: words for report in reports if (words := words_of(report))}
    if as_json:
        told = [asdict(report) for report in reports]
        joined = {path: "; ".join(words) for path, words in problems.items()}
        print(json_text({"devices": rows, "reports": told, "problems": joined, "exit": status}))
        return
    names = (
        "path",
        "drive",
        "model",
        "health",
        "used_percent",
        "spare_percent",
        "spare_threshold",
        "media_errors",
        "temperature",
        "written_today",
        "days_left",
    )
    table = Table(*(Column(name.replace("_", " "), overflow="fold") for name in names))
    for row in rows:
        table.add_row(*(cell("" if row[name] is None else str(row[name])) for name in names))
    out = console()
    out.print(table)
    for path, words in problems.items():
        for one in words:
            out.print(cell(f"{path}: {one}"), soft_wrap=True)
