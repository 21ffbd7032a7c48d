"""Admission: the hit ratio and the writes of each candidate of admission = auto, of what it chooses, and of other algorithms. No
server runs: streams of page references, public traces and loads as pgbench makes them, are replayed through the extension's own
policy code (bench/replay), below a buffer pool of 1% (traces that were taken below a cache) or 5% of the pages.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bench.elsewhere import ROOT
from bench.harness import Bench, say
from bench.replay import traces

SIZES = (0.05, 0.2)  # flash, as a share of the pages
SOURCES = ("bench/replay/replay.c", "src/admission/chooser.c", "src/admission/miniature.c", "src/policy_admission.c")
OURS = ("all", "ghost_half", "ghost", "ghost_two", "page", "region", "auto")
GOAL_POINTS, GOAL_WRITES = 0.02, 0.35
SAME_WRITES = ", same writes"


def _lines(command: list[str]) -> Iterator[dict[str, Any]]:
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        yield json.loads(line)


def _others(folder: Path) -> Path | None:
    """A Python that has libcachesim."""
    python = folder / "venv/bin/python"
    try:
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", traces.LIBCACHESIM], check=True)
    except (OSError, subprocess.CalledProcessError):
        say(f"without other algorithms: pip cannot install {traces.LIBCACHESIM}")
        return None
    return python


def _figures(replay: Path, python: Path | None, stream: traces.Stream, size: float, below: Path) -> Iterator[dict[str, Any]]:
    ours = list(_lines([str(replay), str(stream.path), str(stream.pool), str(size), str(below)]))
    yield from ours
    if python is not None:
        writes = next(figure["writes_per_read"] for figure in ours if figure["candidate"] == "auto")
        yield from _lines([str(python), str(ROOT / "bench/replay/others.py"), str(below), str(ours[0]["slots"]), str(writes)])


def _verdict(figures: Iterable[dict[str, Any]]) -> tuple[float, float, float]:
    """Points behind the best that may be compared, writes a read, and written pages that were hit: of its own candidates those that
    write no more than is allowed, of other algorithms what they do with the same writes."""
    found = {str(figure["candidate"]): figure for figure in figures}
    auto = found["auto"]
    compared = [auto, *(found[name] for name in OURS if float(found[name]["writes_per_read"]) <= GOAL_WRITES)]
    compared += [figure for name, figure in found.items() if name.endswith(SAME_WRITES)]
    best = max(float(figure["hit_ratio"]) for figure in compared)
    return best - float(auto["hit_ratio"]), float(auto["writes_per_read"]), float(auto["useful"])


def figure(bench: Bench) -> None:
    folder = bench.work.path / "replay"
    folder.mkdir()
    replay = folder / "replay"
    subprocess.run(
        ["cc", "-std=gnu11", "-O2", "-I", str(ROOT / "src"), "-o", str(replay), *(str(ROOT / source) for source in SOURCES)], check=True
    )
    python = _others(folder)
    verdicts = []
    names: list[str] = []
    for stream in [*traces.public(folder), *traces.made(folder, bench.scale(2_000_000))]:
        for size in SIZES:
            arm = f"{stream.name} {size:.0%}"
            figures = list(_figures(replay, python, stream, size, folder / "below"))
            for values in figures:
                bench.record.add(f"{arm} {values['candidate']}", 1, **{key: value for key, value in values.items() if key != "candidate"})
                names.append(f"{arm} {values['candidate']}")
            verdicts.append((arm, *_verdict(figures)))
    bench.record.table(["hit_ratio", "writes_per_read", "useful"], names)
    for arm, behind, writes, useful in verdicts:
        bench.record.result(
            f"{arm}: points behind the best", f"{behind * 100:.1f}", f"at most {GOAL_POINTS * 100:.0f}",
            f"{writes:.2f} writes a read, at most {GOAL_WRITES}; {useful:.0%} of what was written was hit",
        )  # fmt: skip
