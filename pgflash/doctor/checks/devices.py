"""Area devices: the block devices behind the server's files and the cache."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pgflash.doctor.check import DoesNotApply, Finding, Severity, Write, check
from pgflash.doctor.checks.common import KERNEL, PG, places, with_device
from pgflash.doctor.facts import Facts
from pgflash.doctor.facts.blocks import MEMORY_KINDS, NETWORK_KINDS, Block
from pgflash.doctor.facts.places import Place
from pgflash.units import show_bytes

ALL = ("data", "wal", "tablespace", "temp", "flash")
LASTING = ("data", "wal", "tablespace")
SYSFS = f"{KERNEL}/admin-guide/abi-stable.html"
VOLUMES = re.compile(r"/pods/[^/]+/volumes/kubernetes\.io~([^/]+)/[^/]+")
"""Where the kubelet has the volumes of pods, by the plugin that made them."""
EMPTY_DIR = "empty-dir"
VOLUME = "give the pod a volume on a local SSD of the node: docs/kubernetes.md"
NETWORK_PLUGINS = (
    "aws-ebs", "azure-disk", "azure-file", "cephfs", "cinder", "fc", "gce-pd", "glusterfs", "iscsi", "nfs", "portworx-volume", "quobyte",
    "rbd", "scaleio", "storageos", "vsphere-volume",
)  # fmt: skip
UDEV = 'lasting: a udev rule, such as ACTION=="add|change", KERNEL=="{name}", ATTR{{queue/{attribute}}}="{value}"'


def _drives(facts: Facts, *roles: str) -> Iterator[tuple[Block, str]]:
    """Each device below these places once, and for what it is used."""
    seen: set[str] = set()
    for place in with_device(facts, *roles):
        assert place.block
        for block in place.block.chain():
            if block.disk not in seen:
                seen.add(block.disk)
                yield block, place.words


@check(
    "devices", "flash_is_flash", "The cache is on local flash", severity=Severity.PROBLEM,
    question="Is the device behind the cache's file a local SSD?",
    why="The cache gains the difference between the disk and flash. On a rotating disk or across a network there is none, and in memory "
    "it takes what shared_buffers or the page cache could use. An emptyDir of Kubernetes is on whatever the kubelet is on.",
    source=f"{SYSFS} (queue/rotational); docs/operation.md, Is it worth it?",
)  # fmt: skip
def flash_is_flash(facts: Facts) -> Iterable[Finding]:
    for place in places(facts, "flash"):
        kind = place.mount.kind if place.mount else ""
        plugin = _plugin(facts, place)
        if plugin == EMPTY_DIR:
            yield Finding(
                place.path, "is in an emptyDir of Kubernetes, which is on the kubelet's file system and goes with the pod", (VOLUME,)
            )
        elif plugin in NETWORK_PLUGINS:
            yield Finding(place.path, f"is on a network volume of Kubernetes ({plugin})", (VOLUME,))
        elif kind in NETWORK_KINDS:
            yield Finding(place.path, f"is on a network file system ({kind})", ("choose a path on a local SSD for pg_flashcache.file",))
        elif kind in MEMORY_KINDS:
            yield Finding(
                place.path, f"is in memory ({kind})", ("choose a path on a local SSD, or give the memory to shared_buffers",),
                severity=Severity.ADVICE,
            )  # fmt: skip
        elif place.block is None:
            what = f"no block device is seen behind it (file system: {kind or 'unknown'})"
            yield Finding(place.path, what, ("mount a local SSD there, in a container as a volume",), severity=Severity.ADVICE)
        else:
            for leaf in place.block.leaves():
                yield from _is_flash(place.path, leaf)


def _plugin(facts: Facts, place: Place) -> str:
    """Of the volume of Kubernetes that a path is in: by the path on the node, in a pod by what is mounted there; empty: none."""
    mount = place.mount
    real = facts.machine.resolve(place.path)
    seen = (real, mount.point, mount.root) if mount else (real,)
    return next((found[1] for text in seen if (found := VOLUMES.search(text + "/"))), "")


def _is_flash(path: str, leaf: Block) -> Iterator[Finding]:
    other = ("choose a path on a local SSD for pg_flashcache.file",)
    if leaf.network:
        yield Finding(path, f"{leaf.name} is across a network: {leaf.network}", other)
    elif leaf.is_memory:
        yield Finding(path, f"{leaf.name} is memory", other, severity=Severity.ADVICE)
    elif leaf.is_virtual:
        what = f"{leaf.name} is a virtual disk, which does not say what is behind it{f' (model {leaf.model})' if leaf.model else ''}"
        yield Finding(path, what, ("pgflash pilot run quick",), severity=Severity.ADVICE)
    elif leaf.rotational:
        yield Finding(path, f"{leaf.name} says that it rotates{f' (model {leaf.model})' if leaf.model else ''}", other)


@check(
    "devices", "data_on_flash", "The data is on slower storage than the cache",
    question="Is the data directory, or a tablespace, on local flash already?",
    why="Where the data itself is on a local SSD, a second copy of it on flash saves nothing and costs a little.",
    source="README.md, When it does not help",
)  # fmt: skip
def data_on_flash(facts: Facts) -> Iterable[Finding]:
    if not facts.role("flash"):
        raise DoesNotApply("no cache is configured")
    for place in with_device(facts, "data", "tablespace"):
        assert place.block
        leaves = list(place.block.leaves())
        if all(leaf.kind == "a local SSD" or leaf.instance_storage for leaf in leaves):
            what = f"the {place.words} is on local flash: {place.block}"
            yield Finding(place.path, what, ("pgflash pilot run FILE.toml, which compares the server with and without the cache",))


@check(
    "devices", "shared_device", "The cache has a device of its own",
    question="Is the cache on the device of the data, the WAL or a tablespace?",
    why="Reads and writes of the cache then compete with those that it is to spare.",
    source="docs/settings.md, pg_flashcache.require_mount",
)  # fmt: skip
def shared_device(facts: Facts) -> Iterable[Finding]:
    for flash in with_device(facts, "flash"):
        assert flash.block
        mine = {leaf.disk for leaf in flash.block.leaves()}
        for place in with_device(facts, *LASTING):
            assert place.block
            if both := mine & {leaf.disk for leaf in place.block.leaves()}:
                names = ", ".join(sorted(disk.rsplit("/", 1)[1] for disk in both))
                what = flash.words if flash.name else "cache's file"
                yield Finding(flash.path, f"is on {names}, as the {place.words} is", (f"move the {what} to another local SSD",))


@check(
    "devices", "wal_device", "The WAL does not wait behind reads of a rotating disk",
    question="Is the WAL on the rotating disk that also has the data?",
    why="Each commit waits for a write to the WAL. On a rotating disk the head moves between it and the data.",
    source=f"{PG}/wal-internals.html",
)  # fmt: skip
def wal_device(facts: Facts) -> Iterable[Finding]:
    wal, data = with_device(facts, "wal")[0], with_device(facts, "data")[0]
    assert wal.block and data.block
    shared = {leaf.disk: leaf for leaf in data.block.leaves() if leaf.rotational and not leaf.is_virtual and not leaf.network}
    for leaf in wal.block.leaves():
        if leaf.disk in shared:
            commands = (f"stop the server, move {wal.path} to another device, and put a symbolic link in its place",)
            yield Finding(wal.path, f"is on {leaf.disk_name}, a rotating disk, as the data is", commands)


@check(
    "devices", "instance_storage", "What must last is not on instance storage", severity=Severity.PROBLEM,
    question="Are data, WAL or tablespaces on a drive that a stop of the virtual machine empties?",
    why="The content of instance storage is lost when the machine is stopped, moved or fails. Copies may be there (the cache), originals not.",
    source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/InstanceStorage.html; https://cloud.google.com/compute/docs/disks/local-ssd",
)  # fmt: skip
def instance_storage(facts: Facts) -> Iterable[Finding]:
    for place in with_device(facts, *LASTING):
        assert place.block
        for leaf in place.block.leaves():
            if leaf.instance_storage:
                what = f"the {place.words} is on {leaf.name}: {leaf.instance_storage}"
                yield Finding(place.path, what, ("move it to a disk that lasts; use the drive for the cache and for temp_tablespaces",))


@check(
    "devices", "raid", "Arrays are complete, and of a level that suits",
    question="Is a software RAID degraded, or the cache or WAL on RAID 5 or 6?",
    why="A degraded array has no redundancy left. RAID 5 and 6 read before they write, which small random writes pay for.",
    source=f"{KERNEL}/admin-guide/md.html",
)  # fmt: skip
def raid(facts: Facts) -> Iterable[Finding]:
    arrays = [(block, words) for block, words in _drives(facts, *ALL) if block.raid_level]
    if not arrays:
        raise DoesNotApply("no software RAID")
    for block, words in arrays:
        if (facts.machine.number(f"{block.disk}/md/degraded") or 0) > 0:
            yield Finding(
                block.disk_name, "is degraded: a drive is missing", (f"mdadm --detail /dev/{block.disk_name}",), severity=Severity.PROBLEM
            )
        if block.raid_level in ("raid5", "raid6") and words in ("cache", "WAL"):
            yield Finding(
                block.disk_name,
                f"is {block.raid_level} and has the {words}",
                (f"put the {words} on RAID 1 or 10, or the cache on one drive",),
            )


@check(
    "devices", "alignment", "Partitions begin at a multiple of 4 kB",
    question="Are partitions aligned to the device's physical blocks?",
    why="Each page that lies across two physical blocks makes the device read and write both.",
    source=f"{SYSFS} (alignment_offset, <partition>/alignment_offset); parted(8), align-check",
)  # fmt: skip
def alignment(facts: Facts) -> Iterable[Finding]:
    seen = set()
    for place in with_device(facts, *ALL):
        assert place.block
        for block in place.block.chain():
            start = facts.machine.number(f"{block.path}/start")
            if block.path in seen or start is None or block.path == block.disk:
                continue
            seen.add(block.path)
            physical = max(4096, block.queue_number("physical_block_size") or 0)
            offset = facts.machine.number(f"{block.path}/alignment_offset") or 0
            if offset != 0 or start * 512 % physical:
                what = f"begins at sector {start}, which is no multiple of {physical} bytes"
                number = facts.machine.text(f"{block.path}/partition")
                yield Finding(block.name, what, (f"parted /dev/{block.disk_name} align-check optimal {number}", "make the partition anew"))


@check(
    "devices", "scheduler", "The I/O scheduler suits the device",
    question="Does an SSD or virtual disk use none, mq-deadline or kyber, and a rotating disk mq-deadline or bfq?",
    why="bfq costs processor time at each request of a fast device. Without a scheduler, a rotating disk seeks in the order of requests.",
    source=f"{KERNEL}/block/switching-sched.html; {KERNEL}/block/bfq-iosched.html",
)  # fmt: skip
def scheduler(facts: Facts) -> Iterable[Finding]:
    for block, words in _drives(facts, *ALL):
        used, there = block.schedulers
        fast = not block.rotational or block.is_virtual or bool(block.network)
        better = "none" if fast and used == "bfq" else "mq-deadline" if not fast and used == "none" else ""
        if block.disk_name.startswith(("loop", "md", "dm-")) or better not in there:
            continue
        kind = "a virtual or network disk" if fast and block.rotational else "an SSD" if fast else "a rotating disk"
        yield Finding(
            block.disk_name, f"{kind} with the {words}, uses {used}", change=Write(block.queue_path("scheduler"), better),
            keep=UDEV.format(name=block.disk_name, attribute="scheduler", value=better),
        )  # fmt: skip


@check(
    "devices", "read_ahead", "Read-ahead suits the device",
    question="Is read-ahead switched off, very large, or small for a rotating disk?",
    why="PostgreSQL leaves the read-ahead of sequential scans to the kernel (before 17 wholly). A rotating disk needs more than 128 kB "
    "to stream; beyond some MB each scan reads what nobody asks for.",
    source=f"{SYSFS} (queue/read_ahead_kb); blockdev(8)",
)  # fmt: skip
def read_ahead(facts: Facts) -> Iterable[Finding]:
    for place in with_device(facts, "data", "tablespace"):
        assert place.block
        block = place.block
        size = block.queue_number("read_ahead_kb")
        rotates = all(leaf.rotational and not leaf.is_virtual for leaf in block.leaves())
        better = 0 if size is None else 128 if size == 0 else 4096 if size > 16384 else 4096 if rotates and size < 512 else 0
        if better:
            kind = "rotating " if rotates else ""
            yield Finding(
                block.disk_name, f"reads {size} kB ahead, as a {kind}device with the {place.words}",
                change=Write(block.queue_path("read_ahead_kb"), str(better)),
                keep=UDEV.format(name=block.disk_name, attribute="read_ahead_kb", value=better),
            )  # fmt: skip


@check(
    "devices", "discard_through", "Discards reach the drive below",
    question="Does a layer between file system and SSD (encryption, RAID, LVM) swallow discards?",
    why="The drive then takes all that was ever written for data, and has less room for wear levelling.",
    source=f"{SYSFS} (queue/discard_max_bytes); crypttab(5), discard",
)  # fmt: skip
def discard_through(facts: Facts) -> Iterable[Finding]:
    layered = False
    for place in with_device(facts, "flash"):
        assert place.block
        leaves = [leaf for leaf in place.block.leaves() if leaf.disk != place.block.disk]
        layered = layered or bool(leaves)
        if leaves and not place.block.queue_number("discard_max_bytes") and all(leaf.queue_number("discard_max_bytes") for leaf in leaves):
            names = ", ".join(leaf.name for leaf in leaves)
            crypt = f"cryptsetup refresh --allow-discards --persistent {facts.machine.text(f'{place.block.disk}/dm/name') or 'NAME'}"
            commands = (crypt,) if place.block.kind == "an encrypted volume" else (f"lsblk --discard /dev/{place.block.name}",)
            yield Finding(place.block.name, f"takes no discards, {names} below it does", commands)
    if not layered:
        raise DoesNotApply("nothing lies between the cache's file system and its drive")


@check(
    "devices", "spare_room", "The cache's drive has room for wear levelling",
    question="Is a tenth of the drive unpartitioned, or free on the cache's file system?",
    why="An SSD whose every block is in use has to move more pages for each that is written: it gets slower and wears out sooner. "
    "(Free space counts only where it is discarded: mounts.discard.)",
    source="Hu et al., Write amplification analysis in flash-based solid state drives, SYSTOR 2009, https://doi.org/10.1145/1534530.1534544",
)  # fmt: skip
def spare_room(facts: Facts) -> Iterable[Finding]:
    applies = False
    for place in with_device(facts, "flash"):
        block = place.block
        assert block
        if not all(leaf.kind == "a local SSD" for leaf in block.leaves()):
            continue
        applies = True
        free = facts.machine.free_bytes(place.path) if place.mount else 0
        parts = [
            facts.machine.number(f"{block.disk}/{name}/size") or 0
            for name in facts.machine.names(block.disk)
            if facts.machine.exists(f"{block.disk}/{name}/partition")
        ]
        outside = block.disk_bytes - sum(parts) * 512 if parts else 0
        if block.disk_bytes and (free or 0) + outside < block.disk_bytes // 10:
            what = f"{show_bytes((free or 0) + outside)} of {show_bytes(block.disk_bytes)} are free"
            yield Finding(block.disk_name, what, ("lower pg_flashcache.size (restart), so that a tenth of the drive is free",))
    if not applies:
        raise DoesNotApply("not a local SSD")
