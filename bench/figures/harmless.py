"""What a cache costs where the data files are on flash as well: the same device has both, and the working set fits into the cache.
Gaussian keys, select only, little page cache. With the cache / without.

off           pg_flashcache.bypass = off: what it costs to read from flash what is on flash
auto          the tablespace is bypassed, once that has been tried; the measurement begins then
"""

from __future__ import annotations

from bench.harness import DATABASE, GAUSSIAN, Bench, counters, load_results, say
from pgflash.lab.cluster import Cluster

SETTINGS = {"shared_buffers": "64MB"}
LIMIT_MB = 64 + 110
SLICES = 6
BYPASS = {"off": "off", "auto": "auto"}
VIEW = "pg_flashcache_tablespaces"
TRIED_S = 300


def state(cluster: Cluster) -> str:
    return cluster.sql(
        DATABASE,
        f"SELECT format('%s, disk %s us, flash %s us', state, round(disk_read_us), round(flash_read_us)) FROM {VIEW}"
        " WHERE spcname = 'pg_default'",
    )


def figure(bench: Bench) -> None:
    seconds, scale = bench.seconds(5), bench.scale(60)
    servers = ["without", *BYPASS]
    bench.loaded("without", scale).stop()
    for server in BYPASS:
        bench.clone("without", server)
    for server in servers:
        bench.clusters[server].forget()
    load = ["-M", "prepared", "-c", "8", "-j", "2", "-s", str(scale), "-f", bench.file("gaussian.sql", GAUSSIAN), DATABASE]
    clusters = {"without": bench.start("without", SETTINGS, LIMIT_MB)}
    for server, value in BYPASS.items():
        settings = SETTINGS | {"pg_flashcache.admission": "all", "pg_flashcache.bypass": "off"}
        clusters[server] = bench.start_flash(server, f"{scale * 15}MB", settings, LIMIT_MB)
        bench.warm(clusters[server], load, 300, 1)
        clusters[server].set(DATABASE, "pg_flashcache.bypass", value)
    for _ in range(TRIED_S // 10):
        clusters["auto"].pgbench("-T", "10", *load)
        say(state(clusters["auto"]))
        if state(clusters["auto"]).startswith("bypassed"):
            break
    for rep in bench.reps(5):
        before = {server: counters(clusters[server]) for server in BYPASS}
        bench.round(rep, SLICES, seconds, servers, load, bench.record)
        for server in BYPASS:
            now = counters(clusters[server])
            bench.record.add(
                f"{server}.more", rep, state=state(clusters[server]), hits=now.since(before[server], "hits"),
                inserts=now.since(before[server], "inserts"), disk_reads=now.since(before[server], "disk_reads"),
            )  # fmt: skip
    bench.record.table(["tps", "cpu_us"], servers)
    words = bench.limit_words(clusters["without"])
    load_results(bench.record, f"flash on flash ({words}), bypass off", "no goal", "off")
    load_results(bench.record, f"flash on flash ({words}), bypass auto", "0.98", "auto")
