"""Database time, and what it was spent on. Three sources, the first that is there:

sampled         samples of sessions at work, by pgflash snapshot --every: a look has as many seconds of database time as sessions
wait_sampling   the extension pg_wait_sampling for waits; what is left of active_time in pg_stat_database is the processor's
database        active_time, and with track_io_timing the times of sessions in pg_stat_io; before 16 blk_read_time and blk_write_time;
                without it the times of reads that the cache has measured; less what the cache's histograms say is not of sessions:
                user I/O and the rest

Samples of a part of the interval are taken for all of it, and `covered` says how large the part is. Below a half they are not: what
the others counted all of the time comes first, and `words` says of how much the samples are.

Database time is that of sessions of clients at work, and, but in the third source, of their parallel workers. Waits for the client's next command are none, and
background processes have no part in it: the samples are of sessions, and of pg_wait_sampling a snapshot counts only these.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pgflash.snapshots.interval import Interval
from pgflash.units import counted, show_seconds

CPU = "CPU"
DISK = "user I/O, disk"
FLASH = "user I/O, flash"
COMMIT = "WAL and commit"
LOCKS = "locks"
TEMPORARY = "temporary files"  # of sorts and hashes that are larger than work_mem: no cache of data files helps them
OTHER = "other waits"
REST = "CPU and other waits"  # where nothing tells them apart
UNKNOWN = "not known"  # where nothing tells I/O from the rest, either
USER_IO = "user I/O"  # of a source that does not tell disk from flash
CLASSES = (CPU, REST, USER_IO, DISK, FLASH, TEMPORARY, COMMIT, LOCKS, OTHER, UNKNOWN)
IO_CLASSES = (USER_IO, DISK, FLASH)

_DATA_FILES = ("DataFile", "Aio")  # how the events of data files begin; of 18, reads that the server waits for
_COMMIT = {"WALWrite", "WALInsert", "WALSync", "SyncRep"}
_FLASH_UNNAMED = "Extension"  # 15 and 16 have no names for the waits of extensions
NAMED = 170000  # from this version on they have: there `Extension` is another extension's
# Not of a session at work: those for a client, and what only background processes have.
_IDLE_TYPES = {"Activity"}
_IDLE = {
    "ClientRead",
    "CheckpointWriteDelay",
    "VacuumDelay",
    "WalSenderWaitForWal",
    "WalSenderWaitForWAL",
    "WalSenderWriteData",
    "BgWriterHibernate",
    "FlashcacheWriterMain",
    "FlashcacheFollowerMain",
    "FlashcacheWrite",
}
SESSION = "client backend"
_FLASH_READ = "flash read"
_READS = ("disk read", "page cache read", _FLASH_READ)
_OF_ALL = ", in which autovacuum and parallel workers count as sessions"
ALL_OF_IT = 0.9  # samples of so much of the interval need no word of caution: they end at the last look before a snapshot
_MOST = 0.5


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
    covered: float = 1.0  # share of the interval that it rests on

    def of(self, *groups: str) -> float:
        return sum(wait.seconds for wait in self.waits if wait.group in groups)

    def share(self, *groups: str) -> float | None:
        return self.of(*groups) / self.seconds if self.seconds > 0 else None

    @property
    def user_io(self) -> float | None:
        return self.share(*IO_CLASSES) if any(wait.group in IO_CLASSES for wait in self.waits) or self.source != "database" else None

    def by_group(self) -> dict[str, float]:
        return {name: seconds for name in CLASSES if (seconds := self.of(name)) > 0}


def group_of(event_type: str, event: str, version: int) -> str:
    if event_type == CPU:
        return CPU
    if event.startswith("Flashcache") or (event_type == "Extension" and event == _FLASH_UNNAMED and version < NAMED):
        return FLASH
    if event in _COMMIT or event.startswith(("WAL", "Wal")):
        return COMMIT
    if event_type == "IO" and event.startswith(_DATA_FILES):
        return DISK
    if event_type == "IO" and event.startswith("BufFile"):
        return TEMPORARY
    if event_type in ("Lock", "LWLock", "BufferPin", "Buffer"):
        return LOCKS
    return OTHER


def database_time(interval: Interval) -> DatabaseTime | None:
    """None: nothing was counted."""
    sampled = _sampled(interval)
    if sampled is not None and sampled.covered >= _MOST:
        return sampled
    found = _by_extension(interval) or _by_database(interval)
    if found is not None and sampled is not None:
        found.words += f"; {sampled.words}"
    return found


def active_seconds(interval: Interval) -> float | None:
    rows = interval.rows("database")
    return sum(row.get("active_time") for row in rows) / 1000 if rows else None


def _sampled(interval: Interval) -> DatabaseTime | None:
    rows = {row.key: row for row in interval.rows("sampled_waits")}
    all_looks = rows.pop("") if "" in rows else None
    looks = all_looks.get("looks") if all_looks else 0.0
    if all_looks is None or looks <= 0:
        return None
    each = interval.seconds / looks
    version = interval.steps[-1].version
    waits = [
        Wait(
            "CPU, or waiting for it" if row.label("event_type") == CPU else f"{row.label('event_type')}: {row.label('event')}",
            group_of(row.label("event_type"), row.label("event"), version),
            row.get("samples") * each,
        )
        for row in rows.values()
    ]
    waits.sort(key=lambda wait: -wait.seconds)
    samples = round(sum(row.get("samples") for row in rows.values()))
    # Samples go on over snapshots that others take, and are stored with the next of their own.
    sampled_s = all_looks.get("sampled_s") or looks * float(all_looks.labels.get("period_s") or 1)
    covered = min(1.0, sampled_s / interval.seconds) if interval.seconds > 0 else 1.0
    words = f"{counted(samples, 'sample')} of sessions at work in {counted(looks, 'look')}"
    if covered < _MOST:
        part = f"{100 * covered:.{0 if covered >= 0.1 else 1}f}% of the interval ({show_seconds(sampled_s)})"
        words = f"the {counted(samples, 'sample')} cover only {part}, too little to stand for all of it"
    elif covered < ALL_OF_IT:
        words += f", which cover {100 * covered:.0f}% of the interval ({show_seconds(sampled_s)}) and stand for all of it"
    elif sampled_s > interval.seconds / ALL_OF_IT:
        words += ", the first of them from before the interval"
    return DatabaseTime("sampled", sum(wait.seconds for wait in waits), waits, words, covered)


def _by_extension(interval: Interval) -> DatabaseTime | None:
    active = active_seconds(interval)
    if interval.problem("wait_sampling") or active is None:
        return None
    settings = interval.one("settings")
    period_ms = float((settings.labels if settings else {}).get("pg_wait_sampling.profile_period") or 10)
    waits = []
    for row in interval.rows("wait_sampling"):
        event_type, event = row.label("event_type"), row.label("event")
        if not event_type or not row.get("count") or event_type in _IDLE_TYPES or event in _IDLE:
            continue
        group = group_of(event_type, event, interval.steps[-1].version)
        waits.append(Wait(f"{event_type}: {event}", group, row.get("count") * period_ms / 1000))
    waited = sum(wait.seconds for wait in waits)
    total = max(active, waited)
    waits.append(Wait("CPU, and what is not sampled", CPU, total - waited))
    waits.sort(key=lambda wait: -wait.seconds)
    return DatabaseTime("wait_sampling", total, waits, "active_time of pg_stat_database; waits by pg_wait_sampling")


def _by_database(interval: Interval) -> DatabaseTime | None:
    active = active_seconds(interval)
    if not active:
        return None
    words = "active_time of pg_stat_database"
    found = _io_of_sessions(interval)
    if found is None:
        return DatabaseTime(
            "database", active, [Wait(UNKNOWN, UNKNOWN, active)], f"{words}; track_io_timing is off, and no waits were sampled"
        )
    what, io, flash, whose, by = found
    words += f", with {whose}{by}"
    if io > active and by == _OF_ALL:
        words += "; these are more than that of sessions, so that most of them are not theirs"
        return DatabaseTime("database", active, [Wait(UNKNOWN, UNKNOWN, active)], words)
    total = max(active, io)
    waits = [Wait("reads from flash", FLASH, flash), Wait(what, DISK, io - flash), Wait("the rest", REST, total - io)]
    waits.sort(key=lambda wait: -wait.seconds)
    return DatabaseTime("database", total, [wait for wait in waits if wait.seconds > 0 or wait.group == DISK], words)


def _io_of_sessions(interval: Interval) -> tuple[str, float, float, str, str] | None:
    """What I/O; seconds of clients' sessions with it; those of reads from flash among them; whose times these are; and what tells them
    from those of autovacuum, parallel workers and whoever else is connected to a database: pg_stat_database adds all up, but counts the
    active time of sessions only. None: nobody has measured it."""
    cache, settings = interval.one("cache"), interval.one("settings")
    of_flash, of_all = _shares_of_sessions(interval)
    flash = (cache.get("read_time_us") if cache else 0.0) / 1e6
    by = _OF_ALL
    if settings is not None and settings.label("track_io_timing") == "on":
        what, whose = "reads and writes of data files", "the times of track_io_timing"
        io = sum(row.get("blk_read_time") + row.get("blk_write_time") for row in interval.rows("database")) / 1000
        if interval.rows("io") and not interval.problem("io"):
            io = sum(
                row.get("read_time") + row.get("write_time") + row.get("extend_time")
                for row in interval.rows("io")
                if row.label("backend_type") == SESSION and row.label("object") in ("relation", "temp relation")
            ) / 1000  # fmt: skip
            by = ", those of sessions by pg_stat_io"
    elif (
        cache is not None
        and cache.get("disk_read_time_us") > 0
        and settings is not None
        and settings.labels.get("io_method", "sync") == "sync"
    ):
        what, whose = (
            "reads of data files",
            "the times of reads that the cache has measured itself (pg_stat_flashcache): track_io_timing is off",
        )
        io = flash + cache.get("disk_read_time_us") / 1e6
    else:
        return None
    if by == _OF_ALL and of_all is not None:
        io *= of_all
        by = ", those of sessions estimated by the cache's histograms of latency"
    return what, io, min(io, flash * (1.0 if of_flash is None else of_flash)), whose, by


def _shares_of_sessions(interval: Interval) -> tuple[float | None, float | None]:
    """Of the time of reads from flash, and of that of all reads. None: not known."""
    if interval.problem("flash_latency"):
        return None, None
    times: dict[tuple[bool, bool], float] = {}
    for row in interval.rows("flash_latency"):
        if row.label("operation") in _READS:
            least, most = float(row.labels["from_us"]), row.labels.get("to_us")
            middle = (least + float(most)) / 2 if most is not None else least
            which = row.label("operation") == _FLASH_READ, row.label("backend_type") == SESSION
            times[which] = times.get(which, 0.0) + middle * row.get("count")

    def share(*operations: bool) -> float | None:
        whole = sum(times.get((operation, session), 0.0) for operation in operations for session in (True, False))
        return sum(times.get((operation, True), 0.0) for operation in operations) / whole if whole > 0 else None

    return share(True), share(True, False)
