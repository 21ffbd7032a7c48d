"""Metrics of a server, right now, in Prometheus' text format: for the textfile collector of node_exporter.

A timer of systemd calls it, where no exporter for SQL is wanted.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg

from pgflash.connection import Connection, connect, exists, extension, members, name_of, parsed, reason
from pgflash.errors import MachineError, OutputError, ServerError
from pgflash.monitoring.exporters import made
from pgflash.monitoring.metrics import GROUPS, NEWEST, Group, older

SERVICE = """# {made}
# Metrics for the textfile collector of node_exporter (Debian: prometheus-node-exporter --collector.textfile.directory).
# Connections and passwords: ~postgres/.pgpass, or pg_service.conf. Where pip has installed pgflash, it is elsewhere: change ExecStart.
# pgflash itself sets search_path to pg_catalog, pg_temp, whatever the database's owner has set.
[Unit]
Description=metrics of pg_flashcache for node_exporter
After=postgresql.service

[Service]
Type=oneshot
User=postgres
ExecStart=/usr/bin/pgflash monitoring sample --out /var/lib/prometheus/node-exporter/pg_flashcache.prom
TimeoutStartSec=50s
"""

TIMER = """# {made}
[Unit]
Description=metrics of pg_flashcache for node_exporter, every minute

[Timer]
OnCalendar=minutely
AccuracySec=1s

[Install]
WantedBy=timers.target
"""


def node_textfile(version: str, schema: str, dsn: str) -> dict[str, str]:
    text = made(version, schema)
    return {"pgflash-metrics.service": SERVICE.format(made=text), "pgflash-metrics.timer": TIMER.format(made=text)}


@dataclass(frozen=True)
class Sampled:
    """Of one group: what its query gave."""

    group: Group
    version: str
    rows: list[dict[str, Any]]

    def values(self) -> list[dict[str, Any]]:
        """For programs."""
        return [
            {
                "name": self.group.full(metric),
                "labels": {label: row[label] for label, _ in self.group.labels},
                "value": row[metric.name] if isinstance(row[metric.name], int) else float(row[metric.name]),
            }
            for metric in self.group.of(self.version)
            for row in self.rows
        ]


def sample(conninfo: str, timeout_s: float) -> str:
    """All metrics of one server, as far as its version of the extension has them, for Prometheus."""
    lines = [line for one in sampled(conninfo, timeout_s) for line in exposition(one.group, one.version, one.rows)]
    return "".join(line + "\n" for line in lines)


def metrics_of(connection: Connection) -> str:
    """The same, of a connection that is there, for whoever asks: without paths of files."""
    lines = [line for one in _sample(connection) for line in exposition(_without_paths(one.group), one.version, one.rows)]
    return "".join(line + "\n" for line in lines)


def _without_paths(group: Group) -> Group:
    """Its rows differ in their other labels as well."""
    return replace(group, labels=tuple(label for label in group.labels if label[0] != "path"))


def sampled(conninfo: str, timeout_s: float) -> list[Sampled]:
    parts = parsed(conninfo, 1)
    try:
        with connect(parts, timeout_s) as connection:
            return _sample(connection)
    except psycopg.Error as error:
        raise ServerError(f"{name_of(parts)}: {reason(error)}") from None


def _sample(connection: Connection) -> list[Sampled]:
    found = extension(connection)
    if found is None:
        raise MachineError("this database has no extension pg_flashcache", "CREATE EXTENSION pg_flashcache, or name another database")
    schema, version = found
    version = version if older(version, NEWEST) else NEWEST
    return [
        Sampled(group, version, connection.execute(group.query(version, schema)).fetchall())
        for group in GROUPS
        if group.of(version) and _there(connection, group)
    ]


def _there(connection: Connection, group: Group) -> bool:
    """An extension may say 1.1 and lack a view, while 1.1 is being made. One that may not be read is an error: half of the metrics
    would look like all of them."""
    if not group.reads or members(connection, (group.reads,)):
        return True
    if exists(connection, group.reads):
        raise MachineError(
            f"{connection.info.user} may not read {group.reads.partition('(')[0]}", f"GRANT pg_monitor TO {connection.info.user}"
        )
    return False


def exposition(group: Group, version: str, rows: list[dict[str, Any]]) -> list[str]:
    lines = []
    for metric in group.of(version):
        name = group.full(metric)
        histogram = name.removesuffix("_bucket")
        kind = metric.kind if histogram == name else "histogram"
        lines += [f"# HELP {histogram} {metric.help}", f"# TYPE {histogram} {kind}"]
        for row in rows:
            labels = ",".join(f'{label}="{_escaped(row[label])}"' for label, _ in group.labels)
            lines.append(f"{name}{{{labels}}} {_number(row[metric.name])}" if labels else f"{name} {_number(row[metric.name])}")
    return lines


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: Any) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))


def replace_file(path: Path, text: str) -> None:
    """The whole file or none: the collector may read at any moment."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w") as file:
                file.write(text)
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OutputError(path, error) from None
