"""TPC-C by go-tpc, a driver with TPC-C's consistency checks. Found as `go-tpc`, or built once by the machine's Go."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

from pgflash.errors import MachineError
from pgflash.pilot import db
from pgflash.pilot.loads.base import LoadResult
from pgflash.pilot.scenario import Load
from pgflash.pilot.target import Place
from pgflash.system import failure, find_program, run

VERSION = "v1.0.12"
PACKAGE = "github.com/pingcap/go-tpc/cmd/go-tpc"
MB_A_WAREHOUSE = 120
ORDERS = 30_000  # in a warehouse, once loaded
_COUNTED = ("NEW_ORDER", "PAYMENT", "ORDER_STATUS", "DELIVERY", "STOCK_LEVEL")
_LINE = re.compile(r"^\[(Current|Summary)\] (\w+)\s+- (.*)$", re.MULTILINE)


def _go() -> str:
    return find_program("go", "/usr/local/go/bin", "/usr/lib/go/bin")


def built() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "pgflash" / f"go-tpc-{VERSION}"


class Tpcc:
    name = "go-tpc"

    def __init__(self, load: Load) -> None:
        self.load = load

    def missing(self, bin_folder: str) -> str:
        return "" if self._found() or _go() else f"go-tpc {VERSION}, or Go 1.21 or later to build it with"

    def _found(self) -> str:
        return find_program("go-tpc") or (str(built()) if built().is_file() else "")

    def space_mb(self) -> int:
        return self.load.warehouses * MB_A_WAREHOUSE

    def _program(self, work: Path) -> str:
        found = self._found()
        if found:
            return found
        target = built()
        target.parent.mkdir(parents=True, exist_ok=True)
        module = work / "go-tpc"
        shutil.copytree(Path(__file__).parent / "go-tpc", module, dirs_exist_ok=True)
        fresh = target.with_suffix(f".{os.getpid()}")
        command = [_go(), "build", "-mod=readonly", "-buildvcs=false", "-o", str(fresh), PACKAGE]
        run(command, what=f"building go-tpc {VERSION}", cwd=module, error=MachineError)
        fresh.rename(target)
        return str(target)

    def _command(self, place: Place, work: Path, *more: str) -> list[str]:
        # A host of libpq can be the folder of a socket, which an address cannot: so the address has the port only.
        where = f"host={place.host}&sslmode=" + ("require" if place.ssl else "disable")
        return [
            self._program(work), "tpcc", "-d", "postgres", "-U", place.user, "-D", place.database, "--targets", f":{place.port}",
            "--conn-params", where, "--warehouses", str(self.load.warehouses), *more,
        ]  # fmt: skip

    def prepare(self, place: Place, work: Path) -> None:
        command = self._command(place, work, "-T", str(min(self.load.warehouses, 4)), "prepare", "--no-check", "--retry-count", "0")
        done = run(command, what="loading TPC-C", env=place.env())
        # It ends well in some cases in which it has not.
        with db.connect_to(place) as connection:
            orders = int(
                db.value(connection, "SELECT count(*) FROM public.orders")
                if db.value(connection, "SELECT to_regclass('public.orders')")
                else 0
            )
        if orders != ORDERS * self.load.warehouses:
            raise failure("loading TPC-C", done.returncode, done.stdout)

    def run(self, place: Place, clients: int, seconds: int, work: Path, *, measured: bool) -> LoadResult:
        command = self._command(place, work, "-T", str(clients), "--time", f"{seconds}s", "--interval", "1s", "run")
        done = run(command, what="go-tpc", env=place.env(), check=False)
        result = parse_output(done.stdout)
        if result is None or done.returncode != 0:
            raise failure("go-tpc", done.returncode, done.stdout)
        return result

    def check(self, place: Place, work: Path) -> dict[str, Any] | None:
        """TPC-C's consistency conditions (3.3.2.1 to 3.3.2.10 and 3.3.2.12; the 11th holds only before a run).

        One of them looks into the history for each customer: without an index of its own that takes minutes a warehouse. It is
        made after the measurement, in a database that is the study's own, and dropped again.
        """
        with db.connect_to(place) as connection:
            db.rows(connection, "CREATE INDEX pgflash_check ON history (h_c_w_id, h_c_d_id, h_c_id)")
            db.rows(connection, "ANALYZE")
            done = run(self._command(place, work, "-T", "1", "check"), what="go-tpc check", env=place.env(), check=False)
            db.rows(connection, "DROP INDEX pgflash_check")
        begun = len(re.findall(r"^begin to check warehouse", done.stdout, re.MULTILINE))
        failed = [line for line in done.stdout.splitlines() if "failed" in line]
        good = done.returncode == 0 and not failed and begun >= self.load.warehouses
        return {"what": "TPC-C consistency conditions", "passed": good, "detail": "\n".join(failed) or f"{begun} conditions checked"}


def _figures(text: str) -> dict[str, float]:
    return {name: float(number) for name, number in re.findall(r"([\w.()]+): ([0-9.]+)", text)}


def parse_output(text: str) -> LoadResult | None:
    """Lines `[Summary] NEW_ORDER - Takes(s): 10.0, Count: 123, TPM: ..., Sum(ms): ..., ...`."""
    count, total_ms, longest = 0, 0.0, 0.0
    errors = 0
    new_orders: dict[str, float] = {}
    seconds: list[list[float | None]] = []
    for when, name, rest in _LINE.findall(text):
        figures = _figures(rest)
        if when == "Current":
            if name == "NEW_ORDER":
                seconds.append([float(len(seconds)), figures["50th(ms)"], figures["95th(ms)"], figures["99th(ms)"]])
            continue
        if name.endswith("_ERR"):
            errors += int(figures["Count"])
        elif name in _COUNTED:
            count += int(figures["Count"])
            total_ms += figures["Sum(ms)"]
            longest = max(longest, figures["Takes(s)"])
            if name == "NEW_ORDER":
                new_orders = figures
    if not count or not longest:
        return None
    return LoadResult(
        count,
        count / longest,
        total_ms / count,
        percentiles={"p50": new_orders["50th(ms)"], "p95": new_orders["95th(ms)"], "p99": new_orders["99th(ms)"]} if new_orders else {},
        over_time=seconds,
        errors=errors,
        note="percentiles are of new orders; go-tpc rounds them to one digit and to 1 ms at least",
        more={"new_orders_per_minute": new_orders.get("TPM", 0.0)},
    )
