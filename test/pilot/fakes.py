"""A target and a driver that need no server: what the runner does with them is what is tested."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pgflash.pilot import runner
from pgflash.pilot.loads import LoadResult
from pgflash.pilot.scenario import Load, Scenario, Variant
from pgflash.pilot.target import Place, Started
from pgflash.system import Device

PLACE = Place("/nowhere", 1, "nobody", "nothing")


class FakeDriver:
    """Calls `before_run` with the number of the measured run, which may raise."""

    name = "fake"

    def __init__(self, before_run: Callable[[int], None]) -> None:
        self.before_run = before_run
        self.measured = 0
        self.passed = True

    def missing(self, bin_folder: str) -> str:
        return ""

    def space_mb(self) -> int:
        return 1

    def prepare(self, place: Place, work: Path) -> None:
        pass

    def run(self, place: Place, clients: int, seconds: int, work: Path, *, measured: bool) -> LoadResult:
        if measured:
            self.measured += 1
            self.before_run(self.measured)
        return LoadResult(100 * clients, 50.0 * clients, 20.0, {"p50": 18.0, "p95": 30.0, "p99": 40.0}, [[0, 18.0, 30.0, 40.0]])

    def check(self, place: Place, work: Path) -> dict[str, Any] | None:
        return {"what": "all is well", "passed": self.passed, "detail": "looked"}


class FakeTarget:
    """Notes what is asked of it."""

    def __init__(self, scenario: Scenario, *_: object) -> None:
        self.database_bytes = 1000 * 1024 * 1024
        self.log_folder = Path("/nowhere")
        self.calls: list[str] = []
        LAST.append(self)

    def prepare(self) -> None:
        self.calls.append("prepare")

    def start(self, variant: Variant) -> Started:
        self.calls.append(f"start {variant.name}")
        return Started(PLACE, {"server": "fake", "flash_mb": 1})

    def rank(self, variant: Variant, started: Started) -> Started:
        self.calls.append(f"rank {variant.name}")
        return started

    def slow(self) -> None:
        self.calls.append("slow")

    def warm_speed(self) -> None:
        self.calls.append("warm")

    def devices(self) -> dict[str, list[Device]]:
        return {}

    def memory_peak_mb(self) -> int | None:
        return None

    def fail_over(self, variant: Variant, load: Callable[[int], LoadResult]) -> None:
        return None

    def stop(self) -> None:
        self.calls.append("stop")

    def close(self) -> None:
        self.calls.append("close")


LAST: list[FakeTarget] = []


class FakeSample:
    """Counters that have reached their plateau."""

    def __init__(self) -> None:
        self.at = time.monotonic()
        self.sql: dict[str, int] = {"database.blks_hit": 1, "database.blks_read": 1}
        self.nodes = [self.sql]
        self.devices: dict[str, Any] = {}
        self.cpu = (0.0, 1.0)

    def device(self, name: str) -> None:
        return None


@contextmanager
def _no_sampler(*_: object) -> Any:
    class Nothing:
        lost = ""
        columns: dict[str, list[float | None]] = {}  # noqa: RUF012

    yield Nothing()


def install(monkeypatch: pytest.MonkeyPatch, before_run: Callable[[int], None] = lambda number: None) -> FakeDriver:
    driver = FakeDriver(before_run)
    LAST.clear()

    def driver_for(load: Load) -> FakeDriver:
        return driver

    def row(*_: object) -> dict[str, float | None]:
        return {"t": 1.0, "hit_ratio": None, "buffer_hit_ratio": 0.5, "filled": None}

    monkeypatch.setattr(runner, "driver_for", driver_for)
    monkeypatch.setattr(runner, "OwnTarget", FakeTarget)
    monkeypatch.setattr(runner, "ExistingTarget", FakeTarget)
    monkeypatch.setattr(runner, "sample", lambda *_: FakeSample())
    monkeypatch.setattr(runner, "Sampler", _no_sampler)
    monkeypatch.setattr(runner, "moved", row)
    monkeypatch.setattr("pgflash.pilot.preflight.check", lambda *_: [])
    return driver
