"""Room: what a move needs at once, the WAL and what pg_repack makes of indexes included."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from pgflash.errors import MachineError
from pgflash.place import mover, objects
from pgflash.place.journal import Row
from pgflash.place.mover import Mover, Options, connect
from pgflash.place.objects import Object
from pgflash.place.room import FACTOR, MARGIN, Need, local_paths, needs, require_room

from .servers import Server, needs_repack, needs_server

pytestmark = needs_server


def made(server: Server, database: str) -> int:
    server.sql(
        "CREATE TABLE t (id int PRIMARY KEY, x text)", "INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 5000) i",
        "CREATE INDEX t_x ON t (x) TABLESPACE slow", "CREATE UNLOGGED TABLE u AS SELECT * FROM t", database=database,
    )  # fmt: skip
    return int(server.sql("SELECT 't'::regclass::oid", database=database))


def of(connection: Any, oid: int) -> Object:
    item = objects.by_oid(connection, oid)
    assert item is not None
    return item


def test_what_a_move_needs(server: Server, database: str) -> None:
    oid = made(server, database)
    with connect(server.dsn(database)) as connection:
        paths = local_paths(connection)
        assert paths == (server.data, (server.data / "pg_wal").resolve())
        item, indexes = of(connection, oid), {index.name: index.bytes for index in objects.indexes_of(connection, oid)}
        flash, slow = server.folder / "flash", server.folder / "slow"
        assert needs(connection, item, "flash", paths, repack=False) == [Need(flash, item.bytes), Need(paths[1], item.bytes)]
        assert needs(connection, item, "flash", paths, repack=True) == [
            Need(flash, item.bytes), Need(server.data, indexes["t_pkey"]), Need(slow, indexes["t_x"]),
            Need(paths[1], item.bytes + indexes["t_pkey"] + indexes["t_x"]),
        ]  # fmt: skip
        unlogged = of(connection, int(server.sql("SELECT 'u'::regclass::oid", database=database)))
        assert needs(connection, unlogged, "flash", paths, repack=False) == [Need(flash, unlogged.bytes)]


@pytest.mark.parametrize("repack", [False, True])
def test_to_the_byte(server: Server, database: str, repack: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """All on one file system: the object, the WAL, and with pg_repack the indexes and theirs."""
    oid = made(server, database)
    with connect(server.dsn(database)) as connection:
        item = of(connection, oid)
        assert item.index_bytes == sum(index.bytes for index in objects.indexes_of(connection, oid)) > 0
        need = round(FACTOR * 2 * (item.bytes + (item.index_bytes if repack else 0))) + MARGIN
        for free in (need, need - 1):
            monkeypatch.setattr(os, "statvfs", lambda _path, free=free: SimpleNamespace(f_bavail=free, f_frsize=1))
            if free == need:
                require_room(connection, item, "flash", repack=repack, assumed=None)
            else:
                with pytest.raises(MachineError, match="WAL included"):
                    require_room(connection, item, "flash", repack=repack, assumed=None)
        # elsewhere: what was said to be free, for either
        monkeypatch.setattr("pgflash.place.room.local_paths", lambda _connection: None)
        need = round(FACTOR * (item.bytes + (item.index_bytes if repack else 0))) + MARGIN
        require_room(connection, item, "flash", repack=repack, assumed=need)
        with pytest.raises(MachineError, match="--assume-room"):
            require_room(connection, item, "flash", repack=repack, assumed=need - 1)


@needs_repack
def test_it_is_asked_by_how_the_object_is_moved(server: Server, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    oid = made(server, database)
    server.sql("CREATE EXTENSION pg_repack", database=database)
    asked: list[bool] = []

    def refuse(*_: object, repack: bool, assumed: int | None) -> None:
        asked.append(repack)
        raise MachineError("no room")

    monkeypatch.setattr(mover, "require_room", refuse)
    for with_repack in (True, False):
        with Mover(server.dsn(database), Options(window="now", repack=with_repack), lambda _event: None) as moving:
            item = of(moving.control, oid)
            moving.journal.create()
            row: Row = moving.journal.add("place", "table", "public", "t", oid, item.filenode, 0, item.bytes, item.tablespace, "flash")
            assert moving.move(row) == "failed" and row.note == "no room"
    assert asked == [True, False]
