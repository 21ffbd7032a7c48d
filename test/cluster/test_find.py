"""Who the nodes are, on a real server: those in its list, standbys, Citus' workers by a table in place of its own. And what is shown."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pilot.servers import Server, needs_server, reachable
from rich.console import Console

from pgflash.cluster import show
from pgflash.cluster.find import NODES, STANDBYS, Node, find, known_to, once
from pgflash.cluster.gather import Look, ask_all, look_at
from pgflash.cluster.look import Replica
from pgflash.cluster.patroni import PatroniMember
from pgflash.connection import parsed

from .fakes import look, seen, warmth

ROOT = Path(__file__).resolve().parents[2]
folder = pytest.fixture(scope="module")(reachable)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    server = Server(folder)
    with (server.data / "postgresql.conf").open("a") as conf:
        conf.write((ROOT / "test/lib/cache.conf").read_text())
    server.command("pg_ctl", "--silent", "--wait", f"--log={server.data}/log", "restart")
    server.sql("CREATE ROLE monitor LOGIN IN ROLE pg_monitor", "CREATE SCHEMA flash_nodes", "CREATE EXTENSION dblink SCHEMA flash_nodes")
    yield server
    server.stop()


def of(server: Server) -> dict[str, str]:
    return parsed(server.dsn.replace("user=postgres", "user=monitor"), 1)


@needs_server
def test_only_superusers_say_who_is_a_node(server: Server) -> None:
    server.sql(
        "CREATE ROLE app", "GRANT USAGE ON FOREIGN DATA WRAPPER dblink_fdw TO app",
        "SET ROLE app; CREATE SERVER trap TYPE 'pg_flashcache' FOREIGN DATA WRAPPER dblink_fdw OPTIONS (host '203.0.113.9')",
    )  # fmt: skip
    try:
        found = find([of(server)], None, 10)
        assert [node.found_by for node in found.nodes] == ["argument"]
        assert "node trap is not used: its server belongs to somebody who is no superuser" in found.remarks
    finally:
        server.sql("DROP SERVER trap", "REVOKE USAGE ON FOREIGN DATA WRAPPER dblink_fdw FROM app", "DROP ROLE app")


@needs_server
def test_the_list_of_the_server_and_workers_of_citus(server: Server) -> None:
    assert [node.found_by for node in find([of(server)], None, 10).nodes] == ["argument"]
    server.sql(
        f"SELECT pg_flashcache_add_node('one', 'host={server.folder}/socket user=monitor'), pg_flashcache_add_node('two', 'host=10.0.0.2 port=7')",
        "SET allow_system_table_mods = on; CREATE TABLE pg_catalog.pg_dist_node (nodeid int, nodename text, nodeport int, isactive bool,"
        " noderole text); GRANT SELECT ON pg_catalog.pg_dist_node TO PUBLIC",
        "INSERT INTO pg_catalog.pg_dist_node VALUES (1, 'worker1', 5432, true, 'primary'), (2, 'worker2', 9700, true, 'primary'),"
        " (3, 'gone', 5432, false, 'primary'), (4, 'copy', 5432, true, 'secondary')",
    )  # fmt: skip
    try:
        found = find([of(server)], None, 10).nodes
        assert [(node.name, node.found_by, node.parts.get("host"), node.parts.get("port")) for node in found[1:]] == [
            ("two", "pg_flashcache_nodes", "10.0.0.2", "7"), ("worker1:5432", "pg_dist_node", "worker1", "5432"),
            ("worker2:9700", "pg_dist_node", "worker2", "9700"),
        ]  # fmt: skip
        assert {node.parts["user"] for node in found} == {"monitor"}
        assert [node.found_by for node in find([of(server)], None, 10, search=False).nodes] == ["argument"]
    finally:
        server.sql("SET allow_system_table_mods = on; DROP TABLE pg_catalog.pg_dist_node")
        server.sql("SELECT pg_flashcache_remove_node(node) FROM pg_flashcache_nodes")


@needs_server
def test_a_server_that_is_found_twice_is_shown_once(server: Server) -> None:
    parts = of(server)
    other = {**parts, "hostaddr": "", "application_name": "x"}
    looks = look_at([Node("a", parts, "argument"), Node("b", other, "argument")], 10)
    assert [item.node.name for item in looks] == ["a"]


def run(*arguments: str) -> tuple[int, dict[str, Any]]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    command = [sys.executable, "-m", "pgflash", "cluster", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", env=kept | {"PYTHONPATH": str(ROOT)}, timeout=120, check=False)
    return done.returncode, json.loads(done.stdout)


@needs_server
def test_commands(server: Server) -> None:
    dsn = server.dsn.replace("user=postgres", "user=monitor")
    status, said = run("status", dsn)
    assert (status, said["problems"]) == (0, [])
    assert said["nodes"][0]["server"]["stat"]["state"] == "active"
    gone = f"host={server.folder}/nowhere user=monitor"
    status, said = run("status", dsn, gone)
    assert (status, [item["ok"] for item in said["nodes"]]) == (7, [True, False])
    status, said = run("warmth", dsn)
    assert (status, said["warm"]) == (10, False)
    status, said = run("warmth", dsn, "--node=nix")
    assert status == 2 and "there is no node" in said["message"]
    status, said = run("report", dsn, "--interval=1")
    assert status == 0 and said["totals"]["capacity_bytes"] == 1024 * 1024
    status, said = run("report", dsn, gone, "--interval=1")
    assert status == 7 and said["totals"]["capacity_bytes"] == 1024 * 1024
    status, said = run("status", "--patroni=http://user:tOpS3cret@h")
    assert status == 2 and "tOpS3cret" not in json.dumps(said)
    server.sql("ALTER SYSTEM SET pg_flashcache.enabled = off", "SELECT pg_reload_conf()")
    try:
        for _ in range(600):
            if server.sql("SELECT state FROM pg_stat_flashcache") == "disabled":
                break
        assert run("status", dsn)[0] == 0  # as it is wanted
    finally:
        server.sql("ALTER SYSTEM RESET pg_flashcache.enabled", "SELECT pg_reload_conf()")


def test_names_and_places_are_there_once() -> None:
    nodes = [
        Node("a", {"host": "h"}, "argument"), Node("x", {"host": "h", "port": "5432"}, "list"), Node("a", {"host": "h2"}, "list"),
        Node("a", {"host": "h", "dbname": "shop"}, "list"),
    ]  # fmt: skip
    assert [node.name for node in once(nodes)] == ["a", "a (h2)", "a (h/shop)"]


# --- what is shown ---


def text(looks: list[Look], share: float = 0.9, remarks: list[str] | None = None) -> str:
    out = StringIO()
    Console(file=out, width=200, color_system=None).print(show.status(looks, share, remarks or []))
    return out.getvalue()


def test_status() -> None:
    looks = [
        look("a", seen(replicas=[Replica("b", None, "streaming", "async", 0)])),
        look("b", seen(standby=True, lsn="0/2F00000", warmth=warmth(0.95), replay_delay_s=90.0)),
        look("c", seen(standby=True, warmth=warmth(0.2), stat={"state": "off", "reason": "it broke", "hits": 0, "misses": 0, "used": 0, "slots": 9})),
        look("d", None, "nothing listens there"), look("e", seen(standby=True, receiver="none", warmth=warmth(None, "off"))),
    ]  # fmt: skip
    lines = text(looks, remarks=["a remark"]).splitlines()
    assert lines[1].split() == ["a", "primary", "1", "active", "90.0", "50.0", "800", "kB", "1.1", "on", "15"]
    assert lines[2].split() == [
        "b",
        "standby",
        "1",
        "MB,",
        "1",
        "min",
        "30",
        "s",
        "1",
        "active",
        "90.0",
        "50.0",
        "800",
        "kB",
        "95.0",
        "warm",
        "1.1",
        "on",
        "15",
    ]
    assert "20.0 not warm" in lines[3] and "off" in lines[3] and "down" in lines[4] and "not followed" in lines[5]
    assert [line.rstrip() for line in lines[6:] if line.strip()] == [
        "d: nothing listens there", "c: the cache is off: it broke", "e: it does not receive WAL from another server", "a remark",
    ]  # fmt: skip


def test_text_of_servers_is_no_markup() -> None:
    looks = [
        look("[red]a\x1b[2J", seen(stat={"state": "off", "reason": "\x1b]0;x\x07[bold]", "hits": 0, "misses": 0, "used": 0, "slots": 9}))
    ]
    shown = text(looks)
    assert "\x1b" not in shown and "[red]a\\x1b[2J" in shown and "[bold]" in shown


def test_text_of_patroni_is_no_markup() -> None:
    member = PatroniMember("[/n]", "sync[/x]\x1b[2J", "[/s]\x1b]0;x\x07", "h", 1, "", None, None, False, {"[/t]": "\x1b[/v]"})
    looks = [
        look("[/n]", seen(), member=PatroniMember("a", "leader", "running", "h", 1, "", None, None, False)),
        look("[/n]", seen(standby=True, warmth=warmth(0.1, "[/w]\x1b", reason="[/r]")), member=member), look("b", None, "[/p]\x1b", member),
        look("c", seen(standby=True, stat={"state": "[/z]\x1b", "reason": None, "hits": 0, "misses": 0, "used": 0, "slots": 9}, major=15)),
    ]  # fmt: skip
    out = StringIO()
    Console(file=out, width=300, color_system=None).print(show.status(looks, 0.9, ["[/q]\x1b"]), show.warm_table(looks, 0.9))
    shown = out.getvalue()
    assert "\x1b" not in shown and "\x07" not in shown
    for words in ("[/n]", "sync[/x]\\x1b[2J", "[/s]", "[/w]\\x1b", "[/r]", "[/p]\\x1b", "(sync[/x]", "[/z]\\x1b", "[/q]\\x1b"):
        assert words in shown, words
    assert [item["patroni"] for item in show.as_json(looks, 0.9)][1] == {
        "role": member.role, "state": member.state, "pending_restart": False, "tags": {"[/t]": "\x1b[/v]"}
    }  # fmt: skip


def test_the_server_on_the_command_line_has_its_name_of_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [Node("n1", {"host": "10.0.0.1"}, NODES), Node("n2", {"host": "h"}, NODES)]
    assert [(node.name, node.found_by) for node in once([Node("h", {"host": "h"}, "argument"), *listed])] == [
        ("n2", "argument"), ("n1", NODES)
    ]  # fmt: skip
    # under another address: by what answers there
    answers = [(seen(port=1), None), (seen(port=2), None), (seen(port=1), None)]
    monkeypatch.setattr("pgflash.cluster.gather.ask_all", lambda *_: answers)
    found = look_at([Node("x", {"host": "x"}, "argument"), Node("n1", {"host": "y"}, NODES), Node("n2", {"host": "z"}, NODES)], 1)
    assert [(item.node.name, item.node.parts, item.node.found_by) for item in found] == [
        ("n2", {"host": "x"}, "argument"), ("n1", {"host": "y"}, NODES)
    ]  # fmt: skip


def test_lags() -> None:
    looks = [look("a", seen(lsn="1/0")), look("b", seen(standby=True, lsn="0/FFFFFF00")), look("c", seen(standby=True, lsn="1/10"))]
    assert show.lags(looks) == {"b": 256, "c": 0}
    assert show.lags([*looks, look("d", seen())]) == {}


def member(name: str, role: str, state: str = "running", host: str = "10.0.0.1") -> PatroniMember:
    return PatroniMember(name, role, state, host, 5432, "", None, None, False)


def test_there_is_one_primary() -> None:
    a, b = look("a", seen(), member=member("a", "leader")), look("b", seen(standby=True), member=member("b", "replica"))
    assert show.problems([a, b]) == []
    promoted = look("b", seen(), member=member("b", "replica"))
    assert show.problems([a, promoted]) == [("b", "it is a primary, and Patroni has it as a replica: stop it")]
    assert show.problems([b]) == [("cluster", "no member that answers is a primary")]
    following = look("a", seen(standby=True), member=member("a", "standby_leader"))  # of a cluster elsewhere
    assert show.problems([following, b]) == []
    # without Patroni: copies of one server, or shards
    one, two, shard = look("a", seen(system=1)), look("b", seen(system=1, port=5433)), look("c", seen(system=2))
    assert show.problems([one, shard, look("d", seen(standby=True, system=1))]) == []
    assert [name for name, _ in show.problems([one, two, shard])] == ["a", "b"]


def test_a_server_of_two_databases_is_one_to_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the list with one database, of the command line with another."""
    nodes = [Node("127.0.0.1:6401/postgres", {"dbname": "postgres"}, "argument"), Node("n1", {"dbname": "shop"}, NODES)]
    answers = [(seen(database=node.parts["dbname"], system=1), None) for node in nodes]
    monkeypatch.setattr("pgflash.cluster.gather.ask_all", lambda *_: answers)
    assert [item.node.name for item in look_at(nodes, 1, whole=True)] == ["n1"]
    both = look_at(nodes, 1)
    assert len(both) == 2 and show.problems(both) == []


def test_a_member_without_an_address_is_down() -> None:
    node = Node("c", {"user": "me"}, "patroni", member("c", "replica", "start failed", host=""))
    (item,) = look_at([node], 1)
    assert not item.ok and item.problem == "Patroni says start failed, and no address"


def test_a_server_without_the_extension_is_not_well() -> None:
    assert show.problems([look("a", seen(stat=None, missing=["database bare has no extension pg_flashcache"]))]) == [
        ("a", "database bare has no extension pg_flashcache")
    ]


# --- who is sent a password ---


class Curious:
    """A server that asks for a password in clear, and keeps what it is sent."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.heard = b""
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self) -> None:
        while True:
            try:
                line, _ = self.socket.accept()
            except OSError:
                return
            with line, contextlib.suppress(OSError):
                while part := line.recv(4096):
                    self.heard += part
                    encryption = len(part) == 8  # a request for it
                    line.sendall(b"N" if encryption else b"R" + (8).to_bytes(4) + (3).to_bytes(4))


class Primary:
    """Without the extension and Citus, and with a standby at this machine, by an address that is not 127.0.0.1."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def execute(self, query: bytes | str) -> Primary:
        text = query if isinstance(query, str) else query.decode()
        self.rows = [{"address": "0.0.0.0", "name": "n2"}] if "pg_stat_replication" in text else [{"there": False}]
        return self

    def fetchall(self) -> list[dict[str, Any]]:
        return self.rows

    def fetchone(self) -> dict[str, Any]:
        return self.rows[0]


@pytest.mark.parametrize("source", ["string", "environment", "file", "default file"])
def test_a_standby_that_only_the_primary_names_is_sent_no_password(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A role with REPLICATION can have any host there."""
    server = Curious()
    parts = {"host": "localhost", "port": str(server.port), "user": "postgres", "dbname": "postgres", "sslmode": "disable"}
    file = tmp_path / ".pgpass"
    file.write_text("*:*:*:*:tOpS3cret\n")
    file.chmod(0o600)
    if source == "string":
        parts["password"] = "tOpS3cret"
    elif source == "environment":
        monkeypatch.setenv("PGPASSWORD", "tOpS3cret")
    elif source == "file":
        parts["passfile"] = str(file)
    else:
        monkeypatch.setenv("PGPASSFILE", str(file))
    monkeypatch.setattr("pgflash.safe.extension", lambda _: None)
    (node,) = known_to(Primary(), parts).nodes  # type: ignore[arg-type]
    try:
        ((answer, problem),) = ask_all([node], 5, lambda _: None)
        assert (node.found_by, answer) == (STANDBYS, None)
        assert b"postgres" in server.heard and b"tOpS3cret" not in server.heard
        assert problem == "the server asks for a password, and is sent none: only pg_stat_replication names it; name it"
        ask_all([Node("n2", {**parts, "host": "127.0.0.1"}, "argument")], 5, lambda _: None)  # is named
        assert b"tOpS3cret" in server.heard
    finally:
        server.socket.close()


def test_who_is_named_as_well_is_reached_as_named() -> None:
    (node,) = once([Node("n2", {"host": "h", "password": ""}, STANDBYS), Node("two", {"host": "h", "password": "x"}, NODES)])
    assert (node.name, node.parts["password"]) == ("two", "x")
