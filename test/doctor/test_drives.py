"""pgflash drives: what smartctl says of the drives below the cache, and that the server shows it."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import pgflash.doctor.checks  # noqa: F401
from pgflash import cli
from pgflash.doctor import drive, drives
from pgflash.doctor.check import REGISTRY, examine
from pgflash.doctor.command import Session
from pgflash.doctor.facts import Facts
from pgflash.doctor.facts.server import CONTAINED, ELSEWHERE
from pgflash.doctor.facts.smart import health_of
from pgflash.errors import EXIT_ADVICE, EXIT_PROBLEM, EXIT_SERVER, MachineError, PgflashError

from .fakes import CACHE, GB, HEALTHY, PID, Fake
from .test_real import Server, bin_folder

needs_extension = pytest.mark.skipif(
    not bin_folder() or not list(Path(bin_folder()).parent.glob("lib/pg_flashcache.so")), reason="no server with the extension"
)


def asked(fake: Fake, path: str = CACHE, writes: float | None = None) -> drives.Report:
    machine = fake.facts().machine
    return drives.ask(machine, path, machine.mounts(PID), writes)


def test_a_good_drive(fake: Fake) -> None:
    report = asked(fake, writes=1.5)
    assert report.health is not None
    assert (report.drive, report.problem, report.rated_bytes_a_day) == ("nvme0n1", "", 600 * GB)
    assert drives.values(report) == [CACHE, "nvme0n1", "A Good Drive", True, 10, 100, 10, 0, 40, 512_000_000_000, 600 * GB]


def test_it_says_little(fake: Fake) -> None:
    fake.smart["nvme0n1"] = {"model_name": "", "smart_status": {"passed": True}}
    assert drives.values(asked(fake)) == [CACHE, "nvme0n1", None, True, None, None, None, None, None, None, None]


def test_it_says_what_cannot_be(fake: Fake) -> None:
    log = fake.smart["nvme0n1"]["nvme_smart_health_information_log"]
    log.update({"percentage_used": 999, "available_spare": -1, "data_units_written": 10**30})
    fake.smart["nvme0n1"]["temperature"]["current"] = 10**6
    assert drives.values(asked(fake)) == [CACHE, "nvme0n1", "A Good Drive", True, None, None, 10, 0, None, None, None]


@pytest.mark.parametrize(
    ("changed", "left"),
    [
        ({}, 90), ({"percentage_used": 120}, 0), ({"available_spare": 55, "available_spare_threshold": 10}, 50),
        ({"available_spare": 10}, 0), ({"critical_warning": 1}, 0), ({"percentage_used": None, "available_spare": None}, 101),
        ({"percentage_used": 0, "available_spare": 95, "available_spare_threshold": 100}, 0),
        ({"percentage_used": 0, "available_spare": 100, "available_spare_threshold": 100}, 100),
        ({"percentage_used": 0, "available_spare": 99, "available_spare_threshold": 99}, 0),
        ({"percentage_used": 0, "available_spare": 40, "available_spare_threshold": 255}, 40),
    ],
)  # fmt: skip
def test_what_is_left(fake: Fake, changed: dict[str, Any], left: int) -> None:
    fake.smart["nvme0n1"]["nvme_smart_health_information_log"].update(changed)
    found = health_of(fake.facts().machine, "nvme0n1")
    assert not isinstance(found, str)
    assert drive.left(found) == left


DYING = {
    "problem": [
        ({"critical_warning": 4}, "does not pass its own assessment (critical warning 0x04)"),
        ({"available_spare": 10}, "10% of its spare blocks are left, the threshold is 10%"),
        ({"media_errors": 1}, "has counted 1 error of its medium"),
        ({"percentage_used": 100}, "100% of its rated life is used"),
    ],
    "advice": [({"percentage_used": 99}, "99% of its rated life is used")],
}


@pytest.mark.parametrize(("severity", "changed", "what"), [(name, *one) for name, some in DYING.items() for one in some])
def test_a_drive_is_dying(fake: Fake, severity: str, changed: dict[str, Any], what: str) -> None:
    """The doctor says the same of it."""
    fake.smart["nvme0n1"]["nvme_smart_health_information_log"].update(changed)
    report = asked(fake)
    assert report.findings == (drives.Found("nvme0n1", severity, what),)
    assert drives.exit_status([report]) == {"problem": EXIT_PROBLEM, "advice": EXIT_ADVICE}[severity]
    facts = fake.facts()
    found = [(one.subject, one.what) for item in REGISTRY.values() if item.area == "health" for one in examine(item, facts).findings]
    assert ("nvme0n1", what) in found


def test_each_drive_of_an_array_is_judged(fake: Fake) -> None:
    """Also one that is not the worst, by the number that is reported."""
    mirror(fake)
    fake.smart["nvme0n1"]["nvme_smart_health_information_log"]["percentage_used"] = 50
    fake.smart["sdb"]["nvme_smart_health_information_log"]["media_errors"] = 2
    report = asked(fake)
    assert (report.drive, report.findings) == ("nvme0n1", (drives.Found("sdb", "problem", "has counted 2 errors of its medium"),))
    assert drives.exit_status([report]) == EXIT_PROBLEM
    del fake.smart["nvme0n1"]
    report = asked(fake)
    assert drives.words_of(report)[0] == "problem: sdb has counted 2 errors of its medium" and len(drives.words_of(report)) == 2
    assert drives.exit_status([report]) == EXIT_PROBLEM


def test_none_is_there(fake: Fake) -> None:
    del fake.smart["nvme0n1"]
    assert asked(fake).problem == "smartctl is not installed, or did not answer: apt-get install smartmontools"
    fake.mount("/mnt/nvme", "0:50 / /mnt/nvme rw - tmpfs tmpfs rw")
    assert asked(fake).problem == f"{CACHE} is on tmpfs, which has no drive"


def mirror(fake: Fake) -> None:
    at = fake.disk("md0", "9:0", "virtual", size_gb=100, rotational=0)
    for name in ("sdb", "nvme0n1"):
        fake.link(f"{at}/slaves/{name}", fake.at(name))
    fake.mount("/mnt/nvme", "9:0 / /mnt/nvme rw,noatime - ext4 /dev/md0 rw")


def test_one_of_two_does_not_answer(fake: Fake) -> None:
    mirror(fake)
    assert asked(fake).problem == ""
    del fake.smart["sdb"]
    report = asked(fake)
    assert report.drive == "nvme0n1" and report.health is not None
    assert report.problem == "sdb: smartctl is not installed, or did not answer: apt-get install smartmontools"


class FakeSession(Session):
    """A real server, on a machine of files."""

    def __init__(self, dsn: str, fake: Fake) -> None:
        self.fake = fake
        super().__init__(dsn, fake.facts(False).machine)

    def facts(self, flash: str, data: str, seconds: float, quiet: bool) -> Facts:
        return self.fake.facts(False)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="d."))
    folder.chmod(0o755)
    made = Server(
        folder, shared_preload_libraries="pg_flashcache", pg_flashcache__file=f"{folder}/flash", pg_flashcache__size="1MB",
        pg_flashcache__io_timeout="60s",
    )  # fmt: skip
    made.sql("CREATE EXTENSION pg_flashcache")
    yield made
    made.run("pg_ctl", "--silent", "--mode=immediate", "stop")
    shutil.rmtree(folder, ignore_errors=True)


def told(server: Server, fake: Fake, capsys: pytest.CaptureFixture[str], writes: float | None = None) -> tuple[int, dict[str, Any]]:
    fake.mount(str(server.folder), f"259:1 / {server.folder} rw,noatime - ext4 /dev/nvme0n1p1 rw")
    session = FakeSession(server.dsn, fake)
    try:
        status = drives.run(session, writes, True)
    finally:
        session.close()
    return status, json.loads(capsys.readouterr().out)


@needs_extension
def test_the_server_shows_it(server: Server, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = told(server, fake, capsys, 1.0)
    assert (status, found["problems"]) == (0, {})
    row = found["devices"][0]
    assert {key: row[key] for key in ("device", "drive", "model", "health", "passed", "used_percent", "spare_percent", "temperature")} == {
        "device": 1, "drive": "nvme0n1", "model": "A Good Drive", "health": 90, "passed": True, "used_percent": 10, "spare_percent": 100,
        "temperature": 40,
    }  # fmt: skip
    assert (row["written"], row["written_today"], row["rated_bytes_a_day"]) == (512_000_000_000, 0, 400 * GB)
    fake.smart["nvme0n1"]["nvme_smart_health_information_log"]["data_units_written"] += 2
    _, found = told(server, fake, capsys)
    # it begins anew when a day has begun meanwhile
    assert found["devices"][0]["written_today"] in (1_024_000, 0)
    assert found["devices"][0]["rated_bytes_a_day"] == 400 * GB, "as before, if nobody says"


@needs_extension
def test_a_dying_drive(server: Server, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    """In JSON, and for people: whole, although it goes to no terminal."""
    fake.smart["nvme0n1"]["nvme_smart_health_information_log"].update({"available_spare": 3, "media_errors": 7})
    status, found = told(server, fake, capsys)
    path = f"{server.folder}/flash"
    assert (status, found["exit"], found["devices"][0]["health"], found["devices"][0]["spare_threshold"]) == (
        EXIT_PROBLEM,
        EXIT_PROBLEM,
        0,
        10,
    )
    wrong = ["nvme0n1 3% of its spare blocks are left, the threshold is 10%", "nvme0n1 has counted 7 errors of its medium"]
    assert found["problems"] == {path: "; ".join(f"problem: {words}" for words in wrong)}
    with contextlib.closing(FakeSession(server.dsn, fake)) as session:
        assert drives.run(session, None, False) == EXIT_PROBLEM
    text = capsys.readouterr().out
    assert path in text and "…" not in text and all(f"{path}: problem: {words}\n" in text for words in wrong)


@needs_extension
def test_the_doctor_knows_what_was_reported(server: Server, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    """Where it cannot ask the drives itself."""
    fake.smart["nvme0n1"]["nvme_smart_health_information_log"].update({"available_spare": 3, "percentage_used": 85})
    told(server, fake, capsys)
    with contextlib.closing(Session(server.dsn)) as session:
        real = session.facts("", "", 0, True).server
    assert real and [row["drive"] for row in real.drives] == ["nvme0n1"]
    fake.server.drives = real.drives
    health = {name: item for name, item in REGISTRY.items() if item.area == "health"}

    def found(facts: Facts) -> dict[str, list[str]]:
        return {name: [f"{one.subject}: {one.what}" for one in examine(item, facts).findings] for name, item in health.items()}

    fake.smart["nvme0n1"] = json.loads(json.dumps(HEALTHY))
    assert found(fake.facts())["health.spare"] == [], "it was asked now, and is well"
    fake.smart.clear()
    for row in fake.server.drives:
        row["age_s"] = 754.0
    ago = " (as pgflash drives reported 12 min 34 s ago)"
    for local in (True, False):
        fake.server.local, fake.server.not_local = local, "elsewhere"
        now = found(fake.facts())
        assert now["health.spare"] == [f"nvme0n1: 3% of its spare blocks are left, the threshold is 10%{ago}"]
        assert now["health.wear"] == [f"nvme0n1: 85% of its rated life is used{ago}"]
        assert now["health.media_errors"] == now["health.status"] == []
        assert "pgflash drives" in examine(health["health.known_firmware"], fake.facts()).reason
    fake.server.drives[0]["days_left"] = 20
    words = f"as it was written since the first report of the last days, its rated life is used in 20 days{ago}"
    assert found(fake.facts())["health.days_left"] == [f"nvme0n1: {words}"]


@needs_extension
def test_the_server_shows_the_one_that_answers(server: Server, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    mirror(fake)
    fake.mount(str(server.folder), f"9:0 / {server.folder} rw,noatime - ext4 /dev/md0 rw")
    del fake.smart["sdb"]
    session = FakeSession(server.dsn, fake)
    try:
        status = drives.run(session, None, True)
    finally:
        session.close()
    found = json.loads(capsys.readouterr().out)
    assert (status, found["devices"][0]["drive"], len(found["problems"])) == (EXIT_ADVICE, "nvme0n1", 1)


@needs_extension
def test_who_may_not(server: Server, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    server.sql("CREATE ROLE watcher LOGIN; GRANT pg_monitor TO watcher")
    dsn = server.dsn
    server.dsn = dsn.replace("user=postgres", "user=watcher")
    try:
        with pytest.raises(MachineError, match="permission denied for function pg_flashcache_report_drive") as raised:
            told(server, fake, capsys)
        assert "GRANT EXECUTE ON FUNCTION pg_flashcache_report_drive(text, " in str(raised.value.hint)
    finally:
        server.dsn = dsn
    server.sql(f"GRANT EXECUTE ON FUNCTION pg_flashcache_report_drive({drives.ARGUMENTS}) TO watcher")
    server.dsn = dsn.replace("user=postgres", "user=watcher")
    try:
        assert told(server, fake, capsys)[0] == 0
    finally:
        server.dsn = dsn


@needs_extension
def test_nothing_to_tell(server: Server, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.smart.clear()
    with pytest.raises(MachineError, match="no drive could be asked: smartctl is not installed"):
        told(server, fake, capsys)
    assert (EXIT_ADVICE, EXIT_PROBLEM) == (10, 11)
    server.sql(f"SELECT pg_flashcache_report_drive('{server.folder}/flash', 'x')")
    assert server.sql("SELECT drive, health IS NULL FROM pg_stat_flashcache_device_health") == "x|t"


def test_what_it_says_is_of_this_command() -> None:
    """Its errors are made where the doctor's are."""
    for words in (["drives", "host=/nowhere"], ["drives", "host=/nowhere", "--json"]):
        error = CliRunner().invoke(cli.app, words).exception
        assert isinstance(error, PgflashError) and error.exit_code == EXIT_SERVER
        assert error.message.startswith("the server cannot be reached: ") and "libpq" in error.hint
        assert "doctor" not in error.message + error.hint and "machine alone" not in error.hint


@needs_extension
@pytest.mark.parametrize(
    ("why", "hint"),
    [(ELSEWHERE, "there"), (CONTAINED, "inside it")],
)
def test_a_server_elsewhere(server: Server, fake: Fake, monkeypatch: pytest.MonkeyPatch, why: str, hint: str) -> None:
    fake.server.local, fake.server.not_local = False, why
    monkeypatch.setattr(FakeSession, "facts", lambda *_: fake.facts())
    session = FakeSession(server.dsn, fake)
    try:
        with pytest.raises(MachineError) as raised:
            drives.run(session, None, True)
    finally:
        session.close()
    assert raised.value.message == why.partition(":")[0]
    assert raised.value.hint == f"run pgflash drives {hint}, where smartctl can ask the drives"
