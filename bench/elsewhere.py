"""A PostgreSQL that this machine does not have: the command runs again in a folder of another Debian suite (tools/debian.sh)."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from bench.harness import Options
from pgflash.errors import MachineError
from pgflash.lab.cluster import programs
from pgflash.lab.memory import MemoryLimit
from pgflash.system import run, undisturbed

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (
    "binutils", "e2fsprogs", "fio", "fuse3", "gcc", "libfuse3-dev", "liburing-dev", "make", "mount", "pkg-config", "procps", "python3",
)  # fmt: skip


def shell(script: str, *words: str) -> list[str]:
    """A command that has the functions of tools/."""
    return ["bash", "-euo", "pipefail", "-c", f'. "{ROOT}/tools/packages.sh"; . "{ROOT}/tools/debian.sh"; {script}', "bash", *words]


def is_here(major: int) -> bool:
    """15 is Debian's own, and installed if it is missing."""
    return major == 15 or Path(programs(major), "postgres").exists()


def run_elsewhere(options: Options, base: Path, out: Path, commit: str, words: list[str]) -> int:
    """Exit status of the same command there. words: its options, but for those that name folders; and the figures."""
    major, place = str(options.major), ROOT / "build" / "servers" / f"{options.major}-bench"
    if subprocess.run(shell('[ -n "${fc_debian_suite[$1]:-}" ]', major), check=False).returncode != 0:
        raise MachineError(
            f"PostgreSQL {major} is not installed, and no suite of Debian has it: install it first, from apt.postgresql.org for example"
        )
    make = shell('fc_debian_can "$1" >&2 || exit 3; fc_debian_make "$@"', major, str(place), *PACKAGES)
    status = subprocess.run(make, stdin=subprocess.DEVNULL, check=False).returncode
    if status != 0:
        return status
    outside = Path(tempfile.mkdtemp(prefix="pg_flashcache_bench.", dir=base))
    outside.chmod(0o1777)
    (ROOT / "build").mkdir(exist_ok=True)
    flash = ["--flash", "/mnt"] if options.flash else []
    # The loop device and the memory group belong to the machine, whatever namespace they were made in: the command inside takes
    # them away, so it is asked to end and waited for.
    inside = subprocess.Popen(
        shell(
            'fc_debian_run "$@"', str(place), str(ROOT), str(out.parent), str(outside), "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin",
            f"BENCH_COMMIT={commit}", f"BENCH_OUT_OUTSIDE={out}", "/project/bench/bench.sh", "--server", major, "--dir", "/tmp",
            "--out", f"/project/build/{out.name}", *flash, *words,
        ),
        stdin=subprocess.DEVNULL, env=os.environ | {"FC_DEBIAN_MNT": str(options.flash or "")}, start_new_session=True,
    )  # fmt: skip
    try:
        return inside.wait()
    finally:
        with undisturbed():
            _clean_up(inside, outside, options.keep)


def _clean_up(inside: subprocess.Popen[bytes], outside: Path, keep: bool) -> None:
    if inside.poll() is None:
        os.killpg(inside.pid, signal.SIGTERM)
        inside.wait()
    # What a run that was killed has left: these notes are removed with what they name.
    for note in outside.glob("*/disk/loop"):
        run(["losetup", "-d", note.read_text().strip()], what="losetup", check=False)
    for note in outside.glob("*/cgroup.*/cgroup"):
        MemoryLimit(note.parent).drop()
    if keep:
        print(f"outside: {outside} is /tmp")
    else:
        shutil.rmtree(outside, ignore_errors=True)
