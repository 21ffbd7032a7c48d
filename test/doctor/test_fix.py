"""--fix and --undo on a made-up machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pgflash.doctor.checks  # noqa: F401
from pgflash.doctor.check import REGISTRY, AlterSystem, Write, examine
from pgflash.doctor.fix import Fixer, Undo, changes, refusal
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


def test_changed_since_is_left(fake: Fake) -> None:
    fake.put("/proc/sys/vm/swappiness", 60)
    made = apply(fake, "memory.swappiness")
    fake.put("/proc/sys/vm/swappiness", 30)
    assert list(made.put_back()) == ["/proc/sys/vm/swappiness: is 30, not 10 as the doctor set it: left as it is"]
    assert made.machine.text("/proc/sys/vm/swappiness") == "30"


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


def test_refusals(fake: Fake) -> None:
    machine = fake.facts().machine
    assert refusal(Write("/sys/nothing", "1"), machine, None) == "there is no /sys/nothing"
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
