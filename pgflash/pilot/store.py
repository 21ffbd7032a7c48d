"""A study's folder: the scenarios it runs and, line by line as they come, its results.

    FOLDER/scenarios/NAME.toml   as they were when the study began
    FOLDER/runs.jsonl            one JSON object a line: kind is study, warmup, run, check, or failed
    FOLDER/report.html, .md      made from these by `pgflash pilot report`
    FOLDER/undo.json             while an existing server is changed: how to put it back (existing.py)

A line is on disk before the next step begins. What an interruption cut short is the last line at most: it is dropped when
the study is opened again, and its step is repeated.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from pgflash.errors import DiskFull, ScenarioError, StudyError
from pgflash.pilot.scenario import Scenario, parse_scenario
from pgflash.system import disk_full

FORMAT = 1
RUNS = "runs.jsonl"
SCENARIOS = "scenarios"


@dataclass
class Study:
    """What a folder holds."""

    folder: Path
    scenarios: dict[str, Scenario]
    lines: list[dict[str, Any]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    def of(self, kind: str, scenario: str = "") -> list[dict[str, Any]]:
        return [line for line in self.lines if line["kind"] == kind and (not scenario or line.get("scenario") == scenario)]

    def file(self, scenario: str) -> str:
        """Where it was last read from; empty: shipped, or not known."""
        found = [str(line["files"][scenario]) for line in self.of("study") if scenario in line.get("files", {})]
        return found[-1] if found else ""

    @property
    def runs(self) -> list[dict[str, Any]]:
        return self.of("run")


def step_key(line: dict[str, Any]) -> tuple[str, str, int, int]:
    """What makes a run this run."""
    return (line["scenario"], line["variant"], int(line["clients"]), int(line["repetition"]))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All whole lines. A last line that was cut short is left out; one before it is a fault."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError as error:
        raise StudyError(f"{path.parent} is no study: it has no {RUNS}") from error
    lines: list[dict[str, Any]] = []
    rows = raw.split(b"\n")
    for number, row in enumerate(rows):
        if not row.strip():
            continue
        try:
            line = json.loads(row)
        except (ValueError, UnicodeDecodeError) as error:
            if number == len(rows) - 1:
                break
            raise StudyError(f"{path}, line {number + 1}: not JSON ({error})") from error
        if not isinstance(line, dict) or "kind" not in line:
            raise StudyError(f"{path}, line {number + 1}: no line of a study")
        lines.append(line)
    return lines


def open_study(folder: Path) -> Study:
    """For reading."""
    lines = read_lines(folder / RUNS)
    formats = {line.get("format") for line in lines if line["kind"] == "study"}
    if formats - {FORMAT}:
        raise StudyError(f"{folder} was made by another version of pgflash (format {sorted(map(str, formats))})")
    scenarios = {}
    for path in sorted((folder / SCENARIOS).glob("*.toml")):
        scenarios[path.stem] = _stored(path)
    return Study(folder, scenarios, lines)


def _stored(path: Path) -> Scenario:
    """What it needed of the machine may be gone since: paths are not asked for again."""
    text = path.read_text("utf-8")
    try:
        return parse_scenario(text, path.stem, path.parent, stored=True)
    except ScenarioError as error:
        raise StudyError(f"{path} cannot be read any more: {error}") from error


class Writer:
    """The one process that adds to a study."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: IO[bytes] | None = None

    def there(self) -> list[dict[str, Any]]:
        """What is in the folder already; it need not exist."""
        path = self.folder / RUNS
        return read_lines(path) if path.exists() else []

    def open(self, scenarios: list[Scenario]) -> Study:
        """Makes the study, or goes on with it; StudyError if it is another one's or somebody is at it."""
        try:
            return self._open(scenarios)
        except OSError as error:
            if disk_full(error):
                raise DiskFull(f"{self.folder}: the disk is full") from error
            raise StudyError(f"{self.folder}: cannot be written: {error}") from error

    def _open(self, scenarios: list[Scenario]) -> Study:
        place = self.folder / SCENARIOS
        place.mkdir(parents=True, exist_ok=True)
        path = self.folder / RUNS
        self._file = path.open("ab", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StudyError(f"{self.folder} is in use by another pgflash") from error
        lines = read_lines(path)
        self._cut(path)
        for scenario in scenarios:
            there = place / f"{scenario.name}.toml"
            if there.exists() and _stored(there).digest != scenario.digest:
                raise StudyError(
                    f"{self.folder} was begun with another {scenario.name}",
                    "choose another folder with --study, or give the scenario as it was",
                )
        for scenario in scenarios:
            (place / f"{scenario.name}.toml").write_text(scenario.text, "utf-8")
        study = open_study(self.folder)
        study.lines = lines
        return study

    def _cut(self, path: Path) -> None:
        """Drops an unfinished last line, so that the next one begins at a line's beginning."""
        raw = path.read_bytes()
        if raw and not raw.endswith(b"\n"):
            os.truncate(path, raw.rfind(b"\n") + 1)

    def add(self, kind: str, **values: Any) -> dict[str, Any]:
        assert self._file is not None
        line = {"kind": kind, "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **values}
        if kind == "study":
            line["format"] = FORMAT
        raw = (json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n").encode()
        end = os.fstat(self._file.fileno()).st_size
        try:
            while raw:
                raw = raw[self._file.write(raw) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file.fileno(), end)  # what there was room for is half a line
            if disk_full(error):
                raise DiskFull(
                    f"{self.folder}: the disk is full; what was saved before is kept", "make room; the same command goes on from there"
                ) from error
            raise
        return line

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
