"""One report of all nodes: what they read within an interval, in sum and each, by relation, and what other sizes would do.

Relations of the same name are one line: partitions and shards of a database that is spread over servers are in it with their sum.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from rich.console import Console

from pgflash import safe
from pgflash.cluster.find import Found, Node
from pgflash.cluster.gather import Look, ask_all, look_at
from pgflash.cluster.show import lags, percent, problems, remarks, role, unasked
from pgflash.connection import Connection, members
from pgflash.shown import in_markdown
from pgflash.top.rates import ELSE, Rates, rates
from pgflash.top.sample import Sample
from pgflash.top.sample import look as sample
from pgflash.units import counted, show_bytes, show_number, show_seconds

ADVICE = "pg_flashcache_advice"
NONE = "-"


@dataclass(frozen=True)
class Part:
    """Of one node: what it was seen to do; None: it was down at one of the looks."""

    look: Look
    rates: Rates | None
    problem: str | None
    advice: list[dict[str, Any]]


@dataclass(frozen=True)
class Summed:
    """A relation of all nodes that have one of its name."""

    name: str
    nodes: int
    hits: int
    disk_reads: int
    disk_read_time_s: float


@dataclass(frozen=True)
class Report:
    parts: list[Part]
    remarks: list[str]
    interval_s: float
    share: float
    relations: list[Summed]

    @property
    def down(self) -> bool:
        return any(part.rates is None for part in self.parts)

    def totals(self) -> dict[str, float | None]:
        """In sum of the servers of which it is known."""
        known = [part.rates for part in _once(self.parts) if part.rates]

        def total(values: list[float | None]) -> float | None:
            there = [value for value in values if value is not None]
            return sum(there) if there else None

        flash, disk = total([item.flash.reads_per_s for item in known]), total([item.disk.reads_per_s for item in known])
        hits = [(item.hit_ratio, (item.flash.reads_per_s or 0)) for item in known if item.hit_ratio]
        looked = sum(reads / ratio for ratio, reads in hits if ratio)
        return {
            "nodes": len(self.parts), "tps": total([item.tps for item in known]), "flash_reads_per_s": flash, "disk_reads_per_s": disk,
            "hit_ratio": sum(reads for _, reads in hits) / looked if looked else None,
            "capacity_bytes": total([item.capacity_bytes for item in known]),
            "write_bytes_per_s": total([item.write_bytes_per_s for item in known]),
        }  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        return {
            "interval_s": self.interval_s, "totals": self.totals(),
            "nodes": [
                {"name": part.look.node.name, "problem": part.problem, "rates": part.rates.as_json() if part.rates else None,
                 "server": part.look.seen.as_json() if part.look.seen else None, "advice": part.advice}
                for part in self.parts
            ],
            "relations": [vars(item) for item in self.relations],
            "problems": [{"node": name, "problem": what} for name, what in self._problems()], "remarks": self.remarks,
        }  # fmt: skip

    def _problems(self) -> list[tuple[str, str]]:
        found = problems([part.look for part in self.parts])
        said = {name for name, _ in found}
        return found + [(part.look.node.name, part.problem) for part in self.parts if part.problem and part.look.node.name not in said]

    def markdown(self) -> str:
        totals = self.totals()
        lines = [
            "# Flash caches of a cluster", "",
            f"{counted(len(self.parts), 'node')}, {show_seconds(self.interval_s)} of load, {time.strftime('%Y-%m-%d %H:%M:%S %Z')}.", "",
            *_table(("", "in sum"), [
                ("transactions a second", _number(totals["tps"])), ("reads from flash a second", _number(totals["flash_reads_per_s"])),
                ("reads from disk a second", _number(totals["disk_reads_per_s"])), ("hit ratio, %", percent(totals["hit_ratio"])),
                ("size of the caches", _bytes(totals["capacity_bytes"])), ("written to flash a second", _bytes(totals["write_bytes_per_s"])),
            ]), "", "## Nodes", "",
        ]  # fmt: skip
        behind = lags([part.look for part in self.parts])
        rows = []
        for part in self.parts:
            found, seen = part.rates, part.look.seen
            rows.append((
                part.look.node.name, role(part.look), _bytes(behind.get(part.look.node.name)) if seen and seen.standby else "",
                (seen.state or NONE) if seen else "down", *(
                    (_number(found.tps), _number(found.flash.reads_per_s), _ms(found.flash.mean_latency_s), _number(found.disk.reads_per_s),
                     _ms(found.disk.mean_latency_s), percent(found.hit_ratio), percent(found.fill)) if found else [NONE] * 7),
                "" if seen is None or not seen.standby else percent(seen.share),
            ))  # fmt: skip
        heads = ("node", "role", "lag", "cache", "TPS", "flash/s", "ms", "disk/s", "ms", "hit %", "fill %", "warm %")
        lines += [*_table(heads, rows), "", f"## Relations by time of disk reads, of {counted(len(self.parts), 'node')}", ""]
        if self.relations:
            shown = [
                (item.name, str(item.nodes), _number(item.hits / self.interval_s), _number(item.disk_reads / self.interval_s),
                 _number(1000 * item.disk_read_time_s / self.interval_s))
                for item in self.relations
            ]  # fmt: skip
            lines += _table(("relation", "nodes", "flash/s", "disk/s", "disk ms/s"), shown)
        else:
            lines.append("Nothing was read, or it is not counted by relation.")
        lines += ["", "## Other sizes", ""]
        advised = [
            (part.look.node.name, _bytes(row["size"]) + (" (now)" if row["is_current"] else ""), percent(row["hit_ratio"]),
             _number(row["disk_reads_per_s"]))
            for part in _once(self.parts) for row in part.advice if row["kind"] == "flash"
        ]  # fmt: skip
        if advised:
            lines += _table(("node", "size of the cache", "hit %", "disk reads/s"), advised)
        else:
            lines.append("No node estimates other sizes: pg_flashcache.advice is off.")
        wrong = self._problems()
        if wrong or self.remarks:
            lines += ["", "## What is wrong", ""]
            lines += [f"- {in_markdown(name)}: {in_markdown(what)}" for name, what in wrong]
            lines += [f"- {in_markdown(text)}" for text in self.remarks]
        return "\n".join(lines) + "\n"


def _number(value: float | None) -> str:
    return NONE if value is None else show_number(value)


def _bytes(value: float | None) -> str:
    return NONE if value is None else show_bytes(value)


def _ms(value: float | None) -> str:
    return NONE if value is None else show_number(1000 * value)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Markdown. Names are those of users: no cell ends where one of them says."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(map(in_markdown, cells)) + " |"

    return [line(heads), "|" + "---|" * len(heads), *(line(row) for row in rows)]


def _both(connection: Connection) -> tuple[Sample, list[dict[str, Any]]]:
    found = sample(connection)
    extension = safe.extension(connection)
    advice: list[dict[str, Any]] = []
    if extension and not extension.danger and not extension.lacking and ADVICE in members(connection, (ADVICE,)):
        query = f"SELECT kind, factor, size, is_current, hit_ratio, disk_reads_per_s FROM {extension.schema}.{ADVICE} ORDER BY kind, size"
        try:
            advice = connection.execute(query.encode()).fetchall()
        except psycopg.Error:
            advice = []
    return found, advice


def make(who: Found, interval_s: float, timeout_s: float, share: float, rows: int, quiet: bool) -> Report:
    nodes: list[Node] = [item.node for item in look_at(who.nodes, timeout_s)]  # each server once
    before = ask_all(nodes, timeout_s, _both)
    if quiet:
        time.sleep(interval_s)
    else:
        with Console(stderr=True, highlight=False).status(f"watching {counted(len(nodes), 'node')} for {show_seconds(interval_s)}"):
            time.sleep(interval_s)
    after = ask_all(nodes, timeout_s, _both)
    looks = {item.node.name: item for item in look_at(nodes, timeout_s)}
    parts = []
    for node, (old, was_down), (new, is_down) in zip(nodes, before, after, strict=True):
        look = looks.get(node.name) or Look(node, None, is_down)
        moved = rates(old[0], new[0]) if old and new else None
        parts.append(Part(look, moved, is_down or was_down, new[1] if new else []))
    said = [
        f"{', '.join(part.look.node.name for part in one)} are databases of one server: it and its shared catalogs are in the sums once, and"
        " what each of them calls everything else is not, since the others' relations are in it"
        for one in _by_server(parts) if len(one) > 1
    ]  # fmt: skip
    return Report(
        parts, [*said, *remarks(who, list(looks.values())), *unasked(list(looks.values()))], interval_s, share, _summed(parts)[:rows]
    )


def _by_server(parts: Sequence[Part]) -> list[list[Part]]:
    """Nodes may be databases of one server: cache, transactions and reads are the server's. One that is down is nobody else's."""
    found: dict[Any, list[Part]] = {}
    for part in parts:
        seen = part.look.seen if part.rates else None
        found.setdefault((seen.system, seen.started, seen.port) if seen else part.look.node.name, []).append(part)
    return list(found.values())


def _once(parts: Sequence[Part]) -> list[Part]:
    """Each server once."""
    return [one[0] for one in _by_server(parts)]


def _summed(parts: Sequence[Part]) -> list[Summed]:
    found: dict[str, Summed] = {}
    servers = {part.look.node.name: (number, len(one) > 1) for number, one in enumerate(_by_server(parts)) for part in one}
    counted_there: set[tuple[int, str]] = set()
    for part in parts:
        server, several = servers[part.look.node.name]
        for row in (part.rates.relations if part.rates else None) or []:
            if row.relation == ELSE and not row.schema and several:
                continue
            name = f"{row.schema}.{row.relation}" if row.schema else row.relation
            if row.shared and (server, name) in counted_there:
                continue
            counted_there.add((server, name))
            was = found.get(name) or Summed(name, 0, 0, 0, 0.0)
            found[name] = Summed(
                name, was.nodes + 1, was.hits + row.hits, was.disk_reads + row.disk_reads, was.disk_read_time_s + row.disk_read_time_s
            )
    return sorted(found.values(), key=lambda item: (-item.disk_read_time_s, -item.disk_reads, -item.hits, item.name))
