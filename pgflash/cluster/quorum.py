"""May this node be restarted now? Never where a commit would then wait for standbys that are not there, or too few would be left."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pgflash.cluster.gather import Look
from pgflash.cluster.look import Replica, Seen
from pgflash.units import counted

_METHOD = re.compile(r"\s*(?:(?:ANY|FIRST)\s+)?(\d+)\s*\(", re.IGNORECASE)
_SYNCHRONOUS = ("sync", "quorum", "potential")
_NAME_BYTES = 63  # that a server shows of an application_name


def synchronous_needed(names: str) -> int:
    """Standbys that a commit waits for, by synchronous_standby_names."""
    if not names.strip():
        return 0
    match = _METHOD.match(names)
    return int(match[1]) if match else 1


def refusal(node: Look, looks: Sequence[Look], config: Mapping[str, Any], standbys: int | None, restart: bool) -> str:
    """Why it is not to be touched, or nothing. `config` is Patroni's; `standbys`: that must be left, None: one, if there are two."""
    down = [item for item in looks if not item.ok]
    if down:
        return f"{down[0].node.name} is down: {down[0].problem}"
    primaries = [item for item in looks if item.seen and not item.seen.standby]
    if len(primaries) != 1:
        return f"there are {len(primaries)} primaries: {', '.join(item.node.name for item in primaries) or 'none'}"
    bad = [item for item in looks if item.node.patroni and not item.node.patroni.good]
    if bad and bad[0].node.patroni:
        return f"{bad[0].node.name}: Patroni says {bad[0].node.patroni.state}"
    if config.get("pause"):
        return "Patroni is paused"
    lost = [item for item in looks if item.seen and item.seen.standby and item.seen.receiver != "streaming"]
    if lost:
        return f"{lost[0].node.name} does not receive WAL"
    if not restart or node.node.name == primaries[0].node.name:
        return ""
    return _too_few(node, primaries[0], looks, config, standbys)


def _too_few(node: Look, primary: Look, looks: Sequence[Look], config: Mapping[str, Any], standbys: int | None) -> str:
    """Of all that the node may be among those that the primary sends WAL to, what is worst counts."""
    assert primary.seen is not None
    streaming = [row for row in primary.seen.replicas if row.state == "streaming"]
    others = [item for item in looks if item is not node and item is not primary]
    may_be = candidates(node, streaming, looks)
    found = [_lacking([row for row in streaming if row is not one], primary.seen, others, config, standbys) for one in may_be]
    unknown = f", if {node.node.name} is one of them" if len(may_be) > 1 else ""
    return next((why + unknown for why in found if why), "")


def _lacking(
    left: Sequence[Replica], primary: Seen, others: Sequence[Look], config: Mapping[str, Any], standbys: int | None
) -> str:  # fmt: skip
    least = standbys if standbys is not None else min(1, len(others))
    there = _recognized(left, others)
    if there < least:
        return f"{counted(there, 'standby')} would be left, and {least} must be"
    needed = synchronous_needed(primary.synchronous_standby_names)
    able = sum(row.sync_state in _SYNCHRONOUS for row in left)
    # Patroni itself names another standby, or none, unless its mode is strict.
    managed = bool(config.get("synchronous_mode")) and not config.get("synchronous_mode_strict")
    if able < needed and not managed:
        return f"commits would wait: synchronous_standby_names asks for {counted(needed, 'standby')}, and {able} would be left"
    if config.get("synchronous_mode_strict") and not there:
        return "commits would wait: synchronous_mode_strict asks for a standby, and none would be left"
    return ""


def _recognized(rows: Sequence[Replica], nodes: Sequence[Look]) -> int:
    """How many of them are nodes of the cluster, each one node. pg_receivewal, subscribers and strangers take nobody's place."""
    free = list(nodes)
    for row in rows:
        mine = next((item for item in free if not row.logical and _may_be(item, row)), None)
        if mine is not None:
            free.remove(mine)
    return len(nodes) - len(free)


def candidates(node: Look, rows: Sequence[Replica], looks: Sequence[Look]) -> list[Replica | None]:
    """Which of the rows it may be. By the name under which it receives, if that is known: none is also an answer, it receives from
    another standby, but only where the server shows such a name as it is. Else by name and address, by one of them, or any. None is
    there: it is known to nobody."""
    physical = [row for row in rows if not row.logical]
    if node.seen is not None and node.seen.receives_as is not None:
        mine = [row for row in physical if _receives_as(node, row)]
        exactly = [row for row in mine if _there(node, row)]
        if len(exactly) == 1 and not any(_there(item, exactly[0]) and _named(item, exactly[0]) for item in looks if item is not node):
            return [*exactly]
        if mine:
            return [*mine]
        name = node.seen.receives_as
        others = [item for item in looks if item is not node]
        nobody_s = [row for row in physical if _there(node, row) and not any(_receives_as(item, row) for item in others)]
        elsewhere = name in shown_as(name) and not nobody_s
        return [None] if elsewhere else [*physical] or [None]
    both = [row for row in physical if _named(node, row) and _there(node, row)]
    if len(both) == 1:
        return [*both]
    either = [row for row in physical if _named(node, row) or _there(node, row)]
    # a name or an address that others have as well says nothing
    if len(either) == 1 and not any(_named(item, either[0]) or _there(item, either[0]) for item in looks if item is not node):
        return [*either]
    return list(physical) or [None]


def shown_as(name: str) -> set[str]:
    """An application_name as pg_stat_replication has it: bytes that are not printable ASCII as ? (15) or \\xHH (16 and later), then cut."""
    data = name.encode("utf-8", "surrogateescape")
    as_question_marks = "".join(chr(byte) if 32 <= byte <= 126 else "?" for byte in data)
    as_escapes = "".join(chr(byte) if 32 <= byte <= 126 else f"\\x{byte:02x}" for byte in data)
    return {as_question_marks[:_NAME_BYTES], as_escapes[:_NAME_BYTES]}


def _receives_as(node: Look, row: Replica) -> bool:
    """Does it have the row's name, as far as that is known?"""
    return node.seen is not None and node.seen.receives_as is not None and row.name in shown_as(node.seen.receives_as)


def _may_be(node: Look, row: Replica) -> bool:
    """For a count: what is not known counts for nothing."""
    return _receives_as(node, row) if node.seen and node.seen.receives_as is not None else _named(node, row) or _there(node, row)


def _named(node: Look, row: Replica) -> bool:
    """A server without a name in its primary_conninfo has its cluster_name."""
    return row.name in (node.node.name, node.seen.cluster if node.seen and node.seen.cluster else node.node.name)


def _there(node: Look, row: Replica) -> bool:
    """The address of its connection string, or what the server says it was reached at."""
    addresses = (node.node.parts.get("host"), node.node.parts.get("hostaddr"), node.seen.address if node.seen else None)
    return row.address is not None and row.address in addresses
