"""How many operations of the disk warm a cold cache, by extents and page by page? Both begin empty, flash is a third of the table, and
the load runs until the share of misses of shared_buffers that need no disk stays as it is. Counted are the disk's reads until that
share is 90% of what it comes to page by page.

local        Gaussian keys: pages that lie beside each other are about equally hot
scattered    the same keys, each led to another page by a permutation: a neighbour is any page

In each of these, pages is pg_flashcache.extents = off, and extents is auto.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise

from bench.harness import DATABASE, Bench, counters, rotated, say
from pgflash.lab.cluster import Cluster, Counters
from pgflash.units import MB

READ = "SELECT id FROM pages WHERE ctid = ('(' || :blk || ',1)')::tid;\n"
KEYS = {
    "local": "\\set blk random_gaussian(0, :pages - 1, 5)\n" + READ,
    "scattered": "\\set hot random_gaussian(0, :pages - 1, 5)\n\\set blk permute(:hot, :pages, 1)\n" + READ,
}
ARMS = {"pages": "off", "extents": "auto"}
GOALS = {"local": "at most 0.3", "scattered": "at most 1.05"}
CLIENTS = 16
FLAT = 10  # slices that differ by less than two points
VIEW = "pg_stat_flashcache_extents"

# Of one slice: reads of the disk since the start, share of misses that needed no disk.
Slice = tuple[int, float]


def numbers(cluster: Cluster) -> Counters:
    return cluster.counters(DATABASE, VIEW) if cluster.number(DATABASE, f"SELECT count(to_regclass('{VIEW}'))") else counters(cluster)


def warm_up(bench: Bench, cluster: Cluster, load: Sequence[str], max_s: int) -> list[Slice]:
    """From cold to flat."""
    slices: list[Slice] = []
    first, began = bench.disk.reads(), time.monotonic()
    before = numbers(cluster)
    while time.monotonic() - began < max_s:
        cluster.pgbench(*load)
        now = numbers(cluster)
        wanted = now.since(before, "hits") + now.since(before, "misses")
        without = now.since(before, "hits") + now.since(before, "os_cache_hits")
        slices.append((bench.disk.reads() - first, without / max(1, wanted)))
        before = now
        last = [share for _, share in slices[-FLAT:]]
        if len(last) == FLAT and max(last) - min(last) < 0.02 and last[-1] > 0.1:
            break
    return slices


def steady(slices: list[Slice]) -> float:
    last = [share for _, share in slices[-FLAT:]]
    return sum(last) / len(last)


def reads_until(slices: list[Slice], share: float) -> int | None:
    """Between two slices in proportion."""
    for (reads, low), (more, high) in pairwise([(0, 0.0), *slices]):
        if high >= share:
            return round(reads + (more - reads) * (share - low) / (high - low)) if high > low else more
    return None


def measure(bench: Bench, cluster: str, keys: str, rep: int, pages: int) -> None:
    settings = {"shared_buffers": f"{pages * 8192 // 32 // MB}MB", "pg_flashcache.admission": "auto"}
    limit = settings["shared_buffers"][:-2]
    load = ["-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "1", "-t", "250", "-D", f"pages={pages}"]
    load += ["-f", bench.file(f"{keys}.sql", KEYS[keys]), DATABASE]
    found: dict[str, list[Slice]] = {}
    for arm in rotated(rep, list(ARMS)):
        bench.clusters[cluster].forget()
        server = bench.start_flash(
            cluster, f"{pages * 8192 // 3 // MB}MB", settings | {"pg_flashcache.extents": ARMS[arm]}, int(limit) + 110
        )
        bench.disk.slow()
        slices = found[arm] = warm_up(bench, server, load, bench.seconds(300))
        bench.disk.fast()
        words = bench.limit_words(server)
        now = numbers(server)
        more = {name: now[name] for name in ("inserts", "extent_reads", "extent_inserts", "extent_hits") if name in now}
        state = server.sql(DATABASE, f"SELECT state FROM {VIEW}") if "extent_reads" in now else "none"
        bench.record.line(arm=f"{keys}.{arm}", rep=rep, slices=" ".join(f"{reads}:{share:.4f}" for reads, share in slices))
        bench.record.add(f"{keys}.{arm}.all", rep, steady=round(steady(slices), 4), slices=len(slices), state=state, **more)
        server.stop()
    goal = 0.9 * steady(found["pages"])
    for arm, slices in found.items():
        reads = reads_until(slices, goal)
        if reads is None:
            say(f"{keys}.{arm}: {goal:.1%} was not reached")
        else:
            bench.record.add(f"{keys}.{arm}", rep, reads=reads, share=round(goal, 4), limit=words, disk=bench.disk.name)


def figure(bench: Bench) -> None:
    pages = bench.scale(100) * 1000
    say(f"a table of {pages} pages")
    bench.lab_disk(pages * 8192 * 3 // 2 // MB + 1500)
    bench.pages("a", pages).stop()
    for rep in bench.reps(3):
        for keys in KEYS:
            measure(bench, "a", keys, rep, pages)
    record = bench.record
    arms = [f"{keys}.{arm}" for keys in KEYS for arm in ARMS]
    record.table(["steady", "slices", "inserts", "extent_reads", "extent_inserts", "extent_hits"], [f"{arm}.all" for arm in arms])
    record.table(["reads", "share"], arms)
    for keys, goal in GOALS.items():
        record.ratio(
            f"{keys} keys: reads of the disk to 90% of the steady share, extents / pages", goal, "reads", f"{keys}.extents", f"{keys}.pages"
        )
