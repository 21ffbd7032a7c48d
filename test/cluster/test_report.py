"""The report of a cluster: what others have chosen is text in it, never markup."""

from __future__ import annotations

from pgflash.cluster.find import Found
from pgflash.cluster.gather import Look
from pgflash.cluster.report import Part, Report, Summed
from pgflash.cluster.show import remarks
from pgflash.shown import in_markdown

from .fakes import look, seen

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
