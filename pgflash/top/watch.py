"""A thread for each server: whoever is slow or down holds up nobody else, nor the screen.

Threads are daemons: one that hangs in a look-up of names ends with the process.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from pgflash.connection import Connection, connect, name_of, reason
from pgflash.top.rates import Rates, rates
from pgflash.top.sample import Sample, look

CONNECTING = "connecting"
RETRY_S = 2.0


@dataclass(frozen=True)
class View:
    """What there is to show of a server. Without rates, problem says why; beside rates, that they are old."""

    name: str
    rates: Rates | None
    problem: str | None

    @property
    def ok(self) -> bool:
        return self.rates is not None and self.problem is None


class Watcher:
    """Looks at one server every interval, until it is told to stop."""

    def __init__(self, parts: dict[str, str], interval_s: float, timeout_s: float) -> None:
        self.name = name_of(parts)
        self.finished = threading.Event()  # a first comparison, or a failure, is there
        self._parts = parts
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._rates: Rates | None = None
        self._problem: str | None = CONNECTING
        self._busy_since: float | None = None
        self._thread = threading.Thread(target=self._run, name=f"top {self.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def view(self) -> View:
        with self._lock:
            name = self._rates.cluster if self._rates and self._rates.cluster else ""
            problem = self._problem
            if self._busy_since is not None:
                waited = time.monotonic() - self._busy_since
                if waited > self._timeout_s:
                    problem = f"no answer for {waited:.0f} s"
            return View(f"{self.name} ({name})" if name else self.name, self._rates, problem)

    def _run(self) -> None:
        before: Sample | None = None
        connection: Connection | None = None
        due = time.monotonic()
        while not self._stop.is_set():
            try:
                self._set_busy(time.monotonic())
                if connection is None:
                    connection = connect(self._parts, self._timeout_s)
                sample = look(connection)
                self._set_busy(None)
            except Exception as error:  # of any kind: the thread must not end, and the text is ours
                self._failed(reason(error))
                if connection is not None:
                    connection.close()
                connection, before = None, None
                self._stop.wait(max(RETRY_S, self._interval_s))
                due = time.monotonic()
                continue
            self._took(before, sample)
            before = sample
            due = max(due + self._interval_s, time.monotonic())
            self._stop.wait(due - time.monotonic())
        if connection is not None:
            connection.close()

    def _set_busy(self, since: float | None) -> None:
        with self._lock:
            self._busy_since = since

    def _failed(self, problem: str) -> None:
        with self._lock:
            self._busy_since, self._rates, self._problem = None, None, problem
        self.finished.set()

    def _took(self, before: Sample | None, sample: Sample) -> None:
        with self._lock:
            if before is None:
                self._problem = self._problem if self._rates else CONNECTING
            else:
                self._rates, self._problem = rates(before, sample), None
        if before is not None:
            self.finished.set()


def wait_for_all(watchers: list[Watcher], longest_s: float) -> None:
    """Until each has something to say, but no longer than this in all."""
    end = time.monotonic() + longest_s
    for watcher in watchers:
        watcher.finished.wait(max(0.0, end - time.monotonic()))
