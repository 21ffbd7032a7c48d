"""What the operating system tells and does: commands, signals, devices, the page cache. Linux, by Python's own library."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

from pgflash.errors import BrokeOff, DiskFull, MachineError

SERVER_USER = "postgres"
SBIN = "/usr/sbin:/sbin"


IO_URING_SETUP = 425
"""Number of the system call, on all architectures that PostgreSQL is packaged for."""


def is_root() -> bool:
    return os.geteuid() == 0


def io_uring_allowed() -> bool:
    """Do kernel and container let processes use io_uring? Asked for a ring of no entries, which there cannot be."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(IO_URING_SETUP, 0, None)
    return ctypes.get_errno() not in (errno.EPERM, errno.EACCES, errno.ENOSYS)


def as_server_user(command: Sequence[str]) -> list[str]:
    """PostgreSQL refuses to run as root; anybody else stays who they are."""
    return ["runuser", "-u", SERVER_USER, "--", *command] if is_root() else list(command)


def give_to_server_user(*paths: Path) -> None:
    if is_root():
        for path in paths:
            shutil.chown(path, SERVER_USER, SERVER_USER)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours, without what would lead libpq elsewhere, and with the folders of losetup and friends."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    kept["PATH"] = kept.get("PATH", "/usr/bin:/bin") + ":" + SBIN
    kept["LC_ALL"] = "C.UTF-8"
    kept.update(extra or {})
    return kept


def find_program(name: str, *folders: str) -> str:
    """Path of a program, or an empty text."""
    return shutil.which(name, path=os.pathsep.join([*folders, os.environ.get("PATH", ""), SBIN])) or ""


def run(
    command: Sequence[str],
    *,
    what: str,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    output: IO[str] | None = None,
    check: bool = True,
    error: type[BrokeOff] | type[MachineError] = BrokeOff,
) -> subprocess.CompletedProcess[str]:
    """Runs a command in a process group of its own, so that an interruption ends all of it; its output as a text, or to a file."""
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output if output is not None else subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment(env),
            cwd=cwd,
            start_new_session=True,
        )
    except FileNotFoundError as missing:
        raise MachineError(f"{what}: there is no program {command[0]}") from missing
    try:
        text, _ = process.communicate()
    except BaseException:
        end_group(process)
        raise
    done = subprocess.CompletedProcess(list(command), process.returncode, text or "", "")
    if check and done.returncode != 0:
        raise failure(what, done.returncode, done.stdout, error)
    return done


def end_group(process: subprocess.Popen[str]) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
            return


# The last one is a timer of raise_on_signals().
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """A Ctrl-C must not leave a mount or a server behind: one that comes meanwhile counts when this is done.

    By handlers, which commands that are started meanwhile do not inherit.
    """
    came: list[int] = []
    before = {sign: signal.signal(sign, lambda number, _: came.append(number)) for sign in ENDING}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
    if came:
        raise KeyboardInterrupt


def raise_on_signals() -> None:
    """What ends a command from outside is a KeyboardInterrupt, so that it leaves nothing behind.

    One that is raised while Python frees an object is swallowed: then it comes again, by a timer.
    """
    before = sys.unraisablehook

    def interrupt(_sign: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def swallowed(unraisable: sys.UnraisableHookArgs) -> None:
        if unraisable.exc_type is KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, 0.01)
        else:
            before(unraisable)

    for sign in ENDING:
        signal.signal(sign, interrupt)
    sys.unraisablehook = swallowed


def failure(what: str, status: int, text: str, error: type[BrokeOff] | type[MachineError] = BrokeOff) -> BrokeOff | MachineError:
    """The error for a command that failed, with the beginning and the end of what it said."""
    lines = text.strip().splitlines()
    tail = "\n".join(lines if len(lines) <= 16 else [*lines[:6], "...", *lines[-9:]])
    if "No space left on device" in text or "Disk quota exceeded" in text:
        return DiskFull(f"{what}: the disk is full\n{tail}", "make room, then run the same command again: it goes on where it stopped")
    return error(f"{what} failed (exit status {status}){':' if tail else ''}\n{tail}".rstrip())


def disk_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


# --- files and devices ------------------------------------------------------------------------------------


def file_system(path: Path) -> str:
    """Type of the file system that a path is on."""
    return _mount(path)[0]


def mount_options(path: Path) -> str:
    return _mount(path)[1]


def _mount(path: Path) -> tuple[str, str]:
    """Type and options of the one that a path is on; of several at one place the last. psutil lists mounts, and leaves it to the
    caller which of them a path is on; findmnt asks the kernel, also below links and bind mounts."""
    command = [find_program("findmnt", "/usr/bin"), "--noheadings", "--output", "FSTYPE,OPTIONS", "--target", str(path.resolve())]
    words = run(command, what="findmnt", check=False).stdout.split()
    return (words[-2], words[-1]) if len(words) > 1 else ("unknown", "")


def free_bytes(path: Path) -> int:
    return shutil.disk_usage(path).free


def in_memory(path: Path) -> bool:
    return file_system(path) in ("tmpfs", "ramfs")


@dataclass(frozen=True)
class Device:
    """A block device, as sysfs shows it."""

    sysfs: Path

    @property
    def name(self) -> str:
        return self.sysfs.resolve().name

    def counters(self) -> DeviceCounters:
        fields = [int(field) for field in (self.sysfs / "stat").read_text().split()]
        return DeviceCounters(fields[0], fields[2] * 512, fields[4], fields[6] * 512, fields[9])

    @property
    def queue(self) -> Path:
        """Of a partition: of the disk that it is on."""
        real = self.sysfs.resolve()
        return real / "queue" if (real / "queue").is_dir() else real.parent / "queue"

    def scheduler(self) -> str:
        with contextlib.suppress(OSError):
            words = (self.queue / "scheduler").read_text().split()
            return next((word.strip("[]") for word in words if word.startswith("[")), " ".join(words))
        return "unknown"

    def schedulers(self) -> list[str]:
        with contextlib.suppress(OSError):
            return [word.strip("[]") for word in (self.queue / "scheduler").read_text().split()]
        return []

    def set_scheduler(self, name: str) -> bool:
        try:
            (self.queue / "scheduler").write_text(name)
        except OSError:
            return False
        return self.scheduler() == name

    def throttle_writeback(self, on: bool) -> bool:
        """The kernel's writeback throttling, with its own latency target for this kind of device, or off."""
        try:
            (self.queue / "wbt_lat_usec").write_text("-1" if on else "0")
        except OSError:
            return False
        return True


@dataclass(frozen=True)
class DeviceCounters:
    reads: int
    read_bytes: int
    writes: int
    write_bytes: int
    busy_ms: int


def device_of(path: Path) -> Device | None:
    """The block device under a path; None where there is none to be seen (overlay, network, memory)."""
    number = path.stat().st_dev
    sysfs = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    return Device(sysfs) if (sysfs / "stat").exists() else None


def on_one_device(one: Path, other: Path) -> bool:
    """Are both in one file system? Where a path cannot be looked at, the nearest folder above it that can be counts for it."""
    return _number(one) == _number(other)


def _number(path: Path) -> int:
    for at in (path, *path.parents):
        with contextlib.suppress(OSError):
            return at.stat().st_dev
    return -1


def forget_files(folder: Path) -> None:
    """Has the kernel forget the clean pages of all files below a folder."""
    os.sync()
    for path in _files(folder):
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(handle)


def _files(folder: Path) -> Iterator[str]:
    for at, _, names in os.walk(folder):
        for name in names:
            yield f"{at}/{name}"


# --- the machine ------------------------------------------------------------------------------------------


def describe_machine() -> dict[str, str | int]:
    model = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return {
        "cpu": model or platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_mb": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // (1024 * 1024),
        "kernel": platform.release(),
        "system": _os_name(),
        "load": f"{os.getloadavg()[0]:.2f}",
    }


def _os_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/etc/os-release").read_text().splitlines():
            if line.startswith("PRETTY_NAME="):
                return line.split("=", 1)[1].strip('"')
    return platform.system()
