"""--fix and --undo on a made-up machine."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

import pgflash.doctor.checks  # noqa: F401
from pgflash.doctor import command
from pgflash.doctor.check import REGISTRY, AlterSystem, Write, examine
from pgflash.doctor.facts.server import Setting
from pgflash.doctor.fix import Connection, Fixer, Undo, changes, refusal
from pgflash.errors import BrokeOff, MachineError

from .fakes import Fake

SCHEDULER = "/sys/block/nvme0n1/queue/scheduler"
BYTES, RATIO = "/proc/sys/vm/dirty_background_bytes", "/proc/sys/vm/dirty_background_ratio"


def fixer(fake: Fake) -> Fixer:
    return Fixer(fake.facts().machine, Undo(fake.root / "state/doctor.json"))


def apply(fake: Fake, *names: str) -> Fixer:
    facts = fake.facts()
    made = Fixer(facts.machine, Undo(fake.root / "state/doctor.json"))
    for result, _, change in changes([examine(REGISTRY[name], facts) for name in names]):
        assert refusal(change, facts.machine, None) == ""
        made.make(result, change)
    return made


def test_fixed_and_undone(fake: Fake) -> None:
    fake.put(BYTES, 0)
    fake.put(RATIO, 10)
    fake.queue("nvme0n1", "scheduler", "none mq-deadline [bfq]")
    made = apply(fake, "memory.dirty_background", "devices.scheduler")
    machine = made.machine
    assert (machine.text(BYTES), machine.text(SCHEDULER)) == ("268435456", "none")
    notes = json.loads(made.undo.path.read_text())
    assert [(item["undo_path"], item["was"]) for item in notes] == [(RATIO, "10"), (SCHEDULER, "bfq")]
    assert list(made.put_back()) == [f"{SCHEDULER}: bfq again", f"{RATIO}: 10 again"]
    assert (machine.text(RATIO), machine.text(SCHEDULER)) == ("10", "bfq")
    assert not made.undo.path.exists()


@pytest.mark.parametrize("as_json", [False, True])
def test_what_was_put_back_before_an_error_is_said(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    fake.put(BYTES, 0)
    fake.put(RATIO, 10)
    fake.queue("nvme0n1", "scheduler", "none mq-deadline [bfq]")
    made = apply(fake, "memory.dirty_background", "devices.scheduler")
    write = Undo.write

    def full(undo: Undo, entries: list[dict[str, Any]]) -> None:
        if not entries:
            raise MachineError("the disk is full", "make room")
        write(undo, entries)

    monkeypatch.setattr(Undo, "write", full)
    session = cast(Any, SimpleNamespace(machine=made.machine, connection=None, facts=lambda *_: fake.facts()))
    with pytest.raises(BrokeOff) as raised:
        command.run(session, "", "", [], 0, False, False, True, made.undo, False, as_json)
    assert raised.value.message == f"{RATIO}: 10 again; then: the disk is full"
    assert raised.value.hint == f"make room; before: {SCHEDULER}: bfq again"
    assert capsys.readouterr().out == ("" if as_json else f"{SCHEDULER}: bfq again\n")
    monkeypatch.undo()
    assert list(made.put_back()) == [f"{RATIO}: 10 again"]


def test_changed_since_is_left(fake: Fake) -> None:
    fake.put("/proc/sys/vm/swappiness", 60)
    made = apply(fake, "memory.swappiness")
    fake.put("/proc/sys/vm/swappiness", 30)
    assert list(made.put_back()) == ["/proc/sys/vm/swappiness: is 30, not 10 as the doctor set it: left as it is"]
    assert made.machine.text("/proc/sys/vm/swappiness") == "30"
    assert [item["was"] for item in made.undo.read()] == ["60"]


class Node(Fixer):
    """A server whose postgresql.auto.conf is a dictionary."""

    def __init__(self, fake: Fake, directory: str, port: str = "5432") -> None:
        facts = fake.facts()
        settings = fake.server.settings | {"data_directory": Setting(directory), "port": Setting(port)}
        server = replace(fake.server, settings=settings)
        super().__init__(facts.machine, Undo(fake.root / "state/doctor.json"), cast(Connection, object()), server)
        self.auto: dict[str, str | None] = {}

    def _written(self, name: str) -> str | None:
        return self.auto.get(name)

    def _alter(self, name: str, value: str | None) -> None:
        self.auto[name] = value


def test_a_standby_does_not_take_the_notes_of_its_primary(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    primary = Node(fake, "/data/primary")
    primary.auto["fsync"] = "off"
    primary.make(examine(REGISTRY["memory.swappiness"], fake.facts()), AlterSystem("fsync", "on"))
    notes = primary.undo.read()
    here = socket.gethostname()
    kept = [f"fsync: belongs to another node (host {here}, port 5432, data directory /data/primary): kept for that"]
    assert list(Node(fake, "/data/standby").put_back()) == kept
    assert list(Node(fake, "/data/primary", "5433").put_back()) == kept
    with monkeypatch.context() as patch:
        patch.setattr(socket, "gethostname", lambda: "elsewhere")
        assert list(Node(fake, "/data/primary").put_back()) == kept
    assert primary.undo.read() == notes
    assert list(primary.put_back()) == ["fsync: off again"]
    assert primary.auto == {"fsync": "off"} and not primary.undo.path.exists()


def test_notes_of_another_machine_are_kept(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.put("/proc/sys/vm/swappiness", 60)
    made = apply(fake, "memory.swappiness")
    here = socket.gethostname()
    with monkeypatch.context() as patch:
        patch.setattr(socket, "gethostname", lambda: "elsewhere")
        assert list(made.put_back()) == [f"/proc/sys/vm/swappiness: belongs to another machine ({here}): kept for that"]
    assert made.machine.text("/proc/sys/vm/swappiness") == "10"
    assert list(made.put_back()) == ["/proc/sys/vm/swappiness: 60 again"]


def test_fixed_twice_goes_back_to_the_first(fake: Fake) -> None:
    fake.put("/proc/sys/vm/swappiness", 60)
    apply(fake, "memory.swappiness")
    fake.put("/proc/sys/vm/swappiness", 20)
    made = apply(fake, "memory.swappiness")
    assert list(made.put_back()) == [
        "/proc/sys/vm/swappiness: 20 again",
        "/proc/sys/vm/swappiness: is 20, not 10 as the doctor set it: left as it is",
    ]


def test_what_fails_is_not_noted(fake: Fake) -> None:
    made = fixer(fake)
    with pytest.raises(BrokeOff):
        made.make(examine(REGISTRY["memory.swappiness"], fake.facts()), Write("/proc", "1"))
    assert made.undo.read() == []


class Lost(Node):
    """Its connection fails in the given statement: with an SQLSTATE, it is refused; without one, it is lost."""

    def __init__(self, fake: Fake, at: str, sqlstate: str | None) -> None:
        super().__init__(fake, "/data/primary")
        fixer = self
        self.at = at

        class Failure(psycopg.Error):
            pass

        Failure.sqlstate = sqlstate

        class Broken:
            broken = sqlstate is None

            def execute(self, statement: Any) -> None:
                text = statement if isinstance(statement, str) else statement.as_string(None)
                if fixer.at and fixer.at in text:
                    raise Failure("it is lost")
                if "ALTER SYSTEM" in text:
                    fixer.auto["fsync"] = None if "RESET" in text else text.split("'")[1]

        self.connection = cast(Connection, Broken())

    _alter = Fixer._alter

    def _node(self) -> dict[str, str]:
        return {"host": "h", "port": "1", "data_directory": "/d"}


@pytest.mark.parametrize(
    ("at", "sqlstate", "noted"),
    [("ALTER SYSTEM", "22023", False), ("ALTER SYSTEM", None, True), ("ALTER SYSTEM", "57014", True), ("pg_reload_conf", "42501", True)],
)
def test_what_may_have_been_changed_stays_noted(fake: Fake, at: str, sqlstate: str | None, noted: bool) -> None:
    made = Lost(fake, at, sqlstate)
    with pytest.raises(BrokeOff) as raised:
        made.make(examine(REGISTRY["memory.swappiness"], fake.facts()), AlterSystem("fsync", "on"))
    assert bool(made.undo.read()) == noted and ("--undo" in raised.value.hint) == noted
    if at == "pg_reload_conf":
        assert made.auto == {"fsync": "on"} and "is written to postgresql.auto.conf, but could not be loaded" in raised.value.message
        (words,) = made.put_back()  # neither can that
        assert words.endswith("it is lost: it stays noted") and made.failed == 1 and made.undo.read()
    made.at = ""
    assert list(made.put_back()) == (["fsync: ALTER SYSTEM RESET"] if noted else [])
    assert made.auto.get("fsync") is None and not made.undo.path.exists()


def test_what_is_as_it_was_is_not_kept(fake: Fake) -> None:
    fake.put("/proc/sys/vm/swappiness", 60)
    made = apply(fake, "memory.swappiness")
    fake.put("/proc/sys/vm/swappiness", 60)
    assert list(made.put_back()) == ["/proc/sys/vm/swappiness: is 60, as it was"]
    assert not made.undo.path.exists()


def test_refusals(fake: Fake) -> None:
    machine = fake.facts().machine
    assert refusal(Write("/sys/nothing", "1"), machine, None) == "there is no /sys/nothing"
    fake.server.may_reload = False
    assert refusal(AlterSystem("fsync", "on"), machine, fake.server) == "needs a superuser, or GRANT EXECUTE ON FUNCTION pg_reload_conf()"
    fake.server.changeable = frozenset()
    assert refusal(AlterSystem("fsync", "on"), machine, fake.server) == "needs a superuser, or GRANT ALTER SYSTEM ON PARAMETER fsync"
    fake.server.overruled = frozenset({"fsync"})
    words = "is set on the server's command line, which ALTER SYSTEM does not overrule"
    assert refusal(AlterSystem("fsync", "on"), machine, fake.server) == words


@pytest.mark.parametrize("text", ["{}", "no json", '[{"kind": "write"}]', '[{"kind": "other"}]'])
def test_a_strange_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "doctor.json"
    path.write_text(text)
    with pytest.raises(MachineError):
        Undo(path).read()
