"""What counting by relation and by statement costs: sessions that count for some milliseconds, and do not for the next.

prepared, simple   pgbench's select-only transaction with everything in shared_buffers, by prepared statements and without, with the
                   default settings: reads are counted by relation, and no read is made; statements have no query identifiers
identifiers        as simple, but that the server computes query identifiers in any case: each statement is counted
asked              as simple, but that it computes them for the counting alone, as with track_statements = on
flash              random pages, every one from flash: each read is counted

A pair is so short that what else the machine does is the same for both of it; and what is compared is processor time of the
session, as the kernel counts it to the nanosecond whenever the session has waited for its client. A repetition is the medians of
some hundreds or thousands of pairs, half of them in the other order.
"""

from __future__ import annotations

from collections.abc import Callable

from bench.harness import DATABASE, Bench, counters, expect_plan, say, set_probe
from pgflash.lab.cluster import Cluster

PREWARM = "SELECT pg_prewarm(oid) FROM pg_class WHERE relname ~ '^pgbench_.*' AND relkind IN ('r', 'i')"
STATEMENTS = 100  # of one half of a pair
PAGES = 32768
CHUNK = 512  # pages that one statement reads
# The defaults, and nothing.
ARMS = {
    "counted": {"pg_flashcache.track_relations": "on", "pg_flashcache.track_statements": "auto"},
    "not": {"pg_flashcache.track_relations": "off", "pg_flashcache.track_statements": "off"},
}
# compute_query_id where it is not the default: in a session, "on" does what a library does that asks for identifiers.
IDENTIFIERS = {"identifiers": {"counted": "on", "not": "on"}, "asked": {"counted": "on", "not": "auto"}}
CLOCK = (
    "SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::bigint AS cpu,"
    " (extract(epoch FROM clock_timestamp()) * 1e9)::bigint AS wall \\gset {}_\n"
)
COSTS = (
    "CREATE UNLOGGED TABLE costs (counted_cpu bigint, not_cpu bigint, counted_wall bigint, not_wall bigint)",
    "ALTER TABLE costs SET (autovacuum_enabled = off)",
)
MEDIANS = "SELECT count(*), " + ", ".join(
    f"percentile_cont(0.5) WITHIN GROUP (ORDER BY {arm}_{clock})" for clock in ("cpu", "wall") for arm in ("counted", "not")
)
SELECT = "\\set aid random(1, 100000 * :scale)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"
READ = (
    f"\\set lo (:lo + {CHUNK}) % {PAGES}\n"
    f"SELECT count(*) FROM tids JOIN pages ON pages.ctid = tids.tid WHERE tids.id >= :lo AND tids.id < :lo + {CHUNK};\n"
)
TIDS = f"""
CREATE TABLE tids AS SELECT (row_number() OVER (ORDER BY random()) - 1)::int AS id, format('(%s,1)', n)::tid AS tid
FROM generate_series(0, {PAGES - 1}) n;
CREATE INDEX ON tids (id);
VACUUM (FREEZE, ANALYZE) tids;
ALTER DATABASE {DATABASE} SET enable_hashjoin = off;
ALTER DATABASE {DATABASE} SET enable_mergejoin = off;
CHECKPOINT;
"""
FILL = "SELECT count(*) FROM tids JOIN pages ON pages.ctid = tids.tid"


def pair(arms: list[str], half: str, identifiers: dict[str, str]) -> str:
    text = ""
    for arm in arms:
        settings = ARMS[arm] | {"compute_query_id": identifiers.get(arm, "auto")}
        text += "".join(f"SET {name} = '{value}';\n" for name, value in settings.items())
        text += CLOCK.format(f"{arm}_0") + half + CLOCK.format(f"{arm}_1")
    took = ", ".join(f"CAST(:{arm}_1_{clock} AS bigint) - CAST(:{arm}_0_{clock} AS bigint)" for clock in ("cpu", "wall") for arm in ARMS)
    return text + f"INSERT INTO costs VALUES ({took});\n"


def measure(bench: Bench, cluster: Cluster, name: str, rep: int, half: str, units: int, *options: str) -> None:
    """One repetition; `units`: how many of what is measured are in a half."""
    identifiers = IDENTIFIERS.get(name, {})
    scripts = [bench.file(f"{name}-{arms[0]}.sql", pair(arms, half, identifiers)) for arms in (list(ARMS), list(reversed(ARMS)))]
    cluster.sql(DATABASE, "TRUNCATE costs")
    cluster.pgbench("-T", str(bench.seconds(5)), *(word for script in scripts for word in ("-f", script)), *options, DATABASE)
    pairs, *medians = (float(value) for value in cluster.sql(DATABASE, f"{MEDIANS} FROM costs").split())
    cpu, wall = medians[:2], medians[2:]
    for place, arm in enumerate(ARMS):
        each = {"cpu_us": round(cpu[place] / units / 1000, 3), "wall_us": round(wall[place] / units / 1000, 3)}
        bench.record.add(f"{name}, {arm}", rep, **each, pairs=int(pairs))


def in_memory(bench: Bench) -> None:
    scale = bench.scale(20)
    settings = {"shared_buffers": f"{scale * 20 + 100}MB"}
    bench.loaded("a", scale, "CREATE EXTENSION pg_prewarm", *COSTS, buffers=settings["shared_buffers"]).stop()
    a = bench.start_flash("a", "256MB", settings)
    a.sql(DATABASE, PREWARM)
    for rep in bench.reps(9):
        for name, mode in (("prepared", "prepared"), ("simple", "simple"), ("identifiers", "simple"), ("asked", "simple")):
            measure(bench, a, name, rep, SELECT * STATEMENTS, STATEMENTS, "-M", mode, "-c", "2", "-j", "2", "-D", f"scale={scale}")
    a.stop()


def on_flash(bench: Bench) -> None:
    say(f"a table of {PAGES} pages, and a flash file that holds it")
    b = bench.pages("b", PAGES, TIDS)
    b.sql(DATABASE, *COSTS)
    b.stop()
    bench.start_flash("b", "400MB", {"shared_buffers": "16MB", "pg_flashcache.pause_when_slow": "off"})
    expect_plan(b.sql(DATABASE, f"EXPLAIN {FILL}"), "Tid Scan")
    set_probe(b, "off")
    for _ in range(6):
        b.sql(DATABASE, FILL)
    for rep in bench.reps(9):
        before = counters(b)
        measure(bench, b, "flash", rep, READ, CHUNK, "-M", "prepared", "-D", "lo=0")
        bench.record.add("flash, both", rep, hit_ratio=round(counters(b).hit_ratio_since(before), 4))


def figure(bench: Bench) -> None:
    parts: list[Callable[[Bench], None]] = [in_memory, on_flash]
    for part in parts:
        part(bench)
    names = ("prepared", "simple", "identifiers", "asked", "flash")
    bench.record.table(["cpu_us", "wall_us", "pairs", "hit_ratio"], [f"{name}, {arm}" for name in names for arm in (*ARMS, "both")])
    for name, words in (
        ("prepared", "in shared_buffers, prepared statements"), ("simple", "in shared_buffers, simple protocol"),
        ("identifiers", "the same, query identifiers in any case"), ("asked", "the same, query identifiers for the counting alone"),
        ("flash", "all hits"),
    ):  # fmt: skip
        goal = "" if name == "asked" else "at least 0.99"
        for key, what in (("cpu_us", "processor time"), ("wall_us", "time")):
            bench.record.ratio(f"{words}: {what}, not counted / counted", goal, key, f"{name}, not", f"{name}, counted")
