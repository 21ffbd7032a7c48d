"""A real server for tests: the one that test.sh has put the extension into, or an installed one that has it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgflash.system import as_server_user, give_to_server_user, is_root


def bin_folder() -> str:
    """FC_PILOT_BIN, or that of pg_config; empty where pg_flashcache is not installed there."""
    config = shutil.which("pg_config", path=os.environ.get("FC_PILOT_BIN")) or shutil.which("pg_config")
    if config is None:
        return ""
    folder, libraries = (
        subprocess.run([config, what], capture_output=True, text=True, check=True).stdout.strip() for what in ("--bindir", "--pkglibdir")
    )
    return folder if Path(libraries, "pg_flashcache.so").exists() else ""


needs_server = pytest.mark.skipif(not bin_folder(), reason="no server with pg_flashcache: test.sh makes one (FC_PILOT_BIN)")


def reachable() -> Iterator[Path]:
    """A folder on a disk that the servers' user can reach, with a short name: sockets lie in it."""
    folder = Path(tempfile.mkdtemp(prefix="p."))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


class Server:
    """A cluster as a user would have it: not the study's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.bin = bin_folder()
        for name in ("socket", "flash", "space"):
            (folder / name).mkdir(mode=0o700)
        give_to_server_user(folder, folder / "socket", folder / "flash", folder / "space")
        self.command("initdb", "-U", "postgres", "--auth=trust", "--no-sync")
        settings = {
            "listen_addresses": "", "unix_socket_directories": str(folder / "socket"), "shared_preload_libraries": "pg_flashcache",
            "pg_flashcache.file": str(folder / "flash" / "cache"), "pg_flashcache.size": "1MB", "shared_buffers": "2MB", "fsync": "off",
        }  # fmt: skip
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        self.command("pg_ctl", "--silent", "--wait", f"--log={self.data}/log", "start")
        self.sql(f"CREATE TABLESPACE fast LOCATION '{folder}/space'", "CREATE EXTENSION pg_flashcache")

    @property
    def dsn(self) -> str:
        return f"host={self.folder}/socket user=postgres dbname=postgres"

    @property
    def restart_command(self) -> str:
        return " ".join(
            as_server_user([f"{self.bin}/pg_ctl", "--silent", "--wait", "--pgdata", str(self.data), f"--log={self.data}/log", "restart"])
        )

    def command(self, program: str, *arguments: str) -> None:
        subprocess.run(
            as_server_user([f"{self.bin}/{program}", "--pgdata", str(self.data), *arguments]),
            check=True,
            cwd="/",
            stdout=subprocess.DEVNULL,
        )

    def sql(self, *statements: str) -> str:
        command = [f"{self.bin}/psql", "-X", "-At", "-v", "ON_ERROR_STOP=1", "-d", self.dsn]
        for statement in statements:
            command += ["-c", statement]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def stop(self) -> None:
        self.command("pg_ctl", "--silent", "--mode=immediate", "stop")


__all__ = ["Server", "bin_folder", "is_root", "needs_server", "reachable"]
