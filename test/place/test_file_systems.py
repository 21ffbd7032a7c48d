"""Moves between tablespaces on file systems of their own: room there and for the WAL, which is on a third one, is judged for each, and
nothing is lost or left, also if the tool or the server is killed on the way."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgflash.system import find_program, give_to_server_user, is_root

from .servers import Server, await_, begin, needs_server, tool
from .test_apply import ACCEPT, filled, idle, ready, reindexing, sound, states
from .test_progress import HELD, hold

pytestmark = [needs_server, pytest.mark.skipif(not is_root(), reason="file systems are mounted: that needs root")]
MB = 1 << 20
# Of xfs there is none smaller than 300 MB. Of each, the folder of the tablespace, or of the WAL.
MADE = {"ext": ("ext4", 160), "xf": ("xfs", 320), "wal": ("ext4", 320)}
SPACES = ("ext", "xf")


class Disks:
    """File systems of loop devices, in the test's own folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mounted: list[Path] = []

    def mount(self, name: str) -> None:
        kind, size = MADE[name]
        make, image, at = find_program(f"mkfs.{kind}"), self.folder / f"{name}.image", self.folder / name
        if not make:
            pytest.skip(f"there is no mkfs.{kind}: apt-get install {'xfsprogs' if kind == 'xfs' else 'e2fsprogs'}")
        with image.open("wb") as file:
            file.truncate(size * MB)
        subprocess.run([make, "-q", str(image)], check=True)
        at.mkdir()
        # Who sets a loop device up, others do not meanwhile.
        done = subprocess.run(
            ["flock", "/dev/loop-control", "mount", "-o", "loop", str(image), str(at)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"no {kind} can be mounted here: {done.stderr.strip()}")
        self.mounted.append(at)
        (at / "pg").mkdir(mode=0o700)
        give_to_server_user(at / "pg")

    def place(self, name: str) -> Path:
        return self.folder / name / "pg"

    def used(self, name: str) -> int:
        os.sync()
        state = os.statvfs(self.folder / name)
        return (state.f_blocks - state.f_bfree) * state.f_frsize

    def free(self, name: str) -> int:
        state = os.statvfs(self.folder / name)
        return state.f_bavail * state.f_frsize

    @contextlib.contextmanager
    def full_but(self, name: str, left: int) -> Iterator[None]:
        """Somebody else's file takes all but so much."""
        path = self.folder / name / "ballast"
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, self.free(name) - left)
        try:
            assert left - 4 * MB < self.free(name) <= left + MB
            yield
        finally:
            path.unlink()

    def remove(self) -> None:
        for at in reversed(self.mounted):
            subprocess.run(["umount", str(at)], check=True)
        shutil.rmtree(self.folder)


@pytest.fixture(scope="module")
def disks() -> Iterator[Disks]:
    made = Disks(Path(tempfile.mkdtemp(prefix="f.")))
    made.folder.chmod(0o755)
    try:
        for name in MADE:
            made.mount(name)
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="module")
def server(disks: Disks) -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="l."))
    server = Server(folder, disks.place("wal"), max_wal_size="64MB", min_wal_size="32MB")
    try:
        for name in SPACES:
            server.sql(f"CREATE TABLESPACE {name} LOCATION '{disks.place(name)}'")
        yield server
    finally:
        server.remove()


def big(server: Server, database: str, kind: str = "") -> int:
    """A table of some 30 MB, without a key: it is copied."""
    name = kind or "logged"
    server.sql(
        f"CREATE {kind} TABLE {name} AS SELECT i, repeat('x', 1000) AS x FROM generate_series(1, 26000) i", "CHECKPOINT", database=database
    )
    return int(server.sql(f"SELECT pg_table_size('{name}')", database=database))


def apply(server: Server, database: str, space: str, *more: str) -> subprocess.CompletedProcess[str]:
    return tool("place", "apply", server.dsn(database), f"--tablespace={space}", ACCEPT, "--window=now", "--no-repack", *more)


def content(server: Server, database: str, name: str) -> str:
    return str(server.sql(f"SELECT count(*) || ' ' || sum(i) || ' ' || sum(length(x)) FROM {name}", database=database))


WHOLE = "26000 338013000 26000000"


def settled(server: Server, disks: Disks) -> dict[str, int]:
    """What is used where, when files that were dropped have gone."""
    server.sql("CHECKPOINT")
    return {name: disks.used(name) for name in SPACES}


def test_from_one_to_the_other_and_back(server: Server, disks: Disks, filled: str) -> None:
    """Each file system has the objects while they are on it, by their sizes, and nothing of them afterwards."""
    size = big(server, filled)
    before = settled(server, disks)
    objects = ("--object=public.t", "--object=public.t_pkey", "--object=public.logged")
    for space, other in (("ext", "xf"), ("xf", "ext")):
        ready(apply(server, filled, space, *objects))
        assert [server.where(name, filled) for name in ("t", "t_pkey", "logged")] == [space] * 3
        now = settled(server, disks)
        moved = size + server.sql("SELECT pg_table_size('t') + pg_relation_size('t_pkey')", database=filled)
        assert 0 <= now[space] - before[space] - moved <= 3 * MB, (now, before, moved)
        assert abs(now[other] - before[other]) <= MB
        assert server.sql("SELECT pg_table_size('logged')", database=filled) == size
        assert content(server, filled, "logged") == WHOLE
        sound(server, filled)
    ready(tool("place", "back", server.dsn(filled), "--window=now", "--no-repack"))
    assert [server.where(name, filled) for name in ("t", "t_pkey", "logged")] == ["pg_default"] * 3
    assert all(abs(now - before[name]) <= MB for name, now in settled(server, disks).items())
    assert content(server, filled, "logged") == WHOLE
    sound(server, filled)


def test_room_where_it_goes(server: Server, disks: Disks, filled: str) -> None:
    """There is none on one file system, and plenty on the other."""
    size = big(server, filled)
    with disks.full_but("ext", size + 10 * MB):
        refused = apply(server, filled, "ext", "--object=public.logged")
        assert refused.returncode == 4, refused.stdout + refused.stderr
        (move,) = server.moves(filled)
        assert move["state"] == "failed" and f"on the file system of {disks.place('ext')} while it is moved" in move["note"]
        assert server.where("logged", filled) == "pg_default" and disks.free("ext") > size
        ready(apply(server, filled, "xf", "--object=public.logged"))
        assert server.where("logged", filled) == "xf"
    assert content(server, filled, "logged") == WHOLE


def test_room_for_the_wal(server: Server, disks: Disks, filled: str) -> None:
    """Where the object goes there is room, and where its WAL goes there is none: an object that writes none is moved."""
    size = big(server, filled)
    big(server, filled, "unlogged")
    server.sql("CHECKPOINT")
    with disks.full_but("wal", size + 10 * MB):
        refused = apply(server, filled, "xf", "--object=public.logged", "--object=public.unlogged")
        assert refused.returncode == 4, refused.stdout + refused.stderr
        logged, unlogged = server.moves(filled)
        assert (
            logged["state"] == "failed" and f"on the file system of {disks.place('wal')} while it is moved, WAL included" in logged["note"]
        )
        assert (unlogged["state"], server.where("unlogged", filled), server.where("logged", filled)) == ("done", "xf", "pg_default")
    ready(apply(server, filled, "xf", "--object=public.logged"))
    assert server.where("logged", filled) == "xf"
    assert content(server, filled, "logged") == content(server, filled, "unlogged") == WHOLE


def held_copies(server: Server, database: str) -> bool:
    """The copy is there, and its statement waits at its end."""
    return bool(
        server.sql(f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = {HELD} AND NOT granted", database=database)
    )


def begin_copy(server: Server, filled: str, space: str, other: psycopg.Connection[Any]) -> subprocess.Popen[str]:
    """A move of a table there, which is held, by the other session, when its copy is complete."""
    other.execute(f"SELECT pg_advisory_lock({HELD})".encode())
    process = begin(
        "place",
        "apply",
        server.dsn(filled),
        f"--tablespace={space}",
        ACCEPT,
        "--window=now",
        "--lock-timeout=600",
        "--object=public.logged",
    )
    await_(lambda: held_copies(server, filled), "the copy")
    return process


@pytest.mark.parametrize("space", SPACES)
def test_the_tool_is_killed(server: Server, disks: Disks, filled: str, space: str) -> None:
    """While a copy is there that is not committed: it goes, and the next run makes another."""
    size = big(server, filled)
    hold(server, filled, "ALTER TABLE")
    before = settled(server, disks)
    with server.connect(filled) as other:
        process = begin_copy(server, filled, space, other)
        assert disks.used(space) - before[space] >= size
        process.kill()
        process.communicate()
        await_(lambda: idle(server, filled), "the end of its session")
    assert states(server, filled) == [("logged", "interrupted")] and server.where("logged", filled) == "pg_default"
    assert abs(settled(server, disks)[space] - before[space]) <= MB
    ready(tool("place", "apply", server.dsn(filled), "--resume", "--window=now", ACCEPT))
    assert server.where("logged", filled) == space and content(server, filled, "logged") == WHOLE
    assert 0 <= settled(server, disks)[space] - before[space] - size <= 2 * MB
    sound(server, filled)


@pytest.mark.parametrize("space", SPACES)
def test_the_server_is_killed(server: Server, disks: Disks, filled: str, space: str) -> None:
    """While an index is built there: what is left of it goes with the next run."""
    before = settled(server, disks)
    with contextlib.suppress(psycopg.Error), server.connect(filled) as other:
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; UPDATE t SET y = y WHERE id = 1")
        process = begin("place", "apply", server.dsn(filled), f"--tablespace={space}", ACCEPT, "--object=public.t_pkey")
        await_(lambda: reindexing(server, filled), "REINDEX")
        server.kill()
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 4 and "Traceback" not in output, output
    server.start()
    assert states(server, filled) == [("t_pkey", "interrupted")]
    ready(tool("place", "apply", server.dsn(filled), "--resume", "--window=now", ACCEPT))
    assert server.where("t_pkey", filled) == space
    sound(server, filled)
    bytes_ = server.sql("SELECT pg_relation_size('t_pkey')", database=filled)
    assert abs(settled(server, disks)[space] - before[space] - bytes_) <= MB
    ready(tool("place", "back", server.dsn(filled)))
    assert abs(settled(server, disks)[space] - before[space]) <= MB
    sound(server, filled)


@pytest.mark.parametrize("space", SPACES)
def test_the_server_is_killed_in_a_copy(server: Server, disks: Disks, filled: str, space: str) -> None:
    """The copy may be left as a file that no catalog knows, and takes its room: the next one is refused, or succeeds, by what is free."""
    size = big(server, filled)
    hold(server, filled, "ALTER TABLE")
    before = settled(server, disks)
    with contextlib.suppress(psycopg.Error), server.connect(filled) as other:
        process = begin_copy(server, filled, space, other)
        server.kill()
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 4 and "Traceback" not in output, output
    server.start()
    assert states(server, filled) == [("logged", "interrupted")] and server.where("logged", filled) == "pg_default"
    assert content(server, filled, "logged") == WHOLE
    left = settled(server, disks)[space] - before[space]
    assert -MB <= left <= size + MB
    with disks.full_but(space, size + 10 * MB):
        refused = tool("place", "apply", server.dsn(filled), "--resume", "--window=now", ACCEPT)
        assert refused.returncode == 4 and "while it is moved" in server.moves(filled)[0]["note"]
    ready(tool("place", "apply", server.dsn(filled), "--resume", "--window=now", ACCEPT))
    assert server.where("logged", filled) == space and content(server, filled, "logged") == WHOLE
    sound(server, filled)


__all__ = ["filled"]
