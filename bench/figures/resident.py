"""What the extension costs where it can do nothing: everything is in shared_buffers. Loaded / not loaded."""

from __future__ import annotations

from bench.harness import DATABASE, Bench, load_results

LOAD = ["-S", "-M", "prepared", "-c", "8", "-j", "2", DATABASE]
PREWARM = "SELECT pg_prewarm(oid) FROM pg_class WHERE relname ~ '^pgbench_.*' AND relkind IN ('r', 'i')"


def figure(bench: Bench) -> None:
    seconds, scale = bench.seconds(5), bench.scale(20)
    settings = {"shared_buffers": f"{scale * 20 + 100}MB"}
    servers = ["without", "loaded"]
    bench.loaded("without", scale, "CREATE EXTENSION pg_prewarm", buffers=settings["shared_buffers"]).stop()
    bench.clone("without", "loaded")
    # A restart each time: where the kernel puts a server's memory favours one or the other for its whole life.
    for rep in bench.reps(5):
        for server in servers:
            cluster = bench.start(server, settings) if server == "without" else bench.start_flash(server, "256MB", settings)
            cluster.sql(DATABASE, PREWARM)
            cluster.pgbench("-T", "3", *LOAD)
        bench.round(rep, 4, seconds, servers, LOAD, bench.record)
        for server in servers:
            bench.clusters[server].stop()
    bench.record.table(["tps", "cpu_us"], servers)
    load_results(bench.record, "in shared_buffers", "0.99", "loaded")
