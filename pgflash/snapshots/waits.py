"""Database time, and what it was spent on. Three sources, the best that is there for the whole interval:

sampled         samples of sessions at work, by pgflash snapshot --every: a look has as many seconds of database time as sessions
wait_sampling   the extension pg_wait_sampling for waits; what is left of active_time in pg_stat_database is the processor's
database        active_time, and blk_read_time and blk_write_time with track_io_timing: user I/O and the rest

Database time is that of sessions of clients at work, and of their parallel workers. Waits for the client's next command are none, and
background processes have no part in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pgflash.snapshots.interval import Interval

CPU = "CPU"
DISK = "user I/O, disk"
FLASH = "user I/O, flash"
COMMIT = "WAL and commit"
LOCKS = "locks"
OTHER = "other waits"
REST = "CPU and other waits"  # where nothing tells them apart
USER_IO = "user I/O"  # of a source that does not tell disk from flash
CLASSES = (CPU, REST, USER_IO, DISK, FLASH, COMMIT, LOCKS, OTHER)
IO_CLASSES = (USER_IO, DISK, FLASH)

_COMMIT = {"WALWrite", "WALInsert", "WALSync", "SyncRep"}
_FLASH_UNNAMED = "Extension"  # 15 and 16 have no names for the waits of extensions
# Not of a session at work: waits of background processes, which pg_wait_sampling counts as any other, and those for a client.
_IDLE_TYPES = {"Activity"}
_IDLE = {
    "ClientRead",
    "CheckpointWriteDelay",
    "VacuumDelay",
    "WalSenderWaitForWal",
    "WalSenderWriteData",
    "BgWriterHibernate",
    "FlashcacheWriterMain",
}
_BACKGROUND_IO = {"DataFileSync", "DataFileFlush", "SLRUSync", "ControlFileSyncUpdate", "ControlFileWriteUpdate", "FlashcacheWrite"}


@dataclass
class Wait:
    event: str
    group: str
    seconds: float


@dataclass
class DatabaseTime:
    source: str
    seconds: float
    waits: list[Wait] = field(default_factory=list)
    words: str = ""  # what it rests on

    def of(self, *groups: str) -> float:
        return sum(wait.seconds for wait in self.waits if wait.group in groups)

    def share(self, *groups: str) -> float | None:
        return self.of(*groups) / self.seconds if self.seconds > 0 else None

    @property
    def user_io(self) -> float | None:
        return self.share(*IO_CLASSES) if any(wait.group in IO_CLASSES for wait in self.waits) or self.source != "database" else None

    def by_group(self) -> dict[str, float]:
        return {name: seconds for name in CLASSES if (seconds := self.of(name)) > 0}


def group_of(event_type: str, event: str) -> str:
    if event_type == CPU:
        return CPU
    if event.startswith("Flashcache") or (event_type == "Extension" and event == _FLASH_UNNAMED):
        return FLASH
    if event in _COMMIT or event.startswith(("WAL", "Wal")):
        return COMMIT
    if event_type == "IO":
        return DISK
    if event_type in ("Lock", "LWLock", "BufferPin", "Buffer"):
        return LOCKS
    return OTHER


def database_time(interval: Interval) -> DatabaseTime | None:
    """None: nothing was counted."""
    return _sampled(interval) or _by_extension(interval) or _by_database(interval)


def active_seconds(interval: Interval) -> float | None:
    rows = interval.rows("database")
    return sum(row.get("active_time") for row in rows) / 1000 if rows else None


def _sampled(interval: Interval) -> DatabaseTime | None:
    if interval.problem("sampled_waits"):
        return None
    rows = {row.key: row for row in interval.rows("sampled_waits")}
    looks = rows.pop("").get("looks") if "" in rows else 0.0
    if looks <= 0:
        return None
    each = interval.seconds / looks
    waits = [
        Wait(
            "CPU, or waiting for it" if row.label("event_type") == CPU else f"{row.label('event_type')}: {row.label('event')}",
            group_of(row.label("event_type"), row.label("event")),
            row.get("samples") * each,
        )
        for row in rows.values()
    ]
    waits.sort(key=lambda wait: -wait.seconds)
    samples = round(sum(row.get("samples") for row in rows.values()))
    return DatabaseTime(
        "sampled", sum(wait.seconds for wait in waits), waits, f"{samples:,} samples of sessions at work in {looks:,.0f} looks"
    )


def _by_extension(interval: Interval) -> DatabaseTime | None:
    active = active_seconds(interval)
    if interval.problem("wait_sampling") or active is None:
        return None
    settings = interval.one("settings")
    period_ms = float((settings.labels if settings else {}).get("pg_wait_sampling.profile_period") or 10)
    waits = []
    for row in interval.rows("wait_sampling"):
        event_type, event = row.label("event_type"), row.label("event")
        if not event_type or event_type in _IDLE_TYPES or event in _IDLE or event in _BACKGROUND_IO:
            continue
        waits.append(Wait(f"{event_type}: {event}", group_of(event_type, event), row.get("count") * period_ms / 1000))
    waited = sum(wait.seconds for wait in waits)
    total = max(active, waited)
    waits.append(Wait("CPU, and what is not sampled", CPU, total - waited))
    waits.sort(key=lambda wait: -wait.seconds)
    return DatabaseTime("wait_sampling", total, waits, "active_time of pg_stat_database; waits by pg_wait_sampling")


def _by_database(interval: Interval) -> DatabaseTime | None:
    active = active_seconds(interval)
    if not active:
        return None
    settings = interval.one("settings")
    timed = settings is not None and settings.label("track_io_timing") == "on"
    words = "active_time of pg_stat_database"
    if not timed:
        return DatabaseTime(
            "database", active, [Wait("not known", REST, active)], f"{words}; track_io_timing is off, and no waits were sampled"
        )
    io = sum(row.get("blk_read_time") + row.get("blk_write_time") for row in interval.rows("database")) / 1000
    cache = interval.one("cache")
    flash = min(io, (cache.get("read_time_us") if cache else 0.0) / 1e6)
    total = max(active, io)
    waits = [
        Wait("reads from flash", FLASH, flash),
        Wait("reads and writes of data files", DISK, io - flash),
        Wait("the rest", REST, total - io),
    ]
    waits.sort(key=lambda wait: -wait.seconds)
    return DatabaseTime("database", total, [wait for wait in waits if wait.seconds > 0], f"{words}, with the times of track_io_timing")
