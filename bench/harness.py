"""What figures have in common: storage, clusters with and without the cache, loads, counters."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TypeVar

from bench.record import Record
from pgflash.errors import BrokeOff
from pgflash.lab.cluster import REPEATABLE, Cluster, Counters, programs
from pgflash.lab.extension import Extension
from pgflash.lab.storage import Disk, Model, PlainDisk, slow_disk
from pgflash.lab.warm import warm
from pgflash.lab.work import Work
from pgflash.system import give_to_server_user, run
from pgflash.units import parse_size

T = TypeVar("T")
Settings = Mapping[str, str]
BEGAN = time.monotonic()
DATABASE = "bench"
# Pages of an index that is built under wal_level = minimal have no LSN, and never come to flash (docs/reliability.md).
LOADING = {"shared_buffers": "256MB", "fsync": "off", "wal_level": "replica", "max_wal_size": "512MB"}
# pgbench's select-only transaction with skewed keys: two thirds of the accesses go to a fifth of the table.
GAUSSIAN = r"""\set aid random_gaussian(1, 100000 * :scale, 5)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
"""


@dataclass
class Options:
    """Of the command. reps, seconds, scale: None where the figure knows best."""

    major: int = 15
    reps: int | None = None
    seconds: int | None = None
    scale: int | None = None
    keep: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    flash: Path | None = None
    dir: Path | None = None
    out: Path | None = None


def rotated(rep: int, arms: Sequence[T]) -> list[T]:
    """The order of a repetition: each arm takes each place, so that none is always the first."""
    by = rep % len(arms)
    return [*arms[by:], *arms[:by]]


def say(text: str) -> None:
    passed = int(time.monotonic() - BEGAN)
    print(f"  [{passed // 60:3d}:{passed % 60:02d}] {text}", flush=True)


def expect_plan(plan: str, words: str) -> None:
    """Ends the run where a statement is planned otherwise."""
    if words.lower() not in plan.lower():
        raise BrokeOff(f"the plan is not a {words}: {plan}")


class Bench:
    """One run of a figure, and all that it has started. Everything is in `work`, and gone after close()."""

    def __init__(self, options: Options, work: Work, record: Record, extension: Extension) -> None:
        self.options, self.work, self.record = options, work, record
        self.major = options.major
        self.extension = extension
        self.flash = work.below(options.flash, "pg_flashcache_flash.") if options.flash else work.servers_folder("flash")
        self.disk: Disk = PlainDisk(work.path / "files")
        self.clusters: dict[str, Cluster] = {}

    def reps(self, usual: int) -> range:
        return range(1, (self.options.reps or usual) + 1)

    def seconds(self, usual: int) -> int:
        return self.options.seconds or usual

    def scale(self, usual: int) -> int:
        return self.options.scale or usual

    # --- storage and clusters ---

    def lab_disk(self, size_mb: int) -> None:
        self.disk = slow_disk(self.work.path, size_mb, Model())
        self.disk.fast()
        say(f"disk: {self.disk}")

    def make(self, name: str) -> Cluster:
        give_to_server_user(self.disk.files)
        cluster = self.cluster(name)
        cluster.make()
        return cluster

    def cluster(self, name: str) -> Cluster:
        if name not in self.clusters:
            port = 5432 + len(self.clusters)
            self.clusters[name] = Cluster(self.work, name, self.disk.files / name, programs(self.major), port)
        return self.clusters[name]

    def clone(self, name: str, new: str) -> None:
        self.clusters[name].copy(self.cluster(new).data)

    def start(self, name: str, settings: Settings, limit_mb: int | None = None) -> Cluster:
        """--set wins over everything."""
        cluster = self.cluster(name)
        cluster.start({**REPEATABLE, **settings, **self.options.settings}, limit_mb, self.disk)
        if limit_mb is not None and not cluster.limit.is_made:
            say(f"memory limit: {cluster.limit.words}")
        return cluster

    def start_flash(self, name: str, size: str, settings: Settings, limit_mb: int | None = None, database: str = DATABASE) -> Cluster:
        """With the cache, cold and in a new file."""
        cluster = self.start(name, self._with_cache(name, size) | dict(settings), limit_mb)
        cluster.open_cache(database, self.extension)
        return cluster

    def _with_cache(self, name: str, size: str) -> dict[str, str]:
        cluster, parsed = self.cluster(name), parse_size(size)
        assert parsed is not None
        cluster.new_cache(self.flash / name, parsed.bytes)
        # what is measured is the cache, also where the disk's delays are suspended for a while
        return cluster.cache_settings(self.flash / name, size, self.extension, self.disk) | {"pg_flashcache.bypass": "off"}

    def start_disabled(self, name: str, size: str, settings: Settings) -> Cluster:
        return self.start(name, self._with_cache(name, size) | {**settings, "pg_flashcache.enabled": "off"})

    def start_advice(self, name: str, settings: Settings) -> Cluster:
        """Without a cache: the library only listens."""
        only = {"pg_flashcache.size": "0", "pg_flashcache.file": "", "pg_flashcache.advice": "on"}
        cluster = self.start(name, self._with_cache(name, "1MB") | dict(settings) | only)
        if not cluster.sql(DATABASE, "SELECT to_regclass('pg_stat_flashcache')"):
            self.extension.create(cluster, DATABASE)
        return cluster

    def limit_words(self, cluster: Cluster) -> str:
        return cluster.limit.words if cluster.limit.is_made else "none"

    def close(self) -> None:
        if self.disk.name != "plain":
            self.disk.fast()
        for cluster in self.clusters.values():
            cluster.stop(at_once=not self.options.keep)
        self.disk.down()
        if self.options.keep:
            print(f"kept: {self.work.path}", flush=True)
        else:
            self.work.remove()

    # --- tables ---

    def loaded(self, name: str, scale: int, *statements: str, buffers: str = "256MB") -> Cluster:
        """A new cluster with pgbench's tables, stopped."""
        cluster = self.make(name)
        self.start(name, LOADING | {"shared_buffers": buffers})
        cluster.load(DATABASE, scale)
        if statements:
            cluster.sql(DATABASE, *statements)
        return cluster

    def pages(self, name: str, pages: int, script: str = "") -> Cluster:
        """A new cluster, running, with a table of one row a page, and with it a way to read any page through the buffer manager
        at the price of about a microsecond: a join with row addresses, which is a nested loop over TID scans. (pg_prewarm(), a
        page a call, costs four times that; get_raw_page() copies the page as well.)"""
        cluster = self.make(name)
        self.start(name, LOADING)
        cluster.sql("postgres", f"CREATE DATABASE {DATABASE}")
        cluster.script(
            DATABASE,
            f"""
            CREATE TABLE pages (id int, filler text);
            ALTER TABLE pages ALTER filler SET STORAGE PLAIN;
            INSERT INTO pages SELECT i, repeat('x', 7900) FROM generate_series(0, {pages - 1}) i;
            VACUUM (FREEZE, ANALYZE) pages;
            CHECKPOINT;
            """
            + script,
        )
        return cluster

    def file(self, name: str, text: str) -> str:
        """A script for pgbench."""
        path = self.work.scratch / name
        path.write_text(text, "utf-8")
        return str(path)

    # --- loads ---

    def fio(self, name: str, slots: int, engine: str, way: str, *more: str) -> list[str]:
        """What fio says of reading the first slots of a server's flash file, which begins with a header of 64 KiB."""
        command = [
            "fio", "--name=flash", f"--ioengine={engine}", f"--rw={way}", "--direct=1", "--readonly", f"--filename={self.flash / name}",
            "--offset=64k", f"--size={slots * 8}k", "--output-format=terse", "--terse-version=3", *more,
        ]  # fmt: skip
        return run(command, what="fio").stdout.strip().split(";")

    def warm(self, cluster: Cluster, load: Sequence[str], max_s: int, step_points: float) -> None:
        warm(cluster, DATABASE, lambda: cluster.pgbench("-T", "10", *load), max_s, step_points)

    def round(self, rep: int, slices: int, seconds: int, servers: Sequence[str], load: Sequence[str], record: Record) -> None:
        """Servers side by side, idle but for the one under load; slices of a few seconds go round them in an order that alternates.

        Records each one's transactions a second (median of its slices) and the processor time of a transaction in its sessions.
        The latter hardly minds what else the machine is doing.
        """
        ticks = {server: session_ticks(self.clusters[server]) for server in servers}
        tps: dict[str, list[float]] = {server: [] for server in servers}
        transactions = dict.fromkeys(servers, 0)
        for i in range(slices):
            for server in rotated(rep + i, servers):
                result = self.clusters[server].pgbench("-T", str(seconds), *load)
                tps[server].append(result.tps)
                transactions[server] += result.transactions
        for server in servers:
            cpu_us = 1e6 * seconds_of(session_ticks(self.clusters[server]) - ticks[server])
            each = cpu_us / transactions[server] if transactions[server] else 0
            record.add(server, rep, tps=round(median(tps[server]), 1), cpu_us=round(each, 2))


def load_results(record: Record, what: str, goal: str, server: str) -> None:
    """Both ratios of such a round, against the server "without"."""
    record.ratio(f"{what}: transactions/s, loaded / not loaded", f"at least {goal}", "tps", server, "without")
    record.ratio(f"{what}: processor time of a transaction, not loaded / loaded", f"at least {goal}", "cpu_us", "without", server)


def counters(cluster: Cluster) -> Counters:
    return cluster.counters(DATABASE)


def seconds_of(ticks: int) -> float:
    return ticks / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()


def session_ticks(cluster: Cluster) -> int:
    """Processor time of a server's processes that have ended: with pgbench's sessions gone, theirs."""
    while cluster.number("postgres", "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'") > 1:
        time.sleep(0.02)
    fields = _stat(cluster.postmaster())
    return int(fields[13]) + int(fields[14])


def writer_ticks(cluster: Cluster) -> int:
    """Processor time of the cache's writer. While the other servers are under load it idles."""
    postmaster = cluster.postmaster()
    for child in Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split():
        if b"flashcache writer" in Path(f"/proc/{child}/cmdline").read_bytes():
            fields = _stat(int(child))
            return int(fields[11]) + int(fields[12])
    return 0


def set_probe(cluster: Cluster, value: str) -> None:
    """os_cache_probe of a running server: auto or off."""
    name = "pg_flashcache.os_cache_probe"
    cluster.set(DATABASE, name, value)
    for _ in range(100):
        if cluster.sql(DATABASE, f"SHOW {name}") == value:
            return
        time.sleep(0.05)
    raise BrokeOff(f"{name} did not become {value}")


def timing(output: str) -> float:
    """Seconds of the last statement of a script with \\timing on."""
    return float([line.split()[1] for line in output.splitlines() if line.startswith("Time:")][-1]) / 1000
