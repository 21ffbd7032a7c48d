"""Measures what pg_flashcache promises, each figure as a ratio of arms that are run in turns. Goals are printed beside the
figures; nothing passes or fails. docs/bench.md says how to read them.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.elsewhere import ROOT, is_here, run_elsewhere, shell
from bench.harness import Bench, Options
from bench.record import Record
from pgflash.errors import MachineError, PgflashError
from pgflash.lab import extension
from pgflash.lab.cluster import programs, server_version
from pgflash.lab.work import Work, check_base, default_base
from pgflash.system import describe_machine, file_system, is_root, raise_on_signals, undisturbed
from pgflash.units import MB

PREFIX = "pg_flashcache_bench."
NEED_MB = 12000
MODULES = {"async": "asynchronous"}  # a name that Python keeps for itself
FIGURES = {
    "latency": "average latency without / with flash of 1/3 and 47% of a 3 GB database   (lab disk)",
    "hits": "random page reads, all flash hits / fio on the same file",
    "resident": "pgbench -S, everything in shared_buffers, loaded / not loaded",
    "misses": "nothing but misses, loaded / not loaded                                  (page cache, lab disk)",
    "harmless": "the data files are on flash, too: cache on the same device / none",
    "scan": "sequential scan, half of the table in flash, loaded / not loaded         (lab disk)",
    "flashscan": "sequential and bitmap scan of a table that is all in flash / fio, same request size and depth   (lab disk)",
    "async": "scans of a table that is not in flash, read asynchronously: loaded / not loaded, 18 and later   (lab disk)",
    "capture": "clean evictions captured / evictions, at 10,000 a second",
    "writes": "flash page writes / buffer-pool misses, admission auto and all",
    "admission": "hit ratio and writes of each candidate of admission = auto, and of other algorithms (replayed, no server)",
    "advice": "hit ratios that a server without a cache predicts, and those of caches: error in points",
    "counting": "what counting by relation and by statement costs: counted / not counted",
    "memory": "shared memory per slot",
    "extents": "reads of the disk that warm a cold cache, by extents / page by page                 (lab disk)",
    "cold": "transactions/s after 100,000 from an empty cache: now / as 1.0 filled it              (lab disk)",
    "restart": "hit ratio and speed of the first 10 s, after / before a restart and a crash, with persistence   (lab disk)",
    "restore": "entries a second that are loaded after a restart, of 1, 10 and 128 million, made up            (as root)",
    "failover": "speed of the first 10 s on a standby that takes over, warm and cold / before on the primary   (lab disk)",
    "split": "three loads: the split of flash that pgflash place advises / the best one that trying finds   (lab disk)",
}


def arguments() -> argparse.ArgumentParser:
    figures = "\n".join(f"  {name:<10} {words}" for name, words in FIGURES.items())
    parser = argparse.ArgumentParser(
        "bench/bench.sh", description=__doc__, epilog=f"figures:\n{figures}\n  all", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("figures", nargs="+", choices=[*FIGURES, "all"], metavar="FIGURE")
    add = parser.add_argument
    add("--server", type=int, choices=range(15, 20), default=15, metavar="MAJOR", help="15 (the default), 16 (where it is installed), 17, 18 or"
        " 19; where this machine does not have it, it comes from a later Debian suite, unpacked into build/servers/MAJOR-bench, and runs"
        " there (as root)")  # fmt: skip
    add("--reps", type=number, metavar="N", help="repetitions of every arm; medians are printed (default: 3; hits, resident, misses, harmless,"
        " flashscan and async 5, counting 9)")  # fmt: skip
    add("--seconds", type=number, metavar="N", help="length of one measurement (each figure has its default)")
    add("--scale", type=number, metavar="N", help="size of the pgbench database, where there is one (for trying the harness)")
    add("--set", type=_setting, action="append", default=[], metavar="NAME=VALUE", help="a setting of every server; may be repeated")
    add("--flash", type=_folder, metavar="DIR", help="a folder on the flash device to be measured (default: in the temporary folder)")
    add("--dir", type=Path, metavar="DIR", help="make the temporary folder in DIR (default: TMPDIR or /tmp, or /var/tmp if that is in memory);"
        " up to 12 GB")  # fmt: skip
    add("--out", type=Path, metavar="FILE", help="JSON lines go here (default: results/bench-DATE.jsonl)")
    add("--keep", action="store_true", help="leave the temporary folder behind")
    return parser


def number(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,5}", text):
        raise argparse.ArgumentTypeError("takes a number above 0")
    return int(text)


def _setting(text: str) -> tuple[str, str]:
    match = re.fullmatch(r"([a-z_.]+)=(.+)", text)
    if match is None:
        raise argparse.ArgumentTypeError("takes NAME=VALUE")
    return match[1], match[2]


def _folder(text: str) -> Path:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a folder")
    return Path(text).resolve()


def commit() -> str:
    known = os.environ.get("BENCH_COMMIT", "")
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        return known or subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def conditions(bench: Bench, record: Record) -> None:
    """The line that belongs in front of figures: what they were measured on."""
    machine = describe_machine()
    record.line(
        conditions=record.figure, date=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), commit=commit(), kernel=machine["kernel"],
        cpus=machine["cpus"], cpu=machine["cpu"], memory_mb=machine["memory_mb"], server=record.server,
        settings=" ".join(f"{name}={text}" for name, text in bench.options.settings.items()), load=float(machine["load"]),
        folder=file_system(bench.work.path), flash=file_system(bench.flash),
    )  # fmt: skip
    print(f"\n== {record.figure}, {record.server} ==", flush=True)


def measure(name: str, options: Options, base: Path, out: Path) -> None:
    work = Work(base, PREFIX)
    bench: Bench | None = None
    try:
        record = Record(out, name, server_version(programs(options.major)))
        extension.check_path(options.major, work.path)
        built = extension.provide(programs(options.major), options.major, "build", work.path)
        bench = Bench(options, work, record, built)
        conditions(bench, record)
        importlib.import_module(f"bench.figures.{MODULES.get(name, name)}").figure(bench)
    finally:
        with undisturbed():
            if bench is not None:
                bench.close()
            else:
                work.remove()


def install(major: int, more: list[str]) -> None:
    """What is missing, of Debian; built without liburing the cache is off, and without root nothing can be mounted."""
    names = [f"postgresql-{major}", f"postgresql-server-dev-{major}", "make", "gcc", "libc6-dev", "liburing-dev", *more]
    names += ["fuse3", "libfuse3-dev", "pkg-config", "e2fsprogs", "mount"] if is_root() else []
    if subprocess.run(shell('fc_need_packages "$@"', *names), check=False).returncode != 0:
        raise MachineError("not everything that is needed could be installed")


def run(words: list[str]) -> int:
    given = arguments().parse_args(words)
    options = Options(given.server, given.reps, given.seconds, given.scale, given.keep, dict(given.set), given.flash)
    figures = list(FIGURES) if "all" in given.figures else given.figures
    base = (given.dir or default_base()).resolve()
    check_base(base, NEED_MB * MB)
    out = (given.out or ROOT / "results" / f"bench-{time.strftime('%Y%m%d-%H%M%S')}.jsonl").resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    if not is_here(options.major):
        numbers = [
            word for name in ("reps", "seconds", "scale") if getattr(given, name) for word in (f"--{name}", str(getattr(given, name)))
        ]
        settings = [word for name, text in given.set for word in ("--set", f"{name}={text}")]
        keep = ["--keep"] if given.keep else []
        return run_elsewhere(options, base, out, commit(), [*numbers, *settings, *keep, *figures])
    install(options.major, ["fio"])
    for name in figures:
        measure(name, options, base, out)
    print(f"recorded in {os.environ.get('BENCH_OUT_OUTSIDE') or out}")
    return 0


def ending(command: Callable[[list[str]], int]) -> int:
    """Its exit status; errors of ours become a message."""
    raise_on_signals()
    try:
        return command(sys.argv[1:])
    except PgflashError as error:
        print(f"error: {error.message}" + (f"\n{error.hint}" if error.hint else ""), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the output goes to a pager that was left
        return 141


if __name__ == "__main__":
    sys.exit(ending(run))
