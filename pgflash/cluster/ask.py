"""Asks all servers at the same time. A thread for each: whoever is down or slow holds up nobody else.

Threads are daemons: one that hangs, in a look-up of names or on a server that has stopped, ends with the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from pgflash.connection import Connection, connect, reason

T = TypeVar("T")


def ask_each(
    places: Sequence[Mapping[str, str]], timeout_s: float, ask: Callable[[Connection, Mapping[str, str]], T]
) -> list[tuple[T | None, str | None]]:
    """For each what `ask` returns of a connection to it, or why there is nothing; within about twice the time."""
    answers: list[tuple[T | None, str | None]] = [(None, f"no answer within {timeout_s:g} s")] * len(places)
    done = [threading.Event() for _ in places]

    def one(place: int) -> None:
        try:
            with connect(dict(places[place]), timeout_s) as connection:
                answers[place] = ask(connection, places[place]), None
        except Exception as error:  # of any kind: it is this server's, and the text is ours
            answers[place] = None, reason(error)
        done[place].set()

    for place in range(len(places)):
        threading.Thread(target=one, args=(place,), name=f"look {place}", daemon=True).start()
    end = time.monotonic() + 2 * timeout_s + 1  # connecting, and the queries
    for event in done:
        event.wait(max(0.0, end - time.monotonic()))
    return list(answers)
