"""Will what is written to a path still be there if one device fails, or the machine is stopped? By what sysfs shows.

Only a mirror that the kernel makes can be seen: md RAID, dm-mirror and LVM's RAID. What a RAID controller, a SAN or a provider does below
a disk cannot, but for virtual disks that say what they are. What is not known is not taken for safe.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pgflash.doctor.facts.machine import Machine
from pgflash.doctor.facts.places import look_at
from pgflash.errors import MachineError
from pgflash.system import file_system, find_program, run

VANISHING = ("Amazon EC2 NVMe Instance Storage", "Microsoft NVMe Direct Disk")
"""Models that providers give to disks which are empty after the machine was stopped."""
REPLICATED = ("Amazon Elastic Block Store",)
MIRRORED_LEVELS = ("raid1", "raid4", "raid5", "raid6", "raid10")
BUILT = ("loop", "md", "dm-")
"""Names of what the kernel makes of other devices: where nothing is seen below, nothing is known of it."""
HINT = (
    "put the tablespace on a mirror, such as one of md (RAID 1, also with a disk as its write-mostly half), or say"
    " --accept-loss-of-redundancy if the mirror is one that cannot be seen here, or if you can restore what is lost"
)


@dataclass(frozen=True)
class Durability:
    """state: mirrored, single, vanishes, unknown."""

    state: str
    why: str

    @property
    def lasting(self) -> bool:
        return self.state == "mirrored"


def _table_of(name: str) -> str:
    """What dmsetup says of a device; only root may ask."""
    program = find_program("dmsetup")
    return run([program, "table", name], what="dmsetup", check=False).stdout if program and os.geteuid() == 0 else ""


def durability(
    path: Path, *, sys_root: Path = Path("/sys"), number: int | None = None, table: Callable[[str], str] = _table_of
) -> Durability:
    """Of the file system that the path is on. `number` is that of its device, for tests."""
    if number is None:
        try:
            kind = file_system(path)
            number = path.stat().st_dev
        except OSError as error:
            return Durability("unknown", f"{path} cannot be looked at: {error.strerror}")
        if kind in ("tmpfs", "ramfs"):
            return Durability("vanishes", f"{path} is in memory ({kind})")
    device = sys_root / "dev" / "block" / f"{os.major(number)}:{os.minor(number)}"
    if not device.exists():
        return Durability("unknown", f"the device under {path} cannot be seen: a network, overlay or multi-device file system")
    return _of_device(device.resolve(), table)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _of_device(device: Path, table: Callable[[str], str]) -> Durability:
    if (device / "partition").exists():
        device = device.parent
    name = device.name
    below = [entry.resolve() for entry in sorted((device / "slaves").iterdir())] if (device / "slaves").is_dir() else []
    under = [_of_device(entry, table) for entry in below]
    gone = next((item for item in under if item.state == "vanishes"), None)
    if gone:
        return Durability("vanishes", f"{name} is on it: {gone.why}")
    level = _text(device / "md" / "level")
    if level in MIRRORED_LEVELS:
        missing = _text(device / "md" / "degraded")
        if missing not in ("", "0"):
            return Durability("single", f"{name} is {level} and degraded: {missing} of its devices missing")
        return Durability("mirrored", f"{name} is {level} of {len(below)} devices")
    if (device / "dm").is_dir():
        kinds = [line.split()[2] for line in table(_text(device / "dm" / "name")).splitlines() if len(line.split()) > 3]
        words = [line.split() for line in table(_text(device / "dm" / "name")).splitlines()]
        if kinds and all(
            kind == "mirror" or (kind == "raid" and row[3].startswith(MIRRORED_LEVELS)) for kind, row in zip(kinds, words, strict=False)
        ):
            return Durability("mirrored", f"{name} is a mirror of the device mapper ({', '.join(sorted(set(kinds)))})")
        legs = [_text(entry / "dm" / "name") for entry in below]
        if sum("_mimage_" in leg for leg in legs) > 1:
            return Durability("mirrored", f"{name} is a mirror of LVM")
    if under:
        worst = next((item for item in under if not item.lasting), None)
        return worst or Durability("mirrored", f"{name} is on mirrors: {under[0].why}")
    model = _text(device / "device" / "model")
    if model.startswith(VANISHING):
        return Durability("vanishes", f"{name} is instance storage ({model}), empty after the machine was stopped")
    if model.startswith(REPLICATED):
        return Durability("mirrored", f"{name} is replicated by its provider ({model})")
    if name.startswith(("ram", "zram")):
        return Durability("vanishes", f"{name} is in memory")
    return Durability("single", f"{name} is one device{f' ({model})' if model else ''}, and no mirror can be seen below it")


def on_flash(path: Path, machine: Machine | None = None) -> bool:
    """Are all drives below local SSDs? No, where that cannot be seen."""
    machine = machine or Machine()
    block = look_at(machine, "tablespace", str(path), machine.mounts(None)).block
    return block is not None and all(
        not (leaf.network or leaf.is_virtual or leaf.is_memory or leaf.rotational or leaf.disk_name.startswith(BUILT))
        for leaf in block.leaves()
    )


def require_lasting(name: str, path: Path, accepted: bool) -> str:
    """For data that must last. A warning if it was accepted; MachineError otherwise."""
    found = durability(path)
    if found.lasting:
        return ""
    said = f"tablespace {name}: what is moved there may be lost: {found.why}"
    if accepted:
        return said
    raise MachineError(said, HINT)
