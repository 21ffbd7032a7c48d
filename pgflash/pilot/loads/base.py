"""What a driver of a load does."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from pgflash.lab.pgbench import PERCENTILES, LoadResult
from pgflash.pilot.target import Place

__all__ = ["PERCENTILES", "Driver", "LoadResult"]


class Driver(Protocol):
    name: str

    def missing(self, bin_folder: str) -> str:
        """What has to be installed for it; empty if nothing."""

    def space_mb(self) -> int:
        """About how large its database is; 0 if nobody knows beforehand."""

    def prepare(self, place: Place, work: Path) -> None:
        """Loads its data into an empty database. For a load without data of its own: nothing."""

    def run(self, place: Place, clients: int, seconds: int, work: Path, *, measured: bool) -> LoadResult:
        """Puts the load on for some seconds. Without `measured` only the load matters."""

    def check(self, place: Place, work: Path) -> dict[str, Any] | None:
        """The driver's own consistency checks, after a run; None if it has none."""
