"""What the doctor says: problems first, then advice, then what is fine."""

from __future__ import annotations

from collections import defaultdict

from rich.console import Console
from rich.text import Text

from pgflash.doctor.check import Finding, Result, Severity
from pgflash.shown import visible
from pgflash.units import counted

STYLES = {Severity.PROBLEM: "bold red", Severity.ADVICE: "yellow"}


def show(results: list[Result], verbose: bool, out: Console) -> None:
    told: set[str] = set()
    for severity in Severity:
        for result in results:
            found = [item for item in result.findings if result.severity(item) is severity]
            if not found:
                continue
            out.print(Text.assemble((f"{severity}: ", STYLES[severity]), (result.check.title, "bold"), f"  [{result.check.id}]"))
            for item in found:
                _line(out, f"  {item.subject}: {item.what}")
            _line(out, f"    why: {result.check.why}")
            lines = list(dict.fromkeys(line for item in found for line in _to_do(item)))
            for line in lines:
                if line not in told:
                    _line(out, f"    {line}")
            if again := told.intersection(lines):
                _line(out, "    do: as above" if len(again) == len(lines) else "    and as above")
            told.update(lines)
            _line(out, f"    source: {result.check.source}")
    unseen: dict[str, list[str]] = defaultdict(list)
    for result in results:
        if result.status == "not looked":
            unseen[result.reason].append(result.check.id)
    for reason, names in unseen.items():
        _line(out, f"not looked: {', '.join(names)}\n    {reason}")
    fine = [result for result in results if result.status == "fine"]
    other = [result for result in results if result.status == "not applicable"]
    if verbose:
        for result in fine:
            _line(out, f"fine: {result.check.title}  [{result.check.id}]")
        for result in other:
            _line(out, f"does not apply: {result.check.title}  [{result.check.id}]: {result.reason}")
    counts = {severity: sum(result.status == severity for result in results) for severity in Severity}
    more = "" if verbose or not fine else " (-v lists)"
    line = f"{counted(counts[Severity.PROBLEM], 'problem')}, {counts[Severity.ADVICE]} with advice, {len(fine)} fine{more}"
    _line(out, f"{line}, {len(other)} do not apply, {sum(map(len, unseen.values()))} not looked at")


def _to_do(found: Finding) -> list[str]:
    """Several findings may have the same."""
    done = [f"--fix: {found.change.command}"] if found.change else [f"do: {command}" for command in found.commands]
    return [*done, found.keep] if found.keep else done


def _line(out: Console, text: str) -> None:
    """Not cut into lines of its own where it is copied from: commands."""
    out.print(Text(visible(text, lines=True)), soft_wrap=True)
