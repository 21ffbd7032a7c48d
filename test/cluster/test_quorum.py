"""Which nodes may be restarted, and which not."""

from __future__ import annotations

from typing import Any

import pytest

from pgflash.cluster.gather import Look
from pgflash.cluster.look import Replica
from pgflash.cluster.quorum import refusal, shown_as, synchronous_needed

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
    assert of(cluster(), "b", standbys=2) == "1 standby would be left, and 2 must be"
    assert of(cluster(), "b", standbys=2, restart=False) == ""
    assert of(cluster()[:2], "b") == ""  # the only one: nobody else could be left
    # its primary has another one, which is no node: nobody has looked at it
    assert of(cluster()[:2], "b", standbys=1) == "0 standbys would be left, and 1 must be"


def test_who_takes_wal_is_not_always_a_standby() -> None:
    looks = cluster()
    looks[0].seen.replicas[:] = [replica("b"), replica("pg_receivewal"), Replica("sub", None, "streaming", "async", 0, logical=True)]  # type: ignore[union-attr, index]
    looks[2] = look("c", seen(standby=True, receives_as="c"))  # from b
    assert of(looks, "b") == "0 standbys would be left, and 1 must be"
    assert of(looks, "c") == ""
    looks[0].seen.replicas[:] = [replica("b"), Replica("c", None, "streaming", "async", 0, logical=True)]  # type: ignore[union-attr, index]
    assert of(looks, "b") == "0 standbys would be left, and 1 must be"  # a subscriber of that name


def test_a_name_that_several_have_is_nobody_s() -> None:
    rows = [replica("n2", "sync", address="192.168.0.2"), replica("main", "async", address="192.168.0.3")]
    looks = [
        look("a", seen(synchronous_standby_names="n2", replicas=rows)), look("b", seen(standby=True, cluster="main")),
        look("c", seen(standby=True, cluster="main")),
    ]  # fmt: skip
    assert of(looks, "b", standbys=0) == (
        "commits would wait: synchronous_standby_names asks for 1 standby, and 0 would be left, if b is one of them"
    )
    # the servers say under which name they receive
    looks[1] = look("b", seen(standby=True, cluster="main", receives_as="n2"))
    looks[2] = look("c", seen(standby=True, cluster="main", receives_as="main"))
    assert of(looks, "b") == "commits would wait: synchronous_standby_names asks for 1 standby, and 0 would be left"
    assert of(looks, "c") == ""


def test_commits_would_wait() -> None:
    looks = cluster("ANY 2 (b, c)", "quorum", "quorum")
    assert of(looks, "b") == "commits would wait: synchronous_standby_names asks for 2 standbys, and 1 would be left"
    assert of(looks, "b", restart=False) == ""
    assert of(cluster("ANY 1 (b, c)", "quorum", "quorum"), "b") == ""
    assert of(cluster("b", "sync", "async"), "b") == "commits would wait: synchronous_standby_names asks for 1 standby, and 0 would be left"
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


# --- nodes that the primary has under another name and address ---


def unknown(names: str, *states: str) -> list[Look]:
    rows = [replica(f"r{number}", state, address=f"10.0.0.{number}") for number, state in enumerate(states)]
    return [look("a", seen(synchronous_standby_names=names, replicas=rows)), look("b", seen(standby=True)), look("c", seen(standby=True))]


@pytest.mark.parametrize(
    ("names", "states", "refused"),
    [
        ("r0", ("sync", "async"), True), ("r1", ("async", "sync"), True), ("ANY 1 (r0, r1)", ("quorum", "quorum"), False),
        ("", ("async", "async"), False), ("2 (*)", ("sync", "sync"), True),
    ],
)  # fmt: skip
def test_it_may_be_any_of_them(names: str, states: tuple[str, ...], refused: bool) -> None:
    why = of(unknown(names, *states), "b", standbys=0)
    assert why.startswith("commits would wait") == refused and ("if b is one of them" in why) == refused, why


def test_the_server_says_where_it_is_and_what_it_is_called() -> None:
    looks = unknown("r0", "sync", "async")
    looks[1] = look("b", seen(standby=True, address="10.0.0.1"))
    assert of(looks, "b", standbys=0) == ""
    looks[1] = look("b", seen(standby=True, cluster="r1"))
    assert of(looks, "b", standbys=0) == ""
    looks[1] = look("b", seen(standby=True, address="10.0.0.0"))
    assert "commits would wait" in of(looks, "b", standbys=0) and "if b" not in of(looks, "b", standbys=0)
    looks[1] = look("b", seen(standby=True, address="10.0.0.1", cluster="r0"))  # these say different things
    assert "commits would wait" in of(looks, "b", standbys=0)


def test_one_of_two_on_the_same_machine_is_told_by_its_name() -> None:
    looks = unknown("r0", "sync", "async")
    looks[0].seen.replicas[:] = [replica("b", "async", address="10.0.0.1"), replica("r0", "sync", address="10.0.0.1")]  # type: ignore[union-attr, index]
    looks[1] = look("b", seen(standby=True, address="10.0.0.1"))
    assert of(looks, "b", standbys=0) == ""


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("kn\u00f6tchen", "kn??tchen"), ("kn\u00f6tchen", r"kn\xc3\xb6tchen"), ("n" * 70 + ".example", "n" * 63),
        ("a" * 60 + "\u00f6", "a" * 60 + "??"), ("a" * 60 + "\u00f6", "a" * 60 + r"\xc"),
    ],
)  # fmt: skip
def test_a_name_is_recognized_as_the_server_shows_it(name: str, shown: str) -> None:
    assert shown in shown_as(name)
    looks = cluster("FIRST 1 (*)", "sync", receives_as=name)
    looks[0].seen.replicas[:] = [replica(shown, "sync")]  # type: ignore[union-attr, index]
    assert of(looks, "b", standbys=0) == "commits would wait: synchronous_standby_names asks for 1 standby, and 0 would be left"


def test_a_name_that_cannot_be_recognized_may_be_any() -> None:
    """In another encoding, for example; and one at the node's address that no other node receives under."""
    looks = cluster("FIRST 1 (*)", "sync", receives_as="kn\u00f6tchen")
    looks[0].seen.replicas[:] = [replica("kn?tchen", "sync")]  # type: ignore[union-attr, index]
    assert of(looks, "b", standbys=0).startswith("commits would wait")
    looks = cluster("FIRST 1 (*)", "sync", receives_as="b", address="10.0.0.2")
    looks[0].seen.replicas[:] = [replica("other", "sync", address="10.0.0.2")]  # type: ignore[union-attr, index]
    assert of(looks, "b", standbys=0).startswith("commits would wait")
    looks[2] = look("c", seen(standby=True, receives_as="other"))  # b is behind c, on the same machine
    assert of(looks, "b", standbys=0) == ""
