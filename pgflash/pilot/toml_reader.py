"""Reads a TOML table key by key, and collects every fault instead of stopping at the first.

Each fault names the key by its full path and says what is allowed there. A key that nobody asked for is a fault as well:
`done` reports it, with the key that was probably meant.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import Any

from pgflash.units import Size, parse_size


class Table:
    def __init__(self, values: dict[str, Any], path: str, faults: list[str]) -> None:
        self.values = values
        self.path = path
        self.faults = faults
        self.asked: list[str] = []

    def fault(self, key: str, text: str) -> None:
        self.faults.append(f"{self.path}{key}: {text}")

    def has(self, key: str) -> bool:
        self._ask(key)
        return key in self.values

    def _ask(self, key: str) -> None:
        if key not in self.asked:
            self.asked.append(key)

    def _get(self, key: str, required: bool, allowed: str) -> Any:
        self._ask(key)
        if key not in self.values and required:
            self.fault(key, f"is missing; allowed: {allowed}")
        return self.values.get(key)

    def text(self, key: str, default: str | None = "", *, what: str = "a text") -> str:
        value = self._get(key, default is None, what)
        if value is None:
            return default or ""
        if not isinstance(value, str) or not value.strip():
            self.fault(key, f"{value!r} will not do; allowed: {what}")
            return default or ""
        return value

    def choice(self, key: str, allowed: Iterable[str], default: str | None = None) -> str:
        names = list(allowed)
        listed = ", ".join(names)
        value = self._get(key, default is None, listed)
        if value is None:
            return default if default is not None else names[0]
        if value not in names:
            self.fault(key, f"{value!r} is not known; allowed: {listed}")
            return default if default is not None else names[0]
        return str(value)

    def choices(self, key: str, allowed: Iterable[str]) -> list[str]:
        names = list(allowed)
        listed = "a list of " + ", ".join(names)
        value = self._get(key, False, listed)
        if value is None:
            return []
        if not isinstance(value, list) or any(item not in names for item in value):
            self.fault(key, f"{value!r} will not do; allowed: {listed}")
            return []
        return [str(item) for item in value]

    def integer(self, key: str, least: int, most: int, default: int | None = None) -> int:
        allowed = f"a whole number from {least} to {most}"
        value = self._get(key, default is None, allowed)
        if value is None:
            return least if default is None else default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.fault(key, f"{value!r} will not do; allowed: {allowed}")
            return least if default is None else default
        return value

    def integers(self, key: str, least: int, most: int, default: list[int]) -> list[int]:
        allowed = f"a list of different whole numbers from {least} to {most}"
        value = self._get(key, False, allowed)
        if value is None:
            return default
        good = isinstance(value, list) and len(value) > 0 and len(set(map(str, value))) == len(value)
        if not good or any(isinstance(i, bool) or not isinstance(i, int) or not least <= i <= most for i in value):
            self.fault(key, f"{value!r} will not do; allowed: {allowed}")
            return default
        return [int(item) for item in value]

    def number(self, key: str, least: float, most: float, default: float) -> float:
        allowed = f"a number from {least:g} to {most:g}"
        value = self._get(key, False, allowed)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or not least <= value <= most:
            self.fault(key, f"{value!r} will not do; allowed: {allowed}")
            return default
        return float(value)

    def boolean(self, key: str, default: bool) -> bool:
        value = self._get(key, False, "true, false")
        if value is None:
            return default
        if not isinstance(value, bool):
            self.fault(key, f"{value!r} will not do; allowed: true, false")
            return default
        return value

    def size(self, key: str, *, share: bool, required: bool = False) -> Size | None:
        allowed = _size_words(share)
        value = self._get(key, required, allowed)
        return None if value is None else self._as_size(key, value, share, allowed)

    def sizes(self, key: str, *, share: bool) -> list[Size]:
        allowed = "a list of different sizes, each " + _size_words(share)
        value = self._get(key, False, allowed)
        if value is None:
            return []
        if not isinstance(value, list) or not value or len(set(map(str, value))) != len(value):
            self.fault(key, f"{value!r} will not do; allowed: {allowed}")
            return []
        sizes = [self._as_size(key, item, share, allowed) for item in value]
        return [size for size in sizes if size is not None]

    def _as_size(self, key: str, value: Any, share: bool, allowed: str) -> Size | None:
        size = parse_size(value) if isinstance(value, str) else None
        if size is None or (size.share and not share) or (not size.share and not size.bytes):
            self.fault(key, f"{value!r} will not do; allowed: {allowed}")
            return None
        return size

    def settings(self, key: str) -> dict[str, str]:
        """A table of server settings."""
        value = self._get(key, False, "a table of settings")
        if value is None:
            return {}
        if not isinstance(value, dict) or any(not isinstance(v, str | int | float | bool) for v in value.values()):
            self.fault(key, "allowed: a table of PostgreSQL settings, each a text, number or boolean")
            return {}
        return {name: _setting(v) for name, v in value.items()}

    def table(self, key: str, *, required: bool = False) -> Table:
        value = self._get(key, required, "a table")
        if value is not None and not isinstance(value, dict):
            self.fault(key, f"{value!r} will not do; allowed: a table, [{self.path}{key}]")
            value = None
        return Table(value or {}, f"{self.path}{key}.", self.faults)

    def tables(self, key: str) -> list[Table]:
        value = self._get(key, False, "tables")
        if value is None:
            return []
        if not isinstance(value, list) or any(not isinstance(item, dict) for item in value):
            self.fault(key, f"allowed: one or more tables, [[{self.path}{key}]]")
            return []
        return [Table(item, f"{self.path}{key}[{i + 1}].", self.faults) for i, item in enumerate(value)]

    def done(self) -> None:
        for key in self.values:
            if key in self.asked:
                continue
            near = difflib.get_close_matches(key, self.asked, n=1)
            meant = f" (did you mean {near[0]}?)" if near else ""
            self.fault(key, f"is not known{meant}; allowed: {', '.join(sorted(self.asked))}")


def _size_words(share: bool) -> str:
    words = 'a size such as "512MB" or "2GB"'
    return words + ', or a share of the database such as "47%"' if share else words


def _setting(value: str | int | float | bool) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
