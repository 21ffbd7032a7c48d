"""pg_profile: its samples, taken with snapshots; its report, with sections of ours in it.

pg_profile has no way for others to add sections to a report: they are rows of a table of its own, which its upgrades replace, with
functions in its own schema. So nothing in the database is changed. Its report is a page that holds all it shows as one JSON object,
whose form its documentation describes, and draws itself from that. A script behind that object adds ours to it, before it is drawn.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from typing import Any

from psycopg import sql

from pgflash import safe
from pgflash.errors import ArgumentError, BrokeOff, MachineError
from pgflash.pilot import db
from pgflash.pilot.db import Connection
from pgflash.pilot.report.model import Figure, Grid
from pgflash.shown import visible
from pgflash.snapshots.moments import Moment
from pgflash.snapshots.report import Report
from pgflash.units import show_number, show_seconds

SECTION = "pg_profile"  # of a snapshot: the number of the sample that was taken with it
NEAR_S = 60.0  # a sample taken otherwise belongs to a snapshot if it is not further away
OLDEST = (4, 4)  # the first whose sections have a text with a class
LOCAL = "local"  # what pg_profile calls the server that it is in
# What its report has as well.
THEIRS = {"load", "settings", "tablespaces", "segments-by-reads", "segments-by-changes", "statements", "io"}
_UNSAFE = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})


def schema_of(connection: Connection) -> str:
    """Schema of pg_profile, quoted."""
    return _found(connection).schema


def _found(connection: Connection) -> safe.Extension:
    found = db.asked(safe.extension, connection, "pg_profile")
    if found is None:
        raise MachineError("the extension pg_profile is not in this database", "leave --pg-profile out, or name the database that has it")
    safe.require(found)
    return found


def _ask(connection: Connection, schema: str, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """{} is the schema."""
    return db.rows(connection, sql.SQL(statement).format(sql.SQL(schema)).as_string(None), *parameters)


# --- samples --------------------------------------------------------------------------------------------------


def sample(connection: Connection) -> tuple[int, list[str], list[str]]:
    """Takes one of all its servers. Number of that of this server, what went wrong with others, sections that it has reset.

    It raises nothing where a sample fails: the result says so.
    """
    schema = schema_of(connection)
    before = _totals(connection)
    results = {str(name): str(result) for name, result in _ask(connection, schema, "SELECT server, result FROM {}.take_sample()")}
    if LOCAL not in results:
        raise MachineError(f"pg_profile takes no samples of this server, {LOCAL}", f"SELECT {schema}.enable_server('{LOCAL}')")
    failed = {name: result.strip().partition("\n")[0] for name, result in results.items() if result != "OK"}
    if LOCAL in failed:
        raise BrokeOff(
            f"no snapshot was taken: pg_profile's sample failed: {failed[LOCAL]}", f"SELECT * FROM {schema}.take_sample() shows more"
        )
    number = _ask(connection, schema, "SELECT max(sample) FROM {}.show_samples(days => 1)")[0][0]
    after = _totals(connection)
    emptied = [name for name, total in before.items() if name in after and _was_reset(total, after[name])]
    return int(number), [f"pg_profile, server {name}: {words}" for name, words in sorted(failed.items())], emptied


def _totals(connection: Connection) -> dict[str, Any]:
    """By section that pg_profile may reset: since when it counts, or how much it has counted."""
    found = {}
    for name, extension, statement in (
        ("statements", "pg_stat_statements", "SELECT stats_reset FROM {}.pg_stat_statements_info"),
        ("wait_sampling", "pg_wait_sampling", "SELECT coalesce(sum(count), 0) FROM {}.pg_wait_sampling_profile"),
        (
            "kcache",
            "pg_stat_kcache",
            "SELECT coalesce(sum(e.value::numeric), 0) FROM {}.pg_stat_kcache v, jsonb_each(to_jsonb(v)) e WHERE jsonb_typeof(e.value) = 'number'",
        ),
    ):
        there = db.asked(safe.extension, connection, extension)
        if there is None or there.danger or there.lacking or (name == "statements" and _before_info(there.version)):
            continue
        found[name] = _ask(connection, there.schema, statement)[0][0]
    return found


def _before_info(version: str) -> bool:
    """Of pg_stat_statements: its objects lack the view that says since when."""
    return _version(version) < (1, 9)


def _version(text: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _was_reset(before: Any, after: Any) -> bool:
    """Statements are evicted, too, but not half of all at once."""
    return after != before if hasattr(before, "tzinfo") else float(after) < 0.5 * float(before)


def numbers(connection: Connection, flashcache: str, first: Moment, last: Moment) -> tuple[tuple[int, int], list[str]]:
    """The samples that belong to two snapshots; and what is to be said of that."""
    schema = schema_of(connection)
    there = _ask(connection, schema, "SELECT sample, sample_time FROM {}.show_samples()")
    found, notes = [], []
    for moment in (first, last):
        linked = db.value(
            connection,
            f"SELECT data -> 0 -> 'labels' ->> 'sample' FROM {flashcache}.pg_flashcache_snapshot_data WHERE snapshot = %s AND section = %s",
            moment.id, SECTION,
        )  # fmt: skip
        if linked is not None and int(linked) not in [number for number, _ in there]:
            raise ArgumentError(
                f"sample {linked} of pg_profile, which was taken with snapshot {moment.id}, is not there any more",
                "pg_profile drops its samples by its own setting, max_sample_age; without --pg-profile the report needs none",
            )
        if linked is not None:
            found.append(int(linked))
            continue
        near = sorted((abs((at - moment.taken_at).total_seconds()), int(number)) for number, at in there)
        if not near or near[0][0] > NEAR_S:
            raise ArgumentError(
                f"pg_profile has no sample that was taken with snapshot {moment.id}",
                "pgflash snapshot --pg-profile takes both; without --pg-profile the report needs none",
            )
        away, number = near[0]
        found.append(number)
        notes.append(f"Sample {number} of pg_profile was taken {show_seconds(away)} away from snapshot {moment.id}.")
    if found[0] >= found[1]:
        raise ArgumentError(f"snapshots {first.id} and {last.id} belong to the same sample of pg_profile, {found[0]}", "a report takes two")
    return (found[0], found[1]), notes


# --- reports --------------------------------------------------------------------------------------------------


def page(connection: Connection, report: Report, *intervals: tuple[int, int]) -> str:
    """pg_profile's report on one interval of samples, or on two, with ours in it."""
    found = _found(connection)
    if _version(found.version) < OLDEST:
        raise MachineError(
            f"pg_profile {found.version} makes reports of another form",
            f"sections of ours go into those of version {OLDEST[0]}.{OLDEST[1]} and later; leave --pg-profile out",
        )
    bounds = [bound for interval in intervals for bound in interval]
    if len(intervals) == 1:
        call = "SELECT {}.get_report(start_id => %s::integer, end_id => %s::integer)"
    else:
        call = (
            "SELECT {}.get_diffreport(start1_id => %s::integer, end1_id => %s::integer, start2_id => %s::integer, end2_id => %s::integer)"
        )
    return with_ours(str(_ask(connection, found.schema, call, *bounds)[0][0]), report)


def with_ours(text: str, report: Report) -> str:
    """pg_profile's page, changed in nothing but that a script is in it."""
    start = re.search(r"<script>const data=(?=\{)", text)
    if start is None:
        raise BrokeOff("pg_profile's report has another form than is known", "leave --pg-profile out")
    try:
        data, end = json.JSONDecoder(strict=False).raw_decode(text, start.end())
        sections = [str(one.get("sect_id")) for one in data["sections"]]
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise BrokeOff("pg_profile's report has another form than is known", "leave --pg-profile out") from error
    closed = text.startswith("</script>", end)
    if not closed:
        raise BrokeOff("pg_profile's report has another form than is known", "leave --pg-profile out")
    place = sections.index("srvstat") if "srvstat" in sections else len(sections)
    end += len("</script>")
    ours = json.dumps(section(report), ensure_ascii=False).translate(_UNSAFE)
    return f"{text[:end]}<script>data.sections.splice({place}, 0, {ours});</script>{text[end:]}"


def _markup(text: str) -> str:
    """Titles and texts are markup there; what is in cells is not."""
    return html.escape(visible(text, lines=True))


def _notice(lines: Iterable[str]) -> dict[str, str]:
    return {"class": "notice", "text": f"<div>{'<br>'.join(lines)}</div>"}


def section(report: Report) -> dict[str, Any]:
    """As pg_profile's documentation of the JSON describes one."""
    said = [
        f"<b>{_markup(report.verdict.headline)}</b>",
        *map(_markup, report.verdict.sentences),
        *(f"<i>{_markup(line)}</i>" for line in report.warnings),
    ]
    said += [_markup(line) for line in (f"{report.title}: {report.subtitle}", *report.notes)]
    return {
        "sect_id": "pg_flashcache", "toc_cap": "Flash cache", "tbl_cap": "Flash cache, by pg_flashcache",
        "content": _notice(said),
        "sections": [_figure(figure) for figure in report.figures if figure.id not in THEIRS],
    }  # fmt: skip


def _figure(figure: Figure) -> dict[str, Any]:
    grid = figure.grid or _points(figure)
    made: dict[str, Any] = {"sect_id": f"pg_flashcache_{figure.id}", "toc_cap": _markup(figure.title), "tbl_cap": _markup(figure.title)}
    words = [
        figure.question,
        *([figure.missing] if figure.missing else []),
        *figure.findings,
        *([figure.conditions] if figure.conditions else []),
    ]
    made["content"] = _notice(map(_markup, words))
    if grid is None:
        return made
    columns = [
        {"id": f"c{place}", "class": "table_obj_value" if place else "table_obj_name", "caption": _markup(name) or "&nbsp;"}
        for place, name in enumerate(grid.header)
    ]
    made["header"] = [{"type": "row_table", "columns": columns}]
    made["data"] = [[{f"c{place}": visible(text) for place, text in enumerate(row)} for row in grid.rows]]
    return made


def _points(figure: Figure) -> Grid | None:
    """What is drawn in our report: there, a table."""
    if not figure.series:
        return None
    places = list(dict.fromkeys(x for series in figure.series for x in series.x))
    values = [dict(zip(series.x, series.y, strict=True)) for series in figure.series]
    rows = [[str(place), *("-" if (y := one.get(place)) is None else show_number(y) for one in values)] for place in places]
    return Grid([figure.x_title, *(series.name for series in figure.series)], rows)
