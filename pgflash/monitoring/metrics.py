"""The one table of metrics. All files for monitoring tools are made from it.

A group is one query: its rows have the labels of the group, and a column for each of its metrics. So what one group shows is
of one moment. The name of a metric is that of its group and its own; units are the base units of Prometheus, seconds and
bytes, and what only grows ends with _total. Every column of pg_stat_flashcache is a metric or has a reason in LEFT_OUT.

Values are never NULL: tools differ in what they make of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pgflash.state import WANTED

Kind = Literal["counter", "gauge"]
_WANTED = ", ".join(f"'{reason}'" for reason in WANTED)
NEWEST = "1.1"
VERSIONS = ("1.0", NEWEST)

STATES = ("active", "starting", "disabled", "paused", "off", "detached")
VERDICTS = (
    "useful", "no writer", "no reads", "nothing to take", "the page cache answers", "flash is not faster", "filling", "few hits",
    "bypassed",
)  # fmt: skip


@dataclass(frozen=True)
class Metric:
    """A number: SQL that gives it for a row of its group."""

    name: str
    kind: Kind
    unit: str
    help: str
    sql: str
    since: str = "1.0"
    column: str = ""  # the column of the group's view that it shows, if it is just that


@dataclass(frozen=True)
class Group:
    """A query: {schema} in its text is that of the extension. Its labels are text, and are given as (name, SQL)."""

    name: str
    title: str
    source: str
    metrics: tuple[Metric, ...]
    labels: tuple[tuple[str, str], ...] = ()
    since: str = "1.0"
    of_database: bool = False  # what is shown is the database of the connection
    many: bool = False  # many series: not in the files that are read in one piece
    seldom: bool = False  # takes a look at every file: asked every few minutes, where the tool can do that

    @property
    def reads(self) -> str:
        """The extension's view or function, with the types of its arguments, that it reads; of several, the first. Empty: none."""
        found = re.search(r"\{schema\}\.(\w+(?:\(\w*\))?)", self.source)
        return found[1].replace("(false)", "(boolean)") if found else ""

    def of(self, version: str) -> tuple[Metric, ...]:
        """The metrics that the objects of this version of the extension give."""
        return tuple(metric for metric in self.metrics if older(metric.since, version)) if older(self.since, version) else ()

    def full(self, metric: Metric) -> str:
        return f"{self.name}_{metric.name}"

    def query(self, version: str, schema: str) -> str:
        columns = [f"{sql} AS {name}" for name, sql in self.labels] + [f"{metric.sql} AS {metric.name}" for metric in self.of(version)]
        listed = ",\n       ".join(columns)
        return f"SELECT {listed}\n{self.source}".strip().replace("{schema}", schema)


def older(one: str, other: str) -> bool:
    """Not newer, to be exact."""
    return [int(part) for part in one.split(".")] <= [int(part) for part in other.split(".")]


def _count(column: str, help: str, since: str = "1.0") -> Metric:
    return Metric(f"{column}_total", "counter", "", help, column, since, column)


def _bytes(column: str, help: str) -> Metric:
    return Metric(f"{column}_total", "counter", "bytes", help, column, column=column)


def _time(column: str, help: str, since: str = "1.0") -> Metric:
    name = column.removesuffix("_time_us")
    return Metric(f"{name}_seconds_total", "counter", "seconds", help, f"{column} / 1e6::float8", since, column)


def _moment(column: str, help: str) -> Metric:
    sql = f"COALESCE(EXTRACT(epoch FROM {column}), 0)::float8"
    return Metric(f"{column}_timestamp_seconds", "gauge", "seconds", help, sql, column=column)


SERVER = Group(
    "pg_flashcache", "The cache of a server", "FROM {schema}.pg_stat_flashcache",
    (
        _moment("state_since", "When the cache entered its state."),
        Metric("not_started", "gauge", "", "1 if the cache is wanted and has not started: it is starting, or disabled though no setting says so.",
               f"(state = 'starting' OR state = 'disabled' AND COALESCE(reason, '') NOT IN ({_WANTED}))::int"),
        Metric("waits_bounded", "gauge", "", "1 if no process waits for flash longer than io_timeout, 0 if one may, or it is not known.",
               "COALESCE(waits_bounded, false)::int", column="waits_bounded"),
        Metric("capacity_bytes", "gauge", "bytes", "Bytes of pages that the cache can hold.", "slots * 8192", column="slots"),
        Metric("used_bytes", "gauge", "bytes", "Bytes of pages that the cache holds.", "used * 8192", column="used"),
        _count("hits", "Pages read from flash."),
        _count("misses", "Pages that flash could have held and that were not read from it while the cache was active."),
        _count("disk_reads", "Pages read from data files; hits are not among them."),
        _time("disk_read_time_us", "Time that reads from data files took; only some are timed if pg_flashcache_settings_disk_reads_timed is 0."),
        _count("os_cache_hits", "Misses that were on flash but were read from the kernel's page cache."),
        _count("stream_reads", "Misses that were on flash but left to the disk, in a stream of neighbouring blocks."),
        _count("prefetches", "Pages on flash that were read before they were requested."),
        _bytes("read_bytes", "Bytes read from flash for hits."),
        _time("read_time_us", "Time that reading hits took."),
        _count("inserts", "Pages written to flash and published."),
        _count("insert_skip_corrupt", "Pages not written to flash: they may be damaged."),
        _count("insert_skip_exists", "Pages not written to flash: already there."),
        _count("insert_skip_modification", "Pages not written to flash: modified meanwhile."),
        _count("insert_skip_not_current", "Pages not written to flash: evicted or modified before they could be copied."),
        _count("insert_skip_not_useful", "Pages not written to flash: not worth it, by admission or os_cache_probe."),
        _count("insert_skip_overloaded", "Pages not written to flash: the hand-off queue was full, or no slot was available."),
        _count("insert_skip_pinned", "Pages not written to flash at that time: in use."),
        _count("insert_skip_write_limit", "Pages not written to flash: over write_limit."),
        _count("eviction_aged_out", "Pages removed from flash to free a slot."),
        _count("eviction_invalidated", "Pages removed from flash because they were changed, or the cache was emptied."),
        _count("invalidation_overflows", "Relations and databases for which pages of others were removed as well."),
        _count("writes", "Write calls to flash."),
        _bytes("write_bytes", "Bytes written to flash."),
        _time("write_time_us", "Time that writes to flash took."),
        _count("read_errors", "Reads from flash that failed."),
        _count("write_errors", "Writes to flash that failed."),
        _count("timeouts", "Calls to the flash device that were not answered within io_timeout."),
        _count("reads_unbounded", "Pages on flash that were read from the disk for lack of io_uring."),
        _count("switch_offs", "How often the cache went off or paused by itself."),
        _count("probes", "How often the cache was tried again after that."),
        _count("checksum_failures", "Pages read from flash with wrong content; each is a miss."),
        _count("slots_retired", "Slots taken out of service for wrong content."),
        _count("slots_erased", "Slots overwritten with zeros by pg_flashcache_scrub()."),
        _count("verify_checks", "Pages compared with the disk under verify."),
        _count("verify_failures", "Pages of these that differed: a bug if not 0."),
        Metric("memory_bytes", "gauge", "bytes", "Shared memory of the cache.", "memory_bytes", column="memory_bytes"),
        Metric("writer_up", "gauge", "", "1 if the background worker runs.", "(writer_pid IS NOT NULL)::int", column="writer_pid"),
        _moment("stats_reset", "Since when the counters count; 0 if nothing has been counted."),
    ),
)  # fmt: skip

# Columns of pg_stat_flashcache that are no metric of the group above, and why.
LEFT_OUT = {
    "state": "text; pg_flashcache_state_current has a series for each state",
    "verdict": "text; pg_flashcache_verdict_current has a series for each verdict",
    "reason": "text, and may quote the path of the file; pg_flashcache_not_started says if it is trouble",
    "next_probe": "follows from the state, for people",
    "attached_by": "text; follows from the state",
    "hit_ratio": "follows from hits and misses, for the interval that is wanted",
    "memory_per_slot": "follows from memory_bytes and slots",
    "writer_wait_event": "text",
}


def _one_of(name: str, title: str, label: str, values: tuple[str, ...], help: str) -> Group:
    """A series for each value, 1 for the present one."""
    listed = ", ".join(f"('{value}')" for value in values)
    return Group(
        f"pg_flashcache_{name}", title, f"FROM {{schema}}.pg_stat_flashcache s, (VALUES {listed}) v(value)",
        (Metric("current", "gauge", "", help, f"(s.{name} IS NOT DISTINCT FROM v.value)::int"),), ((label, "v.value"),),
    )  # fmt: skip


_SETTING = "pg_catalog.current_setting('pg_flashcache.{name}', true)"

SETTINGS = Group(
    "pg_flashcache_settings", "Settings", "",
    (
        Metric("write_limit_bytes_per_second", "gauge", "bytes per second", "pg_flashcache.write_limit; 0 is no limit.",
               f"COALESCE(pg_catalog.pg_size_bytes(NULLIF({_SETTING.format(name='write_limit')}, '')), 0)"),
        Metric("enabled", "gauge", "", "pg_flashcache.enabled.", f"COALESCE({_SETTING.format(name='enabled')} = 'on', false)::int"),
        Metric("disk_reads_timed", "gauge", "",
               "1 if the time of every disk read is counted; 0 with io_method worker or io_uring of PostgreSQL 18 and later.",
               "(COALESCE(pg_catalog.current_setting('io_method', true), 'sync') = 'sync')::int"),
    ),
)  # fmt: skip

PERSISTENCE = Group(
    "pg_flashcache_persistence", "What survives a restart", "FROM {schema}.pg_stat_flashcache_persistence",
    (
        Metric("writing", "gauge", "", "1 if the log of what is on flash is being written.", "COALESCE(writing, false)::int"),
        Metric("wanted", "gauge", "", "1 if pg_flashcache.persistence is on.", "(writing IS NOT NULL)::int"),
        Metric("restored", "gauge", "", "Pages that the last start restored.", "COALESCE(restored, 0)"),
        Metric("refused", "gauge", "", "1 if the last start did not restore the cache, for a reason that the view shows.",
               "(refused IS NOT NULL)::int"),
        Metric("log_bytes_total", "counter", "bytes", "Bytes of the log written to flash since the server started.",
               "COALESCE(log_bytes, 0)"),
        Metric("restored_wrong_total", "counter", "", "Pages restored after a crash that had wrong content when they were read.",
               "COALESCE(restored_wrong, 0)"),
    ),
)  # fmt: skip

WARMTH = Group(
    "pg_flashcache_warmth", "How warm a standby is", "FROM {schema}.pg_flashcache_warmth",
    (
        Metric("following", "gauge", "", "1 if the server follows another one's cache.", "(state <> 'off')::int"),
        Metric("share", "gauge", "", "Share of the pages of the other server's map that are here, 0 to 1; 0 if nothing is known.",
               "COALESCE(share, 0)"),
        Metric("hot_share", "gauge", "", "The same of pages that were hit on the other server.", "COALESCE(hot_share, 0)"),
        Metric("map_age_seconds", "gauge", "seconds", "Time since the last map was received; 0 before the first.", "COALESCE(age, 0)"),
        Metric("map_too_old", "gauge", "", "1 if the map is too old to rely on, or there is none though one is wanted.",
               "(state <> 'off' AND COALESCE(too_old, true))::int"),
        Metric("loaded_total", "counter", "", "Pages that were loaded since the server started.", "COALESCE(loaded, 0)"),
    ),
    since="1.1",
)  # fmt: skip

_RELATION = (("datname", "pg_catalog.current_database()::text"), ("schemaname", "COALESCE(schemaname::text, '')"),
             ("relname", "COALESCE(relname::text, relid::text)"))  # fmt: skip

RELATIONS = Group(
    "pg_flashcache_relation", "Relations of a database: the 50 with the most reads and writes",
    """FROM (
         SELECT * FROM {schema}.pg_stat_flashcache_relation WHERE relid IS NOT NULL
         ORDER BY disk_reads + hits + disk_writes + disk_extends DESC, relid LIMIT 50
       ) r""",
    (
        _count("hits", "Pages of the relation read from flash."),
        _time("read_time_us", "Time that reading hits took."),
        _count("disk_reads", "Pages of the relation read from data files."),
        _time("disk_read_time_us", "Time that these reads took."),
        _count("os_cache_hits", "Those of the disk reads that the kernel's page cache answered."),
        _count("disk_writes", "Pages of the relation's data files written again, by whatever process."),
        _count("disk_extends", "Pages added to the relation's data files."),
        _count("inserts", "Pages of the relation written to flash."),
        _count("invalidations", "Pages of the relation removed from flash because they were changed."),
        _count("evictions_without_hit", "Pages of the relation removed from flash that had never been hit."),
    ),
    _RELATION, since="1.1", of_database=True, many=True,
)  # fmt: skip

DEVICES = Group(
    "pg_flashcache_device", "Devices of the cache", "FROM {schema}.pg_stat_flashcache_device",
    (
        Metric("active", "gauge", "", "1 if the device is in use.", "(state = 'active')::int"),
        Metric("off", "gauge", "", "1 if the device is in trouble: its state is off. It is 0 if it is disabled, or being removed.",
               "(state = 'off')::int"),
        Metric("size_bytes", "gauge", "bytes", "Size for pages.", "size"),
        Metric("used_pages", "gauge", "", "Pages on the device.", "used"),
        Metric("reads_total", "counter", "", "Pages read from the device.", "reads"),
        Metric("read_seconds", "gauge", "seconds", "Mean time of a request to read, since the server started; 0 if there was none.",
               "COALESCE(read_us, 0) / 1e6"),
        Metric("written_bytes_total", "counter", "bytes", "Bytes of pages written to the device.", "write_bytes"),
        Metric("write_seconds", "gauge", "seconds", "Mean time of a request to write, since the server started; 0 if there was none.",
               "COALESCE(write_us, 0) / 1e6"),
        Metric("read_errors_total", "counter", "", "Requests to read that failed, or were not answered in time.", "read_errors"),
        Metric("write_errors_total", "counter", "", "Requests to write or flush that failed, or were not answered in time.", "write_errors"),
        Metric("timeouts_total", "counter", "", "Requests that were not answered within io_timeout.", "timeouts"),
    ),
    (("device", "device::text"), ("path", "path")), since="1.1",
)  # fmt: skip


def _drive(name: str, title: str, column: str, *metrics: Metric) -> Group:
    """Of the drives below the devices: what has not been reported, or a drive does not say, has no row."""
    return Group(
        f"pg_flashcache_drive{name}", title, f"FROM {{schema}}.pg_stat_flashcache_device_health WHERE {column} IS NOT NULL", metrics,
        (("device", "device::text"), ("path", "path"), ("drive", "drive")), since="1.1",
    )  # fmt: skip


DRIVES = (
    _drive(
        "", "Drives below the devices, if pgflash drives has reported them", "reported",
        Metric("reported_timestamp_seconds", "gauge", "seconds", "When the drive was reported last.", "EXTRACT(epoch FROM reported)::float8"),
        Metric("failing", "gauge", "", "1 if the drive does not pass its own assessment.", "(passed IS FALSE)::int"),
    ),
    _drive(
        "_health", "Health of these drives", "health",
        Metric("score", "gauge", "",
               "From 100 down to 0: percent left of its rated life, or of its spare blocks if that is less; 0 if it is failing.", "health"),
    ),
    _drive(
        "_wear", "Wear of these drives", "used_percent",
        Metric("ratio", "gauge", "", "Share of its rated life that is used; may be over 1.", "used_percent / 100::float8"),
    ),
    _drive(
        "_temperature", "Temperature of these drives", "temperature",
        Metric("celsius", "gauge", "celsius", "Degrees Celsius.", "temperature"),
    ),
    _drive(
        "_life", "Projected life of these drives", "days_left",
        Metric("left_seconds", "gauge", "seconds",
               "Time until its rated life is used, if it is written as much a day as lately; not known before an hour of reports.",
               "days_left * 86400::float8"),
    ),
)  # fmt: skip

LATENCY = Group(
    "pg_flashcache_latency", "Latency: log2 buckets, cumulative as a histogram of Prometheus",
    """FROM (
         SELECT backend_type, operation, (to_us / 1e6)::float8::text AS le,
                sum(count) OVER (PARTITION BY backend_type, operation ORDER BY bucket) AS total
         FROM (SELECT * FROM {schema}.pg_stat_flashcache_latency WHERE to_us IS NOT NULL) bounded
         UNION ALL
         SELECT backend_type, operation, '+Inf', sum(count) FROM {schema}.pg_stat_flashcache_latency GROUP BY backend_type, operation
       ) l""",
    (Metric("seconds_bucket", "counter", "", "Operations that took at most le seconds.", "total::float8"),),
    (("backend_type", "backend_type"), ("operation", "operation"), ("le", "le")), since="1.1", many=True,
)  # fmt: skip

STATEMENTS = Group(
    "pg_flashcache_statement", "Statements: the 50 with the most time of disk reads",
    """FROM (
         SELECT dbid, queryid, sum(calls)::bigint AS calls, sum(hits)::bigint AS hits, sum(read_time_us)::bigint AS read_time_us,
                sum(disk_reads)::bigint AS disk_reads, sum(disk_read_time_us)::bigint AS disk_read_time_us
         FROM {schema}.pg_flashcache_statement_stat(false)
         GROUP BY dbid, queryid ORDER BY sum(disk_read_time_us) DESC, sum(disk_reads) DESC, dbid, queryid LIMIT 50
       ) s LEFT JOIN pg_catalog.pg_database d ON d.oid = s.dbid""",
    (
        _count("calls", "Executions."),
        _count("hits", "Pages read from flash."),
        _time("read_time_us", "Time that reading hits took."),
        _count("disk_reads", "Pages read from data files."),
        _time("disk_read_time_us", "Time that these reads took."),
    ),
    (("datname", "COALESCE(d.datname::text, '')"), ("queryid", "COALESCE(s.queryid::text, '')")), since="1.1", many=True,
)  # fmt: skip

DATABASES = Group(
    "pg_flashcache_database", "Databases", "FROM pg_catalog.pg_database d WHERE NOT d.datistemplate",
    (Metric("size_bytes", "gauge", "bytes", "Size of the database in all tablespaces.",
            "COALESCE(pg_catalog.pg_database_size(d.oid), 0)"),),
    (("datname", "d.datname::text"),), seldom=True,
)  # fmt: skip

_PATH = """COALESCE(NULLIF(pg_catalog.pg_tablespace_location(t.oid), ''),
                (SELECT s.setting FROM pg_catalog.pg_settings s WHERE s.name = 'data_directory'), '')"""

TABLESPACES = Group(
    "pg_flashcache_tablespace", "Tablespaces", "FROM pg_catalog.pg_tablespace t",
    (Metric("size_bytes", "gauge", "bytes", "Size of all that is in the tablespace.",
            "COALESCE(pg_catalog.pg_tablespace_size(t.oid), 0)"),),
    (("tablespace", "t.spcname::text"), ("location", _PATH)), seldom=True,
)  # fmt: skip

TABLESPACE_DATABASES = Group(
    "pg_flashcache_tablespace_database", "Which database has something in which tablespace",
    """FROM (SELECT oid, spcname FROM pg_catalog.pg_tablespace WHERE spcname <> 'pg_global' OFFSET 0) t
       CROSS JOIN LATERAL pg_catalog.pg_tablespace_databases(t.oid) o(oid)
       JOIN pg_catalog.pg_database d ON d.oid = o.oid AND NOT d.datistemplate""",
    (Metric("present", "gauge", "", "1 if the database has something in the tablespace.", "1"),),
    (("tablespace", "t.spcname::text"), ("datname", "d.datname::text")), seldom=True,
)  # fmt: skip

GROUPS = (
    SERVER,
    _one_of("state", "State of the cache", "state", STATES, "1 for the state that the cache is in."),
    _one_of("verdict", "Verdict on the cache", "verdict", VERDICTS, "1 for the verdict on the last ten minutes; none while not active."),
    SETTINGS,
    PERSISTENCE,
    WARMTH,
    RELATIONS,
    STATEMENTS,
    LATENCY,
    DEVICES,
    *DRIVES,
    DATABASES,
    TABLESPACES,
    TABLESPACE_DATABASES,
)


def groups_of(version: str) -> list[Group]:
    return [group for group in GROUPS if group.of(version)]


def all_names() -> set[str]:
    return {group.full(metric) for group in GROUPS for metric in group.metrics}
