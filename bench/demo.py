"""What pg_flashcache does, on this machine, in about three and a half minutes (./demo.sh).

Builds the extension, makes a private PostgreSQL 15 in a temporary folder on an emulated slow disk, loads a pgbench database of
1 GB (16 times shared_buffers) and runs the same skewed read load on it without and with a flash cache. Then restarts the server,
measures its first seconds, and prints all of that side by side.

Runs as root, or as anybody (with sudo where there is one; the disk is then emulated in a simpler way where there is none).
Missing Debian packages are installed. Your own clusters, settings and ports are not touched, and nothing is left running or
mounted, also after Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from bench.__main__ import ending, install, number
from bench.harness import GAUSSIAN, LOADING, Bench, Options, say
from bench.record import Record
from pgflash.errors import BrokeOff, MachineError
from pgflash.lab import extension
from pgflash.lab.cluster import Cluster, programs
from pgflash.lab.pgbench import latencies
from pgflash.lab.warm import warm
from pgflash.lab.work import Work, check_base, default_base
from pgflash.system import end_group, environment, file_system, undisturbed
from pgflash.units import MB

DATABASE = "demo"
BUFFERS_MB = 64
LIMIT_MB = 200  # shared_buffers, 16 clients and about 100 MB of page cache
SCALE = 70  # 1.05 GB
FLASH_MB = 480  # 45% of it
DISK_MB = 2500  # the database, WAL and room to spare
NEED_MB = 4000  # in the folder: disk, flash, build, logs
CLIENTS = 16
PLATEAU_S = 40  # warming up ends earlier when the hit ratio stands still
SETTINGS = {"shared_buffers": f"{BUFFERS_MB}MB"}
AFTER_S = 10  # of the first seconds after the restart
MEASURED = {"without": "without flash", "with": "with flash", "after": "the first seconds"}
PERSISTENCE = "pg_stat_flashcache_persistence"
KEPT = f"""
SELECT concat(
  CASE WHEN restored IS NULL THEN 'the cache starts empty: ' || refused
    ELSE format('%s pages of the cache are kept; its log is read in %s ms', restored, round(load_time_us / 1000.0)) END,
  CASE WHEN buffers_listed IS NOT NULL THEN
    format(E'\n  %s pages of shared_buffers are on flash, %s of them copied by the stop; ', buffers_listed, buffers_copied)
    || format('%s are loaded again, in %s ms', buffers_loaded, round(buffers_load_time_us / 1000.0)) END)
FROM {PERSISTENCE}
"""
STATE = re.compile(r"pg_flashcache is (?:off|paused|active)\b.*")
PROGRESS = re.compile(r"progress: ([0-9.]+) s, ([0-9.]+) tps, lat ([0-9.]+) ms")
NEXT = """What to type next, for Debian's own PostgreSQL 15 cluster "main":

  make && sudo make install
  sudo install -d -o postgres -g postgres -m 0700 /mnt/nvme/pg_flashcache   # on your flash
  sudo tee /etc/postgresql/15/main/conf.d/pg_flashcache.conf <<'EOF'
  shared_preload_libraries = 'pg_flashcache'            # add it to what you have there already
  pg_flashcache.file = '/mnt/nvme/pg_flashcache/cache'
  pg_flashcache.size = '20GB'                           # 2 to 10 times shared_buffers is usual
  EOF
  sudo systemctl restart postgresql@15-main
  sudo -u postgres psql -c 'CREATE EXTENSION pg_flashcache' -c 'SELECT * FROM pg_stat_flashcache'"""
FALLBACK = """  The disk is a fallback here: random reads have the right mean, sequential scans are overcharged, and every
  read is charged, also one that the kernel's page cache answers. Run as root where loop devices and FUSE may
  be mounted for the real model.
"""
NO_LIMIT = "  No memory limit could be set here (see above): the kernel's page cache hides part of the disk from both runs.\n"


@dataclass(frozen=True)
class Result:
    """Latencies in milliseconds, everything else a second, but for the hit ratio."""

    tps: float
    average: float
    p95: float
    disk: float
    hits: float = 0
    misses: float = 0
    kernel: float = 0
    away: tuple[str, ...] = ()  # what the server has logged when the cache went off or paused, and when it was back
    restart: str = ""  # what it was like, before this was measured

    @property
    def hit_ratio(self) -> float:
        return 100 * self.hits / (self.hits + self.misses) if self.hits + self.misses else 0

    @property
    def on_flash(self) -> float:
        """Of the reads, in per cent: also where the page cache, which a restart here empties, had the page as well."""
        return 100 * (self.hits + self.kernel) / (self.hits + self.misses) if self.hits + self.misses else 0


def load_for(cluster: Cluster, script: str, seconds: int, *more: str) -> None:
    """One line of pgbench's progress report every five seconds is enough."""
    command = [
        f"{cluster.bin}/pgbench", "-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "2", "-T", str(seconds), "-P", "5", "-s", str(SCALE),
        "-f", script, *more, cluster.conninfo(DATABASE),
    ]  # fmt: skip
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
        start_new_session=True,
    )
    assert process.stdout is not None
    bad = False
    try:
        for line in process.stdout:
            if match := PROGRESS.match(line):
                at, tps, ms = (float(text) for text in match.groups())
                print(f"        {at:4.0f} s  {tps:8.0f} transactions/s  {ms:8.2f} ms", flush=True)
            elif re.search(r"aborted|FATAL|ERROR", line):
                print(line, end="", flush=True)
                bad = True
    except BaseException:
        end_group(process)
        raise
    if process.wait() != 0 or bad:
        raise BrokeOff("pgbench failed")


def measure(bench: Bench, cluster: Cluster, script: str, arm: str, seconds: int) -> Result:
    say(f"measuring {MEASURED[arm]}, {seconds} s at the disk's real speed")
    bench.disk.slow()
    before = cluster.counters(DATABASE, PERSISTENCE) if arm != "without" else None
    away = []
    if arm == "with":
        state = cluster.sql(DATABASE, "SELECT concat_ws(': ', 'pg_flashcache is ' || state, nullif(reason, '')) FROM pg_stat_flashcache")
        away = [state] if state != "pg_flashcache is active" else []
    logged = cluster.log.stat().st_size
    reads = bench.disk.reads()
    load_for(cluster, script, seconds, "--log", f"--log-prefix={bench.work.log / arm}")
    reads = bench.disk.reads() - reads
    after = cluster.counters(DATABASE, PERSISTENCE) if before is not None else None
    away += STATE.findall(cluster.log.read_bytes()[logged:].decode("utf-8", "replace"))
    bench.disk.fast()
    logs = list(bench.work.log.glob(f"{arm}.*[0-9]"))
    every = [int(line.split()[2]) for path in logs for line in path.read_text("ascii").splitlines()]
    result = Result(len(every) / seconds, sum(every) / len(every) / 1000, latencies(logs)[0]["p95"], reads / seconds)
    if after is None or before is None:
        return result
    hits, misses, kernel = (after.since(before, name) / seconds for name in ("hits", "misses", "os_cache_hits"))
    # What is loaded into shared_buffers after a restart is no hit of the load.
    hits -= (after.get("buffers_loaded", 0) - before.get("buffers_loaded", 0)) / seconds
    if arm == "after" and away and away[0].startswith("pg_flashcache is active"):  # at its start
        away = away[1:]
    return replace(result, hits=hits, misses=misses, kernel=kernel, away=tuple(away))


def restart(bench: Bench, cluster: Cluster, script: str) -> Result:
    """A clean one, at the disk's real speed, with a page cache as empty as after a boot."""
    say("restarting the server: pg_ctl restart -m fast, and an empty page cache")
    bench.disk.slow()
    began = time.monotonic()
    cluster.stop()
    stop_s = time.monotonic() - began
    cluster.forget()
    began = time.monotonic()
    cluster.start_again()
    start_s = time.monotonic() - began
    result = measure(bench, cluster, script, "after", AFTER_S)
    return replace(result, restart=f"stop {stop_s:.1f} s, start {start_s:.1f} s\n  {cluster.sql(DATABASE, KEPT)}")


def say_away(result: Result) -> None:
    if result.away:
        print("\n  The cache was away for part of that, and every read went to the disk meanwhile. So this says nothing about it:")
        print("\n".join(f"    {line}" for line in result.away))


def report(bench: Bench, a: Result, b: Result, c: Result, seconds: int, database_mb: int, limit: str) -> None:
    def row(name: str, left: str, right: str, better: str = "") -> None:
        print(f"  {name:<26} {left:>14} {right:>14} {better:>10}")

    def times(above: float, below: float) -> str:
        return f"{above / below:.1f} x" if below > 0 else ""

    print()
    row("", "without flash", "with flash", "better by")
    row("average latency", f"{a.average:.2f} ms", f"{b.average:.2f} ms", times(a.average, b.average))
    row("95th percentile", f"{a.p95:.2f} ms", f"{b.p95:.2f} ms", times(a.p95, b.p95))
    row("transactions a second", f"{a.tps:.0f}", f"{b.tps:.0f}", times(b.tps, a.tps))
    row("disk reads a second", f"{a.disk:.0f}", f"{b.disk:.0f}")
    row("flash reads a second", "-", f"{b.hits:.0f}")
    row("hit ratio of the cache", "-", f"{b.hit_ratio:.1f} %")
    say_away(b)
    print(f"""
  pgbench, select only, keys of a Gaussian distribution (parameter 5), {CLIENTS} clients, {seconds} s each.
  Database {database_mb} MB, shared_buffers {BUFFERS_MB} MB, memory limit {limit}, flash {FLASH_MB} MB.
  Disk: {bench.disk}.
  Flash: a file in {bench.flash} ({file_system(bench.flash)}). Where the kernel's page cache had the page as well it was
  read from there ({b.kernel:.0f} a second), which is faster; that is not counted as a hit.
  Both runs were warmed up with the disk's delays suspended.

  Then, with pg_flashcache.persistence = on, a restart with an empty page cache: {c.restart}
""")
    row("", "before it", f"its first {AFTER_S} s")
    row("average latency", f"{b.average:.2f} ms", f"{c.average:.2f} ms")
    row("95th percentile", f"{b.p95:.2f} ms", f"{c.p95:.2f} ms")
    row("transactions a second", f"{b.tps:.0f}", f"{c.tps:.0f}")
    row("disk reads a second", f"{b.disk:.0f}", f"{c.disk:.0f}")
    row("reads of pages on flash", f"{b.on_flash:.1f} %", f"{c.on_flash:.1f} %")
    say_away(c)
    print()
    if bench.disk.name == "preload":
        print(FALLBACK)
    elif limit == "none":
        print(NO_LIMIT)
    print(NEXT)


def show(bench: Bench, seconds: int) -> None:
    bench.lab_disk(DISK_MB)
    say(f"a new PostgreSQL {bench.major} cluster, pgbench database of scale {SCALE} (about 20 s; the disk's delays are suspended)")
    cluster = bench.make(DATABASE)
    bench.start(DATABASE, LOADING)
    cluster.load(DATABASE, SCALE)
    database_mb = cluster.number(DATABASE, f"SELECT pg_database_size('{DATABASE}')") // MB
    cluster.stop()
    script = bench.file("gaussian.sql", GAUSSIAN)
    say("without flash: warming up, 5 s with the disk's delays suspended")
    cluster.forget()
    bench.start(DATABASE, SETTINGS, LIMIT_MB)
    limit = bench.limit_words(cluster)
    load_for(cluster, script, 5)
    without = measure(bench, cluster, script, "without", seconds)
    cluster.stop()
    say(f"with flash, {FLASH_MB} MB: warming up, at most {PLATEAU_S} s with the disk's delays suspended")
    cluster.forget()
    bench.start_flash(DATABASE, f"{FLASH_MB}MB", SETTINGS | {"pg_flashcache.persistence": "on"}, LIMIT_MB, DATABASE)
    warm(cluster, DATABASE, lambda: load_for(cluster, script, 5), PLATEAU_S, 0.5)
    with_flash = measure(bench, cluster, script, "with", seconds)
    after = restart(bench, cluster, script)
    report(bench, without, with_flash, after, seconds, database_mb, limit)
    say("done; removing everything")


def run(words: list[str]) -> int:
    parser = argparse.ArgumentParser("./demo.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, help=f"make the temporary folder there; it needs {NEED_MB // 1000} GB (default: TMPDIR or /tmp, or"
        " /var/tmp if that is in memory)")  # fmt: skip
    parser.add_argument(
        "--keep", action="store_true", help="leave it behind, with the database, the logs and the latency of every transaction"
    )
    parser.add_argument("--seconds", type=number, default=30, help="length of each of the two measurements (default 30)")
    given = parser.parse_args(words)
    base = (given.dir or default_base()).resolve()
    said = os.environ.get("FC_PG_MAJOR", "15")
    if not re.fullmatch(r"1[5-9]", said):
        raise MachineError(f"FC_PG_MAJOR is {said}, which is no major version from 15 to 19")
    major = int(said)
    say("packages: installing what is missing (a fresh Debian 12: about a minute)")
    install(major, [])
    check_base(base, NEED_MB * MB)
    work = Work(base, "pg_flashcache_demo.")
    bench: Bench | None = None
    try:
        say("building the extension, in a folder of its own (about 10 s)")
        built = extension.provide(programs(major), major, "build", work.path)
        bench = Bench(Options(major, keep=given.keep), work, Record(work.log / "demo", "demo", ""), built)
        show(bench, given.seconds)
    finally:
        with undisturbed():
            if bench is not None:
                bench.close()
            else:
                work.remove()
    return 0


if __name__ == "__main__":
    sys.exit(ending(run))
