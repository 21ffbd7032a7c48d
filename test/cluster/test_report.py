"""The report of a cluster: what others have chosen is text in it, never markup."""

from __future__ import annotations

from pgflash.cluster.report import Part, Report, Summed
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
