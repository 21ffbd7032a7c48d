"""HAProxy in front of several servers on one machine, at sockets in their folder; it listens nowhere else.

Each connection goes to the next of the servers that are let in. Who is, is said over HAProxy's own socket, as a cluster manager's
callback would: no health check decides meanwhile.
"""

from __future__ import annotations

import contextlib
import csv
import os
import signal
import socket
import subprocess
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from pgflash.errors import BrokeOff, MachineError
from pgflash.lab.work import Work
from pgflash.system import as_server_user, environment, find_program, give_to_server_user

INSTALL_HINT = "install haproxy (Debian: apt-get install haproxy)"
PORT = 6432  # the name of its socket
LONGEST_SOCKET = 96  # bytes: it makes the socket under a longer name, and then renames it


def socket_name(port: int) -> str:
    """As libpq looks for it."""
    return f".s.PGSQL.{port}"


def check(socket_folder: Path) -> None:
    """Raises MachineError if it cannot be run with a socket there."""
    if not find_program("haproxy"):
        raise MachineError("there is no haproxy, which spreads the load over the nodes", INSTALL_HINT)
    path = os.fsencode(socket_folder / socket_name(PORT))
    if len(path) > LONGEST_SOCKET:
        raise MachineError(
            f"the proxy's socket would have a name of {len(path)} bytes, and there is room for {LONGEST_SOCKET}",
            "choose a shorter folder with --dir",
        )


class Proxy:
    """`servers`: names, and the ports that name their sockets in the folder of `work`; they need not run."""

    def __init__(self, work: Work, servers: Mapping[str, int], clients: int) -> None:
        self.work = work
        self.names = list(servers)
        self.host, self.port = work.socket, PORT
        self.log = work.log / "haproxy.log"
        self._admin = work.socket / "haproxy"
        self._config = work.path / "haproxy.cfg"
        self._process: subprocess.Popen[bytes] | None = None
        lines = [
            "global", f" maxconn {clients}", " nbthread 1", f" stats socket unix@{self._admin} level admin",
            "defaults", " mode tcp", " timeout connect 10s", " timeout client 1d", " timeout server 1d",
            "listen nodes", f" bind unix@{work.socket / socket_name(PORT)} mode 700", " balance roundrobin",
        ]  # fmt: skip
        lines += [f" server {name} unix@{work.socket / socket_name(port)}" for name, port in servers.items()]
        self._config.write_text("\n".join(lines) + "\n", "utf-8")
        give_to_server_user(self._config)

    def start(self) -> None:
        check(self.work.socket)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                as_server_user([find_program("haproxy"), "-db", "-f", str(self._config)]),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment(), cwd="/", start_new_session=True,
            )  # fmt: skip
        for _ in range(600):
            if self._process.poll() is not None:
                break
            with contextlib.suppress(BrokeOff):
                self._ask("show info")
                return
            time.sleep(0.05)
        text = self.log.read_text("utf-8", "replace").strip()
        self.stop()
        raise BrokeOff("the proxy did not start:\n" + "\n".join(text.splitlines()[-12:]))

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            for sign in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, sign)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                    return

    def let_in(self, names: Collection[str]) -> None:
        """From now on connections go to these only; those that are there stay."""
        for name in self.names:
            said = self._ask(f"set server nodes/{name} state {'ready' if name in names else 'maint'}")
            if said:
                raise BrokeOff(f"the proxy: {said}")

    def connections(self) -> dict[str, int]:
        """How many each has got since the start."""
        rows = csv.DictReader(self._ask("show stat").lstrip("# ").splitlines())
        return {row["svname"]: int(row["stot"]) for row in rows if row["svname"] in self.names}

    def _ask(self, words: str) -> str:
        answer = b""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as admin:
                admin.settimeout(30)
                admin.connect(str(self._admin))
                admin.sendall(f"{words}\n".encode())
                while more := admin.recv(65536):
                    answer += more
        except OSError as error:
            raise BrokeOff(f"the proxy does not answer: {error.strerror or error}") from error
        return answer.decode("utf-8", "replace").strip()
