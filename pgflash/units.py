"""Sizes and times as people write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

MB = 1024 * 1024
SMALLEST_CACHE = MB  # the extension takes 512 kB; a study sets whole megabytes
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
    """Three digits, and never as a power of ten: 0.0000593, 0.461, 23.1, 1,143."""
    return f"{value:,.0f}" if value >= 100 else f"{Decimal(f'{value:.3g}'):f}"


def counted(number: float, one: str, many: str = "") -> str:
    """With its word: 1 node, 2,000 nodes."""
    return f"{number:,.0f} {one if number == 1 else many or one + 's'}"


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


@dataclass(frozen=True)
class Endurance:
    """What a drive may be written before it wears out, by its data sheet."""

    text: str
    bytes: float

    def years(self, bytes_per_s: float) -> float:
        """At this rate, day and night; infinite without writes."""
        return self.bytes / (bytes_per_s * 86400 * 365.25) if bytes_per_s > 0 else float("inf")


_DECIMAL = {"GB": 1e9, "TB": 1e12, "PB": 1e15}
_WRITTEN = re.compile(r"(\d+(?:\.\d+)?)\s*(TBW|PBW)")
_A_DAY = re.compile(r"(\d+(?:\.\d+)?)\s*DWPD of (\d+(?:\.\d+)?)\s*(GB|TB) for (\d+(?:\.\d+)?) years?")
ENDURANCE_FORMS = '"1750 TBW", or "1 DWPD of 960GB for 5 years"'


def parse_endurance(text: str) -> Endurance | None:
    """Terabytes written, or drive writes a day. Decimal units, as on drives. None if it is neither."""
    text = text.strip()
    if written := _WRITTEN.fullmatch(text):
        count = float(written[1]) * _DECIMAL[written[2][:2]]
    elif a_day := _A_DAY.fullmatch(text):
        count = float(a_day[1]) * float(a_day[2]) * _DECIMAL[a_day[3]] * 365 * float(a_day[4])
    else:
        return None
    return Endurance(text, count) if count > 0 else None


@dataclass(frozen=True)
class OperationPrice:
    """What a provisioned operation a second costs in a month, beyond those that the volume has anyway."""

    text: str
    each: float
    currency: str
    included: int = 0

    def a_month(self, operations_per_s: float) -> float:
        return max(0.0, operations_per_s - self.included) * self.each


_PRICE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Z]{3}|[$€£¥])(?:\s*,\s*(\d+) included)?")
PRICE_FORMS = '"0.005 USD", or "0.005 USD, 3000 included": of an operation a second that is provisioned, for a month'


def parse_operation_price(text: str) -> OperationPrice | None:
    """None if it is none, or 0."""
    found = _PRICE.fullmatch(text.strip())
    if found is None or float(found[1]) <= 0:
        return None
    return OperationPrice(text.strip(), float(found[1]), found[2], int(found[3] or 0))


def show_years(years: float) -> str:
    if years > 100:
        return "more than 100"
    return f"{years:.1f}" if years >= 1 else f"{years:.2g}"
