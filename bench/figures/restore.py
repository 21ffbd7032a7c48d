"""How long does a server wait for the log of its entries, by the size of the cache? A million entries, ten, and 128 (1 TB of flash): made
up, by a build for tests, with pages of relations that there are not, on a device of which only the log exists. What is loaded is as long
as any such log; what is read from it afterwards is nothing.

clean    a fast stop: how long it takes, when the first connection comes, when the cache is active
crash    the same after a kill -9 of all processes
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.figures.restart import PERSISTENT, moments, restored
from bench.harness import DATABASE, Bench, say
from pgflash.errors import BrokeOff, MachineError
from pgflash.lab import extension
from pgflash.lab.cluster import Cluster, programs
from pgflash.system import give_to_server_user, is_root, run
from pgflash.units import MB

PAGE = 8192
MILLIONS = (1, 10, 128)
SLOT_BYTES = 64  # of shared memory, more than it is
FIRST_S = 900


def figure(bench: Bench) -> None:
    if not is_root():
        raise MachineError("a device of 1 TB without anything behind it takes root: losetup")
    folder = bench.work.path / "made-up"
    folder.mkdir()
    built = extension.provide(programs(bench.major), bench.major, "build", folder, defines="-DFC_FAILPOINTS")
    ends: list[str] = []
    for millions in MILLIONS:
        if not _fits(millions):
            say(f"no memory for {millions} million entries")
            continue
        with _device(bench.work.path, millions * 1_000_000 * PAGE) as device:
            ends += [f"{end}.{millions}m" for end in _measure(bench, built, device, millions)]
    bench.record.table(["entries_per_s", "stop_s", "connection_s", "active_s", "restored", "load_time_us"], ends)


def _fits(millions: int) -> bool:
    pages, size = os.sysconf("SC_AVPHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return millions * 1_000_000 * SLOT_BYTES < pages * size


@contextmanager
def _device(folder: Path, size: int) -> Iterator[str]:
    """A loop device over a file of which nothing exists yet, with room for the log behind the last slot."""
    file = folder / "sparse"
    with file.open("wb") as opened:
        opened.truncate(size + size // 50 + 64 * MB)
    device = run(["losetup", "-f", "--show", str(file)], what="losetup", error=MachineError).stdout.strip()
    try:
        give_to_server_user(Path(device))
        yield device
    finally:
        run(["losetup", "-d", device], what="losetup", check=False)
        file.unlink()


def _measure(bench: Bench, built: extension.Extension, device: str, millions: int) -> list[str]:
    name = f"m{millions}"
    cluster = bench.make(name)
    settings = cluster.cache_settings(Path(device), f"{millions * 1_000_000 * PAGE // 1024}kB", built) | PERSISTENT
    os.environ["FC_MADE_UP"] = str(millions * 1_000_000)
    try:
        bench.start(name, settings | {"shared_buffers": "64MB", "pg_flashcache.io_timeout": "60s", "pg_flashcache.max_shutdown_delay": "0"})
    finally:
        del os.environ["FC_MADE_UP"]
    cluster.sql("postgres", f"CREATE DATABASE {DATABASE}")
    built.create(cluster, DATABASE)
    _await(cluster, "SELECT state = 'active' FROM pg_stat_flashcache")
    cluster.sql(DATABASE, "CHECKPOINT")
    _await(cluster, "SELECT stamp_checkpoint = checkpoint_lsn FROM pg_stat_flashcache_persistence, pg_control_checkpoint()")
    ends: dict[str, Callable[[], None]] = {"clean": cluster.stop, "crash": cluster.kill}
    for rep in bench.reps(3):
        for arm, end in ends.items():
            began = time.monotonic()
            end()
            stop_s = round(time.monotonic() - began, 2)
            log = cluster.log.stat().st_size
            cluster.start_again()
            _await(cluster, "SELECT state = 'active' FROM pg_stat_flashcache")
            found = restored(cluster)
            if "refused" in found:
                raise BrokeOff(f"the log was refused: {found['refused']}")
            rate = round(1e6 * int(found["restored"]) / int(found["load_time_us"]))
            bench.record.add(f"{arm}.{millions}m", rep, entries_per_s=rate, stop_s=stop_s, **moments(cluster, log), **found)
    cluster.stop()
    shutil.rmtree(cluster.data)
    return list(ends)


def _await(cluster: Cluster, condition: str) -> None:
    for _ in range(FIRST_S):
        if cluster.sql(DATABASE, condition) == "t":
            return
        time.sleep(1)
    raise BrokeOff(f"not within {FIRST_S} s: {condition}")
