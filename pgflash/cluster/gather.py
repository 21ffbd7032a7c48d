"""Looks at all nodes at the same time. A thread for each: whoever is down or slow holds up nobody else.

Threads are daemons: one that hangs, in a look-up of names or on a server that has stopped, ends with the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pgflash.cluster.find import Node
from pgflash.cluster.look import Seen, look
from pgflash.connection import Connection, connect, reason

T = TypeVar("T")


@dataclass(frozen=True)
class Look:
    """What there is to show of a node. Without `seen`, `problem` says why."""

    node: Node
    seen: Seen | None
    problem: str | None = None

    @property
    def ok(self) -> bool:
        return self.seen is not None


def ask_all(nodes: Sequence[Node], timeout_s: float, ask: Callable[[Connection], T]) -> list[tuple[T | None, str | None]]:
    """For each node what `ask` returns of a connection to it, or why there is nothing; within about twice the time."""
    answers: list[tuple[T | None, str | None]] = [(None, f"no answer within {timeout_s:g} s")] * len(nodes)
    done = [threading.Event() for _ in nodes]

    def one(place: int) -> None:
        try:
            with connect(nodes[place].parts, timeout_s) as connection:
                answers[place] = ask(connection), None
        except Exception as error:  # of any kind: it is this node's, and the text is ours
            answers[place] = None, reason(error)
        done[place].set()

    for place in range(len(nodes)):
        threading.Thread(target=one, args=(place,), name=f"look {nodes[place].name}", daemon=True).start()
    end = time.monotonic() + 2 * timeout_s + 1  # connecting, and the queries
    for event in done:
        event.wait(max(0.0, end - time.monotonic()))
    return list(answers)


def look_at(nodes: Sequence[Node], timeout_s: float) -> list[Look]:
    """Nodes that turn out to be the same server, under two addresses, are shown once."""
    looks = [Look(node, seen, problem) for node, (seen, problem) in zip(nodes, ask_all(nodes, timeout_s, look), strict=True)]
    found: list[Look] = []
    servers: set[Any] = set()
    for item in looks:
        key = (item.seen.started, item.seen.port, item.seen.database) if item.seen else None
        if key is None or key not in servers:
            found.append(item)
            servers.add(key)
    return found
