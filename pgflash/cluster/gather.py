"""Looks at all nodes at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pgflash.cluster.ask import ask_each
from pgflash.cluster.find import Node
from pgflash.cluster.look import Seen, look
from pgflash.connection import Connection

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
    """For each node what `ask` returns of a connection to it, or why there is nothing."""
    asked = [node for node in nodes if not node.nowhere]
    answers = iter(ask_each([node.parts for node in asked], timeout_s, lambda connection, _: ask(connection)))
    found = []
    for node in nodes:
        answer, problem = (None, node.nowhere) if node.nowhere else next(answers)
        found.append((answer, node.why(problem)))
    return found


def look_at(nodes: Sequence[Node], timeout_s: float, whole: bool = False) -> list[Look]:
    """Nodes that turn out to be the same server, under two addresses, are shown once; one that is asked in two databases too, where
    the whole server is meant."""
    looks = [Look(node, seen, problem) for node, (seen, problem) in zip(nodes, ask_all(nodes, timeout_s, look), strict=True)]
    found: list[Look] = []
    places: dict[Any, int] = {}
    for item in looks:
        key = (item.seen.started, item.seen.port, "" if whole else item.seen.database) if item.seen else None
        if key is not None and key in places:
            was = found[places[key]]
            better = was.node.untrusted and not item.node.untrusted
            found[places[key]] = item if better else replace(was, node=was.node.also(item.node))
            continue
        if key is not None:
            places[key] = len(found)
        found.append(item)
    return found
