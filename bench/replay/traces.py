"""Streams of page references for bench/replay/replay.c: public traces, downloaded once, and loads made as pgbench makes them.

A stream is a file of 8 bytes for each reference, little-endian: the number of a page times two, plus one if the page is changed.
"""

from __future__ import annotations

import gzip
import io
import lzma
import random
import shutil
import subprocess
import sys
import tarfile
import zipfile
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.harness import say

LIBCACHESIM = "libcachesim==0.3.5"
SIMULATOR = "com.github.ben-manes.caffeine:simulator:3.1.8"
PARSER = "com/github/benmanes/caffeine/cache/simulator/parser/"
IN_SDIST = "libcachesim-0.3.5/src/libCacheSim/data/cloudPhysicsIO.csv"
HEAP_ROWS, LEAF_ROWS = 61, 366  # rows of pgbench_accounts on a page, and of its index
ROWS = HEAP_ROWS * 98304


@dataclass(frozen=True)
class Stream:
    name: str
    path: Path
    pool: float  # buffer pool above, as a share of the pages


def _write(path: Path, refs: array[int]) -> None:
    if sys.byteorder == "big":
        refs.byteswap()
    with path.open("wb") as out:
        refs.tofile(out)


# ---- public traces ----


def _numbers(data: bytes, typecode: str, big_endian: bool = False) -> array[int]:
    numbers = array(typecode, data[: len(data) // array(typecode).itemsize * array(typecode).itemsize])
    if big_endian != (sys.byteorder == "big"):
        numbers.byteswap()
    return array("Q", ((n & (1 << 60) - 1) * 2 for n in numbers))


def _text(data: bytes) -> array[int]:
    return array("Q", (int(word) * 2 for word in data.split() if word.isdigit()))


def _block_io(data: bytes) -> array[int]:
    """Requests of a block device (SCSI commands 0x28 and 0x2a), as pages of 8 kB."""
    refs = array("Q")
    for line in io.TextIOWrapper(io.BytesIO(data)):
        words = line.strip().split(",")
        if not words[0].isdigit():
            continue
        sector, sectors = int(words[4]), max(1, int(words[3]) // 512)
        refs.extend(page * 2 + (words[2] == "2a") for page in range(sector // 16, (sector + sectors - 1) // 16 + 1))
    return refs


FROM_SIMULATOR: dict[str, tuple[str, Callable[[bytes], array[int]]]] = {
    "w106": ("cloud_physics/w106.trace.xz", lambda data: _numbers(data, "I")),
    "orm-busy": ("cache2k/orm-busy.trace.xz", lambda data: _numbers(data, "I")),
    "orm-night": ("cache2k/orm-night.trace.xz", lambda data: _numbers(data, "I")),
    "scarab": ("scarab/scarab-recs.trace.xz", lambda data: _numbers(data, "Q", big_endian=True)),
    "sprite": ("lirs/sprite.trace.gz", _text),
    "multi2": ("lirs/multi2.trace.gz", _text),
}


def _sdist(folder: Path) -> Path | None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", str(folder), LIBCACHESIM], check=False
    )
    found = sorted(folder.glob("libcachesim-*.tar.gz"))
    return found[0] if done.returncode == 0 and found else None


def _jar(folder: Path) -> Path | None:
    if shutil.which("mvn") is None:
        return None
    done = subprocess.run(
        ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={SIMULATOR}", f"-DoutputDirectory={folder}"], check=False, stdout=sys.stderr
    )
    found = sorted(folder.glob("simulator-*.jar"))
    return found[0] if done.returncode == 0 and found else None


def public(folder: Path) -> Iterator[Stream]:
    """What is below a cache already gets a small pool: it would not be asked for the same pages again at once."""
    sdist = _sdist(folder)
    if sdist is None:
        say("without cloudPhysicsIO: pip cannot download it")
    else:
        with tarfile.open(sdist) as tar:
            member = tar.extractfile(IN_SDIST)
            if member is not None:
                _write(folder / "cloudPhysicsIO", _block_io(member.read()))
                yield Stream("cloudPhysicsIO", folder / "cloudPhysicsIO", 0.01)
    jar = _jar(folder)
    if jar is None:
        say(f"without {', '.join(FROM_SIMULATOR)}: Maven (mvn) is missing, or cannot download them")
        return
    with zipfile.ZipFile(jar) as archive:
        for name, (member_name, read) in FROM_SIMULATOR.items():
            data = archive.read(PARSER + member_name)
            _write(folder / name, read(gzip.decompress(data) if member_name.endswith(".gz") else lzma.decompress(data)))
            yield Stream(name, folder / name, 0.01)


# ---- loads as pgbench makes them ----


def _accounts(keys: Iterator[int], share_changed: float, rng: random.Random) -> array[int]:
    """Two reads a transaction, a leaf of the index and a page of the table; some rows are changed."""
    refs = array("Q")
    for key in keys:
        refs.append(((1 << 30) + key // LEAF_ROWS) * 2)
        refs.append(key // HEAP_ROWS * 2 + (rng.random() < share_changed))
    return refs


def _gaussian(n: int, rng: random.Random) -> Iterator[int]:
    """random_gaussian(..., 5)"""
    for _ in range(n):
        x = rng.gauss(0, 1)
        while abs(x) >= 5:
            x = rng.gauss(0, 1)
        yield int((x + 5) / 10 * ROWS)


def _skewed(n: int, rng: random.Random, phases: int) -> Iterator[int]:
    """Keys by a power law, strewn over the table: neighbours have nothing in common. The hot ones change with each phase."""
    for i in range(n):
        rank = rng.paretovariate(0.1)
        while rank > ROWS:
            rank = rng.paretovariate(0.1)
        yield (int(rank) * 0x9E3779B1 + i * phases // n * (ROWS // phases)) % ROWS


def made(folder: Path, transactions: int) -> Iterator[Stream]:
    loads: list[tuple[str, Callable[[random.Random], Iterator[int]], float]] = [
        ("gaussian", lambda rng: _gaussian(transactions, rng), 0.0),
        ("gaussian-updates", lambda rng: _gaussian(transactions, rng), 0.05),
        ("skewed", lambda rng: _skewed(transactions, rng, 1), 0.1),
        ("skewed-moving", lambda rng: _skewed(transactions, rng, 4), 0.3),
    ]
    for name, keys, changed in loads:
        rng = random.Random(7)
        _write(folder / name, _accounts(keys(rng), changed, rng))
        yield Stream(name, folder / name, 0.05)
