"""How good is advice? A server without a cache says what caches of three sizes would answer; then there are caches of these sizes.

gaussian   reads with skewed keys, as in `misses`
uniform    reads of any row
writes     pgbench's own transactions, of which each changes four rows

The question is one of policy, not of speed: it runs on the machine's own disk, with the page-cache probe off.
"""

from __future__ import annotations

from statistics import mean

from bench.harness import DATABASE, GAUSSIAN, Bench, counters, say
from pgflash.lab.cluster import Cluster

# Of four times shared_buffers: 2, 4 and 8 times.
FACTORS = (0.5, 1.0, 2.0)
UNIFORM = "\\set aid random(1, 100000 * :scale)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"


def advised(cluster: Cluster) -> dict[float, float]:
    rows = cluster.sql(DATABASE, "SELECT factor || '|' || hit_ratio FROM pg_flashcache_advice WHERE kind = 'flash'").split()
    return {float(factor): float(ratio) for factor, ratio in (row.split("|") for row in rows)}


def figure(bench: Bench) -> None:
    seconds, scale = bench.seconds(30), bench.scale(40)
    buffers = scale * 3 // 4
    a = bench.loaded("a", scale)
    a.stop()
    usual = ["-M", "prepared", "-c", "8", "-j", "2", "-s", str(scale)]
    loads = {
        "gaussian": [*usual, "-f", bench.file("gaussian.sql", GAUSSIAN), DATABASE],
        "uniform": [*usual, "-f", bench.file("uniform.sql", UNIFORM), DATABASE],
        "writes": [*usual, "-n", DATABASE],
    }
    settings = {"shared_buffers": f"{buffers}MB", "synchronous_commit": "off"}
    errors = []
    for load, arguments in loads.items():
        a = bench.start_advice("a", settings)
        say(f"{load}: advice")
        a.pgbench("-T", str(4 * seconds), *arguments)
        a.sql(DATABASE, "SELECT pg_flashcache_reset_advice()")
        a.pgbench("-T", str(seconds), *arguments)
        told = advised(a)
        a.stop()
        for factor in FACTORS:
            a = bench.start_flash("a", f"{int(4 * buffers * factor)}MB", settings | {"pg_flashcache.os_cache_probe": "off"})
            say(f"{load}: a cache of {int(4 * buffers * factor)} MB")
            bench.warm(a, arguments, max_s=4 * seconds, step_points=0.2)
            before = counters(a)
            a.pgbench("-T", str(seconds), *arguments)
            real = counters(a).hit_ratio_since(before)
            a.stop()
            error = 100 * abs(told[factor] - real)
            errors.append(error)
            bench.record.add(f"{load} {factor}", 1, told=round(told[factor], 4), real=round(real, 4), points=round(error, 2))
    bench.record.table(["told", "real", "points"], [f"{load} {factor}" for load in loads for factor in FACTORS])
    bench.record.result("mean error of the hit ratio, in points", f"{mean(errors):.2f}", "at most 2", f"largest {max(errors):.2f}")
