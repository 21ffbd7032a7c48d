"""A cluster of Patroni under load: all caches changed, with a switch-over to a warm replica, and the leader killed and rewound.

`verify` is on: each hit is compared with the disk. test_real_long.py has what takes minutes.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pilot.servers import bin_folder, reachable

from cluster import real
from cluster.load import Load, check, prepare
from cluster.real import Cluster, Node, get, until

pytestmark = [
    pytest.mark.skipif(not bin_folder(), reason="no server with pg_flashcache: test.sh makes one (FC_PILOT_BIN)"),
    pytest.mark.skipif(bool(real.missing()), reason=f"not installed: {', '.join(real.missing())}"),
]
ENOUGH = 300  # transactions that clients get done in between
folder = pytest.fixture(scope="module")(reachable)


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[Cluster]:
    yield from real.made(folder, bin_folder())


@pytest.fixture(scope="module")
def load(cluster: Cluster) -> Iterator[Load]:
    with cluster.nodes[0].connect() as connection:
        prepare(connection)
    load = Load(cluster.pooled, cluster.reading)
    yield load
    with contextlib.suppress(AssertionError):
        load.stop()


def goes_on(load: Load, what: str) -> None:
    """Clients get further."""
    so_far, reads = load.acknowledged(), load.reads
    until(lambda: load.acknowledged() >= so_far + ENOUGH and load.reads >= reads + ENOUGH, f"{what}: the load goes on")
    assert load.wrong == []


def warm(cluster: Cluster, *nodes: Node) -> None:
    names = [f"--node={node.name}" for node in nodes]
    done = cluster.tool("cluster", "warmth", *cluster.patroni(), "user=monitor dbname=postgres", "--share=0.5", "--wait=150", *names)
    assert done.returncode == 0, done.stdout + done.stderr


def clean(node: Node) -> None:
    """It has compared hits with the disk, and none was wrong."""
    with node.connect() as connection:
        row = connection.execute("SELECT state, verify_checks, verify_failures, checksum_failures FROM pg_stat_flashcache").fetchone()
    assert row is not None and row[0] == "active" and row[1] > 0 and row[2:] == (0, 0), f"{node.name}: {row}"


def checked(cluster: Cluster) -> dict[str, set[str]]:
    """Which servers HAProxy has for what, by the agents' word."""
    import socket

    with socket.socket(socket.AF_UNIX) as stats:
        stats.connect(f"{cluster.folder}/stats.sock")
        stats.sendall(b"GET /;csv HTTP/1.0\r\n\r\n")
        text = b"".join(iter(lambda: stats.recv(65536), b"")).decode()
    found: dict[str, set[str]] = {"write": set(), "read": set()}
    for line in text.splitlines():
        fields = line.split(",")
        if fields[0] in found and fields[1] in real.NAMES and fields[17].startswith("UP"):
            found[fields[0]].add(fields[1])
    return found


def nodes_by_gv(node: Node) -> dict[str, tuple[str, str | None]]:
    with node.connect() as connection:
        return {
            row[0]: (row[1], row[2]) for row in connection.execute("SELECT node, node_state, node_role FROM gv_stat_flashcache").fetchall()
        }


def test_replicas_get_warm(cluster: Cluster, load: Load) -> None:
    goes_on(load, "at first")
    warm(cluster, *cluster.nodes[1:])
    until(lambda: checked(cluster) == {"write": {"n1"}, "read": {"n2", "n3"}}, "HAProxy sees who is what")
    assert [get(f"{node.agent_url}/primary")[0] for node in cluster.nodes] == [200, 503, 503]
    assert [get(f"{node.agent_url}/warm")[0] for node in cluster.nodes] == [200, 200, 200]
    assert "\npg_flashcache_warmth_following 1\n" in get(f"{cluster.nodes[1].agent_url}/metrics")[1]


def test_one_view(cluster: Cluster, load: Load) -> None:
    expected = {"n1": ("up", "primary"), "n2": ("up", "standby"), "n3": ("up", "standby")}
    assert [nodes_by_gv(node) for node in cluster.nodes] == [expected] * 3
    done = cluster.tool("cluster", "status", *cluster.patroni(), "user=monitor dbname=postgres", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    nodes = {item["name"]: item for item in json.loads(done.stdout)["nodes"]}
    assert [nodes[name]["role"] for name in real.NAMES] == ["primary", "standby", "standby"]
    assert nodes["n2"]["patroni"]["tags"]["flash"] == "n2"
    # without Patroni, by the list that the server has
    done = cluster.tool("cluster", "status", cluster.nodes[2].monitor, "--json")
    assert {item["name"] for item in json.loads(done.stdout)["nodes"] if item["found_by"] != "argument"} == {"n1", "n2"}


def test_rolling(cluster: Cluster, load: Load) -> None:
    """All caches get another size: replicas first, then a warm one takes over, and the former leader is restarted as a replica."""
    candidate = until(cluster.sync_standby, "a synchronous standby")
    before = {node.name: node.value("SELECT pg_postmaster_start_time()") for node in cluster.nodes}
    file = cluster.folder / "settings.toml"
    file.write_text('[settings]\npg_flashcache.size = "24MB"\n[rolling]\nwarm = 0.5\nwait = "3min"\n')
    arguments = ("cluster", "apply", str(file), "user=postgres dbname=postgres", *cluster.patroni(), "--switch-over", "--json")
    done = cluster.tool(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    replicas = [node.name for node in cluster.nodes[1:] if node is not candidate]
    assert [step["node"] for step in json.loads(done.stdout)["steps"]] == [*replicas, candidate.name, "n1"]
    assert {node.name: node.value("SELECT pg_postmaster_start_time()") for node in cluster.nodes} == before
    done = cluster.tool(*arguments, "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(item["event"], item.get("node")) for item in events if item["event"] in ("restarting", "done", "switching over")] == [
        ("restarting", replicas[0]), ("done", replicas[0]), ("restarting", candidate.name), ("done", candidate.name),
        ("switching over", None), ("restarting", "n1"), ("done", "n1"),
    ]  # fmt: skip
    leader = until(cluster.leader, "a leader")
    assert leader is not cluster.nodes[0]
    assert {node.value("SELECT slots FROM pg_stat_flashcache") for node in cluster.nodes} == {3072}
    assert all(node.value("SELECT pg_postmaster_start_time()") > before[node.name] for node in cluster.nodes)
    assert json.loads(cluster.tool(*arguments).stdout)["steps"] == [
        {"node": node, "leader": node == leader.name, "restart": None, "reload": False, "settings": {}}
        for node in [*sorted({"n1", "n2", "n3"} - {leader.name}, key=lambda name: (name == sync_name(cluster), name)), leader.name]
    ]
    until(lambda: checked(cluster)["write"] == {leader.name}, "HAProxy sends writers there")
    goes_on(load, "with all caches changed")


def sync_name(cluster: Cluster) -> str:
    return str(until(cluster.sync_standby, "a synchronous standby").name)


def test_leader_killed(cluster: Cluster, load: Load) -> None:
    """What it had written and nobody had received is taken back by pg_rewind: its flash must not have it either."""
    leader = until(cluster.leader, "a leader")
    until(cluster.sync_standby, "a synchronous standby")
    others = [node for node in cluster.nodes if node is not leader]
    receivers = [until(node.receiver, f"{node.name} receives") for node in others]
    assert leader.patroni
    leader.patroni.process.send_signal(signal.SIGSTOP)  # or it would take the standby that is silent for none, and nobody could lead
    for pid in receivers:
        os.kill(pid, signal.SIGSTOP)
    try:
        with leader.connect() as connection:
            connection.execute("SET synchronous_commit = local")
            # More than fits into what the kernel keeps for a receiver: what comes after it stays here.
            connection.execute("SELECT pg_logical_emit_message(false, 'fc', repeat('x', 48 * 1024 * 1024))")
            # Clients whose commit waits for the standby still have their rows locked.
            changed = connection.execute(
                "UPDATE counters SET pad = repeat('y', 900) WHERE id IN (SELECT id FROM counters FOR UPDATE SKIP LOCKED)"
            ).rowcount
            assert changed > 0
            connection.execute("SELECT count(*) FROM counters")
        leader.kill()
    finally:
        for pid in receivers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    survivor = until(lambda: (found := cluster.leader()) is not leader and found, "another one leads")
    assert nodes_by_gv(survivor)[leader.name] == ("down", None)
    assert nodes_by_gv(survivor)[survivor.name] == ("up", "primary")
    done = cluster.tool("cluster", "status", *cluster.patroni(), "user=monitor dbname=postgres")
    assert done.returncode in (7, 11)
    until(lambda: checked(cluster)["write"] == {survivor.name}, "HAProxy sends writers there")
    assert get(f"{leader.agent_url}/health")[0] == 503
    goes_on(load, "after the leader was killed")
    leader.start()
    until(lambda: leader.up() and leader.receiver(), "the old leader is a replica")
    assert leader.logged("running pg_rewind"), "the old leader was not rewound"
    until(cluster.replicas_stream, "all follow")
    assert leader.value("SELECT loaded_at IS NULL FROM pg_stat_flashcache_persistence"), "nothing of its flash was taken over"
    assert leader.value("SELECT count(*) FROM counters WHERE pad LIKE 'y%'") == 0
    warm(cluster, leader)
    goes_on(load, "with the old leader as a replica")


def test_rows_and_pages(cluster: Cluster, load: Load) -> None:
    """Each node has what the clients were told, and has read no wrong page."""
    load.stop()
    leader = until(cluster.leader, "a leader")
    lsn = leader.value("SELECT pg_current_wal_insert_lsn()")
    for node in cluster.nodes:
        if node is not leader:
            until(lambda node=node: node.value(f"SELECT pg_last_wal_replay_lsn() >= '{lsn}'"), f"{node.name} has replayed all")  # type: ignore[misc]
        with node.connect() as connection:
            assert check(load, connection) == [], node.name
        clean(node)
    assert load.wrong == []
    assert load.acknowledged() > 3 * ENOUGH
    for node in cluster.nodes:
        for log in node.folder.rglob("*.log"):
            text = log.read_text("utf-8", "replace")
            assert "differs between flash and disk" not in text and "TRAP:" not in text, log
    with contextlib.suppress(psycopg.Error):
        leader.value("SELECT 1")
