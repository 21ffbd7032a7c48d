"""The lab: the slow disk and the memory limit, by the project's own scripts (lab/slowdisk.sh, lab/cgroup.sh)."""

from __future__ import annotations

import shutil
from pathlib import Path

from pgflash.errors import MachineError
from pgflash.system import Device, device_of, is_root, run

CANNOT = 3


def scripts() -> Path:
    """In the checkout, or installed beside this package."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "lab", package.parent / "lab"):
        if (folder / "slowdisk.sh").is_file():
            return folder
    raise MachineError("the lab's scripts are not installed with pgflash", "install pgflash with pip from the checkout")


def check(what: str) -> None:
    """Raises MachineError, saying what is missing, if this machine cannot model a disk."""
    if not is_root():
        raise MachineError(
            f"{what} is the lab's, which has to be mounted: that needs root",
            'run the same command as root (sudo), or name real storage: kind = "path", path = "/a/folder"',
        )
    done = run(["bash", str(scripts() / "slowdisk.sh"), "check"], what="the lab disk", check=False)
    if done.returncode != 0:
        raise MachineError(f"{what} is the lab's, and this machine cannot have it: {done.stdout.strip()}")


class LabDisk:
    """A modelled disk as a mounted file system, `folder`/mnt."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_up = False

    @property
    def files(self) -> Path:
        return self.folder / "mnt"

    def _script(self, *arguments: str, what: str, env: dict[str, str] | None = None) -> None:
        done = run(["bash", str(scripts() / "slowdisk.sh"), *arguments], what=what, env=env, check=False)
        if done.returncode != 0:
            raise MachineError(f"{what}: {done.stdout.strip()}")

    def up(self, size_mb: int, spindles: int, read_us: int, write_us: int, mb_per_s: int, offset: int = 0) -> None:
        """Mounts it, at full speed; offset: where on the device the file system begins."""
        numbers = [str(number) for number in (size_mb, spindles, read_us, write_us, mb_per_s)]
        self.is_up = True
        try:
            self._script("up", str(self.folder), *numbers, what="the lab disk", env={"SLOWDISK_OFFSET": str(offset)} if offset else None)
        except MachineError:
            self.down()
            raise
        self.fast()

    def fast(self) -> None:
        self._script("fast", str(self.folder), what="the lab disk")

    def slow(self) -> None:
        self._script("slow", str(self.folder), what="the lab disk")

    def device(self) -> Device | None:
        return device_of(self.files)

    def down(self) -> None:
        """Unmounts and removes it; may be repeated."""
        if self.is_up:
            self._script("down", str(self.folder), what="taking the lab disk away")
            self.is_up = False
        shutil.rmtree(self.folder, ignore_errors=True)


class MemoryLimit:
    """A control group that a server is started in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.words = "none"

    def make(self, megabytes: int) -> str:
        """What was set, such as "300 MB (cgroup v1)", or why nothing could be: "none: ..."."""
        done = run(["bash", str(scripts() / "cgroup.sh"), "make", str(self.folder), str(megabytes)], what="the memory limit", check=False)
        self.words = done.stdout.strip() if done.returncode == 0 else f"none: {done.stdout.strip()}"
        return self.words

    @property
    def is_made(self) -> bool:
        return not self.words.startswith("none")

    def enter_words(self) -> str:
        """Shell words that move the shell itself in."""
        return f"bash '{scripts() / 'cgroup.sh'}' enter '{self.folder}' $$"

    def drop(self) -> None:
        if self.is_made:
            run(["bash", str(scripts() / "cgroup.sh"), "drop", str(self.folder)], what="removing the memory limit", check=False)
            self.words = "none"
