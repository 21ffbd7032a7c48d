"""May this node be restarted now? Never where a commit would then wait for standbys that are not there, or too few would be left."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pgflash.cluster.gather import Look

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
    assert primary.seen is not None
    left = [row for row in primary.seen.replicas if row.state == "streaming" and not _is(node, row.name, row.address)]
    if len(left) == sum(row.state == "streaming" for row in primary.seen.replicas):
        left = left[1:]  # it is one of them, under a name that is not known here
    least = standbys if standbys is not None else min(1, standbys_all - 1)
    if len(left) < least:
        return f"{len(left)} standbys would be left, and {least} must be"
    needed = synchronous_needed(primary.seen.synchronous_standby_names)
    able = sum(row.sync_state in _SYNCHRONOUS for row in left)
    # Patroni itself names another standby, or none, unless its mode is strict.
    managed = bool(config.get("synchronous_mode")) and not config.get("synchronous_mode_strict")
    if able < needed and not managed:
        return f"commits would wait: synchronous_standby_names asks for {needed} standbys, and {able} would be left"
    if config.get("synchronous_mode_strict") and not left:
        return "commits would wait: synchronous_mode_strict asks for a standby, and none would be left"
    return ""


def _is(node: Look, name: str, address: str | None) -> bool:
    return name == node.node.name or (address is not None and address == node.node.parts.get("host"))
