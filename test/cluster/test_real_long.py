"""What takes minutes, on a cluster of Patroni under load: etcd killed, a leader cut off from it, a replica made anew, one
that cascades, one that is delayed, and a subscriber of logical replication. The stage cluster-long runs it (FC_CLUSTER=full)."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pilot.servers import Server, bin_folder, reachable

from cluster import real
from cluster.load import Load, check, prepare
from cluster.real import Cluster, Node, until
from cluster.test_real import checked, clean, goes_on, warm

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.skipif(os.environ.get("FC_CLUSTER") != "full", reason="FC_CLUSTER=full runs it: the stage cluster-long"),
    pytest.mark.skipif(not bin_folder(), reason="no server with pg_flashcache: test.sh makes one (FC_PILOT_BIN)"),
    pytest.mark.skipif(bool(real.missing()), reason=f"not installed: {', '.join(real.missing())}"),
]
folder = pytest.fixture(scope="module")(reachable)
subscriber_folder = pytest.fixture(scope="module")(reachable)


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[Cluster]:
    yield from real.made(folder, bin_folder(), relays=True)


@pytest.fixture(scope="module")
def load(cluster: Cluster) -> Iterator[Load]:
    with cluster.nodes[0].connect() as connection:
        prepare(connection)
    load = Load(cluster.pooled, cluster.reading)
    yield load
    with contextlib.suppress(AssertionError):
        load.stop()


@pytest.fixture(scope="module")
def subscriber(subscriber_folder: Path) -> Iterator[Server]:
    server = Server(subscriber_folder)
    with (server.data / "postgresql.conf").open("a") as conf:
        conf.write((ROOT / "test/lib/cache.conf").read_text())
        conf.write("pg_flashcache.size = '16MB'\n")
    server.command("pg_ctl", "--silent", "--wait", f"--log={server.data}/log", "restart")
    yield server
    server.stop()


def leader_of(cluster: Cluster) -> Node:
    found: Node = until(cluster.leader, "a leader")
    return found


def replicas_of(cluster: Cluster) -> list[Node]:
    leader = leader_of(cluster)
    return [node for node in cluster.nodes if node is not leader]


def test_a_subscriber(cluster: Cluster, load: Load, subscriber: Server) -> None:
    """It has a cache of its own, and applies what clients write."""
    leader = leader_of(cluster)
    with leader.connect() as connection:
        connection.execute("ALTER TABLE counters REPLICA IDENTITY DEFAULT")
        connection.execute("CREATE PUBLICATION all_of_it FOR TABLE written, counters")
    subscriber.sql(
        "CREATE TABLE written (client int, seq int, counter int, pad text, PRIMARY KEY (client, seq))",
        "CREATE TABLE counters (id int PRIMARY KEY, n bigint, pad text)",
    )
    subscriber.sql(f"CREATE SUBSCRIPTION s CONNECTION '{leader.dsn}' PUBLICATION all_of_it")
    goes_on(load, "with a subscriber")
    until(lambda: subscriber.sql("SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel") == "t", "the subscriber has all tables")
    with leader.connect() as connection:
        sums = connection.execute("SELECT sum(n) FROM counters").fetchone()
    assert sums is not None
    until(lambda: int(subscriber.sql("SELECT sum(n) FROM counters")) >= sums[0], "the subscriber gets further")
    # to and fro between its flash and its small pool
    subscriber.sql("SELECT count(*), sum(length(pad)) FROM counters", "SELECT count(*), sum(length(pad)) FROM written")
    assert subscriber.sql("SELECT state, verify_failures, checksum_failures FROM pg_stat_flashcache") == "active|0|0"
    subscriber.sql("DROP SUBSCRIPTION s")


def test_etcd_is_killed(cluster: Cluster, load: Load) -> None:
    """Without it nobody may lead: the leader steps down, and comes back with it. No cache is the worse for it."""
    cluster.etcd.end(signal.SIGKILL)
    until(lambda: all(node.value("SELECT pg_is_in_recovery()") for node in cluster.nodes), "nobody leads")
    until(lambda: checked(cluster)["write"] == set(), "HAProxy has nobody for writers")
    cluster.start_etcd()
    leader_of(cluster)
    until(cluster.replicas_stream, "all follow")
    goes_on(load, "after etcd came back")


def test_the_leader_is_cut_off_from_etcd(cluster: Cluster, load: Load) -> None:
    """It steps down by itself, another one leads, and it comes back as a replica. Its server has run all the time, and so has its cache."""
    leader = leader_of(cluster)
    until(cluster.sync_standby, "a synchronous standby")
    assert leader.relay
    leader.relay.cut()
    try:
        survivor = until(lambda: (found := cluster.leader()) is not None and found is not leader and found, "another one leads")
        until(lambda: checked(cluster)["write"] == {survivor.name}, "HAProxy sends writers there")
        goes_on(load, "while the old leader is cut off")
    finally:
        leader.relay.mend()
    until(lambda: leader.value("SELECT pg_is_in_recovery()") and leader.receiver(), "the old leader is a replica")
    until(cluster.replicas_stream, "all follow")
    warm(cluster, leader)
    goes_on(load, "with the old leader as a replica")


def test_a_replica_made_anew(cluster: Cluster, load: Load) -> None:
    """From a base backup, beside the flash that it had: nothing of that may be read."""
    node = replicas_of(cluster)[-1]
    node.kill()
    shutil.rmtree(node.data)
    node.start()
    until(lambda: node.up() and node.receiver(), f"{node.name} as a replica")
    assert node.value("SELECT loaded_at IS NULL FROM pg_stat_flashcache_persistence")
    until(cluster.replicas_stream, "all follow")
    warm(cluster, node)
    goes_on(load, "with a new replica")


def test_a_cascading_standby(cluster: Cluster, load: Load) -> None:
    """It follows the cache of the standby that it gets its WAL from."""
    between, last = replicas_of(cluster)
    last.tags = {"replicatefrom": between.name, "nofailover": True, "nosync": True}
    last.reconfigure()
    until(lambda: last.value(f"SELECT sender_port = {between.port} FROM pg_stat_wal_receiver"), f"{last.name} receives from {between.name}")
    rounds = last.value("SELECT rounds FROM pg_flashcache_warmth")
    until(lambda: last.value("SELECT rounds FROM pg_flashcache_warmth") >= rounds + 3, "rounds go on")
    warm(cluster, last)
    goes_on(load, "with a cascading standby")
    last.tags = {}
    last.reconfigure()
    until(lambda: last.value(f"SELECT sender_port <> {between.port} FROM pg_stat_wal_receiver"), f"{last.name} receives from the leader")


def test_a_delayed_standby(cluster: Cluster, load: Load) -> None:
    """What it has not replayed yet it does not have, neither on disk nor on flash."""
    node = next(item for item in replicas_of(cluster) if item is not cluster.sync_standby())
    node.tags, node.delay_s = {"nofailover": True, "nosync": True}, 10
    node.reconfigure()
    until(lambda: node.value("SHOW recovery_min_apply_delay") == "10s", "it is delayed")
    goes_on(load, "with a delayed standby")
    assert node.value("SELECT verify_failures + checksum_failures FROM pg_stat_flashcache") == 0
    node.tags, node.delay_s = {}, 0
    node.reconfigure()
    until(lambda: node.value("SHOW recovery_min_apply_delay") == "0", "it is not delayed any more")
    goes_on(load, "with no delay")


def test_rows_and_pages(cluster: Cluster, load: Load) -> None:
    load.stop()
    leader = leader_of(cluster)
    lsn = leader.value("SELECT pg_current_wal_insert_lsn()")
    for node in cluster.nodes:
        if node is not leader:
            until(lambda node=node: node.value(f"SELECT pg_last_wal_replay_lsn() >= '{lsn}'"), f"{node.name} has replayed all")  # type: ignore[misc]
        with node.connect() as connection:
            assert check(load, connection) == [], node.name
        clean(node)
    assert load.wrong == []
