"""The doctor on this machine: a private server, the command itself, loop devices, device mapper, FUSE, other mounts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import pgflash.doctor.checks  # noqa: F401
from pgflash import cli
from pgflash.doctor.check import REGISTRY, examine
from pgflash.doctor.facts import Facts
from pgflash.doctor.facts.machine import Machine
from pgflash.errors import PgflashError
from pgflash.system import as_server_user, find_program, give_to_server_user, is_root

ROOT = Path(__file__).parents[2]
needs_root = pytest.mark.skipif(not is_root(), reason="needs root")


def bin_folder() -> str:
    config = shutil.which("pg_config", path=os.environ.get("FC_PILOT_BIN")) or shutil.which("pg_config")
    if not config:
        return ""
    return subprocess.run([config, "--bindir"], capture_output=True, text=True, check=True).stdout.strip()


needs_server = pytest.mark.skipif(not bin_folder(), reason="no pg_config: no server")


class Server:
    """Its settings are the defaults; without the extension."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.data, self.folder = folder / "data", folder
        self.dsn = f"host={folder} user=postgres dbname=postgres"
        give_to_server_user(folder)
        self.run("initdb", "-U", "postgres", "--auth=trust", "--no-sync")
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.writelines(f"{name.replace('__', '.')} = '{value}'\n" for name, value in settings.items())
        self.run("pg_ctl", "--silent", "--wait", f"--log={folder}/log", f"--options=-c listen_addresses= -k {folder} -c fsync=off", "start")

    def run(self, program: str, *arguments: str) -> None:
        command = as_server_user([f"{bin_folder()}/{program}", "--pgdata", str(self.data), *arguments])
        subprocess.run(command, check=True, cwd="/", stdout=subprocess.DEVNULL)

    def sql(self, statement: str) -> str:
        command = [f"{bin_folder()}/psql", "-X", "-At", "-v", "ON_ERROR_STOP=1", "-d", self.dsn, "-c", statement]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="d."))
    folder.chmod(0o755)
    made = Server(folder)
    yield made
    made.run("pg_ctl", "--silent", "--mode=immediate", "stop")
    shutil.rmtree(folder, ignore_errors=True)


def tool(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "pgflash", *words], capture_output=True, text=True, cwd=ROOT)


def doctor(*words: str) -> tuple[int, Any]:
    done = tool("doctor", *words, "--json")
    return done.returncode, json.loads(done.stdout)


def statuses(found: Any) -> dict[str, str]:
    return {item["id"]: item["status"] for item in found["checks"]}


@needs_server
def test_server_is_found_here(server: Server) -> None:
    status, found = doctor(server.dsn, "--seconds", "0.5")
    assert found["server"]["local"] is True
    assert {place["role"] for place in found["places"]} == {"data", "wal"}
    checks = statuses(found)
    assert set(checks) == set(REGISTRY)
    assert checks["server.durable"] == "problem" and status == found["exit"] == 11
    assert checks["limits.open_files"] in ("fine", "advice")
    assert checks["server.cache_state"] == "not applicable"
    assert next(item for item in found["checks"] if item["id"] == "waits.reads")["reason"].endswith("look under load")


@needs_server
def test_altered_and_undone(server: Server, tmp_path: Path) -> None:
    server.sql("ALTER SYSTEM SET checkpoint_timeout = '200s'")
    server.sql("SELECT pg_reload_conf()")
    notes = str(tmp_path / "notes.json")
    status, found = doctor(server.dsn, "--only", "server", "--fix", "--yes", "--state", notes)
    checks = statuses(found)
    assert status == 11  # fsync is off on the command line, which ALTER SYSTEM does not overrule
    assert "ALTER SYSTEM SET track_io_timing = 'on'; SELECT pg_reload_conf();" in found["fixed"]
    words = "fsync: is set on the server's command line, which ALTER SYSTEM does not overrule: ALTER SYSTEM SET fsync = 'on'; SELECT pg_reload_conf();"
    assert words in found["not_fixed"]
    auto = (server.data / "postgresql.auto.conf").read_text()
    assert "track_io_timing = 'on'" in auto and "checkpoint_timeout = '15min'" in auto
    status, undone = doctor(server.dsn, "--undo", "--state", notes)
    assert (
        status == 0 and "track_io_timing: ALTER SYSTEM RESET" in undone["undone"] and "checkpoint_timeout: 200s again" in undone["undone"]
    )
    auto = (server.data / "postgresql.auto.conf").read_text()
    assert "track_io_timing" not in auto and "checkpoint_timeout = '200s'" in auto
    assert checks["server.wal_level"] == "not applicable"
    server.sql("ALTER SYSTEM RESET ALL")
    server.sql("SELECT pg_reload_conf()")


def has_extension() -> bool:
    config = shutil.which("pg_config", path=os.environ.get("FC_PILOT_BIN")) or shutil.which("pg_config")
    if not config:
        return False
    folder = subprocess.run([config, "--pkglibdir"], capture_output=True, text=True, check=True).stdout.strip()
    return Path(folder, "pg_flashcache.so").exists()


@pytest.mark.skipif(not has_extension(), reason="no server with pg_flashcache: test.sh makes one (FC_PILOT_BIN)")
def test_a_server_with_the_cache() -> None:
    folder = Path(tempfile.mkdtemp(prefix="d."))
    folder.chmod(0o755)
    missing = str(folder / "missing/cache")
    made = Server(
        folder, shared_preload_libraries="pg_flashcache", pg_flashcache__file=missing, pg_flashcache__size="1MB", shared_buffers="2MB"
    )

    def restart_with(line: str) -> None:
        with (made.data / "postgresql.conf").open("a") as conf:
            conf.write(f"{line}\n")
        made.run("pg_ctl", "--silent", "--wait", "--timeout=300", f"--log={folder}/log", "restart")

    try:
        before = statuses(doctor(made.dsn, "--only", "server")[1])
        assert before["server.cache_state"] == "not looked"
        made.sql("CREATE EXTENSION pg_flashcache")
        for _ in range(600):
            if made.sql("SELECT state FROM pg_stat_flashcache") != "starting":
                break
            time.sleep(0.1)
        status, found = doctor(made.dsn, "--only", "server")
        results = {item["id"]: item for item in found["checks"]}
        state = results["server.cache_state"]
        assert status == 11 and state["status"] == "problem"
        assert state["findings"][0]["what"].startswith("off: ") and missing in state["findings"][0]["what"]
        what = results["server.cache_size"]["findings"][0]["what"]
        assert what.startswith("is 1 MB, 0.0 times the ") and what.endswith(" that shared_buffers should be"), what
        assert results["server.cache_memory"]["status"] == "fine"
        assert {"flash", "data"} <= {place["role"] for place in found["places"]}
        # What one role may not look at is said, and how to change that; all the rest is looked at.
        made.sql("CREATE ROLE looker LOGIN IN ROLE pg_monitor")
        made.sql("CREATE ROLE nobody LOGIN")
        made.sql("DROP EXTENSION pg_flashcache")
        made.sql("CREATE SCHEMA flashcache")
        made.sql("CREATE EXTENSION pg_flashcache SCHEMA flashcache")
        for role, grant in (("looker", "GRANT USAGE ON SCHEMA flashcache TO looker"), ("nobody", "GRANT pg_monitor TO nobody")):
            if role == "nobody":
                made.sql("GRANT USAGE ON SCHEMA flashcache TO nobody")
            _, found = doctor(made.dsn.replace("user=postgres", f"user={role}"), "--only", "server")
            results = {item["id"]: item for item in found["checks"]}
            assert results["server.cache_state"]["status"] == "not looked" and results["server.cache_state"]["reason"].endswith(grant)
            assert results["server.durable"]["status"] == "problem"
        # A cache that could not start for a typo is a problem to all who look, though its size is 0.
        restart_with("pg_flashcache.size = '64G'")
        status, found = doctor(made.dsn, "--only", "server")
        state = next(item for item in found["checks"] if item["id"] == "server.cache_state")
        assert status == 11 and state["findings"][0]["what"] == 'disabled: the value of pg_flashcache.size is refused: "64G"'
        shown = tool("cluster", "status", made.dsn)
        assert shown.returncode == 11 and "refused" in shown.stdout
        shown = tool("monitoring", "sample", made.dsn)
        assert shown.returncode == 0 and "pg_flashcache_not_started 1" in shown.stdout.splitlines()
        restart_with("pg_flashcache.size = 0")
        shown = tool("monitoring", "sample", made.dsn)
        assert shown.returncode == 0 and "pg_flashcache_not_started 0" in shown.stdout.splitlines()
        restart_with("shared_preload_libraries = ''")
        _, found = doctor(made.dsn, "--only", "server")
        state = next(item for item in found["checks"] if item["id"] == "server.cache_state")
        assert state["status"] == "advice" and "shared_preload_libraries" in state["findings"][0]["subject"]
    finally:
        made.run("pg_ctl", "--silent", "--mode=immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@needs_server
def test_without_rights_nothing_is_fixed(server: Server, tmp_path: Path) -> None:
    server.sql("CREATE ROLE poor LOGIN")
    status, found = doctor(
        server.dsn.replace("user=postgres", "user=poor"), "--only", "server", "--fix", "--yes", "--state", str(tmp_path / "n")
    )
    assert status == 11 and found["fixed"] == [] and not (tmp_path / "n").exists()
    assert any("needs a superuser, or GRANT ALTER SYSTEM ON PARAMETER track_io_timing" in line for line in found["not_fixed"])


@needs_server
def test_who_may_not_reload_changes_nothing(server: Server, tmp_path: Path) -> None:
    server.sql("CREATE ROLE half LOGIN IN ROLE pg_monitor")
    for what in (
        "ALTER SYSTEM ON PARAMETER checkpoint_timeout",
        "EXECUTE ON FUNCTION pg_show_all_file_settings",
        "SELECT ON pg_file_settings",
    ):
        server.sql(f"GRANT {what} TO half")
    words = (server.dsn.replace("user=postgres", "user=half"), "--only", "server", "--seconds", "0", "--fix", "--yes", "--state")
    _, found = doctor(*words, str(tmp_path / "n"))
    assert found["fixed"] == [] and not (tmp_path / "n").exists()
    assert any("GRANT EXECUTE ON FUNCTION pg_reload_conf()" in line for line in found["not_fixed"])
    assert "checkpoint_timeout" not in (server.data / "postgresql.auto.conf").read_text()


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("--only nothing", 2),
        ("--fix", 2),
        ("--fix --undo", 2),
        ("--flash relative", 2),
        ("--data /nonexistent/data", 2),
        ("--data /tmp", 2),
        ("host=/nowhere", 7),
    ],
)
def test_wrong_arguments(words: str, status: int) -> None:
    error = CliRunner().invoke(cli.app, ["doctor", *words.split(), "--json"]).exception
    assert isinstance(error, PgflashError) and error.exit_code == status


def test_list() -> None:
    status, found = doctor("--list")
    assert status == 0 and {item["id"] for item in found["checks"]} == set(REGISTRY)
    assert all(item["source"] for item in found["checks"])


def loop_of(image: Path) -> str:
    done = subprocess.run([find_program("losetup"), "--find", "--show", str(image)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no loop device: {done.stderr.strip()}")
    return done.stdout.strip()


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    device = loop_of(image)
    yield device
    subprocess.run([find_program("losetup"), "--detach", device], check=False)


@needs_root
def test_loop_device(loop: str) -> None:
    facts = Facts(Machine(), flash=loop)
    place = facts.role("flash")[0]
    assert place.mount is None and place.block is not None
    assert place.block.name == Path(loop).name and place.block.kind == "a loop device"
    assert len(list(place.block.chain())) >= 1


@needs_root
def test_device_mapper(loop: str) -> None:
    name = f"pgflash-doctor-{os.getpid()}"
    dmsetup = find_program("dmsetup")
    if not dmsetup:
        pytest.skip("no dmsetup")
    done = subprocess.run([dmsetup, "create", name, "--table", f"0 65536 linear {loop} 0"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"the kernel has no device mapper: {done.stderr.strip().splitlines()[0]}")
    try:
        block = Facts(Machine(), flash=f"/dev/mapper/{name}").role("flash")[0].block
        assert block is not None and block.kind == "a device-mapper device"
        assert [item.name for item in block.below()] == [Path(loop).name]
    finally:
        subprocess.run([dmsetup, "remove", name], check=False)


LOOK = "import sys, json; from pathlib import Path; from pgflash.doctor.facts import Facts; from pgflash.doctor.facts.machine import Machine; import pgflash.doctor.checks; from pgflash.doctor.check import REGISTRY, examine; facts = Facts(Machine(), flash=sys.argv[1], data=sys.argv[1]); print(json.dumps({name: [item.what for item in examine(check, facts).findings] for name, check in REGISTRY.items()}))"


@needs_root
def test_other_mounts_are_seen(tmp_path: Path) -> None:
    """As in a container: a file system in memory for the data, and mounts that only this process has."""
    (tmp_path / "pg").mkdir()
    script = f"mount -t tmpfs -o size=1m,strictatime none {tmp_path}/pg && exec '{sys.executable}' -c '{LOOK}' {tmp_path}/pg"
    done = subprocess.run([find_program("unshare"), "--mount", "sh", "-c", script], capture_output=True, text=True, cwd=ROOT)
    if done.returncode and "unshare" in done.stderr + done.stdout:
        pytest.skip(f"no mount namespace: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["mounts.lasting_kind"] == ["the data directory is in memory (tmpfs)"]
    assert found["devices.flash_is_flash"] == ["is in memory (tmpfs)"]
    outside = Machine().mount_of(str(tmp_path / "pg"))
    assert outside is None or outside.point != str(tmp_path / "pg")


@needs_root
def test_fuse(tmp_path: Path) -> None:
    from pgflash.errors import MachineError
    from pgflash.lab.storage import LabDisk, Model, check

    try:
        check()
    except MachineError as error:
        pytest.skip(str(error))
    disk = LabDisk(tmp_path / "disk", Model())
    disk.up(64)
    try:
        facts = Facts(Machine(), flash=str(disk.files / "cache"))
        place = facts.role("flash")[0]
        assert place.mount is not None and place.mount.point == str(disk.files) and place.mount.kind == "ext4"
        assert place.block is not None and place.block.kind == "a loop device" and place.block.rotational
        result = examine(REGISTRY["devices.flash_is_flash"], facts)
        assert [item.what for item in result.findings] == [f"{place.block.name} says that it rotates"]
    finally:
        disk.remove()
