"""pgflash snapshot, report and diff: arguments and output."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from pgflash.errors import ArgumentError, Interrupted
from pgflash.pilot import db
from pgflash.shown import cell, console, json_text, visible
from pgflash.snapshots import moments, profile, server
from pgflash.snapshots.moments import DURATION_FORMS, INTERVAL_FORMS
from pgflash.snapshots.schedule import Schedule, Wanted, once
from pgflash.units import parse_size

DsnOption = Annotated[
    str, typer.Option(help="Connection string of libpq. What is not in it comes from the environment, as of psql: PGHOST, PGDATABASE ...")
]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON on standard output, errors included.")]
HtmlOption = Annotated[Path | None, typer.Option(help="Writes the report to this file, with charts, in one piece.")]
ProfileOption = Annotated[
    bool,
    typer.Option(
        "--pg-profile", help="With --html: writes the report of pg_profile on the same time, with the sections of this one in it."
    ),
]
MarkdownOption = Annotated[
    Path | None, typer.Option(help="Writes it to this file. Without any of the three, Markdown goes to standard output.")
]


def register(app: typer.Typer) -> None:
    app.command("snapshot")(snapshot_command)
    app.command("report")(report_command)
    app.command("diff")(diff_command)


def snapshot_command(
    every: Annotated[
        str | None,
        typer.Option(help=f"Goes on, with a snapshot every so often ({DURATION_FORMS}), and samples waits in between, once a second."),
    ] = None,
    times: Annotated[int | None, typer.Option(min=1, help="With --every: ends after so many snapshots.")] = None,
    keep: Annotated[str | None, typer.Option(help="Drops snapshots that are older. Default: that of the server's table, 14d.")] = None,
    max_size: Annotated[
        str | None, typer.Option(help="Drops the oldest beyond this size of all of them. Default: that of the server's table, 1GB.")
    ] = None,
    note: Annotated[str | None, typer.Option(help="A note, which reports show.")] = None,
    pg_profile: Annotated[bool, typer.Option("--pg-profile", help="Also takes a sample of pg_profile, in the same transaction.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Says nothing of snapshots that were taken.")] = False,
    dsn: DsnOption = "",
    json_: JsonOption = False,
) -> None:
    """Takes a snapshot of the server's statistics, to report on later."""
    wanted = Wanted(note, _keep(keep), _size(max_size), pg_profile)
    every_s = _duration("--every", every)
    if every_s is not None and not 10 <= every_s <= 366 * 86400:
        raise ArgumentError(f"--every: {every!r} will not do; allowed: 10s or more, to 366d")
    if times is not None and every_s is None:
        raise ArgumentError("--times goes with --every", "without it, one snapshot is taken")

    def tell(taken: server.Taken) -> None:
        values = {"event": "snapshot", "id": taken.id, "dropped": taken.dropped, "missing": taken.missing}
        if json_:
            print(json_text(values), flush=True)
        elif not quiet:
            print(f"snapshot {taken.id}" + (f"; {taken.dropped} dropped" if taken.dropped else ""), flush=True)
        if not json_ and profile.SECTION in taken.missing:
            lost(taken.missing[profile.SECTION])

    def lost(words: str) -> None:
        if json_:
            print(json_text({"event": "message", "text": words}), flush=True)
        else:
            Console(stderr=True, highlight=False).print(visible(words), markup=False, soft_wrap=True)

    with contextlib.closing(server.connect(dsn)) as connection:  # whatever is wrong is said now
        schema = server.schema_of(connection, take=True)
        if pg_profile:
            profile.schema_of(connection)
        if every_s is None:
            tell(once(connection, schema, wanted))
            return
    try:
        Schedule(dsn, every_s, wanted, tell, lost).run(times)
    except KeyboardInterrupt as error:
        raise Interrupted("interrupted", "snapshots that were taken are kept") from error


def report_command(
    start: Annotated[
        str | None, typer.Argument(metavar="FROM", help="A snapshot's number, or a time as PostgreSQL takes it: 'yesterday 02:00'.")
    ] = None,
    end: Annotated[str | None, typer.Argument(metavar="TO", help="Another, later; now: the last one.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Lists the snapshots instead.")] = False,
    html: HtmlOption = None,
    markdown: MarkdownOption = None,
    pg_profile: ProfileOption = False,
    dsn: DsnOption = "",
    json_: JsonOption = False,
) -> None:
    """Reports on the time between two snapshots: load, waits, I/O, statements, what the cache did, and a verdict."""
    from pgflash.snapshots import interval, report

    if not list_ and (start is None or end is None):
        raise ArgumentError("a report takes FROM and TO", "pgflash report --list shows what snapshots there are")
    _profile_needs(pg_profile, html)
    with contextlib.closing(server.connect(dsn)) as connection:
        schema = server.schema_of(connection, take=False)
        if list_:
            _list(connection, schema, json_)
            return
        assert start is not None and end is not None
        with connection.transaction():
            loaded = interval.load(connection, schema, *moments.between(connection, schema, start, end))
        made, found = report.make(loaded)
        page, samples = _page(connection, schema, made, loaded) if pg_profile else (None, {})
    _write(made, {"verdict": _verdict(made), "warnings": made.warnings, **found.as_json(), **samples}, html, markdown, json_, page)


def diff_command(
    a: Annotated[str, typer.Argument(help=f"An interval: {INTERVAL_FORMS}.")],
    b: Annotated[str, typer.Argument(help="The one to compare with it, as a rule the later.")],
    html: HtmlOption = None,
    markdown: MarkdownOption = None,
    pg_profile: ProfileOption = False,
    dsn: DsnOption = "",
    json_: JsonOption = False,
) -> None:
    """Puts two intervals side by side, such as before and after a change: what has become of the load, of waits and of reads."""
    from pgflash.snapshots import diff, interval

    _profile_needs(pg_profile, html)
    asked = moments.split(a), moments.split(b)
    with contextlib.closing(server.connect(dsn)) as connection:
        schema = server.schema_of(connection, take=False)
        with connection.transaction():
            x, y = (interval.load(connection, schema, *moments.between(connection, schema, *one)) for one in asked)
        made, values = diff.make(x, y)
        page, samples = _page(connection, schema, made, x, y) if pg_profile else (None, {})
    _write(made, {"verdict": _verdict(made), "warnings": made.warnings, **values, **samples}, html, markdown, json_, page)


def _profile_needs(pg_profile: bool, html: Path | None) -> None:
    if pg_profile and html is None:
        raise ArgumentError("--pg-profile goes with --html", "pg_profile's report is HTML: --html FILE says where to write it")


def _page(connection: db.Connection, schema: str, made: Any, *intervals: Any) -> tuple[str, dict[str, Any]]:
    """pg_profile's report with ours in it, and which samples it is on."""
    samples = []
    for interval in intervals:
        found, notes = profile.numbers(connection, schema, interval.first, interval.last)
        samples.append(found)
        made.notes += notes
    return profile.page(connection, made, *samples), {"pg_profile": [list(one) for one in samples]}


def _verdict(made: Any) -> dict[str, Any]:
    return {"headline": made.verdict.headline, "sentences": made.verdict.sentences}


def _write(made: Any, values: dict[str, Any], html: Path | None, markdown: Path | None, json_: bool, page: str | None) -> None:
    """`page`: what is the HTML instead."""
    from pgflash.snapshots import render

    written = {}
    if html:
        render.put(html, page or render.html(made))
        written["html"] = str(html)
    if markdown:
        render.put(markdown, render.markdown(made))
        written["markdown"] = str(markdown)
    if json_:
        print(json_text({**values, **({"written": written} if written else {})}, default=str))
    elif written:
        print(visible("\n".join([made.verdict.headline, *(f"{name}: {path}" for name, path in written.items())]), lines=True))
    else:
        print(render.markdown(made), end="")


def _list(connection: db.Connection, schema: str, json_: bool) -> None:
    from pgflash.snapshots import report

    rows = db.rows(
        connection,
        "SELECT s.id, s.taken_at, s.note, s.resets, (SELECT sum(pg_column_size(d.data)) FROM"
        f" {schema}.pg_flashcache_snapshot_data d WHERE d.snapshot = s.id) FROM {schema}.pg_flashcache_snapshots s ORDER BY s.id",
    )
    standby = bool(db.value(connection, "SELECT pg_catalog.pg_is_in_recovery()"))
    if json_:
        keys = ("id", "taken_at", "note", "resets", "bytes")
        listed = [dict(zip(keys, [row[0], row[1].isoformat(), *row[2:4], int(row[4] or 0)], strict=True)) for row in rows]
        print(json_text({"snapshots": listed, "standby": standby}))
        return
    table = Table("snapshot", "taken at", "kB", "note")
    for number, taken_at, note, _, size in rows:
        table.add_row(str(number), f"{taken_at:%Y-%m-%d %H:%M:%S %Z}", f"{(size or 0) / 1024:.0f}", cell(note or ""))
    console().print(table)
    if standby:
        console().print(report.elsewhere([]))


def _duration(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    found = moments.parse_duration(text)
    if found is None:
        raise ArgumentError(f"{option}: {text!r} will not do; allowed: {DURATION_FORMS}")
    return found


def _keep(text: str | None) -> float | None:
    """As the server's function takes it."""
    found = _duration("--keep", text)
    if found is not None and not 3600 <= found <= 36000 * 86400:
        raise ArgumentError(f"--keep: {text!r} will not do; allowed: 1h or more, to 36000d", "14d keeps two weeks")
    return found


def _size(text: str | None) -> int | None:
    if text is None:
        return None
    found = parse_size(text)
    if found is None or found.share or not 0 < found.bytes < 1 << 63:
        raise ArgumentError(f"--max-size: {text!r} will not do; allowed: a size as 500MB or 1GB")
    return found.bytes
