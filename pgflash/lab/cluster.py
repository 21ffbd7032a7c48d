"""A private cluster: made, started, stopped, copied. It listens on a unix socket in the work folder, and nowhere else."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from pgflash.errors import BrokeOff, DiskFull, MachineError
from pgflash.lab.extension import Extension
from pgflash.lab.memory import MemoryLimit, read_programs, take_room
from pgflash.lab.pgbench import LoadResult, parse_output
from pgflash.lab.storage import Disk
from pgflash.lab.work import Work
from pgflash.system import (
    as_server_user,
    environment,
    failure,
    forget_files,
    give_to_server_user,
    io_uring_allowed,
    run,
)

USER = "postgres"
CONF = "lab.conf"
PAUSE = "pg_flashcache.pause_when_slow"
BYPASS = "pg_flashcache.bypass"  # 1.1 and later

# What makes runs repeatable: no autovacuum, checkpoint or bgwriter in the middle of one, no JIT, no parallel workers.
REPEATABLE = {
    "max_wal_size": "4GB", "checkpoint_timeout": "1h", "wal_level": "minimal", "max_wal_senders": "0", "autovacuum": "off", "jit": "off",
    "max_connections": "60", "huge_pages": "off", "max_parallel_workers_per_gather": "0",
}  # fmt: skip
# A load that is repeated anyway need not survive the machine.
LOADING = {"shared_buffers": "256MB", "fsync": "off", "full_page_writes": "off", "autovacuum": "off"}


def programs(major: int) -> str:
    """Where Debian's packages, and those of PostgreSQL's own repository, have them."""
    return f"/usr/lib/postgresql/{major}/bin"


def server_version(bin_folder: str) -> str:
    said = run([f"{bin_folder}/postgres", "--version"], what="postgres --version", error=MachineError).stdout
    return "PostgreSQL " + said.split()[2]


def is_alive(pid: str) -> bool:
    """A process that has ended and that nobody has waited for is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


class Counters(dict[str, int]):
    """What pg_stat_flashcache has counted."""

    def since(self, before: Counters, name: str) -> int:
        return self[name] - before[name]

    def hit_ratio_since(self, before: Counters) -> float:
        hits, misses = self.since(before, "hits"), self.since(before, "misses")
        return hits / (hits + misses) if hits + misses else 0.0


class Cluster:
    """One data directory. `port` is the name of the socket, and two that run at the same time need two."""

    def __init__(self, work: Work, name: str, data: Path, bin_folder: str, port: int = 5432) -> None:
        self.work, self.name, self.data, self.bin, self.port = work, name, data, bin_folder, port
        self.limit = MemoryLimit(work.path / f"cgroup.{name}")
        self.log = work.log / f"{name}.log"
        self._server: subprocess.Popen[bytes] | None = None
        self._started: tuple[Mapping[str, str], int | None, Disk | None] = ({}, None, None)

    # --- files ---

    def make(self) -> None:
        options = ["-U", USER, "--auth=trust", "--locale=C.UTF-8", "--encoding=UTF8", "--no-sync"]
        run(as_server_user([f"{self.bin}/initdb", "-D", str(self.data), *options]), what="initdb", error=MachineError)
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as conf:
            conf.write(f"\ninclude '{CONF}'\n")

    def copy(self, data: Path) -> None:
        """The stopped cluster, into a folder that is not there yet."""
        run(["cp", "-a", str(self.data), str(data)], what=f"copying the cluster to {data.parent}")

    def forget(self) -> None:
        """The kernel has nothing of it in memory any more."""
        forget_files(self.data)

    def _configure(self, settings: Mapping[str, str]) -> None:
        own = {
            "listen_addresses": "", "unix_socket_directories": str(self.work.socket), "port": str(self.port), "logging_collector": "off",
        }  # fmt: skip
        lines = [f"{name} = '{text.replace(chr(39), chr(39) * 2)}'" for name, text in {**settings, **own}.items()]
        (self.data / CONF).write_text("\n".join(lines) + "\n", "utf-8")
        give_to_server_user(self.data / CONF)

    # --- the server ---

    def start(self, settings: Mapping[str, str], limit_mb: int | None = None, disk: Disk | None = None) -> None:
        """In a memory group of its own, if there is to be a limit; self.limit says what came of that."""
        self._started = (settings, limit_mb, disk)
        self._configure(settings)
        self.limit.drop()
        enter = ""
        if limit_mb is not None:
            self.limit.make(limit_mb)
        if self.limit.is_made:
            enter = f"{self.limit.enter_words()} && "
            read_programs(f"{self.bin}/postgres")
        pairs = [f"{name}={text}" for name, text in (disk.env(self.data) if disk is not None else {}).items()]
        command = as_server_user(["env", *pairs, f"{self.bin}/postgres", "-D", str(self.data)])
        with self.log.open("ab") as log:
            self._server = subprocess.Popen(
                ["sh", "-c", f"{enter}exec {shlex.join(command)}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment(), cwd="/", start_new_session=True,
            )  # fmt: skip
        self._await_ready()

    def start_again(self) -> None:
        """As it was started last; its cache file is left as it is."""
        self.start(*self._started)

    def _await_ready(self) -> None:
        assert self._server is not None
        ask = [f"{self.bin}/pg_isready", "-q", "-h", str(self.work.socket), "-p", str(self.port), "-U", USER]
        for _ in range(1200):
            if self._server.poll() is not None:
                break
            if run(ask, what="pg_isready", check=False).returncode == 0:
                return
            time.sleep(0.1)
        text = self.log.read_text("utf-8", "replace")
        self.stop()
        kind = DiskFull if "No space left on device" in text else BrokeOff
        raise kind("the server did not start:\n" + "\n".join(text.strip().splitlines()[-12:]))

    def postmaster(self) -> int:
        """Its process id, or 0."""
        try:
            return int((self.data / "postmaster.pid").read_text().split("\n")[0])
        except (OSError, ValueError):
            return 0

    def stop(self, *, at_once: bool = False) -> None:
        server, self._server = self._server, None
        if server is not None:
            self._end(server, at_once)
        self.limit.drop()

    def _end(self, server: subprocess.Popen[bytes], at_once: bool) -> None:
        pid = self.postmaster()
        for sign, patience in ((signal.SIGINT, 60), (signal.SIGQUIT, 20), (signal.SIGKILL, 10)):
            if at_once and sign == signal.SIGINT:
                continue
            with contextlib.suppress(ProcessLookupError):
                if pid:
                    os.kill(pid, sign)
                else:
                    os.killpg(server.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(patience)
                return

    def kill(self) -> None:
        """kill -9 of all its processes, the postmaster first: no process ends in order."""
        pid, server, self._server = self.postmaster(), self._server, None
        assert server is not None
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for each in (pid, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        server.wait()
        while any(is_alive(each) for each in children):  # they have the shared memory yet
            time.sleep(0.01)
        self.limit.drop()

    # --- what it is asked ---

    def conninfo(self, database: str) -> str:
        return f"host='{self.work.socket}' port={self.port} user={USER} dbname={database}"

    def psql(self, database: str, *arguments: str) -> str:
        """What it printed; BrokeOff if a statement fails."""
        command = [
            f"{self.bin}/psql",
            "-X",
            "-A",
            "-t",
            "-q",
            "-F",
            " ",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            self.conninfo(database),
            *arguments,
        ]
        return run(command, what="SQL", env={"PGOPTIONS": "-c client_min_messages=error"}).stdout

    def sql(self, database: str, *statements: str) -> str:
        """Each a transaction; values are separated by a space."""
        return self.psql(database, *(word for statement in statements for word in ("-c", statement))).strip()

    def script(self, database: str, text: str) -> str:
        """A script of psql, in one session."""
        path = self.work.scratch / "script.sql"
        path.write_text(text, "utf-8")
        return self.psql(database, "-f", str(path))

    def number(self, database: str, statement: str) -> int:
        return int(self.sql(database, statement))

    def set(self, database: str, name: str, value: str | None) -> None:
        """A setting that a reload takes up; None: as it was."""
        change = f"RESET {name}" if value is None else f"SET {name} = {value}"
        self.sql(database, f"ALTER SYSTEM {change}", "SELECT pg_reload_conf()")

    def pgbench(self, *arguments: str) -> LoadResult:
        command = [f"{self.bin}/pgbench", "-h", str(self.work.socket), "-p", str(self.port), "-U", USER, "-n", *arguments]
        done = run(command, what="pgbench", check=False)
        result = parse_output(done.stdout)
        if result is None or done.returncode != 0:
            raise failure("pgbench", done.returncode, done.stdout)
        return result

    def load(self, database: str, scale: int) -> None:
        """pgbench's tables, vacuumed and checkpointed."""
        self.sql("postgres", f"CREATE DATABASE {database}")
        command = [
            f"{self.bin}/pgbench",
            "-h",
            str(self.work.socket),
            "-p",
            str(self.port),
            "-U",
            USER,
            "-i",
            "-q",
            "-s",
            str(scale),
            database,
        ]
        run(command, what="loading pgbench's tables")
        self.sql(database, "CHECKPOINT")

    # --- its cache ---

    def cache_settings(self, file: Path, size: str, extension: Extension, disk: Disk | None = None) -> dict[str, str]:
        settings = {"shared_preload_libraries": "pg_flashcache", "pg_flashcache.file": str(file), "pg_flashcache.size": size}
        if not io_uring_allowed():
            settings["pg_flashcache.io_timeout"] = "0"  # otherwise the cache would be off
        if extension.library_path:
            settings["dynamic_library_path"] = extension.library_path
        if disk is not None and disk.name == "preload":
            # The fallback charges a page in the kernel's page cache like one on the disk: it must not be preferred then.
            settings["pg_flashcache.os_cache_probe"] = "off"
        return settings

    @staticmethod
    def new_cache(file: Path, size: int) -> None:
        """The cache begins cold, in a file whose room does not count against a memory limit."""
        take_room(file, size)

    def open_cache(self, database: str, extension: Extension) -> None:
        """Its views are there, and it takes part in reading; BrokeOff says why not."""
        if not self.sql(database, "SELECT to_regclass('pg_stat_flashcache')"):
            extension.create(self, database)
        state = ""
        for _ in range(600):
            state = self.sql(database, "SELECT concat_ws(', ', state, reason) FROM pg_stat_flashcache")
            if state == "active":
                return
            if not state.startswith("starting"):
                break
            time.sleep(0.1)
        raise BrokeOff(f"the cache did not start: state {state}")

    def counters(self, database: str, *more: str) -> Counters:
        """All numbers of the view; and those of others, each of one row."""
        rows_of = [f"SELECT key, value FROM {view} s, jsonb_each_text(to_jsonb(s))" for view in ("pg_stat_flashcache", *more)]
        numbers = f"SELECT * FROM ({' UNION ALL '.join(rows_of)}) s WHERE value ~ '^[0-9]+$'"
        rows = (line.split() for line in self.sql(database, numbers).splitlines())
        return Counters({name: int(value) for name, value in rows})

    def let_pause(self, database: str, yes: bool) -> None:
        """With its delays suspended the disk may be as fast as flash, and a cache that pauses for that, or is bypassed, does not
        get warm."""
        for name in self.sql(database, f"SELECT name FROM pg_settings WHERE name IN ('{PAUSE}', '{BYPASS}')").split():
            self.set(database, name, None if yes else "off")
