"""A private server with tablespaces: the one that test.sh has put the extension into, or an installed one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgflash.system import SERVER_USER, as_server_user, give_to_server_user, is_root

ROOT = Path(__file__).resolve().parents[2]
TOOL = [sys.executable, "-m", "pgflash"]
SPACES = ("flash", "slow", "tiny")


def bin_folder() -> str:
    config = shutil.which("pg_config", path=os.environ.get("FC_PILOT_BIN")) or "/usr/lib/postgresql/15/bin/pg_config"
    if not Path(config).exists():
        return ""
    return subprocess.run([config, "--bindir"], capture_output=True, text=True, check=True).stdout.strip()


def extension_there(name: str) -> bool:
    config = f"{bin_folder()}/pg_config"
    if not Path(config).exists():
        return False
    share = subprocess.run([config, "--sharedir"], capture_output=True, text=True, check=True).stdout.strip()
    return Path(share, "extension", f"{name}.control").exists()


needs_server = pytest.mark.skipif(not bin_folder(), reason="no server: test.sh makes one (FC_PILOT_BIN)")
needs_root = pytest.mark.skipif(not is_root(), reason="a small file system is mounted: that needs root")
needs_repack = pytest.mark.skipif(not extension_there("pg_repack"), reason="this server has no pg_repack")
needs_flashcache = pytest.mark.skipif(not extension_there("pg_flashcache"), reason="this server has no pg_flashcache")
needs_partman = pytest.mark.skipif(not extension_there("pg_partman"), reason="this server has no pg_partman")


class Server:
    def __init__(self, folder: Path, waldir: Path | None = None, **changed: str) -> None:
        self.folder, self.data, self.bin = folder, folder / "data", bin_folder()
        folder.chmod(0o755)
        for name in ("socket", *SPACES):
            (folder / name).mkdir(mode=0o700)
        if is_root():
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m,mode=0700", "tmpfs", str(folder / "tiny")], check=True)
        give_to_server_user(folder, *(folder / name for name in ("socket", *SPACES)))
        self._command("initdb", "-U", "postgres", "--auth=trust", "--no-sync", *([f"--waldir={waldir}"] if waldir else []))
        settings = {
            "listen_addresses": "", "unix_socket_directories": str(folder / "socket"), "fsync": "off", "track_io_timing": "on",
            "shared_buffers": "4MB", "autovacuum": "off", "max_wal_size": "512MB", "timezone": "UTC",
            "shared_preload_libraries": "pg_flashcache" if extension_there("pg_flashcache") else "",
            **changed,
        }  # fmt: skip
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        self.start()
        for name in SPACES:
            self.sql(f"CREATE TABLESPACE {name} LOCATION '{folder}/{name}'")

    def _command(self, program: str, *arguments: str) -> None:
        command = as_server_user([f"{self.bin}/{program}", "--pgdata", str(self.data), *arguments])
        subprocess.run(command, check=True, cwd="/", stdout=subprocess.DEVNULL)

    def start(self) -> None:
        self._command("pg_ctl", "--silent", "--wait", "--timeout=300", f"--log={self.data}/log", "start")

    def stop(self, mode: str = "fast") -> None:
        self._command("pg_ctl", "--silent", "--wait", f"--mode={mode}", "stop")

    def kill(self) -> None:
        """kill -9 of the postmaster and all that is below it."""
        postmaster = int((self.data / "postmaster.pid").read_text().split()[0])
        os.kill(postmaster, signal.SIGSTOP)  # it begins no other process meanwhile
        below = subprocess.run(["pgrep", "-P", str(postmaster)], capture_output=True, text=True, check=False).stdout.split()
        for pid in [*map(int, below), postmaster]:
            os.kill(pid, signal.SIGKILL)
        await_(lambda: not any(alive(pid) for pid in [postmaster, *map(int, below)]), "the server's end")
        # Where nobody waits for orphans they stay as zombies, and the files of locks look as if they were in use.
        for path in (self.data / "postmaster.pid", *(self.folder / "socket").glob("*.lock")):
            path.unlink(missing_ok=True)

    def remove(self) -> None:
        if (self.data / "postmaster.pid").exists():
            self.stop("immediate")
        if is_root():
            subprocess.run(["umount", str(self.folder / "tiny")], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def dsn(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"host={self.folder}/socket user={user} dbname={database}"

    def connect(self, database: str = "postgres", user: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self.dsn(database, user), autocommit=True)

    def sql(self, *statements: str, database: str = "postgres") -> Any:
        """The first column of the first row of the last one."""
        with self.connect(database) as connection:
            row = None
            for statement in statements:
                cursor = connection.execute(statement.encode())
                row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None

    def where(self, name: str, database: str = "postgres") -> str:
        return str(
            self.sql(
                f"SELECT coalesce(t.spcname, 'pg_default') FROM pg_class c LEFT JOIN pg_tablespace t ON t.oid = c.reltablespace"
                f" WHERE c.oid = '{name}'::regclass",
                database=database,
            )
        )

    def moves(self, database: str = "postgres") -> list[dict[str, Any]]:
        found = tool("place", "status", self.dsn(database), "--json")
        assert found.returncode == 0, found.stdout + found.stderr
        moves: list[dict[str, Any]] = json.loads(found.stdout)["moves"]
        return moves


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return kept | {"PYTHONPATH": path, "PATH": f"{bin_folder()}:{kept.get('PATH', '')}"}


def tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*TOOL, *arguments], capture_output=True, text=True, env=environment(), cwd="/", check=False)


def begin(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([*TOOL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(), cwd="/")


def await_(condition: Callable[[], bool], what: str) -> None:
    for _ in range(1200):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError(f"{what} did not come within two minutes")


def made() -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="l."))
    server = Server(folder)
    yield server
    server.remove()


__all__ = [
    "SERVER_USER", "Server", "await_", "begin", "made", "needs_flashcache", "needs_partman", "needs_repack", "needs_root", "needs_server",
    "tool",
]  # fmt: skip
