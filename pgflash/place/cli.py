"""The commands `pgflash place` and `pgflash tier`: arguments and output."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from pgflash.errors import BrokeOff
from pgflash.place import mover
from pgflash.place.model import EXPONENT, fit_exponent
from pgflash.place.mover import Options
from pgflash.place.run import Outcome
from pgflash.shown import cell, console, json_text, visible
from pgflash.units import counted, parse_size, show_bytes
from pgflash.usage import Commands

place = Commands(no_args_is_help=True, help="What belongs on flash for good: advice, and the moves.")
tier = Commands(no_args_is_help=True, help="Partitions by age: new ones on flash, old ones on slow disks.")

LONGEST_S = 31 * 86400  # of an observation

Server = Annotated[str, typer.Argument(metavar="CONNINFO", help="A connection string of libpq, of the database.")]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON on standard output, errors included.")]
PlanOption = Annotated[Path | None, typer.Option(help="What advise --json has written: its objects are moved.")]
ObjectOption = Annotated[
    list[str] | None, typer.Option("--object", help="A table, index or materialized view, with its schema, as in SQL; may be repeated.")
]
TablespaceOption = Annotated[str, typer.Option(help="The tablespace on flash.")]
TemporaryOption = Annotated[bool, typer.Option("--temporary", help="Temporary files of this database, too.")]
WindowOption = Annotated[
    str | None, typer.Option(help="When objects may be locked while they are copied: 01:00-04:00 (local time), or now.")
]
LockOption = Annotated[float, typer.Option(min=0.01, max=3600, help="Seconds to wait for such a lock before it is tried again later.")]
RetriesOption = Annotated[int, typer.Option(min=0, max=10000, help="How often it is tried again.")]
RepackOption = Annotated[bool, typer.Option(help="Move tables with pg_repack, where it is installed.")]
RoomOption = Annotated[str | None, typer.Option(help="Free space, for tablespace and WAL, of a server that is elsewhere: 50GB.")]
LossOption = Annotated[
    bool, typer.Option("--accept-loss-of-redundancy", help="Move data that must last to a device without a mirror that can be seen.")
]


def _bytes(text: str, option: str) -> int:
    size = parse_size(text)
    if size is None or size.share or size.bytes <= 0:
        raise typer.BadParameter(f"{text!r} is no size; allowed: 100GB, 1.5TB", param_hint=option)
    return size.bytes


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|min|h|)", text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is no time; allowed: 60s, 5min, 1h", param_hint="--for")
    seconds = float(match[1]) * {"s": 1, "": 1, "min": 60, "h": 3600}[match[2]]
    if seconds > LONGEST_S:
        raise typer.BadParameter(f"{text!r} will not do; allowed: up to {LONGEST_S // 3600}h", param_hint="--for")
    return seconds


def _points(texts: list[str]) -> list[tuple[float, float]]:
    """--hit-ratio 20%=0.61"""
    found: list[tuple[float, float]] = []
    for text in texts:
        share, _, hit = text.partition("=")
        size = parse_size(share)
        try:
            ratio = float(hit)
        except ValueError:
            ratio = -1.0
        if size is None or not 0 < size.share <= 1 or not 0 <= ratio <= 1:
            raise typer.BadParameter(f"{text!r} will not do; allowed: 20%=0.61", param_hint="--hit-ratio")
        found.append((size.share, ratio))
    return found


def _options(window: str | None, lock_timeout: float, retries: int, repack: bool, assume_room: str | None, accept: bool = False) -> Options:
    if window is not None and not mover.valid_window(window):
        raise typer.BadParameter(f"{window!r} will not do; allowed: 01:00-04:00, now", param_hint="--window")
    room = _bytes(assume_room, "--assume-room") if assume_room is not None else None
    return Options(window, max(1, round(lock_timeout * 1000)), retries, repack=repack, assume_room=room, accept_loss=accept)


@place.command("advise")
def advise_command(
    conninfo: Server,
    flash: Annotated[str, typer.Option(help="How much flash there is: 100GB.")],
    for_: Annotated[
        str | None, typer.Option("--for", help="How long to observe: 60s, 5min. 0: what was counted since the statistics were reset.")
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="SNAPSHOT", help="Do not observe: from this snapshot of pgflash snapshot, a number or a time."),
    ] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="SNAPSHOT", help="To this one.")] = None,
    disk_ms: Annotated[float | None, typer.Option(min=0.001, help="Time of a page from the disk, instead of the measured one.")] = None,
    flash_ms: Annotated[
        float | None, typer.Option(min=0.001, help="Time of a page from flash, instead of the measured one, or 0.1.")
    ] = None,
    temporary_size: Annotated[str | None, typer.Option(help="Most that temporary files need at a time: 10GB.")] = None,
    hit_ratio: Annotated[
        list[str] | None, typer.Option(help="A measured hit ratio of the cache, by its share of the database: 20%=0.61; may be repeated.")
    ] = None,
    on_flash: Annotated[
        list[str] | None, typer.Option(help="A tablespace that is on flash already: its objects are left out; may be repeated.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with the curve to this file, too.")] = None,
    json_: JsonOption = False,
) -> None:
    """The best split of an amount of flash between objects that are moved to it and a cache. Only reads; pg_monitor is enough."""
    from pgflash.place.advise import advise
    from pgflash.place.observe import observe
    from pgflash.place.show import show, write_html
    from pgflash.place.stored import observe_stored

    if (from_ is None) != (to is None):
        raise typer.BadParameter("goes with the other one: two snapshots", param_hint="--from" if to is None else "--to")
    if from_ is not None and for_ is not None:
        raise typer.BadParameter("does not go with --from and --to, which observe nothing", param_hint="--for")
    size, window = _bytes(flash, "--flash"), _seconds(for_ or "0")
    temp = _bytes(temporary_size, "--temporary-size") if temporary_size is not None else None
    points = _points(hit_ratio or [])
    with mover.connect(conninfo) as connection:
        if window > 2 and not json_:
            Console(stderr=True).print(f"observing for {window:.0f} s")
        if from_ is not None and to is not None:
            observation = observe_stored(connection, from_, to, disk_ms=disk_ms, flash_ms=flash_ms, temp_bytes=temp)
        else:
            observation = observe(connection, window, disk_ms=disk_ms, flash_ms=flash_ms, temp_bytes=temp)
    plan = advise(observation, size, fit_exponent(points) if points else EXPONENT, fitted=bool(points), fast=frozenset(on_flash or []))
    if html is not None:
        write_html(plan, html)
    if json_:
        print(json_text(plan.as_json(), indent=2))
    else:
        show(plan)


@place.command("script")
def script_command(
    conninfo: Server,
    tablespace: TablespaceOption,
    plan: PlanOption = None,
    object_: ObjectOption = None,
    temporary: TemporaryOption = False,
    json_: JsonOption = False,
) -> None:
    """Prints the moves as SQL, for review or for psql. Changes nothing."""
    from pgflash.place.run import script

    _something(plan, object_, temporary)
    text = script(conninfo, tablespace=tablespace, plan=plan, names=object_ or [], with_temporary=temporary)
    print(json_text({"script": text}) if json_ else text, end="\n" if json_ else "")


@place.command("apply")
def apply_command(
    conninfo: Server,
    tablespace: Annotated[str, typer.Option(help="The tablespace on flash.")] = "",
    plan: PlanOption = None,
    object_: ObjectOption = None,
    temporary: TemporaryOption = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the moves of the journal that were not done.")] = False,
    window: WindowOption = None,
    lock_timeout: LockOption = 2.0,
    retries: RetriesOption = 30,
    repack: RepackOption = True,
    assume_room: RoomOption = None,
    accept: LossOption = False,
    json_: JsonOption = False,
) -> None:
    """Moves objects to flash, one at a time. Ctrl-C ends the present move and leaves nothing half done."""
    from pgflash.place.run import apply

    if resume:
        if plan or object_ or temporary or tablespace:
            raise typer.BadParameter(
                "goes on with what the journal has; without --tablespace, --plan, --object and --temporary", param_hint="--resume"
            )
    else:
        _something(plan, object_, temporary)
        if not tablespace:
            raise typer.BadParameter("is missing: where to?", param_hint="--tablespace")
    options = _options(window, lock_timeout, retries, repack, assume_room, accept)
    outcome = apply(
        conninfo, _teller(json_), options, tablespace=tablespace, plan=plan, names=object_ or [], with_temporary=temporary, resume=resume
    )
    _end(outcome, json_)


@place.command("back")
def back_command(
    conninfo: Server,
    window: WindowOption = None,
    lock_timeout: LockOption = 2.0,
    retries: RetriesOption = 30,
    repack: RepackOption = True,
    assume_room: RoomOption = None,
    json_: JsonOption = False,
) -> None:
    """Puts all back that apply has moved, the newest first."""
    from pgflash.place.run import back

    _end(back(conninfo, _teller(json_), _options(window, lock_timeout, retries, repack, assume_room)), json_)


@place.command("status")
def status_command(conninfo: Server, json_: JsonOption = False) -> None:
    """What was moved, what is under way, and what was cut short. Changes nothing."""
    from rich.table import Table

    from pgflash.place.run import status

    found = status(conninfo)
    if json_:
        print(json_text(found, indent=2))
        return
    out = console()
    if not found["moves"]:
        out.print("nothing was moved")
        return
    table = Table("object", "size", "from", "to", "now in", "state", "by", "ended", "note")
    for move in found["moves"]:
        name = move["name"] if move["kind"] == "temporary" else f"{move['kind']} {move['schema']}.{move['name']}"
        table.add_row(
            cell(name), show_bytes(move["bytes"]), cell(move["from"]), cell(move["to"]), cell(move["now_in"] or ""), cell(move["state"]),
            cell(move["origin"]), (move["ended_at"] or "")[:19], cell(move["note"]),
        )  # fmt: skip
    out.print(table)
    out.print(f"at work: process {found['at_work']} of the server" if found["at_work"] else "nobody is moving objects now")


@tier.command("apply")
def tier_command(
    file: Annotated[Path, typer.Argument(help="The rules, in TOML.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be moved.")] = False,
    window: WindowOption = None,
    lock_timeout: LockOption = 2.0,
    retries: RetriesOption = 30,
    repack: RepackOption = True,
    assume_room: RoomOption = None,
    accept: LossOption = False,
    json_: JsonOption = False,
) -> None:
    """Moves each partition to the tablespace that its age gives it. What is there already stays: meant to be run again and again."""
    from pgflash.place import tier as tiers

    rules = tiers.read_rules(file)
    options = _options(window, lock_timeout, retries, repack, assume_room, accept)
    if dry_run:
        moves = tiers.dry_run(rules, _teller(json_), options)
        if json_:
            print(json_text({"moves": moves}, indent=2))
        else:
            for move in moves:
                there = f", {show_bytes(move['bytes'])}: {move['from']} -> {move['to']}" if move["from"] != move["to"] else ""
                policy = f"; policy {move['policy']} in the cache" if move["policy"] else ""
                print(visible(f"{move['object']}{there}{policy}"))
            print(counted(sum(move["from"] != move["to"] for move in moves), "move") if moves else "everything is where it belongs")
        return
    _end(tiers.apply(rules, _teller(json_), options), json_)


def _something(plan: Path | None, names: list[str] | None, temporary: bool) -> None:
    if not (plan or names or temporary):
        raise typer.BadParameter("nothing to move: give --plan, --object or --temporary")


def _teller(as_json: bool) -> mover.Tell:
    progress = Console(stderr=True, highlight=False)

    def tell(event: dict[str, Any]) -> None:
        if as_json:
            print(json_text(event), flush=True)
            return
        note = f": {event['note']}" if event.get("note") else ""
        name = visible(event.get("object", ""))
        text = {
            "begin": lambda: f"{name}: {show_bytes(event['bytes'])} to {event['to'] or 'where it was'} ({event['method']}){note}",
            "progress": lambda: f"{name}: {event['phase']}",
            "retry": lambda: f"{name}: is in use; trying again ({event['attempt']})",
            "later": lambda: f"{name}: not now: {event['why']}",
            "end": lambda: f"{name}: {event['state']}{note}",
            "policy": lambda: f"{name}: policy {event['policy']} in the cache{note}",
            "settled": lambda: f"{name}: an earlier run was cut short; it is {event['state']}{note}",
            "note": lambda: f"note{note}",
        }[event["event"]]()
        progress.print(visible(text, lines=True), markup=False, soft_wrap=True)

    return tell


def _end(outcome: Outcome, as_json: bool) -> None:
    if as_json:
        print(json_text({"event": "end of all", "done": outcome.done, "later": outcome.later, "failed": outcome.failed}))
    else:
        print(f"{outcome.done} done, {outcome.later} for later, {outcome.failed} failed")
    if outcome.failed:
        raise BrokeOff(
            f"{counted(outcome.failed, 'move')} failed", "pgflash place status has each with its reason; apply --resume tries them again"
        )
