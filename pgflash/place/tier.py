"""Tiers by age: which tablespace each partition of a table belongs to, by its bounds.

A rule file names partitioned tables and, for each, tiers from the newest to the oldest. What a partition is called or who made it
(native, pg_partman) does not matter. The default partition, and partitions without an upper bound, are left where they are.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pgflash.errors import ArgumentError
from pgflash.pilot import db
from pgflash.place import devices, mover, objects
from pgflash.place.mover import Mover, Options, Tell
from pgflash.place.objects import Object
from pgflash.place.room import local_paths, path_of
from pgflash.place.run import PLANNING, Outcome, Wanted, carry_out, open_rows, require, settled

ORIGIN = "tier"


class Tier(BaseModel):
    """`newest`: so many partitions that have begun, and all that have not; `younger`: whose end is less than that ago."""

    model_config = ConfigDict(extra="forbid", strict=True)
    tablespace: str = Field(min_length=1)
    newest: int | None = Field(default=None, ge=0)
    younger: str | None = None
    cached: bool | None = None
    """Whether the cache may hold its partitions, too; None: unless it can be seen that the tablespace is on flash itself."""


class TieredTable(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    name: str = Field(min_length=1)
    indexes: bool = True
    tier: list[Tier] = Field(min_length=1)

    @model_validator(mode="after")
    def _in_order(self) -> TieredTable:
        for tier in self.tier[:-1]:
            if (tier.newest is None) == (tier.younger is None):
                raise ValueError(f"tier {tier.tablespace}: either newest or younger; only the last tier may be without, for the rest")
        last = self.tier[-1]
        if last.newest is not None and last.younger is not None:
            raise ValueError(f"tier {last.tablespace}: newest or younger, not both")
        return self


class Rules(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    dsn: str
    table: list[TieredTable] = Field(min_length=1)

    @model_validator(mode="after")
    def _agreed(self) -> Rules:
        said: dict[str, bool] = {}
        for tier in (tier for table in self.table for tier in table.tier if tier.cached is not None):
            if said.setdefault(tier.tablespace, bool(tier.cached)) != tier.cached:
                raise ValueError(f"tablespace {tier.tablespace}: cached is true in one tier and false in another")
        return self

    @property
    def said(self) -> dict[str, bool | None]:
        """Of each tablespace, `cached`."""
        found: dict[str, bool | None] = {}
        for tier in (tier for table in self.table for tier in table.tier):
            if found.get(tier.tablespace) is None:
                found[tier.tablespace] = tier.cached
        return found


def read_rules(path: Path) -> Rules:
    try:
        return Rules.model_validate(tomllib.loads(path.read_text("utf-8")))
    except OSError as error:
        raise ArgumentError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ArgumentError(f"{path}: {error}") from error
    except ValidationError as error:
        faults = [f"{path}: {'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
        raise ArgumentError("\n".join(faults), "docs/place.md has the format") from error


@dataclass(frozen=True)
class Partition:
    """`ended_ago`: seconds from its upper bound to now, negative for one that has not ended; None where bounds are numbers."""

    oid: int
    name: str
    order: float
    begun: bool
    ended_ago: float | None


# Upper and lower bound of the partitions of a table by RANGE of one column, as texts.
_BOUNDS = r"""
SELECT c.oid::bigint, c.oid::regclass::text,
       (regexp_match(pg_get_expr(c.relpartbound, c.oid), '^FOR VALUES FROM \(''?([^'')]*)''?\) TO \(''?([^'')]*)''?\)$'))[1:2]
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
 WHERE i.inhparent = %s AND NOT i.inhdetachpending
"""


def partitions(connection: db.Connection, table: str) -> list[Partition]:
    """Newest first."""
    found = db.rows(
        connection,
        "SELECT c.oid::bigint, p.partstrat::text, p.partnatts, a.atttypid::regtype::text FROM pg_class c"
        " LEFT JOIN pg_partitioned_table p ON p.partrelid = c.oid"
        " LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = p.partattrs[0] WHERE c.oid = to_regclass(%s)",
        table,
    )
    if not found:
        raise ArgumentError(f"there is no table {table} in this database", "name it with its schema, as in SQL")
    oid, strategy, columns, kind = found[0]
    timed = kind in ("date", "timestamp without time zone", "timestamp with time zone")
    if strategy != "r" or columns != 1 or not (timed or kind in ("smallint", "integer", "bigint", "numeric")):
        raise ArgumentError(f"{table} is not partitioned by RANGE of one column of a date, time or number")
    result: list[Partition] = []
    for part, name, bounds in db.rows(connection, _BOUNDS, oid):
        lower, upper = bounds or ("", "")
        if upper in ("", "MAXVALUE", "infinity"):
            continue
        result.append(_timed(connection, int(part), name, lower, upper) if timed else _numbered(connection, int(part), name, upper))
    result.sort(key=lambda partition: -partition.order)
    if not timed:
        # Numbers do not say what is in the future: partitions ahead of the newest one that holds anything.
        newest = next((number for number, partition in enumerate(result) if partition.begun), len(result))
        result = [Partition(p.oid, p.name, p.order, number >= newest, None) for number, p in enumerate(result)]
    return result


def _timed(connection: db.Connection, oid: int, name: str, lower: str, upper: str) -> Partition:
    ends, begun, ago = db.rows(
        connection,
        "SELECT extract(epoch FROM %s::timestamptz)::float8, %s::timestamptz <= now(), extract(epoch FROM now() - %s::timestamptz)::float8",
        upper, "-infinity" if lower == "MINVALUE" else lower, upper,
    )[0]  # fmt: skip
    return Partition(oid, name, float(ends), bool(begun), float(ago))


def _numbered(connection: db.Connection, oid: int, name: str, upper: str) -> Partition:
    holds = db.value(
        connection, "SELECT coalesce(sum(pg_relation_size(relid)), 0) > 0 FROM pg_partition_tree(%s::oid::regclass) WHERE isleaf", oid
    )
    return Partition(oid, name, float(upper), bool(holds), None)


def place(found: list[Partition], tiers: list[Tier], ages: dict[str, float]) -> list[tuple[Partition, str]]:
    """Where each belongs. One that no tier takes stays where it is, and is left out. `ages`: seconds of each `younger`."""
    result: list[tuple[Partition, str]] = []
    begun = 0
    for partition in found:
        number = begun + 1 if partition.begun else 0
        begun = max(begun, number)
        for tier in tiers:
            if tier.newest is not None:
                takes = number <= tier.newest
            elif tier.younger is not None:
                takes = partition.ended_ago is not None and partition.ended_ago < ages[tier.younger]
            else:
                takes = True
            if takes:
                result.append((partition, tier.tablespace))
                break
    return result


def _ages(connection: db.Connection, tiers: list[Tier], table: str, found: list[Partition]) -> dict[str, float]:
    ages: dict[str, float] = {}
    for tier in tiers:
        if tier.younger is None:
            continue
        if any(partition.ended_ago is None for partition in found):
            raise ArgumentError(f"{table} is partitioned by a number: a tier by age does not apply", "use newest = N")
        try:
            with connection.transaction():
                row = connection.execute("SELECT extract(epoch FROM now() - (now() - %s::interval))::float8", (tier.younger,)).fetchone()
        except Exception as error:
            raise ArgumentError(f"{table}: younger = {tier.younger!r} is no interval", 'as in "30 days" or "1 year"') from error
        assert row is not None
        ages[tier.younger] = float(row[0])
    return ages


def _leaves(connection: db.Connection, partition: Partition, indexes: bool) -> list[Object]:
    """Everything below that has files."""
    found: list[Object] = []
    for (oid,) in db.rows(
        connection, "SELECT relid::oid::bigint FROM pg_partition_tree(%s::oid::regclass) WHERE isleaf ORDER BY 1", partition.oid
    ):
        item = objects.by_oid(connection, int(oid))
        if item is None:  # a foreign table
            continue
        found.append(item)
        if indexes:
            found += [index for index in objects.indexes_of(connection, item.oid) if index.valid]
    return found


@dataclass(frozen=True)
class Step:
    """An object that is not where it belongs, or whose policy in the cache is not that of its tier: none, default; empty: as it is."""

    item: Object
    target: str
    policy: str

    @property
    def moves(self) -> bool:
        return self.item.tablespace != self.target


def uncached(connection: db.Connection, rules: Rules) -> frozenset[str]:
    """Tablespaces whose partitions the cache shall not hold as well: by the rules, else those that are seen to be on local flash."""
    paths = local_paths(connection)
    found = set()
    for name, cached in rules.said.items():
        if cached is None:
            cached = paths is None or not devices.on_flash(path_of(connection, name, paths[0]))
        if not cached:
            found.add(name)
    return frozenset(found)


def _policies(connection: db.Connection) -> dict[tuple[str, str], str] | None:
    """Those that are set; None where they are not to be set."""
    function, _ = mover.policy_function(connection)
    if not function:
        return None
    found = db.rows(
        connection,
        f"SELECT schemaname, objname, policy FROM {function.rpartition('.')[0]}.pg_flashcache_policy_rules WHERE kind = 'relation'",
    )
    return {(schema, name): policy for schema, name, policy in found}


def plan(connection: db.Connection, rules: Rules, flash: frozenset[str]) -> list[Step]:
    """`flash`: what uncached() has found."""
    result: dict[int, Step] = {}
    present = _policies(connection)
    for table in rules.table:
        for tier in table.tier:
            objects.tablespace_oid(connection, tier.tablespace)
        found = partitions(connection, table.name)
        for partition, tablespace in place(found, table.tier, _ages(connection, table.tier, table.name, found)):
            for item in _leaves(connection, partition, table.indexes):
                step = Step(item, tablespace, "" if present is None else _policy(item, tablespace, flash, present))
                if step.moves or step.policy:
                    result[item.oid] = step
    return list(result.values())


def _policy(item: Object, target: str, flash: frozenset[str], present: dict[tuple[str, str], str]) -> str:
    """A rule of the user's own stays."""
    rule = present.get((item.schema, item.name))
    if target in flash:
        return "" if rule else "none"
    return "default" if item.tablespace in flash and rule == "none" else ""


def _wanted(steps: list[Step]) -> list[Wanted]:
    return [Wanted(step.item, step.target, step.item.schema, step.item.name, step.item.filenode) for step in steps if step.moves]


def dry_run(rules: Rules, tell: Tell, options: Options) -> list[dict[str, Any]]:
    with mover.connect(rules.dsn, options.lock_timeout_ms) as connection:

        def again(attempt: int) -> None:
            tell({"event": "retry", "object": PLANNING, "attempt": attempt})

        flash = uncached(connection, rules)
        return [
            {
                "object": step.item.label,
                "bytes": step.item.bytes,
                "from": step.item.tablespace,
                "to": step.target,
                "policy": step.policy or None,
            }
            for step in mover.patiently(lambda: plan(connection, rules, flash), options, again)
        ]


def apply(rules: Rules, tell: Tell, options: Options) -> Outcome:
    """Only what is not where it belongs: a second run does nothing."""
    with Mover(rules.dsn, options, tell) as moving:
        moving.journal.exists()
        moving.lock()
        moving.uncached = uncached(moving.control, rules)

        def look() -> list[Step]:
            return moving.patiently(PLANNING, lambda: plan(moving.control, rules, moving.uncached))

        steps = look()
        outcome = Outcome()
        first = _wanted(steps)
        if first or moving.journal.exists():
            for text in require(moving, first, {one.target for one in first}, options, with_temporary=False):
                tell({"event": "note", "note": text})
            moving.journal.create()
            settled(moving, tell)
            steps = look()
            outcome = carry_out(moving, open_rows(moving, _wanted(steps), ORIGIN, tell), tell)
        for step in steps:
            if step.policy and not step.moves:  # made where it belongs, such as a new partition
                note = moving.set_policy(step.item, step.policy == "default")
                tell({"event": "policy", "object": step.item.label, "policy": step.policy, "note": note})
        return outcome
