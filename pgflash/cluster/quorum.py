"""May this node be restarted now? Never where a commit would then wait for standbys that are not there, or too few would be left."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pgflash.cluster.gather import Look
from pgflash.cluster.look import Replica, Seen

_METHOD = re.compile(r"\s*(?:(?:ANY|FIRST)\s+)?(\d+)\s*\(", re.IGNORECASE)
_SYNCHRONOUS = ("sync", "quorum", "potential")


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
    return _too_few(node, primaries[0], len(looks) - 1, config, standbys)


def _too_few(node: Look, primary: Look, standbys_all: int, config: Mapping[str, Any], standbys: int | None) -> str:
    """Of all that the node may be among those that the primary sends WAL to, what is worst counts."""
    assert primary.seen is not None
    streaming = [row for row in primary.seen.replicas if row.state == "streaming"]
    lost = _candidates(node, streaming)
    found = [_lacking([row for row in streaming if row is not one], primary.seen, standbys_all, config, standbys) for one in lost]
    unknown = "" if any(_named(node, row) or _there(node, row) for row in lost) else f", if {node.node.name} is one of them"
    return next((why + unknown for why in found if why), "")


def _lacking(left: Sequence[Replica], primary: Seen, standbys_all: int, config: Mapping[str, Any], standbys: int | None) -> str:
    least = standbys if standbys is not None else min(1, standbys_all - 1)
    if len(left) < least:
        return f"{len(left)} standbys would be left, and {least} must be"
    needed = synchronous_needed(primary.synchronous_standby_names)
    able = sum(row.sync_state in _SYNCHRONOUS for row in left)
    # Patroni itself names another standby, or none, unless its mode is strict.
    managed = bool(config.get("synchronous_mode")) and not config.get("synchronous_mode_strict")
    if able < needed and not managed:
        return f"commits would wait: synchronous_standby_names asks for {needed} standbys, and {able} would be left"
    if config.get("synchronous_mode_strict") and not left:
        return "commits would wait: synchronous_mode_strict asks for a standby, and none would be left"
    return ""


def _candidates(node: Look, streaming: Sequence[Replica]) -> list[Replica | None]:
    """Which of them it may be: by name and address, else by one of them, else any. None is there: it is known to nobody."""
    both = [row for row in streaming if _named(node, row) and _there(node, row)]
    either = [row for row in streaming if _named(node, row) or _there(node, row)]
    return list(both or either or streaming) or [None]


def _named(node: Look, row: Replica | None) -> bool:
    """A server without a name in its primary_conninfo has its cluster_name."""
    return row is not None and row.name in (node.node.name, node.seen.cluster if node.seen and node.seen.cluster else node.node.name)


def _there(node: Look, row: Replica | None) -> bool:
    """The address of its connection string, or what the server says it was reached at."""
    addresses = (node.node.parts.get("host"), node.node.parts.get("hostaddr"), node.seen.address if node.seen else None)
    return row is not None and row.address is not None and row.address in addresses
