"""Times of reads from disk, as the cache measures them for itself, whatever track_io_timing says."""

from __future__ import annotations

import math
from collections.abc import Iterable

ENOUGH = 100  # reads that a mean is taken from
READS = ("disk read", "page cache read")  # of pg_stat_flashcache_latency: what disk_reads counts, as far as it is timed


def middle_us(from_us: float, to_us: float | None) -> float:
    """Of a bucket, whose width doubles from one to the next."""
    least = max(float(from_us), 0.5)
    return math.sqrt(least * (float(to_us) if to_us is not None else 2 * least))


def mean_ms(reads: float, time_us: float) -> float | None:
    """Of counters. None: too few for a mean."""
    return time_us / reads / 1000 if reads >= ENOUGH else None


def totals(buckets: Iterable[tuple[float, float | None, float]]) -> tuple[float, float]:
    """Of a histogram, from, to and count of each bucket: how many, and their time in microseconds, by the middle of the buckets."""
    found = [(count, middle_us(from_us, to_us)) for from_us, to_us, count in buckets]
    return sum(count for count, _ in found), sum(count * middle for count, middle in found)
