"""A memory limit around a server, so that the kernel's page cache does not hide the disk: a control group, version 1 or 2.

Both versions charge page cache to the process that read the page first: a limit of shared_buffers plus a little is what leaves a
server no page cache worth the name. Swap is denied to the group, or shared_buffers would go there.

What counts against the limit, in every measurement alike: the server's processes from their first page on, shared_buffers, and
the page cache of its data. What does not: the pages of its programs, which are read outside before (otherwise the server would
wait for its own code when memory is short), and the room of a flash file that lies in memory, which is taken before.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from pathlib import Path

from pgflash.errors import MachineError
from pgflash.system import give_to_server_user, in_memory, is_root, run
from pgflash.units import MB

HEADER = 65536  # of a flash file


def _mounts(kind: str) -> list[tuple[Path, str]]:
    """Where file systems of that type are mounted, and how."""
    rows = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [(Path(row[1]), row[3]) for row in rows if row[2] == kind]


def _tree() -> tuple[Path, int] | None:
    """Root of the groups that know memory, and the version."""
    for root, _ in _mounts("cgroup2"):
        with contextlib.suppress(OSError):
            if "memory" in (root / "cgroup.controllers").read_text().split():
                return root, 2
    return next(((root, 1) for root, options in _mounts("cgroup") if "memory" in options.split(",")), None)


class MemoryLimit:
    """A control group that a server is started in. `folder` keeps a note of it: whoever finds that can remove the group."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.words = "none"

    @property
    def is_made(self) -> bool:
        return not self.words.startswith("none")

    @property
    def _note(self) -> Path:
        return self.folder / "cgroup"

    @property
    def _switched_on(self) -> Path:
        return self.folder / "cgroup.switched_on"

    def make(self, megabytes: int) -> str:
        """What was set, such as "300 MB (cgroup v1)", or why nothing could be: "none: ..."."""
        self.drop()
        try:
            self.words = self._make(megabytes)
        except MachineError as error:
            self.words = f"none: no memory limit: {error}"
        return self.words

    def _make(self, megabytes: int) -> str:
        if not is_root():
            raise MachineError("needs root")
        tree = _tree()
        if tree is None:
            raise MachineError("the kernel has no memory controller, or none is mounted here")
        root, version = tree
        self.folder.mkdir(parents=True, exist_ok=True)
        switch = root / "cgroup.subtree_control"
        if version == 2 and "memory" not in switch.read_text().split():
            # systemd has switched it on already; elsewhere it is ours to switch on, and drop() switches it off again
            try:
                switch.write_text("+memory")
            except OSError as error:
                raise MachineError(f"{root} does not let its memory controller be used (a container?)") from error
            self._switched_on.write_text(str(root))
        group = root / f"pg_flashcache_lab.{secrets.token_hex(4)}"  # process ids repeat: the caller may be in a namespace
        # The note comes first: an interruption then leaves nothing that drop() would not find.
        self._note.write_text(str(group))
        try:
            group.mkdir()
            (group / ("memory.max" if version == 2 else "memory.limit_in_bytes")).write_text(str(megabytes * MB))
        except OSError as error:
            self.drop()
            raise MachineError(f"{root} is not writable (a container?)") from error
        swap = group / ("memory.swap.max" if version == 2 else "memory.swappiness")
        if swap.exists():
            swap.write_text("0")
        return f"{megabytes} MB (cgroup v{version})"

    def enter_words(self) -> str:
        """Shell words that move the shell itself in; what it becomes is counted there from its first page on."""
        return f"echo $$ >'{self._note.read_text()}/cgroup.procs'"

    def peak_mb(self) -> int | None:
        """The most that the group has held; version 2 knows only since Linux 5.19."""
        if self.is_made:
            for name in ("memory.peak", "memory.max_usage_in_bytes"):
                with contextlib.suppress(OSError):
                    return int((Path(self._note.read_text()) / name).read_text()) // MB
        return None

    def drop(self) -> None:
        """Once the group's processes have ended; may be repeated, and by another process than the one that made it."""
        self.words = "none"
        if self._note.exists():
            group = Path(self._note.read_text().strip() or "/nonesuch")
            for _ in range(100):  # the kernel counts a process for a moment after it has been waited for
                with contextlib.suppress(OSError):
                    group.rmdir()
                if not group.is_dir():
                    self._note.unlink(missing_ok=True)
                    break
                time.sleep(0.05)
        if self._switched_on.exists():
            with contextlib.suppress(OSError):
                (Path(self._switched_on.read_text()) / "cgroup.subtree_control").write_text("-memory")
            self._switched_on.unlink(missing_ok=True)


def read_programs(server: str) -> None:
    """The server's program and its libraries, by somebody outside the limit."""
    linked = run(["ldd", server], what="ldd", check=False).stdout.splitlines()
    for path in (server, *(words[2] for words in map(str.split, linked) if len(words) > 2 and words[2].startswith("/"))):
        with contextlib.suppress(OSError):
            Path(path).read_bytes()


def take_room(path: Path, size: int) -> None:
    """For a flash file: a new one, and in memory its room is taken by us."""
    path.unlink(missing_ok=True)
    if not in_memory(path.parent):
        return
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size + HEADER)
    path.chmod(0o600)
    give_to_server_user(path)
