"""The temporary folder in which everything of a measurement lies."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from pgflash.errors import MachineError
from pgflash.system import as_server_user, free_bytes, give_to_server_user, in_memory, run
from pgflash.units import show_bytes

LONGEST_SOCKET_FOLDER = 80
RANDOM = 8  # letters that mkdtemp adds
OTHER_FOLDER = "choose another folder with --dir"


def default_base() -> Path:
    """TMPDIR or /tmp, unless that is in memory: a disk it is not."""
    place = Path(os.environ.get("TMPDIR") or tempfile.gettempdir())
    if not place.is_dir() or in_memory(place):
        place = Path("/var/tmp")
    if not place.is_dir():
        raise MachineError("there is neither TMPDIR nor /var/tmp", "name a folder with --dir")
    return place


def check_base(base: Path, need: int) -> None:
    """Whether a work folder can be made there."""
    if not base.is_dir():
        raise MachineError(f"{base} is not a folder", "choose another with --dir")
    if in_memory(base):
        raise MachineError(f"{base} is in memory, and a disk it is not", "choose a folder on a disk with --dir")
    if run(as_server_user(["test", "-x", str(base)]), what="test", check=False).returncode != 0:
        raise MachineError(f"the user that runs the servers cannot reach {base}", OTHER_FOLDER)
    if free_bytes(base) < need:
        raise MachineError(f"{base} has {show_bytes(free_bytes(base))} free and about {show_bytes(need)} are needed", OTHER_FOLDER)


class Work:
    """`path`, with log/, scratch/ and socket/ in it; and folders below others that the user has named."""

    def __init__(self, base: Path, prefix: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=base.resolve()))
        self.path.chmod(0o755)
        if len(str(self.path)) > LONGEST_SOCKET_FOLDER:
            self.path.rmdir()
            raise MachineError(f"{self.path} is too long for the name of a socket", "choose a shorter folder with --dir")
        self._below: list[Path] = []
        self.log, self.scratch = self.folder("log"), self.folder("scratch")
        self.socket = self.servers_folder("socket")

    def folder(self, name: str) -> Path:
        path = self.path / name
        path.mkdir()
        return path

    def servers_folder(self, name: str) -> Path:
        """Of the user that the servers run as, and nobody else's."""
        path = self.folder(name)
        path.chmod(0o700)
        give_to_server_user(path)
        return path

    def below(self, folder: Path, prefix: str) -> Path:
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=folder)).resolve()
        give_to_server_user(path)
        self._below.append(path)
        return path

    def remove(self) -> None:
        for path in (*self._below, self.path):
            shutil.rmtree(path, ignore_errors=True)
