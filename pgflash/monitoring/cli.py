"""pgflash monitoring: files for monitoring tools, and the metrics of a server."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pgflash.errors import ArgumentError
from pgflash.monitoring.metrics import GROUPS, NEWEST, VERSIONS, older
from pgflash.shown import json_text
from pgflash.usage import Commands

app = Commands(no_args_is_help=True, help="Files for monitoring tools, and the metrics of a server.")


class Tool(StrEnum):
    """What files can be made for."""

    SQL_EXPORTER_FREE = "sql_exporter-free"
    SQL_EXPORTER_BURNINGALCHEMIST = "sql_exporter-burningalchemist"
    POSTGRES_EXPORTER = "postgres_exporter"
    PGWATCH = "pgwatch"
    POWA = "powa"
    GRAFANA = "grafana"
    ALERTS = "alerts"
    NODE_TEXTFILE = "node-textfile"


def files_for(tool: Tool, version: str, schema: str, dsn: str) -> dict[str, str]:
    """Name and content of each file."""
    from pgflash.monitoring import alerts, dashboard, exporters, pgwatch, powa, textfile

    makers: dict[Tool, Callable[[str, str, str], dict[str, str]]] = {
        Tool.SQL_EXPORTER_FREE: exporters.sql_exporter_free,
        Tool.SQL_EXPORTER_BURNINGALCHEMIST: exporters.sql_exporter_burningalchemist,
        Tool.POSTGRES_EXPORTER: exporters.postgres_exporter,
        Tool.PGWATCH: pgwatch.pgwatch,
        Tool.POWA: powa.powa,
        Tool.GRAFANA: dashboard.grafana,
        Tool.ALERTS: alerts.alerts,
        Tool.NODE_TEXTFILE: textfile.node_textfile,
    }
    return makers[tool](version, schema, dsn)


@app.command("write")
def write_command(
    folder: Annotated[Path, typer.Argument(help="Folder for the files; it is made if it is not there.")],
    for_: Annotated[list[Tool], typer.Option("--for", help="What they are for; may be given several times.")],
    extension: Annotated[str, typer.Option(help=f"Version of the extension's objects: {' or '.join(VERSIONS)}.")] = NEWEST,
    schema: Annotated[str, typer.Option(help="Schema of the extension.")] = "public",
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="JSON on standard output, errors included.")] = False,
) -> None:
    """Writes files for a monitoring tool."""
    if extension not in VERSIONS:
        raise ArgumentError(f"no version {extension!r} of the extension", f"allowed: {', '.join(VERSIONS)}")
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", schema):
        raise ArgumentError(f"{schema!r} will not do as a schema", "allowed: a name of small letters, digits and underscores")
    from pgflash.monitoring.exporters import PLAIN_DSN

    found: dict[str, str] = {}
    for tool in for_:
        found |= files_for(tool, extension, schema, PLAIN_DSN)
    there = [name for name in found if (folder / name).exists()]
    if there and not force:
        raise ArgumentError(f"already in {folder}: {', '.join(there)}", "nothing was written; --force replaces them")
    from pgflash.monitoring.textfile import replace_file

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgumentError(f"{folder} cannot be made: {error.strerror}", "name a folder that this user may write to") from None
    for name, text in found.items():
        replace_file(folder / name, text)
    written = [str(folder / name) for name in found]
    print(json_text({"files": written}) if json_ else "\n".join(written))


@app.command("sample")
def sample_command(
    conninfo: Annotated[str, typer.Argument(help="Connection string; default: that of libpq's environment.")] = "",
    out: Annotated[Path | None, typer.Option(help="File to replace, instead of standard output.")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, max=600, help="Seconds that a server may take to answer.")] = 10,
    json_: Annotated[bool, typer.Option("--json", help="JSON on standard output, errors included.")] = False,
) -> None:
    """The metrics of a server in Prometheus' text format, for node_exporter's textfile collector."""
    from pgflash.monitoring.textfile import replace_file, sample, sampled

    if out:
        replace_file(out, sample(conninfo, timeout))
        if json_:
            print(json_text({"file": str(out)}))
    elif json_:
        print(json_text({"metrics": [value for one in sampled(conninfo, timeout) for value in one.values()]}))
    else:
        print(sample(conninfo, timeout), end="")


@app.command("list")
def list_command(
    extension: Annotated[str, typer.Option(help=f"Version of the extension's objects: {' or '.join(VERSIONS)}.")] = NEWEST,
    json_: Annotated[bool, typer.Option("--json", help="JSON on standard output, errors included.")] = False,
) -> None:
    """The metrics: name, type, unit, labels, and what they are."""
    if extension not in VERSIONS:
        raise ArgumentError(f"no version {extension!r} of the extension", f"allowed: {', '.join(VERSIONS)}")
    rows = [
        {
            "name": group.full(metric), "type": metric.kind, "unit": metric.unit, "labels": [name for name, _ in group.labels],
            "help": metric.help, "since": metric.since if older(group.since, metric.since) else group.since,
        }
        for group in GROUPS
        for metric in group.of(extension)
    ]  # fmt: skip
    if json_:
        print(json_text(rows, indent=2))
        return
    for row in rows:
        labels = f"{{{','.join(row['labels'])}}}" if row["labels"] else ""
        print(f"{row['name']}{labels}  {row['type']}  {row['unit'] or '-'}  {row['help']}")
