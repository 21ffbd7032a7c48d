"""Where a load runs: a cluster that the study makes (own.py) or one that is there (existing.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pgflash.lab.pgbench import LoadResult
from pgflash.pilot.scenario import Variant
from pgflash.system import Device

# Parameters of libpq and their variables.
ENVIRONMENT = {
    "password": "PGPASSWORD", "sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT", "sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY",
    "channel_binding": "PGCHANNELBINDING", "gssencmode": "PGGSSENCMODE", "options": "PGOPTIONS",
}  # fmt: skip


@dataclass(frozen=True)
class Place:
    """How a driver reaches the database. The password is for the environment, never for a command line."""

    host: str
    port: int
    user: str
    database: str
    password: str = ""
    bin: str = ""
    ssl: bool = False
    more: tuple[tuple[str, str], ...] = ()  # other parameters of libpq, such as sslrootcert

    def conninfo(self) -> str:
        pairs = {"host": self.host, "port": str(self.port), "user": self.user, "dbname": self.database}
        return " ".join(f"{name}='{_quoted(text)}'" for name, text in (pairs | dict(self.more)).items() if text)

    def env(self) -> dict[str, str]:
        """For drivers that take no connection string, and for the password."""
        names = {"password": self.password} | dict(self.more)
        return {ENVIRONMENT[name]: text for name, text in names.items() if text and name in ENVIRONMENT}


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


@dataclass
class Started:
    """What a server was started with: the conditions of its measurements. `nodes`: where counters are, if not at `place`."""

    place: Place
    conditions: dict[str, Any] = field(default_factory=dict)
    nodes: tuple[Place, ...] = ()

    @property
    def counted(self) -> tuple[Place, ...]:
        return self.nodes or (self.place,)


class Target(Protocol):
    database_bytes: int
    log_folder: Path

    def prepare(self) -> None:
        """Makes what is to be measured: cluster and data. Once."""

    def start(self, variant: Variant) -> Started:
        """A server as the variant wants it, cold."""

    def rank(self, variant: Variant, started: Started) -> Started:
        """Moves what the variant wants moved, after a load has shown what is hot; started again."""

    def slow(self) -> None:
        """Modelled storage as the scenario has it: for measuring."""

    def warm_speed(self) -> None:
        """Modelled storage as the scenario wants it between measurements."""

    def devices(self) -> dict[str, list[Device]]:
        """Under "disk" and "flash", where they can be seen; of all nodes."""

    def memory_peak_mb(self) -> int | None: ...

    def fail_over(self, variant: Variant, load: Callable[[int], LoadResult]) -> dict[str, Any] | None:
        """What the load got on the primary, and on the standby that took over; None if the scenario has no failover for it.
        load: puts it on for some seconds."""

    def stop(self) -> None:
        """Ends what `start` began; may be repeated."""

    def close(self) -> None:
        """Removes or restores everything; may be repeated."""
