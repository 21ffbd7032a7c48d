"""What a study tells while it runs: for people on a terminal, for people in a log, for programs."""

from __future__ import annotations

import sys
import time
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

from pgflash.shown import json_text, visible
from pgflash.units import counted, show_ms, show_seconds


class Reporter(Protocol):
    def begin(self, steps: int, left_s: float) -> None: ...

    def say(self, text: str) -> None: ...

    def working_on(self, text: str, left_s: float) -> None: ...

    def finished(self, line: dict[str, Any], left_s: float) -> None: ...

    def end(self) -> None: ...


def run_words(line: dict[str, Any]) -> str:
    if line["kind"] == "failed":
        return f"{line['variant']}: failed: {line['error'].splitlines()[0]}"
    p95 = line["percentiles"].get("p95")
    words = f"{line['variant']}, {counted(line['clients'], 'client')}, run {line['repetition']}: {line['tps']:,.0f} a second, {show_ms(line['average_ms'])}"
    words += f", p95 {show_ms(p95)}" if p95 is not None else ""
    hits = line.get("hit_ratio")
    return words + (f", {100 * hits:.1f}% hits" if hits is not None else "")


class _Left(ProgressColumn):
    """Counts down from what was said last, and stays at nothing."""

    def render(self, task: Task) -> Text:
        left_s, said_at = task.fields["left"]
        return Text(f"about {show_seconds(max(0.0, left_s - (time.monotonic() - said_at)))} left")


class TerminalReporter:
    """A bar with time left where there is a terminal; lines elsewhere. On standard error: the output is for results."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, highlight=False, quiet=quiet)
        self.progress: Progress | None = None
        self.task: TaskID | None = None
        self.began = time.monotonic()

    def begin(self, steps: int, left_s: float) -> None:
        self.began = time.monotonic()
        if self.console.is_terminal:
            columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), _Left())
            self.progress = Progress(*columns, console=self.console, transient=True)
            self.task = self.progress.add_task("", total=steps, left=(left_s, time.monotonic()))
            self.progress.start()
        self.say(f"{counted(steps, 'run')} to do, about {show_seconds(left_s)}")

    def say(self, text: str) -> None:
        passed = round(time.monotonic() - self.began)
        self.console.print(f"[{passed // 60:3d}:{passed % 60:02d}] {visible(text, lines=True)}", markup=False, soft_wrap=True)

    def working_on(self, text: str, left_s: float) -> None:
        if self.progress is not None and self.task is not None:
            self.progress.update(self.task, description=text, left=(left_s, time.monotonic()))

    def finished(self, line: dict[str, Any], left_s: float) -> None:
        self.say(f"{run_words(line)}; about {show_seconds(left_s)} left")
        if self.progress is not None and self.task is not None:
            self.progress.update(self.task, advance=1, left=(left_s, time.monotonic()))

    def end(self) -> None:
        if self.progress is not None:
            self.progress.stop()
            self.progress = None


class JsonReporter:
    """One JSON object a line on standard output."""

    def _put(self, event: str, **values: Any) -> None:
        sys.stdout.write(json_text({"event": event, **values}) + "\n")
        sys.stdout.flush()

    def begin(self, steps: int, left_s: float) -> None:
        self._put("begin", steps=steps, left_s=round(left_s))

    def say(self, text: str) -> None:
        self._put("message", text=text)

    def working_on(self, text: str, left_s: float) -> None:
        self._put("step", text=text, left_s=round(left_s))

    def finished(self, line: dict[str, Any], left_s: float) -> None:
        kept = {name: value for name, value in line.items() if name not in ("over_time", "series", "counters")}
        self._put("run", **kept, left_s=round(left_s))

    def end(self) -> None:
        pass
