"""The lab's disk: what the kernel takes it for, and that nothing of it stays. Needs root."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pgflash.pilot.lab import LabDisk
from pgflash.pilot.own import schedulers
from pgflash.system import Device

from .servers import is_root

SETTINGS = ("scheduler", "rotational", "wbt_lat_usec")


def settings(device: Device) -> dict[str, str]:
    return {name: (device.queue / name).read_text().strip() for name in SETTINGS if (device.queue / name).exists()}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LabDisk]:
    lab = LabDisk(tmp_path / "lab")
    yield lab
    lab.down()


def up(disk: LabDisk, read_us: int) -> Device:
    disk.up(64, 2, read_us, read_us, 200)
    device = disk.device()
    assert device is not None
    return device


@pytest.mark.skipif(not is_root(), reason="the lab's disk has to be mounted: that needs root")
@pytest.mark.parametrize(("read_us", "rotational", "throttled_from_us"), [(4000, "1", "75000"), (150, "0", "2000")])
def test_a_disk_that_seeks_counts_as_one(disk: LabDisk, read_us: int, rotational: str, throttled_from_us: str) -> None:
    found = settings(up(disk, read_us))
    assert found["rotational"] == rotational
    if found.get("wbt_lat_usec", "0") != "0":  # a kernel without it, or with a scheduler that turns it off
        assert found["wbt_lat_usec"] == throttled_from_us


@pytest.mark.skipif(not is_root(), reason="the lab's disk has to be mounted: that needs root")
def test_the_loop_device_is_left_as_it_was(disk: LabDisk) -> None:
    before = {path.name: settings(Device(path)) for path in Path("/sys/block").glob("loop*")}
    device = up(disk, 4000)
    name = device.name
    other = next(each for each in device.schedulers() if each != device.scheduler())
    assert device.set_scheduler(other)
    assert device.throttle_writeback(False) or "wbt_lat_usec" not in before[name]
    disk.down()
    assert settings(device) == before[name]


@pytest.mark.parametrize(
    ("tuning", "read_us", "first"),
    [
        ("before", 4000, "bfq"),
        ("before", 150, "bfq"),
        ("after", 4000, "mq-deadline"),
        ("after", 1000, "mq-deadline"),
        ("after", 999, "none"),
    ],
)
def test_scheduler_for_a_disk(tuning: str, read_us: int, first: str) -> None:
    assert schedulers(tuning, read_us)[0] == first
