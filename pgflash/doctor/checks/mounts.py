"""Area mounts: the file systems of the server's files and of the cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pgflash.doctor.check import DoesNotApply, Finding, Severity, check
from pgflash.doctor.checks.common import KERNEL, PG, places, quoted
from pgflash.doctor.facts import Facts
from pgflash.doctor.facts.blocks import MEMORY_KINDS, NETWORK_KINDS
from pgflash.doctor.facts.machine import Mount
from pgflash.doctor.facts.places import Place

ALL = ("data", "wal", "tablespace", "temp", "flash")
MOUNT = "mount(8)"
EXT4 = f"{KERNEL}/admin-guide/ext4.html"
COPYING = ("btrfs", "zfs", "bcachefs")


def mounted(facts: Facts, *roles: str) -> Iterator[tuple[Place, Mount]]:
    """Each file system once."""
    seen = set()
    for place in places(facts, *roles):
        if place.mount and place.mount.point not in seen:
            seen.add(place.mount.point)
            yield place, place.mount


@check(
    "mounts", "lasting_kind", "Data and WAL are on a file system that keeps what was synced", severity=Severity.PROBLEM,
    question="Is a file system of the server in memory, a container's own layer, or a soft network mount?",
    why="What is in memory or in a container's layer goes with it. A soft mount returns errors when the network pauses, which PostgreSQL "
    "must take for lost data.",
    source=f"{PG}/creating-cluster.html#CREATING-CLUSTER-FILESYSTEM; nfs(5)",
)  # fmt: skip
def lasting_kind(facts: Facts) -> Iterable[Finding]:
    for place, mount in mounted(facts, "data", "wal", "tablespace"):
        if mount.kind in MEMORY_KINDS:
            yield Finding(mount.point, f"the {place.words} is in memory ({mount.kind})", ("move it to a disk",))
        elif mount.kind == "overlay":
            yield Finding(
                mount.point, f"the {place.words} is in the container's own layer (overlay)", ("give the container a volume for it",)
            )
        elif mount.kind in NETWORK_KINDS and mount.kind.startswith("nfs") and mount.options & {"soft", "softerr"}:
            what = f"the {place.words} is on NFS, mounted soft"
            yield Finding(
                mount.point, what, (f"unmount {quoted(mount.point)}, and mount it with -o hard", f"fstab: hard for {mount.point}")
            )


@check(
    "mounts", "barriers", "Write barriers are on", severity=Severity.PROBLEM,
    question="Is a file system of data or WAL mounted with barriers switched off?",
    why="Without them a commit that was confirmed may be lost with power, and the file system damaged.",
    source=f"{EXT4} (barrier); {PG}/wal-reliability.html",
)  # fmt: skip
def barriers(facts: Facts) -> Iterable[Finding]:
    for place, mount in mounted(facts, "data", "wal", "tablespace"):
        if off := sorted(mount.options & {"nobarrier", "barrier=0"}):
            command = f"mount -o remount,barrier=1 {quoted(mount.point)}"
            yield Finding(mount.point, f"the {place.words}: mounted {off[0]}", (command, f"fstab: without {off[0]}"))


@check(
    "mounts", "writable", "File systems are writable", severity=Severity.PROBLEM,
    question="Is a file system of the server or the cache read-only?",
    why="ext4 and others become read-only after an error of the device.",
    source=f"{EXT4} (errors=remount-ro); docs/operation.md, When the device fails",
)  # fmt: skip
def writable(facts: Facts) -> Iterable[Finding]:
    for place, mount in mounted(facts, *ALL):
        if "ro" in mount.options:
            yield Finding(
                mount.point, f"the {place.words}: mounted read-only", ("dmesg --level err,warn", f"umount, fsck and mount {mount.point}")
            )


@check(
    "mounts", "atime", "Reads do not write access times",
    question="Is a file system mounted with neither noatime nor relatime?",
    why="Each read then changes the file's inode, which is written. (relatime, the default, writes at most once a day.)",
    source=f"{MOUNT}: noatime, relatime, strictatime",
)  # fmt: skip
def atime(facts: Facts) -> Iterable[Finding]:
    for place, mount in mounted(facts, *ALL):
        if mount.kind in (*MEMORY_KINDS, *NETWORK_KINDS, "overlay") or mount.kind.startswith("fuse"):
            continue
        if not mount.options & {"noatime", "relatime"}:
            command = f"mount -o remount,noatime {quoted(mount.point)}"
            yield Finding(mount.point, f"the {place.words}: mounted strictatime", (command, f"fstab: noatime for {mount.point}"))


@check(
    "mounts", "sync", "Files are not written through at each write",
    question="Is a file system mounted sync, or with discard at each deletion?",
    why="sync makes each write wait for the device, though PostgreSQL syncs where it must. Online discards are sent in the middle of the "
    "load; a weekly fstrim does as well.",
    source=f"{MOUNT}: sync; fstrim(8)",
)  # fmt: skip
def sync(facts: Facts) -> Iterable[Finding]:
    for place, mount in mounted(facts, *ALL):
        if "sync" in mount.options:
            command = f"mount -o remount,async {quoted(mount.point)}"
            yield Finding(mount.point, f"the {place.words}: mounted sync", (command, f"fstab: without sync for {mount.point}"))
        if "discard" in mount.options and mount.kind in ("ext4", "xfs") and place.role != "flash":
            command = f"mount -o remount,nodiscard {quoted(mount.point)}"
            yield Finding(mount.point, f"the {place.words}: mounted discard", (command, "systemctl enable --now fstrim.timer"))


@check(
    "mounts", "discard", "The SSD of the cache is told what is free",
    question="Is the cache's file system mounted discard, or trimmed regularly?",
    why="A drive that does not know what is free moves it about as if it were data.",
    source="fstrim(8)",
)  # fmt: skip
def discard(facts: Facts) -> Iterable[Finding]:
    applies = False
    wants = "/etc/systemd/system/timers.target.wants/fstrim.timer"
    # A link: what it leads to need not be below our root.
    timer = facts.machine.at(wants).is_symlink() or facts.machine.exists(wants)
    timer = timer or any(facts.machine.exists(f"/etc/cron.{often}/fstrim") for often in ("daily", "weekly"))
    for place, mount in mounted(facts, "flash"):
        if place.block is None or place.block.rotational or not place.block.queue_number("discard_max_bytes"):
            continue
        applies = True
        if "discard" not in mount.options and not timer:
            commands = ("systemctl enable --now fstrim.timer", f"fstrim --verbose {quoted(mount.point)}")
            yield Finding(mount.point, "takes discards, but is neither mounted discard nor trimmed by fstrim.timer", commands)
    if not applies:
        raise DoesNotApply("no file system of the cache on a device that takes discards")


@check(
    "mounts", "journal", "The cache's file system writes a page once",
    question="Does the file system of the cache journal data, or copy on each write?",
    why="Pages of the cache need no journal: with data=journal each is written twice, and a file system that copies on write fragments the "
    "file and writes its tree at each page.",
    source=f"{EXT4} (data=journal, data=ordered); btrfs(5), nodatacow",
)  # fmt: skip
def journal(facts: Facts) -> Iterable[Finding]:
    for _, mount in mounted(facts, "flash"):
        if "data=journal" in mount.options:
            yield Finding(mount.point, "mounted data=journal", (f"unmount {quoted(mount.point)}, and mount it with -o data=ordered",))
        elif mount.kind in COPYING:
            yield Finding(mount.point, f"is {mount.kind}, which copies on write", ("put the cache on ext4 or XFS, or on a raw device",))


@check(
    "mounts", "own_mount", "The cache has a file system of its own",
    question="Is the cache's file on the file system of / or of the server's files?",
    why="If the flash device is not mounted, the same path leads to the disk below it; and the cache's file takes room from others.",
    source="docs/settings.md, pg_flashcache.require_mount",
)  # fmt: skip
def own_mount(facts: Facts) -> Iterable[Finding]:
    points = {place.mount.point: place.words for place in facts.role("wal", "data") if place.mount}
    for place, mount in mounted(facts, "flash"):
        if mount.point == "/" or mount.point in points:
            what = f"is on the file system of {mount.point if mount.point == '/' else 'the ' + points[mount.point]}: is the flash mounted?"
            commands = ("findmnt --target " + quoted(place.path), "mount the flash device, and choose a path on it")
            yield Finding(place.path, what, commands)
