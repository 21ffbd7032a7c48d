"""Each check on a made-up machine: silent where all is well, and with exact words where one thing is wrong."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import pgflash.doctor.checks  # noqa: F401
from pgflash.doctor import report
from pgflash.doctor.check import REGISTRY, examine
from pgflash.doctor.document import documented
from pgflash.shown import console

from .fakes import DATA, GB, PID, Break, Fake

V1 = "1:1 / /cg rw - cgroup cgroup rw,memory"
V2 = "1:2 / /cg rw - cgroup2 cgroup2 rw"


def write(path: str, value: object) -> Break:
    return lambda fake: fake.put(path, value)


def setting(name: str, value: str) -> Break:
    return lambda fake: fake.set(name, value)


def log(name: str, value: object) -> Break:
    return lambda fake: fake.smart["nvme0n1"]["nvme_smart_health_information_log"].__setitem__(name, value)


def top(name: str, value: object) -> Break:
    return lambda fake: fake.smart["nvme0n1"].__setitem__(name, value)


def both(*parts: Break) -> Break:
    return lambda fake: [part(fake) for part in parts]


def waits(**counts: int) -> Break:
    kinds = {"CPU": "CPU", "transactionid": "Lock", "WALSync": "IO", "DataFileRead": "IO"}
    return lambda fake: setattr(fake, "samples", Counter({(kinds[name], name): count for name, count in counts.items()}))


def without_cache(fake: Fake) -> None:
    for name in list(fake.settings):
        if name.startswith("pg_flashcache."):
            del fake.settings[name]
    fake.server.cache = {}


def device_2(state: str, reason: str | None) -> Break:
    return lambda fake: fake.server.devices.append({"device": 2, "path": "/wal/2", "state": state, "reason": reason})


def timed(fake: Fake) -> None:
    """Of 1,000 reads 100 were timed, if others finish most of them."""
    fake.server.cache.update(disk_reads=1000, disk_read_time_us=4_200_000)
    fake.server.latency = [(1000.0, 4000.0, 100.0)]


def empty_cache(size: str) -> Break:
    return both(setting("pg_flashcache.size", size), lambda fake: fake.server.cache.update(slots=int(size), used=100))


def array(level: str, degraded: int) -> Break:
    def make(fake: Fake) -> None:
        at = fake.disk("md0", "9:0", "virtual", size_gb=100, rotational=0)
        fake.put(f"{at}/md/level", level)
        fake.put(f"{at}/md/degraded", degraded)
        fake.link(f"{at}/slaves/sdb", fake.at("sdb"))
        fake.mount("/wal", "9:0 / /wal rw,relatime - ext4 /dev/md0 rw")

    return make


def crypt(fake: Fake) -> None:
    at = fake.disk("dm-0", "253:0", "virtual", size_gb=100, rotational=0)
    fake.put(f"{at}/dm/uuid", "CRYPT-LUKS2-1-x")
    fake.put(f"{at}/dm/name", "flash")
    fake.link(f"{at}/slaves/nvme0n1p1", fake.at("nvme0n1p1"))
    fake.mount("/mnt/nvme", "253:0 / /mnt/nvme rw,noatime - ext4 /dev/mapper/flash rw")


def old_kernel(fake: Fake) -> None:
    fake.cachestat = False
    fake.put("/proc/sys/kernel/osrelease", "6.1.0-18-amd64")


def nodes(fake: Fake) -> None:
    for name in ("node0", "node1"):
        fake.put(f"/sys/devices/system/node/{name}/meminfo", "Node 0 MemTotal: 8388608 kB")


def group(**files: object) -> Break:
    def make(fake: Fake) -> None:
        fake.mount("/cg", V2)
        for name, value in files.items():
            fake.put(f"/cg/system.slice/{name.replace('_', '.')}", value)

    return make


def group_v1(fake: Fake) -> None:
    fake.mount("/cg", V1)
    fake.put(f"/proc/{PID}/cgroup", "4:memory:/pg")
    fake.put("/cg/pg/memory.limit_in_bytes", GB)


def moved(point: str, line: str) -> Break:
    return lambda fake: fake.mount(point, line)


REFUSED = 'the value of pg_flashcache.size is refused: "64G"'


def state(name: str, reason: str = "as it is", age_s: float = 1.0) -> Break:
    return lambda fake: fake.server.cache.update(state=name, reason=reason, state_age_s=age_s)


def pending(fake: Fake) -> None:
    fake.set("shared_buffers", "1048576", pending=True)


def created_only(fake: Fake) -> None:
    without_cache(fake)
    fake.server.extension = True


def no_trim(fake: Fake) -> None:
    (fake.root / "etc/systemd/system/timers.target.wants/fstrim.timer").unlink()


KUBELET = "/var/lib/kubelet/pods/0815-4711/volumes/kubernetes.io~{}/flash"
EMPTY_DIR = "is in an emptyDir of Kubernetes, which is on the kubelet's file system and goes with the pod"
VOLUME = "give the pod a volume on a local SSD of the node: docs/kubernetes.md"


def bound(plugin: str) -> Break:
    """As a pod sees it."""
    return moved("/mnt/nvme", f"259:1 {KUBELET.format(plugin)} /mnt/nvme rw,noatime - ext4 /dev/nvme0n1p1 rw")


def on_the_node(plugin: str) -> Break:
    def make(fake: Fake) -> None:
        fake.mount("/var/lib/kubelet", "259:1 / /var/lib/kubelet rw,noatime - ext4 /dev/nvme0n1p1 rw")
        fake.set("pg_flashcache.file", KUBELET.format(plugin) + "/cache")

    return make


NVME = "259:1 / /mnt/nvme rw,{options} - {kind} /dev/nvme0n1p1 rw"
SDA = "8:0 / {at} rw,{options} - {kind} {source} rw"
ROTATES = "says that it rotates"
OTHER = "choose a path on a local SSD for pg_flashcache.file"
RESTART = "restart the server"


def alter(name: str, value: str) -> str:
    return f"ALTER SYSTEM SET {name} = '{value}'; SELECT pg_reload_conf();"


def unit(line: str) -> str:
    return f"systemctl edit postgresql@.service: [Service] {line}, then restart the server"


def data(options: str = "relatime", kind: str = "ext4", source: str = "/dev/sda") -> Break:
    return moved(DATA, SDA.format(at=DATA, options=options, kind=kind, source=source))


def nvme(options: str = "noatime", kind: str = "ext4") -> Break:
    return moved("/mnt/nvme", NVME.format(options=options, kind=kind))


def unmounted(fake: Fake) -> None:
    del fake.mounts["/mnt/nvme"]


def gone_limits(**changed: object) -> Break:
    return lambda fake: fake.process_limits(**changed)


SMART = "smartctl --all /dev/nvme0n1"
CASES: list[tuple[str, str, Break, str, list[str]]] = [
    ("devices.flash_is_flash", "problem", lambda fake: fake.queue("nvme0n1", "rotational", 1), ROTATES, [OTHER]),
    ("devices.flash_is_flash", "problem", lambda fake: fake.model("nvme0n1", "Amazon Elastic Block Store"), "nvme0n1p1 is across a network: Amazon EBS", [OTHER]),
    ("devices.flash_is_flash", "problem", nvme(kind="nfs4"), "is on a network file system (nfs4)", [OTHER]),
    ("devices.flash_is_flash", "advice", nvme(kind="tmpfs"), "is in memory (tmpfs)", ["choose a path on a local SSD, or give the memory to shared_buffers"]),
    ("devices.flash_is_flash", "problem", bound("empty-dir"), EMPTY_DIR, [VOLUME]),
    ("devices.flash_is_flash", "problem", on_the_node("empty-dir"), EMPTY_DIR, [VOLUME]),
    ("devices.flash_is_flash", "problem", bound("aws-ebs"), "is on a network volume of Kubernetes (aws-ebs)", [VOLUME]),
    ("devices.data_on_flash", "advice", lambda fake: fake.queue("sda", "rotational", 0), "the data directory is on local flash: sda (a local SSD)", ["pgflash pilot run FILE.toml, which compares the server with and without the cache"]),
    ("devices.shared_device", "advice", moved("/wal", "259:0 / /wal rw,relatime - ext4 /dev/nvme0n1 rw"), "is on nvme0n1, as the WAL is", ["move the cache's file to another local SSD"]),
    ("devices.wal_device", "advice", moved("/wal", "8:0 / /wal rw,relatime - ext4 /dev/sda rw"), "is on sda, a rotating disk, as the data is", [f"stop the server, move {DATA}/pg_wal to another device, and put a symbolic link in its place"]),
    ("devices.instance_storage", "problem", lambda fake: fake.model("sdb", "Amazon EC2 NVMe Instance Storage"), "the WAL is on sdb: Amazon EC2 instance storage", ["move it to a disk that lasts; use the drive for the cache and for temp_tablespaces"]),
    ("devices.raid", "problem", array("raid1", 1), "is degraded: a drive is missing", ["mdadm --detail /dev/md0"]),
    ("devices.raid", "advice", array("raid5", 0), "is raid5 and has the WAL", ["put the WAL on RAID 1 or 10, or the cache on one drive"]),
    ("devices.alignment", "advice", lambda fake: fake.partition("nvme0n1", "nvme0n1p1", "259:1", start=63, size_gb=300), "begins at sector 63, which is no multiple of 4096 bytes", ["parted /dev/nvme0n1 align-check optimal 1", "make the partition anew"]),
    ("devices.scheduler", "advice", lambda fake: fake.queue("nvme0n1", "scheduler", "none [bfq]"), "an SSD with the cache, uses bfq", ["echo none > /sys/block/nvme0n1/queue/scheduler"]),
    ("devices.scheduler", "advice", lambda fake: fake.queue("sda", "scheduler", "[none] mq-deadline"), "a rotating disk with the data directory, uses none", ["echo mq-deadline > /sys/block/sda/queue/scheduler"]),
    ("devices.read_ahead", "advice", lambda fake: fake.queue("sda", "read_ahead_kb", 128), "reads 128 kB ahead, as a rotating device with the data directory", ["echo 4096 > /sys/block/sda/queue/read_ahead_kb"]),
    ("devices.read_ahead", "advice", lambda fake: fake.queue("sda", "read_ahead_kb", 0), "reads 0 kB ahead, as a rotating device with the data directory", ["echo 128 > /sys/block/sda/queue/read_ahead_kb"]),
    ("devices.discard_through", "advice", crypt, "takes no discards, nvme0n1p1 below it does", ["cryptsetup refresh --allow-discards --persistent flash"]),
    ("devices.spare_room", "advice", both(lambda fake: fake.partition("nvme0n1", "nvme0n1p1", "259:1", start=2048, size_gb=399), lambda fake: setattr(fake, "free", 9 * GB)), "10 GB of 400 GB are free", ["lower pg_flashcache.size (restart), so that a tenth of the drive is free"]),
    ("mounts.lasting_kind", "problem", data(kind="overlay"), "the data directory is in the container's own layer (overlay)", ["give the container a volume for it"]),
    ("mounts.lasting_kind", "problem", data(kind="nfs4", options="soft", source="nas:/x"), "the data directory is on NFS, mounted soft", [f"unmount {DATA}, and mount it with -o hard", f"fstab: hard for {DATA}"]),
    ("mounts.barriers", "problem", data(options="relatime,nobarrier"), "the data directory: mounted nobarrier", [f"mount -o remount,barrier=1 {DATA}", "fstab: without nobarrier"]),
    ("mounts.writable", "problem", moved("/mnt/nvme", "259:1 / /mnt/nvme ro,noatime - ext4 /dev/nvme0n1p1 ro"), "the cache: mounted read-only", ["dmesg --level err,warn", "umount, fsck and mount /mnt/nvme"]),
    ("mounts.atime", "advice", nvme(options="nodev"), "the cache: mounted strictatime", ["mount -o remount,noatime /mnt/nvme", "fstab: noatime for /mnt/nvme"]),
    ("mounts.sync", "advice", data(options="relatime,sync"), "the data directory: mounted sync", [f"mount -o remount,async {DATA}", f"fstab: without sync for {DATA}"]),
    ("mounts.discard", "advice", no_trim, "takes discards, but is neither mounted discard nor trimmed by fstrim.timer", ["systemctl enable --now fstrim.timer", "fstrim --verbose /mnt/nvme"]),
    ("mounts.journal", "advice", nvme(options="noatime,data=journal"), "mounted data=journal", ["unmount /mnt/nvme, and mount it with -o data=ordered"]),
    ("mounts.journal", "advice", nvme(kind="btrfs"), "is btrfs, which copies on write", ["put the cache on ext4 or XFS, or on a raw device"]),
    ("mounts.own_mount", "advice", unmounted, "is on the file system of /: is the flash mounted?", ["findmnt --target /mnt/nvme/pg_flashcache/cache", "mount the flash device, and choose a path on it"]),
    ("limits.open_files", "advice", gone_limits(**{"Max open files": 256}), "may open 256 files, max_files_per_process is 1000", [unit("LimitNOFILE=65536")]),
    ("limits.open_files", "advice", write("/proc/sys/fs/file-max", 5000), "is 5000; max_connections times max_files_per_process is 100000", ["sysctl -w fs.file-max=100000"]),
    ("limits.memlock", "advice", gone_limits(**{"Max locked memory": 65536}), "may lock 64 kB; 108 sessions and workers need 2.11 MB", [unit("LimitMEMLOCK=3M")]),
    ("limits.file_size", "problem", gone_limits(**{"Max file size": GB}), "may write files of 1 GB, pg_flashcache.size is 32 GB", [unit("LimitFSIZE=infinity")]),
    ("limits.oom", "advice", write(f"/proc/{PID}/oom_score_adj", 0), "has an oom_score_adj of 0", [f"choom --pid {PID} --adjust -900", unit("OOMScoreAdjust=-900")]),
    ("limits.io_uring", "problem", write("/proc/sys/kernel/io_uring_disabled", 2), "is 2", ["sysctl -w kernel.io_uring_disabled=0"]),
    ("limits.io_uring", "problem", lambda fake: setattr(fake, "io_uring", False), "is refused to this process: a container's seccomp profile, usually", ["allow io_uring_setup, io_uring_enter and io_uring_register in the seccomp profile"]),
    ("limits.cachestat", "advice", old_kernel, "is 6.1.0, cachestat came with 6.5", ["upgrade the kernel (Debian 12: bookworm-backports)"]),
    ("limits.group_memory", "problem", group(memory_max=4 * GB), "the limit is 4 GB, the server's shared memory 8.79 GB", ["raise the limit, or lower shared_buffers or pg_flashcache.size (restart)"]),
    ("limits.group_memory", "problem", group_v1, "the limit is 1 GB, the server's shared memory 8.79 GB", ["raise the limit, or lower shared_buffers or pg_flashcache.size (restart)"]),
    ("limits.group_memory", "problem", group(memory_high=GB), "memory.high is 1 GB, the server's shared memory 8.79 GB", ["raise memory.high (systemd: MemoryHigh=), or lower shared_buffers"]),
    ("limits.group_io", "advice", group(io_max="8:0 rbps=1000 wbps=max"), "the data directory: rbps=1000", ["raise the limit (systemd: IOReadBandwidthMax= and its kin)"]),
    ("memory.huge_pages", "advice", write("/proc/meminfo", "MemTotal: 33554432 kB\nHugePages_Total: 0"), "are 0, the server needs 4500", ["sysctl -w vm.nr_hugepages=4500", "lasting: vm.nr_hugepages = 4500 in /etc/sysctl.d/60-postgresql.conf", RESTART]),
    ("memory.transparent_huge_pages", "advice", write("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never"), "is always", ["echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"]),
    ("memory.swappiness", "advice", write("/proc/sys/vm/swappiness", 60), "is 60", ["sysctl -w vm.swappiness=10"]),
    ("memory.dirty_background", "advice", both(write("/proc/sys/vm/dirty_background_bytes", 0), write("/proc/sys/vm/dirty_background_ratio", 10)), "is 10", ["sysctl -w vm.dirty_background_bytes=268435456"]),
    ("memory.dirty_limit", "advice", both(write("/proc/sys/vm/dirty_bytes", 0), write("/proc/sys/vm/dirty_ratio", 20)), "is 20", ["sysctl -w vm.dirty_bytes=1073741824"]),
    ("memory.overcommit", "advice", write("/proc/sys/vm/overcommit_memory", 0), "is 0", ["set vm.overcommit_ratio so that CommitLimit in /proc/meminfo leaves room for shared memory and all sessions", "sysctl -w vm.overcommit_memory=2"]),
    ("memory.zone_reclaim", "problem", write("/proc/sys/vm/zone_reclaim_mode", 1), "is 1", ["sysctl -w vm.zone_reclaim_mode=0"]),
    ("memory.numa", "advice", nodes, "2 nodes, the smallest of 8 GB; shared memory is 8.79 GB", ["systemctl edit postgresql@.service: [Service] NUMAPolicy=interleave and NUMAMask=all, then restart the server"]),
    ("server.cache_state", "advice", created_only, "is without pg_flashcache, though the extension is in this database: there is no cache", ["ALTER SYSTEM SET shared_preload_libraries = ...: what is there, and pg_flashcache", RESTART]),
    ("server.cache_state", "problem", state("off", "io"), "off: io", ["correct what the reason names", "SELECT pg_flashcache_enable();"]),
    ("server.cache_devices", "problem", device_2("off", "io"), "device 2 is off: io", ["correct what the reason names", "SELECT pg_flashcache_enable_device('/wal/2');"]),
    ("devices.shared_device", "advice", device_2("active", None), "is on sdb, as the WAL is", ["move the cache's device 2 to another local SSD"]),
    ("server.cache_state", "problem", state("disabled", "size"), "disabled: size", ["correct what the reason names", RESTART]),
    ("server.cache_state", "problem", both(setting("pg_flashcache.size", "0"), state("disabled", REFUSED)), f"disabled: {REFUSED}", ["correct what the reason names", RESTART]),
    ("server.cache_state", "advice", state("disabled", "pg_flashcache.enabled is off"), "disabled: pg_flashcache.enabled is off", ["ALTER SYSTEM SET pg_flashcache.enabled = on; SELECT pg_reload_conf();"]),
    ("server.cache_state", "problem", state("starting", "the flash device is being opened", 61), "starting for 1 min 01 s: the flash device is being opened", ["find out what holds it up: the log, and whether the flash device answers"]),
    ("server.cache_size", "advice", setting("pg_flashcache.size", "1048576"), "is 8 GB, 1.0 times shared_buffers (8 GB)", ["ALTER SYSTEM SET pg_flashcache.size = '32768MB'", RESTART]),
    ("server.cache_size", "advice", empty_cache("16777216"), "is 128 GB, 16.0 times shared_buffers (8 GB), and not half full", ["ALTER SYSTEM SET pg_flashcache.size = '81920MB'", RESTART]),
    ("server.cache_size", "advice", both(setting("shared_buffers", "16384"), setting("pg_flashcache.size", "1048576")), "is 8 GB, 1.0 times the 8 GB that shared_buffers should be", ["ALTER SYSTEM SET pg_flashcache.size = '32768MB'", RESTART]),
    ("server.cache_memory", "problem", lambda fake: fake.server.cache.update(memory_bytes=24 * GB), "shared_buffers and the cache's memory need 32 GB of 32 GB", ["lower pg_flashcache.size or shared_buffers", RESTART]),
    ("server.shared_buffers", "advice", setting("shared_buffers", "16384"), "is 128 MB of 32 GB", ["ALTER SYSTEM SET shared_buffers = '8192MB'", RESTART]),
    ("server.require_mount", "advice", setting("pg_flashcache.require_mount", "off"), "is off", [alter("pg_flashcache.require_mount", "on")]),
    ("server.io_timeout", "advice", setting("pg_flashcache.io_timeout", "0"), "is 0", ["allow io_uring (limits.io_uring)", "ALTER SYSTEM RESET pg_flashcache.io_timeout; SELECT pg_reload_conf();"]),
    ("server.wal_level", "advice", setting("wal_level", "minimal"), "is minimal", ["ALTER SYSTEM SET wal_level = 'replica'", RESTART, "REINDEX DATABASE CONCURRENTLY"]),
    ("server.max_wal_size", "advice", lambda fake: setattr(fake.server, "checkpoints_requested", 95), "is 8 GB; 95 of 190 checkpoints were requested", [alter("max_wal_size", "16384MB")]),
    ("server.checkpoint_timeout", "advice", setting("checkpoint_timeout", "300"), "is 300 s", [alter("checkpoint_timeout", "15min")]),
    ("server.checkpoint_spread", "advice", setting("checkpoint_completion_target", "0.5"), "is 0.5", [alter("checkpoint_completion_target", "0.9")]),
    ("server.wal_compression", "advice", setting("wal_compression", "off"), "is off", [alter("wal_compression", "lz4")]),
    ("server.durable", "problem", setting("full_page_writes", "off"), "is off", [alter("full_page_writes", "on")]),
    ("server.io_concurrency", "advice", setting("effective_io_concurrency", "1"), "is 1", [alter("effective_io_concurrency", "32")]),
    ("server.random_page_cost", "advice", setting("random_page_cost", "4"), "is 4; 70% of the reads are hits", [alter("random_page_cost", "2")]),
    ("server.track_io_timing", "advice", setting("track_io_timing", "off"), "is off", [alter("track_io_timing", "on")]),
    ("server.track_io_timing", "advice", both(setting("track_io_timing", "off"), setting("io_method", "sync"), timed), "is off; by the cache's own measurement a page from disk takes 4.2 ms (pg_stat_flashcache)", [alter("track_io_timing", "on")]),
    ("server.track_io_timing", "advice", both(setting("track_io_timing", "off"), timed), "is off; by the cache's own measurement a page from disk takes 2 ms (pg_stat_flashcache_latency)", [alter("track_io_timing", "on")]),
    ("server.checksums", "advice", setting("data_checksums", "off"), "is off", ["stop the server", f"pg_checksums --enable --progress --pgdata {DATA}", "start the server"]),
    ("server.io_method", "advice", setting("io_method", "sync"), "is sync", ["ALTER SYSTEM SET io_method = 'worker'", RESTART]),
    ("server.pending_restart", "advice", pending, "was changed, and waits for a restart", [RESTART]),
    ("server.temp_tablespaces", "advice", lambda fake: setattr(fake.server, "temp_bytes", 20 * GB), "is empty; 20 GB of temporary files were written", ["CREATE TABLESPACE fast LOCATION '/mnt/nvme/temp'", "ALTER SYSTEM SET temp_tablespaces = 'fast'; SELECT pg_reload_conf();"]),
    ("waits.reads", "advice", both(without_cache, waits(DataFileRead=30, CPU=70)), "30% of the samples wait for reads of data files", ["pgflash pilot run FILE.toml, which measures what flash would bring"]),
    ("waits.no_reads", "advice", waits(CPU=99, DataFileRead=1), "99% of the samples use the processor, 1% wait for reads", ["look for expensive queries: pg_stat_statements, EXPLAIN (ANALYZE, BUFFERS)"]),
    ("waits.wal", "advice", waits(WALSync=20, DataFileRead=80), "20% of the samples wait for the WAL", ["put pg_wal on a device with a write cache that survives a loss of power", "pg_test_fsync"]),
    ("waits.locks", "advice", waits(transactionid=30, DataFileRead=70), "30% of the samples wait for locks", ["SELECT pid, pg_blocking_pids(pid), query FROM pg_stat_activity WHERE wait_event_type = 'Lock';"]),
    ("health.status", "problem", log("critical_warning", 4), "does not pass its own assessment (critical warning 0x04)", [SMART, "replace the drive"]),
    ("health.wear", "advice", log("percentage_used", 80), "80% of its rated life is used", [SMART, "replace the drive"]),
    ("health.wear", "problem", log("percentage_used", 100), "100% of its rated life is used", [SMART, "replace the drive"]),
    ("health.spare", "problem", log("available_spare", 10), "10% of its spare blocks are left, the threshold is 10%", [SMART, "replace the drive"]),
    ("health.media_errors", "problem", log("media_errors", 3), "has counted 3 errors of its medium", [SMART, "replace the drive"]),
    ("health.temperature", "advice", top("temperature", {"current": 75}), "has 75 degrees Celsius", ["check airflow and heat sink"]),
    # 10% of its life for 512 GB; 102.4 GB a day since boot (1.024 TB in 10 days): 90% more, 4608 GB, are 45 days
    ("health.days_left", "problem", lambda fake: fake.put(f"{fake.at('nvme0n1')}/stat", "1 1 1 1 1 1 2000000000 1 1 1 1"), "at 102 GB a day, its rated life is used in 45 days", ["ALTER SYSTEM SET pg_flashcache.write_limit = '20MB'; SELECT pg_reload_conf();", "plan its replacement"]),
    ("health.known_firmware", "problem", both(top("model_name", "Samsung SSD 980 PRO 2TB"), top("firmware_version", "3B2QGXA7")), "Samsung SSD 980 PRO 2TB with firmware 3B2QGXA7 may become read-only for good (https://www.pugetsystems.com/support/guides/critical-samsung-ssd-firmware-update/)", ["update the firmware to 5B2QGXA7 or later"]),
    ("health.known_firmware", "problem", both(top("model_name", "M4-CT128M4SSD2"), top("firmware_version", "0009")), "M4-CT128M4SSD2 with firmware 0009 stops to answer after 5184 hours of operation, and then every hour (https://hothardware.com/news/crucial-rolls-out-firmware-update-to-fix-funky-m4-ssd-issue)", ["update the firmware to 0309 or later"]),
    ("health.known_kernel", "problem", write("/proc/version", "Linux version 6.1.0-14-amd64 (x) #1 SMP Debian 6.1.64-1 (2023-11-30)"), "6.1.64: direct writes of ext4 may end at the wrong place in the file (https://bugs.debian.org/1057843)", ["apt-get install linux-image-amd64, and boot it (6.1.66-1 or later)"]),
]  # fmt: skip


def test_all_is_well(fake: Fake) -> None:
    facts = fake.facts()
    wrong = {item.id: examine(item, facts) for item in REGISTRY.values()}
    assert {
        name: result.findings or result.reason for name, result in wrong.items() if result.status not in ("fine", "not applicable")
    } == {}
    applies = {name for name, result in wrong.items() if result.status == "not applicable"}
    assert applies == {
        "devices.raid",
        "devices.discard_through",
        "limits.group_memory",
        "memory.numa",
        "server.temp_tablespaces",
        "waits.reads",
    }


def test_each_check_has_a_case() -> None:
    assert {case[0] for case in CASES} == set(REGISTRY)


@pytest.mark.parametrize(
    ("name", "status", "spoil", "what", "commands"), CASES, ids=[f"{number}-{case[0]}" for number, case in enumerate(CASES)]
)
def test_fires(fake: Fake, name: str, status: str, spoil: Break, what: str, commands: list[str]) -> None:
    spoil(fake)
    result = examine(REGISTRY[name], fake.facts())
    assert result.status == status, result
    found = result.findings[0]
    assert what in found.what if what == ROTATES else found.what == what
    assert ([found.change.command] if found.change else list(found.commands)) == commands


@pytest.mark.parametrize("buffers", ["16384", "131072", "1048576", "2097152"])  # 128 MB, 1 GB, 8 GB, 16 GB of 32 GB
@pytest.mark.parametrize("size", ["16384", "1048576", "8388608", "134217728"])  # 128 MB, 8 GB, 64 GB, 1 TB
def test_one_recommendation_of_shared_buffers(fake: Fake, buffers: str, size: str) -> None:
    both(setting("shared_buffers", buffers), empty_cache(size))(fake)
    facts = fake.facts()
    found = {item.id: [line for one in examine(item, facts).findings for line in one.commands] for item in REGISTRY.values()}
    values = {name: line for name, lines in found.items() for line in lines if "SET shared_buffers" in line}
    better = "ALTER SYSTEM SET shared_buffers = '8192MB'"
    assert values == ({} if buffers == "1048576" else {"server.shared_buffers": better})
    # and what is said of the cache goes with it
    wanted = {"16384": "32768MB", "1048576": "32768MB", "8388608": None, "134217728": "81920MB"}[size]
    assert found["server.cache_size"] == ([f"ALTER SYSTEM SET pg_flashcache.size = '{wanted}'", RESTART] if wanted else [])


def test_machine_alone(fake: Fake) -> None:
    facts = fake.facts(with_server=False)
    facts.flash, facts.data = "/mnt/nvme/pg_flashcache/cache", DATA
    results = {item.id: examine(item, facts) for item in REGISTRY.values()}
    assert {result.status for result in results.values()} == {"fine", "not applicable", "not looked"}
    assert all(result.status == "not looked" for name, result in results.items() if name.startswith(("server.", "waits.")))
    assert results["devices.scheduler"].status == results["health.wear"].status == "fine"


def test_server_elsewhere(fake: Fake) -> None:
    fake.server.local, fake.server.not_local, fake.server.postmaster = False, "elsewhere", None
    facts = fake.facts()
    results = {item.id: examine(item, facts) for item in REGISTRY.values()}
    assert results["server.wal_compression"].status == "fine"
    assert results["devices.scheduler"].reason == results["limits.open_files"].reason == results["memory.swappiness"].reason == "elsewhere"


@pytest.mark.parametrize(
    ("name", "spoil", "reason"),
    [
        ("server.require_mount", both(unmounted, setting("pg_flashcache.require_mount", "off")), "it is on /"),
        ("server.random_page_cost", lambda fake: fake.server.cache.update(hit_ratio=0.1), "10% of the reads are hits"),
        ("server.temp_tablespaces", lambda fake: setattr(fake.server, "temp_bytes", GB), "1 GB of temporary files were written"),
        ("server.cache_state", without_cache, "pg_flashcache is not in shared_preload_libraries"),
        ("server.cache_state", both(setting("pg_flashcache.size", "0"), state("disabled", "pg_flashcache.size is 0")), "size is 0"),
    ],
)
def test_nothing_is_fine_that_is_not_known(fake: Fake, name: str, spoil: Break, reason: str) -> None:
    spoil(fake)
    result = examine(REGISTRY[name], fake.facts())
    assert result.status == "not applicable" and result.reason.endswith(reason), result


@pytest.mark.parametrize(
    ("name", "spoil", "reason"),
    [
        ("server.cache_devices", lambda fake: setattr(fake.server, "devices_unasked", "GRANT it"), "GRANT it"),
        ("health.wear", both(lambda fake: setattr(fake, "smart", {}), lambda fake: setattr(fake.server, "drives_unasked", "GRANT it")), "GRANT it"),
    ],
)  # fmt: skip
def test_what_the_role_may_not_look_at_is_said(fake: Fake, name: str, spoil: Break, reason: str) -> None:
    spoil(fake)
    result = examine(REGISTRY[name], fake.facts())
    assert result.status == "not looked" and result.reason.endswith(reason), result
    assert examine(REGISTRY["server.cache_state"], fake.facts()).status == "fine"


def test_no_smartctl(fake: Fake) -> None:
    fake.smart = {}
    result = examine(REGISTRY["health.wear"], fake.facts())
    assert (result.status, result.reason) == ("not looked", "smartctl is not installed, or did not answer: apt-get install smartmontools")


def test_layers_are_seen_through(fake: Fake) -> None:
    crypt(fake)
    flash = fake.facts().role("flash")[0].block
    assert str(flash) == "dm-0 (an encrypted volume on nvme0n1p1 (a local SSD))"


def test_page_is_generated() -> None:
    page = Path(__file__).parents[2] / "docs/doctor.md"
    assert documented(page.read_text("utf-8")) == page.read_text("utf-8"), "python -m pgflash.doctor.document docs/doctor.md"


def test_what_is_to_be_done_is_said_once(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    """Two checks of one drive ask for the same."""
    fake.smart["nvme0n1"]["nvme_smart_health_information_log"].update({"media_errors": 3, "available_spare": 1})
    facts = fake.facts()
    results = [examine(REGISTRY[name], facts) for name in ("health.spare", "health.media_errors")]
    report.show(results, False, console())
    text = capsys.readouterr().out
    assert text.count("do: replace the drive\n") == text.count(f"do: {SMART}\n") == 1
    assert text.count("    do: as above\n") == 1
    assert "2 problems, 0 with advice" in text
    report.show(results[:1], False, console())
    assert "\n1 problem, 0 with advice" in capsys.readouterr().out
