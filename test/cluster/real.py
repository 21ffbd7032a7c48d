"""A real cluster: etcd, three nodes of Patroni, an agent beside each, HAProxy that asks the agents, pgbouncer in front of it.

Everything listens on loopback addresses, one for each machine that there would be. Nothing of the system is used but the programs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import yaml

from pgflash.system import SERVER_USER, give_to_server_user, is_root

ROOT = Path(__file__).resolve().parents[2]
LONGEST_S = 180.0
NAMES = ("n1", "n2", "n3")
PROGRAMS = {"etcd": "/usr/bin/etcd", "patroni": "/usr/bin/patroni", "haproxy": "/usr/sbin/haproxy", "pgbouncer": "/usr/sbin/pgbouncer"}


def missing() -> list[str]:
    return [name for name, path in PROGRAMS.items() if not Path(path).exists()]


def until(true: Callable[[], Any], what: str, longest_s: float = LONGEST_S) -> Any:
    """What it returns when that is true at last; errors of servers that are not there yet are none."""
    end = time.monotonic() + longest_s
    last = ""
    while True:
        try:
            if found := true():
                return found
        except (OSError, psycopg.Error, ValueError, subprocess.CalledProcessError) as error:
            last = f": {error}"
        assert time.monotonic() < end, f"{what}: still not after {longest_s:g} s{last}"
        time.sleep(0.1)


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return int(answer.status), str(answer.read(), "utf-8")
    except urllib.error.HTTPError as error:
        return int(error.code), str(error.read(), "utf-8")


class Process:
    """A program of the cluster, with a log. It is run as the servers' user, or as ours, who may be the only one to have this Python."""

    def __init__(self, log: Path, command: list[str], env: dict[str, str] | None = None, ours: bool = False) -> None:
        self.log = log
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        user: dict[str, Any] = {"user": SERVER_USER, "group": SERVER_USER, "extra_groups": []} if is_root() and not ours else {}
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, cwd="/", start_new_session=True,
                env=kept | {"LC_ALL": "C.UTF-8", "HOME": str(log.parent)} | (env or {}), **user,
            )  # fmt: skip

    def end(self, sign: int = signal.SIGTERM) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(sign)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Relay:
    """A node's way to etcd, which can be cut and mended."""

    def __init__(self, address: str, target: tuple[str, int]) -> None:
        self.address, self.port, self._target = address, free_port(address), target
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._listener: socket.socket | None = None
        self.mend()

    def mend(self) -> None:
        listener = socket.create_server((self.address, self.port))
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def cut(self) -> None:
        listener, self._listener = self._listener, None
        if listener:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with self._lock:
            ends, self._open = self._open, []
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                try:
                    far = socket.create_connection(self._target, 10)
                    far.settimeout(None)
                except OSError:
                    near.close()
                    continue
                with self._lock:
                    self._open += [near, far]
                if self._listener is not listener:
                    self.cut()
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    @staticmethod
    def _pass_on(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Node:
    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster = cluster
        self.name = f"n{number}"
        self.address = cluster.address(number)
        self.port, self.api, self.agent_port = (free_port(self.address) for _ in range(3))
        self.folder = cluster.folder / self.name
        self.data = self.folder / "data"
        self.folder.mkdir(mode=0o700)
        give_to_server_user(self.folder)
        self.relay = Relay(self.address, (cluster.address(9), cluster.etcd_port)) if cluster.relays else None
        self.tags: dict[str, Any] = {}
        self.delay_s = 0
        self.patroni: Process | None = None
        self.agent: Process | None = None

    @property
    def dsn(self) -> str:
        return f"host={self.address} port={self.port} user=postgres dbname=postgres"

    @property
    def monitor(self) -> str:
        return f"host={self.address} port={self.port} user=monitor dbname=postgres"

    @property
    def api_url(self) -> str:
        return f"http://{self.address}:{self.api}"

    @property
    def agent_url(self) -> str:
        return f"http://{self.address}:{self.agent_port}"

    def conf(self) -> dict[str, Any]:
        cache = dict(
            line.split(" = ", 1) for line in (ROOT / "test/lib/cache.conf").read_text().splitlines() if " = " in line and line[0] != "#"
        )
        parameters = {
            **{name: value.strip("'") for name, value in cache.items()},
            "shared_preload_libraries": "pg_flashcache", "pg_flashcache.file": str(self.folder / "flash"),
            "pg_flashcache.size": "32MB", "pg_flashcache.persistence": "on", "pg_flashcache.follow": "on",
            "pg_flashcache.follow_interval": "1s", "pg_flashcache.follow_conninfo": "user=monitor dbname=postgres",
            "shared_buffers": "2MB", "unix_socket_directories": str(self.folder), "fsync": "off",
            "checkpoint_timeout": "30s", "log_line_prefix": "%m %b[%p] %q%a ",
        }  # fmt: skip
        standby = {"recovery_conf": {"recovery_min_apply_delay": f"{self.delay_s}s"}} if self.delay_s else {}
        return {
            "scope": "fc", "name": self.name, "restapi": {"listen": f"{self.address}:{self.api}", "connect_address": f"{self.address}:{self.api}"},
            "etcd3": {"hosts": [f"{self.relay.address}:{self.relay.port}"], "use_proxies": True} if self.relay else {"hosts": [self.cluster.etcd_at]},
            "bootstrap": {
                "dcs": {
                    "ttl": 15, "loop_wait": 1, "retry_timeout": 5, "maximum_lag_on_failover": 1 << 30, "master_start_timeout": 60,
                    "synchronous_mode": True, "postgresql": {
                        "use_pg_rewind": True, "use_slots": True,
                        "parameters": {
                            "max_connections": 60, "max_worker_processes": 20, "wal_level": "logical", "max_wal_senders": 10,
                            "max_replication_slots": 10, "wal_keep_size": "256MB",
                        },
                    },
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "data-checksums", "no-sync"],
            },
            "postgresql": {
                "listen": f"{self.address}:{self.port}", "connect_address": f"{self.address}:{self.port}", "data_dir": str(self.data),
                "bin_dir": self.cluster.bin, "pgpass": str(self.folder / "pgpass"), "parameters": parameters,
                "pg_hba": ["local all all trust", "host all all 127.0.0.0/8 trust", "host replication all 127.0.0.0/8 trust"],
                "authentication": {"superuser": {"username": "postgres"}, "replication": {"username": "replicator"}},
                "basebackup": ["no-sync", {"checkpoint": "fast"}], **standby,
            },
            "tags": {"flash": self.name, **self.tags},
        }  # fmt: skip

    def write_conf(self) -> Path:
        file = self.folder / "patroni.yml"
        file.write_text(yaml.safe_dump(self.conf()))
        give_to_server_user(file)
        return file

    def start(self) -> None:
        self.patroni = Process(self.folder / "patroni.log", [PROGRAMS["patroni"], str(self.write_conf())])

    def reconfigure(self) -> None:
        """Patroni reads its file again, which also changes the server's settings."""
        assert self.patroni
        self.write_conf()
        self.patroni.process.send_signal(signal.SIGHUP)

    def start_agent(self) -> None:
        """Through the socket, as an agent is beside its server."""
        where = f"host={self.folder} port={self.port} user=monitor dbname=postgres"
        command = [
            sys.executable,
            "-m",
            "pgflash",
            "agent",
            where,
            f"--listen={self.address}:{self.agent_port}",
            "--share=0.5",
            "--timeout=5",
        ]
        self.agent = Process(self.folder / "agent.log", command, {"PYTHONPATH": str(ROOT)}, ours=True)

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self.dsn, autocommit=True, connect_timeout=10)

    def value(self, query: str) -> Any:
        with self.connect() as connection:
            row = connection.execute(query.encode()).fetchone()
        return row[0] if row else None

    def up(self) -> bool:
        return bool(self.value("SELECT true"))

    def processes(self) -> list[int]:
        """The postmaster and all below it."""
        postmaster = int((self.data / "postmaster.pid").read_text().split()[0])
        below = subprocess.run(["pgrep", "-P", str(postmaster)], capture_output=True, text=True, check=False).stdout.split()
        return [postmaster, *map(int, below)]

    def receiver(self) -> int:
        """Its process; 0: none yet."""
        return int(self.value("SELECT pid FROM pg_stat_wal_receiver") or 0)

    def kill(self) -> None:
        """kill -9 of Patroni, the postmaster, and all below it: as if the machine had lost its power."""
        assert self.patroni
        pids = self.processes()
        os.kill(pids[0], signal.SIGSTOP)  # it begins no other process meanwhile
        pids = self.processes()
        self.patroni.end(signal.SIGKILL)
        for pid in reversed(pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not any(alive(pid) for pid in pids), f"the end of {self.name}")
        # Where nobody waits for orphans they stay as zombies, and what they have locked looks as if it were in use.
        for path in (self.data / "postmaster.pid", *self.folder.glob(".s.*.lock")):
            path.unlink(missing_ok=True)

    def stop(self) -> None:
        """At once: what a stop does otherwise is tested elsewhere."""
        if self.agent:
            self.agent.end()
        if self.patroni:
            self.patroni.end(signal.SIGKILL)
        with contextlib.suppress(OSError, ValueError):
            pids = self.processes()
            os.kill(pids[0], signal.SIGQUIT)
            until(lambda: not any(alive(pid) for pid in pids), f"the end of {self.name}")

    def logged(self, words: str) -> bool:
        return words in (self.folder / "patroni.log").read_text("utf-8", "replace")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def free_port(address: str) -> int:
    with socket.socket() as taken:
        taken.bind((address, 0))
        return int(taken.getsockname()[1])


class Cluster:
    def __init__(self, folder: Path, bin_folder: str, relays: bool = False) -> None:
        self.folder = folder
        self.bin = bin_folder
        self.relays = relays
        give_to_server_user(folder)
        number = os.getpid() % 62500  # runs beside each other do not meet
        self._net = f"127.{number // 250 + 1}.{number % 250 + 1}"
        self.etcd_port, peers = free_port(self.address(9)), free_port(self.address(9))
        self.write_port, self.read_port, self.pooler_port = (free_port(self.address(8)) for _ in range(3))
        self.nodes = [Node(self, number) for number in (1, 2, 3)]
        url = f"http://{self.address(9)}:{self.etcd_port}"
        peer = f"http://{self.address(9)}:{peers}"
        self._etcd_url = url
        self._etcd_command = [
            PROGRAMS["etcd"], f"--data-dir={folder}/etcd", f"--listen-client-urls={url}", f"--advertise-client-urls={url}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}", "--log-level=error",
        ]  # fmt: skip
        self.front: list[Process] = []
        self.start_etcd()

    def start_etcd(self) -> None:
        self.etcd = Process(self.folder / "etcd.log", self._etcd_command, {"GOMAXPROCS": "2"})
        until(lambda: get(f"{self._etcd_url}/health")[0] == 200, "etcd")

    @property
    def etcd_at(self) -> str:
        return f"{self.address(9)}:{self.etcd_port}"

    def address(self, number: int) -> str:
        return f"{self._net}.{number}"

    def start(self) -> None:
        """The first becomes the leader, the others are copies of it."""
        self.nodes[0].start()
        until(lambda: self.leader() is self.nodes[0], "a leader")
        until(self.nodes[0].up, "the leader's server")
        with self.nodes[0].connect() as connection:
            connection.execute("CREATE EXTENSION pg_flashcache")
            connection.execute("CREATE SCHEMA flash_nodes")
            connection.execute("CREATE EXTENSION dblink SCHEMA flash_nodes")
            connection.execute("CREATE ROLE monitor LOGIN IN ROLE pg_monitor")
            for node in self.nodes:
                connection.execute("SELECT pg_flashcache_add_node(%s, %s)", (node.name, node.monitor))
        for node in self.nodes[1:]:
            node.start()
        for node in self.nodes[1:]:
            until(lambda node=node: node.up() and node.receiver(), f"{node.name} as a replica")  # type: ignore[misc]
        for node in self.nodes:
            until(lambda node=node: node.value("SELECT state FROM pg_stat_flashcache") == "active", f"the cache of {node.name}")  # type: ignore[misc]
            node.start_agent()
        self._start_front()
        until(lambda: self.sync_standby() is not None, "a synchronous standby")

    def _start_front(self) -> None:
        checks = "inter 300ms fall 2 rise 1 on-marked-down shutdown-sessions"
        lines = [
            "global",
            " maxconn 200",
            "defaults",
            " mode tcp",
            " timeout connect 2s",
            " timeout client 60s",
            " timeout server 60s",
            " timeout check 6s",
        ]
        for name, port, path in (("write", self.write_port, "/primary"), ("read", self.read_port, "/replica?share=0.5")):
            lines += [f"listen {name}", f" bind {self.address(8)}:{port}", " option httpchk", f" http-check send meth GET uri {path}",
                      " http-check expect status 200", f" default-server {checks}"]  # fmt: skip
            lines += [
                f" server {node.name} {node.address}:{node.port} check addr {node.address} port {node.agent_port}" for node in self.nodes
            ]
        lines += ["listen stats", f" bind unix@{self.folder}/stats.sock", " mode http", " stats enable", " stats uri /"]
        haproxy = self.folder / "haproxy.cfg"
        haproxy.write_text("\n".join(lines) + "\n")
        users = self.folder / "users.txt"
        users.write_text('"postgres" ""\n')
        pooler = self.folder / "pgbouncer.ini"
        pooler.write_text(
            f"[databases]\npostgres = host={self.address(8)} port={self.write_port} dbname=postgres\n[pgbouncer]\n"
            f"listen_addr = {self.address(8)}\nlisten_port = {self.pooler_port}\nauth_type = trust\nauth_file = {users}\npool_mode = transaction\n"
            f"unix_socket_dir =\nserver_login_retry = 1\nquery_wait_timeout = 20\nserver_connect_timeout = 5\nmax_client_conn = 50\n"
        )  # fmt: skip
        give_to_server_user(haproxy, users, pooler)
        self.front = [
            Process(self.folder / "haproxy.log", [PROGRAMS["haproxy"], "-db", "-f", str(haproxy)]),
            Process(self.folder / "pgbouncer.log", [PROGRAMS["pgbouncer"], str(pooler)]),
        ]

    @property
    def pooled(self) -> str:
        return f"host={self.address(8)} port={self.pooler_port} user=postgres dbname=postgres"

    @property
    def reading(self) -> str:
        return f"host={self.address(8)} port={self.read_port} user=monitor dbname=postgres"

    def members(self) -> dict[str, dict[str, Any]]:
        for node in self.nodes:
            with contextlib.suppress(OSError, ValueError):
                return {item["name"]: item for item in json.loads(get(f"{node.api_url}/cluster")[1])["members"]}
        return {}

    def leader(self) -> Node | None:
        """By Patroni, and by its own word."""
        for item in self.members().values():
            if item["role"] == "leader" and item["state"] == "running":
                node = next(node for node in self.nodes if node.name == item["name"])
                with contextlib.suppress(psycopg.Error):
                    return None if node.value("SELECT pg_is_in_recovery()") else node
        return None

    def sync_standby(self) -> Node | None:
        names = [name for name, item in self.members().items() if item["role"] == "sync_standby"]
        return next((node for node in self.nodes if names and node.name == names[0]), None)

    def replicas_stream(self) -> bool:
        members = self.members()
        lines = {item.get("timeline") for item in members.values()}
        return (
            len(members) == len(self.nodes)
            and len(lines) == 1
            and all(item["state"] in ("running", "streaming") for item in members.values())
        )

    def tool(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        command = [sys.executable, "-m", "pgflash", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, cwd="/", env=kept | {"PYTHONPATH": str(ROOT)}, timeout=500, check=False
        )

    def patroni(self) -> list[str]:
        return [f"--patroni={node.api_url}" for node in self.nodes]

    def stop(self) -> None:
        for process in self.front:
            process.end()
        for node in self.nodes:
            node.stop()
        self.etcd.end()


def made(folder: Path, bin_folder: str, relays: bool = False) -> Iterator[Cluster]:
    cluster = Cluster(folder, bin_folder, relays)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        if keep := os.environ.get("FC_CLUSTER_LOGS"):
            for log in folder.rglob("*.log"):
                shutil.copy(log, Path(keep) / f"{log.parent.name}-{log.name}")
