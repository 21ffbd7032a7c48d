"""A cluster of the study's own, on the lab's disk and flash or on folders that the user names.

Everything lies in one temporary folder (and in the folders named), listens on a unix socket in it, and is gone at the end,
also after an interruption. The loaded cluster is kept pristine on the side; an arm that changes it (a load that writes,
moved objects, another disk) starts from a copy of that, so every arm begins with the same files.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from pgflash.errors import BrokeOff, DiskFull, MachineError, PgflashError
from pgflash.pilot import db, extension, lab
from pgflash.pilot.loads import Driver
from pgflash.pilot.scenario import Arm, Scenario, Variant
from pgflash.pilot.target import Place, Started
from pgflash.system import (
    Device,
    as_server_user,
    device_of,
    disk_full,
    environment,
    file_system,
    forget_files,
    give_to_server_user,
    in_memory,
    io_uring_allowed,
    is_root,
    mount_options,
    run,
)
from pgflash.units import MB

DATABASE = "pilot"
PORT = 5432  # the name of the socket; there is no TCP
TABLESPACE = "pilot_flash"
MISALIGNED = 63 * 512  # where the first partition of an old partition table begins
RANKING_S = 20
LONGEST_SOCKET_FOLDER = 80
FAIR = ("bfq", "cfq")  # schedulers that share a disk fairly between processes
SPINS_FROM_US = 1000  # a disk whose reads take this long seeks; SSDs are at a tenth of it


def schedulers(tuning: str, read_us: int) -> tuple[str, ...]:
    """The kernel's I/O schedulers for tuning "before" and "after", the preferred one first."""
    if tuning == "before":
        return FAIR
    return ("mq-deadline", "deadline") if read_us >= SPINS_FROM_US else ("none", "noop")


def bin_folder(scenario: Scenario, major: int) -> str:
    if scenario.server.bin and major == scenario.server.major:
        return scenario.server.bin
    return f"/usr/lib/postgresql/{major}/bin"


class OwnTarget:
    def __init__(self, scenario: Scenario, driver: Driver, base: Path, keep: bool) -> None:
        self.scenario = scenario
        self.driver = driver
        self.keep = keep
        self.database_bytes = 0
        self._connection_lost = ""
        self.work = Path(tempfile.mkdtemp(prefix="pgflash.", dir=base.resolve()))
        self.work.chmod(0o755)
        if len(str(self.work)) > LONGEST_SOCKET_FOLDER:
            self.work.rmdir()
            raise MachineError(f"{self.work} is too long for the name of a socket", "choose a shorter folder with --dir")
        self.log_folder = self._folder("log")
        self.socket = self._folder("socket")
        self.scratch = self._folder("scratch")
        self.socket.chmod(0o700)
        give_to_server_user(self.socket)
        self.lab_disk: lab.LabDisk | None = None
        self.lab_flash: lab.LabDisk | None = None
        self.offset = 0
        self.files = self.work  # where clusters on the disk are
        self.flash = self.work
        self.made: list[Path] = []  # below folders of the user's
        self.limit = lab.MemoryLimit(self.work / "cgroup")
        self.server: subprocess.Popen[bytes] | None = None
        self.data: Path | None = None
        self.extensions: dict[int, extension.Extension] = {}
        self.clean: set[Path] = set()  # clusters that are as loaded
        self.moved: dict[str, list[dict[str, Any]]] = {}
        self.cached: Place | None = None  # the running server, if it has a cache

    def _folder(self, name: str) -> Path:
        path = self.work / name
        path.mkdir()
        return path

    # --- storage ---

    def prepare(self) -> None:
        try:
            self._prepare()
        except OSError as error:
            if disk_full(error):
                raise DiskFull(f"{self.work}: the disk is full: {error}", "choose another folder with --dir") from error
            raise

    def _prepare(self) -> None:
        self._open_flash()
        self._open_disk(0)
        for major in sorted({variant.arm.major for variant in self.scenario.variants}):
            folder = bin_folder(self.scenario, major)
            if any(variant.cache for variant in self.scenario.variants if variant.arm.major == major):
                self.extensions[major] = extension.provide(folder, self.scenario.server.extension, self.work / f"extension-{major}")
            self._load(major)

    def _space_mb(self) -> int:
        """Of the lab's disk: the cluster, what the load adds, sorting, WAL."""
        return self.driver.space_mb() * 3 // 2 + 3000 if self.driver.space_mb() else 8000

    def _open_disk(self, offset: int) -> None:
        disk = self.scenario.disk
        if disk.kind == "path":
            self.files = self._below(Path(disk.path))
            return
        if self.lab_disk is not None:
            self.lab_disk.down()
            self.clean = {path for path in self.clean if not path.is_relative_to(self.files)}
        self.lab_disk = lab.LabDisk(self.work / "disk")
        self.lab_disk.up(self._space_mb(), disk.spindles, disk.read_us, disk.write_us, disk.mb_per_s, offset)
        self.offset = offset
        self.files = self.lab_disk.files
        give_to_server_user(self.files)

    def _open_flash(self) -> None:
        flash = self.scenario.flash
        if flash.kind == "path":
            self.flash = self._below(Path(flash.path))
        elif flash.kind == "file":
            self.flash = self._folder("flash")
        else:
            self.lab_flash = lab.LabDisk(self.work / "flashdisk")
            self.lab_flash.up(self._space_mb() * 2, flash.spindles, flash.read_us, flash.write_us, flash.mb_per_s)
            self.flash = self.lab_flash.files
        self.flash.chmod(0o700)
        give_to_server_user(self.flash)

    def _below(self, folder: Path) -> Path:
        path = Path(tempfile.mkdtemp(prefix="pgflash.", dir=folder))
        give_to_server_user(path)
        self.made.append(path)
        return path

    def devices(self) -> dict[str, Device]:
        """Those whose requests are the study's alone: the machine's own disk, with everything else on it, is not."""
        found = {"disk": device_of(self.files)}
        if self.scenario.flash.kind != "file" and self.files.stat().st_dev != self.flash.stat().st_dev:
            found["flash"] = device_of(self.flash)
        return {name: device for name, device in found.items() if device is not None}

    def slow(self) -> None:
        self._let_pause(True)
        for disk in (self.lab_disk, self.lab_flash):
            if disk is not None:
                disk.slow()

    def fast(self) -> None:
        for disk in (self.lab_disk, self.lab_flash):
            if disk is not None:
                disk.fast()

    def warm_speed(self) -> None:
        """The disk as the scenario wants it for warming up; flash as it is: the cache measures it."""
        self.fast()
        if self.lab_flash is not None:
            self.lab_flash.slow()
        if self.lab_disk is not None and self.scenario.warmup.disk == "slow":
            self.lab_disk.slow()
        self._let_pause(False)

    def _let_pause(self, yes: bool) -> None:
        """With its delays suspended the disk may be as fast as flash, and a cache that pauses for that does not get warm."""
        if self.cached is None or self.lab_disk is None or self.scenario.warmup.disk == "slow":
            return
        name = "pg_flashcache.pause_when_slow"
        with db.connect(self.cached.conninfo()) as connection:
            if db.rows(connection, f"SELECT FROM pg_settings WHERE name = '{name}'"):
                db.rows(connection, f"ALTER SYSTEM RESET {name}" if yes else f"ALTER SYSTEM SET {name} = off")
                db.rows(connection, "SELECT pg_reload_conf()")

    # --- the loaded cluster ---

    def _pristine(self, major: int) -> Path:
        return self.work / "pristine" / str(major)

    def _load(self, major: int) -> None:
        """Made on the machine's own disk at full speed, and kept."""
        data = self._pristine(major)
        data.parent.mkdir(exist_ok=True)
        give_to_server_user(data.parent)
        folder = bin_folder(self.scenario, major)
        run(
            as_server_user(
                [f"{folder}/initdb", "-D", str(data), "-U", "postgres", "--auth=trust", "--locale=C.UTF-8", "--encoding=UTF8", "--no-sync"]
            ),
            what="initdb",
            error=MachineError,
        )
        conf = data / "postgresql.conf"
        conf.write_text(conf.read_text("utf-8") + "\ninclude 'pilot.conf'\n", "utf-8")
        self._write_conf(data, {"shared_buffers": "256MB", "fsync": "off", "full_page_writes": "off", "autovacuum": "off"})
        self._start_server(data, major, "load")
        place = self._place(major)
        with db.connect(place.conninfo(), dbname="postgres") as connection:
            db.execute(connection, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
        self.driver.prepare(place, self.scratch)
        with db.connect(place.conninfo()) as connection:
            db.rows(connection, "VACUUM ANALYZE")
            db.rows(connection, "CHECKPOINT")
            self.database_bytes = int(db.value(connection, "SELECT pg_database_size(current_database())"))
        self._stop_server()

    def _place(self, major: int) -> Place:
        return Place(str(self.socket), PORT, "postgres", DATABASE, bin=bin_folder(self.scenario, major))

    def _restore(self, data: Path, major: int) -> None:
        """A pristine copy, unless it is one."""
        if data in self.clean and data.is_dir():
            return
        shutil.rmtree(data, ignore_errors=True)
        for old in self.flash.glob("tablespace*"):
            shutil.rmtree(old, ignore_errors=True)
        run(["cp", "-a", str(self._pristine(major)), str(data)], what=f"copying the cluster to {data.parent}")
        os.sync()
        self.clean.add(data)

    # --- servers ---

    def _settings(self, variant: Variant) -> dict[str, str]:
        arm, load = variant.arm, self.scenario.load
        buffers = self.scenario.memory.buffers_for(self.database_bytes) + self._extra(arm)
        settings = {
            "shared_buffers": f"{buffers // MB}MB",
            "max_wal_size": "1GB" if load.writes else "4GB",
            "checkpoint_timeout": "5min" if load.writes else "1h",
            "wal_level": "minimal",
            "max_wal_senders": "0",
            "autovacuum": "on" if load.writes else "off",
            "jit": "off",
            "max_connections": str(max(60, max(load.clients) + 20)),
            "huge_pages": "off",
            "max_parallel_workers_per_gather": "0",
            "track_io_timing": "off",
        }
        if variant.cache is not None:
            settings |= {
                "shared_preload_libraries": "pg_flashcache",
                "pg_flashcache.file": str(self.flash / "cache"),
                "pg_flashcache.size": f"{max(1, variant.cache.of(self.database_bytes) // MB)}MB",
            }
            if not io_uring_allowed():
                settings["pg_flashcache.io_timeout"] = "0"  # otherwise the cache would be off
            library_path = self.extensions[arm.major].library_path
            if library_path:
                settings["dynamic_library_path"] = library_path
        if arm.moved != "none":
            settings["temp_tablespaces"] = TABLESPACE
        return settings | self.scenario.server.settings | arm.settings

    def _extra(self, arm: Arm) -> int:
        return arm.extra_memory.of(self.database_bytes) // MB * MB if arm.extra_memory is not None else 0

    def _write_conf(self, data: Path, settings: dict[str, str]) -> None:
        own = {"listen_addresses": "", "unix_socket_directories": str(self.socket), "port": str(PORT), "logging_collector": "off"}
        lines = [f"{name} = '{text.replace(chr(39), chr(39) * 2)}'" for name, text in (settings | own).items()]
        (data / "pilot.conf").write_text("\n".join(lines) + "\n", "utf-8")
        give_to_server_user(data / "pilot.conf")

    def start(self, variant: Variant) -> Started:
        try:
            return self._start(variant)
        except OSError as error:
            if disk_full(error):
                raise DiskFull(f"{self.work}: the disk is full: {error}", "choose another folder with --dir") from error
            raise

    def _start(self, variant: Variant) -> Started:
        arm = variant.arm
        self.fast()
        offset = MISALIGNED if arm.tuning == "before" else 0
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
        (self.flash / "cache").unlink(missing_ok=True)
        self._write_conf(data, self._settings(variant))
        if variant.cache is not None and in_memory(self.flash):
            self._take_room(variant)
        limit = self._make_limit(arm)
        forget_files(data)
        self.warm_speed()
        self._start_server(data, arm.major, variant.name, limited=self.limit.is_made)
        if self.scenario.load.writes or arm.moved != "none":
            self.clean.discard(data)
        started = Started(self._place(arm.major), self._conditions(variant, data, limit, tuning))
        if variant.cache is not None:
            self._await_cache(started.place, arm.major)
        return started

    def _make_limit(self, arm: Arm) -> str:
        if arm.page_cache == "free":
            return "none: page cache free"
        if not is_root():
            return "none: needs root"
        memory = self.scenario.memory
        total = memory.buffers_for(self.database_bytes) + self._extra(arm) + memory.headroom
        return self.limit.make(total // MB)

    def _take_room(self, variant: Variant) -> None:
        """In memory the file's room is taken before, or it would be charged to the server's limit."""
        assert variant.cache is not None
        room = max(1, variant.cache.of(self.database_bytes) // MB) * MB + 65536
        path = self.flash / "cache"
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, room)
        path.chmod(0o600)
        give_to_server_user(path)

    def _tune(self, arm: Arm) -> dict[str, str]:
        """Before: access times are written, the scheduler shares fairly, the file system begins at sector 63. After: no access
        times, aligned, and the scheduler that keeps reads from waiting behind writes (spindles) or that stays out of the way
        (anything faster)."""
        if arm.tuning == "none" or self.lab_disk is None:
            return {}
        device = self.lab_disk.device()
        wanted_atime = "strictatime" if arm.tuning == "before" else "noatime"
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
            "server": self._version(arm.major),
            "database_mb": self.database_bytes // MB,
            "shared_buffers_mb": (self.scenario.memory.buffers_for(self.database_bytes) + self._extra(arm)) // MB,
            "memory_limit": limit,
            "flash_mb": max(1, variant.cache.of(self.database_bytes) // MB) if variant.cache is not None else 0,
            "data_on": arm.data,
            "moved": arm.moved,
            "disk": f"lab: {disk.spindles} spindles x {disk.read_us / 1000:g} ms, {disk.mb_per_s} MB/s each"
            if disk.kind == "lab"
            else f"{disk.path} ({file_system(self.files)})",
            "flash": f"lab: {flash.spindles} x {flash.read_us} us, {flash.mb_per_s} MB/s each"
            if flash.kind == "lab"
            else f"{'a file on the machine’s own disk' if flash.kind == 'file' else flash.path} ({file_system(self.flash)})",
            "mount_options": mount_options(data),
            "scheduler": disk_device.scheduler() if disk_device is not None else "unknown",
            "tuning": tuning,
        }

    def _version(self, major: int) -> str:
        said = run([f"{bin_folder(self.scenario, major)}/postgres", "--version"], what="postgres --version", error=MachineError).stdout
        return "PostgreSQL " + said.split()[2]

    def _start_server(self, data: Path, major: int, name: str, *, limited: bool = False) -> None:
        # The shell moves itself into the memory group; what it becomes is counted there from its first page on.
        server = " ".join(f"'{word}'" for word in as_server_user([f"{bin_folder(self.scenario, major)}/postgres", "-D", str(data)]))
        enter = f"{self.limit.enter_words()} && " if limited else ""
        log_path = self.log_folder / f"{name}.log"
        with log_path.open("ab") as log:
            self.server = subprocess.Popen(
                ["sh", "-c", f"{enter}exec {server}"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(),
                start_new_session=True,
            )
        self.data = data
        self._await_ready(log_path)

    def _await_ready(self, log_path: Path) -> None:
        assert self.server is not None
        for _ in range(1200):
            if self.server.poll() is not None:
                break
            try:
                psycopg.connect(host=str(self.socket), port=PORT, user="postgres", dbname="postgres", connect_timeout=5).close()
                return
            except psycopg.Error:
                time.sleep(0.1)
        text = log_path.read_text("utf-8", "replace")
        self._stop_server()
        kind = DiskFull if "No space left on device" in text else BrokeOff
        raise kind("the server did not start:\n" + "\n".join(text.strip().splitlines()[-12:]))

    def _await_cache(self, place: Place, major: int) -> None:
        with db.connect(place.conninfo()) as connection:
            if not db.cache_view(connection):
                script = self.extensions[major].script
                db.rows(connection, script or "CREATE EXTENSION pg_flashcache")
            row: dict[str, Any] = {}
            for _ in range(600):
                row = db.cache_row(connection)
                if row.get("state") != "starting":
                    break
                time.sleep(0.1)
        if row.get("state") != "active":
            raise BrokeOff(f"the cache did not start: state {row.get('state')}, {row.get('reason')}")
        self.cached = place
        self._let_pause(False)

    def rank(self, variant: Variant, started: Started) -> Started:
        """Indexes, or the objects most read by a load of some seconds, go to the flash tablespace; then a cold start."""
        arm = variant.arm
        folder = self.flash / "tablespace"
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
        limit = started.conditions["memory_limit"]
        assert self.data is not None
        if not limit.startswith("none"):
            self.limit.drop()
            self._make_limit(arm)
        (self.flash / "cache").unlink(missing_ok=True)
        if variant.cache is not None and in_memory(self.flash):
            self._take_room(variant)
        forget_files(self.data)
        forget_files(folder)
        self._start_server(self.data, arm.major, variant.name, limited=self.limit.is_made)
        if variant.cache is not None:
            self._await_cache(place, arm.major)
        started.conditions["moved_objects"] = [f"{item['kind'].lower()} {item['name']}" for item in objects]
        started.conditions["moved_mb"] = moved // MB
        return started

    def memory_peak_mb(self) -> int | None:
        if not self.limit.is_made:
            return None
        done = run(["bash", str(lab.scripts() / "cgroup.sh"), "peak", str(self.limit.folder)], what="the memory group", check=False)
        return int(done.stdout.split()[0]) if done.returncode == 0 and done.stdout.split() else None

    # --- the end ---

    def _stop_server(self) -> None:
        server, self.server = self.server, None
        self.cached = None
        if server is None or self.data is None:
            return
        pid = self._postmaster()
        for sign, patience in ((signal.SIGINT, 60), (signal.SIGQUIT, 20), (signal.SIGKILL, 10)):
            with contextlib.suppress(ProcessLookupError):
                if pid:
                    os.kill(pid, sign)
                else:
                    os.killpg(server.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(patience)
                return

    def _postmaster(self) -> int:
        assert self.data is not None
        try:
            return int((self.data / "postmaster.pid").read_text().split("\n")[0])
        except (OSError, ValueError):
            return 0

    def stop(self) -> None:
        with contextlib.suppress(PgflashError):
            self.fast()
        self._stop_server()
        self.limit.drop()

    def close(self) -> None:
        self.stop()
        for disk in (self.lab_disk, self.lab_flash):
            if disk is not None and not self.keep:
                disk.down()
        if not self.keep:
            for path in (*self.made, self.work):
                shutil.rmtree(path, ignore_errors=True)
