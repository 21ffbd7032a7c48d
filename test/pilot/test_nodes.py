"""Studies of a cluster: what a scenario may say, the proxy, sums over nodes, the report, and a tiny study with a failover."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgflash.errors import BrokeOff, MachineError
from pgflash.lab import extension, proxy
from pgflash.lab.proxy import Proxy, socket_name
from pgflash.lab.work import Work
from pgflash.pilot import db, preflight
from pgflash.pilot.loads import driver_for
from pgflash.pilot.report.advice import advise
from pgflash.pilot.report.figures import cluster, failover
from pgflash.pilot.report.write import make
from pgflash.pilot.sampler import added, together
from pgflash.pilot.scenario import Scenario, figures_of, parse_scenario
from pgflash.pilot.store import Study, open_study
from pgflash.system import DeviceCounters, find_program

from .conftest import MINIMAL
from .servers import Server, is_root, needs_server, reachable
from .test_report import made_up, measured, warmed
from .test_scenario import faults
from .test_study import left_behind, run, scenario

place = pytest.fixture(reachable)
needs_haproxy = pytest.mark.skipif(not find_program("haproxy"), reason="there is no haproxy")

FOLLOW = '[[arm]]\nname = "follow"\ncache = ["50%"]\nfollow = true\n'
CLUSTER = "[cluster]\nnodes = 3\nfailover = true\n"
TEXT = MINIMAL.replace("clients = [2, 4]", "clients = [6]") + FOLLOW + CLUSTER

# --- scenarios ---


def test_a_cluster() -> None:
    good = parse_scenario(TEXT, "test", Path())
    assert (good.cluster.nodes, good.cluster.failover) == (3, True)
    assert [arm.follow for arm in good.arms] == [False, False, True]
    assert {"cluster", "failover"} <= set(figures_of(good))
    alone = parse_scenario(MINIMAL, "test", Path())
    assert (alone.cluster.nodes, alone.cluster.failover) == (1, False)
    assert not {"cluster", "failover"} & set(figures_of(alone))
    plain = parse_scenario(MINIMAL + "[cluster]\n", "test", Path())
    assert (plain.cluster.nodes, plain.cluster.failover) == (2, False)
    assert "failover" not in figures_of(plain)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("nodes = 3", "nodes = 1"), "cluster.nodes: 1 will not do; allowed: a whole number from 2 to 4"),
        (("nodes = 3", "nodes = 5"), "cluster.nodes: 5 will not do; allowed: a whole number from 2 to 4"),
        (("failover = true", 'failover = "yes"'), "cluster.failover: 'yes' will not do; allowed: true, false"),
        (("nodes = 3", "node = 3"), "cluster.node: is not known (did you mean nodes?); allowed: failover, nodes"),
        (("clients = [6]", "clients = [6, 7]"), "load.clients: 7 cannot be spread evenly over 3 nodes; allowed with [cluster]: multiples of 3"),
        (("clients = [6]", "clients = [6, 9]"),
         "load.clients: [6, 9] will not do; allowed with cluster.failover = true: one number, since the primary is gone then"),
        (('"pgbench-select"', '"pgbench-tpcb"'),
         "load.kind: pgbench-tpcb does not run on standbys; allowed with [cluster]: pgbench-select, or script with writes = false"),
        (('kind = "pgbench-select"\nscale = 1', 'kind = "sysbench-read-only"'),
         "load.kind: sysbench-read-only does not run on standbys; allowed with [cluster]: pgbench-select, or script with writes = false"),
        (("failover = true", "failover = false"),
         "arm follow: follow is for the cache of a standby that takes over; it needs cluster.failover = true, and cache"),
        (('name = "disk"', 'name = "disk"\nfollow = true'),
         "arm disk: follow is for the cache of a standby that takes over; it needs cluster.failover = true, and cache"),
        (('name = "disk"', 'name = "disk"\ndata = "flash"'), 'arm disk: data = "flash", moved and tuning are for one server; they exclude [cluster]'),
        (('name = "disk"', 'name = "disk"\nmoved = "indexes"'), 'arm disk: data = "flash", moved and tuning are for one server; they exclude [cluster]'),
        (('name = "disk"', 'name = "disk"\ntuning = "after"'), 'arm disk: data = "flash", moved and tuning are for one server; they exclude [cluster]'),
        (("[[arm]]", '[server]\ndsn = "host=db"\n[[arm]]'), "cluster: is for servers that the study makes; it excludes server.dsn"),
        (('title = "minimal"', 'figures = ["failover"]'), None),
    ],
)  # fmt: skip
def test_what_a_cluster_excludes(change: tuple[str, str], expected: str | None) -> None:
    assert change[0] in TEXT
    text = TEXT.replace(*change, 1)
    if expected is None:
        assert parse_scenario(text, "test", Path()).figures == ("failover",)
    else:
        assert expected in faults(text)


def test_what_is_only_for_a_cluster(tmp_path: Path) -> None:
    assert faults(MINIMAL.replace('title = "minimal"', "cluster = 3")) == ["cluster: 3 will not do; allowed: a table, [cluster]"]
    text = MINIMAL.replace('name = "cache"', 'name = "cache"\nfollow = true')
    assert faults(text) == ["arm cache: follow is for the cache of a standby that takes over; it needs cluster.failover = true, and cache"]
    assert faults(MINIMAL.replace('title = "minimal"', 'figures = ["cluster", "failover"]')) == [
        "figures: cluster needs [cluster], an arm on disk, and one with a cache",
        "figures: failover needs cluster.failover = true, and an arm with a cache",
    ]
    uncached = '[load]\nkind = "pgbench-select"\nscale = 1\nclients = [2]\n[cluster]\nfailover = true\n[[arm]]\nname = "disk"\n'
    assert faults(uncached) == ["cluster.failover: needs an arm with a cache: that of the standby is what it measures"]
    (tmp_path / "mine.sql").write_text("SELECT 1 FROM pgbench_accounts LIMIT 1;")
    script = uncached.replace('kind = "pgbench-select"', f'kind = "script"\nscript = "{tmp_path}/mine.sql"').replace(
        "failover = true\n", ""
    )
    assert faults(script) == [
        "load.kind: a script that writes does not run on standbys; allowed with [cluster]: pgbench-select, or script with writes = false"
    ]
    assert parse_scenario(script.replace("clients", "writes = false\nclients"), "test", Path()).cluster.nodes == 2


# --- the proxy ---


class Greeter:
    """A server that says its name to each connection, and ends it."""

    def __init__(self, folder: Path, name: str, port: int) -> None:
        self.name = name
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(folder / socket_name(port)))
        (folder / socket_name(port)).chmod(0o777)
        self.listener.listen(20)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(self.name.encode())


@pytest.fixture
def front(place: Path) -> Iterator[Proxy]:
    work = Work(place, "p.")
    servers = {"a": 5432, "b": 5433, "c": 5434}
    greeters = [Greeter(work.socket, name, port) for name, port in servers.items()]
    found = Proxy(work, servers, 20)
    found.start()
    yield found
    found.stop()
    for each in greeters:
        each.listener.close()


def reached(front: Proxy) -> str:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(front.host / socket_name(front.port)))
        connection.settimeout(60)
        return connection.recv(10).decode()


@needs_haproxy
def test_connections_go_to_one_node_after_the_other(front: Proxy) -> None:
    assert sorted(reached(front) for _ in range(9)) == [*"aaabbbccc"]
    assert front.connections() == {"a": 3, "b": 3, "c": 3}
    front.let_in(["b"])
    assert [reached(front) for _ in range(3)] == [*"bbb"]
    front.let_in(["a", "c"])
    assert sorted(reached(front) for _ in range(4)) == [*"aacc"]
    assert front.connections() == {"a": 5, "b": 6, "c": 5}
    front.stop()
    with pytest.raises(BrokeOff, match="the proxy does not answer: Connection refused"):
        front.let_in(["a"])


def test_without_haproxy_nothing_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, minimal: Scenario) -> None:
    monkeypatch.setattr(proxy, "find_program", lambda _: "")
    for name in ("_check_server", "_check_lab", "check_base"):
        monkeypatch.setattr(preflight, name, lambda *_: None)
    several = parse_scenario(TEXT, "test", Path())
    preflight.check(minimal, driver_for(minimal.load), tmp_path)
    with pytest.raises(MachineError) as caught:
        preflight.check(several, driver_for(several.load), tmp_path)
    assert caught.value.message == "there is no haproxy, which spreads the load over the nodes"
    assert caught.value.hint == "install haproxy (Debian: apt-get install haproxy)"
    monkeypatch.setattr(proxy, "find_program", lambda _: "/usr/sbin/haproxy")
    proxy.check(Path("/" + "x" * 81))
    with pytest.raises(MachineError, match="would have a name of 97 bytes, and there is room for 96"):
        proxy.check(Path("/" + "x" * 82))


# --- sums ---


def test_counters_and_devices_of_all_nodes() -> None:
    assert added([{"a": 1, "b": 2}, {"a": 10, "b": 20, "c": 5}]) == {"a": 11, "b": 22, "c": 5}
    assert together([DeviceCounters(1, 2, 3, 4, 100), DeviceCounters(10, 20, 30, 40, 300)]) == DeviceCounters(11, 22, 33, 44, 200)


@needs_server
def test_what_a_study_stages_is_found_as_an_extension(place: Path) -> None:
    """By its members; otherwise there would be no counters of the cache."""
    server = Server(place)
    try:
        libraries = Path(server.sql("SELECT setting FROM pg_config WHERE name = 'PKGLIBDIR'"))
        share = Path(server.sql("SELECT setting FROM pg_config WHERE name = 'SHAREDIR'"))
        script = place / "staged.sql"
        script.write_text(extension.staged_script(share / "extension", libraries), "utf-8")
        server.sql("CREATE DATABASE staged")
        dsn = server.dsn.replace("dbname=postgres", "dbname=staged")
        subprocess.run([f"{server.bin}/psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(script), "-d", dsn], check=True)
        with db.connect(dsn) as connection:
            assert "cache.hits" in db.counters(connection)
            assert db.cache_view(connection, "pg_flashcache_warmth") == "public.pg_flashcache_warmth"
            installed = server.sql("SELECT extversion FROM pg_extension WHERE extname = 'pg_flashcache'")
            assert db.value(connection, "SELECT extversion FROM pg_extension WHERE extname = 'pg_flashcache'") == installed
    finally:
        server.stop()


# --- the report ---


def of_cluster(variant: str, average_ms: float, kept: float | None = None, **more: Any) -> list[dict[str, Any]]:
    runs = made_up(variant, average_ms, **more)
    for line in runs:
        line["conditions"] |= {"nodes": 2, "proxy": "HAProxy"}
        line["nodes"] = [{"name": f"n{i}", "counters": {"database.xact_commit": count}} for i, count in ((1, 510), (2, 490))]
        if kept is not None:
            line["failover"] = {
                "seconds": 10, "before": {"tps": 1000.0}, "after": {"tps": 1000.0 * kept}, "kept": kept, "promote_s": 0.2, "warm_share": 0.97,
            }  # fmt: skip
    return runs


RUNS = [
    of_cluster("disk", 40.0),
    of_cluster("cache@47%", 2.0, 0.25, share=0.47),
    of_cluster("follow@47%", 2.1, 0.96, share=0.47, follow=True),
]


@pytest.fixture
def asked() -> Scenario:
    text = (
        MINIMAL.replace("clients = [2, 4]", "clients = [16]") + FOLLOW + "[cluster]\nfailover = true\n[disk]\nkind = 'path'\npath = '/'\n"
    )
    return parse_scenario(text, "made-up", Path())


def test_figures_of_a_cluster(asked: Scenario) -> None:
    reads = cluster.draw(asked, measured(*RUNS))
    assert reads is not None and reads.grid is not None
    assert [row[0] for row in reads.grid.rows] == ["no cache", "cache of 47% on each node"], "one that follows is not held against them"
    assert [row[-1] for row in reads.grid.rows] == ["n1 51%, n2 49%"] * 2
    assert reads.findings == ["2 nodes, each with a cache of 47% of the database: 20 times faster."]
    after = failover.draw(asked, measured(*RUNS))
    assert after is not None and after.grid is not None
    assert after.grid.rows == [
        ["follows, cache of 47%", "1,000", "960", "96.0%", "97.0%"], ["does not follow, cache of 47%", "1,000", "250", "25.0%", "97.0%"]
    ]  # fmt: skip
    assert after.findings[0] == "In its first 10 s a standby that follows, cache of 47%, had 96.0% of the primary's transactions a second."
    assert "2 nodes behind a proxy (HAProxy)" in after.conditions
    assert failover.draw(asked, measured(RUNS[0])) is None
    assert cluster.draw(asked, measured(made_up("disk", 40.0), made_up("cache@47%", 2.0, share=0.47))) is None, "of one server"


@pytest.mark.parametrize(("kept", "word"), [(0.96, "reached"), (0.9, "reached"), (0.89, "not reached")])
def test_the_verdict_on_a_cluster(asked: Scenario, kept: float, word: str) -> None:
    follow = of_cluster("follow@47%", 2.1, kept, share=0.47, follow=True)
    advice = advise(asked, measured(*RUNS[:2], follow), "study")
    assert advice.headline == "Buy flash as a cache, 47 GB (47% of the database) on each of 2 nodes: 20 times faster, 40 ms to 2 ms."
    assert [reason for reason in advice.reasons if "standby" in reason] == failover.sentences(
        [point for point in measured(follow, RUNS[1]) if point.kept]
    )
    lines = [line | {"at": "now"} for some in (*RUNS[:2], follow) for line in some]
    goals = make([Study(Path("made-up"), {"made-up": asked}, lines + warmed(lines))]).goals
    assert goals is not None
    assert goals.rows[-1] == ["made-up", "at least 90% of the transactions a second after a failover", f"{100 * kept:.1f}%", word]


# --- a study ---


def processes_of(folder: Path) -> list[str]:
    return [
        line
        for line in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()
        if str(folder) in line
    ]


@needs_server
@needs_haproxy
def test_a_cluster_and_its_failover(place: Path) -> None:
    load = 'kind = "pgbench-select"\nkeys = "hot-spot"\nscale = 1\nclients = [2]\nsample = 1.0\n[cluster]\nnodes = 2\nfailover = true'
    arms = '[[arm]]\nname = "cold"\ncache = true\n' + FOLLOW
    status, events = run(scenario(place, load, arms), place / "study")
    assert status == 0, events
    assert left_behind(place) == []
    assert processes_of(place) == []
    cold, follow = open_study(place / "study").runs
    assert [line["arm"]["follow"] for line in (cold, follow)] == [False, True]
    for line in (cold, follow):
        assert line["conditions"]["nodes"] == 2
        assert [node["name"] for node in line["nodes"]] == ["n1", "n2"]
        counters = [node["counters"] for node in line["nodes"]]
        for name, total in line["counters"].items():
            assert total == sum(each[name] for each in counters), name
        for each in counters:  # what the sampler asks for is a handful of transactions
            assert each["database.xact_commit"] > 0.05 * line["transactions"], "the proxy spreads the load over both"
            assert each["cache.hits"] + each["cache.misses"] + each["cache.os_cache_hits"] > 0
        assert line["slots"] == 2 * 128 * line["conditions"]["flash_mb"], "a cache on each node"
        over = line["failover"]
        assert over["seconds"] == 2
        assert over["before"]["tps"] > 0 and over["after"]["tps"] > 0
        assert over["kept"] == pytest.approx(over["after"]["tps"] / over["before"]["tps"], abs=1e-3)
        assert over["connections_after"]["n1"] == 0 and over["connections_after"]["n2"] >= 2, "all go to the new primary"
        if is_root():
            assert set(line["devices"]) == {"disk"}
    assert cold["failover"]["warm_share"] == 0
    assert follow["failover"]["warm_share"] >= 0.95, "the gate was waited for"
    titles = [line for line in Path(events[-1]["md"]).read_text().splitlines() if line.startswith("### ")]
    assert "### After a failover" in titles
