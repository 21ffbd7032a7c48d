"""Looks at the server in a thread of its own, over a new connection for each; whoever asks waits for it no longer than is wanted.

A session that is kept goes on to answer while nobody can connect any more: so none is. What hangs, hangs in this thread alone: an
answer in HTTP never waits for the server beyond its time. An answer may be shared by several who ask at the same time, and none is
older than is wanted.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from pgflash.connection import Connection, connect, reason

T = TypeVar("T")


class Keeper(Generic[T]):
    """Asks the server with `ask`, when somebody wants to know."""

    def __init__(self, name: str, parts: dict[str, str], timeout_s: float, ask: Callable[[Connection], T]) -> None:
        self._parts = parts
        self._timeout_s = timeout_s
        self._ask = ask
        self._change = threading.Condition()
        self._wanted_since: float | None = None  # somebody waits for an answer that was begun after this
        self._began = float("-inf")  # of the last answer
        self._answer: T | None = None
        self._problem: str | None = None
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._change:
            self._stopped = True
            self._change.notify_all()

    def get(self, oldest_s: float, longest_s: float) -> tuple[T | None, str | None]:
        """What the server said at most so long ago, or why there is nothing."""
        end = time.monotonic() + longest_s
        since = time.monotonic() - oldest_s
        with self._change:
            while self._began < since:
                if self._wanted_since is None:
                    self._wanted_since = since
                    self._change.notify_all()
                left = end - time.monotonic()
                if left <= 0:
                    return None, f"the server has not answered within {longest_s:g} s"
                self._change.wait(left)
            return self._answer, self._problem

    def _run(self) -> None:
        while True:
            with self._change:
                while self._wanted_since is None and not self._stopped:
                    self._change.wait()
                if self._stopped:
                    return
            began = time.monotonic()
            answer, problem = None, None
            try:
                with contextlib.closing(connect(self._parts, self._timeout_s)) as connection:
                    answer = self._ask(connection)
            except Exception as error:  # of any kind: the thread must not end, and the text is ours
                problem = reason(error, places=False)  # whoever reaches its port can ask
            with self._change:
                self._began, self._answer, self._problem, self._wanted_since = began, answer, problem, None
                self._change.notify_all()
