"""Is there room for a move? Of file systems that can be seen from here, or by what the user says of them (--assume-room)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pgflash.errors import MachineError
from pgflash.pilot import db
from pgflash.place.objects import Object, indexes_of
from pgflash.units import show_bytes

FACTOR = 1.1
MARGIN = 16 * 1024 * 1024
"""Beyond what is moved: pages that are added meanwhile, and the log of what others do."""


def local_paths(connection: db.Connection) -> tuple[Path, Path] | None:
    """Data directory and WAL, if the server is on this machine; None if it is not, or cannot be told."""
    host = connection.info.host
    if not (host.startswith("/") or host in ("localhost", "127.0.0.1", "::1")):
        return None
    if not db.value(connection, "SELECT pg_has_role(current_user, 'pg_read_all_settings', 'USAGE')"):
        return None
    data = Path(str(db.value(connection, "SHOW data_directory")))
    try:
        data.stat()
    except OSError:
        return None
    try:
        (data / "pg_wal").stat()
    except OSError:  # of another user: it is there unless somebody has put it elsewhere
        return data, data
    return data, (data / "pg_wal").resolve()


def path_of(connection: db.Connection, tablespace: str, data: Path) -> Path:
    where = db.value(connection, "SELECT pg_tablespace_location(oid) FROM pg_tablespace WHERE spcname = %s", tablespace)
    return Path(str(where)) if where else data


@dataclass(frozen=True)
class Need:
    path: Path
    bytes: int


def needs(connection: db.Connection, item: Object, target: str, paths: tuple[Path, Path], *, repack: bool) -> list[Need]:
    """A move writes the object once more, and that into the WAL; pg_repack also all indexes of the table, where they are."""
    data, wal = paths
    found = [Need(path_of(connection, target, data), item.bytes)]
    logged = item.bytes
    if repack:
        for index in indexes_of(connection, item.oid):
            found.append(Need(path_of(connection, index.tablespace, data), index.bytes))
            logged += index.bytes
    if item.logged and db.value(connection, "SHOW wal_level") != "minimal":
        found.append(Need(wal, logged))
    return found


def require_room(connection: db.Connection, item: Object, target: str, *, repack: bool, assumed: int | None) -> None:
    paths = local_paths(connection)
    if paths is None:
        need = round(FACTOR * (item.bytes + (item.index_bytes if repack else 0))) + MARGIN
        if assumed is None:
            raise MachineError(
                "the file systems of the server cannot be seen from here, so there is no telling whether there is room",
                "run pgflash on the server, or give what is free both there and for the WAL: --assume-room 50GB",
            )
        if need > assumed:
            raise MachineError(f"{item.label} needs {show_bytes(need)}, and {show_bytes(assumed)} are free (--assume-room)")
        return
    sums: dict[int, tuple[Path, int]] = {}
    for need_ in needs(connection, item, target, paths, repack=repack):
        try:
            device = need_.path.stat().st_dev
        except OSError as error:
            if assumed is None:
                raise MachineError(
                    f"{need_.path} cannot be looked at: {error.strerror}", "run pgflash as root, or give --assume-room"
                ) from error
            continue
        path, count = sums.get(device, (need_.path, 0))
        sums[device] = (path, count + need_.bytes)
    for path, count in sums.values():
        state = os.statvfs(path)
        free, need = state.f_bavail * state.f_frsize, round(FACTOR * count) + MARGIN
        if need > free:
            raise MachineError(
                f"{item.label} needs {show_bytes(need)} on the file system of {path} while it is moved, WAL included, and {show_bytes(free)} are free",
                "make room there, or move less",
            )
