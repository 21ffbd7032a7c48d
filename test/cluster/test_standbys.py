"""Real standbys: what is said of one that is idle after a restart, and of one that follows a new timeline."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pilot.servers import Server, needs_server, reachable

from pgflash.cluster.find import find
from pgflash.cluster.gather import look_at
from pgflash.cluster.look import Seen, look
from pgflash.cluster.show import remarks
from pgflash.connection import connect, parsed
from pgflash.system import as_server_user, give_to_server_user

folder = pytest.fixture(scope="module")(reachable)


class Standby(Server):
    """Of another one."""

    def __init__(self, folder: Path, of: Server) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.bin = of.bin
        for name in ("", "socket", "flash", "space"):
            (folder / name).mkdir(mode=0o755)
        give_to_server_user(folder, folder / "socket", folder / "flash", folder / "space")
        backup = [
            f"{self.bin}/pg_basebackup", "--pgdata", str(self.data), "-d", of.dsn, "--write-recovery-conf", "--no-sync", "--checkpoint=fast",
            f"--tablespace-mapping={of.folder}/space={folder}/space",
        ]  # fmt: skip
        subprocess.run(as_server_user(backup), check=True, cwd="/")
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.write(
                f"unix_socket_directories = '{folder}/socket'\npg_flashcache.file = '{folder}/flash/cache'\nhot_standby_feedback = on\n"
            )
        self.command("pg_ctl", "--silent", "--wait", f"--log={self.data}/log", "start")


def of(server: Server) -> Seen:
    with connect(parsed(server.dsn, 1), 60) as connection:
        return look(connection)


def remarks_on(*servers: Server) -> list[str]:
    found = find([parsed(server.dsn, 1) for server in servers], None, 60)
    return remarks(found, look_at(found.nodes, 60))


def until(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 180
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.1)


@contextmanager
def chain(folder: Path) -> Iterator[list[Server]]:
    """A primary, its standby, and the standby of that."""
    (folder / "a").mkdir(mode=0o755)
    servers: list[Server] = []
    try:
        servers.append(Server(folder / "a"))
        servers.append(Standby(folder / "b", servers[0]))
        servers.append(Standby(folder / "c", servers[1]))
        yield servers
    finally:
        for server in reversed(servers):
            server.stop()


@needs_server
def test_idle_and_on_a_new_timeline(folder: Path) -> None:
    with chain(folder) as (primary, standby, cascaded):
        primary.sql("SELECT pg_switch_wal()", "CREATE TABLE t (a int)")
        until(lambda: of(standby).lsn == of(primary).lsn and of(standby).receiver == "streaming", "the standby follows")
        # After a restart it asks for the segment from its start on, and has replayed more than it has received.
        standby.command("pg_ctl", "--silent", "--wait", f"--log={standby.data}/log", "restart")
        until(lambda: of(standby).receiver == "streaming", "the standby streams again")
        until(lambda: of(standby).replay_delay_s == 0, "it is not behind what it has received")
        until(lambda: of(cascaded).receiver == "streaming", "the one behind it streams again")
        assert [of(server).timeline for server in (primary, standby, cascaded)] == [1, 1, 1]
        # who is named is not asked for again, under whatever name it receives
        asked_for = (
            "standby walreceiver has no address: it is connected through a socket; name it, here or in this database's list of nodes"
        )
        assert remarks_on(primary) == [asked_for]
        assert remarks_on(primary, standby, cascaded) == []
        standby.command("pg_ctl", "--silent", "--wait", "promote")
        # Its last restart point is from before.
        until(lambda: of(cascaded).receiver == "streaming" and of(cascaded).timeline == 2, "the one behind it follows to the new timeline")
        assert [of(server).timeline for server in (primary, standby)] == [1, 2]
