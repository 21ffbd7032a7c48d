"""Is the split of `pgflash place advise` as good as the best one that trying finds? For each load the adviser watches a server without
a cache, on the disk; then splits of the same amount of flash are measured one after the other: everything for the cache, more and
more objects moved (those first that save most time a byte, by the adviser's own figures), all that fit by size of their reads, and
what the adviser proposes. What is not moved is cached.

tpcc     go-tpc, three warehouses for each 40 of --scale
tpcb     pgbench's TPC-B, Gaussian keys
mostly   pgbench's tables, 19 reads of an account for each update, Gaussian keys

Objects are moved to a folder beside the cache's file, on the same flash.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from bench.harness import Bench, rotated, say
from pgflash.errors import BrokeOff
from pgflash.lab.cluster import Cluster
from pgflash.lab.warm import warm
from pgflash.pilot import db
from pgflash.pilot.loads import Driver, driver_for
from pgflash.pilot.scenario import Load
from pgflash.pilot.target import Place
from pgflash.system import give_to_server_user, run
from pgflash.units import MB

DATABASE = "bench"
TABLESPACE = "flash"
SHARE = 0.3  # of the database: how much flash there is
GOAL = "at least 0.90"
LEAST_CACHE = 16 * MB
TRIED = 4  # splits besides all for the cache, and the plan
READ_MOSTLY = r"""\set aid random_gaussian(1, 100000 * :scale, 5)
\set dice random(1, 20)
\if :dice = 1
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;
\else
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
\endif
"""
OBSERVED_S = 30


@dataclass(frozen=True)
class Object:
    """One that can be moved: as the adviser names it."""

    kind: str
    name: str
    bytes: int
    density: float
    reads: float

    @property
    def is_index(self) -> bool:
        return self.kind == "index"


Moved = frozenset[Object]


def figure(bench: Bench) -> None:
    scale = bench.scale(40)
    loads = {
        "tpcc": Load(kind="tpcc", writes=True, warehouses=max(1, scale * 3 // 40)),
        "tpcb": Load(kind="pgbench-tpcb", writes=True, keys="gaussian", scale=scale),
        "mostly": Load(kind="script", writes=True, script=bench.file("mostly.sql", READ_MOSTLY), scale=scale),
    }
    bench.lab_disk(scale * 15 * 3 + 4000)
    for name, load in loads.items():
        driver = driver_for(load)
        if missing := driver.missing(bench.cluster("a").bin):
            say(f"{name} is left out: needs {missing}")
            continue
        of_load(bench, name, driver)


def of_load(bench: Bench, name: str, driver: Driver) -> None:
    say(f"{name}: loading")
    bench.disk.fast()
    _remove(bench, "pristine")
    pristine = bench.make("pristine")
    bench.start("pristine", {"shared_buffers": "256MB", "fsync": "off"})
    pristine.sql("postgres", f"CREATE DATABASE {DATABASE}")
    driver.prepare(_place(pristine), bench.work.scratch)
    pristine.sql(DATABASE, "VACUUM ANALYZE", "CHECKPOINT")
    size = pristine.number(DATABASE, f"SELECT pg_database_size('{DATABASE}')")
    pristine.stop()
    flash = int(size * SHARE) // MB * MB
    memory = max(16, size // MB // 30)
    settings = {"shared_buffers": f"{memory}MB", "max_wal_size": "1GB", "checkpoint_timeout": "5min", "autovacuum": "on"}
    plan, objects = advised(bench, driver, flash, settings, memory + 200)
    tried = splits(plan, objects, flash)
    for rep in bench.reps(1):
        for at in rotated(rep - 1, range(len(tried))):
            words, moved = tried[at]
            tps = measured(bench, driver, moved, flash, settings, memory + 200)
            what = "+".join(sorted(item.name.removeprefix("public.") for item in moved)) or "nothing"
            bench.record.add(f"{name}.{words}", rep, tps=round(tps, 1), moved=what, cache_mb=_cache(moved, flash) // MB, flash_mb=flash // MB,
                limit=bench.limit_words(bench.cluster("a")), disk=bench.disk.name)  # fmt: skip
    arms = [f"{name}.{words}" for words, _ in tried]
    bench.record.table(["tps", "cache_mb"], arms)
    best = max(arms, key=lambda arm: float(bench.record.median(arm, "tps")))
    planned = next(arm for arm, (_, moved) in zip(arms, tried, strict=True) if moved == plan)
    ratio = float(bench.record.median(planned, "tps")) / float(bench.record.median(best, "tps"))
    bench.record.result(f"{name}: transactions/s with the plan / with the best of {len(arms)} splits", f"{ratio:.4g}", GOAL,
        f"plan: {planned}, best: {best}")  # fmt: skip


def _remove(bench: Bench, name: str) -> None:
    shutil.rmtree(bench.cluster(name).data, ignore_errors=True)


def _place(cluster: Cluster) -> Place:
    return Place(str(cluster.work.socket), cluster.port, "postgres", DATABASE, bin=cluster.bin)


def _fresh(bench: Bench) -> Cluster:
    _remove(bench, "a")
    bench.clone("pristine", "a")
    return bench.cluster("a")


def advised(bench: Bench, driver: Driver, flash: int, settings: dict[str, str], limit_mb: int) -> tuple[Moved, list[Object]]:
    """What the adviser would move, and all that it could, of a server on the disk alone that is under load."""
    cluster = _fresh(bench)
    cluster.forget()
    bench.start("a", settings | {"track_io_timing": "on"}, limit_mb)
    bench.disk.slow()
    with ThreadPoolExecutor(1) as pool:
        under_load = pool.submit(driver.run, _place(cluster), 16, OBSERVED_S + 20, bench.work.scratch, measured=False)
        command = [sys.executable, "-m", "pgflash", "place", "advise", cluster.conninfo(DATABASE), "--flash", f"{flash // MB}MB",
            "--for", f"{OBSERVED_S}s", "--json"]  # fmt: skip
        found: dict[str, Any] = json.loads(run(command, what="pgflash place advise").stdout)
        under_load.result()
    bench.disk.fast()
    cluster.stop()
    objects = {
        item["oid"]: Object(
            item["kind"], f"{item['schema']}.{item['name']}", item["bytes"], item["saving_ms_per_s_per_gb"],
            item["reads_per_s"] + item["writes_per_s"],
        )
        for item in found["objects"]
        if item["schema"] == "public"
    }  # fmt: skip
    plan = frozenset(objects[item["oid"]] for item in found["objects"] if item["place"] == "move" and item["oid"] in objects)
    say(f"the plan: {' '.join(found['plan'])}")
    return plan, list(objects.values())


def splits(plan: Moved, objects: Iterable[Object], flash: int) -> list[tuple[str, Moved]]:
    """Those to be tried, each once."""
    objects = [item for item in objects if item.bytes <= flash and item.density > 0]
    found: list[tuple[str, Moved]] = [("cache", frozenset())]
    by_density = _fitting(sorted(objects, key=lambda item: -item.density), flash)
    steps = sorted({-(-len(by_density) * step // (TRIED - 1)) for step in range(1, TRIED)})
    found += [(f"first{step}", frozenset(by_density[:step])) for step in steps if step]
    found.append(("busiest", frozenset(_fitting(sorted(objects, key=lambda item: -item.reads), flash))))
    found.append(("indexes", frozenset(_fitting([item for item in sorted(objects, key=lambda item: -item.reads) if item.is_index], flash))))
    found.append(("plan", plan))
    once: dict[Moved, str] = {}
    for words, moved in found:
        once.setdefault(moved, words)
    return [(words, moved) for moved, words in once.items()]


def _fitting(objects: Iterable[Object], flash: int) -> list[Object]:
    chosen: list[Object] = []
    for item in objects:
        if sum(other.bytes for other in chosen) + item.bytes <= flash:
            chosen.append(item)
    return chosen


def _cache(moved: Moved, flash: int) -> int:
    rest = (flash - sum(item.bytes for item in moved)) // MB * MB
    return rest if rest >= LEAST_CACHE else 0


def measured(bench: Bench, driver: Driver, moved: Moved, flash: int, settings: dict[str, str], limit_mb: int) -> float:
    """Transactions a second, warm, on the disk's real speed."""
    cluster = _fresh(bench)
    folder = bench.flash / "moved"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    folder.chmod(0o700)
    give_to_server_user(folder)
    place, cache = _place(cluster), _cache(moved, flash)
    bench.start("a", settings)
    with db.connect_to(place) as connection:
        db.rows(connection, f"CREATE TABLESPACE {TABLESPACE} LOCATION '{folder}'")
        for item in moved:
            db.move(connection, "INDEX" if item.is_index else "TABLE", item.name, TABLESPACE)
        db.rows(connection, "CHECKPOINT")
    cluster.stop()
    cluster.forget()
    if cache:
        bench.start_flash("a", f"{cache // MB}MB", settings, limit_mb)

        def one_slice() -> None:
            driver.run(place, 16, 10, bench.work.scratch, measured=False)

        warm(cluster, DATABASE, one_slice, max_s=240, step_points=0.3)
    else:
        bench.start("a", settings, limit_mb)
        driver.run(place, 16, 30, bench.work.scratch, measured=False)
    bench.disk.slow()
    result = driver.run(place, 16, bench.seconds(60), bench.work.scratch, measured=False)
    bench.disk.fast()
    cluster.stop()
    if result.tps <= 0:
        raise BrokeOff("the load made no transaction")
    return result.tps
