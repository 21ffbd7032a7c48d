"""Studies on real servers, as small as they can be. Root has the lab's disk; anybody else a folder, and the output says so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from pgflash.doctor.treatment import Treatment
from pgflash.pilot import db
from pgflash.pilot.existing import ExistingTarget
from pgflash.pilot.loads.tpcc import built
from pgflash.pilot.report.write import make
from pgflash.pilot.store import open_study, read_lines, step_key
from pgflash.pilot.target import Place

from .servers import Server, bin_folder, is_root, needs_server, reachable

pytestmark = needs_server
place = pytest.fixture(reachable)


@pytest.fixture
def server(place: Path) -> Iterator[Server]:
    found = Server(place)
    yield found
    found.stop()


def scenario(folder: Path, load: str, arms: str, *, server: str = "", duration_s: int = 2, name: str = "tiny") -> Path:
    disk = 'kind = "lab"\nread_us = 2000' if is_root() else f'kind = "path"\npath = "{folder}"'
    own = (
        f'[server]\nbin = "{bin_folder()}"\nextension = "installed"\n[disk]\n{disk}\n[memory]\nshared_buffers = "2MB"\nheadroom = "60MB"\n'
    )
    text = f"""
title = "tiny"
duration_s = {duration_s}
repetitions = 1
[load]
{load}
[warmup]
slice_s = 1
flat = 1
step_points = 50
max_s = 5
[flash]
sizes = ["50%"]
{arms}
{server or own}
"""
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


def command(path: Path, study: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "pgflash", "pilot", "run", str(path), "--study", str(study), "--dir", str(path.parent), "--json", *more]


def run(path: Path, study: Path) -> tuple[int, list[dict[str, Any]]]:
    done = subprocess.run(command(path, study), capture_output=True, text=True, cwd=path.parent, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def left_behind(folder: Path) -> list[str]:
    """Mounts, and folders of a study: there must be none."""
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines() if str(folder) in line]
    return mounts + [item.name for item in folder.iterdir() if item.name.startswith("pgflash")]


READ = 'kind = "pgbench-select"\nkeys = "hot-spot"\nscale = 1\nclients = [2]\nsample = 1.0'
DISK = '[[arm]]\nname = "disk"\n'
CACHE = '[[arm]]\nname = "cache"\ncache = true\n'


def test_interrupted_and_resumed(place: Path) -> None:
    """A study is interrupted after its first run, goes on, and ends with a report; in between and at the end nothing is left."""
    if not is_root():
        print("not root: on a plain folder, without the lab's disk and without a memory limit")
    study = place / "study"
    path = scenario(place, READ, DISK + CACHE)
    with subprocess.Popen(command(path, study), stdout=subprocess.PIPE, text=True, cwd=place) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["event"] == "run":
                process.send_signal(signal.SIGTERM)  # SIGINT is ignored in background jobs
                break
        rest = [json.loads(line) for line in process.stdout]
    assert process.returncode == 130
    assert rest[-1]["kind"] == "interrupted"
    assert left_behind(place) == []
    assert rest[-1]["hint"].endswith(f", and pgflash pilot report {study} makes a report of what is there")
    assert not (study / "report.md").exists(), "it makes none by itself"
    report = [sys.executable, "-m", "pgflash", "pilot", "report", str(study)]
    assert subprocess.run(report, capture_output=True, cwd=place, check=False).returncode == 0
    assert "- study is not complete: 1 of 2 runs." in (study / "report.md").read_text()
    first = (study / "runs.jsonl").read_bytes()
    assert [step_key(line) for line in open_study(study).runs] == [("tiny", "disk", 2, 1)]

    status, events = run(path, study)
    assert status == 0, events
    assert (events[-1]["done"], events[-1]["there_already"], events[-1]["failed"]) == (1, 1, [])
    assert (study / "runs.jsonl").read_bytes().startswith(first)
    assert left_behind(place) == []
    disk, cache = open_study(study).runs
    assert disk["hit_ratio"] is None
    assert disk["transactions"] > 0 and disk["percentiles"]["p99"] >= disk["percentiles"]["p50"] > 0
    counted = cache["counters"]
    assert cache["hit_ratio"] == pytest.approx(counted["cache.hits"] / (counted["cache.hits"] + counted["cache.misses"]), abs=1e-4)
    assert cache["conditions"]["flash_mb"] == cache["conditions"]["database_mb"] // 2
    assert cache["slots"] == cache["conditions"]["flash_mb"] * 128
    if is_root():
        assert disk["conditions"]["disk"] == "lab: 4 spindles x 2 ms, 200 MB/s each"
        assert set(disk["devices"]) == {"disk"}
        assert sum(row["disk_reads"] for row in open_study(study).of("warmup")[0]["rows"]) > 0, "a cold start reads from the disk"
    assert Path(events[-1]["html"]).stat().st_size > 1_000_000
    assert "Not measured here." in Path(events[-1]["md"]).read_text()


def test_a_server_that_dies(place: Path) -> None:
    """Its arm is recorded as failed, the other is measured, the exit status says so."""
    study = place / "study"
    path = scenario(place, READ, DISK + CACHE, duration_s=4)
    with subprocess.Popen(command(path, study), stdout=subprocess.PIPE, text=True, cwd=place) as process:
        assert process.stdout is not None
        events = []
        for line in process.stdout:
            events.append(json.loads(line))
            if events[-1]["event"] == "step" and events[-1]["text"] == "tiny: disk, 2 clients":
                (pid,) = [*place.glob("pgflash.*/disk/mnt/cluster-*/postmaster.pid"), *place.glob("pgflash.*/cluster-*/postmaster.pid")]
                os.kill(int(pid.read_text().split("\n")[0]), signal.SIGKILL)
    assert process.returncode == 4
    (failed,) = open_study(study).of("failed")
    assert (failed["variant"], failed["clients"]) == ("disk", [2])
    assert [line["variant"] for line in open_study(study).runs] == ["cache"] or [
        line["arm"]["name"] for line in open_study(study).runs
    ] == ["cache"]
    assert left_behind(place) == []


def test_moved_objects_and_a_load_that_writes(place: Path) -> None:
    study = place / "study"
    moved = '[[arm]]\nname = "moved"\nmoved = "hottest"\nhottest = 1\n'
    flash = '[[arm]]\nname = "all-flash"\ndata = "flash"\ncache = ["50%"]\n'
    path = scenario(place, 'kind = "pgbench-tpcb"\nkeys = "zipfian"\nscatter = true\nscale = 1\nclients = [2]', moved + flash)
    status, events = run(path, study)
    assert status == 0, events
    lines = read_lines(study / "runs.jsonl")
    assert [(line["variant"], line["passed"]) for line in lines if line["kind"] == "check"] == [("moved", True), ("all-flash@50%", True)]
    first, second = open_study(study).runs
    assert first["conditions"]["moved_objects"] in (["table public.pgbench_accounts"], ["index public.pgbench_accounts_pkey"])
    assert second["conditions"]["data_on"] == "flash"
    assert left_behind(place) == []


def test_sysbench(place: Path) -> None:
    path = scenario(place, 'kind = "sysbench-read-write"\ntables = 2\nrows = 5000\nclients = [2]', CACHE)
    status, events = run(path, place / "study")
    assert status == 0, events
    lines = read_lines(place / "study" / "runs.jsonl")
    assert [line["passed"] for line in lines if line["kind"] == "check"] == [True]
    (line,) = open_study(place / "study").runs
    assert line["transactions"] > 0 and set(line["percentiles"]) == {"p50", "p95", "p99"}


@pytest.mark.skipif(
    not built().exists(), reason="go-tpc has not been built: a minute or more, and a network; a study of TPC-C does it once"
)
def test_tpcc(place: Path) -> None:
    path = scenario(place, 'kind = "tpcc"\nwarehouses = 1\nclients = [2]', CACHE)
    status, events = run(path, place / "study")
    assert status == 0, events
    (check,) = [line for line in read_lines(place / "study" / "runs.jsonl") if line["kind"] == "check"]
    assert (check["what"], check["passed"], check["detail"]) == ("TPC-C consistency conditions", True, "11 conditions checked")


# --- an existing server ---


def settings(server: Server) -> str:
    return server.sql("SELECT name, setting FROM pg_file_settings ORDER BY seqno", "SELECT spcname FROM pg_tablespace ORDER BY 1")


def state(server: Server) -> str:
    return server.sql(
        "SELECT datname FROM pg_database ORDER BY 1", "SELECT name, setting FROM pg_file_settings ORDER BY 1, 2",
        "SELECT relname, reltablespace FROM pg_class WHERE relname LIKE 'mine%' ORDER BY 1",
    )  # fmt: skip


def existing(server: Server, allow: str = "[]", more: str = "") -> str:
    return f'[server]\ndsn = "{server.dsn}"\nallow = {allow}\n{more}'


def script(folder: Path, rows: int = 1000) -> str:
    (folder / "mine.sql").write_text(f"\\set id random(1, {rows})\nSELECT filler FROM mine WHERE id = :id;\n")
    return 'kind = "script"\nscript = "mine.sql"\nwrites = false\nclients = [2]\nsample = 1.0'


def test_an_existing_server_is_only_looked_at(place: Path, server: Server) -> None:
    server.sql(
        "CREATE TABLE mine AS SELECT id, repeat('x', 500) AS filler FROM generate_series(1, 1000) id", "CREATE INDEX mine_id ON mine (id)"
    )
    before = state(server), server.sql("SELECT pg_postmaster_start_time()")
    status, events = run(scenario(place, script(place), '[[arm]]\nname = "as-it-is"\n', server=existing(server)), place / "study")
    assert status == 0, events
    assert (state(server), server.sql("SELECT pg_postmaster_start_time()")) == before
    (line,) = open_study(place / "study").runs
    assert line["conditions"]["server"].endswith(", an existing cluster")
    assert line["transactions"] > 0


def test_an_existing_server_is_put_back_as_it_was(place: Path, server: Server) -> None:
    server.sql(
        "CREATE TABLE mine AS SELECT id, repeat('x', 500) AS filler FROM generate_series(1, 20000) id", "CREATE INDEX mine_id ON mine (id)"
    )
    server.sql("ALTER SYSTEM SET work_mem = '5MB'")
    before = state(server)
    arms = (
        DISK
        + CACHE
        + '[[arm]]\nname = "moved"\nmoved = "hottest"\nhottest = 2\n[[arm]]\nname = "work-mem"\nsettings = { work_mem = "7MB" }\n'
    )
    arms += '[[arm]]\nname = "memory"\nextra_memory = "4MB"\n'
    # Without a log file, the server keeps the output of the command: it is over when the command is.
    command = server.restart_command.replace(f"--log={server.data}/log", "")
    more = f'restart_command = "{command}"\ntablespace = "fast"\n'
    path = scenario(place, script(place), arms, server=existing(server, '["settings", "restart", "objects"]', more))
    status, events = run(path, place / "study")
    assert status == 0, events
    assert state(server) == before
    assert server.sql("SHOW shared_buffers") == "2MB"
    runs = {line["variant"]: line for line in open_study(place / "study").runs}
    assert runs["disk"]["conditions"]["flash_mb"] == 0
    assert runs["cache@50%"]["slots"] == runs["cache@50%"]["conditions"]["flash_mb"] * 128
    assert runs["memory"]["conditions"]["shared_buffers_mb"] == 6
    assert sorted(runs["moved"]["conditions"]["moved_objects"]) == ["index public.mine_id", "table public.mine"]


def test_a_database_of_its_own_on_an_existing_server(place: Path, server: Server) -> None:
    before = state(server)
    path = scenario(place, READ, '[[arm]]\nname = "as-it-is"\n', server=existing(server, '["database"]'))
    status, events = run(path, place / "study")
    assert status == 0, events
    assert state(server) == before


ON_AND_OFF = '[[arm]]\nname = "off"\nenabled = "off"\n[[arm]]\nname = "on"\nenabled = "on"\n'


def killed_after_a_run(path: Path, study: Path) -> None:
    with subprocess.Popen(command(path, study, "--repetitions", "2"), stdout=subprocess.PIPE, text=True, cwd=path.parent) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["event"] == "run":
                process.kill()
                break
    assert process.returncode == -signal.SIGKILL


def test_the_cache_of_an_existing_server_off_and_on(place: Path, server: Server) -> None:
    """Killed twice on the way; what it had changed is put back by the command for it, and by the next run."""
    server.sql(
        "CREATE TABLE mine AS SELECT id, repeat('x', 500) AS filler FROM generate_series(1, 20000) id", "CREATE INDEX mine_id ON mine (id)"
    )
    server.sql("ALTER SYSTEM SET work_mem = '5MB'")
    before, study = state(server), place / "study"
    path = scenario(place, script(place, 20000), ON_AND_OFF, server=existing(server, '["settings"]'))

    killed_after_a_run(path, study)
    assert server.sql("SHOW pg_flashcache.enabled") == "off"
    assert state(server) != before
    done = subprocess.run(
        [sys.executable, "-m", "pgflash", "pilot", "restore", str(study), "--json"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, len(json.loads(done.stdout)["restored"])) == (0, 1), done.stderr
    assert (state(server), server.sql("SHOW pg_flashcache.enabled")) == (before, "on")

    killed_after_a_run(path, study)
    assert state(server) != before
    events = []
    with subprocess.Popen(command(path, study, "--repetitions", "2"), stdout=subprocess.PIPE, text=True, cwd=place) as process:
        assert process.stdout is not None
        events = [json.loads(line) for line in process.stdout]
    assert process.returncode == 0, events
    assert sum("put back as it was" in event.get("text", "") for event in events) == 1
    assert (state(server), server.sql("SHOW pg_flashcache.enabled")) == (before, "on")
    assert not (study / "undo.json").exists()

    runs = open_study(study).runs
    assert [line["variant"] for line in runs] == ["off", "on", "on", "off"]
    for line in runs:
        on = line["variant"] == "on"
        assert (line["conditions"]["cache_on_disk"], line["devices"]) == (True, {})
        assert (line["arm"]["cache"], line["arm"]["enabled"]) == ("as installed" if on else "", line["variant"])
        assert line["conditions"]["flash_mb"] == (1 if on else 0)
        looked = {name: line["counters"][f"cache.{name}"] for name in ("hits", "misses", "os_cache_hits")}
        assert (sum(looked.values()) > 0) == on, looked
    (advice,) = make([open_study(study)]).advice
    assert advice.verdict != "unclear", "off is held against on"


def test_what_the_doctor_proposes_for_an_existing_server(place: Path, server: Server) -> None:
    """Killed while it is in force; the command puts it back, and so does the next run."""
    server.sql(
        "CREATE TABLE mine AS SELECT id, repeat('x', 500) AS filler FROM generate_series(1, 1000) id", "CREATE INDEX mine_id ON mine (id)"
    )
    server.sql("ALTER SYSTEM SET checkpoint_timeout = '2min'", "ALTER SYSTEM SET wal_compression = off", "SELECT pg_reload_conf()")
    before, study = state(server), place / "study"
    arms = '[[arm]]\nname = "treated"\ntuning = "doctor"\n[[arm]]\nname = "as-it-is"\n'
    path = scenario(place, script(place), arms, server=existing(server, '["settings"]'))

    killed_after_a_run(path, study)
    assert server.sql("SHOW checkpoint_timeout") == "15min"
    done = subprocess.run(
        [sys.executable, "-m", "pgflash", "pilot", "restore", str(study), "--json"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, len(json.loads(done.stdout)["restored"])) == (0, 1), done.stderr
    assert (state(server), server.sql("SHOW checkpoint_timeout")) == (before, "2min")

    status, events = run(path, study)
    assert status == 0, events
    assert (state(server), server.sql("SHOW checkpoint_timeout")) == (before, "2min")
    assert not list(study.glob("*.json"))
    treated, as_it_is = open_study(study).runs
    assert "doctor" not in as_it_is["conditions"]
    made = treated["conditions"]["doctor"]["made"]
    assert "checkpoint_timeout = 15min" in made
    assert not any(change.startswith(("echo", "sysctl")) for change in made), "what is the machine's was not allowed"
    (figure,) = (figure for figure in make([open_study(study)]).figures if figure.id.startswith("tuning-"))
    assert figure.series[0].x == ["as it is", "as the doctor proposes"]


def test_a_role_that_may_not_switch_the_cache_is_told_before(place: Path, server: Server) -> None:
    server.sql(
        "CREATE TABLE mine AS SELECT id, repeat('x', 500) AS filler FROM generate_series(1, 1000) id", "CREATE ROLE weak LOGIN",
        "GRANT pg_read_all_stats TO weak", "GRANT SELECT ON mine TO weak",
    )  # fmt: skip
    path = scenario(place, script(place), ON_AND_OFF, server=existing(server, '["settings"]').replace("user=postgres", "user=weak"))
    before = state(server)
    status, events = run(path, place / "study")
    assert (status, events[-1]["kind"]) == (3, "machine"), events
    assert events[-1]["message"].startswith("weak may not switch the cache of this server")
    assert events[-1]["hint"] == "connect as a superuser"
    assert state(server) == before

    server.sql(
        "GRANT ALTER SYSTEM ON PARAMETER pg_flashcache.enabled TO weak", "GRANT EXECUTE ON FUNCTION pg_reload_conf() TO weak",
        "GRANT SELECT ON pg_file_settings TO weak", "GRANT EXECUTE ON FUNCTION pg_show_all_file_settings() TO weak",
    )  # fmt: skip
    status, events = run(path, place / "study")
    assert status == 0, events
    assert state(server) == before
    recorded = list(read_lines(place / "study" / "runs.jsonl"))
    assert {line["variant"] for line in open_study(place / "study").runs} == {"off", "on"}, recorded
    for line in open_study(place / "study").runs:  # where the data is, this role is not told
        assert (line["conditions"]["cache_on_disk"], line["devices"]) == (None, {})


def test_steps_by_hand_set_no_wrong_password(tmp_path: Path) -> None:
    target = ExistingTarget.__new__(ExistingTarget)
    target.undo_path, target.moved_back, target.made_database = tmp_path / "undo.json", [], ""
    target.treatment = Treatment(tmp_path / "doctor.json")
    target.before = {"work_mem": "5MB", "pg_flashcache.follow_conninfo": "host=a password=hunter2", "jit": None}
    assert target._by_hand() == (
        "by hand: ALTER SYSTEM SET work_mem = '5MB'; ALTER SYSTEM SET pg_flashcache.follow_conninfo to what"
        f" {tmp_path}/undo.json has for it, which may hold a password; ALTER SYSTEM RESET jit"
    )


@pytest.mark.parametrize(
    ("host", "data", "known"), [("/run", "/data", True), ("10.0.0.1", "/data", None), ("shop.example", "/data", None), ("/run", None, None)]
)
def test_file_systems_are_those_of_this_machine(monkeypatch: pytest.MonkeyPatch, host: str, data: str | None, known: bool | None) -> None:
    target = ExistingTarget.__new__(ExistingTarget)
    target.place = Place(host, 5432, "me", "postgres")
    settings = {"data_directory": data, "pg_flashcache.file": "/flash/cache"}
    monkeypatch.setattr(db, "value", lambda _, query: settings[query.rpartition("name = ")[2].strip("'")])
    monkeypatch.setattr(db, "cache_view", lambda *_: "")
    assert target._shared(cast(Any, None)) is known  # neither folder is on this machine: both are in that of /
