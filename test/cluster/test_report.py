"""The report of a cluster: what others have chosen is text in it, never markup."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pgflash.cluster import report
from pgflash.cluster.find import Found
from pgflash.cluster.gather import Look
from pgflash.cluster.report import Part, Report, Summed
from pgflash.cluster.show import remarks
from pgflash.shown import in_markdown
from pgflash.top.sample import Sample

from .fakes import WHEN, look, seen

SCRIPT, PICTURE, LINK = "<script>alert(1)</script>", "![x](http://203.0.113.9/t.png)", "see https://203.0.113.9/x"


def test_nothing_of_a_server_is_markup() -> None:
    standby = look(SCRIPT, seen(standby=True, receiver="none"))
    report = Report([Part(standby, None, None, [])], [f"remark {PICTURE}", LINK], 1.0, 0.9, [Summed(f"public.{PICTURE}", 1, 2, 3, 4.0)])
    text = report.markdown()
    for raw in ("<script>", "![", "[x]", "://"):
        assert raw not in text, raw
    assert r"- &lt;script&gt;alert(1)&lt;/script&gt;: it does not receive WAL from another server" in text
    assert "| public.\\!\\[x\\](http&#58;//203.0.113.9/t.png) | 1 |" in text


def test_in_markdown() -> None:
    assert in_markdown("a|b `c` *d* e_f \\ & ~~x~~ 12:30 a::b \x1b") == r"a\|b \`c\` \*d\* e_f \\ &amp; \~\~x\~\~ 12:30 a::b \\x1b"
    assert in_markdown("_x_ a__b pg_x www.evil.example a@b.example cache@20%") == (
        r"\_x\_ a\_\_b pg_x www&#46;evil.example a&#64;b.example cache@20%"
    )


def test_a_standby_that_is_among_the_nodes_is_not_asked_for() -> None:
    """Under the name by which it receives, that of its node, or its cluster_name; of several under one name, each is one."""

    def said(*names: str, looks: list[Look]) -> list[str]:
        return remarks(Found([], ["a remark"], [(name, f"standby {name} has no address") for name in names]), looks)

    primary = look("sb", seen())
    assert said("sb", looks=[primary]) == ["a remark", "standby sb has no address"], "a primary is no standby"
    for one in (
        look("two", seen(standby=True, receives_as="sb")),
        look("sb", None, "no answer"),
        look("x", seen(standby=True, cluster="sb")),
    ):
        assert said("sb", looks=[primary, one]) == ["a remark"]
        assert said("sb", "sb", "sb", looks=[primary, one]) == ["a remark", "standby sb has no address"]
    long = look("two", seen(standby=True, receives_as="s" * 70 + "é"))
    assert said("s" * 63, looks=[long]) == ["a remark"]


COUNTERS = ("hits", "misses", "disk_reads", "os_cache_hits", "read_time_us", "disk_read_time_us", "write_bytes")


def sample(seconds: int, transactions: int, slots: int, relations: list[tuple[int, str, int, int, int]], **stat: int) -> Sample:
    """`relations`: relid, name, hits, reads from disk and their time in us."""
    return Sample(
        WHEN + timedelta(seconds=seconds), "primary", 15, "", "postgres", transactions, False, None, {},
        stat={"state": "active", "slots": slots, "used": slots, "stats_reset": WHEN} | dict.fromkeys(COUNTERS, 0) | stat,
        relations=[
            {"relid": relid, "schema": "public", "relation": name, "hits": hits, "disk_reads": reads, "os_cache_hits": 0, "read_time_us": 0,
             "disk_read_time_us": us, "writes": 0}
            for relid, name, hits, reads, us in relations
        ],
    )  # fmt: skip


ONE = (
    sample(0, 1000, 1000, [(10, "t", 5, 5, 50), (11, "cold", 0, 0, 0)], hits=50, misses=50, disk_reads=50),
    sample(
        10, 1500, 1000, [(10, "t", 805, 65, 600_050), (11, "cold", 0, 3, 900_000)], hits=950, misses=150, disk_reads=150, write_bytes=81920
    ),
)
TWO = (
    sample(0, 0, 2000, [(20, "t", 0, 0, 0)]),
    sample(10, 300, 2000, [(20, "t", 100, 200, 1_400_000)], hits=100, misses=300, disk_reads=300, write_bytes=40960),
)


def test_sums_are_those_of_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that answer, and one that is down: totals and relations of the two, whatever number their relations have."""
    looks = [look("one", seen()), look("two", seen(port=5433)), look("three", None, "no answer")]
    advice: list[dict[str, Any]] = []
    answers = iter([[((pair[at], advice), None) for pair in (ONE, TWO)] + [(None, "no answer")] for at in (0, 1)])
    monkeypatch.setattr(report, "look_at", lambda _nodes, _timeout: looks)
    monkeypatch.setattr(report, "ask_all", lambda _nodes, _timeout, _ask: next(answers))
    monkeypatch.setattr("pgflash.cluster.report.time.sleep", lambda _seconds: None)
    found = report.make(Found([item.node for item in looks], []), 10.0, 5, 0.9, 20, True)
    assert found.down and found.totals() == {
        "nodes": 3, "tps": 80.0, "flash_reads_per_s": 100.0, "disk_reads_per_s": 40.0, "hit_ratio": pytest.approx(1000 / 1400),
        "capacity_bytes": 3000 * 8192, "write_bytes_per_s": 12288.0,
    }  # fmt: skip
    assert found.relations == [Summed("public.t", 2, 900, 260, 2.0), Summed("public.cold", 1, 0, 3, 0.9)]
    text = found.markdown()
    assert "| reads from flash a second | 100 |" in text and "| public.t | 2 | 90 | 26 | 200 |" in text
    assert [(part["name"], part["problem"], part["rates"] is None) for part in found.as_json()["nodes"]] == [
        ("one", None, False), ("two", None, False), ("three", "no answer", True),
    ]  # fmt: skip
    assert found.remarks == []


def test_databases_of_one_server_are_one_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cache, its transactions, its reads and its shared catalogs count once, its relations by database; a copy of it is another."""
    looks = [look("one", seen(system=1)), look("other", seen(system=1, database="other")), look("copy", seen(system=1, port=5433))]
    rest = {"relid": None, "schema": None, "relation": None, "os_cache_hits": 0, "read_time_us": 0, "disk_read_time_us": 0, "writes": 0}
    catalog = rest | {"relid": 1260, "schema": "pg_catalog", "relation": "pg_authid", "shared": True}
    pairs = [
        (replace(one[0], relations=[*(one[0].relations or []), rest | {"hits": 0, "disk_reads": 0}, catalog | {"hits": 7, "disk_reads": 0}]),
         replace(one[1], relations=[*(one[1].relations or []), rest | {"hits": 10, "disk_reads": 7}, catalog | {"hits": 9, "disk_reads": 0}]))
        for one in (ONE, TWO, ONE)
    ]  # fmt: skip
    advice = [{"kind": "flash", "size": 1 << 20, "is_current": True, "hit_ratio": 0.5, "disk_reads_per_s": 1.0}]
    answers = iter([[((pair[at], advice), None) for pair in pairs] for at in (0, 1)])
    monkeypatch.setattr(report, "look_at", lambda _nodes, _timeout: looks)
    monkeypatch.setattr(report, "ask_all", lambda _nodes, _timeout, _ask: next(answers))
    monkeypatch.setattr("pgflash.cluster.report.time.sleep", lambda _seconds: None)
    found = report.make(Found([item.node for item in looks], []), 10.0, 5, 0.9, 20, True)
    totals = found.totals()
    assert (totals["capacity_bytes"], totals["tps"], totals["write_bytes_per_s"]) == (2 * 1000 * 8192, 100.0, 16384.0)
    assert {item.name: (item.nodes, item.hits) for item in found.relations} == {
        "public.t": (3, 1700), "public.cold": (2, 0), "(everything else)": (1, 10), "pg_catalog.pg_authid": (2, 4),
    }  # fmt: skip
    assert [line for line in found.markdown().splitlines() if "1 MB (now)" in line] == [
        "| one | 1 MB (now) | 50.0 | 1 |", "| copy | 1 MB (now) | 50.0 | 1 |",
    ]  # fmt: skip
    assert [text.partition(" are ")[0] for text in found.remarks] == ["one, other"]
