"""One server for all of these tests, and a database for each."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pilot.servers import Server, bin_folder, reachable

from pgflash.system import as_server_user, give_to_server_user

from .stand_ins import STAND_INS

_numbers = itertools.count(1)


def restart(server: Server) -> None:
    subprocess.run(server.restart_command, shell=True, check=True, cwd="/", stdout=subprocess.DEVNULL)  # noqa: S602


class Copy(Server):
    """One that is there: a standby."""

    def __init__(self, folder: Path, bin_: str) -> None:
        self.folder, self.data, self.bin = folder, folder / "data", bin_


@dataclass
class Database:
    server: Server
    name: str

    @property
    def dsn(self) -> str:
        return f"host={self.server.folder}/socket user=postgres dbname={self.name}"

    def as_user(self, user: str) -> str:
        return self.dsn.replace("user=postgres", f"user={user}")

    def sql(self, *statements: str) -> str:
        command = [f"{self.server.bin}/psql", "-X", "-At", "-v", "ON_ERROR_STOP=1", "-d", self.dsn]
        for statement in statements:
            command += ["-c", statement]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def pgflash(self, *arguments: str | Path, dsn: str = "", env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pgflash", *map(str, arguments), "--dsn", dsn or self.dsn]
        return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})}, check=False, timeout=300)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    if not bin_folder():
        pytest.skip("no server with pg_flashcache: test.sh makes one (FC_PILOT_BIN)")
    for folder in reachable():
        made = Server(folder)
        try:
            made.sql(
                "ALTER SYSTEM SET shared_preload_libraries = 'pg_flashcache', 'pg_stat_statements'",
                "ALTER SYSTEM SET track_io_timing = on",
                "ALTER SYSTEM SET pg_flashcache.advice = on",
                "ALTER SYSTEM SET autovacuum = off",
                "ALTER SYSTEM SET cluster_name = 'first'",
            )
            restart(made)
            yield made
        finally:
            made.stop()


@pytest.fixture
def empty_database(server: Server) -> Database:
    name = f"snap{next(_numbers)}"
    server.sql(f"CREATE DATABASE {name}")
    return Database(server, name)


@pytest.fixture
def database(empty_database: Database) -> Database:
    empty_database.sql("CREATE EXTENSION pg_flashcache")
    return empty_database


@pytest.fixture
def standby(database: Database) -> Iterator[Database]:
    """The same database on a standby of the server, whose cluster_name is second."""
    first = database.server
    for folder in reachable():
        for name in ("socket", "space"):
            (folder / name).mkdir(mode=0o700)
        give_to_server_user(folder, folder / "socket", folder / "space")
        copy = [f"{first.bin}/pg_basebackup", f"--pgdata={folder}/data", f"--dbname={first.dsn}", "--write-recovery-conf", "--no-sync"]
        copy += ["--checkpoint=fast", f"--tablespace-mapping={first.folder}/space={folder}/space"]
        subprocess.run(as_server_user(copy), check=True, cwd="/")
        options = f"-k {folder}/socket -c cluster_name=second -c pg_flashcache.size=0"
        control = as_server_user([f"{first.bin}/pg_ctl", "--silent", "--wait", f"--pgdata={folder}/data"])
        subprocess.run(
            [*control, f"--log={folder}/data/log", f"--options={options}", "start"], check=True, cwd="/", stdout=subprocess.DEVNULL
        )
        try:
            yield Database(Copy(folder, first.bin), database.name)
        finally:
            subprocess.run([*control, "--mode=immediate", "stop"], check=False, cwd="/", stdout=subprocess.DEVNULL)


@pytest.fixture
def stand_ins(database: Database) -> Iterator[Database]:
    """With extensions in it that only look like those of these names."""
    config = subprocess.run([f"{database.server.bin}/pg_config", "--sharedir"], capture_output=True, text=True, check=True).stdout.strip()
    folder = Path(config) / "extension"
    if not os.access(folder, os.W_OK) or any((folder / f"{name}.control").exists() for name in STAND_INS):
        pytest.skip("the server's folder of extensions cannot take stand-ins")
    files = []
    try:
        for name, (version, script) in STAND_INS.items():
            control, text = folder / f"{name}.control", folder / f"{name}--{version}.sql"
            files += [control, text]
            control.write_text(f"default_version = '{version}'\nrelocatable = false\n")
            text.write_text(script)
            database.sql(f"CREATE EXTENSION {name}")
        yield database
    finally:
        for file in files:
            file.unlink(missing_ok=True)
