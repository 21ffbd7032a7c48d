"""sysbench's OLTP loads, read-only and read-write (Debian: sysbench)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pgflash.pilot import db
from pgflash.pilot.loads.base import PERCENTILES, LoadResult
from pgflash.pilot.scenario import Load
from pgflash.pilot.target import Place
from pgflash.system import failure, find_program, run

BYTES_A_ROW = 250  # index included


class Sysbench:
    name = "sysbench"

    def __init__(self, load: Load) -> None:
        self.load = load
        self.lua = "oltp_read_write" if load.kind == "sysbench-read-write" else "oltp_read_only"

    def missing(self, bin_folder: str) -> str:
        return "" if find_program("sysbench") else "sysbench (Debian: sysbench)"

    def space_mb(self) -> int:
        return self.load.tables * self.load.rows * BYTES_A_ROW // 1_000_000 + 10

    def _command(self, place: Place, *more: str) -> list[str]:
        return [
            find_program("sysbench") or "sysbench", self.lua, "--db-driver=pgsql", f"--pgsql-host={place.host}", f"--pgsql-port={place.port}",
            f"--pgsql-user={place.user}", f"--pgsql-db={place.database}", f"--tables={self.load.tables}", f"--table-size={self.load.rows}", *more,
        ]  # fmt: skip

    def prepare(self, place: Place, work: Path) -> None:
        run(self._command(place, "prepare"), what="loading sysbench's tables", env=place.env())

    def run(self, place: Place, clients: int, seconds: int, work: Path, *, measured: bool) -> LoadResult:
        command = self._command(
            place, f"--threads={clients}", f"--time={seconds}", "--report-interval=1", "--percentile=99", "--histogram=on", "run"
        )
        done = run(command, what="sysbench", env=place.env(), check=False)
        result = parse_output(done.stdout)
        if result is None or done.returncode != 0:
            raise failure("sysbench", done.returncode, done.stdout)
        return result

    def check(self, place: Place, work: Path) -> dict[str, Any] | None:
        """sysbench has none; its read-write transactions delete a row and insert it again, so their number stays."""
        if self.load.kind != "sysbench-read-write":
            return None
        with db.connect_to(place) as connection:
            counts = [int(db.value(connection, f"SELECT count(*) FROM public.sbtest{i + 1}")) for i in range(self.load.tables)]
        good = all(count == self.load.rows for count in counts)
        return {"what": "each table has as many rows as were loaded", "passed": good, "detail": str(counts[:20])}


def parse_output(text: str) -> LoadResult | None:
    """The report that sysbench prints at the end, and its line for each second; None if there is no report."""
    count = re.search(r"^\s*transactions:\s+(\d+)\s+\(([0-9.]+) per sec", text, re.MULTILINE)
    average = re.search(r"^\s*avg:\s+([0-9.]+)", text, re.MULTILINE)
    errors = re.search(r"^\s*ignored errors:\s+(\d+)", text, re.MULTILINE)
    if count is None or average is None:
        return None
    over_time: list[list[float | None]] = [
        [float(second), None, None, float(p99)]
        for second, p99 in re.findall(r"^\[ (\d+)s \].*lat \(ms,99%\): ([0-9.]+)", text, re.MULTILINE)
    ]
    return LoadResult(
        int(count[1]),
        float(count[2]),
        float(average[1]),
        percentiles=_from_histogram(text),
        over_time=over_time,
        errors=int(errors[1]) if errors else 0,
        note="a transaction is about 15 statements; over time sysbench tells only within what time 99 of 100 come",
    )


def _from_histogram(text: str) -> dict[str, float]:
    """Lines such as `  12.345 |********    123`; values ascend."""
    bars = [(float(ms), int(n)) for ms, n in re.findall(r"^\s*([0-9.]+) \|\**\s+(\d+)\s*$", text, re.MULTILINE)]
    total = sum(n for _, n in bars)
    found: dict[str, float] = {}
    for share in PERCENTILES:
        seen = 0
        for ms, n in bars:
            seen += n
            if seen * 100 >= total * share:
                found[f"p{share:g}"] = ms
                break
    return found
