"""Runs caches of libcachesim on what happens below a buffer pool: python others.py STREAM SLOTS WRITES.

Each page that is read is looked up, and comes into the cache if it was not there. A page that is written back is not counted as a
read; it comes into the cache, or replaces what is there. Each of these is a write to flash. Prints a line of JSON for each algorithm,
and one for the same (`ARC, same writes`) if only so large a share of the pages is let in, drawn at random, that it writes WRITES times
for each read, or a little more.
"""

from __future__ import annotations

import importlib
import json
import sys
from array import array
from pathlib import Path
from typing import Any

ALGORITHMS = {"ARC": "ARC", "S3-FIFO": "S3FIFO", "LIRS": "LIRS", "W-TinyLFU": "WTinyLFU"}
TRIES = 4


class Runs:
    """One algorithm, over the stream again and again."""

    def __init__(self, library: Any, algorithm: str, slots: int, events: array[int]) -> None:
        self._library, self._algorithm, self._slots, self._events = library, getattr(library, algorithm), slots, events

    def run(self, share: float) -> tuple[float, float]:
        """Hit ratio and writes for each read if that share of what is not there is let in."""
        admissioner = None if share >= 1 else self._library.ProbAdmissioner(share)
        cache = self._algorithm(cache_size=self._slots, admissioner=admissioner)
        request = self._library.Request()
        request.obj_size = 1
        reads = hits = written = refused = 0
        for event in self._events:
            request.obj_id = event // 2 + 1
            there = cache.get(request)
            refused += not there
            if event % 2:
                written += there
            else:
                reads += 1
                hits += there
        return hits / reads, (written + min(share, 1.0) * refused) / reads

    def at(self, writes: float, all_writes: float) -> tuple[float, float]:
        """With about so many writes, rather more than fewer."""
        share, least = min(1.0, writes / all_writes), 0.0
        hit_ratio, written = self.run(share)
        for _ in range(TRIES):
            if writes <= written <= writes * 1.05 or share >= 1:
                break
            least = share if written < writes else least
            share = min(1.0, max(share * writes * 1.02 / written, least))
            hit_ratio, written = self.run(share)
        return hit_ratio, written


def _say(name: str, figures: tuple[float, float]) -> None:
    print(json.dumps({"candidate": name, "hit_ratio": round(figures[0], 4), "writes_per_read": round(figures[1], 4)}), flush=True)


def main(stream: str, slots: str, writes: str) -> None:
    library = importlib.import_module("libcachesim")
    events = array("Q", Path(stream).read_bytes())
    if sys.byteorder == "big":
        events.byteswap()
    for name, algorithm in ALGORITHMS.items():
        runs = Runs(library, algorithm, int(slots), events)
        whole = runs.run(1)
        _say(name, whole)
        _say(f"{name}, same writes", runs.at(float(writes), whole[1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
