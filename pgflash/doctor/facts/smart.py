"""What a drive says about itself, by smartctl --json (package smartmontools)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pgflash.doctor.facts.machine import Machine

UNIT = 512_000
"""Bytes in one of NVMe's data units."""
ATA_ERRORS = (187, 197, 198)


@dataclass(frozen=True)
class Health:
    model: str
    firmware: str
    passed: bool | None
    used_percent: int | None
    """Of its life; may be over 100."""
    spare_percent: int | None
    spare_threshold: int | None
    media_errors: int | None
    temperature: int | None
    critical_warning: int
    written: int | None
    hours: int | None


def _dig(tree: Any, *names: str) -> Any:
    for name in names:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def _whole(value: Any, least: int = 0, most: int = (1 << 63) - 1) -> int | None:
    """What a drive says that makes no sense is as good as nothing, and must not keep the rest from being known."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not least <= value <= most:
        return None
    return int(value)


def _bytes(units: int | None) -> int | None:
    return None if units is None else _whole(units * UNIT)


def health_of(machine: Machine, name: str) -> Health | str:
    """Or why it is not known."""
    text = machine.run(["smartctl", "--json", "--all", f"/dev/{name}"])
    if text is None:
        return "smartctl is not installed, or did not answer: apt-get install smartmontools"
    try:
        tree = json.loads(text)
    except ValueError:
        return f"smartctl gave no JSON for {name} (version 7.0 or newer is needed)"
    log = _dig(tree, "nvme_smart_health_information_log") or {}
    if not log and _dig(tree, "smart_status", "passed") is None:
        said = [str(_dig(item, "string") or "") for item in _dig(tree, "smartctl", "messages") or []]
        return f"{name} does not report its health to smartctl" + (f": {said[0]}" if said else "")
    table = _dig(tree, "ata_smart_attributes", "table") or []
    errors = [_whole(_dig(row, "raw", "value")) or 0 for row in table if _dig(row, "id") in ATA_ERRORS]
    units = _whole(log.get("data_units_written"))
    used = _whole(log.get("percentage_used"), most=255)
    media = _whole(log.get("media_errors"))
    return Health(
        str(_dig(tree, "model_name") or ""),
        str(_dig(tree, "firmware_version") or ""),
        _dig(tree, "smart_status", "passed"),
        used if used is not None else _whole(_dig(tree, "endurance_used", "current_percent"), most=255),
        _whole(log.get("available_spare"), most=100),
        _whole(log.get("available_spare_threshold"), most=100),
        media if media is not None else sum(errors) if errors else None,
        _whole(_dig(tree, "temperature", "current"), -273, 1000),
        _whole(log.get("critical_warning")) or 0,
        _bytes(units),
        _whole(_dig(tree, "power_on_time", "hours")),
    )
