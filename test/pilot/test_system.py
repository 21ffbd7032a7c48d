"""What is asked of the operating system."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from pgflash.pilot.sampler import cpu_seconds
from pgflash.system import describe_machine, file_system, in_memory, mount_options, on_one_device


def test_the_file_system_of_a_path(tmp_path: Path) -> None:
    assert file_system(Path("/proc/self/status")) == "proc"
    assert "," in mount_options(Path("/proc"))
    assert in_memory(Path("/dev/shm")) and not in_memory(Path("/proc"))
    assert (file_system(tmp_path / "nonesuch"), mount_options(tmp_path / "nonesuch")) == ("unknown", "")


def test_one_device(tmp_path: Path) -> None:
    assert on_one_device(tmp_path, tmp_path / "not/yet/there")
    assert not on_one_device(tmp_path, Path("/proc/self"))


def test_this_machine() -> None:
    machine = describe_machine()
    assert int(machine["cpus"]) >= 1 and int(machine["memory_mb"]) > 100
    assert float(machine["load"]) >= 0


def test_processor_time() -> None:
    """Busy and idle together are the time that passed, of all processors."""
    before, began = cpu_seconds(), time.monotonic()
    while time.monotonic() - began < 0.5:
        pass
    after = cpu_seconds()
    busy, idle = after[0] - before[0], after[1] - before[1]
    assert busy > 0 and idle >= 0


SWALLOWED = """
import os, signal, time
from pgflash.system import raise_on_signals

class Freed:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(100):
            pass

raise_on_signals()
try:
    Freed()
    time.sleep(60)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interruption_that_python_swallows_comes_again() -> None:
    """As it does with one that comes while an object is freed."""
    done = subprocess.run([sys.executable, "-c", SWALLOWED], capture_output=True, text=True, timeout=50, check=False)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")
