"""The server, by SQL through one connection: settings, paths, counters, and whether it runs on this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pgflash import devices, latency
from pgflash.doctor.facts.machine import Machine
from pgflash.errors import MachineError

# What is behind the colon, `pgflash drives` says in its own words.
ELSEWHERE = "the server runs on another machine or in another container: run the doctor there as well"
CONTAINED = "the server runs in a container with mounts of its own: run the doctor inside it"

Rows = Callable[[str], list[tuple[Any, ...]]]

_UNITS = {"B": 1, "kB": 1024, "8kB": 8192, "16kB": 16384, "32kB": 32768, "4kB": 4096, "64kB": 65536, "MB": 1 << 20, "16MB": 16 << 20}


@dataclass(frozen=True)
class Setting:
    value: str
    unit: str = ""
    context: str = "sighup"
    values: tuple[str, ...] = ()
    pending: bool = False


@dataclass
class Server:
    version: int
    settings: dict[str, Setting]
    local: bool = True
    not_local: str = ""
    postmaster: int | None = None
    tablespaces: dict[str, str] = field(default_factory=dict)
    cache: dict[str, Any] = field(default_factory=dict)
    """The row of pg_stat_flashcache; empty if the extension is not in this database."""
    cache_unasked: str = ""
    """Why the view could not be read, and what helps."""
    latency: list[tuple[float, float | None, float]] = field(default_factory=list)
    """Of reads from disk, by pg_stat_flashcache_latency: from and to in microseconds, and how many; none where the view cannot be read."""
    devices: list[dict[str, Any]] = field(default_factory=list)
    """Rows of pg_stat_flashcache_device, of the devices that were added, and of the first if it is off; none where the view cannot be
    read."""
    devices_unasked: str = ""
    """Why that view could not be read though it is there, and what helps."""
    drives: list[dict[str, Any]] = field(default_factory=list)
    """Rows of pg_stat_flashcache_device_health with a report: what `pgflash drives` was told, and `age_s`, how many seconds ago."""
    drives_unasked: str = ""
    """Why that view could not be read though it is there, and what helps."""
    extension: bool = False
    """The extension is in this database, whether its library is preloaded or not."""
    checkpoints_timed: int = 0
    checkpoints_requested: int = 0
    temp_bytes: int = 0
    identifier: str = ""
    superuser: bool = False
    changeable: frozenset[str] = frozenset()
    """Settings that this role may change with ALTER SYSTEM."""
    may_reload: bool = True
    """This role may call pg_reload_conf()."""
    overruled: frozenset[str] = frozenset()
    """Settings of the server's command line, where ALTER SYSTEM has no effect."""

    def get(self, name: str) -> str:
        return self.settings[name].value if name in self.settings else ""

    def has(self, name: str) -> bool:
        return name in self.settings

    def number(self, name: str) -> float:
        try:
            return float(self.get(name))
        except ValueError:
            return 0.0

    def bytes(self, name: str) -> int:
        return int(self.number(name) * _UNITS.get(self.settings[name].unit, 1)) if name in self.settings else 0

    @property
    def data_directory(self) -> str:
        return self.get("data_directory")

    @property
    def disk_ms(self) -> tuple[float, str] | None:
        """Of a page from disk, as the cache has measured it itself, and which view says so. None: too few, or no cache."""
        timed = self.get("io_method") in ("", "sync")  # else most of them are not, and the histograms have those that are
        found = (
            latency.mean_ms(float(self.cache.get("disk_reads") or 0), float(self.cache.get("disk_read_time_us") or 0)) if timed else None
        )
        if found is not None:
            return found, "pg_stat_flashcache"
        found = latency.mean_ms(*latency.totals(self.latency))
        return None if found is None else (found, "pg_stat_flashcache_latency")

    @property
    def has_cache(self) -> bool:
        """The library is preloaded: its settings are defined."""
        return self.has("pg_flashcache.size") and self.settings["pg_flashcache.size"].context == "postmaster"


def gather(
    rows: Rows,
    machine: Machine,
    host: str,
    local_addresses: frozenset[str],
    cache_view: Callable[[], tuple[str, str, bool]],
    readable: Callable[[str], tuple[str, str]] = lambda name: ("", ""),
) -> Server:
    """`readable`: the qualified name of a view of the extension, where this role may read it; else why not, if it is there."""
    names = "name, setting, unit, context, enumvals, pending_restart"
    settings = {
        name: Setting(value or "", unit or "", context, tuple(values or ()), bool(pending))
        for name, value, unit, context, values, pending in rows(f"SELECT {names} FROM pg_settings")
    }
    server = Server(int(settings["server_version_num"].value), settings)
    (pid, socket, address, server.superuser), *_ = rows(
        "SELECT pg_backend_pid(), inet_server_addr() IS NULL, host(inet_server_addr()), current_setting('is_superuser') = 'on'"
    )
    _locate(server, machine, int(pid), bool(socket) or address in local_addresses or host in local_addresses)
    server.tablespaces = {
        name: place for name, place in rows("SELECT spcname, pg_tablespace_location(oid) FROM pg_tablespace ORDER BY 1") if place
    }
    server.identifier = str(rows("SELECT system_identifier FROM pg_control_system()")[0][0])
    checkpoints = (
        "SELECT num_timed, num_requested FROM pg_stat_checkpointer"
        if server.version >= 170000
        else "SELECT checkpoints_timed, checkpoints_req FROM pg_stat_bgwriter"
    )
    server.checkpoints_timed, server.checkpoints_requested = (int(value) for value in rows(checkpoints)[0])
    server.temp_bytes = int(rows("SELECT coalesce(sum(temp_bytes), 0) FROM pg_stat_database")[0][0])
    server.changeable = frozenset(
        row[0]
        for row in rows(
            "SELECT name FROM pg_settings WHERE context IN ('sighup', 'superuser', 'user', 'backend', 'superuser-backend')"
            " AND has_parameter_privilege(current_user, name, 'ALTER SYSTEM')"
        )
    )
    server.may_reload = bool(rows("SELECT has_function_privilege('pg_catalog.pg_reload_conf()', 'EXECUTE')")[0][0])
    server.overruled = frozenset(row[0] for row in rows("SELECT name FROM pg_settings WHERE source = 'command line'"))
    view, server.cache_unasked, server.extension = cache_view()
    if view and server.has_cache:
        try:
            age = "jsonb_build_object('state_age_s', extract(epoch FROM clock_timestamp() - s.state_since)::float8)"
            server.cache = dict(rows(f"SELECT to_jsonb(s) || {age} FROM {view} s")[0][0])
        except MachineError as error:  # one view is no reason to look at nothing
            server.cache_unasked = error.message.splitlines()[0]
    histograms, _ = readable("pg_stat_flashcache_latency") if server.cache else ("", "")
    if histograms:
        kinds = ", ".join(f"'{name}'" for name in latency.READS)
        buckets = rows(f"SELECT from_us, to_us, sum(count)::float8 FROM {histograms} WHERE operation IN ({kinds}) GROUP BY 1, 2")
        server.latency = [(float(start), None if end is None else float(end), count) for start, end, count in buckets]
    added, server.devices_unasked = readable(devices.VIEW) if server.cache else ("", "")
    if added:
        server.devices = [
            dict(row) for (row,) in rows(f"SELECT to_jsonb(d) FROM {added} d WHERE d.device > 1 OR d.state = 'off' ORDER BY d.device")
        ]
    health, server.drives_unasked = readable("pg_stat_flashcache_device_health") if server.cache else ("", "")
    if health:
        age = "jsonb_build_object('age_s', extract(epoch FROM h.age)::float8)"
        server.drives = [
            dict(row) for (row,) in rows(f"SELECT to_jsonb(h) || {age} FROM {health} h WHERE h.reported IS NOT NULL ORDER BY h.device")
        ]
    return server


def _locate(server: Server, machine: Machine, pid: int, address_here: bool) -> None:
    """Is it on this machine, and in this container? Its session must be one of our processes, and see our files."""
    fields = machine.text(f"/proc/{pid}/stat").rpartition(")")
    here = address_here and "(postgres" in fields[0] and len(fields[2].split()) > 1
    if not here:
        server.local = False
        server.not_local = ELSEWHERE
        return
    mine, its = (machine.link(f"/proc/{which}/ns/mnt") for which in ("self", pid))
    if mine and its and mine != its:
        server.local = False
        server.not_local = CONTAINED
        return
    server.postmaster = int(fields[2].split()[1])
