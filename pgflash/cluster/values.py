"""Is a value that somebody writes the one that is in effect? As postgresql.conf reads them, with units."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)")
_UNIT = re.compile(r"([0-9]*)([A-Za-z]+)")
_BYTES = {name: 1024**power for power, name in enumerate(("B", "kB", "MB", "GB", "TB"))}
_SECONDS = {
    "us": Fraction(1, 1_000_000), "ms": Fraction(1, 1000), "s": Fraction(1), "min": Fraction(60), "h": Fraction(3600), "d": Fraction(86400),
}  # fmt: skip


def same(row: Mapping[str, Any], value: str | None) -> bool:
    """Of a row of pg_settings. Only what is the same for certain; what the server rounds may be, and is not found to be."""
    if value is None:
        return False
    if row["setting"] == value:
        return True
    setting, given = (_amount(text, row.get("unit")) for text in (row["setting"], value))
    return setting is not None and setting == given


def _amount(text: str, unit: str | None) -> Fraction | None:
    """In bytes or seconds."""
    number = _NUMBER.fullmatch(text.strip())
    own = _UNIT.fullmatch(unit or "")
    if number is None or own is None:
        return None
    sizes: Mapping[str, int | Fraction] = _BYTES if own[2] in _BYTES else _SECONDS
    size = sizes.get(number[2]) if number[2] else int(own[1] or 1) * sizes[own[2]] if own[2] in sizes else None
    return None if size is None else Fraction(number[1]) * size
