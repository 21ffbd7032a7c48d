"""Rules by which Prometheus alerts, and what the dashboard and they have in common: expressions."""

from __future__ import annotations

from dataclasses import dataclass

from pgflash.monitoring.exporters import made
from pgflash.monitoring.metrics import older
from pgflash.monitoring.storage import FULL, RULES, WORN
from pgflash.monitoring.yamltext import as_yaml


def hit_ratio(window: str, offset: str = "") -> str:
    """Of an interval; no value where nothing was read."""
    back = f" offset {offset}" if offset else ""
    hits = f"rate(pg_flashcache_hits_total[{window}]{back})"
    misses = f"rate(pg_flashcache_misses_total[{window}]{back})"
    return f"{hits} / ({hits} + {misses} > 0)"


@dataclass(frozen=True)
class Alert:
    name: str
    expr: str
    lasts: str
    severity: str
    summary: str
    description: str
    since: str = "1.0"


ALERTS = (
    Alert(
        "PgFlashcacheOff", 'pg_flashcache_state_current{state=~"off|detached"} == 1', "5m", "warning",
        "the flash cache of {{ $labels.instance }} is {{ $labels.state }}",
        "The server reads from the disk only. pg_stat_flashcache.reason says why; docs/operation.md has what to do.",
    ),
    Alert(
        "PgFlashcacheNotStarted", "pg_flashcache_not_started == 1", "10m", "warning",
        "the flash cache of {{ $labels.instance }} has not started",
        "It is configured, and the server reads from the disk only: a setting is refused, it lacks memory or a process, or its device does "
        "not answer. pg_stat_flashcache.reason says why; docs/operation.md has what to do.",
    ),
    Alert(
        "PgFlashcacheDeviceOff",
        'pg_flashcache_device_off == 1 and on (instance) pg_flashcache_state_current{state=~"active|paused"} == 1', "5m", "warning",
        "device {{ $labels.device }} of the flash cache of {{ $labels.instance }} is off",
        "The cache goes on without it. pg_stat_flashcache_device has its path and the reason; docs/operation.md has what to do.",
        since="1.1",
    ),
    Alert(
        "PgFlashcachePaused", 'pg_flashcache_state_current{state="paused"} == 1', "30m", "warning",
        "the flash cache of {{ $labels.instance }} has been paused for half an hour",
        "Flash was slower than the disk. Look for what else uses the flash device.",
    ),
    Alert(
        "PgFlashcacheWriterDown",
        'pg_flashcache_writer_up == 0 and on (instance) pg_flashcache_state_current{state="active"} == 1', "5m", "warning",
        "the background worker of the flash cache of {{ $labels.instance }} does not run",
        "Nothing is added to the cache. The server's log says why the worker ended.",
    ),
    Alert(
        "PgFlashcachePersistenceNotWritten",
        'pg_flashcache_persistence_wanted == 1 and on (instance) pg_flashcache_persistence_writing == 0'
        ' and on (instance) pg_flashcache_state_current{state=~"active|paused"} == 1', "10m", "warning",
        "what the flash cache of {{ $labels.instance }} has may not survive the next restart",
        "pg_flashcache.persistence is on, and the log of what is on flash is not being written. The server's log says why, by 'no longer "
        "writes its log'; docs/operation.md has what to do.",
    ),
    Alert(
        "PgFlashcacheHitRatioFell",
        f"({hit_ratio('30m')}) < 0.5 * ({hit_ratio('1d', '1h')}) and rate(pg_flashcache_misses_total[30m]) > 50", "30m", "warning",
        "the hit ratio of the flash cache of {{ $labels.instance }} is less than half of that of the day before",
        "Another load, a cache that was emptied, or more data than before.",
    ),
    Alert(
        "PgFlashcacheWriteLimitReached",
        "rate(pg_flashcache_insert_skip_write_limit_total[30m]) > 0.2 * rate(pg_flashcache_inserts_total[30m]) + 1", "1h", "info",
        "write_limit keeps pages out of the flash cache of {{ $labels.instance }}",
        "For an hour, more than one page in six that would have been written was not. Raise pg_flashcache.write_limit if the "
        "endurance of the drive allows it.",
    ),
    Alert(
        "PgFlashcacheDeviceErrors",
        "increase(pg_flashcache_read_errors_total[1h]) + increase(pg_flashcache_write_errors_total[1h])"
        " + increase(pg_flashcache_timeouts_total[1h]) > 0", "0m", "warning",
        "calls to the flash device of {{ $labels.instance }} failed",
        "No query failed because of it. Look at the kernel's log and at the state of the drive.",
    ),
    Alert(
        "PgFlashcacheChecksumFailures", "increase(pg_flashcache_checksum_failures_total[1h]) > 0", "0m", "critical",
        "pages on the flash of {{ $labels.instance }} had wrong content",
        "Each was noticed and read from the disk. The device changes what is written to it, or somebody else writes to it.",
    ),
    Alert(
        "PgFlashcacheVerifyFailures", "increase(pg_flashcache_verify_failures_total[1h]) > 0", "0m", "critical",
        "pg_flashcache.verify found differences between flash and disk on {{ $labels.instance }}",
        "This is a bug: set pg_flashcache.enabled = off, and report it.",
    ),
    Alert(
        "PgFlashcacheNotHelping",
        'pg_flashcache_verdict_current{verdict=~"few hits|flash is not faster|the page cache answers"} == 1', "6h", "info",
        "the flash cache of {{ $labels.instance }} has been of little use: {{ $labels.verdict }}",
        "docs/views.md says what each verdict means, and what to do.",
    ),
    Alert(
        "PgFlashcacheTablespaceFull", FULL, "6h", "warning",
        "at the rate of the last week, {{ $labels.mountpoint }} of {{ $labels.host }} will be full within 30 days",
        "It holds the tablespace {{ $labels.tablespace }} of {{ $labels.instance }}. Needs node_exporter on that machine.",
    ),
    Alert(
        "PgFlashcacheWear", WORN, "1h", "warning",
        "{{ $labels.device }} of {{ $labels.host }} nears the end of its endurance",
        "The drive reports more than 80 % of what it is made for as used, or will report all of it within 90 days at the rate of the "
        "last 30. A drive of a machine with a flash cache: if it is the cache's, lower pg_flashcache.write_limit.",
    ),
    Alert(
        "PgFlashcacheDriveLife", "pg_flashcache_drive_life_left_seconds < 90 * 86400", "1h", "warning",
        "{{ $labels.drive }}, on which the flash cache of {{ $labels.instance }} is, will have used its rated life within 90 days",
        "If it is written as much a day as lately. pg_stat_flashcache_device_health has by whom; pg_flashcache.write_limit limits the cache.",
        since="1.1",
    ),
    Alert(
        "PgFlashcacheDriveFailing", "pg_flashcache_drive_failing == 1", "5m", "critical",
        "{{ $labels.drive }}, on which the flash cache of {{ $labels.instance }} is, does not pass its own assessment",
        "No query fails because of it, but what else is on that drive may be lost. pgflash drives and smartctl say more.",
        since="1.1",
    ),
)  # fmt: skip


def alerts(version: str, schema: str, dsn: str) -> dict[str, str]:
    rules = [
        {
            "alert": alert.name, "expr": alert.expr, **({"for": alert.lasts} if alert.lasts != "0m" else {}),
            "labels": {"severity": alert.severity}, "annotations": {"summary": alert.summary, "description": alert.description},
        }
        for alert in ALERTS
        if older(alert.since, version)
    ]  # fmt: skip
    recorded = [{"record": name, "expr": expr} for name, expr in RULES]
    comment = (
        f"{made(version, schema)}\nAlerts for Prometheus, and what the dashboard reads of storage: a file of rule_files in prometheus.yml."
    )
    return {"pg_flashcache.rules.yml": as_yaml(comment, {"groups": [{"name": "pg_flashcache", "rules": recorded + rules}]})}
