"""Area server: settings of PostgreSQL and of pg_flashcache, and what the cache says of itself."""

from __future__ import annotations

from collections.abc import Iterable

from pgflash.doctor.check import AlterSystem, CannotLook, DoesNotApply, Finding, Severity, check
from pgflash.doctor.checks.common import GB, MB, PG, cache_of, server_of
from pgflash.doctor.facts import Facts
from pgflash.doctor.facts.server import Server
from pgflash.shown import literal
from pgflash.state import NOT_ENABLED, SIZE_0, not_started
from pgflash.units import show_bytes, show_ms, show_seconds

WAL = f"{PG}/runtime-config-wal.html"
RESTART = "restart the server"


def _alter(server: Server, name: str, value: str, what: str = "") -> Finding:
    return Finding(name, what or f"is {server.get(name) or 'empty'}", change=AlterSystem(name, value))


def _memory(facts: Facts, server: Server) -> int:
    """Of the machine, or of the control group if that is less."""
    if not server.local:
        raise CannotLook(server.not_local)
    total = facts.machine.memory.get("MemTotal", 0)
    if not total:
        raise CannotLook("/proc/meminfo cannot be read")
    return min(total, facts.control.memory or total)


def _better_buffers(facts: Facts, server: Server) -> int:
    """What shared_buffers should be, by the memory there is; 0 if that is what it is, or not known."""
    try:
        memory = _memory(facts, server)
    except CannotLook:
        return 0
    return 0 if memory < GB or memory // 10 <= server.bytes("shared_buffers") <= memory * 4 // 10 else memory // 4


def _view_of(facts: Facts) -> Server:
    """A server with a cache, whose view was read."""
    server = cache_of(facts)
    if not server.cache:
        raise CannotLook(server.cache_unasked or "pg_stat_flashcache cannot be read in this database")
    return server


@check(
    "server", "cache_state", "The cache is active", severity=Severity.PROBLEM,
    question="If the library is preloaded, or the extension is in this database: is the cache in use, or has it been starting for a minute at most, and if not, why?",
    why="The server runs without the cache, from the disk alone.",
    source="docs/operation.md, When the device fails; docs/views.md, pg_stat_flashcache",
)  # fmt: skip
def cache_state(facts: Facts) -> Iterable[Finding]:
    server = server_of(facts)
    if server.extension and not server.has_cache:
        command = "ALTER SYSTEM SET shared_preload_libraries = ...: what is there, and pg_flashcache"
        what = "is without pg_flashcache, though the extension is in this database: there is no cache"
        yield Finding("shared_preload_libraries", what, (command, RESTART), severity=Severity.ADVICE)
        return
    _view_of(facts)
    state, reason = str(server.cache.get("state")), str(server.cache.get("reason") or "no reason is given")
    if reason == SIZE_0:
        raise DoesNotApply(reason)
    if reason == NOT_ENABLED:
        again = "ALTER SYSTEM SET pg_flashcache.enabled = on; SELECT pg_reload_conf();"
        yield Finding("pg_flashcache", f"{state}: {reason}", (again,), severity=Severity.ADVICE)
    elif state == "off":
        yield Finding("pg_flashcache", f"off: {reason}", ("correct what the reason names", "SELECT pg_flashcache_enable();"))
    elif state in ("disabled", "detached"):
        yield Finding("pg_flashcache", f"{state}: {reason}", ("correct what the reason names", RESTART))
    elif not_started(server.cache, server.cache.get("state_age_s")):
        what = f"{state} for {show_seconds(server.cache['state_age_s'])}: {reason}"
        yield Finding("pg_flashcache", what, ("find out what holds it up: the log, and whether the flash device answers",))
    elif state == "paused":
        yield Finding("pg_flashcache", f"paused: {reason}", ("find out what else uses the device: iostat -x 1",), severity=Severity.ADVICE)


@check(
    "server", "cache_devices", "Each device of the cache is in use", severity=Severity.PROBLEM,
    question="While the cache is in use: is each of its devices, and if not, why?",
    why="The cache goes on without what the device held, and without its size.",
    source="docs/operation.md, When the device fails; docs/views.md, pg_stat_flashcache_device",
)  # fmt: skip
def cache_devices(facts: Facts) -> Iterable[Finding]:
    server = _view_of(facts)
    if server.devices_unasked:
        raise CannotLook(server.devices_unasked)
    if not server.bytes("pg_flashcache.size"):
        raise DoesNotApply("pg_flashcache.size is 0")
    state = str(server.cache.get("state"))
    for row in server.devices:
        if row["state"] == "off" and (row["device"] > 1 or state in ("active", "paused")):
            one = f"pg_flashcache_enable_device({literal(str(row['path']))})"
            again = f"SELECT {one if row['device'] > 1 else 'pg_flashcache_enable()'};"
            what = f"device {row['device']} is off: {row['reason'] or 'no reason is given'}"
            yield Finding(str(row["path"]), what, ("correct what the reason names", again))


@check(
    "server", "cache_size", "The cache is 2 to 10 times shared_buffers",
    question="Is pg_flashcache.size in that range, of shared_buffers as it is, or as server.shared_buffers would have it?",
    why="A cache that is hardly larger than shared_buffers holds little that is not there already. One that is far larger, and not half "
    "full, needs a warm working set of that size to pay for its memory.",
    source="docs/settings.md, pg_flashcache.size",
)  # fmt: skip
def cache_size(facts: Facts) -> Iterable[Finding]:
    """shared_buffers is what it would be by server.shared_buffers, which alone says how large that should be."""
    server = cache_of(facts)
    size, buffers = server.bytes("pg_flashcache.size"), server.bytes("shared_buffers")
    if not size:
        raise DoesNotApply("pg_flashcache.size is 0")
    better_buffers = _better_buffers(facts, server)
    slots, used = int(server.cache.get("slots") or 0), int(server.cache.get("used") or 0)
    whose = (
        f"the {show_bytes(better_buffers)} that shared_buffers should be" if better_buffers else f"shared_buffers ({show_bytes(buffers)})"
    )
    buffers = better_buffers or buffers
    what = f"is {show_bytes(size)}, {size / buffers:.1f} times {whose}"
    if size < 2 * buffers:
        better = f"ALTER SYSTEM SET pg_flashcache.size = '{-(-4 * buffers // MB)}MB'"
        yield Finding("pg_flashcache.size", what, (better, RESTART))
    elif size > 10 * buffers and (not slots or used < slots // 2):
        better = f"ALTER SYSTEM SET pg_flashcache.size = '{10 * buffers // MB}MB'"
        yield Finding("pg_flashcache.size", f"{what}, and not half full" if slots else what, (better, RESTART))


@check(
    "server", "cache_memory", "Shared memory fits into the machine", severity=Severity.PROBLEM,
    question="Do shared_buffers and the cache's memory take less than seven eighths of memory?",
    why="Above that the cache does not start, and below it sessions and page cache need room as well.",
    source="docs/settings.md, pg_flashcache.size",
)  # fmt: skip
def cache_memory(facts: Facts) -> Iterable[Finding]:
    server = cache_of(facts)
    memory = _memory(facts, server)
    need = server.bytes("shared_buffers") + int(server.cache.get("memory_bytes") or server.bytes("pg_flashcache.size") * 40 // 8192)
    if need > memory * 7 // 8:
        what = f"shared_buffers and the cache's memory need {show_bytes(need)} of {show_bytes(memory)}"
        yield Finding("memory", what, ("lower pg_flashcache.size or shared_buffers", RESTART))


@check(
    "server", "shared_buffers", "shared_buffers is a tenth to four tenths of memory",
    question="Is shared_buffers in that range, on a machine of 1 GB or more?",
    why="The default of 128 MB leaves memory unused; more than 40% is rarely better, since the kernel's cache and the sessions need theirs.",
    source=f"{PG}/runtime-config-resource.html#GUC-SHARED-BUFFERS",
)  # fmt: skip
def shared_buffers(facts: Facts) -> Iterable[Finding]:
    server = server_of(facts)
    memory = _memory(facts, server)
    if memory < GB:
        raise DoesNotApply(f"memory is {show_bytes(memory)}")
    if better := _better_buffers(facts, server):
        what = f"is {show_bytes(server.bytes('shared_buffers'))} of {show_bytes(memory)}"
        yield Finding("shared_buffers", what, (f"ALTER SYSTEM SET shared_buffers = '{better // MB}MB'", RESTART))


@check(
    "server", "require_mount", "The cache is refused where the flash is not mounted",
    question="Is pg_flashcache.require_mount on, where the cache's file is on a mount of its own?",
    why="If the mount is missing after a boot, the cache would fill the disk below it.",
    source="docs/settings.md, pg_flashcache.require_mount",
)  # fmt: skip
def require_mount(facts: Facts) -> Iterable[Finding]:
    server = cache_of(facts)
    if server.get("pg_flashcache.require_mount") == "on":
        return
    flash = [place for place in facts.role("flash") if place.mount]
    others = {place.mount.point for place in facts.role("data", "wal") if place.mount} | {"/"}
    if not flash or not facts.role("data"):
        raise CannotLook("the file system of the cache or of the server is not known")
    if flash[0].mount and flash[0].mount.point in others:
        raise DoesNotApply(f"the cache's file has no mount of its own (mounts.own_mount): it is on {flash[0].mount.point}")
    yield _alter(server, "pg_flashcache.require_mount", "on")


@check(
    "server", "io_timeout", "The wait for the flash device is bounded",
    question="Is pg_flashcache.io_timeout above 0?",
    why="With 0 a session waits for a device that hangs until the kernel gives up.",
    source="docs/settings.md, pg_flashcache.io_timeout",
)  # fmt: skip
def io_timeout(facts: Facts) -> Iterable[Finding]:
    server = cache_of(facts)
    if server.number("pg_flashcache.io_timeout") == 0:
        yield Finding(
            "pg_flashcache.io_timeout",
            "is 0",
            ("allow io_uring (limits.io_uring)", "ALTER SYSTEM RESET pg_flashcache.io_timeout; SELECT pg_reload_conf();"),
        )


@check(
    "server", "wal_level", "Indexes that are built can be cached",
    question="Is wal_level above minimal?",
    why="Under minimal, pages of indexes that were built in bulk are not taken from shared_buffers before they are modified.",
    source="docs/reliability.md, What is certified",
)  # fmt: skip
def wal_level(facts: Facts) -> Iterable[Finding]:
    server = cache_of(facts)
    if server.get("wal_level") == "minimal":
        yield Finding("wal_level", "is minimal", ("ALTER SYSTEM SET wal_level = 'replica'", RESTART, "REINDEX DATABASE CONCURRENTLY"))


@check(
    "server", "max_wal_size", "Checkpoints come by time, not by volume",
    question="Are at most a fifth of the checkpoints requested, because max_wal_size was reached?",
    why="Each checkpoint writes all dirty pages, and makes the next change of each page write the whole page to the WAL.",
    source=f"{WAL}#GUC-MAX-WAL-SIZE; {PG}/wal-configuration.html",
)  # fmt: skip
def max_wal_size(facts: Facts) -> Iterable[Finding]:
    server = server_of(facts)
    total = server.checkpoints_timed + server.checkpoints_requested
    if total < 10:
        raise CannotLook(f"{total} checkpoints are counted, 10 are needed")
    if server.checkpoints_requested * 5 > total:
        better = f"{max(4096, 2 * server.bytes('max_wal_size') // MB)}MB"
        what = f"is {show_bytes(server.bytes('max_wal_size'))}; {server.checkpoints_requested} of {total} checkpoints were requested"
        free = next((facts.machine.free_bytes(place.path) for place in facts.role("wal") if not place.unseen), None)
        if free is not None and free < 2 * server.bytes("max_wal_size") + 4 * GB:
            yield Finding(
                "max_wal_size",
                f"{what}; {show_bytes(free)} are free for WAL",
                ("make room for WAL", f"ALTER SYSTEM SET max_wal_size = '{better}'"),
            )
        else:
            yield _alter(server, "max_wal_size", better, what)


@check(
    "server", "checkpoint_timeout", "Checkpoints are not too frequent",
    question="Is checkpoint_timeout 15 minutes or more?",
    why="Fewer checkpoints write fewer pages, and fewer whole pages to the WAL. Recovery after a crash takes longer.",
    source=f"{WAL}#GUC-CHECKPOINT-TIMEOUT",
)  # fmt: skip
def checkpoint_timeout(facts: Facts) -> Iterable[Finding]:
    server = server_of(facts)
    if server.number("checkpoint_timeout") < 900:
        yield _alter(server, "checkpoint_timeout", "15min", f"is {server.get('checkpoint_timeout')} s")


@check(
    "server", "checkpoint_spread", "Checkpoints spread their writes",
    question="Is checkpoint_completion_target 0.9 or more?",
    why="Below it a checkpoint writes as much in less time, and reads wait behind it.",
    source=f"{WAL}#GUC-CHECKPOINT-COMPLETION-TARGET",
)  # fmt: skip
def checkpoint_spread(facts: Facts) -> Iterable[Finding]:
    server = server_of(facts)
    if server.number("checkpoint_completion_target") < 0.9:
        yield _alter(server, "checkpoint_completion_target", "0.9")


@check(
    "server", "wal_compression", "Whole pages in the WAL are compressed",
    question="Is wal_compression on?",
    why="Whole pages are most of the WAL after a checkpoint; compression costs little processor time and spares the disk.",
    source=f"{WAL}#GUC-WAL-COMPRESSION",
)  # fmt: skip
def wal_compression(facts: Facts) -> Iterable[Finding]:
    server = server_of(facts)
    if server.get("wal_compression") == "off":
        yield _alter(server, "wal_compression", "lz4" if "lz4" in server.settings["wal_compression"].values else "on")


@check(
    "server", "durable", "What is committed stays committed", severity=Severity.PROBLEM,
    question="Are fsync and full_page_writes on?",
    why="Without them a loss of power may damage the data beyond repair.",
    source=f"{WAL}#GUC-FSYNC; {WAL}#GUC-FULL-PAGE-WRITES",
)  # fmt: skip
def durable(facts: Facts) -> Iterable[Finding]:
    server = server_of(facts)
    for name in ("fsync", "full_page_writes"):
        if server.get(name) == "off":
            yield _alter(server, name, "on")


@check(
    "server", "io_concurrency", "Bitmap scans ask for several pages at once",
    question="With a cache: is effective_io_concurrency 16 or more?",
    why="Flash answers many requests at once; with 1, the default up to 17, a bitmap scan waits for one after the other.",
    source=f"{PG}/runtime-config-resource.html#GUC-EFFECTIVE-IO-CONCURRENCY",
)  # fmt: skip
def io_concurrency(facts: Facts) -> Iterable[Finding]:
    server = cache_of(facts)
    if server.number("effective_io_concurrency") < 16:
        yield _alter(server, "effective_io_concurrency", "32")


@check(
    "server", "random_page_cost", "The planner knows that random reads are cheap",
    question="With a cache that answers half of the reads: is random_page_cost 2 or less?",
    why="At the default of 4 the planner takes sequential scans, which flash does not serve, where an index scan would be faster.",
    source=f"{PG}/runtime-config-query.html#GUC-RANDOM-PAGE-COST",
)  # fmt: skip
def random_page_cost(facts: Facts) -> Iterable[Finding]:
    server = cache_of(facts)
    ratio = server.cache.get("hit_ratio")
    if ratio is None:
        raise CannotLook("the hit ratio is not known")
    if float(ratio) < 0.5:
        raise DoesNotApply(f"{float(ratio):.0%} of the reads are hits")
    if server.number("random_page_cost") > 2:
        yield _alter(server, "random_page_cost", "2", f"is {server.get('random_page_cost')}; {float(ratio):.0%} of the reads are hits")


@check(
    "server", "track_io_timing", "PostgreSQL's own views have times of reads",
    question="Is track_io_timing on?",
    why="Without it pg_stat_database, pg_stat_io and EXPLAIN (BUFFERS) have no times of reads. The cache measures for itself, and its views "
    "have them. pg_test_timing shows what it costs: well below a microsecond, usually.",
    source=f"{PG}/runtime-config-statistics.html#GUC-TRACK-IO-TIMING; pgtesttiming(1); docs/views.md, Times and track_io_timing",
)  # fmt: skip
def track_io_timing(facts: Facts) -> Iterable[Finding]:
    server = server_of(facts)
    if server.get("track_io_timing") == "off":
        measured = server.disk_ms
        by_cache = f"; by the cache's own measurement a page from disk takes {show_ms(measured[0])} ({measured[1]})" if measured else ""
        yield _alter(server, "track_io_timing", "on", f"is off{by_cache}")


@check(
    "server", "checksums", "Damaged pages are noticed",
    question="Are data checksums enabled?",
    why="Without them a page that the disk returns damaged is used. (Pages from flash have a sum of their own.)",
    source=f"{PG}/checksums.html",
)  # fmt: skip
def checksums(facts: Facts) -> Iterable[Finding]:
    server = server_of(facts)
    if server.get("data_checksums") == "off":
        place = server.data_directory or "DATA"
        commands = ("stop the server", f"pg_checksums --enable --progress --pgdata {place}", "start the server")
        yield Finding("data_checksums", "is off", commands)


@check(
    "server", "io_method", "Reads are asynchronous",
    question="On 18 and later: is io_method worker or io_uring?",
    why="With sync each read that is combined or started ahead is waited for.",
    source=f"{PG}/runtime-config-resource.html#GUC-IO-METHOD",
)  # fmt: skip
def io_method(facts: Facts) -> Iterable[Finding]:
    server = server_of(facts)
    if not server.has("io_method"):
        raise DoesNotApply("before version 18")
    if server.get("io_method") == "sync":
        yield Finding("io_method", "is sync", ("ALTER SYSTEM SET io_method = 'worker'", RESTART))


@check(
    "server", "pending_restart", "Settings are in effect",
    question="Do changed settings wait for a restart?",
    why="The server runs with the old values until then.",
    source=f"{PG}/view-pg-settings.html (pending_restart)",
)  # fmt: skip
def pending_restart(facts: Facts) -> Iterable[Finding]:
    for name, item in sorted(server_of(facts).settings.items()):
        if item.pending:
            yield Finding(name, "was changed, and waits for a restart", (RESTART,))


@check(
    "server", "temp_tablespaces", "Many temporary files have a tablespace of their own",
    question="With more than 10 GB of temporary files so far: is temp_tablespaces set?",
    why="Sorts and hashes that do not fit into work_mem are written and read again; they need not last, so they may be on instance storage.",
    source=f"{PG}/runtime-config-client.html#GUC-TEMP-TABLESPACES",
)  # fmt: skip
def temp_tablespaces(facts: Facts) -> Iterable[Finding]:
    server = server_of(facts)
    if server.temp_bytes <= 10 * GB:
        raise DoesNotApply(f"{show_bytes(server.temp_bytes)} of temporary files were written")
    if not server.get("temp_tablespaces"):
        what = f"is empty; {show_bytes(server.temp_bytes)} of temporary files were written"
        commands = (
            "CREATE TABLESPACE fast LOCATION '/mnt/nvme/temp'",
            "ALTER SYSTEM SET temp_tablespaces = 'fast'; SELECT pg_reload_conf();",
        )
        yield Finding("temp_tablespaces", what, commands)
