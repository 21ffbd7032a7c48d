"""Area limits: of the server's processes, of its control group, and what kernel and container allow."""

from __future__ import annotations

from collections.abc import Iterable

from pgflash.doctor.check import CannotLook, DoesNotApply, Finding, Severity, check
from pgflash.doctor.checks.common import KERNEL, PG, cache_of, local_server, places
from pgflash.doctor.facts import Facts
from pgflash.doctor.facts.limits import Limits
from pgflash.doctor.facts.machine import Machine
from pgflash.units import show_bytes

RING_BYTES = 20 * 1024
"""Locked memory for a session's io_uring: docs/operation.md has 8 MB for 400 sessions."""
UNIT = "systemctl edit postgresql@.service: [Service] {line}, then restart the server"


def _limits(facts: Facts) -> Limits:
    local_server(facts)
    if facts.limits is None:
        raise CannotLook("the limits of the postmaster cannot be read")
    return facts.limits


@check(
    "limits", "open_files", "The server may open the files it wants",
    question="Is the limit of open files at least max_files_per_process, and fs.file-max enough for all sessions?",
    why="Below it, the server closes and opens files all the time, and each session of the cache needs a descriptor for the file and one "
    "for its io_uring.",
    source=f"{PG}/kernel-resources.html#SYSVIPC-PARAMETERS (file-max); {PG}/runtime-config-resource.html#GUC-MAX-FILES-PER-PROCESS",
)  # fmt: skip
def open_files(facts: Facts) -> Iterable[Finding]:
    server, limits = local_server(facts), _limits(facts)
    wanted = int(server.number("max_files_per_process"))
    limit = limits.get("Max open files")
    if limit is not None and limit < wanted:
        yield Finding(
            "postmaster",
            f"may open {limit} files, max_files_per_process is {wanted}",
            (UNIT.format(line=f"LimitNOFILE={max(65536, wanted)}"),),
        )
    total = facts.machine.number("/proc/sys/fs/file-max")
    need = wanted * int(server.number("max_connections"))
    if total is not None and total < need:
        yield Finding(
            "fs.file-max", f"is {total}; max_connections times max_files_per_process is {need}", (f"sysctl -w fs.file-max={need}",)
        )


@check(
    "limits", "memlock", "Sessions may lock memory for io_uring",
    question="Is the limit of locked memory enough for io_uring in each session?",
    why="A session that gets no io_uring reads from the disk alone (reads_unbounded counts the pages).",
    source="docs/operation.md, Without io_uring; getrlimit(2), RLIMIT_MEMLOCK",
)  # fmt: skip
def memlock(facts: Facts) -> Iterable[Finding]:
    server = cache_of(facts)
    limit = _limits(facts).get("Max locked memory")
    sessions = int(server.number("max_connections") + server.number("max_worker_processes"))
    if limit is not None and limit < sessions * RING_BYTES:
        megabytes = -(-sessions * RING_BYTES // (1 << 20))
        what = f"may lock {show_bytes(limit)}; {sessions} sessions and workers need {show_bytes(sessions * RING_BYTES)}"
        yield Finding("postmaster", what, (UNIT.format(line=f"LimitMEMLOCK={megabytes}M"),))


@check(
    "limits", "file_size", "The cache's file may be as large as it is to be", severity=Severity.PROBLEM,
    question="Is there a limit of file sizes below pg_flashcache.size?",
    why="Writes beyond it fail, and the cache switches itself off (File too large).",
    source="docs/operation.md, When the device fails; getrlimit(2), RLIMIT_FSIZE",
)  # fmt: skip
def file_size(facts: Facts) -> Iterable[Finding]:
    size = cache_of(facts).bytes("pg_flashcache.size")
    limit = _limits(facts).get("Max file size")
    if limit is not None and limit < size + 65536:
        what = f"may write files of {show_bytes(limit)}, pg_flashcache.size is {show_bytes(size)}"
        yield Finding("postmaster", what, (UNIT.format(line="LimitFSIZE=infinity"),))


@check(
    "limits", "oom", "The kernel kills others before the postmaster",
    question="Is the postmaster protected from the kernel's OOM killer?",
    why="If it is killed, all sessions end, and the server recovers as after a crash.",
    source=f"{PG}/kernel-resources.html#LINUX-MEMORY-OVERCOMMIT",
)  # fmt: skip
def oom(facts: Facts) -> Iterable[Finding]:
    server = local_server(facts)
    score = facts.machine.number(f"/proc/{server.postmaster}/oom_score_adj")
    if score is None:
        raise CannotLook("oom_score_adj of the postmaster cannot be read")
    if score > -900:
        yield Finding(
            "postmaster",
            f"has an oom_score_adj of {score}",
            (f"choom --pid {server.postmaster} --adjust -900", UNIT.format(line="OOMScoreAdjust=-900")),
        )


@check(
    "limits", "io_uring", "io_uring is allowed", severity=Severity.PROBLEM,
    question="Do kernel and container let processes use io_uring?",
    why="Without it no session can stop waiting for a device that hangs: the cache stays off, unless io_timeout is 0.",
    source=f"{KERNEL}/admin-guide/sysctl/kernel.html#io-uring-disabled; docs/operation.md, Without io_uring",
)  # fmt: skip
def io_uring(facts: Facts) -> Iterable[Finding]:
    machine = facts.machine
    if facts.server and not facts.server.local:
        raise CannotLook(facts.server.not_local)
    if machine.kernel and machine.kernel < (5, 11):
        yield Finding("kernel", f"is {_version(machine)}, 5.11 is needed", ("upgrade the kernel, or set pg_flashcache.io_timeout = 0",))
        return
    disabled = machine.number("/proc/sys/kernel/io_uring_disabled")
    group = machine.number("/proc/sys/kernel/io_uring_group")
    if disabled == 2 or (disabled == 1 and group in (None, -1)):
        yield Finding("kernel.io_uring_disabled", f"is {disabled}", ("sysctl -w kernel.io_uring_disabled=0",))
    elif not machine.io_uring():
        what = "is refused to this process: a container's seccomp profile, usually"
        yield Finding("io_uring_setup", what, ("allow io_uring_setup, io_uring_enter and io_uring_register in the seccomp profile",))


def _version(machine: Machine) -> str:
    return ".".join(map(str, machine.kernel))


@check(
    "limits", "cachestat", "The kernel tells what its page cache holds",
    question="Is there cachestat(2), from Linux 6.5 on?",
    why="With it the cache leaves pages that the kernel holds to the kernel (os_cache_probe). Without it, it reads them from flash.",
    source="https://man7.org/linux/man-pages/man2/cachestat.2.html; docs/settings.md, pg_flashcache.os_cache_probe",
)  # fmt: skip
def cachestat(facts: Facts) -> Iterable[Finding]:
    if facts.server and not facts.server.local:
        raise CannotLook(facts.server.not_local)
    if facts.server and facts.server.get("pg_flashcache.os_cache_probe") == "off":
        raise DoesNotApply("os_cache_probe is off")
    if facts.machine.cachestat():
        return
    if facts.machine.kernel < (6, 5):
        yield Finding(
            "kernel", f"is {_version(facts.machine)}, cachestat came with 6.5", ("upgrade the kernel (Debian 12: bookworm-backports)",)
        )
    else:
        yield Finding("cachestat", "is refused to this process", ("allow cachestat in the container's seccomp profile",))


@check(
    "limits", "group_memory", "The control group has room for the server's shared memory", severity=Severity.PROBLEM,
    question="Do shared_buffers and the cache's memory fit into seven eighths of the memory limit, and below memory.high?",
    why="Beyond it the kernel kills processes of the server; above memory.high it slows all of them down.",
    source=f"{KERNEL}/admin-guide/cgroup-v2.html#memory-interface-files; docs/settings.md, pg_flashcache.size",
)  # fmt: skip
def group_memory(facts: Facts) -> Iterable[Finding]:
    server = local_server(facts)
    need = server.bytes("shared_memory_size") or server.bytes("shared_buffers") + int(server.cache.get("memory_bytes") or 0)
    control = facts.control
    if control.memory is None and control.high is None:
        raise DoesNotApply("no memory limit")
    if control.memory is not None and need > control.memory * 7 // 8:
        what = f"the limit is {show_bytes(control.memory)}, the server's shared memory {show_bytes(need)}"
        yield Finding(control.memory_at, what, ("raise the limit, or lower shared_buffers or pg_flashcache.size (restart)",))
    if control.high is not None and need > control.high:
        what = f"memory.high is {show_bytes(control.high)}, the server's shared memory {show_bytes(need)}"
        yield Finding("memory.high", what, ("raise memory.high (systemd: MemoryHigh=), or lower shared_buffers",))


@check(
    "limits", "group_io", "The control group does not limit the I/O of these devices",
    question="Is there a limit of I/O for the devices of the server or of the cache?",
    why="Reads wait for the limit, however fast the device is.",
    source=f"{KERNEL}/admin-guide/cgroup-v2.html#io-interface-files",
)  # fmt: skip
def group_io(facts: Facts) -> Iterable[Finding]:
    for place in places(facts, "data", "wal", "tablespace", "temp", "flash"):
        if place.block and (words := facts.control.io.get(facts.machine.text(f"{place.block.disk}/dev"))):
            yield Finding(
                place.block.disk_name, f"the {place.words}: {words}", ("raise the limit (systemd: IOReadBandwidthMax= and its kin)",)
            )
