"""A report as HTML, with its charts and what draws them in it, and as Markdown."""

from __future__ import annotations

import os
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from pgflash import __version__
from pgflash.errors import DiskFull, OutputError
from pgflash.pilot.report import charts
from pgflash.shown import in_markdown, in_template
from pgflash.snapshots.report import Report
from pgflash.system import disk_full


def _cell(text: str) -> str:
    """For Markdown: names and statements are text, whatever is in them."""
    return in_markdown(text.replace("\n", " "))


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("pgflash.snapshots", "."), autoescape=lambda name: name is not None and ".html" in name, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        finalize=in_template,
    )  # fmt: skip
    environment.filters["cell"] = _cell
    return environment


def html(report: Report) -> str:
    drawn = [(figure, charts.as_json(figure)) for figure in report.figures if figure.series]
    return _environment().get_template("report.html.j2").render(report=report, charts=drawn, library=charts.library(), version=__version__)


def markdown(report: Report) -> str:
    return _environment().get_template("report.md.j2").render(report=report, version=__version__)


def put(path: Path, text: str) -> None:
    """The whole file, or as it was before."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_text(text, "utf-8")
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        if disk_full(error):
            raise DiskFull(
                f"{path}: the disk is full", "make room, then run the command again: the snapshots are in the database"
            ) from error
        raise OutputError(path, error) from error
