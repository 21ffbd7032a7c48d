"""What sessions wait for, looked at once a second between two snapshots, and how busy the processors of a local server were."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import psutil

from pgflash.pilot.db import Connection
from pgflash.pilot.sampler import cpu_seconds
from pgflash.snapshots.server import Extra

WAITS = "sampled_waits"
HOST = "host"
PERIOD_S = 1.0
GAP_S = 5.0  # so long without a look, as while the server was not reachable, is not sampled

# Sessions of clients and their parallel workers at work: what the server does in the background has no share in their time, nor has
# a client that is waited for.
_ACTIVE = """
SELECT coalesce(wait_event_type, 'CPU'), coalesce(wait_event, ''), count(*)
FROM pg_catalog.pg_stat_activity
WHERE state = 'active' AND backend_type IN ('client backend', 'parallel worker') AND pid <> pg_catalog.pg_backend_pid()
  AND wait_event IS DISTINCT FROM 'ClientRead'
GROUP BY 1, 2"""


class WaitSampler:
    """Counts since it was last cleared."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, str]] = Counter()
        self._looks = 0
        self._sampled_s = 0.0
        self._last: float | None = None

    def look(self, connection: Connection) -> None:
        for event_type, event, count in connection.execute(_ACTIVE):
            self._seen[(event_type, event)] += count
        self._looks += 1
        now = time.monotonic()
        since = PERIOD_S if self._last is None else now - self._last
        self._sampled_s += since if since < GAP_S else PERIOD_S
        self._last = now

    def clear(self) -> None:
        self._seen, self._looks, self._sampled_s = Counter(), 0, 0.0

    def section(self) -> Extra:
        """For a snapshot."""
        if not self._looks:
            return Extra(WAITS, None, problem="no samples: pgflash snapshot --every takes them")
        rows: list[dict[str, Any]] = [
            {"key": "", "labels": {"period_s": PERIOD_S}, "moved": {"looks": self._looks, "sampled_s": round(self._sampled_s, 3)}}
        ]
        for (event_type, event), count in sorted(self._seen.items()):
            rows.append({"key": f"{event_type}/{event}", "labels": {"event_type": event_type, "event": event}, "moved": {"samples": count}})
        return Extra(WAITS, rows)


def is_local(connection: Connection) -> bool:
    host = connection.info.host
    return not host or host.startswith(("/", "@")) or host in ("localhost", "127.0.0.1", "::1")


def host(connection: Connection, before: dict[str, Any] | None) -> Extra:
    """Processors since the last snapshot, if the server is on this machine and that has not been started again since."""
    if not is_local(connection):
        return Extra(HOST, None, problem="the server is not on the machine that pgflash runs on")
    busy, idle = cpu_seconds()
    boot = f"{psutil.boot_time():.0f}"
    state = {"": {"s": boot, "c": {"cpu_busy_s": round(busy, 2), "cpu_idle_s": round(idle, 2)}}}
    if before is None:
        return Extra(HOST, None, state, "counted from this snapshot on")
    then = before.get("", {})
    if abs(float(then.get("s", 0)) - float(boot)) > 2 or busy < then["c"]["cpu_busy_s"]:
        return Extra(HOST, None, state, "the machine was started again")
    moved = {"cpu_busy_s": round(busy - then["c"]["cpu_busy_s"], 2), "cpu_idle_s": round(max(0.0, idle - then["c"]["cpu_idle_s"]), 2)}
    return Extra(HOST, [{"key": "", "labels": {"cpus": psutil.cpu_count() or 0}, "moved": moved}], state)


def next_due(due: float, period_s: float) -> float:
    """The next moment of a schedule: what was missed is left out, not made up for."""
    due += period_s
    now = time.monotonic()
    return due if due > now else now + period_s - (now - due) % period_s
