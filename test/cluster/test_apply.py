"""pgflash cluster apply on a real server: the plan, the change, going on, and what stops it. (With replicas: test_real.py.)"""

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
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from pilot.servers import Server, needs_server, reachable

from pgflash.cluster.apply import Rolling
from pgflash.cluster.find import Node
from pgflash.cluster.lock import OneAtATime
from pgflash.cluster.restart import run
from pgflash.cluster.values import same
from pgflash.cluster.wanted import Wanted
from pgflash.cluster.write import said, write
from pgflash.connection import connect, parsed
from pgflash.errors import ArgumentError, BrokeOff, Locked, Refused, ServerError

from .fakes import look, replica, seen, warmth

ROOT = Path(__file__).resolve().parents[2]
folder = pytest.fixture(scope="module")(reachable)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    server = Server(folder)
    with (server.data / "postgresql.conf").open("a") as conf:
        conf.write((ROOT / "test/lib/cache.conf").read_text())
    server.sql("CREATE ROLE monitor LOGIN IN ROLE pg_monitor")
    yield server
    server.stop()


def apply(server: Server, text: str, *arguments: str, user: str = "postgres") -> tuple[int, str, list[dict[str, Any]]]:
    """Exit status, what was said, and that as JSON."""
    file = server.folder / "settings.toml"
    file.write_text(text)
    dsn = server.dsn.replace("user=postgres", f"user={user}")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    command = [sys.executable, "-m", "pgflash", "cluster", "apply", str(file), dsn, "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", env=kept | {"PYTHONPATH": str(ROOT)}, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def name(server: Server) -> str:
    return f"{server.folder}/socket/postgres"


@needs_server
def test_a_change_without_a_restart(server: Server) -> None:
    started = server.sql("SELECT pg_postmaster_start_time()")
    text = '[settings]\npg_flashcache.write_limit = "20MB"\n'
    status, _, plan = apply(server, text)
    assert (status, plan[0]["steps"]) == (0, [
        {"node": name(server), "leader": True, "restart": None, "reload": False, "settings": {"pg_flashcache.write_limit": {"from": None, "to": "20MB"}}}
    ])  # fmt: skip
    assert server.sql("SHOW pg_flashcache.write_limit") == "0"
    status, said, events = apply(server, text, "--yes", "--one-at-a-time")
    assert status == 0, said
    assert [event["event"] for event in events] == ["changing", "done", "end"]
    assert server.sql("SHOW pg_flashcache.write_limit") == "20MB"
    assert server.sql("SELECT pg_postmaster_start_time()") == started
    status, _, events = apply(server, text, "--yes")
    assert (status, [event["event"] for event in events]) == (0, ["as wanted", "end"])
    status, _, _ = apply(server, '[settings]\npg_flashcache.write_limit = "default"\n', "--yes")
    assert (status, server.sql("SHOW pg_flashcache.write_limit")) == (0, "0")


@needs_server
def test_a_change_with_a_restart(server: Server) -> None:
    started = server.sql("SELECT pg_postmaster_start_time()")
    text = '[settings]\npg_flashcache.size = "2MB"\n[rolling]\nwait = "2min"\n'
    status, said, _ = apply(server, text, "--yes")
    assert status == 2 and "it is not known how" in said
    assert server.sql("SELECT setting FROM pg_file_settings WHERE name = 'pg_flashcache.size' ORDER BY seqno DESC LIMIT 1") == "1MB"
    failing = f'[restart]\n"{name(server)}" = "false"\n'
    status, said, _ = apply(server, text + failing, "--yes")
    assert status == 4 and "its restart ended with status 1" in said
    # what was done stays, and the next run goes on from there
    status, _, plan = apply(server, text + failing)
    assert plan[0]["steps"][0]["restart"] == "for settings that wait for it" and plan[0]["steps"][0]["settings"] == {}
    status, said, events = apply(server, text + f'[restart]\n"{name(server)}" = "{server.restart_command}"\n', "--yes")
    assert status == 0, said
    assert [event["event"] for event in events if event["event"] != "waiting"] == ["changing", "restarting", "done", "end"]
    assert server.sql("SELECT slots FROM pg_stat_flashcache") == "256"
    assert server.sql("SELECT pg_postmaster_start_time()") != started


@needs_server
def test_the_same_size_written_otherwise(server: Server) -> None:
    started = server.sql("SELECT pg_postmaster_start_time()")
    text = f'[settings]\npg_flashcache.size = "2048kB"\n[restart]\n"{name(server)}" = "false"\n'
    status, said, events = apply(server, text, "--yes")
    assert status == 0, said
    assert [event["event"] for event in events] == ["changing", "done", "end"]
    assert server.sql("SELECT pg_postmaster_start_time()") == started


@needs_server
def test_a_restart_that_does_not_happen(server: Server) -> None:
    text = f'[rolling]\nwait = "1s"\nrestart_before = 2099-01-01T00:00:00Z\n[restart]\n"{name(server)}" = "true"\n'
    status, said, _ = apply(server, text, "--yes")
    assert status == 4 and "it has not been restarted" in said and f"begun, and perhaps changed: {name(server)}; the same" in said


@needs_server
def test_what_the_server_refuses_changes_nothing(server: Server) -> None:
    status, said, _ = apply(server, '[settings]\npg_flashcache.write_limit = "30MB"\npg_flashcache.keep_limit = 1000\n', "--yes")
    assert status == 3 and "outside the valid range" in said
    assert server.sql("SELECT count(*) FROM pg_file_settings WHERE name = 'pg_flashcache.write_limit'") == "0"
    status, said, _ = apply(server, "[settings]\npg_flashcache.nonsense = 1\n", "--yes")
    assert status == 2 and "there is no setting pg_flashcache.nonsense" in said
    status, said, _ = apply(server, "[settings]\npg_flashcache.keep_limit = 50\n", "--yes", user="monitor")
    assert status in (3, 7) and "permission denied" in said
    status, said, _ = apply(server, "[settings]\npg_flashcache.keep_limit = 50\n[nodes.b]\n", "--yes")
    assert status == 2 and "there is no node 'b'" in said
    status, said, _ = apply(server, "[settings]\nwork_mem = 50\n")
    assert status == 2 and "only settings of pg_flashcache" in said


class Cut:
    """In front of a server: passes everything on, until somebody says the word; then it cuts that connection, and maybe all later ones."""

    def __init__(self, server: Server, word: bytes, for_good: bool) -> None:
        self.word, self.for_good, self.cuts = word, for_good, 0
        self.folder = server.folder / f"cut{int(for_good)}"
        self.folder.mkdir()
        self.target = str(server.folder / "socket/.s.PGSQL.5432")
        self.dsn = server.dsn.replace(f"{server.folder}/socket", str(self.folder))
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.folder / ".s.PGSQL.5432"))
        self.listener.listen()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self.target)
                if self.cuts and self.for_good:
                    client.close()
                    continue
                for one, other, watch in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self._pass, args=(one, other, watch), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket, watch: bool) -> None:
        with contextlib.suppress(OSError):
            while part := one.recv(65536):
                cut = watch and not self.cuts and self.word in part
                self.cuts += cut
                if cut:
                    one.shutdown(socket.SHUT_RDWR)
                other.sendall(part)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def wait_for(server: Server, query: str, value: str) -> None:
    for _ in range(600):
        if server.sql(query) == value:
            return
        time.sleep(0.1)
    raise AssertionError(f"{query}: {server.sql(query)}, not {value}")


@needs_server
@pytest.mark.parametrize("for_good", [False, True])
@pytest.mark.parametrize("word", [b"pg_reload_conf", b"keep_limit"])
def test_the_connection_is_lost_after_a_change(server: Server, monkeypatch: pytest.MonkeyPatch, word: bytes, for_good: bool) -> None:
    monkeypatch.setattr("pgflash.cluster.write.AGAIN_S", 60.0 if not for_good else 0.0)
    cut = Cut(server, word, for_good)
    keep = server.sql("SHOW pg_flashcache.keep_limit")
    settings = {"pg_flashcache.write_limit": "23MB", "pg_flashcache.keep_limit": "44"}
    try:
        with pytest.raises(BrokeOff if for_good else ServerError) as raised:
            write("n2", lambda: connect(parsed(cut.dsn, 1), 60), settings, {})
        assert cut.cuts == 1
        if for_good:
            assert "n2: " in str(raised.value) and "it may have been changed: written and not put back: pg_flashcache.write_limit" in str(
                raised.value
            )
            # what was under way is over before it is put back
            wait_for(server, "SELECT setting FROM pg_file_settings WHERE name = 'pg_flashcache.write_limit'", "23MB")
            wait_for(server, "SELECT setting FROM pg_file_settings WHERE name = 'pg_flashcache.keep_limit'", "44")
        else:
            assert raised.value.hint == "nothing is changed on n2"
            assert (
                server.sql("SELECT count(*) FROM pg_file_settings WHERE sourcefile LIKE '%auto.conf' AND setting IN ('23MB', '44')") == "0"
            )
            assert server.sql("SHOW pg_flashcache.write_limit") == "0" and server.sql("SHOW pg_flashcache.keep_limit") == keep
    finally:
        cut.listener.close()
        shutil.rmtree(cut.folder)
        for setting in settings:
            server.sql(f"ALTER SYSTEM RESET {setting}")
        server.sql("SELECT pg_reload_conf()")
        wait_for(server, "SHOW pg_flashcache.write_limit", "0")
        wait_for(server, "SHOW pg_flashcache.keep_limit", keep)


@needs_server
def test_who_may_not_reload_changes_nothing(server: Server) -> None:
    if int(server.sql("SHOW server_version_num")) < 150000:
        pytest.skip("no GRANT ALTER SYSTEM")
    server.sql("CREATE ROLE writer LOGIN", "GRANT ALTER SYSTEM ON PARAMETER pg_flashcache.keep_limit TO writer")
    parts = {**parsed(server.dsn, 1), "user": "writer"}
    with pytest.raises(Refused, match=r"^n: permission denied for function pg_reload_conf$") as raised:
        write("n", lambda: connect(parts, 60), {"pg_flashcache.keep_limit": "45"}, {})
    assert raised.value.hint.endswith("nothing is changed on n")
    assert server.sql("SELECT count(*) FROM pg_file_settings WHERE name = 'pg_flashcache.keep_limit'") == "0"


@needs_server
def test_a_restart_whose_server_keeps_the_output(server: Server) -> None:
    """Without a log file the postmaster has the command's output for as long as it runs."""
    command = server.restart_command.replace(f"--log={server.data}/log", "").replace("  ", " ")
    text = f'[rolling]\nwait = "2min"\nrestart_before = {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}\n[restart]\n"{name(server)}" = "{command}"\n'
    time.sleep(1)  # the time above is of whole seconds
    status, said, events = apply(server, text, "--yes")
    assert status == 0, said
    assert events[-1] == {"event": "end", "changed": 1}


def test_what_a_restart_says() -> None:
    assert run(["sh", "-c", "echo one; echo two >&2; exit 3"], 60) == (3, "one\ntwo\n")
    status, said = run(["sh", "-c", "yes | head -c 1000000; echo; echo end"], 60)
    assert status == 0 and said.endswith("y\n\nend\n") and len(said) <= 4096
    status, said = run(["sh", "-c", "sleep 100 & echo $!"], 60)
    os.kill(int(said), signal.SIGKILL)
    assert status == 0
    with pytest.raises(subprocess.TimeoutExpired):
        run(["sleep", "100"], 0.2)


@needs_server
def test_passwords_are_not_shown(server: Server) -> None:
    text = '[settings]\n"pg_flashcache.follow_conninfo" = "user=f password=newsecret sslpassword=newsecret"\n'
    server.sql("ALTER SYSTEM SET pg_flashcache.follow_conninfo = 'user=old password=oldsecret'")
    for more in ((), ("--yes",)):
        status, said, _ = apply(server, text, *more)
        assert status == 0 and "secret" not in said and "user=f password=******** sslpassword=********" in said, said
    assert "newsecret" in server.sql("SHOW pg_flashcache.follow_conninfo")
    status, said, _ = apply(server, '[settings]\n"pg_flashcache.follow_conninfo" = "user=f password=new secret2"\n', "--yes")
    assert "secret" not in said
    assert apply(server, '[settings]\n"pg_flashcache.follow_conninfo" = "default"\n', "--yes")[0] == 0


@needs_server
def test_the_extension_is_updated(server: Server) -> None:
    server.sql("CREATE DATABASE older")
    dsn = server.dsn.replace("dbname=postgres", "dbname=older")
    subprocess.run([f"{server.bin}/psql", "-X", "-q", "-d", dsn, "-c", "CREATE EXTENSION pg_flashcache VERSION '1.0'"], check=True)
    text = '[rolling]\nupdate_extension = ["postgres", "older"]\n'
    status, said, events = apply(server, text, "--yes")
    assert status == 0, said
    assert [event for event in events if event["event"] == "extension updated"] == [
        {"event": "extension updated", "node": name(server), "database": "older", "to": "1.1"}
    ]
    status, said, _ = apply(server, '[rolling]\nupdate_extension = ["template1"]\n', "--yes")
    assert status == 3 and "has no extension" in said


@needs_server
def test_a_database_that_is_not_there_is_found_before_anything_is_changed(server: Server) -> None:
    text = '[settings]\npg_flashcache.write_limit = "40MB"\n[rolling]\nupdate_extension = ["nowhere"]\n'
    status, said, events = apply(server, text, "--yes")
    assert status == 7 and "no such role or database" in said and "changing" not in [event.get("event") for event in events]
    assert apply(server, text)[0] == 7
    assert server.sql("SELECT count(*) FROM pg_file_settings WHERE name = 'pg_flashcache.write_limit'") == "0"


@needs_server
def test_what_is_written_and_not_in_effect(server: Server) -> None:
    """Somebody wrote it and did not reload, or was killed in between."""
    text = "[settings]\npg_flashcache.keep_limit = 33\n"
    server.sql("ALTER SYSTEM SET pg_flashcache.keep_limit = 33")
    assert apply(server, text)[2][0]["steps"] == [
        {"node": name(server), "leader": True, "restart": None, "reload": True, "settings": {}}
    ]  # fmt: skip
    status, said, events = apply(server, text, "--yes")
    assert (status, [event["event"] for event in events]) == (0, ["changing", "done", "end"]), said
    assert server.sql("SHOW pg_flashcache.keep_limit") == "33"
    assert [event["event"] for event in apply(server, text, "--yes")[2]] == ["as wanted", "end"]
    text = '[settings]\npg_flashcache.keep_limit = "default"\n'
    server.sql("ALTER SYSTEM RESET pg_flashcache.keep_limit")
    assert [event["event"] for event in apply(server, text, "--yes")[2]] == ["changing", "done", "end"]
    assert server.sql("SHOW pg_flashcache.keep_limit") != "33"
    assert [event["event"] for event in apply(server, text, "--yes")[2]] == ["as wanted", "end"]


@needs_server
def test_a_size_that_is_written_and_was_not_read(server: Server) -> None:
    """With another setting: then it waits for a restart, which is made."""
    server.sql("ALTER SYSTEM SET pg_flashcache.size = '3MB'")
    text = '[settings]\npg_flashcache.size = "3MB"\npg_flashcache.keep_limit = 34\n[rolling]\nwait = "2min"\n'
    status, said, events = apply(server, text + f'[restart]\n"{name(server)}" = "{server.restart_command}"\n', "--yes")
    assert status == 0, said
    assert [event["event"] for event in events if event["event"] != "waiting"] == ["changing", "restarting", "done", "end"]
    assert server.sql("SELECT slots FROM pg_stat_flashcache") == "384"
    assert apply(server, text)[2][0]["steps"][0]["restart"] is None


@needs_server
@pytest.mark.parametrize("database", ["postgres", "template1"])
def test_one_apply_at_a_time(server: Server, database: str) -> None:
    text = "[settings]\npg_flashcache.keep_limit = 35\n"
    other = OneAtATime(60)
    other.hold(Node("x", parsed(f"{server.dsn.replace('dbname=postgres', '')} dbname={database} application_name=somebody", 1), "argument"))
    try:
        other.hold(Node("x", {}, "argument"))  # it still has it
        status, said, _ = apply(server, text, "--yes")
        assert status == 3 and "another pgflash cluster apply is at work: pid " in said and "application_name 'somebody', since 2" in said
        assert server.sql("SHOW pg_flashcache.keep_limit") != "35"
        assert apply(server, text)[0] == 0  # looking is allowed
    finally:
        other.release()
    assert apply(server, text, "--yes")[0] == 0
    server.sql("ALTER SYSTEM RESET pg_flashcache.keep_limit")
    assert apply(server, text.replace("35", '"default"'), "--yes")[0] == 0


@needs_server
def test_it_is_held_while_a_node_is_restarted(server: Server) -> None:
    seen = server.folder / "seen"
    query = "SELECT count(*), min(application_name) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory'"
    script = server.folder / "query"
    script.write_text(f"{server.bin}/psql -XAt -d '{server.dsn}' -c \"{query}\" >{seen}; exit 1\n")
    text = f'[rolling]\nrestart_before = 2099-01-01T00:00:00Z\n[restart]\n"{name(server)}" = "sh {script}"\n'
    assert apply(server, text, "--yes")[0] == 4
    assert seen.read_text() == "1|pgflash cluster apply\n"


def test_values() -> None:
    size: dict[str, Any] = {"setting": "256", "unit": "8kB"}
    assert [value for value in ("256", "2MB", "2048kB", "0.001953125GB", "2097152B", "2mb", "3MB", "2 ", "x", None) if same(size, value)] == [
        "256", "2MB", "2048kB", "0.001953125GB", "2097152B",
    ]  # fmt: skip
    assert same({"setting": "60000", "unit": "ms"}, "1min") and not same({"setting": "60000", "unit": "ms"}, "60001")
    assert same({"setting": "on", "unit": None}, "on") and not same({"setting": "1", "unit": None}, "1s")


# --- with made-up servers ---


@pytest.mark.parametrize(("warm", "share", "words"), [(True, 0.5, "it is not warm: 50.0%"), (True, 0.95, ""), (False, 0.5, "")])
def test_warmth_is_waited_for_where_the_cache_has_been_cold(monkeypatch: pytest.MonkeyPatch, warm: bool, share: float, words: str) -> None:
    rolling = Rolling([], None, Wanted({}), 1, lambda _event: None)
    rows = {
        "pg_flashcache.enabled": {"setting": "on", "pending_restart": False},
        "pg_flashcache.size": {"setting": "128", "pending_restart": False},
    }
    monkeypatch.setattr(rolling, "_rows", lambda _node, _names: rows)
    assert rolling._lacking(look("b", seen(standby=True, warmth=warmth(share))), None, warm) == words
    rows["pg_flashcache.enabled"]["setting"] = "off"
    assert rolling._lacking(look("b", seen(standby=True, warmth=warmth(share))), None, warm) == ""


class Rehearsal(Rolling):
    """Changes nothing, and says in which order it would."""

    def __init__(self, looks: list[Any], wanted: Wanted, restart: str = "for new settings") -> None:
        self.told: list[dict[str, Any]] = []
        super().__init__([item.node for item in looks], None, wanted, 1, self.told.append)
        self._looks, self._restart_why = looks, restart

    def looks(self) -> list[Any]:
        return self._looks

    def _step(self, item: Any, leader: bool) -> Any:
        from pgflash.cluster.apply import Step

        return Step(item.node, leader, {"pg_flashcache.size": "2GB"}, {}, self._restart_why)

    def _write(self, node: Node, step: Any) -> bool:
        return True

    def _restart(self, item: Any) -> None:
        pass

    def _wait(self, node: Node, restarted_after: Any, warm: bool) -> None:
        pass

    def _hold(self, looks: Any) -> None:
        pass


COMMANDS = {"a": "x", "b": "x", "c": "x"}


def three(names: str = "") -> list[Any]:
    replicas = [replica("b", "sync" if names else "async"), replica("c", "potential" if names else "async")]
    return [
        look("a", seen(synchronous_standby_names=names, replicas=replicas)),
        look("b", seen(standby=True)),
        look("c", seen(standby=True)),
    ]


def test_replicas_first_the_synchronous_one_after_others_and_the_leader_last() -> None:
    rehearsal = Rehearsal(three("1 (b, c)"), Wanted({}, commands=COMMANDS))
    assert rehearsal.run() == 3
    assert [event["node"] for event in rehearsal.told if event["event"] == "done"] == ["c", "b", "a"]


def test_the_leader_is_skipped() -> None:
    rehearsal = Rehearsal(three(), Wanted({}, leader="skip", commands=COMMANDS))
    assert rehearsal.run() == 2
    assert "a" not in [event.get("node") for event in rehearsal.told]


def test_nothing_where_quorum_would_be_lost() -> None:
    rehearsal = Rehearsal(three("2 (b, c)"), Wanted({}, commands=COMMANDS))
    with pytest.raises(BrokeOff, match="c is not touched: commits would wait"):
        rehearsal.run()
    assert rehearsal.told == []


def test_nothing_where_a_node_is_down() -> None:
    rehearsal = Rehearsal([*three()[:2], look("c", None, "nothing listens there")], Wanted({}, commands=COMMANDS))
    with pytest.raises(ServerError, match="c is down"):
        rehearsal.run()


def test_it_stops_at_the_first_node_that_does_not_come_back() -> None:
    class Lost(Rehearsal):
        def _wait(self, node: Node, restarted_after: Any, warm: bool) -> None:
            if node.name == "c":
                raise BrokeOff("c is not back")

    rehearsal = Lost(three(), Wanted({}, commands=COMMANDS))
    with pytest.raises(BrokeOff):
        rehearsal.run()
    assert [event["node"] for event in rehearsal.told if event["event"] in ("changing", "done")] == ["b", "b", "c"]


def test_the_cluster_is_looked_at_again_before_the_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one may have gone since the settings were written."""

    class Gone(Rehearsal):
        def _write(self, node: Node, step: Any) -> bool:
            self._looks[2] = look("c", None, "nothing listens there")
            return True

    monkeypatch.setattr("pgflash.cluster.apply.SETTLE_S", 0)
    rehearsal = Gone(three(), Wanted({}, commands=COMMANDS))
    with pytest.raises(BrokeOff, match="b is not restarted: c is down"):
        rehearsal.run()
    assert "restarting" not in [event["event"] for event in rehearsal.told]


def test_the_lock_is_asked_for_before_each_step() -> None:
    class Late(Rehearsal):
        holds = 0

        def _hold(self, looks: Any) -> None:
            self.holds += 1
            if "done" in [event["event"] for event in self.told]:
                raise Locked("another one is at work")

    rehearsal = Late(three(), Wanted({}, commands=COMMANDS))
    with pytest.raises(BrokeOff, match="another one is at work") as raised:
        rehearsal.run()
    assert raised.value.exit_code == 4 and raised.value.hint == "done: b; the same command goes on from there"
    assert [event["node"] for event in rehearsal.told if event["event"] == "done"] == ["b"]
    assert rehearsal.holds == 4  # at first, twice for b, and for c


def test_patroni_goes_away_while_a_node_is_restarted() -> None:
    class Away(Rehearsal):
        def _restart(self, item: Any) -> None:
            raise ServerError("Patroni does not answer")

    with pytest.raises(BrokeOff, match="Patroni does not answer") as raised:
        Away(three(), Wanted({}, commands=COMMANDS)).run()
    assert raised.value.exit_code == 4


def test_which_nodes_were_touched_before(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lost(Rehearsal):
        lost = ""

        def _lacking(self, me: Any, restarted_after: Any, warm: bool) -> str:
            return "it is lost" if me.node.name == self.lost else ""

        _wait = Rolling._wait

    monkeypatch.setattr("pgflash.cluster.apply.POLL_S", 0.001)
    for lost, hint in (("b", "begun, and perhaps changed: b; the"), ("c", "done: b; begun, and perhaps changed: c; the")):
        rehearsal = Lost(three(), Wanted({}, wait_s=0, commands=COMMANDS))
        rehearsal.lost = lost
        with pytest.raises(BrokeOff, match="it is lost") as raised:
            rehearsal.run()
        assert raised.value.hint.startswith(hint)


def test_a_failover_meanwhile() -> None:
    """What was a replica in the plan leads now: it is not restarted as one."""

    class Failover(Rehearsal):
        def _wait(self, node: Node, restarted_after: Any, warm: bool) -> None:
            replicas = [replica("a"), replica("c")]
            self._looks = [look("a", seen(standby=True)), look("b", seen(standby=True)), look("c", seen(replicas=replicas))]

    rehearsal = Failover(three(), Wanted({}, commands=COMMANDS))
    with pytest.raises(BrokeOff, match="c is not touched: it has become the primary meanwhile"):
        rehearsal.run()
    assert [event["node"] for event in rehearsal.told if event["event"] == "done"] == ["b"]


def test_a_switch_over_takes_patroni() -> None:
    rehearsal = Rehearsal(three(), Wanted({}, leader="switchover", commands=COMMANDS))
    with pytest.raises(ArgumentError, match="a switch-over needs Patroni"):
        rehearsal.run()


class Quotes(psycopg.errors.InvalidParameterValue):
    """The server quotes what it refuses."""

    diag = SimpleNamespace(  # type: ignore[assignment]
        message_primary='invalid value for "pg_flashcache.follow_conninfo": "host=a password=hunter2 bad"',
        message_detail='"hunter2 bad" is no number.', message_hint='Not "hunter2".',
    )  # fmt: skip


class Lost:
    """Refuses the second value, and is gone then."""

    broken = False

    def __init__(self) -> None:
        self.executed = 0

    def execute(self, *_: Any) -> None:
        self.executed += 1
        if self.executed == 2:
            self.broken = True
            raise Quotes
        if self.broken:
            raise psycopg.OperationalError

    def close(self) -> None:
        pass


def test_a_password_is_not_shown_where_it_cannot_be_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgflash.cluster.write.AGAIN_S", 0.0)
    connections = iter([Lost()])

    def connect() -> Any:
        for connection in connections:
            return connection
        raise psycopg.OperationalError

    settings = {"pg_flashcache.write_limit": "23MB", "pg_flashcache.follow_conninfo": "host=a password=hunter2 bad"}
    with pytest.raises(BrokeOff) as raised:
        write("n2", connect, settings, {})
    assert "hunter2" not in str(raised.value) and "written and not put back: pg_flashcache.write_limit" in str(raised.value)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("50XB", 'invalid value: "50XB"; DETAIL: 50XB has a\\x1bunit that is none; HINT: Valid units are "MB" and "GB".'),
        ("host=a password=hunter2", 'invalid value: "..."; DETAIL: ... has a\\x1bunit that is none; HINT: Valid units are "MB" and "GB".'),
        ("host=a password=hunter2 bad", 'invalid value: "..."'),
    ],
)
def test_all_that_a_server_says_of_a_value_it_refuses(value: str, shown: str) -> None:
    """But for what may be a password."""
    quoted = "hunter2" if "hunter2" in value else value

    class Refuses(psycopg.errors.InvalidParameterValue):
        diag = SimpleNamespace(  # type: ignore[assignment]
            message_primary=f'invalid value: "{value}"', message_detail=f"{quoted} has a\x1bunit that is none",
            message_hint='Valid units are "MB" and "GB".',
        )  # fmt: skip

    name = "pg_flashcache.follow_conninfo" if "host" in value else "pg_flashcache.write_limit"
    assert said(Refuses(), {name: value}) == shown
