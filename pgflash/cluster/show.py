"""Tables of a cluster: a line for each node, and in words what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pgflash import devices
from pgflash.cluster.find import Found
from pgflash.cluster.gather import Look
from pgflash.cluster.look import Seen
from pgflash.cluster.quorum import shown_as
from pgflash.shown import cell, visible
from pgflash.units import counted, show_bytes, show_seconds

NONE = "-"
BAD_STATES = ("off", "detached", "paused")


def percent(value: float | None) -> str:
    return NONE if value is None else f"{100 * value:.1f}"


def role(item: Look) -> str:
    """As Patroni says, or the server."""
    member = item.node.patroni
    if item.seen is None:
        return f"({member.role})" if member else ""
    if member and not item.seen.standby and not member.leader:
        return f"{item.seen.role}, not the leader"
    if member and member.role.startswith(("sync", "quorum")):
        return member.role.replace("_", " ")
    return item.seen.role


def lags(looks: Sequence[Look]) -> dict[str, int | None]:
    """Bytes of WAL between the primary and each standby: by LSN, where there is one primary."""
    primaries = [item.seen for item in looks if item.seen and not item.seen.standby]
    if len(primaries) != 1:
        return {}
    at = _lsn(primaries[0].lsn)
    found: dict[str, int | None] = {}
    for item in looks:
        if item.seen and item.seen.standby:
            lsn = _lsn(item.seen.lsn)
            found[item.node.name] = max(0, at - lsn) if at is not None and lsn is not None else None
    return found


def _lsn(text: str | None) -> int | None:
    high, _, low = (text or "").partition("/")
    try:
        return (int(high, 16) << 32) + int(low, 16)
    except ValueError:
        return None


def lag(item: Look, bytes_behind: int | None) -> str:
    seen = item.seen
    if seen is None or not seen.standby:
        return ""
    text = NONE if bytes_behind is None else show_bytes(bytes_behind)
    delay = seen.replay_delay_s
    return f"{text}, {show_seconds(delay)}" if delay is not None and delay >= 1 else text


def warmth(seen: Seen, share: float) -> Text:
    if not seen.standby:
        return Text("")
    if not seen.follows:
        return Text("not followed", style="yellow")
    return Text(
        f"{percent(seen.share)} {'warm' if seen.is_warm(share) else 'not warm'}", style="green" if seen.is_warm(share) else "yellow"
    )


def problems(looks: Sequence[Look]) -> list[tuple[str, str]]:
    """Of nodes: what is wrong with them, or with the cluster."""
    found = [(item.node.name, item.problem or "") for item in looks if not item.ok]
    found += _leaders(looks)
    for item in looks:
        if item.seen is None:
            continue
        if item.seen.state in BAD_STATES or item.seen.not_started:
            found.append((item.node.name, f"the cache is {item.seen.state}: {item.seen.reason or 'no reason is known'}"))
        found += [(item.node.name, devices.words(row)) for row in item.seen.devices_off]
        if item.seen.stat is None and item.seen.missing:
            found.append((item.node.name, item.seen.missing[0]))
        if item.seen.standby and item.seen.receiver not in ("streaming", None):
            found.append((item.node.name, "it does not receive WAL from another server"))
        if item.node.patroni and not item.node.patroni.good:
            found.append((item.node.name, f"Patroni says: {item.node.patroni.state}"))
    return found


def _leaders(looks: Sequence[Look]) -> list[tuple[str, str]]:
    """Primaries that should not be: with Patroni all but its leader; without it, those that are copies of one server, since others
    are shards."""
    primaries = [item for item in looks if item.seen and not item.seen.standby]
    if any(item.node.patroni for item in looks):
        found = [
            (item.node.name, "it is a primary, and Patroni has it as a replica: stop it")
            for item in primaries
            if item.node.patroni and not item.node.patroni.leader
        ]
        if not primaries and not any(item.node.patroni and item.node.patroni.role == "standby_leader" for item in looks):
            found.append(("cluster", "no member that answers is a primary"))
        return found
    servers: dict[int | None, set[object]] = {}
    for item in primaries:
        if item.seen and item.seen.system is not None:  # one that is asked in two databases is one
            servers.setdefault(item.seen.system, set()).add((item.seen.started, item.seen.port))
    return [
        (item.node.name, f"it is one of {len(servers[item.seen.system])} primaries of one cluster: only one of them may be")
        for item in primaries
        if item.seen and len(servers.get(item.seen.system, ())) > 1
    ]


def remarks(who: Found, looks: Sequence[Look]) -> list[str]:
    """With the standbys that cannot be asked, but for those that are among the nodes under another address, as far as that can be told."""
    names = [_names(item) for item in looks if item.seen is None or item.seen.standby]
    left: list[str] = []
    for name, why in who.unplaced:
        mine = next((of_one for of_one in names if name in of_one), None)
        if mine is None:
            left.append(why)
        else:
            names.remove(mine)  # of several under one name, each is one
    return list(dict.fromkeys([*who.remarks, *left]))


def unasked(looks: Sequence[Look]) -> list[str]:
    """The nodes of whose devices nothing is known."""
    return [f"{item.node.name}: {item.seen.devices_unasked}" for item in looks if item.seen and item.seen.devices_unasked]


def _names(item: Look) -> set[str]:
    """Under which a primary may show it."""
    seen = item.seen
    own = [item.node.name, *([seen.receives_as or "", seen.cluster] if seen else [])]
    return {shown for name in own if name for shown in shown_as(name)}


def status(looks: Sequence[Look], share: float, said: Sequence[str] = ()) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("node", "role", "lag", "TL", "cache", "hit %", "fill %", "size", "warmth", "version"):
        table.add_column(head, justify="right" if head in ("lag", "TL", "hit %", "fill %", "size") else "left", no_wrap=True)
    behind = lags(looks)
    for item in looks:
        seen = item.seen
        if seen is None:
            table.add_row(cell(item.node.name), cell(role(item)), "", "", Text("down", style="red"))
            continue
        stat = seen.stat or {}
        state = Text(
            visible(seen.state or NONE), style="green" if seen.state == "active" else "red" if seen.state in BAD_STATES else "yellow"
        )
        size = show_bytes(stat["slots"] * 8192) if stat.get("slots") else NONE
        table.add_row(
            cell(item.node.name), cell(role(item)), lag(item, behind.get(item.node.name)), str(seen.timeline or NONE), state,
            percent(seen.hit_ratio), percent(seen.fill), size, warmth(seen, share), cell(f"{seen.version or NONE} on {seen.major}"),
        )  # fmt: skip
    words = Text()
    wrong = problems(looks)
    for name, what in wrong:
        words.append(f"{visible(name)}: {visible(what)}\n", "red")
    for item in looks:
        if item.seen and item.seen.reason and not any(name == item.node.name for name, _ in wrong):
            words.append(f"{visible(item.node.name)}: {visible(item.seen.reason)}\n")
        if item.seen and item.seen.pending_restart:
            waits = "waits" if item.seen.pending_restart == 1 else "wait"
            words.append(f"{visible(item.node.name)}: {counted(item.seen.pending_restart, 'setting')} {waits} for a restart\n")
    for remark in said:
        words.append(f"{visible(remark)}\n", "dim")
    return Group(table, words)


MISSING = {
    "missing_locked": "locked", "missing_no_room": "no room", "missing_database": "no database", "missing_gone": "gone",
    "missing_unreadable": "unreadable",
}  # fmt: skip


def warm_table(looks: Sequence[Look], share: float, said: Sequence[str] = ()) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("node", "role", "follower", "map is old", "share %", "of hit %", f"warm ({100 * share:g}%)", "missing", "reason"):
        table.add_column(head, justify="right" if "%" in head and "warm" not in head else "left", no_wrap=head != "reason")
    for item in looks:
        seen, row = item.seen, (item.seen.warmth if item.seen else None)
        if seen is None or row is None:
            why = item.problem or next((text for text in (seen.missing if seen else [])), "")
            table.add_row(
                cell(item.node.name), cell(role(item)), Text("down" if seen is None else NONE, style="red"), "", "", "", "no", "", cell(why)
            )
            continue
        age = NONE if row["age"] is None else show_seconds(row["age"]) + (", too old" if row["too_old"] else "")
        missing = ", ".join(f"{row[name]} {words}" for name, words in MISSING.items() if row[name])
        warm = ("yes" if seen.is_warm(share) else "no") if seen.standby else ""
        table.add_row(
            cell(item.node.name), cell(role(item)), cell(row["state"]), age, percent(row["share"]), percent(row["hot_share"]), warm,
            missing, cell(row["reason"] or ""),
        )  # fmt: skip
    return Group(table, *(cell(remark) for remark in said))


def as_json(looks: Sequence[Look], share: float) -> list[dict[str, Any]]:
    behind = lags(looks)
    return [
        {
            "name": item.node.name, "ok": item.ok, "problem": item.problem, "found_by": item.node.found_by,
            "role": item.seen.role if item.seen else None, "lag_bytes": behind.get(item.node.name),
            "warm": item.seen.is_warm(share) if item.seen and item.seen.standby else None,
            "patroni": _patroni(item), **({"server": item.seen.as_json()} if item.seen else {}),
        }
        for item in looks
    ]  # fmt: skip


def _patroni(item: Look) -> dict[str, Any] | None:
    member = item.node.patroni
    return (
        {"role": member.role, "state": member.state, "pending_restart": member.pending_restart, "tags": dict(member.tags)}
        if member
        else None
    )
