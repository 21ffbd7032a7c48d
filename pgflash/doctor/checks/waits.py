"""Area waits: what the sessions wait for, in a sample of pg_stat_activity."""

from __future__ import annotations

from collections.abc import Iterable

from pgflash.doctor.check import CannotLook, DoesNotApply, Finding, check
from pgflash.doctor.checks.common import PG, server_of
from pgflash.doctor.facts import Facts
from pgflash.doctor.facts.waits import ENOUGH, Waits
from pgflash.units import counted

EVENTS = f"{PG}/monitoring-stats.html#WAIT-EVENT-TABLE"
READS = (
    "DataFileRead", "DataFilePrefetch", "AioIoCompletion", "AioIoUringExecution", "FlashcacheSingleBlockRead", "FlashcacheMultiBlockRead",
)  # fmt: skip
FROM_DISK = READS[:4]
WRITES = ("WALWrite", "WalWrite", "WALSync", "WalSync", "WALWriteLock")


def _sample(facts: Facts) -> Waits:
    server_of(facts)
    if facts.waits is None:
        raise CannotLook("nothing was sampled: --seconds 5")
    if facts.waits.total < ENOUGH:
        raise CannotLook(
            f"{counted(facts.waits.total, 'sample')} of active sessions in {facts.waits.seconds:g} s; {ENOUGH} are needed: look under load"
        )
    return facts.waits


def _uses_cache(facts: Facts) -> bool:
    return server_of(facts).has_cache and server_of(facts).cache.get("state") in ("active", "paused", "starting")


@check(
    "waits", "reads", "Sessions do not wait for the disk",
    question="Without a cache: do active sessions spend less than 30% of their time with reads of data files?",
    why="Reads that wait for a disk are what a cache on flash shortens.",
    source=f"{EVENTS} (DataFileRead); docs/operation.md, Is it worth it?",
)  # fmt: skip
def reads(facts: Facts) -> Iterable[Finding]:
    found = _sample(facts)
    if _uses_cache(facts):
        raise DoesNotApply("there is a cache")
    share = found.share(events=FROM_DISK)
    if share >= 0.3:
        yield Finding(
            "reads",
            f"{share:.0%} of the samples wait for reads of data files",
            ("pgflash pilot run FILE.toml, which measures what flash would bring",),
        )


@check(
    "waits", "no_reads", "The cache has something to do",
    question="With a cache: do sessions wait for reads at all?",
    why="If they use the processor instead, the cache does not pay, and no storage would make them faster.",
    source=f"{EVENTS}; docs/operation.md, Is it worth it?",
)  # fmt: skip
def no_reads(facts: Facts) -> Iterable[Finding]:
    found = _sample(facts)
    if not _uses_cache(facts):
        raise DoesNotApply("there is no cache")
    if found.share(events=READS) < 0.05 and found.share("CPU") > 0.7:
        what = f"{found.share('CPU'):.0%} of the samples use the processor, {found.share(events=READS):.0%} wait for reads"
        yield Finding("processor", what, ("look for expensive queries: pg_stat_statements, EXPLAIN (ANALYZE, BUFFERS)",))


@check(
    "waits", "wal", "Sessions do not wait for the WAL",
    question="Do active sessions spend less than 20% of their time with writes and syncs of the WAL?",
    why="A cache of reads does not shorten commits. A faster device for the WAL does.",
    source=f"{EVENTS} (WALSync, WALWrite); {PG}/wal-configuration.html",
)  # fmt: skip
def wal(facts: Facts) -> Iterable[Finding]:
    share = _sample(facts).share(events=WRITES)
    if share >= 0.2:
        commands = ("put pg_wal on a device with a write cache that survives a loss of power", "pg_test_fsync")
        yield Finding("WAL", f"{share:.0%} of the samples wait for the WAL", commands)


@check(
    "waits", "locks", "Sessions do not wait for each other",
    question="Do active sessions spend less than 30% of their time with locks?",
    why="No storage helps against locks that the application takes.",
    source=f"{EVENTS} (Lock)",
)  # fmt: skip
def locks(facts: Facts) -> Iterable[Finding]:
    share = _sample(facts).share("Lock")
    if share >= 0.3:
        yield Finding(
            "locks",
            f"{share:.0%} of the samples wait for locks",
            ("SELECT pid, pg_blocking_pids(pid), query FROM pg_stat_activity WHERE wait_event_type = 'Lock';",),
        )
