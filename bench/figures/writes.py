"""Wear: how many pages are written to flash for a buffer-pool miss, in steady state, under a skewed load of 95% reads and 5%
updates; flash is 20% of the database, shared_buffers 5%. The question is one of policy, not of speed: it runs on the machine's own
disk, with the page-cache probe off (the page cache holds everything here). With persistence on (`log`): what its log adds to that.
"""

from __future__ import annotations

from bench.harness import DATABASE, GAUSSIAN, Bench, rotated

ARMS = ("all", "auto", "log")  # of admission; and auto, with persistence
LOG = "pg_stat_flashcache_persistence"
LOGGING = {"pg_flashcache.persistence": "on", "wal_level": "replica", "checkpoint_timeout": "30s"}
UPDATE = GAUSSIAN.splitlines()[0] + "\nUPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;\n"


def figure(bench: Bench) -> None:
    seconds, scale = bench.seconds(30), bench.scale(60)
    a = bench.loaded("a", scale)
    a.stop()
    scripts = ["-f", bench.file("gaussian.sql", GAUSSIAN) + "@19", "-f", bench.file("update.sql", UPDATE) + "@1"]
    load = ["-M", "prepared", "-c", "8", "-j", "2", "-s", str(scale), *scripts, DATABASE]
    for rep in bench.reps(3):
        for arm in rotated(rep, ARMS):
            settings = {"shared_buffers": f"{scale * 3 // 4}MB", "pg_flashcache.admission": arm, "synchronous_commit": "off"}
            if arm == "log":
                settings |= {"pg_flashcache.admission": "auto"} | LOGGING
            bench.start_flash("a", f"{scale * 3}MB", settings | {"pg_flashcache.os_cache_probe": "off"})
            bench.warm(a, load, max_s=120, step_points=0.2)
            # The ghost list learns more slowly than the cache fills: as long again as is measured.
            a.pgbench("-T", str(seconds), *load)
            before = a.counters(DATABASE, LOG)
            a.pgbench("-T", str(seconds), *load)
            after = a.counters(DATABASE, LOG)
            written = after.since(before, "write_bytes") // 8192
            misses = after.since(before, "hits") + after.since(before, "misses")
            bench.record.add(
                arm, rep, flash_pages_written=written, buffer_pool_misses=misses, writes_per_miss=round(written / misses, 4),
                hit_ratio=round(after.hit_ratio_since(before), 4), used=round(100 * after["used"] / after["slots"], 1),
                log_share=round(after.since(before, "log_bytes") / after.since(before, "write_bytes"), 5) if arm == "log" else 0.0,
            )  # fmt: skip
            a.stop()
    bench.record.table(["writes_per_miss", "hit_ratio", "flash_pages_written", "buffer_pool_misses"], ARMS)
    ratios = {arm: bench.record.median(arm, "hit_ratio") for arm in ARMS}
    bench.record.result(
        "flash page writes / buffer-pool misses, auto", bench.record.median("auto", "writes_per_miss"), "at most 0.35",
        f"hit ratio auto {ratios['auto']}, all {ratios['all']}",
    )  # fmt: skip
    bench.record.result("bytes of the log / bytes of pages written to flash", bench.record.median("log", "log_share"), "at most 0.02")
