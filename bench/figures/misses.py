"""What the extension costs where it takes part in every read and never helps: loaded / not loaded. Uniform keys, a buffer pool
far smaller than the table, and

misses        everything in the kernel's page cache, a read costs some 5 us: the hardest case.
              tiny: 64 slots, no page lives to be found again. large: room for two thirds of the table, every eviction offered;
              there are no hits, because the page-cache probe finds the page there.
misses_disk   the lab disk, page cache limited, 64 slots.
"""

from __future__ import annotations

from bench.harness import DATABASE, Bench, counters, load_results, say, seconds_of, writer_ticks
from pgflash.lab.cluster import Cluster

SETTINGS = {"shared_buffers": "64MB"}
LIMIT_MB = 200
SLICES = 4


def start(bench: Bench, server: str, scale: int, limit_mb: int | None = None) -> Cluster:
    match server:
        case "tiny":
            return bench.start_flash(server, "512kB", SETTINGS, limit_mb)
        case "large":
            return bench.start_flash(server, f"{scale * 10}MB", SETTINGS | {"pg_flashcache.admission": "all"}, limit_mb)
    return bench.start(server, SETTINGS, limit_mb)


def figure(bench: Bench) -> None:
    seconds, scale = bench.seconds(5), bench.scale(60)
    servers = ["without", "tiny", "large"]
    bench.lab_disk(scale * 15 * 7 // 2 + 2000)
    bench.loaded("without", scale).stop()
    for server in servers[1:]:
        bench.clone("without", server)
    script = bench.file("uniform.sql", "\\set aid random(1, 100000 * :scale)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n")
    load = ["-M", "prepared", "-c", "8", "-j", "2", "-s", str(scale), "-f", script, DATABASE]
    say("everything in the page cache")
    for rep in bench.reps(5):
        _page_cache(bench, rep, seconds, scale, servers, load)
    bench.record.table(["tps", "cpu_us"], servers)
    say("on the lab disk")
    on_disk = bench.record.also("misses_disk")
    servers = servers[:2]
    for server in servers:
        bench.clusters[server].forget()
        start(bench, server, scale, LIMIT_MB).pgbench("-T", "10", *load)
    limit = bench.limit_words(bench.clusters["without"])
    bench.disk.slow()
    for rep in bench.reps(5):
        bench.round(rep, 1, seconds * 3, servers, load, on_disk)
    bench.disk.fast()
    on_disk.table(["tps", "cpu_us"], servers)
    load_results(bench.record, "page cache, 64 slots", "0.98", "tiny")
    load_results(bench.record, "page cache, room for 2/3 of the table", "0.98", "large")
    load_results(on_disk, f"lab disk ({limit}), 64 slots", "0.98", "tiny")


def _page_cache(bench: Bench, rep: int, seconds: int, scale: int, servers: list[str], load: list[str]) -> None:
    clusters = {server: start(bench, server, scale) for server in servers}
    for cluster in clusters.values():
        # Every page into the page cache; the load that follows fills the cache.
        for path in cluster.data.glob("base/*/*"):
            path.read_bytes()
        cluster.pgbench("-T", "5", *load)
    loaded = {server: clusters[server] for server in servers[1:]}
    before = {server: (counters(cluster), writer_ticks(cluster)) for server, cluster in loaded.items()}
    bench.round(rep, SLICES, seconds, servers, load, bench.record)
    for server, cluster in loaded.items():
        then, ticks = before[server]
        now = counters(cluster)
        bench.record.add(
            f"{server}.more", rep, hit_ratio=round(now.hit_ratio_since(then), 4),
            **{name: now.since(then, name) for name in ("misses", "inserts", "os_cache_hits")},
            writer_cpu_share=round(seconds_of(writer_ticks(cluster) - ticks) / (seconds * SLICES), 3),
        )  # fmt: skip
    for cluster in clusters.values():
        cluster.stop()
