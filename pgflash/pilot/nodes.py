"""A cluster of several nodes: the study's own server as the primary, streaming standbys beside it, and a proxy in front.

Each node has a disk, a cache and a memory limit of its own, all alike. The load only reads, and reaches all nodes by the proxy,
which gives each connection to the next of them. With `failover` the primary is killed at the end, and the first standby takes over.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pgflash.lab.cluster import Cluster
from pgflash.lab.failover import REPLICATED, end_under, following, make_standby, promote, replayed, wait_until_warm
from pgflash.lab.proxy import Proxy
from pgflash.lab.storage import LabDisk
from pgflash.pilot.loads import Driver, LoadResult
from pgflash.pilot.own import DATABASE, WORK_PREFIX, OwnTarget, bin_folder, model_of
from pgflash.pilot.scenario import Scenario, Variant
from pgflash.pilot.target import Started
from pgflash.system import give_to_server_user

FIRST_S = 10  # of the new primary, and as long before on the old one; or the scenario's duration, if that is shorter
BROKEN_OFF_S = 20  # of a load that the end of the primary breaks off
LOADED_CONNECTIONS, LOADED_SENDERS = 100, 10  # PostgreSQL's defaults
PRIMARY, SUCCESSOR = "n1", "n2"


class Standby:
    """What the primary's counterpart in OwnTarget is: a place on a disk, a cache file, and the server that runs, if one does."""

    def __init__(self, name: str, port: int, cache_file: Path) -> None:
        self.name, self.port, self.cache_file = name, port, cache_file
        self.disk: LabDisk | None = None
        self.files = Path()
        self.cluster: Cluster | None = None

    @property
    def server(self) -> Cluster:
        assert self.cluster is not None
        return self.cluster


class NodesTarget(OwnTarget):
    def __init__(self, scenario: Scenario, driver: Driver, base: Path, keep: bool) -> None:
        super().__init__(scenario, driver, base, keep)
        self.standbys: list[Standby] = []
        self.proxy: Proxy | None = None

    def prepare(self) -> None:
        super().prepare()
        ports = {PRIMARY: self._first.port} | {standby.name: standby.port for standby in self.standbys}
        self.proxy = Proxy(self.work, ports, 2 * max(self.scenario.load.clients) + 10)
        self.proxy.start()

    @property
    def _first(self) -> Cluster:
        assert self.cluster is not None
        return self.cluster

    # --- storage ---

    def _open_flash(self) -> None:
        super()._open_flash()
        self.standbys = [Standby(f"n{i}", 5430 + i + 1, self.flash / f"cache-n{i}") for i in range(2, self.scenario.cluster.nodes + 1)]

    def _open_disk(self, offset: int) -> None:
        super()._open_disk(offset)
        disk = self.scenario.disk
        for standby in self.standbys:
            if disk.kind == "path":
                standby.files = self.work.below(Path(disk.path), WORK_PREFIX)
                continue
            standby.disk = LabDisk(self.work.path / f"disk-{standby.name}", model_of(disk))
            standby.disk.up(self._space_mb(), offset)
            standby.files = standby.disk.files
            give_to_server_user(standby.files)

    @property
    def _disks(self) -> list[LabDisk]:
        return [*super()._disks, *(standby.disk for standby in self.standbys if standby.disk is not None)]

    @property
    def _places(self) -> list[Path]:
        return [*super()._places, *(standby.files for standby in self.standbys)]

    @property
    def _servers(self) -> list[Cluster]:
        return [*super()._servers, *(standby.cluster for standby in self.standbys if standby.cluster is not None)]

    def _restore(self, data: Path, major: int) -> None:
        """All are copies of the same files, or go on from where they ended together."""
        there = [data, *(standby.files / data.name for standby in self.standbys)]
        if not all(path in self.clean for path in there):
            self.clean.difference_update(there)
        for standby in self.standbys:
            for other in standby.files.glob("cluster-*"):
                if other.name != data.name:
                    shutil.rmtree(other)
                    self.clean.discard(other)
        for path in there:
            super()._restore(path, major)

    # --- servers ---

    def _settings(self, variant: Variant) -> dict[str, str]:
        """A standby that was not there for a while finds the WAL that it needs. It may have no less of some things than the primary had when
        the data was loaded."""
        connections = max(LOADED_CONNECTIONS, max(self.scenario.load.clients) + 20)
        own = REPLICATED | {"wal_keep_size": "1GB", "max_connections": str(connections), "max_wal_senders": str(LOADED_SENDERS)}
        return super()._settings(variant) | own | self.scenario.server.settings | variant.arm.settings

    def _begin(self, variant: Variant) -> str:
        words = super()._begin(variant)
        for standby in self.standbys:
            data = standby.files / self._first.data.name
            standby.cluster = Cluster(
                self.work, f"{variant.name}-{standby.name}", data, bin_folder(self.scenario, variant.arm.major), standby.port
            )
            self._begin_standby(standby, variant)
        return words

    def _begin_standby(self, standby: Standby, variant: Variant) -> None:
        make_standby(standby.server)
        settings = self._settings(variant) | {"primary_conninfo": self._first.conninfo(DATABASE)}
        if variant.cache is not None:
            settings["pg_flashcache.file"] = str(standby.cache_file)
        if variant.arm.follow:
            settings = following(DATABASE) | settings
        self._start_cold(standby.server, variant, standby.cache_file, settings)

    def _open_cache(self, variant: Variant) -> None:
        """The standbys have its objects from the primary."""
        super()._open_cache(variant)
        for standby in self.standbys:
            self._open_standby(standby, variant)

    def _open_standby(self, standby: Standby, variant: Variant) -> None:
        replayed(self._first, standby.server, DATABASE)
        if variant.cache is not None:
            standby.server.open_cache(DATABASE, self.extensions[variant.arm.major])
            self._let_pause(False)

    def _start(self, variant: Variant) -> Started:
        started = super()._start(variant)
        assert self.proxy is not None
        self.proxy.let_in(self.proxy.names)
        started.nodes = (started.place, *(self._place(standby.server) for standby in self.standbys))
        started.place = replace(started.place, port=self.proxy.port)
        started.conditions |= {"nodes": self.scenario.cluster.nodes, "proxy": "HAProxy, each connection to the next node"}
        return started

    # --- a failover ---

    def fail_over(self, variant: Variant, load: Callable[[int], LoadResult]) -> dict[str, Any] | None:
        """The successor is one that nobody has read from: its cache and its memory are empty, and fill, if they do, by what it is told
        of its primary."""
        if not self.scenario.cluster.failover or variant.cache is None:
            return None
        assert self.proxy is not None
        successor = next(standby for standby in self.standbys if standby.name == SUCCESSOR)
        for path in (self._first.data, successor.server.data):
            self.clean.discard(path)
        self.proxy.let_in([PRIMARY])
        successor.server.stop()
        self.cached = False
        self.warm_speed()
        self._begin_standby(successor, variant)
        self.cached = True
        self._open_standby(successor, variant)
        share = wait_until_warm(successor.server, DATABASE) if variant.arm.follow else 0.0
        seconds = min(FIRST_S, self.scenario.duration_s)
        self.slow()
        before = load(seconds)
        end_under(lambda: load(BROKEN_OFF_S), self._first.kill)
        successor.server.forget()
        promoted = promote(successor.server, DATABASE)
        self.proxy.let_in([SUCCESSOR])
        given = self.proxy.connections()
        after = load(seconds)
        given = {name: count - given[name] for name, count in self.proxy.connections().items()}
        return {
            "seconds": seconds,
            "before": {"tps": round(before.tps, 3), "average_ms": round(before.average_ms, 4)},
            "after": {"tps": round(after.tps, 3), "average_ms": round(after.average_ms, 4)},
            "kept": round(after.tps / before.tps, 4) if before.tps else None,
            "promote_s": promoted,
            "warm_share": round(share, 4),
            "connections_after": given,
        }

    # --- the end ---

    def _stop_server(self) -> None:
        """The standbys first: a primary that ends waits for them."""
        for standby in self.standbys:
            if standby.cluster is not None:
                standby.cluster.stop()
                standby.cluster = None
        super()._stop_server()

    def close(self) -> None:
        if self.proxy is not None:
            self.proxy.stop()
        super().close()
