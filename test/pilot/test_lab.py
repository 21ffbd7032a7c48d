"""The lab's disk: what the kernel takes it for, and that nothing of it stays (needs root). Its clusters: a crash and a restart."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgflash.lab import storage
from pgflash.lab.cluster import Cluster, is_alive
from pgflash.lab.storage import LabDisk, Model
from pgflash.lab.work import Work
from pgflash.pilot.own import schedulers
from pgflash.system import Device

from .servers import bin_folder, is_root, needs_server, reachable

SETTINGS = ("scheduler", "rotational", "wbt_lat_usec")


def settings(device: Device) -> dict[str, str]:
    return {name: (device.queue / name).read_text().strip() for name in SETTINGS if (device.queue / name).exists()}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LabDisk]:
    lab = LabDisk(tmp_path / "lab")
    yield lab
    lab.down()


def up(disk: LabDisk, read_us: int) -> Device:
    disk.model = Model(2, read_us, read_us, 200)
    disk.up(64)
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
    # which one it will be is known afterwards; one that somebody else has at first may be like a disk yet
    before: dict[str, dict[str, str]] = {}
    while True:
        free = [device for device in Path("/sys/block").glob("loop*") if not (device / "loop").exists()]
        before |= {path.name: settings(Device(path)) for path in free}
        device = up(disk, 4000)
        if device.name in before:
            break
        disk.down()
    other = next(each for each in device.schedulers() if each != device.scheduler())
    assert device.set_scheduler(other)
    assert device.throttle_writeback(False) or "wbt_lat_usec" not in before[device.name]
    disk.down()
    assert settings(device) == before[device.name]


@pytest.mark.skipif(not is_root(), reason="the lab's disk has to be mounted: that needs root")
def test_says_who_holds_the_device(disk: LabDisk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    device = up(disk, 4000)
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", "echo ready; exec sleep 600"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        with monkeypatch.context() as patience:
            patience.setattr(storage, "_await", lambda condition: condition())
            disk.down()
        other.kill()
    said = capsys.readouterr().err
    name = f"/dev/{device.name}"
    assert said == (
        f"slowdisk: {name} still in use: mounted for process {other.pid}, which has mounts of its own"
        f" (nsenter --target {other.pid} --mount umount {name})\n"
    )


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


@needs_server
def test_a_cluster_that_was_killed_starts_as_it_was() -> None:
    for folder in reachable():
        work = Work(folder, "lab.")
        cluster = Cluster(work, "a", work.servers_folder("files") / "a", bin_folder())
        cluster.make()
        cluster.start({"work_mem": "5MB"})
        pid = cluster.postmaster()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        cluster.kill()
        assert children and not any(is_alive(each) for each in (str(pid), *children))
        cluster.start_again()
        assert cluster.sql("postgres", "SHOW work_mem") == "5MB"
        assert "was not properly shut down" in cluster.log.read_text()
        cluster.stop()
