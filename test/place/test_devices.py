"""Which devices may hold data that must last, on made-up trees of sysfs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pgflash.errors import MachineError
from pgflash.place.devices import Durability, durability, require_lasting


class Tree:
    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "dev" / "block").mkdir(parents=True)

    def device(self, name: str, number: int, *, slaves: tuple[str, ...] = (), parent: str = "", **files: str) -> None:
        folder = self.root / "devices" / (f"{parent}/{name}" if parent else name)
        folder.mkdir(parents=True)
        for path, text in files.items():
            file = folder / path.replace("__", "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text + "\n")
        if slaves:
            (folder / "slaves").mkdir()
        for slave in slaves:
            (folder / "slaves" / slave).symlink_to(self.root / "devices" / slave)
        (self.root / "dev" / "block" / f"8:{number}").symlink_to(folder)

    def look(self, number: int, table: str = "") -> Durability:
        return durability(Path("/x"), sys_root=self.root, number=os.makedev(8, number), table=lambda _: table)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    made = Tree(tmp_path)
    for number, name in enumerate(("sda", "sdb")):
        made.device(name, number, device__model="Disk")
    return made


def test_one_device(tree: Tree) -> None:
    tree.device("sda1", 9, parent="sda", partition="1")
    assert tree.look(0) == tree.look(9) == Durability("single", "sda is one device (Disk), and no mirror can be seen below it")


def test_md(tree: Tree) -> None:
    tree.device("md0", 2, slaves=("sda", "sdb"), md__level="raid1", md__degraded="0")
    tree.device("md1", 3, slaves=("sda", "sdb"), md__level="raid0")
    tree.device("md2", 4, slaves=("sda", "sdb"), md__level="raid10", md__degraded="1")
    assert tree.look(2) == Durability("mirrored", "md0 is raid1 of 2 devices")
    assert tree.look(3).state == "single"
    assert tree.look(4) == Durability("single", "md2 is raid10 and degraded: 1 of its devices missing")


def test_something_on_a_mirror(tree: Tree) -> None:
    tree.device("md0", 2, slaves=("sda", "sdb"), md__level="raid1", md__degraded="0")
    tree.device("dm-0", 3, slaves=("md0",), dm__name="vg-data")
    tree.device("dm-1", 4, slaves=("md0", "sda"), dm__name="vg-mixed")
    assert tree.look(3, "0 100 linear 9:0 0").lasting
    assert not tree.look(4, "0 100 linear 9:0 0\n100 200 linear 8:0 0").lasting


def test_device_mapper(tree: Tree) -> None:
    tree.device("dm-0", 2, slaves=("sda", "sdb"), dm__name="m")
    assert tree.look(2, "0 100 mirror core 1 1024 2 8:0 0 8:1 0").lasting
    assert tree.look(2, "0 100 raid raid1 3 0 region_size 1024 2 - 8:0 - 8:1").lasting
    assert not tree.look(2, "0 100 raid raid0 1 128 2 - 8:0 - 8:1").lasting
    assert not tree.look(2, "0 100 striped 2 128 8:0 0 8:1 0").lasting
    assert not tree.look(2, "0 50 mirror core 1 1024 2 8:0 0 8:1 0\n50 100 linear 8:0 0").lasting
    assert not tree.look(2).lasting
    for number in (0, 1):
        tree.device(f"dm-{number + 5}", number + 5, slaves=("sda",), dm__name=f"vg-lv_mimage_{number}")
    tree.device("dm-9", 8, slaves=("dm-5", "dm-6"), dm__name="vg-lv")
    assert tree.look(8).lasting


def test_instance_storage_vanishes_also_mirrored(tree: Tree) -> None:
    for number in (2, 3):
        tree.device(f"nvme{number}n1", number, device__model="Amazon EC2 NVMe Instance Storage")
    tree.device("md0", 4, slaves=("nvme2n1", "nvme3n1"), md__level="raid1", md__degraded="0")
    assert tree.look(2).state == tree.look(4).state == "vanishes"
    tree.device("nvme5n1", 5, device__model="Amazon Elastic Block Store")
    assert tree.look(5).lasting


def test_what_cannot_be_seen(tree: Tree) -> None:
    assert tree.look(77).state == "unknown"
    assert durability(Path("/dev/shm")).state == "vanishes"
    assert durability(Path("/nonesuch")).state == "unknown"
    with pytest.raises(MachineError, match="tablespace s: what is moved there may be lost: /dev/shm is in memory"):
        require_lasting("s", Path("/dev/shm"), accepted=False)
    assert require_lasting("s", Path("/dev/shm"), accepted=True).startswith("tablespace s: what is moved there may be lost")
