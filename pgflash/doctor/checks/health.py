"""Area health: wear and faults of the drives, as they report them to smartctl, now or when `pgflash drives` asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pgflash.doctor import drive
from pgflash.doctor.check import CannotLook, DoesNotApply, Finding, Severity, check
from pgflash.doctor.checks.common import with_device
from pgflash.doctor.checks.faults import FIRMWARE, KERNELS
from pgflash.doctor.drive import Wrong
from pgflash.doctor.facts import Facts
from pgflash.doctor.facts.blocks import Block
from pgflash.doctor.facts.smart import Health
from pgflash.units import counted, show_seconds

NVME = "NVM Express Base Specification, SMART / Health Information log page; smartctl(8)"
ROLES = ("data", "wal", "tablespace", "temp", "flash")


@dataclass(frozen=True)
class Known:
    """A drive that has said how it is: to us, or to `pgflash drives`, which has told the server."""

    name: str
    health: Health
    block: Block | None = None
    told: str = ""
    """When it was reported, in words; empty: it was asked now."""
    days_left: int | None = None
    """As the server reckons from the reports."""

    def finding(self, what: str, commands: tuple[str, ...], advice: bool = False) -> Finding:
        return Finding(self.name, what + self.told, commands, severity=Severity.ADVICE if advice else Severity.PROBLEM)


def _known(facts: Facts) -> Iterator[Known]:
    """The drives that report, and those below the cache that were reported and cannot be asked from here; raises if there is none."""
    asked, reasons = [], []
    try:
        with_device(facts, *ROLES)
        drives = facts.drives
    except CannotLook as error:
        reasons.append(str(error))
        drives = []
    for block in drives:
        if block.disk_name.startswith(("loop", "zram", "ram", "dm-", "md")) or block.is_virtual:
            reasons.append(f"{block.disk_name} is {block.kind}")
            continue
        found = facts.health(Block(block.machine, block.disk))
        if isinstance(found, str):
            reasons.append(found)
        else:
            asked.append(block.disk_name)
            yield Known(block.disk_name, found, block)
    told = _told(facts, asked)
    yield from map(_reported, told)
    if not asked and not told:
        if facts.server and facts.server.drives_unasked:
            reasons.append(facts.server.drives_unasked)
        raise CannotLook("; ".join(dict.fromkeys(reasons)))


def _told(facts: Facts, asked: list[str]) -> list[dict[str, Any]]:
    """The last report of each drive, but for those of this machine that were asked."""
    server = facts.server
    if server is None:
        return []
    last = {row["drive"]: row for row in sorted(server.drives, key=lambda row: -row["age_s"])}
    return [row for name, row in last.items() if not (server.local and name in asked)]


def _reported(row: dict[str, Any]) -> Known:
    health = Health(
        row["model"] or "", "", row["passed"], row["used_percent"], row["spare_percent"], row["spare_threshold"], row["media_errors"],
        row["temperature"], 0, row["written"], None,
    )  # fmt: skip
    return Known(
        row["drive"], health, told=f" (as pgflash drives reported {show_seconds(max(0, row['age_s']))} ago)", days_left=row["days_left"]
    )


def _replace(known: Known) -> tuple[str, ...]:
    return (f"smartctl --all /dev/{known.name}", "replace the drive")


def _judged(facts: Facts, judge: Callable[[Health], Wrong | None]) -> Iterator[Finding]:
    for known in _known(facts):
        if found := judge(known.health):
            yield known.finding(found.what, _replace(known), found.advice)


@check(
    "health", "status", "Drives report that they are well", severity=Severity.PROBLEM,
    question="Does a drive's own assessment fail, or report a critical warning?",
    why="The drive itself expects to fail, or has failed in part.",
    source=NVME,
)  # fmt: skip
def status(facts: Facts) -> Iterable[Finding]:
    return _judged(facts, drive.status)


@check(
    "health", "wear", "Drives have life left",
    question="Is less than 80% of each drive's rated life used?",
    why="Beyond 100% the manufacturer promises nothing.",
    source=f"{NVME} (Percentage Used)",
)  # fmt: skip
def wear(facts: Facts) -> Iterable[Finding]:
    return _judged(facts, drive.wear)


@check(
    "health", "spare", "Drives have spare blocks", severity=Severity.PROBLEM,
    question="Is the available spare above the drive's threshold, or all of it there?",
    why="A drive without spare blocks becomes read-only or loses data.",
    source=f"{NVME} (Available Spare)",
)  # fmt: skip
def spare(facts: Facts) -> Iterable[Finding]:
    return _judged(facts, drive.spare)


@check(
    "health", "media_errors", "Drives return what was written", severity=Severity.PROBLEM,
    question="Has a drive counted errors that it could not correct?",
    why="Each is data that was lost. For the cache it is a miss; for the data directory it is damage.",
    source=f"{NVME} (Media and Data Integrity Errors); ATA attributes 187, 197 and 198",
)  # fmt: skip
def media_errors(facts: Facts) -> Iterable[Finding]:
    return _judged(facts, drive.media_errors)


@check(
    "health", "temperature", "Drives are not hot",
    question="Is each drive below 70 degrees Celsius?",
    why="At about 80 degrees most drives slow themselves down; heat shortens how long flash keeps its charge.",
    source=f"{NVME} (Composite Temperature); the drive's data sheet has its own limit",
)  # fmt: skip
def temperature(facts: Facts) -> Iterable[Finding]:
    for known in _known(facts):
        if found := drive.temperature(known.health):
            yield known.finding(found.what, ("check airflow and heat sink",), found.advice)


@check(
    "health", "days_left", "Drives last for another year",
    question="At the rate of writes since boot: how many days until the rated life is used?",
    why="What the drive has used up for what was written so far tells how much more it takes. Below 90 days it is a problem.",
    source=f"{NVME} (Percentage Used, Data Units Written); docs/settings.md, pg_flashcache.write_limit",
)  # fmt: skip
def days_left(facts: Facts) -> Iterable[Finding]:
    told = False
    uptime = facts.machine.text("/proc/uptime").split()
    for known in _known(facts):
        health, block = known.health, known.block
        if block is None:
            if known.days_left is None:
                continue
            days, rate = float(known.days_left), "as it was written since the first report of the last days"
        elif not health.used_percent or not health.written or block.written is None or not uptime or float(uptime[0]) < 3600:
            continue
        else:
            a_day = block.written / float(uptime[0]) * 86400
            days = (100 - health.used_percent) * health.written / health.used_percent / a_day if a_day else float("inf")
            rate = f"at {a_day / 1e9:.3g} GB a day"
        told = True
        if days < 365:
            what = f"{rate}, its rated life is used in {counted(max(0, round(days)), 'day')}"
            commands = ("ALTER SYSTEM SET pg_flashcache.write_limit = '20MB'; SELECT pg_reload_conf();", "plan its replacement")
            yield known.finding(what, commands, advice=days >= 90)
    if not told:
        raise CannotLook("no drive reports both its wear (1% at least) and what was written, or the machine was booted within the hour")


@check(
    "health", "known_firmware", "No drive has firmware with a known fault", severity=Severity.PROBLEM,
    question="Is model and firmware of a drive in the list of pgflash/doctor/checks/faults.py?",
    why="These faults have made drives fail that were otherwise well.",
    source="each entry has its own: " + "; ".join(item.source for item in FIRMWARE),
)  # fmt: skip
def known_firmware(facts: Facts) -> Iterable[Finding]:
    asked = [known for known in _known(facts) if known.block]
    if not asked:
        raise CannotLook("the firmware is not among what pgflash drives reports: run the doctor where it may ask the drives")
    for known in asked:
        for item in FIRMWARE:
            if item.model.fullmatch(known.health.model) and item.affected(known.health.firmware):
                what = f"{known.health.model} with firmware {known.health.firmware} {item.what} ({item.source})"
                yield known.finding(what, (item.command,))


@check(
    "health", "known_kernel", "The kernel has no known fault that damages files", severity=Severity.PROBLEM,
    question="Is the kernel's version in the list of pgflash/doctor/checks/faults.py?",
    why="These faults have damaged files.",
    source="each entry has its own: " + "; ".join(item.source for item in KERNELS),
)  # fmt: skip
def known_kernel(facts: Facts) -> Iterable[Finding]:
    if facts.server and not facts.server.local:
        raise CannotLook(facts.server.not_local)
    version = facts.machine.kernel
    if not version:
        raise CannotLook("the kernel's version cannot be read")
    kinds = {mount.kind for mount in facts.machine.mounts()}
    if not kinds:
        raise DoesNotApply("no file systems")
    for item in KERNELS:
        if item.first <= version[:3] <= item.last and item.file_system in kinds:
            yield Finding("kernel", f"{'.'.join(map(str, version))}: {item.what} ({item.source})", (item.command,))
