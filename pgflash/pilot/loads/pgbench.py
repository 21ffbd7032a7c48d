"""pgbench: its built-in loads with keys of four distributions, and any script of the user's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pgflash.lab.pgbench import LoadResult, latencies, parse_output
from pgflash.pilot import db
from pgflash.pilot.scenario import Load
from pgflash.pilot.target import Place
from pgflash.system import failure, find_program, run

ROWS = 100_000  # accounts in a unit of scale
MB_A_SCALE = 15

_SELECT = "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"
_TPCB = r"""\set bid random(1, 1 * :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
"""


def script(load: Load) -> str:
    """The script of a built-in load: a key of the distribution asked for, then the transaction."""
    return _key(load) + (_TPCB if load.kind == "pgbench-tpcb" else _SELECT)


def _key(load: Load) -> str:
    rows = f"{ROWS} * :scale"
    if load.keys == "hot-spot":
        text = (
            f"\\set hot greatest(1, int({rows} * {load.hot_share!r}))\n"
            "\\set dice random(1, 1000000)\n"
            f"\\if :dice <= {round(load.hot_access * 1_000_000)}\n\\set aid random(1, :hot)\n"
            f"\\else\n\\set aid random(least(:hot + 1, {rows}), {rows})\n\\endif\n"
        )
    elif load.keys == "uniform":
        text = f"\\set aid random(1, {rows})\n"
    else:
        text = f"\\set aid random_{load.keys}(1, {rows}, {load.skew!r})\n"
    if load.scatter:
        text += f"\\set aid 1 + permute(:aid - 1, {rows}, 1)\n"
    return text


class Pgbench:
    name = "pgbench"

    def __init__(self, load: Load) -> None:
        self.load = load

    def missing(self, bin_folder: str) -> str:
        return "" if find_program("pgbench", bin_folder) else "pgbench (Debian: postgresql-15, or postgresql-contrib)"

    def space_mb(self) -> int:
        own = self.load.kind == "script" and bool(self.load.setup)
        return 0 if own else self.load.scale * MB_A_SCALE

    def prepare(self, place: Place, work: Path) -> None:
        if self.load.setup:
            command = [
                find_program("psql", place.bin) or "psql",
                "-X",
                "-q",
                "-v",
                "ON_ERROR_STOP=1",
                "-f",
                self.load.setup,
                place.conninfo(),
            ]
            run(command, what=f"the setup script {self.load.setup}", env=place.env())
            return
        command = [self._program(place), "-i", "-q", "-s", str(self.load.scale), place.conninfo()]
        run(command, what="loading pgbench's tables", env=place.env())

    def _program(self, place: Place) -> str:
        return find_program("pgbench", place.bin) or "pgbench"

    def _script_file(self, work: Path) -> Path:
        if self.load.kind == "script":
            return Path(self.load.script)
        path = work / "load.sql"
        path.write_text(script(self.load), "utf-8")
        return path

    def run(self, place: Place, clients: int, seconds: int, work: Path, *, measured: bool) -> LoadResult:
        prefix = work / "latency"
        for old in work.glob("latency.*"):
            old.unlink()
        command = [
            self._program(place), "-n", "-M", self.load.protocol, "-c", str(clients), "-j", str(min(clients, self.load.threads)),
            "-T", str(seconds), "-s", str(self.load.scale), "-f", str(self._script_file(work)),
        ]  # fmt: skip
        if measured:
            command += ["--log", f"--sampling-rate={self.load.sample:g}", f"--log-prefix={prefix}"]
        done = run([*command, place.conninfo()], what="pgbench", env=place.env(), check=False)
        result = parse_output(done.stdout)
        if result is None or done.returncode not in (0, 2):
            raise failure("pgbench", done.returncode, done.stdout)
        if done.returncode == 2:
            result.note = "some clients stopped with an error"
            result.more["said"] = "\n".join(line for line in done.stdout.splitlines() if "error" in line.lower())[:2000]
        if measured:
            log = [path for path in work.glob("latency.*") if path.is_file()]
            result.percentiles, result.over_time = latencies(log)
        return result

    def check(self, place: Place, work: Path) -> dict[str, Any] | None:
        """TPC-B's own rule: what the branches, tellers and accounts hold is the sum of the history."""
        if self.load.kind != "pgbench-tpcb":
            return None
        statement = (
            "SELECT (SELECT sum(abalance) FROM public.pgbench_accounts), (SELECT sum(tbalance) FROM public.pgbench_tellers),"
            " (SELECT sum(bbalance) FROM public.pgbench_branches), (SELECT coalesce(sum(delta), 0) FROM public.pgbench_history)"
        )
        with db.connect_to(place) as connection:
            sums = [int(number or 0) for number in db.rows(connection, statement)[0]]
        return {"what": "sums of accounts, tellers, branches and history are equal", "passed": len(set(sums)) == 1, "detail": str(sums)}
