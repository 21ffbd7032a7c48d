"""Which steps a study takes, and what happens when one goes wrong."""

from __future__ import annotations

import itertools
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pgflash.errors import BrokeOff, DiskFull, ScenarioError
from pgflash.lab.warm import is_plateau
from pgflash.pilot import runner
from pgflash.pilot.progress import TerminalReporter
from pgflash.pilot.runner import Clock, Outcome, Runner, thinned
from pgflash.pilot.scenario import Scenario, parse_scenario
from pgflash.pilot.store import RUNS, open_study, read_lines, step_key
from pgflash.system import undisturbed

from . import fakes
from .conftest import MINIMAL

ALL = {
    ("minimal", variant, clients, repetition)
    for variant in ("disk", "cache@20%", "cache@64MB")
    for clients in (2, 4)
    for repetition in (1, 2)
}


def run(scenario: Scenario, folder: Path, base: Path) -> Outcome:
    return Runner([scenario], folder, base, TerminalReporter(quiet=True)).run()


def test_all_steps_once(tmp_path: Path, minimal: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch)
    outcome = run(minimal, tmp_path / "study", tmp_path)
    study = open_study(tmp_path / "study")
    assert (outcome.done, outcome.skipped, outcome.failed) == (12, 0, [])
    assert sorted(step_key(line) for line in study.runs) == sorted(ALL)
    assert len(study.of("warmup")) == 6
    starts = [call for call in fakes.LAST[0].calls if call.startswith("start")]
    assert starts == [f"start {name}" for name in ("disk", "cache@20%", "cache@64MB", "cache@20%", "cache@64MB", "disk")], (
        "no arm is always first"
    )
    assert fakes.LAST[0].calls.count("stop") == 6
    assert fakes.LAST[0].calls[-1] == "close"


def test_the_disk_is_slow_while_measuring_only(tmp_path: Path, minimal: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    fakes.install(monkeypatch, lambda number: seen.append(next(call for call in reversed(fakes.LAST[0].calls) if call in ("slow", "warm"))))
    run(minimal, tmp_path / "study", tmp_path)
    assert seen == ["slow"] * 12
    assert fakes.LAST[0].calls[-3:-1] == ["warm", "stop"]


@pytest.mark.parametrize("at", range(1, 13))
def test_an_interrupted_study_goes_on(at: int, tmp_path: Path, minimal: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(number: int) -> None:
        if number == at:
            raise KeyboardInterrupt

    fakes.install(monkeypatch, interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(minimal, tmp_path / "study", tmp_path)
    assert fakes.LAST[0].calls[-2:] == ["stop", "close"], "nothing is left behind"
    before = (tmp_path / "study" / RUNS).read_text()
    assert len(open_study(tmp_path / "study").runs) == at - 1
    fakes.install(monkeypatch)
    outcome = run(minimal, tmp_path / "study", tmp_path)
    assert (outcome.done, outcome.skipped) == (13 - at, at - 1)
    assert (tmp_path / "study" / RUNS).read_text().startswith(before), "what was there is not touched"
    assert sorted(step_key(line) for line in open_study(tmp_path / "study").runs) == sorted(ALL), "each step once"


def test_a_complete_study_starts_nothing(tmp_path: Path, minimal: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch)
    run(minimal, tmp_path / "study", tmp_path)
    fakes.install(monkeypatch)
    outcome = run(minimal, tmp_path / "study", tmp_path)
    assert (outcome.done, outcome.skipped) == (0, 12)
    assert fakes.LAST == []


def test_an_arm_that_fails_is_recorded_and_the_others_go_on(tmp_path: Path, minimal: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(number: int) -> None:
        if number == 2:
            raise BrokeOff("the server is gone")

    fakes.install(monkeypatch, fail)
    outcome = run(minimal, tmp_path / "study", tmp_path)
    assert outcome.done == 11
    assert outcome.failed == ["minimal, disk, run 1: the server is gone"]
    (failed,) = open_study(tmp_path / "study").of("failed")
    assert (failed["variant"], failed["repetition"], failed["error"]) == ("disk", 1, "the server is gone")
    fakes.install(monkeypatch)
    assert run(minimal, tmp_path / "study", tmp_path).done == 1, "the failed one is tried again"


@pytest.mark.parametrize("own", [True, False])
def test_what_ends_a_study_at_once(own: bool, tmp_path: Path, minimal: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk in any case, a server that is gone where it is not ours to start again."""

    def fail(number: int) -> None:
        if number == 3:
            raise DiskFull("the disk is full") if own else BrokeOff("gone")

    scenario = minimal if own else replace(minimal, server=replace(minimal.server, dsn="host=db"))
    fakes.install(monkeypatch, fail)
    with pytest.raises(BrokeOff):
        run(scenario, tmp_path / "study", tmp_path)
    assert len(open_study(tmp_path / "study").runs) == 2
    assert fakes.LAST[0].calls[-2:] == ["stop", "close"]


def test_moved_objects_are_ranked_before_warming_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = parse_scenario(
        MINIMAL.replace("repetitions = 2", "repetitions = 1") + '[[arm]]\nname = "hot"\nmoved = "hottest"\n', "minimal", Path()
    )
    fakes.install(monkeypatch)
    run(scenario, tmp_path / "study", tmp_path)
    calls = fakes.LAST[0].calls
    assert calls[calls.index("start hot") + 1] == "rank hot"
    assert [call for call in calls if call.startswith("rank")] == ["rank hot"]


def test_a_consistency_check_that_fails_is_a_failure(tmp_path: Path, minimal: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch).passed = False
    outcome = run(minimal, tmp_path / "study", tmp_path)
    assert outcome.done == 12
    assert len(outcome.failed) == 6
    assert outcome.failed[0] == "minimal, disk: all is well: looked"


def test_lines_say_what_was_measured(tmp_path: Path, minimal: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch)
    run(minimal, tmp_path / "study", tmp_path)
    lines = read_lines(tmp_path / "study" / RUNS)
    assert [line["kind"] for line in lines[:4]] == ["study", "warmup", "run", "run"]
    run_line = next(line for line in lines if line["kind"] == "run" and line["variant"] == "cache@20%")
    assert run_line["arm"] == {
        "name": "cache", "data": "disk", "moved": "none", "cache": "20%", "cache_share": 0.2, "enabled": "", "extra_memory": "", "server": 15,
        "page_cache": "limited", "tuning": "none", "follow": False, "settings": {},
    }  # fmt: skip
    assert (run_line["tps"], run_line["average_ms"], run_line["percentiles"]["p95"]) == (100.0, 20.0, 30.0)


def test_an_interruption_while_cleaning_up_waits_and_counts() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), undisturbed():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        done.append("cleaned up")
    assert done == ["cleaned up"]
    with undisturbed():
        done.append("nothing came")
    assert len(done) == 2


# --- the plateau ---


def slices(ratios: list[float], filled: list[float] | None) -> list[dict[str, float | None]]:
    return [
        {"hit_ratio": ratio if filled is not None else None, "buffer_hit_ratio": ratio, "filled": full}
        for ratio, full in itertools.zip_longest(ratios, filled or [], fillvalue=None)
    ]


@pytest.mark.parametrize(
    ("ratios", "filled", "expected"),
    [
        ([0.5, 0.5, 0.5], [0.9, 0.9, 0.9], False),  # too few to tell
        ([0.5, 0.5, 0.5, 0.5], [0.9, 0.9, 0.9, 0.9], True),
        ([0.5, 0.501, 0.502, 0.5031], [0.9, 0.9, 0.9, 0.9], False),  # slow, and still rising
        ([0.5, 0.501, 0.502, 0.5029], [0.9, 0.9, 0.9, 0.9], True),
        ([0.5, 0.5, 0.5, 0.5], [0.1, 0.2, 0.3, 0.4], False),  # flat, but the cache is filling
        ([0.5, 0.5, 0.5, 0.5], [0.4, 0.4, 0.4, 0.405], True),  # nothing more to take
        ([0.5, 0.5, 0.5, 0.4], [0.9, 0.9, 0.9, 0.9], True),  # it fell: no rise to wait for
        ([0.75, 0.69, 0.7, 0.71], [0.8, 0.83, 0.85, 0.87], False),  # as the page cache takes a part, and it is filling
        ([0.5, 0.5, 0.5, 0.5], None, True),  # without a cache the buffer pool's ratio counts
        ([0.2, 0.3, 0.4, 0.5], None, False),
    ],
)
def test_plateau(ratios: list[float], filled: list[float] | None, expected: bool) -> None:
    assert is_plateau(slices(ratios, filled), 0.3, 3) is expected


def test_time_left(minimal: Scenario) -> None:
    clock = Clock(starts_left=6, seconds_left=24)
    assert clock.left(minimal) == 6 * (20 + 60) + 24
    clock.starts, clock.spent_s, clock.starts_left = 2, 30.0, 4
    assert clock.left(minimal) == 4 * 15 + 24


def test_time_left_comes_to_nothing(tmp_path: Path, minimal: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts of 30 s and measurements of 2 s, by a clock of ours: told is never more than before, and at the end nothing."""
    now = 0.0
    told: list[float] = []

    def passes(seconds: float) -> None:
        nonlocal now
        now += seconds

    class Listener(TerminalReporter):
        def working_on(self, text: str, left_s: float) -> None:
            told.append(left_s)

        def finished(self, line: dict[str, Any], left_s: float) -> None:
            told.append(left_s)

    fakes.install(monkeypatch, lambda _: passes(2))
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: now))
    slow = Runner([minimal], tmp_path / "study", tmp_path, Listener(quiet=True))
    monkeypatch.setattr(slow, "_warm", lambda *_: passes(30))
    slow.run()
    assert told == sorted(told, reverse=True)
    assert told[0] == 6 * (20 + 60) + 12 * 2
    assert told[-1] == 0


def test_a_share_that_is_no_cache(tmp_path: Path, minimal: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known only when the database is there: said before anything is measured."""
    fakes.install(monkeypatch)
    small = parse_scenario(MINIMAL.replace('"20%"', '"0.09%"'), "minimal", Path())
    with pytest.raises(ScenarioError) as caught:
        run(small, tmp_path / "study", tmp_path)
    assert caught.value.faults == ["flash.sizes: 0.09% of a database of 1000 MB is 922 kB; allowed: 1 MB or more"]
    assert fakes.LAST[0].calls == ["prepare", "close"]


def test_long_series_are_thinned() -> None:
    assert thinned(list(range(600))) == list(range(600))
    assert thinned(list(range(1800))) == list(range(0, 1800, 3))
    assert thinned([]) == []
