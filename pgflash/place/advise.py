"""From an observation to a plan: what to move, what to cache, what to leave, and what more flash would bring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pgflash.place.model import Item, Problem, Split
from pgflash.place.observe import Observation, Rates
from pgflash.units import show_bytes, show_number

TAIL = 150  # objects that are looked at one by one; the others share a line
REST = "all other objects"
BUSY = 0.001  # of all storage time: an object below is not moved


@dataclass(frozen=True)
class Line:
    """Of the ranking."""

    rates: Rates
    item: Item
    place: str  # move, cache, disk
    cached: int
    why: str


@dataclass(frozen=True)
class Plan:
    flash: int
    split: Split
    lines: list[Line]
    curve: list[Split]
    nothing: float  # ms a second without flash
    reads: float  # pages a second that are read or written
    transactions: float
    observation: Observation
    exponent: float
    fitted: bool

    @property
    def moved(self) -> list[Line]:
        return [line for line in self.lines if line.place == "move"]

    def mean_ms(self, split: Split | None) -> float:
        cost = self.nothing if split is None else split.cost
        return cost / self.reads if self.reads else 0.0

    def words(self) -> list[str]:
        """The plan, for people."""
        if not self.reads:
            return ["Nothing was read or written: there is nothing to advise. Observe the server while it works (--for)."]
        moved, told = self.moved, []
        if moved:
            names = ", ".join(line.item.key for line in moved[:8]) + (f" and {len(moved) - 8} more" if len(moved) > 8 else "")
            told.append(f"Move {show_bytes(sum(line.item.bytes for line in moved))} to flash for good: {names}.")
        elif self.split.cache:
            told.append("Move nothing: a cache gains more from this flash.")
        else:
            told.append("Neither move nor cache: storage answers as fast as this flash would, or is hardly used.")
        if self.split.cache:
            told.append(f"Give {show_bytes(self.split.cache)} to the cache, for what stays on disk.")
        unused = self.flash - self.split.cache - sum(line.item.bytes for line in moved)
        if unused > 0.01 * self.flash:
            told.append(f"{show_bytes(unused)} of the {show_bytes(self.flash)} would gain nothing by this load; keep them for growth.")
        before, after = self.mean_ms(None), self.mean_ms(self.split)
        told.append(
            f"A page that is read or written then takes {show_number(after)} ms on average instead of {show_number(before)} ms, by the model."
        )
        if moved and any(line.rates.unit.kind != "temporary" for line in moved):
            told.append("What is moved lives on flash only: it needs a mirror, and is not cached as well. The WAL stays where it is.")
        return told

    def as_json(self) -> dict[str, Any]:
        return {
            "flash_bytes": self.flash, "cache_bytes": self.split.cache,
            "moved_bytes": sum(line.item.bytes for line in self.moved), "window_s": round(self.observation.seconds, 3),
            "since_reset": not self.observation.window, "transactions_per_s": self.transactions,
            "page_ms_without": self.mean_ms(None), "page_ms": self.mean_ms(self.split),
            "storage_ms_per_s_without": self.nothing, "storage_ms_per_s": self.split.cost,
            "flash_ms": self.observation.flash_ms, "flash_ms_from": self.observation.flash_from,
            "curve_exponent": self.exponent, "curve_from": "measured" if self.fitted else "assumed",
            "objects": [_line(line) for line in self.lines],
            "curve": [
                {
                    "flash_bytes": split.flash, "cache_bytes": split.cache, "moved": len(split.moved), "page_ms": self.mean_ms(split),
                    "storage_ms_per_s": split.cost,
                }
                for split in self.curve
            ],
            "plan": self.words(), "notes": self.observation.notes,
        }  # fmt: skip


def _line(line: Line) -> dict[str, Any]:
    unit, rates = line.rates.unit, line.rates
    return {
        "oid": unit.oid, "kind": unit.kind, "schema": unit.schema, "name": unit.name, "relfilenode": unit.filenode,
        "partition_of": unit.parent or None, "tablespace": unit.tablespace, "bytes": line.item.bytes, "reads_per_s": rates.reads,
        "toast_reads_per_s": rates.toast_reads, "scan_reads_per_s": rates.scans, "writes_per_s": rates.writes, "disk_ms": rates.disk_ms,
        "disk_ms_from": rates.latency_from, "growth_bytes_per_day": rates.growth, "saving_ms_per_s_per_gb": line.item.density * 1024**3,
        "place": line.place, "cached_bytes": line.cached, "why": line.why,
    }  # fmt: skip


def advise(observation: Observation, flash: int, exponent: float, *, fitted: bool = False, fast: frozenset[str] = frozenset()) -> Plan:
    """`fast`: tablespaces that are on flash already; what is there needs no more."""
    looked = [rates for rates in observation.rates if not rates.unit.on(fast)]
    looked.sort(key=lambda rates: -(rates.reads + rates.writes) * rates.disk_ms)
    everything = sum((rates.reads + rates.writes) * rates.disk_ms for rates in looked)
    items: dict[str, Item] = {}
    for rates in looked[:TAIL]:
        temporary = rates.unit.kind == "temporary"
        busy = (rates.reads + rates.writes) * rates.disk_ms >= BUSY * everything
        items[rates.unit.key] = Item(
            rates.unit.key, rates.unit.now.bytes, rates.reads, rates.writes, rates.disk_ms, min(observation.flash_ms, rates.disk_ms),
            movable=busy, cacheable=not temporary, scans=rates.scans,
        )  # fmt: skip
    rest = _rest(looked[TAIL:], observation.flash_ms)
    problem = Problem([*items.values(), *rest], exponent)
    split = problem.solve(flash)
    most = sum(item.bytes for item in problem.items if item.reads + item.writes > 0)
    lines = [_decide(rates, items[rates.unit.key], split) for rates in looked[:TAIL] if rates.reads + rates.writes > 0]
    return Plan(
        flash, split, lines, problem.curve(max(most, flash)), problem.worst, sum(item.reads + item.writes for item in problem.items),
        observation.transactions, observation, exponent, fitted,
    )  # fmt: skip


def _rest(rates: list[Rates], flash_ms: float) -> list[Item]:
    pages = sum(item.reads for item in rates)
    if not rates:
        return []
    mean = sum(item.reads * item.disk_ms for item in rates) / pages if pages else flash_ms
    size = sum(item.unit.now.bytes for item in rates)
    return [Item(REST, size, pages, sum(item.writes for item in rates), mean, min(flash_ms, mean), movable=False,
                 scans=sum(item.scans for item in rates))]  # fmt: skip


def _decide(rates: Rates, item: Item, split: Split) -> Line:
    if item.key in split.moved:
        why = "written" if item.writes >= item.reads else "the most time saved for its size"
        return Line(rates, item, "move", 0, f"{why}: {show_number(item.density * 1024**3)} ms a second for each GB")
    held = split.cached.get(item.key, 0)
    if held:
        return Line(rates, item, "cache", held, f"{show_number(100 * held / max(1, item.bytes))}% of it is what the cache would hold")
    if item.disk_ms <= item.flash_ms:
        return Line(rates, item, "disk", 0, "storage answers as fast as flash")
    if item.scans > item.cached_reads:
        return Line(rates, item, "disk", 0, "read by large sequential scans, which go past a cache; moving others gains more")
    if item.writes >= item.reads:
        return Line(rates, item, "disk", 0, "written more often than read: not worth caching; moving others gains more")
    return Line(rates, item, "disk", 0, "too cold, or too large for this flash")
