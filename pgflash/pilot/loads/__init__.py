"""The drivers that put a load on a database, and what they measured. One file each; `driver_for` picks."""

from __future__ import annotations

from pgflash.pilot.loads.base import Driver, LoadResult
from pgflash.pilot.loads.pgbench import Pgbench
from pgflash.pilot.loads.sysbench import Sysbench
from pgflash.pilot.loads.tpcc import Tpcc
from pgflash.pilot.scenario import Load

__all__ = ["Driver", "LoadResult", "driver_for"]


def driver_for(load: Load) -> Driver:
    if load.is_pgbench:
        return Pgbench(load)
    if load.kind == "tpcc":
        return Tpcc(load)
    return Sysbench(load)
