"""What a check is, and what it finds.

A check asks one question of the facts (facts/), and names where its answer comes from. Its function yields a Finding for each
thing that is to be changed; none is "fine". It raises CannotLook where a fact is missing, and DoesNotApply where the question makes no
sense. Only a Change can be made by --fix: it is reversible, and its command is what is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pgflash.doctor.facts import Facts


class Severity(StrEnum):
    PROBLEM = "problem"
    ADVICE = "advice"


class CannotLook(Exception):
    """Why a question could not be answered."""


class DoesNotApply(Exception):
    """Why a question is none here."""


@dataclass(frozen=True)
class Write:
    """A value for a file of sysfs or procfs; lasts until the machine is booted."""

    path: str
    value: str
    undo_path: str = ""
    """Where the old value is and goes back to, if that is another file (ratio and bytes of the dirty limits exclude each other)."""

    @property
    def command(self) -> str:
        if self.path.startswith("/proc/sys/"):
            return f"sysctl -w {self.path.removeprefix('/proc/sys/').replace('/', '.')}={self.value}"
        return f"echo {self.value} > {self.path}"


@dataclass(frozen=True)
class AlterSystem:
    """A setting that a reload brings into effect."""

    name: str
    value: str

    @property
    def command(self) -> str:
        quoted = self.value.replace("'", "''")
        return f"ALTER SYSTEM SET {self.name} = '{quoted}'; SELECT pg_reload_conf();"


Change = Write | AlterSystem


@dataclass(frozen=True)
class Finding:
    subject: str
    what: str
    """What was seen, with its values."""
    commands: tuple[str, ...] = ()
    """For a person to run; the doctor does not."""
    change: Change | None = None
    keep: str = ""
    """How a change outlives the next boot."""
    severity: Severity | None = None
    """If not the check's."""


@dataclass(frozen=True)
class Check:
    area: str
    name: str
    title: str
    question: str
    why: str
    source: str
    severity: Severity
    look: Callable[[Facts], Iterable[Finding]]

    @property
    def id(self) -> str:
        return f"{self.area}.{self.name}"


AREAS = {
    "devices": "the block devices behind the data directory, WAL, tablespaces and the cache",
    "mounts": "their file systems",
    "limits": "limits of the server's processes and of its control group",
    "memory": "the kernel's memory management",
    "server": "settings of PostgreSQL and pg_flashcache",
    "waits": "what the sessions wait for (sampled)",
    "health": "wear and faults of drives, by smartctl; of those below the cache that cannot be asked, as pgflash drives has reported them",
}

REGISTRY: dict[str, Check] = {}


def check(
    area: str, name: str, title: str, *, question: str, why: str, source: str, severity: Severity = Severity.ADVICE
) -> Callable[[Callable[[Facts], Iterable[Finding]]], Callable[[Facts], Iterable[Finding]]]:
    """Registers a function as a check."""

    def register(look: Callable[[Facts], Iterable[Finding]]) -> Callable[[Facts], Iterable[Finding]]:
        made = Check(area, name, title, question, why, source, severity, look)
        assert area in AREAS and made.id not in REGISTRY, made.id
        REGISTRY[made.id] = made
        return look

    return register


@dataclass(frozen=True)
class Result:
    check: Check
    status: str
    """problem, advice, fine, not applicable, not looked."""
    findings: tuple[Finding, ...] = ()
    reason: str = ""

    def severity(self, finding: Finding) -> Severity:
        return finding.severity or self.check.severity

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.check.id, "title": self.check.title, "status": self.status, "reason": self.reason,
            "why": self.check.why, "source": self.check.source,
            "findings": [
                {
                    "severity": str(self.severity(item)), "subject": item.subject, "what": item.what,
                    "commands": [item.change.command] if item.change else list(item.commands),
                    "fixable": item.change is not None, "keep": item.keep,
                }
                for item in self.findings
            ],
        }  # fmt: skip


def examine(item: Check, facts: Facts) -> Result:
    try:
        findings = tuple(dict.fromkeys(item.look(facts)))  # two places may be on one device
    except CannotLook as error:
        return Result(item, "not looked", reason=str(error))
    except DoesNotApply as error:
        return Result(item, "not applicable", reason=str(error))
    if not findings:
        return Result(item, "fine")
    worst = Severity.PROBLEM if any((found.severity or item.severity) is Severity.PROBLEM for found in findings) else Severity.ADVICE
    return Result(item, str(worst), findings)
