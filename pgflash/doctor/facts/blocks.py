"""Block devices, as sysfs shows them: what they are, and what is below them (partition, LVM, RAID, loop)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from pgflash.doctor.facts.machine import Machine, Mount

NETWORK_MODELS = {
    "amazon elastic block store": "Amazon EBS", "persistentdisk": "Google Persistent Disk", "nvme_card-pd": "Google Persistent Disk",
    "msft nvme accelerator": "Azure managed disk",
}  # fmt: skip
INSTANCE_MODELS = {
    "amazon ec2 nvme instance storage": "Amazon EC2 instance storage", "ephemeraldisk": "Google local SSD", "nvme_card": "Google local SSD",
    "microsoft nvme direct disk": "Azure local NVMe disk",
}  # fmt: skip
NETWORK_KINDS = ("nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "gpfs", "ocfs2", "fuse.glusterfs", "fuse.sshfs", "fuse.cephfs")
MEMORY_KINDS = ("tmpfs", "ramfs")
DEPTH = 8


@dataclass(frozen=True)
class Block:
    machine: Machine
    path: str
    """Its folder in sysfs, without symbolic links."""
    depth: int = 0

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[1]

    @cached_property
    def disk(self) -> str:
        """The folder of the whole disk."""
        return self.path.rsplit("/", 1)[0] if self.machine.exists(f"{self.path}/partition") else self.path

    @property
    def disk_name(self) -> str:
        return self.disk.rsplit("/", 1)[1]

    def _text(self, name: str) -> str:
        return self.machine.text(f"{self.disk}/{name}")

    def queue(self, name: str) -> str:
        return self._text(f"queue/{name}")

    def queue_number(self, name: str) -> int | None:
        return self.machine.number(f"{self.disk}/queue/{name}")

    def queue_path(self, name: str) -> str:
        return f"/sys/block/{self.disk_name}/queue/{name}"

    @property
    def model(self) -> str:
        return self._text("device/model")

    @property
    def bytes(self) -> int:
        return (self.machine.number(f"{self.path}/size") or 0) * 512

    @property
    def disk_bytes(self) -> int:
        return (self.machine.number(f"{self.disk}/size") or 0) * 512

    @property
    def rotational(self) -> bool:
        return self.queue("rotational") == "1"

    @property
    def written(self) -> int | None:
        """Bytes since the machine was booted."""
        fields = self._text("stat").split()
        return int(fields[6]) * 512 if len(fields) > 6 else None

    @cached_property
    def schedulers(self) -> tuple[str, tuple[str, ...]]:
        """The one that is used, and all."""
        words = self.queue("scheduler").split()
        used = next((word.strip("[]") for word in words if word.startswith("[")), words[0] if words else "")
        return used, tuple(word.strip("[]") for word in words)

    @property
    def raid_level(self) -> str:
        return self._text("md/level")

    @cached_property
    def network(self) -> str:
        """What kind of network is between, if one is known to be."""
        name = self.disk_name
        for start, words in (("nbd", "network block device"), ("rbd", "Ceph RBD"), ("drbd", "DRBD"), ("etherd", "ATA over Ethernet")):
            if name.startswith(start):
                return words
        if known := NETWORK_MODELS.get(self.model.lower()):
            return known
        if name.startswith("nvme"):
            transport = self._text("device/transport") or self.machine.text(f"/sys/class/nvme/{name.split('n1')[0]}/transport")
            if transport in ("tcp", "rdma", "fc"):
                return f"NVMe over {transport}"
        if "/session" in self.disk:
            return "iSCSI"
        if "/rport-" in self.disk:
            return "Fibre Channel"
        return ""

    @cached_property
    def instance_storage(self) -> str:
        return INSTANCE_MODELS.get(self.model.lower(), "")

    @property
    def is_virtual(self) -> bool:
        """A hypervisor's disk, which says nothing about what is behind it."""
        vendor = self._text("device/vendor").lower()
        virtual = vendor in ("msft", "qemu", "vmware") or self.model.lower() in ("virtual disk", "qemu harddisk", "virtual disk sas")
        return self.disk_name.startswith(("vd", "xvd")) or (virtual and not self.instance_storage)

    @property
    def is_memory(self) -> bool:
        return self.disk_name.startswith(("ram", "zram", "pmem"))

    @property
    def kind(self) -> str:
        """In words."""
        name = self.disk_name
        if self.is_memory:
            return "memory"
        if name.startswith("loop"):
            return "a loop device"
        if name.startswith("md"):
            return f"software RAID ({self.raid_level or 'unknown level'})"
        if name.startswith("dm-"):
            found = self._text("dm/uuid").split("-")[0]
            return {"LVM": "an LVM volume", "CRYPT": "an encrypted volume", "mpath": "a multipath device"}.get(
                found, "a device-mapper device"
            )
        if known := self.network or self.instance_storage:
            return known
        if self.is_virtual:
            return "a virtual disk"
        return "a rotating disk" if self.rotational else "a local SSD"

    def below(self) -> list[Block]:
        if self.depth >= DEPTH:
            return []
        found = [block_named(self.machine, name, self.depth + 1) for name in self.machine.names(f"{self.disk}/slaves")]
        if backing := self._text("loop/backing_file"):
            place = self.machine.mount_of(self.machine.resolve(backing))
            found.append(block_of_mount(self.machine, place, self.depth + 1) if place else None)
        return [item for item in found if item is not None]

    def leaves(self) -> Iterator[Block]:
        """The drives that it consists of; itself if nothing is known to be below it."""
        below = self.below()
        if not below:
            yield self
        for item in below:
            yield from item.leaves()

    def chain(self) -> Iterator[Block]:
        """Itself and all that is below it."""
        yield self
        for item in self.below():
            yield from item.chain()

    def __str__(self) -> str:
        leaves = [leaf for leaf in self.leaves() if leaf.name != self.name]
        words = f" on {', '.join(f'{leaf.name} ({leaf.kind})' for leaf in leaves)}" if leaves else ""
        return f"{self.name} ({self.kind}{words})"


def block_numbered(machine: Machine, number: str, depth: int = 0) -> Block | None:
    link = f"/sys/dev/block/{number}"
    return Block(machine, machine.resolve(link), depth) if machine.exists(f"{link}/stat") else None


def block_named(machine: Machine, name: str, depth: int = 0) -> Block | None:
    link = f"/sys/class/block/{name.replace('/', '!')}"
    return Block(machine, machine.resolve(link), depth) if machine.exists(f"{link}/stat") else None


def block_of_mount(machine: Machine, mount: Mount, depth: int = 0) -> Block | None:
    """By the number of the device; by its name for a file system with numbers of its own (btrfs)."""
    found = block_numbered(machine, mount.number, depth)
    if found is None and mount.source.startswith("/dev/"):
        found = block_named(machine, machine.resolve(mount.source).removeprefix("/dev/"), depth)
    return found
