"""Runs the steps of a study that are not done yet.

    for each scenario: prepare cluster and data once
        for each repetition: for each variant, in an order that rotates, so that none is always the first
            start the server cold; move what is to be moved; warm up to the plateau
            for each number of clients: measure, with the failover of a cluster, save the line
            the load's own consistency checks

A variant that fails is recorded and the others go on; a full disk, an existing server that is gone and an interruption end
the study. In each case what was measured is on disk, and the same command goes on from there.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pgflash import __version__
from pgflash.errors import BrokeOff, DiskFull, MachineError, PgflashError, ScenarioError, StudyError
from pgflash.lab.warm import hit_ratio, is_plateau
from pgflash.pilot import preflight
from pgflash.pilot.existing import ExistingTarget, restore, undo_file
from pgflash.pilot.loads import Driver, driver_for
from pgflash.pilot.nodes import NodesTarget
from pgflash.pilot.own import OwnTarget
from pgflash.pilot.progress import Reporter
from pgflash.pilot.sampler import Sampler, moved, sample, totals
from pgflash.pilot.scenario import Scenario, Variant
from pgflash.pilot.store import Writer, step_key
from pgflash.pilot.target import Started, Target
from pgflash.system import describe_machine, undisturbed
from pgflash.units import MB, SMALLEST_CACHE, counted, show_bytes

MAX_ROWS = 600  # of a series that is kept


@dataclass
class Outcome:
    done: int = 0
    skipped: int = 0
    failed: list[str] = field(default_factory=list)


@dataclass
class Clock:
    """How long is left: from what starts took so far, or, before there is one, from the scenario.

    A start is all that is done for a variant but to measure, of which is known how long it takes.
    """

    spent_s: float = 0.0  # by starts that are over
    starts: int = 0  # that are over
    starts_left: int = 0  # that have not begun
    seconds_left: float = 0.0  # of measuring
    began_at: float | None = None  # the start under way
    measured: int = 0  # of it
    to_measure: int = 0

    def begin(self, measurements: int) -> None:
        self.starts_left -= 1
        self.began_at = time.monotonic()
        self.measured, self.to_measure = 0, measurements

    def one_measured(self, duration_s: int) -> None:
        self.measured += 1
        self.seconds_left -= duration_s

    def end(self, duration_s: int) -> None:
        self.spent_s += self._spent_now(duration_s)
        self.starts += 1
        self.seconds_left -= (self.to_measure - self.measured) * duration_s
        self.began_at = None

    def _spent_now(self, duration_s: int) -> float:
        return max(0.0, time.monotonic() - self.began_at - self.measured * duration_s) if self.began_at is not None else 0.0

    def left(self, scenario: Scenario) -> float:
        spent = self._spent_now(scenario.duration_s)
        each = self.spent_s / self.starts if self.starts else max(spent, 20 + min(scenario.warmup.max_s, 6 * scenario.warmup.slice_s))
        under_way = self.began_at is not None and self.measured == 0  # with a measurement it is as good as over
        return self.starts_left * each + (max(0.0, each - spent) if under_way else 0.0) + self.seconds_left


class Runner:
    def __init__(self, scenarios: list[Scenario], folder: Path, base: Path, reporter: Reporter, keep: bool = False) -> None:
        self.scenarios = scenarios
        self.base = base
        self.reporter = reporter
        self.keep = keep
        self.writer = Writer(folder)
        self.outcome = Outcome()
        self.clock = Clock()
        self.done: set[tuple[str, str, int, int]] = set()

    def check(self) -> None:
        """Everything that can be known before it starts."""
        for scenario in self.scenarios:
            for note in preflight.check(scenario, driver_for(scenario.load), self.base):
                self.reporter.say(f"{scenario.name}: {note}")

    def run(self) -> Outcome:
        self.done = {step_key(line) for line in self.writer.there() if line["kind"] == "run"}
        todo = [step for scenario in self.scenarios for step in self._steps(scenario)]
        self.outcome.skipped = sum(len(self._all_steps(scenario)) for scenario in self.scenarios) - len(todo)
        if todo:
            self.check()
        study = self.writer.open(self.scenarios)
        try:
            for words in restore(study):
                self.reporter.say(words)
            if todo:
                self._run(todo)
            else:
                self.reporter.say(f"all of this study is there already: {counted(self.outcome.skipped, 'run')}")
        finally:
            self.reporter.end()
            self.writer.close()
        return self.outcome

    def _run(self, todo: list[tuple[str, str, int, int]]) -> None:
        self._count(todo)
        files = {scenario.name: scenario.file for scenario in self.scenarios if scenario.file}
        names = [scenario.name for scenario in self.scenarios]
        self.writer.add("study", version=__version__, machine=describe_machine(), scenarios=names, files=files)
        self.reporter.begin(len(todo), self.clock.left(self.scenarios[0]))
        if self.outcome.skipped:
            self.reporter.say(f"there already: {counted(self.outcome.skipped, 'run')}")
        for scenario in self.scenarios:
            if self._steps(scenario):
                self._scenario(scenario)

    # --- steps ---

    def _all_steps(self, scenario: Scenario) -> list[tuple[str, str, int, int]]:
        return [
            (scenario.name, variant.name, clients, repetition)
            for repetition in range(1, scenario.repetitions + 1)
            for variant in _rotated(scenario.variants, repetition)
            for clients in scenario.load.clients
        ]

    def _steps(self, scenario: Scenario) -> list[tuple[str, str, int, int]]:
        return [step for step in self._all_steps(scenario) if step not in self.done]

    def _count(self, todo: list[tuple[str, str, int, int]]) -> None:
        durations = {scenario.name: scenario.duration_s for scenario in self.scenarios}
        self.clock.starts_left = len({(name, variant, repetition) for name, variant, _, repetition in todo})
        self.clock.seconds_left = float(sum(durations[name] for name, *_ in todo))

    def _scenario(self, scenario: Scenario) -> None:
        driver = driver_for(scenario.load)
        work = Path(tempfile.mkdtemp(prefix="pgflash-load.", dir=self.base))
        target: Target | None = None
        try:
            self.reporter.say(f"{scenario.name}: {scenario.title}")
            self.reporter.working_on(f"{scenario.name}: making the database", self.clock.left(scenario))
            if scenario.own_cluster:
                own = OwnTarget if scenario.cluster.nodes == 1 else NodesTarget
                target = own(scenario, driver, self.base, self.keep)
            else:
                target = ExistingTarget(scenario, driver, work, undo_file(self.writer.folder))
            began = time.monotonic()
            target.prepare()
            self.reporter.say(f"database of {target.database_bytes // 1048576} MB, made in {time.monotonic() - began:.0f} s")
            check_sizes(scenario, target.database_bytes)
            for repetition in range(1, scenario.repetitions + 1):
                for variant in _rotated(scenario.variants, repetition):
                    self._variant(scenario, target, driver, variant, repetition, work)
        finally:
            with undisturbed():
                if target is not None:
                    target.close()
                    if self.keep and scenario.own_cluster:
                        self.reporter.say(f"kept: {target.log_folder.parent}")
                shutil.rmtree(work, ignore_errors=True)

    def _variant(self, scenario: Scenario, target: Target, driver: Driver, variant: Variant, repetition: int, work: Path) -> None:
        clients = [n for n in scenario.load.clients if (scenario.name, variant.name, n, repetition) not in self.done]
        if not clients:
            return
        self.clock.begin(len(clients))
        what: dict[str, Any] = {"scenario": scenario.name, "variant": variant.name, "repetition": repetition}
        try:
            self.reporter.working_on(f"{scenario.name}: {variant.name}, starting", self.clock.left(scenario))
            started = target.start(variant)
            if variant.arm.moved != "none":
                started = target.rank(variant, started)
            self._warm(scenario, target, driver, started, what, work)
            for count in clients:
                self._measure(scenario, target, driver, variant, started, what | {"clients": count}, work)
            self._checks(driver, started, what, work)
        except (DiskFull, MachineError, StudyError):
            raise
        except PgflashError as error:
            self._failed(what, clients, error)
            if not scenario.own_cluster:
                raise
        finally:
            with undisturbed():
                target.stop()
            self.clock.end(scenario.duration_s)

    def _failed(self, what: dict[str, Any], clients: list[int], error: PgflashError) -> None:
        self.writer.add("failed", **what, clients=clients, error=error.message)
        self.outcome.failed.append(f"{what['scenario']}, {what['variant']}, run {what['repetition']}: {error.message}")
        self.reporter.say(f"{what['variant']}: failed, and recorded as such: {error.message}")

    # --- a server ---

    def _warm(self, scenario: Scenario, target: Target, driver: Driver, started: Started, what: dict[str, Any], work: Path) -> None:
        """The load that is measured, until its hit ratio has stopped rising."""
        warm = scenario.warmup
        devices = target.devices()
        rows: list[dict[str, float | None]] = []
        first = sample(started.counted, devices)
        last = first
        plateau = False
        while not plateau and last.at - first.at < warm.max_s:
            self.reporter.working_on(f"{scenario.name}: {what['variant']}, warming up{_hits_words(rows)}", self.clock.left(scenario))
            driver.run(started.place, max(scenario.load.clients), warm.slice_s, work, measured=False)
            now = sample(started.counted, devices)
            rows.append(moved(last, now, now.at - first.at))
            last = now
            plateau = is_plateau(rows, warm.step_points, warm.flat)
        self.writer.add(
            "warmup",
            **what,
            plateau=plateau,
            seconds=round(last.at - first.at, 1),
            disk=warm.disk,
            rows=rows,
            conditions=started.conditions,
        )
        self.reporter.say(
            f"{what['variant']}: warm after {last.at - first.at:.0f} s{_hits_words(rows)}"
            + ("" if plateau else "; no plateau in the time allowed")
        )

    def _measure(
        self, scenario: Scenario, target: Target, driver: Driver, variant: Variant, started: Started, what: dict[str, Any], work: Path
    ) -> None:
        self.reporter.working_on(f"{scenario.name}: {variant.name}, {counted(what['clients'], 'client')}", self.clock.left(scenario))
        devices = target.devices()
        target.slow()
        before = sample(started.counted, devices)
        with Sampler(started.counted, devices) as sampler:
            result = driver.run(started.place, int(what["clients"]), scenario.duration_s, work, measured=True)
        after = sample(started.counted, devices)
        target.warm_speed()
        if sampler.lost:
            raise BrokeOff(f"the server was gone while it was measured: {sampler.lost}")
        if scenario.cluster.failover:
            self.reporter.working_on(f"{scenario.name}: {variant.name}, failover", self.clock.left(scenario))
        failover = target.fail_over(variant, lambda seconds: driver.run(started.place, int(what["clients"]), seconds, work, measured=False))
        arm = variant.arm
        line = self.writer.add(
            "run",
            **what,
            arm={
                "name": arm.name, "data": arm.data, "moved": arm.moved,
                "cache": variant.cache.text if variant.cache else "as installed" if arm.enabled == "on" else "",
                "cache_share": _share(variant, target, started), "enabled": arm.enabled, "extra_memory": arm.extra_memory.text if arm.extra_memory else "",
                "server": arm.major, "page_cache": arm.page_cache, "tuning": arm.tuning, "follow": arm.follow, "settings": arm.settings,
            },
            conditions=started.conditions,
            duration_s=scenario.duration_s,
            transactions=result.transactions,
            tps=round(result.tps, 3),
            average_ms=round(result.average_ms, 4),
            percentiles=result.percentiles,
            errors=result.errors,
            note=result.note,
            more=result.more,
            memory_peak_mb=target.memory_peak_mb(),
            **totals(before, after, result.transactions),
            **({"failover": failover} if failover is not None else {}),
            over_time=thinned(result.over_time),
            series={name: thinned(column) for name, column in sampler.columns.items()},
        )  # fmt: skip
        self.done.add(step_key(line))
        self.outcome.done += 1
        self.clock.one_measured(scenario.duration_s)
        self.reporter.finished(line, self.clock.left(scenario))

    def _checks(self, driver: Driver, started: Started, what: dict[str, Any], work: Path) -> None:
        found = driver.check(started.place, work)
        if found is None:
            return
        self.writer.add("check", **what, **found)
        self.reporter.say(f"{what['variant']}: {found['what']}: {'yes' if found['passed'] else 'NO: ' + str(found['detail'])}")
        if not found["passed"]:
            self.outcome.failed.append(f"{what['scenario']}, {what['variant']}: {found['what']}: {found['detail']}")


def _share(variant: Variant, target: Target, started: Started) -> float:
    """Of the database."""
    size = 0
    if variant.cache is not None:
        size = variant.cache.of(target.database_bytes)
    elif variant.arm.enabled == "on":
        size = int(started.conditions["flash_mb"]) * MB
    return round(size / target.database_bytes, 4) if target.database_bytes else 0.0


def check_sizes(scenario: Scenario, database_bytes: int) -> None:
    """Shares of the database, whose size is known now. ScenarioError names those that are no cache."""
    faults = [
        f"flash.sizes: {variant.cache.text} of a database of {show_bytes(database_bytes)} is {show_bytes(variant.cache.of(database_bytes))};"
        f" allowed: {show_bytes(SMALLEST_CACHE)} or more"
        for variant in scenario.variants
        if variant.cache is not None and variant.cache.of(database_bytes) < SMALLEST_CACHE
    ]
    if faults:
        raise ScenarioError(scenario.name, list(dict.fromkeys(faults)))


def _rotated(variants: tuple[Variant, ...], repetition: int) -> list[Variant]:
    by = (repetition - 1) % len(variants)
    return [*variants[by:], *variants[:by]]


def thinned(rows: list[Any]) -> list[Any]:
    """Every n-th, so that a long run does not make a huge line."""
    return rows[:: -(-len(rows) // MAX_ROWS)] if rows else []


def _hits_words(rows: list[dict[str, float | None]]) -> str:
    ratio = hit_ratio(rows[-1]) if rows else None
    return "" if ratio is None else f", {100 * ratio:.1f}% hits"
