"""A machine of files: bare metal with its data on a rotating disk, its WAL on an SSD, and the cache on an NVMe drive. All is well."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pgflash.doctor.facts import Facts
from pgflash.doctor.facts.machine import Machine
from pgflash.doctor.facts.server import Server, Setting
from pgflash.doctor.facts.waits import Waits

DATA = "/var/lib/postgresql/15/main"
CACHE = "/mnt/nvme/pg_flashcache/cache"
PID = 100
GB = 1 << 30

HEALTHY = {
    "model_name": "A Good Drive", "firmware_version": "1", "smart_status": {"passed": True}, "temperature": {"current": 40},
    "power_on_time": {"hours": 1000},
    "nvme_smart_health_information_log": {
        "critical_warning": 0, "available_spare": 100, "available_spare_threshold": 10, "percentage_used": 10, "data_units_written": 1000000,
        "media_errors": 0,
    },
}  # fmt: skip


class Fake:
    """Change what is wrong, then ask for facts()."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.smart: dict[str, dict[str, Any]] = {name: json.loads(json.dumps(HEALTHY)) for name in ("sda", "sdb", "nvme0n1")}
        self.io_uring = True
        self.cachestat = True
        self.free = 100 * GB
        self.samples: Counter[tuple[str, str]] = Counter({("CPU", "CPU"): 50, ("IO", "DataFileRead"): 10})
        self.seconds = 5.0
        self.disk("sda", "8:0", "pci0000:00/ata1", rotational=1, scheduler="[mq-deadline] none bfq", read_ahead_kb=4096, size_gb=1000)
        self.disk("sdb", "8:16", "pci0000:00/ata2", rotational=0, scheduler="[none] mq-deadline bfq", size_gb=100, discard_max_bytes=GB)
        self.disk(
            "nvme0n1", "259:0", "pci0000:00/nvme/nvme0", rotational=0, scheduler="[none] mq-deadline bfq", size_gb=400, discard_max_bytes=GB
        )
        self.partition("nvme0n1", "nvme0n1p1", "259:1", start=2048, size_gb=300)
        self.mounts = {
            "/": "8:16 / / rw,relatime - ext4 /dev/sdb rw", DATA: f"8:0 / {DATA} rw,relatime - ext4 /dev/sda rw",
            "/wal": "8:16 / /wal rw,relatime - ext4 /dev/sdb rw", "/mnt/nvme": "259:1 / /mnt/nvme rw,noatime - ext4 /dev/nvme0n1p1 rw",
        }  # fmt: skip
        for folder in (f"{DATA}", "/wal", "/mnt/nvme/pg_flashcache", "/etc/systemd/system/timers.target.wants"):
            (root / folder.lstrip("/")).mkdir(parents=True)
        self.link(f"{DATA}/pg_wal", "/wal")
        self.link("/etc/systemd/system/timers.target.wants/fstrim.timer", "/lib/systemd/system/fstrim.timer")
        for name, value in {
            "swappiness": 1, "dirty_background_bytes": 256 << 20, "dirty_background_ratio": 0, "dirty_bytes": GB, "dirty_ratio": 0,
            "overcommit_memory": 2, "zone_reclaim_mode": 0,
        }.items():  # fmt: skip
            self.put(f"/proc/sys/vm/{name}", value)
        self.put("/proc/sys/kernel/osrelease", "6.12.0-1-amd64")
        self.put("/proc/sys/kernel/io_uring_disabled", 0)
        self.put("/proc/sys/fs/file-max", 1 << 40)
        self.put("/proc/meminfo", "MemTotal: 33554432 kB\nSwapTotal: 1048576 kB\nHugePages_Total: 5000\n")
        self.put("/proc/uptime", "864000.00 1.0")
        self.put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
        self.put("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 33554432 kB")
        self.put(f"/proc/{PID}/oom_score_adj", -900)
        self.process_limits()
        self.put(f"/proc/{PID}/cgroup", "0::/system.slice/pg.service")
        self.settings: dict[str, Setting] = {
            "data_directory": Setting(DATA), "max_files_per_process": Setting("1000"), "max_connections": Setting("100"),
            "max_worker_processes": Setting("8"), "shared_buffers": Setting("1048576", "8kB", "postmaster"),
            "shared_memory_size": Setting("9000", "MB", "internal"), "shared_memory_size_in_huge_pages": Setting("4500"),
            "huge_pages": Setting("try"), "temp_tablespaces": Setting(""), "wal_level": Setting("replica"),
            "max_wal_size": Setting("8192", "MB"), "checkpoint_timeout": Setting("900", "s"),
            "checkpoint_completion_target": Setting("0.9"), "wal_compression": Setting("lz4", values=("pglz", "lz4", "on", "off")),
            "fsync": Setting("on"), "full_page_writes": Setting("on"), "effective_io_concurrency": Setting("32"),
            "random_page_cost": Setting("2"), "track_io_timing": Setting("on"), "data_checksums": Setting("on"),
            "io_method": Setting("worker"), "pg_flashcache.file": Setting(CACHE),
            "pg_flashcache.size": Setting("4194304", "8kB", "postmaster"), "pg_flashcache.require_mount": Setting("on"),
            "pg_flashcache.io_timeout": Setting("1000", "ms"), "pg_flashcache.os_cache_probe": Setting("auto"),
        }  # fmt: skip
        cache = {"state": "active", "reason": None, "slots": 4194304, "used": 4194304, "hit_ratio": 0.7, "memory_bytes": 160 << 20}
        self.server = Server(
            180000, self.settings, postmaster=PID, cache=cache, checkpoints_timed=95, checkpoints_requested=5, identifier="1",
            changeable=frozenset(self.settings),
        )  # fmt: skip

    def put(self, path: str, value: object) -> None:
        at = self.root / path.lstrip("/")
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(f"{value}\n")

    def link(self, path: str, to: str) -> None:
        at = self.root / path.lstrip("/")
        at.parent.mkdir(parents=True, exist_ok=True)
        at.unlink(missing_ok=True)
        at.symlink_to(self.root / to.lstrip("/"))

    def disk(self, name: str, number: str, bus: str, *, size_gb: int, **queue: object) -> str:
        at = f"/sys/devices/{bus}/block/{name}"
        for key, value in ({"physical_block_size": 4096, "read_ahead_kb": 128, "discard_max_bytes": 0} | queue).items():
            self.put(f"{at}/queue/{key}", value)
        self.put(f"{at}/size", size_gb * GB // 512)
        self.put(f"{at}/dev", number)
        self.put(f"{at}/stat", "1 1 1 1 1 1 2000000 1 1 1 1")
        self._known(name, number, at)
        return at

    def partition(self, disk: str, name: str, number: str, *, start: int, size_gb: int) -> None:
        at = f"{self.at(disk)}/{name}"
        for key, value in {
            "partition": 1,
            "start": start,
            "size": size_gb * GB // 512,
            "stat": "0",
            "dev": number,
            "alignment_offset": 0,
        }.items():
            self.put(f"{at}/{key}", value)
        self._known(name, number, at)

    def _known(self, name: str, number: str, at: str) -> None:
        for path in (f"/sys/class/block/{name}", f"/sys/dev/block/{number}", f"/sys/block/{name}"):
            self.link(path, at)

    def at(self, name: str) -> str:
        return "/" + str((self.root / f"sys/class/block/{name}").resolve().relative_to(self.root.resolve()))

    def queue(self, name: str, key: str, value: object) -> None:
        self.put(f"{self.at(name)}/queue/{key}", value)

    def model(self, name: str, model: str) -> None:
        self.put(f"{self.at(name)}/device/model", model)

    def mount(self, point: str, line: str) -> None:
        self.mounts[point] = line

    def set(self, name: str, value: str, **other: Any) -> None:
        old = self.settings.get(name, Setting(""))
        self.settings[name] = Setting(value, old.unit, old.context, old.values, **other)

    def process_limits(self, **changed: object) -> None:
        rows = {"Max open files": 65536, "Max locked memory": "unlimited", "Max file size": "unlimited"} | changed
        lines = [f"{name:<26}{value!s:<21}{value!s:<21}units" for name, value in rows.items()]
        self.put(f"/proc/{PID}/limits", "\n".join(["Limit                     Soft Limit           Hard Limit           Units", *lines]))

    def run(self, words: Sequence[str]) -> str | None:
        name = words[-1].removeprefix("/dev/")
        return json.dumps(self.smart[name]) if name in self.smart else None

    def facts(self, with_server: bool = True) -> Facts:
        lines = "\n".join(f"{number} 1 {line}" for number, line in enumerate(self.mounts.values(), 20))
        for who in ("self", PID):
            self.put(f"/proc/{who}/mountinfo", lines)
        machine = Machine(self.root, self.run, lambda: self.io_uring, lambda: self.cachestat, lambda _: self.free)
        return Facts(machine, self.server if with_server else None, sample=lambda: Waits(self.seconds, self.samples))


Break = Callable[[Fake], object]
