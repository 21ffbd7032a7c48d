"""Where the server's files and the cache's are: path, file system, device. And why that could not be found out."""

from __future__ import annotations

from dataclasses import dataclass

from pgflash.doctor.facts.blocks import Block, block_named, block_numbered, block_of_mount
from pgflash.doctor.facts.machine import Machine, Mount
from pgflash.doctor.facts.server import Server


@dataclass(frozen=True)
class Place:
    role: str
    """data, wal, tablespace, temp, flash."""
    path: str
    mount: Mount | None = None
    """None for a block device that is used as it is."""
    block: Block | None = None
    unseen: str = ""
    """Why neither could be looked at."""
    name: str = ""

    @property
    def words(self) -> str:
        if self.role == "flash" and self.name:
            return f"cache's device {self.name}"
        return {"data": "data directory", "wal": "WAL", "temp": "temporary files", "flash": "cache"}.get(
            self.role, f"tablespace {self.name}"
        )

    @property
    def device(self) -> str:
        """The number by which two places on one device are recognized."""
        return self.block.disk if self.block else self.mount.number if self.mount else ""


def look_at(machine: Machine, role: str, path: str, mounts: list[Mount], name: str = "") -> Place:
    if number := machine.device_number(path):
        return Place(role, path, None, block_numbered(machine, number), name=name)
    real = machine.resolve(path)
    if real.startswith("/dev/") and (block := block_named(machine, real.removeprefix("/dev/"))):
        return Place(role, path, None, block, name=name)
    mount = machine.mount_of(real, mounts)
    return Place(role, path, mount, block_of_mount(machine, mount) if mount else None, name=name)


def find_places(machine: Machine, server: Server | None, flash: str, data: str) -> list[Place]:
    wanted: list[tuple[str, str, str]] = []
    if data:
        wanted += [("data", data, ""), ("wal", f"{data}/pg_wal", "")]
    if server and not data:
        if server.data_directory:
            wanted += [("data", server.data_directory, ""), ("wal", f"{server.data_directory}/pg_wal", "")]
        temp = {word.strip().strip('"') for word in server.get("temp_tablespaces").split(",")}
        wanted += [("temp" if name in temp else "tablespace", place, name) for name, place in server.tablespaces.items()]
    cache = flash or (server.get("pg_flashcache.file") if server else "")
    if cache:
        wanted.append(("flash", cache, ""))
    wanted += [("flash", str(row["path"]), str(row["device"])) for row in (server.devices if server else ()) if int(row["device"]) > 1]
    mounts = machine.mounts(server.postmaster if server and machine.text(f"/proc/{server.postmaster}/mountinfo") else None)
    found = []
    for role, path, name in wanted:
        if server and not server.local and path not in (flash, data, f"{data}/pg_wal"):
            found.append(Place(role, path, unseen=server.not_local, name=name))
        elif role == "wal" and not machine.readable(path):
            found.append(Place(role, path, unseen=f"{path} cannot be seen: run the doctor as root, or as the server's user", name=name))
        else:
            found.append(look_at(machine, role, path, mounts, name))
    return found
