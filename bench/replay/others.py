"""Runs caches of libcachesim on what happens below a buffer pool: python others.py STREAM SLOTS.

Each page that is read is looked up, and comes into the cache if it was not there. A page that is written back is not counted as a
read; it comes into the cache, or replaces what is there. Each of these is a write to flash. Prints a line of JSON for each algorithm.
"""

from __future__ import annotations

import importlib
import json
import sys
from array import array
from pathlib import Path
from typing import Any

ALGORITHMS = {"ARC": "ARC", "S3-FIFO": "S3FIFO", "LIRS": "LIRS", "W-TinyLFU": "WTinyLFU"}


def run(cache: Any, request: Any, events: array[int]) -> tuple[float, float]:
    reads = hits = writes = 0
    request.obj_size = 1
    for event in events:
        request.obj_id = event // 2 + 1
        if event % 2:
            cache.get(request)
            writes += 1
        elif cache.get(request):
            reads += 1
            hits += 1
        else:
            reads += 1
            writes += 1
    return hits / reads, writes / reads


def main(stream: str, slots: str) -> None:
    library = importlib.import_module("libcachesim")
    events = array("Q", Path(stream).read_bytes())
    if sys.byteorder == "big":
        events.byteswap()
    for name, algorithm in ALGORITHMS.items():
        hit_ratio, writes = run(getattr(library, algorithm)(cache_size=int(slots)), library.Request(), events)
        print(json.dumps({"candidate": name, "hit_ratio": round(hit_ratio, 4), "writes_per_read": round(writes, 4)}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
