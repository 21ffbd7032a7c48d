"""Shared memory for each slot: what the view says, and what the server has handed out under the extension's names, which the
extension cannot leave out. Bytes / slots.
"""

from __future__ import annotations

from bench.harness import Bench, say
from pgflash.system import free_bytes
from pgflash.units import MB

SIZES_MB = (128, 1024, 8192)
COUNTED = ("slots", "view_bytes_per_slot", "allocated_bytes_per_slot")


def figure(bench: Bench) -> None:
    a = bench.make("a")
    for mb in SIZES_MB:
        if free_bytes(bench.work.path) < (mb + 1000) * MB:
            say(f"no room for a flash file of {mb}MB")
            continue
        bench.start_flash("a", f"{mb}MB", {"shared_buffers": "64MB"}, database="postgres")
        slots, view = a.sql("postgres", "SELECT slots, memory_per_slot FROM pg_stat_flashcache").split()
        allocated = a.sql("postgres", "SELECT sum(allocated_size) FROM pg_shmem_allocations WHERE name ~ 'flashcache'")
        values = (int(slots), round(float(view), 3), round(int(allocated) / int(slots), 3))
        bench.record.add(f"{mb}MB", 1, **dict(zip(COUNTED, values, strict=True)))
        a.stop()
    bench.record.table(COUNTED, [f"{mb}MB" for mb in SIZES_MB])
    bench.record.result(
        "bytes of shared memory per slot, 1 GB of flash", bench.record.median("1024MB", "allocated_bytes_per_slot"), "at most 40"
    )
