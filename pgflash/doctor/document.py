"""The table of checks in the documentation, from the registry: python -m pgflash.doctor.document docs/doctor.md"""

from __future__ import annotations

import sys
from pathlib import Path

import pgflash.doctor.checks  # noqa: F401  (registers them)
from pgflash.doctor.check import AREAS, REGISTRY

BEGIN = "<!-- from here on: python -m pgflash.doctor.document docs/doctor.md -->"


def table() -> str:
    lines = [BEGIN]
    for area, words in AREAS.items():
        lines += [
            "",
            f"### `{area}`",
            "",
            f"{words[0].upper()}{words[1:]}.",
            "",
            "| check | question | why | source |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| `{item.name}` ({item.severity}) | {_cell(item.question)} | {_cell(item.why)} | {_cell(item.source)} |"
            for item in REGISTRY.values()
            if item.area == area
        ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    for letter, instead in (("<", "&lt;"), (">", "&gt;"), ("|", "\\|"), ("*", "\\*")):
        text = text.replace(letter, instead)
    return " ".join(text.split())


def documented(text: str) -> str:
    """The page with its table anew."""
    return text.partition(BEGIN)[0] + table()


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(documented(page.read_text("utf-8")), "utf-8")
