"""Once a second, while a load runs: what moved. A thread of its own, with a connection of its own to each node.

Of several nodes counters and devices are added up, but for the share of time that a device is busy, which is their average.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any

import psutil
import psycopg

from pgflash.errors import PgflashError
from pgflash.pilot import db
from pgflash.pilot.target import Place
from pgflash.system import Device, DeviceCounters

Devices = Mapping[str, Sequence[Device]]
COLUMNS = (
    "t", "tps", "hit_ratio", "buffer_hit_ratio", "filled", "flash_reads", "flash_page_writes", "disk_reads", "disk_write_bytes",
    "flash_write_bytes", "cpu",
)  # fmt: skip


def cpu_seconds() -> tuple[float, float]:
    """Seconds all processors were busy, and idle (waiting for I/O is idle)."""
    times = psutil.cpu_times()
    return times.user + times.nice + times.system + times.irq + times.softirq + times.steal, times.idle + times.iowait


def added(nodes: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for node in nodes:
        total.update(node)
    return dict(total)


def together(each: Sequence[DeviceCounters]) -> DeviceCounters:
    total = DeviceCounters(*(sum(column) for column in zip(*map(astuple, each), strict=True)))
    return replace(total, busy_ms=total.busy_ms // len(each))


@contextlib.contextmanager
def connected(places: Sequence[Place]) -> Iterator[list[db.Connection]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(db.connect_to(place))) for place in places]


class Sample:
    """Everything that is counted, at one moment."""

    def __init__(self, connections: Sequence[db.Connection], devices: Devices) -> None:
        self.at = time.monotonic()
        self.nodes = [db.counters(connection) for connection in connections]
        self.sql = added(self.nodes)
        self.devices = {name: together([device.counters() for device in each]) for name, each in devices.items()}
        self.cpu = cpu_seconds()

    def device(self, name: str) -> DeviceCounters | None:
        return self.devices.get(name)


class Sampler:
    def __init__(self, places: Sequence[Place], devices: Devices, period_s: float = 1.0) -> None:
        self.places = places
        self.devices = devices
        self.period_s = period_s
        self.columns: dict[str, list[float | None]] = {name: [] for name in COLUMNS}
        self.lost = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(15)

    def _work(self) -> None:
        try:
            with connected(self.places) as connections:
                self._sample(connections)
        except (PgflashError, psycopg.Error, OSError) as error:
            self.lost = str(error)

    def _sample(self, connections: Sequence[db.Connection]) -> None:
        began = Sample(connections, self.devices)
        last = began
        due = began.at
        while True:
            due += self.period_s
            if self._stop.wait(max(0.0, due - time.monotonic())):
                return
            now = Sample(connections, self.devices)
            for name, number in moved(last, now, now.at - began.at).items():
                self.columns[name].append(number)
            last = now


def moved(before: Sample, after: Sample, t: float) -> dict[str, float | None]:
    """A row of COLUMNS: rates a second."""
    seconds = max(0.001, after.at - before.at)

    def rate(name: str) -> float:
        return round(db.delta(before.sql, after.sql, name) / seconds, 2)

    def device_rate(device: str, what: str) -> float | None:
        then, now = before.device(device), after.device(device)
        return None if then is None or now is None else round((getattr(now, what) - getattr(then, what)) / seconds, 2)

    busy, idle = after.cpu[0] - before.cpu[0], after.cpu[1] - before.cpu[1]
    slots = after.sql.get("cache.slots", 0)
    row: dict[str, float | None] = {
        "t": round(t, 2),
        "tps": rate("database.xact_commit"),
        "hit_ratio": _rounded(db.hit_ratio(before.sql, after.sql)),
        "buffer_hit_ratio": _rounded(db.buffer_hit_ratio(before.sql, after.sql)),
        "filled": round(after.sql.get("cache.used", 0) / slots, 4) if slots else None,
        "flash_reads": rate("cache.hits") if slots else None,
        "flash_page_writes": rate("cache.inserts") if slots else None,
        "disk_reads": device_rate("disk", "reads"),
        "disk_write_bytes": device_rate("disk", "write_bytes"),
        "flash_write_bytes": rate("cache.write_bytes") if slots else device_rate("flash", "write_bytes"),
        "cpu": _rounded(db.ratio(busy, idle)),
    }
    return row


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 4)


def _counted(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {name: db.delta(before, after, name) for name in after if name not in ("cache.slots", "cache.used", "cache.memory_bytes")}


def totals(before: Sample, after: Sample, transactions: int) -> dict[str, Any]:
    """What a whole run moved: counters, devices, and what is made of them."""
    seconds = max(0.001, after.at - before.at)
    nodes = [_counted(then, now) for then, now in zip(before.nodes, after.nodes, strict=True)]
    counted = added(nodes)
    devices: dict[str, dict[str, float]] = {}
    for name, now in after.devices.items():
        then = before.devices.get(name)
        if then is not None:
            devices[name] = {
                "reads_per_s": round((now.reads - then.reads) / seconds, 1),
                "writes_per_s": round((now.writes - then.writes) / seconds, 1),
                "read_bytes": now.read_bytes - then.read_bytes,
                "write_bytes": now.write_bytes - then.write_bytes,
                "busy": round(min(1.0, (now.busy_ms - then.busy_ms) / 1000 / seconds), 4),
            }
    misses = counted.get("cache.misses", 0)
    inserts = counted.get("cache.inserts", 0)
    hits = counted.get("cache.hits", 0)
    found: dict[str, Any] = {
        "counters": counted,
        "devices": devices,
        "elapsed_s": round(seconds, 2),
        "hit_ratio": _rounded(db.hit_ratio(before.sql, after.sql)),
        "buffer_hit_ratio": _rounded(db.buffer_hit_ratio(before.sql, after.sql)),
        "cpu": _rounded(db.ratio(after.cpu[0] - before.cpu[0], after.cpu[1] - before.cpu[1])),
        "slots": after.sql.get("cache.slots"),
        "used": after.sql.get("cache.used"),
        "memory_bytes": after.sql.get("cache.memory_bytes"),
    }
    if len(nodes) > 1:
        found["nodes"] = [{"name": f"n{i + 1}", "counters": node} for i, node in enumerate(nodes)]
    if "cache.hits" in counted:
        found["flash_page_writes_per_miss"] = round(inserts / (hits + misses), 4) if hits + misses else None
        found["write_amplification"] = round(counted.get("cache.write_bytes", 0) / (inserts * 8192), 4) if inserts else None
        found["flash_write_bytes_per_s"] = round(counted.get("cache.write_bytes", 0) / seconds, 1)
    if "disk" in devices and transactions:
        found["disk_write_bytes_per_transaction"] = round(devices["disk"]["write_bytes"] / transactions, 1)
    return found


def sample(places: Sequence[Place], devices: Devices) -> Sample:
    with connected(places) as connections:
        return Sample(connections, devices)
