"""The model of a split, and its solution. Pure: no server, no files.

An object on flash for good has all its reads and writes answered there. What stays on disk shares the cache: a part of an object that
is the share f of it answers the share f ** exponent of its reads. Not of those of large sequential scans, which go past the cache.
The cache holds the parts that gain most a byte, which is what a replacement policy approaches. Writes go to the disk with a cache,
too. So the cost of a split is the time a second that reads and writes take on the devices.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

EXPONENT = 0.3
KNOTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
EXACT = 10  # that many candidates are tried in all combinations
CANDIDATES = 60
WORTH = 0.01  # of an object in the cache: less is called none


@dataclass(frozen=True)
class Item:
    """A thing that can be moved as a whole. Rates are pages a second, times are of one page, in ms."""

    key: str
    bytes: int
    reads: float
    writes: float
    disk_ms: float
    flash_ms: float
    movable: bool = True
    cacheable: bool = True
    scans: float = 0.0  # of the reads: those that a cache is not filled by

    @property
    def on_disk(self) -> float:
        """Time on the device, ms a second."""
        return (self.reads + self.writes) * self.disk_ms

    @property
    def on_flash(self) -> float:
        return (self.reads + self.writes) * self.flash_ms

    @property
    def saving(self) -> float:
        return self.on_disk - self.on_flash

    @property
    def cached_reads(self) -> float:
        """Those that a cache can answer."""
        return max(0.0, self.reads - self.scans)

    @property
    def may_be_cached(self) -> bool:
        """Written more often than read: the cache would be written for nothing."""
        return self.cacheable and self.cached_reads > self.writes and self.disk_ms > self.flash_ms

    @property
    def density(self) -> float:
        return self.saving / max(self.bytes, 1)


@dataclass(frozen=True)
class Segment:
    """A part of an object in the cache: so many bytes save so much time a second."""

    item: int
    bytes: float
    saving: float


@dataclass(frozen=True)
class Split:
    """Of an amount of flash."""

    flash: int
    moved: tuple[str, ...]
    cache: int
    cached: dict[str, int]  # bytes of an object that the cache holds, by the model
    cost: float  # ms a second


def answered(share: float, exponent: float = EXPONENT) -> float:
    """What share of an object's reads the share of it in the cache answers, between the knots by straight lines."""
    share = min(max(share, 0.0), 1.0)
    for low, high in itertools.pairwise(KNOTS):
        if share <= high:
            before, after = math.pow(low, exponent), math.pow(high, exponent)
            return before + (after - before) * (share - low) / (high - low)
    return 1.0


def fit_exponent(points: Sequence[tuple[float, float]]) -> float:
    """The exponent that comes closest to measured points: share of what is cached, share of reads that were answered."""
    if not points:
        return EXPONENT
    grid = [number / 100 for number in range(5, 101)]
    return min(grid, key=lambda exponent: sum((answered(share, exponent) - hit) ** 2 for share, hit in points))


class Problem:
    """The same objects with the curve, for as many amounts of flash as are asked."""

    def __init__(self, items: Iterable[Item], exponent: float = EXPONENT) -> None:
        self.items = list(items)
        self.exponent = exponent
        self.worst = sum(item.on_disk for item in self.items)
        order = sorted(range(len(self.items)), key=lambda index: -self.items[index].density)
        self.candidates = [index for index in order if self.items[index].movable and self.items[index].saving > 0][:CANDIDATES]
        self.segments = sorted(self._cut(), key=lambda segment: -segment.saving / max(segment.bytes, 1e-9))

    def _cut(self) -> Iterable[Segment]:
        for index, item in enumerate(self.items):
            if not item.may_be_cached:
                continue
            gain = item.cached_reads * (item.disk_ms - item.flash_ms)
            for low, high in itertools.pairwise(KNOTS):
                share = answered(high, self.exponent) - answered(low, self.exponent)
                yield Segment(index, item.bytes * (high - low), gain * share)

    def _cost(self, flash: int, moved: frozenset[int], cached: dict[int, float] | None = None) -> float | None:
        """None: they do not fit. `cached` is filled with bytes."""
        room: float = flash - sum(self.items[index].bytes for index in moved)
        if room < 0:
            return None
        cost = self.worst - sum(self.items[index].saving for index in moved)
        for segment in self.segments:
            if segment.item in moved:
                continue
            part = min(1.0, room / segment.bytes) if segment.bytes else 1.0
            cost -= segment.saving * part
            room -= segment.bytes * part
            if cached is not None:
                cached[segment.item] = cached.get(segment.item, 0.0) + segment.bytes * part
            if room <= 0:
                break
        return cost

    def split(self, flash: int, moved: Iterable[str]) -> Split | None:
        """That of given objects; None: they do not fit."""
        keys = set(moved)
        return self._split(flash, frozenset(index for index, item in enumerate(self.items) if item.key in keys))

    def _split(self, flash: int, moved: frozenset[int]) -> Split | None:
        cached: dict[int, float] = {}
        cost = self._cost(flash, moved, cached)
        if cost is None:
            return None
        held = {
            self.items[index].key: round(count) for index, count in cached.items() if count >= max(1.0, WORTH * self.items[index].bytes)
        }
        # Flash that the cache could not fill is not bought for it.
        return Split(
            flash, tuple(self.items[index].key for index in self.candidates if index in moved), round(sum(cached.values())), held, cost
        )

    def exact(self, flash: int) -> Split:
        """All combinations of the candidates."""
        choices = itertools.chain.from_iterable(itertools.combinations(self.candidates, count) for count in range(len(self.candidates) + 1))
        return self._best(flash, (frozenset(choice) for choice in choices))

    def greedy(self, flash: int) -> Split:
        """From several beginnings, one step at a time: adds, removes or exchanges an object as long as that saves time."""
        beginnings: list[frozenset[int]] = [frozenset()]
        taken: list[int] = []
        room = flash
        for index in self.candidates:
            if self.items[index].bytes <= room:
                taken.append(index)
                room -= self.items[index].bytes
        beginnings += [frozenset(taken), frozenset(taken[: len(taken) // 2])]
        return self._best(flash, [self._climb(flash, beginning) for beginning in beginnings])

    def _climb(self, flash: int, moved: frozenset[int]) -> frozenset[int]:
        cost = self._cost(flash, moved)
        assert cost is not None
        while True:
            found = self._step(flash, moved, cost)
            if found is None:
                return moved
            moved, cost = found

    def _step(self, flash: int, moved: frozenset[int], cost: float) -> tuple[frozenset[int], float] | None:
        limit = cost - 1e-9 * max(1.0, self.worst)
        for choices in (self._neighbours(moved), self._exchanges(moved)):
            best: tuple[frozenset[int], float] | None = None
            for choice in choices:
                new = self._cost(flash, choice)
                if new is not None and new < (best[1] if best else limit):
                    best = (choice, new)
            if best:
                return best
        return None

    def _neighbours(self, moved: frozenset[int]) -> Iterable[frozenset[int]]:
        for index in self.candidates:
            yield moved ^ {index}

    def _exchanges(self, moved: frozenset[int]) -> Iterable[frozenset[int]]:
        for gone in moved:
            for index in self.candidates:
                if index not in moved:
                    yield (moved - {gone}) | {index}

    def _best(self, flash: int, choices: Iterable[frozenset[int]]) -> Split:
        best: tuple[float, int, frozenset[int]] | None = None
        for choice in choices:
            cost = self._cost(flash, choice)
            if cost is not None and (best is None or (cost, len(choice)) < best[:2]):
                best = (cost, len(choice), choice)
        assert best is not None  # nothing moved always fits
        split = self._split(flash, best[2])
        assert split is not None
        return split

    def solve(self, flash: int) -> Split:
        return self.exact(flash) if len(self.candidates) <= EXACT else self.greedy(flash)

    def curve(self, most: int, points: int = 16) -> list[Split]:
        """Splits of growing amounts of flash; more flash never costs more time, also where the search missed it."""
        found: list[Split] = []
        for number in range(points + 1):
            flash = round(most * number / points)
            split = self.solve(flash)
            if found and split.cost > found[-1].cost:
                before = found[-1]
                split = Split(flash, before.moved, before.cache, before.cached, before.cost)
            found.append(split)
        return found
