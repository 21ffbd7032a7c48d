"""Area health: wear and faults of the drives, as they report them to smartctl."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pgflash.doctor.check import CannotLook, DoesNotApply, Finding, Severity, check
from pgflash.doctor.checks.common import with_device
from pgflash.doctor.checks.faults import FIRMWARE, KERNELS
from pgflash.doctor.facts import Facts
from pgflash.doctor.facts.blocks import Block
from pgflash.doctor.facts.smart import Health

NVME = "NVM Express Base Specification, SMART / Health Information log page; smartctl(8)"
ROLES = ("data", "wal", "tablespace", "temp", "flash")


def _known(facts: Facts) -> Iterator[tuple[Block, Health]]:
    """The drives that report; raises if none does."""
    with_device(facts, *ROLES)
    reasons = []
    for block in facts.drives:
        if block.disk_name.startswith(("loop", "zram", "ram", "dm-", "md")) or block.is_virtual:
            reasons.append(f"{block.disk_name} is {block.kind}")
            continue
        found = facts.health(Block(block.machine, block.disk))
        if isinstance(found, str):
            reasons.append(found)
        else:
            reasons.append("")
            yield block, found
    if all(reasons):
        raise CannotLook("; ".join(dict.fromkeys(reasons)))


def _replace(block: Block) -> tuple[str, ...]:
    return (f"smartctl --all /dev/{block.disk_name}", "replace the drive")


@check(
    "health", "status", "Drives report that they are well", severity=Severity.PROBLEM,
    question="Does a drive's own assessment fail, or report a critical warning?",
    why="The drive itself expects to fail, or has failed in part.",
    source=NVME,
)  # fmt: skip
def status(facts: Facts) -> Iterable[Finding]:
    for block, found in _known(facts):
        if found.passed is False or found.critical_warning:
            warning = f" (critical warning 0x{found.critical_warning:02x})" if found.critical_warning else ""
            yield Finding(block.disk_name, f"does not pass its own assessment{warning}", _replace(block))


@check(
    "health", "wear", "Drives have life left",
    question="Is less than 80% of each drive's rated life used?",
    why="Beyond 100% the manufacturer promises nothing.",
    source=f"{NVME} (Percentage Used)",
)  # fmt: skip
def wear(facts: Facts) -> Iterable[Finding]:
    for block, found in _known(facts):
        if found.used_percent is not None and found.used_percent >= 80:
            worst = Severity.PROBLEM if found.used_percent >= 100 else Severity.ADVICE
            yield Finding(block.disk_name, f"{found.used_percent}% of its rated life is used", _replace(block), severity=worst)


@check(
    "health", "spare", "Drives have spare blocks", severity=Severity.PROBLEM,
    question="Is the available spare above the drive's threshold?",
    why="A drive without spare blocks becomes read-only or loses data.",
    source=f"{NVME} (Available Spare)",
)  # fmt: skip
def spare(facts: Facts) -> Iterable[Finding]:
    for block, found in _known(facts):
        if found.spare_percent is not None and found.spare_percent <= (found.spare_threshold or 0):
            what = f"{found.spare_percent}% of its spare blocks are left, the threshold is {found.spare_threshold or 0}%"
            yield Finding(block.disk_name, what, _replace(block))


@check(
    "health", "media_errors", "Drives return what was written", severity=Severity.PROBLEM,
    question="Has a drive counted errors that it could not correct?",
    why="Each is data that was lost. For the cache it is a miss; for the data directory it is damage.",
    source=f"{NVME} (Media and Data Integrity Errors); ATA attributes 187, 197 and 198",
)  # fmt: skip
def media_errors(facts: Facts) -> Iterable[Finding]:
    for block, found in _known(facts):
        if found.media_errors:
            yield Finding(block.disk_name, f"has counted {found.media_errors} errors of its medium", _replace(block))


@check(
    "health", "temperature", "Drives are not hot",
    question="Is each drive below 70 degrees Celsius?",
    why="At about 80 degrees most drives slow themselves down; heat shortens how long flash keeps its charge.",
    source=f"{NVME} (Composite Temperature); the drive's data sheet has its own limit",
)  # fmt: skip
def temperature(facts: Facts) -> Iterable[Finding]:
    for block, found in _known(facts):
        if found.temperature is not None and found.temperature >= 70:
            yield Finding(block.disk_name, f"has {found.temperature} degrees Celsius", ("check airflow and heat sink",))


@check(
    "health", "days_left", "Drives last for another year",
    question="At the rate of writes since boot: how many days until the rated life is used?",
    why="What the drive has used up for what was written so far tells how much more it takes. Below 90 days it is a problem.",
    source=f"{NVME} (Percentage Used, Data Units Written); docs/settings.md, pg_flashcache.write_limit",
)  # fmt: skip
def days_left(facts: Facts) -> Iterable[Finding]:
    told = False
    uptime = facts.machine.text("/proc/uptime").split()
    for block, found in _known(facts):
        if not found.used_percent or not found.written or block.written is None or not uptime or float(uptime[0]) < 3600:
            continue
        told = True
        a_day = block.written / float(uptime[0]) * 86400
        days = (100 - found.used_percent) * found.written / found.used_percent / a_day if a_day else float("inf")
        if days < 365:
            what = f"at {a_day / 1e9:.3g} GB a day, its rated life is used in {max(0, round(days))} days"
            commands = ("ALTER SYSTEM SET pg_flashcache.write_limit = '20MB'; SELECT pg_reload_conf();", "plan its replacement")
            yield Finding(block.disk_name, what, commands, severity=Severity.PROBLEM if days < 90 else Severity.ADVICE)
    if not told:
        raise CannotLook("no drive reports both its wear (1% at least) and what was written, or the machine was booted within the hour")


@check(
    "health", "known_firmware", "No drive has firmware with a known fault", severity=Severity.PROBLEM,
    question="Is model and firmware of a drive in the list of pgflash/doctor/checks/faults.py?",
    why="These faults have made drives fail that were otherwise well.",
    source="each entry has its own: " + "; ".join(item.source for item in FIRMWARE),
)  # fmt: skip
def known_firmware(facts: Facts) -> Iterable[Finding]:
    for block, found in _known(facts):
        for item in FIRMWARE:
            if item.model.fullmatch(found.model) and item.affected(found.firmware):
                what = f"{found.model} with firmware {found.firmware} {item.what} ({item.source})"
                yield Finding(block.disk_name, what, (item.command,))


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
