"""A cluster of the study's own, on the lab's disk and flash or on folders that the user names.

Everything lies in one temporary folder (and in the folders named), listens on a unix socket in it, and is gone at the end,
also after an interruption. The loaded cluster is kept pristine on the side; an arm that changes it (a load that writes,
moved objects, another disk) starts from a copy of that, so every arm begins with the same files.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from psycopg import sql

from pgflash.doctor.check import Change, Write
from pgflash.doctor.treatment import Treatment
from pgflash.errors import DiskFull, PgflashError
from pgflash.lab import extension
from pgflash.lab.cluster import LOADING, REPEATABLE, Cluster, programs, server_version
from pgflash.lab.storage import SPINS_FROM_US, LabDisk, Model
from pgflash.lab.work import RANDOM, Work
from pgflash.pilot import db
from pgflash.pilot.loads import Driver, LoadResult
from pgflash.pilot.scenario import Arm, Scenario, Storage, Variant
from pgflash.pilot.target import Place, Started
from pgflash.system import (
    Device,
    device_of,
    disk_full,
    file_system,
    forget_files,
    give_to_server_user,
    is_root,
    mount_options,
    on_one_device,
    run,
)
from pgflash.units import MB

DATABASE = "pilot"
TABLESPACE = "pilot_flash"
MISALIGNED = 63 * 512  # where the first partition of an old partition table begins
RANKING_S = 20
WORK_PREFIX = "pgflash."
WORK_LENGTH = len(WORK_PREFIX) + RANDOM
BEGINS_BAD = ("before", "doctor")  # tunings that have, or begin with, what nobody has tuned
FAIR = ("bfq", "cfq")  # schedulers that share a disk fairly between processes


def schedulers(tuning: str, read_us: int) -> tuple[str, ...]:
    """The kernel's I/O schedulers for tuning "after", and others, the preferred one first."""
    if tuning != "after":
        return FAIR
    return ("mq-deadline", "deadline") if read_us >= SPINS_FROM_US else ("none", "noop")


def bin_folder(scenario: Scenario, major: int) -> str:
    return scenario.server.bin if scenario.server.bin and major == scenario.server.major else programs(major)


def model_of(storage: Storage) -> Model:
    return Model(storage.spindles, storage.read_us, storage.write_us, storage.mb_per_s)


class OwnTarget:
    def __init__(self, scenario: Scenario, driver: Driver, base: Path, keep: bool) -> None:
        self.scenario = scenario
        self.driver = driver
        self.keep = keep
        self.database_bytes = 0
        self.work = Work(base, WORK_PREFIX)
        self.log_folder, self.scratch = self.work.log, self.work.scratch
        self.lab_disk: LabDisk | None = None
        self.lab_flash: LabDisk | None = None
        self.offset = 0
        self.files = self.work.path  # where clusters on the disk are
        self.flash = self.work.path
        self.cluster: Cluster | None = None  # the running one
        self.cached = False  # it has a cache
        self.extensions: dict[int, extension.Extension] = {}
        self.clean: set[Path] = set()  # clusters that are as loaded
        self.treatment = Treatment(self.work.path / "doctor.json")

    # --- storage ---

    @contextlib.contextmanager
    def _room(self) -> Iterator[None]:
        """A disk that is full has a message of its own."""
        try:
            yield
        except OSError as error:
            if disk_full(error):
                raise DiskFull(f"{self.work.path}: the disk is full: {error}", "choose another folder with --dir") from error
            raise

    def prepare(self) -> None:
        with self._room():
            self._open_flash()
            self._open_disk(0)
            for major in sorted({variant.arm.major for variant in self.scenario.variants}):
                if any(variant.cache for variant in self.scenario.variants if variant.arm.major == major):
                    folder = bin_folder(self.scenario, major)
                    self.extensions[major] = extension.provide(folder, major, self.scenario.server.extension, self.work.path)
                self._load(major)

    def _space_mb(self) -> int:
        """Of the lab's disk: the cluster, what the load adds, sorting, WAL."""
        return self.driver.space_mb() * 3 // 2 + 3000 if self.driver.space_mb() else 8000

    def _open_disk(self, offset: int) -> None:
        disk = self.scenario.disk
        if disk.kind == "path":
            self.files = self.work.below(Path(disk.path), WORK_PREFIX)
            return
        if self.lab_disk is not None:
            self.lab_disk.remove()
            self.clean = {path for path in self.clean if not path.is_relative_to(self.files)}
        self.lab_disk = LabDisk(self.work.path / "disk", model_of(disk))
        self.lab_disk.up(self._space_mb(), offset)
        self.offset = offset
        self.files = self.lab_disk.files
        give_to_server_user(self.files)

    def _open_flash(self) -> None:
        flash = self.scenario.flash
        if flash.kind == "path":
            self.flash = self.work.below(Path(flash.path), WORK_PREFIX)
        elif flash.kind == "file":
            self.flash = self.work.folder("flash")
        else:
            self.lab_flash = LabDisk(self.work.path / "flashdisk", model_of(flash))
            self.lab_flash.up(self._space_mb() * 2)
            self.flash = self.lab_flash.files
        self.flash.chmod(0o700)
        give_to_server_user(self.flash)

    @property
    def _disks(self) -> list[LabDisk]:
        """The lab's that servers lie on."""
        return [self.lab_disk] if self.lab_disk is not None else []

    @property
    def _lab_disks(self) -> list[LabDisk]:
        return [*self._disks, *([self.lab_flash] if self.lab_flash is not None else [])]

    @property
    def _places(self) -> list[Path]:
        """Where servers lie on the disk."""
        return [self.files]

    @property
    def _servers(self) -> list[Cluster]:
        return [self.cluster] if self.cluster is not None else []

    def devices(self) -> dict[str, list[Device]]:
        """Those whose requests are the study's alone: the machine's own disk, with everything else on it, is not."""
        if on_one_device(self.files, self.flash):  # neither could be told from the other
            return {}
        folders = {"disk": self._places}
        if self.scenario.flash.kind != "file":
            folders["flash"] = [self.flash]
        found = {name: [device for device in map(device_of, each) if device is not None] for name, each in folders.items()}
        return {name: list(dict.fromkeys(each)) for name, each in found.items() if each}

    def slow(self) -> None:
        self._let_pause(True)
        for disk in self._lab_disks:
            disk.slow()

    def fast(self) -> None:
        for disk in self._lab_disks:
            disk.fast()

    def warm_speed(self) -> None:
        """The disk as the scenario wants it for warming up; flash as it is: the cache measures it."""
        self.fast()
        if self.lab_flash is not None:
            self.lab_flash.slow()
        for disk in self._disks if self.scenario.warmup.disk == "slow" else []:
            disk.slow()
        self._let_pause(False)

    def _let_pause(self, yes: bool) -> None:
        if self.cached and self.lab_disk is not None and self.scenario.warmup.disk == "fast":
            for server in self._servers:
                server.let_pause(DATABASE, yes)

    # --- the loaded cluster ---

    def _cluster(self, data: Path, major: int, name: str) -> Cluster:
        return Cluster(self.work, name, data, bin_folder(self.scenario, major))

    def _pristine(self, major: int) -> Cluster:
        return self._cluster(self.work.path / "pristine" / str(major), major, "load")

    def _load(self, major: int) -> None:
        """Made on the machine's own disk at full speed, and kept."""
        cluster = self.cluster = self._pristine(major)
        cluster.data.parent.mkdir(exist_ok=True)
        give_to_server_user(cluster.data.parent)
        cluster.make()
        cluster.start(LOADING)
        cluster.sql("postgres", f"CREATE DATABASE {DATABASE}")
        self.driver.prepare(self._place(cluster), self.scratch)
        cluster.sql(DATABASE, "VACUUM ANALYZE", "CHECKPOINT")
        self.database_bytes = cluster.number(DATABASE, "SELECT pg_database_size(current_database())")
        self._stop_server()

    @staticmethod
    def _place(cluster: Cluster) -> Place:
        return Place(str(cluster.work.socket), cluster.port, "postgres", DATABASE, bin=cluster.bin)

    def _restore(self, data: Path, major: int) -> None:
        """A pristine copy, unless it is one."""
        if data in self.clean and data.is_dir():
            return
        shutil.rmtree(data, ignore_errors=True)
        for old in self.flash.glob("tablespace*"):
            shutil.rmtree(old, ignore_errors=True)
        self._pristine(major).copy(data)
        os.sync()
        self.clean.add(data)

    # --- servers ---

    def _settings(self, variant: Variant) -> dict[str, str]:
        arm, load = variant.arm, self.scenario.load
        buffers = self.scenario.memory.buffers_for(self.database_bytes) + self._extra(arm)
        settings = REPEATABLE | {"shared_buffers": f"{buffers // MB}MB", "track_io_timing": "off"}
        settings["max_connections"] = str(max(60, max(load.clients) + 20))
        if load.writes:
            settings |= {"max_wal_size": "1GB", "checkpoint_timeout": "5min", "autovacuum": "on"}
        if variant.cache is not None:
            assert self.cluster is not None
            settings |= self.cluster.cache_settings(self._cache_file, f"{self._cache_mb(variant)}MB", self.extensions[arm.major])
        if arm.moved != "none":
            settings["temp_tablespaces"] = TABLESPACE
        return settings | self.scenario.server.settings | arm.settings

    @property
    def _cache_file(self) -> Path:
        return self.flash / "cache"

    def _cache_mb(self, variant: Variant) -> int:
        return variant.cache.of(self.database_bytes) // MB if variant.cache is not None else 0

    def _extra(self, arm: Arm) -> int:
        return arm.extra_memory.of(self.database_bytes) // MB * MB if arm.extra_memory is not None else 0

    def start(self, variant: Variant) -> Started:
        with self._room():
            return self._start(variant)

    def _start(self, variant: Variant) -> Started:
        arm = variant.arm
        self.fast()
        self._untreat()
        offset = MISALIGNED if arm.tuning in BEGINS_BAD else 0
        if arm.data == "disk" and self.lab_disk is not None and offset != self.offset:
            self._open_disk(offset)
        place = self.flash if arm.data == "flash" else self.files
        data = place / f"cluster-{arm.major}"
        for other in (*self.files.glob("cluster-*"), *self.flash.glob("cluster-*")):
            if other != data:  # one at a time: the lab's disk has room for one
                shutil.rmtree(other, ignore_errors=True)
                self.clean.discard(other)
        self._restore(data, arm.major)
        tuning = self._tune(arm)
        self.cluster = self._cluster(data, arm.major, variant.name)
        limit = self._begin(variant)
        if self.scenario.load.writes or arm.moved != "none":
            self.clean.discard(data)
        started = Started(self._place(self.cluster), self._conditions(variant, data, limit, tuning))
        self._open_cache(variant)
        if arm.tuning == "doctor":
            self.clean.discard(data)
            started.conditions |= self._treat(started.place)
        return started

    def _treat(self, place: Place) -> dict[str, Any]:
        """What the doctor would change of this server, and of the disks that are the study's alone."""
        own = {device.name for each in self.devices().values() for device in each}

        def forbidden(change: Change) -> str:
            mine = not isinstance(change, Write) or any(change.path.startswith(f"/sys/block/{name}/") for name in own)
            return "" if mine else "the machine's, not the study's"

        treated = self.treatment.make(place.conninfo(), forbidden, str(self._cache_file) if self.cached else "")
        return {"doctor": {"made": treated.made, "left": treated.left}}

    def _untreat(self) -> None:
        """Of the disks; settings went with the server's files."""
        self.treatment.put_back("")
        self.treatment.forget()

    def _begin(self, variant: Variant) -> str:
        """The server, cold, with a new cache; its memory limit in words."""
        assert self.cluster is not None
        if self._tablespace.is_dir():
            forget_files(self._tablespace)
        self.warm_speed()
        return self._start_cold(self.cluster, variant, self._cache_file, self._settings(variant))

    def _start_cold(self, cluster: Cluster, variant: Variant, cache_file: Path, settings: dict[str, str]) -> str:
        cache_file.unlink(missing_ok=True)
        if variant.cache is not None:
            cluster.new_cache(cache_file, self._cache_mb(variant) * MB)
        cluster.forget()
        arm, memory = variant.arm, self.scenario.memory
        total = memory.buffers_for(self.database_bytes) + self._extra(arm) + memory.headroom
        limited = arm.page_cache != "free" and is_root()
        cluster.start(settings, limit_mb=total // MB if limited else None)
        return cluster.limit.words if limited else "none: page cache free" if arm.page_cache == "free" else "none: needs root"

    def _open_cache(self, variant: Variant) -> None:
        if variant.cache is not None:
            assert self.cluster is not None
            self.cluster.open_cache(DATABASE, self.extensions[variant.arm.major])
            self.cached = True
            self._let_pause(False)

    def _tune(self, arm: Arm) -> dict[str, str]:
        """Before, also where the doctor begins: access times are written, the scheduler shares fairly, the file system begins at sector 63. After: no access
        times, aligned, and the scheduler that keeps reads from waiting behind writes (spindles) or that stays out of the way
        (anything faster)."""
        if arm.tuning == "none" or self.lab_disk is None:
            return {}
        device = self.lab_disk.device()
        wanted_atime = "noatime" if arm.tuning == "after" else "strictatime"
        done = run(["mount", "-o", f"remount,{wanted_atime}", str(self.files)], what="remounting", check=False)
        applied = {
            "atime": wanted_atime if done.returncode == 0 else "not possible here",
            "alignment": f"file system at byte {self.offset}",
        }
        if device is not None:
            there = device.schedulers()
            wanted = next((name for name in schedulers(arm.tuning, self.scenario.disk.read_us) if name in there), "")
            good = bool(wanted) and device.set_scheduler(wanted)
            applied["scheduler"] = wanted if good else f"{device.scheduler()} (this machine offers {', '.join(there) or 'nothing'})"
            device.throttle_writeback(device.scheduler() not in FAIR)  # as the kernel does by itself for a disk it finds
        return applied

    def _conditions(self, variant: Variant, data: Path, limit: str, tuning: dict[str, str]) -> dict[str, Any]:
        arm, disk, flash = variant.arm, self.scenario.disk, self.scenario.flash
        disk_device = device_of(self.files)
        return {
            "server": server_version(bin_folder(self.scenario, arm.major)),
            "database_mb": self.database_bytes // MB,
            "shared_buffers_mb": (self.scenario.memory.buffers_for(self.database_bytes) + self._extra(arm)) // MB,
            "memory_limit": limit,
            "flash_mb": self._cache_mb(variant),
            "data_on": arm.data,
            "moved": arm.moved,
            "disk": f"lab: {disk.spindles} spindles x {disk.read_us / 1000:g} ms, {disk.mb_per_s} MB/s each"
            if disk.kind == "lab"
            else f"{disk.path} ({file_system(self.files)})",
            "flash": f"lab: {flash.spindles} x {flash.read_us} us, {flash.mb_per_s} MB/s each"
            if flash.kind == "lab"
            else f"{'a file on the machine’s own disk' if flash.kind == 'file' else flash.path} ({file_system(self.flash)})",
            "cache_on_disk": on_one_device(self.files, self.flash),
            "mount_options": mount_options(data),
            "scheduler": disk_device.scheduler() if disk_device is not None else "unknown",
            "tuning": tuning,
        }

    @property
    def _tablespace(self) -> Path:
        return self.flash / "tablespace"

    def rank(self, variant: Variant, started: Started) -> Started:
        """Indexes, or the objects most read by a load of some seconds, go to the flash tablespace; then a cold start."""
        arm = variant.arm
        folder = self._tablespace
        folder.mkdir(exist_ok=True)
        folder.chmod(0o700)
        give_to_server_user(folder)
        place = started.place
        with db.connect(place.conninfo()) as connection:
            db.execute(connection, sql.SQL("CREATE TABLESPACE {} LOCATION {}").format(sql.Identifier(TABLESPACE), sql.Literal(str(folder))))
            if arm.moved == "hottest":
                db.rows(connection, "SELECT pg_stat_reset()")
        if arm.moved == "hottest":
            self.driver.run(
                place,
                max(self.scenario.load.clients),
                RANKING_S if self.scenario.duration_s >= RANKING_S else 2,
                self.scratch,
                measured=False,
            )
        with db.connect(place.conninfo()) as connection:
            objects = db.hottest_objects(connection, arm.hottest) if arm.moved == "hottest" else db.user_indexes(connection)
            for item in objects:
                db.move(connection, item["kind"], item["name"], TABLESPACE)
            db.rows(connection, "CHECKPOINT")
            moved = sum(int(db.value(connection, "SELECT pg_relation_size(%s::regclass)", item["name"])) for item in objects)
        self._stop_server()
        self._begin(variant)
        self._open_cache(variant)
        started.conditions["moved_objects"] = [f"{item['kind'].lower()} {item['name']}" for item in objects]
        started.conditions["moved_mb"] = moved // MB
        return started

    def memory_peak_mb(self) -> int | None:
        return max((peak for server in self._servers if (peak := server.limit.peak_mb()) is not None), default=None)

    def fail_over(self, variant: Variant, load: Callable[[int], LoadResult]) -> dict[str, Any] | None:
        return None

    # --- the end ---

    def _stop_server(self) -> None:
        self.cached = False
        if self.cluster is not None:
            self.cluster.stop()

    def stop(self) -> None:
        with contextlib.suppress(PgflashError):
            self.fast()
        self._stop_server()

    def close(self) -> None:
        self.stop()
        with contextlib.suppress(PgflashError):
            self._untreat()
        if not self.keep:
            for disk in self._lab_disks:
                disk.remove()
            self.work.remove()
