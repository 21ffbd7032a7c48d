"""Sizes and times as people write them."""

from __future__ import annotations

import re
from dataclasses import dataclass

MB = 1024 * 1024
_UNITS = {"kB": 1024, "MB": MB, "GB": 1024 * MB, "TB": 1024 * 1024 * MB}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(kB|MB|GB|TB|%)")


@dataclass(frozen=True)
class Size:
    """Bytes, or a share of the database, whose size is known only after it has been loaded."""

    text: str
    bytes: int = 0
    share: float = 0.0

    def of(self, database_bytes: int) -> int:
        return round(self.share * database_bytes) if self.share else self.bytes


def parse_size(text: str) -> Size | None:
    """None if the text is no size."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    number = float(match[1])
    if match[2] == "%":
        return Size(text.strip(), share=number / 100)
    return Size(text.strip(), bytes=round(number * _UNITS[match[2]]))


def show_bytes(count: float) -> str:
    for unit in ("TB", "GB", "MB", "kB"):
        if count >= _UNITS[unit]:
            return f"{count / _UNITS[unit]:.3g} {unit}" if count < 1000 * _UNITS[unit] else f"{count / _UNITS[unit]:.0f} {unit}"
    return f"{count:.0f} bytes"


def show_number(value: float) -> str:
    """Three digits, and never as a power of ten: 0.461, 23.1, 1,143."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def show_ms(milliseconds: float) -> str:
    return f"{show_number(milliseconds)} ms"


def show_seconds(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def show_times(ratio: float) -> str:
    """How many times: 12.3 -> "12.3 times"."""
    return f"{ratio:.0f} times" if ratio >= 20 else f"{ratio:.3g} times"
