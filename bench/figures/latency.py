"""Average latency without and with flash, on a disk that is busy: the figure the product exists for.

off      no flash
third    flash of 1/3 of the database
half     of 47%
"""

from __future__ import annotations

from bench.harness import DATABASE, GAUSSIAN, Bench, counters, rotated, say
from pgflash.lab.pgbench import latencies
from pgflash.units import MB

ARMS = ("off", "third", "half")


def figure(bench: Bench) -> None:
    seconds, scale = bench.seconds(60), bench.scale(200)
    arms = ARMS
    buffers, limit = scale // 2, scale // 2 + 200
    load = ["-M", "prepared", "-c", "16", "-j", "1", "-s", str(scale), "-f", bench.file("gaussian.sql", GAUSSIAN), DATABASE]
    bench.lab_disk(scale * 15 * 3 // 2 + 1000)
    say(f"loading scale {scale}")
    a = bench.loaded("a", scale)
    database = a.number(DATABASE, f"SELECT pg_database_size('{DATABASE}')") // MB
    a.stop()
    settings = {"shared_buffers": f"{buffers}MB"}
    for rep in bench.reps(3):
        for arm in rotated(rep, arms):
            a.forget()
            size = {"off": 0, "third": database // 3, "half": database * 47 // 100}[arm]
            if not size:
                bench.start("a", settings, limit)
                a.pgbench("-T", "20", *load)
            else:
                bench.start_flash("a", f"{size}MB", settings, limit)
                bench.warm(a, load, max_s=600, step_points=0.3)
            before = counters(a) if size else None
            for old in bench.work.log.glob("latency.*"):
                old.unlink()
            bench.disk.slow()
            reads = bench.disk.reads()
            log = ["--log", "--sampling-rate=0.1", f"--log-prefix={bench.work.log / 'latency'}"]
            result = a.pgbench("-T", str(seconds), *log, *load)
            reads = bench.disk.reads() - reads
            bench.disk.fast()
            logs = list(bench.work.log.glob("latency.*"))
            more: dict[str, float | int] = {}
            if before is not None:
                after = counters(a)
                more = {"hit_ratio": round(after.hit_ratio_since(before), 4), "os_cache_hits": after.since(before, "os_cache_hits")}
            bench.record.add(
                arm, rep, average_ms=result.average_ms, p95_ms=latencies(logs)[0].get("p95", 0), tps=round(result.tps, 1),
                transactions=result.transactions, sampled=sum(len(path.read_bytes().splitlines()) for path in logs),
                disk_reads_per_s=reads // seconds, database_mb=database, flash_mb=size, shared_buffers_mb=buffers,
                limit=bench.limit_words(a), disk=bench.disk.name, **more,
            )  # fmt: skip
            a.stop()
    bench.record.table(["average_ms", "p95_ms", "tps", "disk_reads_per_s", "hit_ratio"], arms)
    bench.record.ratio("average off / flash 1/3", "at least 10", "average_ms", "off", "third")
    bench.record.ratio("average off / flash 47%", "at least 40", "average_ms", "off", "half")
