"""Tables in a pipe are whole, and words agree with their numbers."""

from __future__ import annotations

import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

import pgflash
from pgflash.shown import WIDE, cell, console
from pgflash.top.rates import STATEMENT_ORDERS, Statement
from pgflash.top.screen import statements
from pgflash.units import counted, show_number

SOURCE = Path(pgflash.__file__).parent
LONG = "x" * 500 + " end"


def test_a_table_in_a_pipe_is_whole(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever COLUMNS says."""
    monkeypatch.setenv("COLUMNS", "40")
    table = Table("a", "b", title="Title", title_justify="left")
    table.add_row(cell(LONG), cell(LONG))
    console().print(table)
    text = capsys.readouterr().out
    assert text.count(LONG) == 2 and "…" not in text and max(map(len, text.splitlines())) < 1100


def test_statements_of_top_are_whole_in_a_pipe() -> None:
    """On a screen they are fitted to it."""
    found: Any = SimpleNamespace(statements=[Statement(1, LONG, 1, 2, 3, 0.1, 0.2)], missing=[], interval_s=1.0)
    out = io.StringIO()
    Console(file=out, width=WIDE, color_system=None).print(statements(found, STATEMENT_ORDERS[0], 10, fitted=False))
    assert LONG in out.getvalue() and max(map(len, out.getvalue().splitlines())) < 700
    out = io.StringIO()
    Console(file=out, width=120, color_system=None).print(statements(found, STATEMENT_ORDERS[0], 10))
    assert LONG not in out.getvalue() and {len(line) for line in out.getvalue().splitlines()} == {120}


def test_nothing_else_prints_tables() -> None:
    """The live screen of top is on a terminal only."""
    found = {
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for path in SOURCE.rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if re.search(r"\bConsole\((?!stderr=True)", line)
    }
    assert found == {
        "shown.py: return Console(width=None if sys.stdout.isatty() else WIDE, highlight=False)",
        "top/cli.py: screen = Console(highlight=False)",
    }


@pytest.mark.parametrize(("number", "words"), [(0, "0 nodes"), (1, "1 node"), (2000, "2,000 nodes"), (1.0, "1 node")])
def test_counted(number: float, words: str) -> None:
    assert counted(number, "node") == words


def test_counted_otherwise() -> None:
    assert (counted(1, "entry", "entries"), counted(2, "entry", "entries")) == ("1 entry", "2 entries")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "0"),
        (5.9e-05, "0.000059"),
        (1.234e-7, "0.000000123"),
        (0.4612, "0.461"),
        (2.0, "2"),
        (99.96, "100"),
        (1143.4, "1,143"),
        (-3e-5, "-0.00003"),
    ],
)
def test_no_power_of_ten(number: float, words: str) -> None:
    assert show_number(number) == words
