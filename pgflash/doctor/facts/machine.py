"""The machine: files below a root (/, or a tree that a test has made), and commands through one runner."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import stat
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pgflash.system import environment, find_program, io_uring_allowed

CACHESTAT = 451
"""Number of the system call, on all architectures that PostgreSQL is packaged for."""

Runner = Callable[[Sequence[str]], str | None]
"""Runs a command and returns its standard output, whatever its exit status; None if there is no such program, or no answer."""


def run_command(words: Sequence[str]) -> str | None:
    program = find_program(words[0])
    if not program:
        return None
    try:
        done = subprocess.run(
            [program, *words[1:]], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", env=environment(), timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout


def cachestat_there() -> bool:
    """Asked of no file: a kernel that has the call says so, one that lacks or forbids it says that."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(CACHESTAT, -1, None, None, 0)
    return ctypes.get_errno() not in (errno.EPERM, errno.EACCES, errno.ENOSYS)


@dataclass(frozen=True)
class Mount:
    point: str
    root: str
    number: str
    """major:minor."""
    kind: str
    source: str
    options: frozenset[str]


def _plain(word: str) -> str:
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        word = word.replace(code, letter)
    return word


def parse_mounts(text: str) -> list[Mount]:
    """Lines of /proc/PID/mountinfo."""
    found = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        left, right = before.split(), after.split()
        if len(left) < 6 or len(right) < 2:
            continue
        options = left[5].split(",") + (right[2].split(",") if len(right) > 2 else [])
        found.append(Mount(_plain(left[4]), _plain(left[3]), left[2], right[0], _plain(right[1]), frozenset(options)))
    return found


class Machine:
    def __init__(
        self,
        root: Path = Path("/"),
        runner: Runner = run_command,
        io_uring: Callable[[], bool] = io_uring_allowed,
        cachestat: Callable[[], bool] = cachestat_there,
        free: Callable[[Path], int] | None = None,
    ) -> None:
        self.root = root.resolve()
        self.run = runner
        self.io_uring = io_uring
        self.cachestat = cachestat
        self._free = free or (lambda path: os.statvfs(path).f_bavail * os.statvfs(path).f_frsize)

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def text(self, path: str) -> str:
        """Without its last newline; empty if it cannot be read."""
        try:
            return self.at(path).read_text(errors="replace").strip()
        except OSError:
            return ""

    def number(self, path: str) -> int | None:
        text = self.text(path)
        return int(text) if text.lstrip("-").isdigit() else None

    def exists(self, path: str) -> bool:
        try:
            return self.at(path).exists()
        except OSError:
            return False

    def names(self, path: str) -> list[str]:
        try:
            return sorted(item.name for item in self.at(path).iterdir())
        except OSError:
            return []

    def resolve(self, path: str) -> str:
        """Without symbolic links; of what is not there, as far as it is."""
        found = self.at(path).resolve()
        return "/" + str(found.relative_to(self.root)) if found.is_relative_to(self.root) else str(found)

    def link(self, path: str) -> str:
        """What a symbolic link says; empty if it cannot be read."""
        try:
            return str(self.at(path).readlink())
        except OSError:
            return ""

    def readable(self, path: str) -> bool:
        try:
            self.at(path).stat()
        except OSError:
            return False
        return True

    def device_number(self, path: str) -> str:
        """major:minor of a block device; empty if the path is none."""
        try:
            found = self.at(path).stat()
        except OSError:
            return ""
        return f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}" if stat.S_ISBLK(found.st_mode) else ""

    def free_bytes(self, path: str) -> int | None:
        at = self.at(path)
        while not at.exists() and at != at.parent:
            at = at.parent
        try:
            return self._free(at)
        except OSError:
            return None

    def mounts(self, pid: int | None = None) -> list[Mount]:
        return parse_mounts(self.text(f"/proc/{pid or 'self'}/mountinfo"))

    def mount_of(self, path: str, mounts: list[Mount] | None = None) -> Mount | None:
        """The file system that a path without symbolic links is on; of several at one place the last."""
        best: Mount | None = None
        for item in self.mounts() if mounts is None else mounts:
            below = path == item.point or path.startswith(item.point.rstrip("/") + "/")
            if below and (best is None or len(item.point) >= len(best.point)):
                best = item
        return best

    @cached_property
    def kernel(self) -> tuple[int, ...]:
        """6.1.64-1 is (6, 1, 64). Debian's release says 6.1.0-14, its version has the rest."""
        found = re.search(r"Debian (\d+(?:\.\d+)+)-", self.text("/proc/version")) or re.match(
            r"(\d+(?:\.\d+)+)", self.text("/proc/sys/kernel/osrelease")
        )
        return tuple(int(part) for part in found[1].split(".")) if found else ()

    @cached_property
    def memory(self) -> dict[str, int]:
        """/proc/meminfo: bytes, or a number of huge pages."""
        found = {}
        for line in self.text("/proc/meminfo").splitlines():
            name, _, rest = line.partition(":")
            words = rest.split()
            if words and words[0].isdigit():
                found[name] = int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
        return found

    @cached_property
    def in_container(self) -> bool:
        return self.exists("/.dockerenv") or self.exists("/run/.containerenv") or self.exists("/run/systemd/container")
