"""When a cache is warm: one rule for everything that is measured.

A load runs in slices; after each of them there is a row with the hit ratio of the cache over that slice (hit_ratio), that of
shared_buffers where there is no cache (buffer_hit_ratio), and the share of flash that is in use by then (filled).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from pgflash.lab.cluster import Cluster

Row = Mapping[str, float | None]
FLAT = 3  # slices


def hit_ratio(row: Row) -> float | None:
    """Of the cache; without one, of the buffer pool."""
    return row["hit_ratio"] if row["hit_ratio"] is not None else row["buffer_hit_ratio"]


def is_plateau(rows: Sequence[Row], step_points: float, flat: int = FLAT) -> bool:
    """Whether the last `flat` slices together raised the hit ratio by less than the step, and flash is not filling any more.

    The ratio alone says little: it falls while the page cache answers for ever more pages that are on flash.
    """
    if len(rows) <= flat:
        return False
    then, now = hit_ratio(rows[-1 - flat]), hit_ratio(rows[-1])
    if then is None or now is None or 100 * (now - then) >= step_points:
        return False
    filled = rows[-1]["filled"]
    return filled is None or filled - (rows[-1 - flat]["filled"] or 0.0) < 0.01


def warm(cluster: Cluster, database: str, one_slice: Callable[[], object], max_s: float, step_points: float) -> None:
    """With the disk's delays suspended, so that it takes a minute rather than hours. A line is printed after each slice."""
    rows: list[Row] = []
    cluster.let_pause(database, False)
    before = cluster.counters(database)
    began = time.monotonic()
    while not is_plateau(rows, step_points) and time.monotonic() - began < max_s:
        one_slice()
        now = cluster.counters(database)
        ratio = now.hit_ratio_since(before)
        rows.append({"hit_ratio": ratio, "buffer_hit_ratio": None, "filled": now["used"] / now["slots"]})
        print(f"        {100 * now['used'] // now['slots']}% of the flash used, {100 * ratio:.1f}% hits", flush=True)
        before = now
    cluster.let_pause(database, True)
