"""A slow disk (or a modelled flash device) as a mounted ext4 file system, and what there is where nothing can be mounted.

    python3 -m pgflash.lab.storage check      says what is missing for it on this machine, if anything
    python3 -m pgflash.lab.storage up DIR SIZE_MB SPINDLES READ_SEEK_US WRITE_SEEK_US MB_PER_S [BACKING_FILE]
    python3 -m pgflash.lab.storage down DIR
    python3 -m pgflash.lab.storage fast DIR   suspends the model while it is mounted; `slow DIR` resumes it
    python3 -m pgflash.lab.storage reads DIR  read requests that the disk has answered since `up`

`up` leaves DIR/mnt mounted, or nothing at all: it undoes what it did when a step fails or a signal comes. `down` undoes
everything that `up` did in DIR, also after a half-finished `up`, and may be repeated. Exit status 3: this machine cannot have it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pgflash.errors import MachineError, PgflashError
from pgflash.system import Device, device_of, find_program, is_root, raise_on_signals, run

HERE = Path(__file__).resolve().parent
TOOLS = ("cc", "pkg-config", "losetup", "mkfs.ext4", "blkid", "fusermount3")
SPINS_FROM_US = 1000  # a disk whose reads take this long seeks; SSDs are at a tenth of it
LOOP_SETTINGS = ("scheduler", "rotational", "wbt_lat_usec")


@dataclass(frozen=True)
class Model:
    """So many spindles, each busy for a seek unless a request continues its last one, and for the bytes."""

    spindles: int = 4
    read_us: int = 4000
    write_us: int = 4000
    mb_per_s: int = 200

    def words(self) -> list[str]:
        return [str(number) for number in (self.spindles, self.read_us, self.write_us, self.mb_per_s)]


class Disk(Protocol):
    """What a cluster lies on. `name` is what JSON lines call it: model, preload or plain."""

    name: str
    files: Path

    def fast(self) -> None: ...
    def slow(self) -> None: ...
    def reads(self) -> int: ...
    def env(self, data: Path) -> dict[str, str]: ...
    def down(self) -> None: ...
    def __str__(self) -> str: ...


class PlainDisk:
    """The machine's own, with one speed."""

    name = "plain"

    def __init__(self, files: Path) -> None:
        self.files = files
        files.mkdir(exist_ok=True)

    def fast(self) -> None: ...

    def slow(self) -> None: ...

    def reads(self) -> int:
        """There is nothing to ask."""
        return 0

    def env(self, data: Path) -> dict[str, str]:
        """For the server whose data directory is there."""
        return {}

    def down(self) -> None: ...

    def __str__(self) -> str:
        return "the machine's own disk, not slowed down"


class DelayedReads(PlainDisk):
    """The fallback: the server's pread() takes as long as a disk would. Only reads below its base/ do."""

    name = "preload"

    def __init__(self, folder: Path, model: Model) -> None:
        super().__init__(folder / "files")
        self.model = model
        self.library, self.control = folder / "slowread.so", folder / "slowread.control"
        command = ["cc", "-O2", "-shared", "-fPIC", "-o", str(self.library), str(HERE / "slowread.c"), "-ldl"]
        run(command, what="building the delay of reads", error=MachineError)
        self.control.write_bytes(bytes(4096))
        self.control.chmod(0o666)

    def _switch(self, on: bytes) -> None:
        with self.control.open("r+b") as file:
            file.write(on)

    def fast(self) -> None:
        self._switch(b"0")

    def slow(self) -> None:
        self._switch(b"1")

    def reads(self) -> int:
        return int.from_bytes(self.control.read_bytes()[8:16], sys.byteorder)

    def env(self, data: Path) -> dict[str, str]:
        model = self.model
        return {
            "LD_PRELOAD": str(self.library), "SLOWREAD_CONTROL": str(self.control), "SLOWREAD_DIR": f"{data}/base/",
            "SLOWREAD_SPINDLES": str(model.spindles), "SLOWREAD_READ_US": str(model.read_us), "SLOWREAD_MB_PER_S": str(model.mb_per_s),
        }  # fmt: skip

    def __str__(self) -> str:
        return f"{_words(self.model)}, by delaying pread(): a fallback, nothing can be mounted here"


def _words(model: Model) -> str:
    return f"{model.spindles} spindles x {model.read_us // 1000} ms"


def check() -> None:
    """Raises MachineError, saying what is missing, if this machine cannot model a disk."""
    if not is_root():
        raise MachineError("needs root to mount")
    for tool in TOOLS:
        if not find_program(tool):
            raise MachineError(f"needs {tool} (packages fuse3, libfuse3-dev, gcc, pkg-config, e2fsprogs, mount)")
    if not _done("pkg-config", "--exists", "fuse3 >= 3.12"):
        raise MachineError("needs libfuse3-dev 3.12 or newer")
    for module, device, words in (("fuse", "/dev/fuse", "/dev/fuse"), ("loop", "/dev/loop-control", "loop devices")):
        # Where nothing has used them since boot, their device files may not be there yet.
        if not Path(device).is_char_device() and not (find_program("modprobe") and _done("modprobe", module) and Path(device).exists()):
            raise MachineError(f"this kernel or container offers no {words}")


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return run(command, what="the lab disk", check=False)


def _done(*command: str) -> bool:
    return _run(*command).returncode == 0


def _await(condition: Callable[[], bool]) -> bool:
    """At most 30 s (a machine may be busy). It is a matter of milliseconds, and polling is all that mount and losetup offer."""
    for _ in range(600):
        if condition():
            return True
        time.sleep(0.05)
    return False


def _mounted(path: Path) -> bool:
    """By the kernel's list: of a file system whose process has gone, nothing else can be asked."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    return any(line.split()[1].replace("\\040", " ") == str(path) for line in mounts)


def _put(path: Path, text: str) -> None:
    with contextlib.suppress(OSError):  # an older kernel, or one without it: as it is
        path.write_text(text)


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _where_else(devices: list[str]) -> str:
    """A mount namespace that was made meanwhile (a container, a service) has a copy of the mount, and holds the device."""
    for mounts in Path("/proc").glob("[0-9]*/mounts"):
        for device in {line.split(" ")[0] for line in _text(mounts).splitlines()} & set(devices):
            pid = mounts.parent.name
            return f": mounted for process {pid}, which has mounts of its own (nsenter --target {pid} --mount umount {device})"
    return ""


class LabDisk:
    """A modelled disk as a mounted file system, `folder`/mnt. The folder's files say how to take it away: loop, pid, queue."""

    name = "model"

    def __init__(self, folder: Path, model: Model | None = None) -> None:
        self.folder = folder
        self.model = model or Model()
        self.files = folder / "mnt"
        self._fuse = folder / "fuse"
        self._daemon: subprocess.Popen[bytes] | None = None

    def up(self, size_mb: int, offset: int = 0, backing: Path | None = None) -> None:
        """Mounts it, at full speed; offset: where on the device the file system begins, a multiple of 512, as in a partition."""
        check()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder = self.folder.resolve()
        self.files, self._fuse = self.folder / "mnt", self.folder / "fuse"
        if _mounted(self.files):
            raise MachineError(f"{self.files} is mounted already")
        try:
            self._up(size_mb, offset, backing or self.folder / "backing.img")
        except BaseException:
            self.down()
            raise

    def _up(self, size_mb: int, offset: int, backing: Path) -> None:
        self._fuse.mkdir(exist_ok=True)
        self.files.mkdir(exist_ok=True)
        program, source = self.folder / "slowdisk", HERE / "slowdisk.c"
        if not program.exists() or program.stat().st_mtime <= source.stat().st_mtime:
            flags = _run("pkg-config", "--cflags", "--libs", "fuse3").stdout.split()
            self._step("cc", "-O2", "-Wall", "-o", str(program), str(source), *flags, "-lpthread")
        if not backing.exists():
            try:
                self._step("fallocate", "-l", f"{size_mb}M", str(backing))
            except PgflashError:
                backing.unlink(missing_ok=True)
                raise
        # A fresh file system is made at full speed, before the model is put over it.
        if not _done("blkid", "-p", "--offset", str(offset), str(backing)):
            room = [f"{(size_mb * 1024 - (offset + 1023) // 1024) // 4 * 4}k"] if offset else []
            options = f"offset={offset},nodiscard,lazy_itable_init=0,lazy_journal_init=0"
            self._step("mkfs.ext4", "-q", "-F", "-b", "4096", "-E", options, "-m", "0", str(backing), *room)
        with (self.folder / "slowdisk.log").open("wb") as log:
            self._daemon = subprocess.Popen(
                [str(program), str(backing), str(self._fuse), *self.model.words()],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        (self.folder / "pid").write_text(f"{self._daemon.pid}\n")
        if not _await(lambda: self._served().exists() or self._gone()) or not self._served().exists():
            raise MachineError("FUSE could not mount: " + _text(self.folder / "slowdisk.log"))
        loop = self._attach(offset)
        self._note_queue(loop)
        if self.model.read_us >= SPINS_FROM_US:
            self._like_a_disk(loop)
        if not _done("mount", "-o", "noatime", loop, str(self.files)):
            raise MachineError(f"{loop} could not be mounted")
        (self.folder / "reads.base").write_text(f"{self.reads()}\n")
        self.fast()

    def _step(self, *command: str) -> None:
        run(command, what="the lab disk", error=MachineError)

    def _served(self) -> Path:
        return self._fuse / "disk"

    def _attach(self, offset: int) -> str:
        """Under the lock by which systemd, too, keeps others from the number that it is about to take."""
        with Path("/dev/loop-control").open("rb") as control:
            fcntl.flock(control, fcntl.LOCK_EX)
            done = _run("losetup", "-f", "--show", "--direct-io=on", "--offset", str(offset), str(self._served()))
        loop = done.stdout.strip()
        if done.returncode != 0:
            raise MachineError(f"no loop device could be set up: {done.stderr.strip()}")
        (self.folder / "loop").write_text(f"{loop}\n")
        return loop

    def _gone(self) -> bool:
        if self._daemon is not None:
            return self._daemon.poll() is not None
        return not Path(f"/proc/{_text(self.folder / 'pid') or 0}").exists()

    def _loops(self) -> list[str]:
        """Those over our file, whoever made them and whether or not the note of it was written."""
        return _run("losetup", "--list", "--noheadings", "--output", "NAME", "--associated", str(self._served())).stdout.split()

    # What the kernel takes our device for. A loop device is an SSD to it, and of an SSD it holds the writes back as soon as reads
    # take 2 ms (writeback throttling, wbt_lat_usec). A disk's reads always do: its writes would be let through one at a time.
    # The device outlives what was attached to it, settings and all: they are noted in a file, and put back from there.

    def _like_a_disk(self, loop: str) -> None:
        queue = _queue(loop)
        _put(queue / "rotational", "1")
        # Its own target for such a device, 75 ms; where it does not throttle at all it goes on so.
        if _text(queue / "wbt_lat_usec") not in ("", "0"):
            _put(queue / "wbt_lat_usec", "-1")

    def _note_queue(self, loop: str) -> None:
        texts = {name: _text(_queue(loop) / name) for name in LOOP_SETTINGS}
        chosen = {name: text.partition("[")[2].partition("]")[0] or text for name, text in texts.items() if text}
        (self.folder / "queue").write_text("".join(f"{name} {text}\n" for name, text in chosen.items()))

    def _restore_queue(self, loop: str) -> None:
        for line in _text(self.folder / "queue").splitlines():
            name, _, text = line.partition(" ")
            _put(_queue(loop) / name, text)

    def down(self) -> None:
        if not self.folder.is_dir():
            return
        if _mounted(self.files) and not _await(lambda: _done("umount", str(self.files))):
            # "busy" can outlast the last process by a moment; a lazy unmount is better than a disk left behind
            _run("umount", "-l", str(self.files))
        for loop in self._loops():
            self._restore_queue(loop)
            _run("losetup", "-d", loop)
        if not _await(lambda: not self._loops()):
            loops = self._loops()
            print(f"slowdisk: {' '.join(loops)} still in use{_where_else(loops)}", file=sys.stderr)
        if _mounted(self._fuse) and not _await(lambda: _done("fusermount3", "-u", str(self._fuse))):
            _run("umount", "-l", str(self._fuse))
        self._end_daemon()
        for name in ("loop", "pid", "queue"):
            (self.folder / name).unlink(missing_ok=True)

    def _end_daemon(self) -> None:
        """Unmounting ends it; the signal is for one that had not mounted yet."""
        pid = int(_text(self.folder / "pid") or 0)
        with contextlib.suppress(OSError):
            if pid and Path(f"/proc/{pid}/exe").readlink() == self.folder / "slowdisk":
                os.kill(pid, signal.SIGTERM)
                if not _await(self._gone):
                    os.kill(pid, signal.SIGKILL)
        if self._daemon is not None:
            self._daemon.wait(30)
            self._daemon = None

    def _signal(self, sign: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(_text(self.folder / "pid")), sign)

    def fast(self) -> None:
        self._signal(signal.SIGUSR1)

    def slow(self) -> None:
        self._signal(signal.SIGUSR2)

    def reads(self) -> int:
        """Requests that reached it since it was mounted."""
        device = Device(_queue(_text(self.folder / "loop")).parent)
        return device.counters().reads - int(_text(self.folder / "reads.base") or 0)

    def device(self) -> Device | None:
        return device_of(self.files)

    def env(self, data: Path) -> dict[str, str]:
        return {}

    def remove(self) -> None:
        """Down, and its image is gone."""
        self.down()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __str__(self) -> str:
        return f"{_words(self.model)}, {self.model.mb_per_s} MB/s each: an ext4 file system over FUSE"


def _queue(loop: str) -> Path:
    return Path("/sys/block") / Path(loop).name / "queue"


def slow_disk(folder: Path, size_mb: int, model: Model) -> LabDisk | DelayedReads:
    """The model, or the fallback where this machine cannot have it; why it cannot goes to standard error."""
    try:
        check()
    except MachineError as error:
        if is_root():
            print(f"slowdisk: {error}", file=sys.stderr)
        return DelayedReads(folder, model)
    disk = LabDisk(folder / "disk", model)
    disk.up(size_mb)
    return disk


def main(words: list[str]) -> int:
    match words:
        case ["check"]:
            check()
        case ["up", folder, size_mb, spindles, read_us, write_us, mb_per_s, *backing] if len(backing) < 2:
            disk = LabDisk(Path(folder), Model(int(spindles), int(read_us), int(write_us), int(mb_per_s)))
            disk.up(int(size_mb), backing=Path(backing[0]) if backing else None)
            disk.slow()
            print(f"{disk.files} on {_text(disk.folder / 'loop')}: {spindles} spindles x {read_us} us")
        case ["down" | "fast" | "slow" as verb, folder]:
            getattr(LabDisk(Path(folder).resolve()), verb)()
        case ["reads", folder]:
            print(LabDisk(Path(folder)).reads())
        case _:
            print("\n".join((__doc__ or "").splitlines()[2:7]), file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    raise_on_signals()
    try:
        sys.exit(main(sys.argv[1:]))
    except PgflashError as trouble:
        print(f"slowdisk: {trouble}", file=sys.stderr)
        sys.exit(trouble.exit_code)
