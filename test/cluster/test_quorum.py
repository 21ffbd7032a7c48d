"""Which nodes may be restarted, and which not."""

from __future__ import annotations

from typing import Any

import pytest

from pgflash.cluster.gather import Look
from pgflash.cluster.quorum import refusal, synchronous_needed

from .fakes import look, replica, seen


@pytest.mark.parametrize(
    ("names", "needed"),
    [("", 0), ("  ", 0), ("a", 1), ("*", 1), ("a, b", 1), ("2 (a, b, c)", 2), ("FIRST 1 (a)", 1), ("any 3 (*)", 3), ('"ANY 2 (x)"', 1)],
)
def test_synchronous_needed(names: str, needed: int) -> None:
    assert synchronous_needed(names) == needed


def cluster(names: str = "", b: str = "async", c: str = "async", **more: Any) -> list[Look]:
    return [
        look("a", seen(synchronous_standby_names=names, replicas=[replica("b", b), replica("c", c)])),
        look("b", seen(standby=True, **more)), look("c", seen(standby=True)),
    ]  # fmt: skip


def of(looks: list[Look], name: str, config: dict[str, Any] | None = None, standbys: int | None = None, restart: bool = True) -> str:
    return refusal(next(item for item in looks if item.node.name == name), looks, config or {}, standbys, restart)


def test_a_replica_of_two() -> None:
    assert of(cluster(), "b") == ""
    assert of(cluster(), "a") == ""


def test_too_few_would_be_left() -> None:
    assert of(cluster(), "b", standbys=2) == "1 standbys would be left, and 2 must be"
    assert of(cluster(), "b", standbys=2, restart=False) == ""
    assert of(cluster()[:2], "b") == ""  # the only one: nobody else could be left
    assert of(cluster()[:2], "b", standbys=1) == ""  # its primary has another one, that is not named here


def test_commits_would_wait() -> None:
    looks = cluster("ANY 2 (b, c)", "quorum", "quorum")
    assert of(looks, "b") == "commits would wait: synchronous_standby_names asks for 2 standbys, and 1 would be left"
    assert of(looks, "b", restart=False) == ""
    assert of(cluster("ANY 1 (b, c)", "quorum", "quorum"), "b") == ""
    assert (
        of(cluster("b", "sync", "async"), "b") == "commits would wait: synchronous_standby_names asks for 1 standbys, and 0 would be left"
    )
    assert of(cluster("b", "sync", "async"), "c") == ""


def test_patroni_names_another_standby_unless_it_is_strict() -> None:
    looks = cluster("b", "sync", "async")
    assert of(looks, "b", {"synchronous_mode": True}) == ""
    assert "commits would wait" in of(looks, "b", {"synchronous_mode": True, "synchronous_mode_strict": True})


def test_something_is_wrong_already() -> None:
    assert of([*cluster()[:2], look("c", None, "nothing listens there")], "b") == "c is down: nothing listens there"
    assert of([*cluster()[:2], look("c", seen())], "b") == "there are 2 primaries: a, c"
    assert of(cluster()[1:], "b") == "there are 0 primaries: none"
    assert of(cluster(receiver="none"), "c") == "b does not receive WAL"
    assert of(cluster(), "b", {"pause": True}) == "Patroni is paused"
