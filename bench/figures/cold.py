"""How fast is a cache that began empty, after 100,000 transactions on a slow disk? Version 1.0 filled page by page what was evicted a
second time; since 1.1 a fill may bring the page's neighbours, and admission adapts.

as_1_0   page by page, admission by a ghost list of half the slots: the settings that do what 1.0 did
now      the defaults

Flash is a third of the database, and the disk has its real speed from the first transaction on.
"""

from __future__ import annotations

from bench.harness import DATABASE, GAUSSIAN, Bench, counters, rotated, say
from pgflash.units import MB

ARMS = {"as_1_0": {"pg_flashcache.extents": "off", "pg_flashcache.admission": "ghost_half"}, "now": {}}
CLIENTS = 16
WARM_UP = 100_000  # transactions


def figure(bench: Bench) -> None:
    seconds, scale = bench.seconds(60), bench.scale(200)
    load = [
        "-M", "prepared", "-c", str(CLIENTS), "-j", "1", "-s", str(scale), "-f", bench.file("gaussian.sql", GAUSSIAN), DATABASE,
    ]  # fmt: skip
    bench.lab_disk(scale * 15 * 3 // 2 + 1000)
    say(f"loading scale {scale}")
    a = bench.loaded("a", scale)
    size = a.number(DATABASE, f"SELECT pg_database_size('{DATABASE}')") // MB // 3
    a.stop()
    for rep in bench.reps(3):
        for arm in rotated(rep, list(ARMS)):
            a.forget()
            bench.start_flash("a", f"{size}MB", {"shared_buffers": f"{scale // 2}MB"} | ARMS[arm], scale // 2 + 200)
            bench.disk.slow()
            began = bench.disk.reads()
            warm_up = a.pgbench("-t", str(WARM_UP // CLIENTS), *load)
            before, reads = counters(a), bench.disk.reads()
            result = a.pgbench("-T", str(seconds), *load)
            after = counters(a)
            bench.record.add(
                arm, rep, tps=round(result.tps, 1), hit_ratio=round(after.hit_ratio_since(before), 4),
                filled=round(after["used"] / after["slots"], 4), warm_up_tps=round(warm_up.tps, 1), warm_up_reads=reads - began,
                disk_reads_per_s=(bench.disk.reads() - reads) // seconds, inserts=after["inserts"], limit=bench.limit_words(a),
                disk=bench.disk.name,
            )  # fmt: skip
            bench.disk.fast()
            a.stop()
    record = bench.record
    record.table(["tps", "hit_ratio", "filled", "disk_reads_per_s", "warm_up_tps", "warm_up_reads"], list(ARMS))
    record.ratio(f"transactions/s after {WARM_UP} from cold, now / as 1.0", "at least 2.5", "tps", "now", "as_1_0")
