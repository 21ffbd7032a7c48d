"""The report in a real browser: every chart is drawn, line by line, and is seen on a picture of the page.

Chromium of Debian, headless, without a network. What the page's script has drawn is read from the document; then a picture
of the whole page is taken, and in each chart's place there must be the colours of its lines.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from pgflash.pilot.report.charts import COLOURS, PUBLISHED
from pgflash.pilot.report.model import Figure
from pgflash.pilot.report.write import make, write
from pgflash.pilot.store import open_study
from pgflash.system import is_root

WIDTH = 1100
# Appended to a copy of the page: what was drawn, and where, for the test to read out of the document.
PROBE = """<script id="probe" type="application/json"></script><script>
const seen = {};
for (const at of document.querySelectorAll(".chart")) {
  const box = at.getBoundingClientRect();
  const drawn = (at.data || []).filter((trace) => trace.visible !== "legendonly");
  seen[at.id] = {
    wanted: Number(at.dataset.series), traces: drawn.map((trace) => trace.name),
    lines: at.querySelectorAll(".scatterlayer .trace .js-line").length, bars: at.querySelectorAll(".barlayer .trace").length,
    marks: at.querySelectorAll(".scatterlayer .trace .point, .barlayer .trace .point").length,
    left: box.left, top: box.top + window.scrollY, right: box.right, bottom: box.bottom + window.scrollY,
  };
}
document.getElementById("probe").textContent = JSON.stringify({ charts: seen, height: document.documentElement.scrollHeight });
</script></body>"""


def chromium() -> str:
    found = shutil.which("chromium")
    assert found, "needs Debian's chromium"
    return found


def browse(folder: Path, page: Path, *arguments: str) -> str:
    command = [
        chromium(), "--headless", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run", "--proxy-server=127.0.0.1:1",
        f"--user-data-dir={folder / 'profile'}", f"--crash-dumps-dir={folder}", "--force-device-scale-factor=1", "--virtual-time-budget=20000",
        *(["--no-sandbox"] if is_root() else []), *arguments, page.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def near(colours: dict[tuple[int, int, int], int], wanted: tuple[int, int, int]) -> int:
    """Pixels of about that colour: lines are thin, and their edges are blended."""
    return sum(count for colour, count in colours.items() if all(abs(a - b) <= 24 for a, b in zip(colour, wanted, strict=True)))


def faults(folder: Path, page: Path, figures: list[Figure]) -> list[str]:
    """What is not as it should be on the page, as a browser shows it."""
    probed = folder / "probed.html"
    text = page.read_text("utf-8")
    probed.write_text(PROBE.join(text.rsplit("</body>", 1)), "utf-8")
    document = browse(folder, probed, f"--window-size={WIDTH},2000", "--dump-dom")
    found = re.search(r'<script id="probe" type="application/json">(.*?)</script>', document, re.DOTALL)
    assert found, "the page's scripts did not run"
    seen = json.loads(found[1])
    browse(folder, probed, f"--window-size={WIDTH},{seen['height']}", f"--screenshot={folder / 'page.png'}")
    picture = Image.open(folder / "page.png").convert("RGB")
    wrong = []
    for figure in figures:
        if figure.series:
            wrong += [f"{figure.id}: {fault}" for fault in _chart_faults(figure, seen["charts"].get(f"chart-{figure.id}"), picture)]
    return wrong


def _chart_faults(figure: Figure, seen: dict[str, Any] | None, picture: Image.Image) -> list[str]:
    if seen is None:
        return ["there is no place for it"]
    wrong = []
    shown = [series for series in figure.series if not series.hidden]
    if seen["traces"] != [series.name for series in shown]:
        wrong.append(f"the browser has {seen['traces']}")
    drawn = seen["bars"] if figure.kind == "bar" else seen["lines"]
    if drawn != len(shown):
        wrong.append(f"{drawn} of {len(shown)} are drawn")
    marks = sum(sum(1 for y in series.y if y is not None) for series in shown)
    if seen["marks"] != marks:
        wrong.append(f"{seen['marks']} of {marks} points are drawn")
    place = picture.crop((int(seen["left"]), int(seen["top"]), int(seen["right"]), int(seen["bottom"])))
    colours: Any = {colour: count for count, colour in place.getcolors(place.width * place.height) or []}
    for number, series in enumerate(figure.series):
        colour = PUBLISHED if series.published else COLOURS[number % len(COLOURS)]
        if not series.hidden and near(colours, rgb(colour)) < 12:
            wrong.append(f"{series.name} is not to be seen")
    return wrong


def test_every_chart_is_drawn(recorded: Path, tmp_path: Path) -> None:
    study = open_study(recorded)
    figures = make([study]).figures
    assert sum(1 for figure in figures if figure.series) >= 13
    page = write([study], tmp_path)["html"]
    assert faults(tmp_path, page, figures) == []


@pytest.mark.parametrize(
    ("break_", "expected"),
    [
        (("Plotly.newPlot(id, chart.data", "Plotly.newPlot(id, chart.data.slice(1)"), "the browser has"),
        (("Plotly.newPlot(id,", "void (id,"), "is not to be seen"),
    ],
)
def test_a_chart_that_is_not_drawn_is_noticed(break_: tuple[str, str], expected: str, recorded: Path, tmp_path: Path) -> None:
    study = open_study(recorded)
    study.scenarios = {"tuning": study.scenarios["tuning"]}  # the shortest page
    figures = make([study]).figures
    page = write([study], tmp_path)["html"]
    text = page.read_text("utf-8")
    assert text.count(break_[0]) == 1
    page.write_text(text.replace(*break_), "utf-8")
    assert any(expected in fault for fault in faults(tmp_path, page, figures))
