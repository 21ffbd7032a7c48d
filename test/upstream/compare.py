#!/usr/bin/env python3
"""Compares runs of an upstream suite with the cache to runs of the same suite on the stock server.

usage: compare.py compare ARM STOCK...   counts and explains; exit status 1 when the arm differs
       compare.py differences RUN        lists the tests that differ from upstream's expected output

Each argument is a directory with `console` (what pg_regress printed) and `regression.diffs` (if any test differed).

The stock server may differ from upstream's expected output too: it may be a newer minor release, and some output
depends on the settings. So a test of the arm counts as passed when pg_regress accepts it, or when it differs from the
expected output exactly as it does in one of the stock runs.
"""

import re
import sys
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

RESULT = re.compile(r"^(?:test\s+|\s+)(?P<name>\S+)\s+\.\.\.\s+(?P<result>ok|FAILED|failed \(ignored\))(?P<how>[^\n]*)")
DURATION = re.compile(r"\s*\d+ ms\s*")


@dataclass
class Run:
    """One run of a suite: the tests in order, and what differed."""

    tests: dict[str, str]  # name -> "ok", or what pg_regress said
    diffs: dict[str, list[str]]

    @classmethod
    def read(cls, directory: Path) -> "Run":
        tests: dict[str, str] = {}
        for line in (directory / "console").read_text(encoding="utf-8", errors="replace").splitlines():
            if match := RESULT.match(line):
                how = DURATION.sub("", match["how"]).strip()
                tests[match["name"]] = f"{match['result']} {how}".strip()
        diffs: dict[str, list[str]] = {}
        path = directory / "regression.diffs"
        if path.exists():
            name = ""
            # Paths differ from run to run; nothing in a result should depend on them.
            text = path.read_bytes().decode("latin-1").replace(str(directory), "RUN")
            for line in text.split("\n"):
                if line.startswith("diff -"):
                    name = Path(line.split()[-1]).stem
                    diffs[name] = []
                elif name and not line.startswith(("--- RUN", "+++ RUN")):
                    diffs[name].append(line)
        return cls(tests, diffs)

    def outcome(self, name: str) -> tuple[str, ...]:
        return (self.tests[name], *self.diffs.get(name, []))


def passed(result: str) -> bool:
    # "ignored" is upstream's own mark: the test `random` fails now and then by design.
    return result in ("ok", "failed (ignored)")


def compare(arm: Run, stocks: list[Run]) -> tuple[int, int]:
    """Prints what differs from stock; returns how many tests passed and how many did not."""
    good = bad = same = 0
    first = stocks[0]
    for name in first.tests:
        if name not in arm.tests:
            bad += 1
            print(f"not ok {name}: did not run")
        elif passed(arm.tests[name]):
            good += 1
        elif any(name in stock.tests and arm.outcome(name) == stock.outcome(name) for stock in stocks):
            good += 1
            same += 1
        else:
            bad += 1
            print(f"not ok {name}: {arm.tests[name]}; the stock server: {first.tests[name]}")
            before, after = first.diffs.get(name, []), arm.diffs.get(name, [])
            print("\n".join(unified_diff(before, after, "stock server", "with the cache", lineterm="", n=8)))
    for name in arm.tests:
        if name not in first.tests:
            bad += 1
            print(f"not ok {name}: ran only with the cache")
    if not first.tests:
        bad += 1
        print("not ok: the stock server ran no test at all")
    print(f"{good} tests as on the stock server ({same} of them differ from upstream's expected output there too)")
    return good, bad


def main(arguments: list[str]) -> int:
    match arguments:
        case ["compare", arm, stock, *more]:
            good, bad = compare(Run.read(Path(arm)), [Run.read(Path(name)) for name in (stock, *more)])
            print(f"{good} passed, {bad} failed")
            return 1 if bad else 0
        case ["differences", directory]:
            run = Run.read(Path(directory))
            different = [name for name, result in run.tests.items() if not passed(result)]
            print(f"{len(run.tests)} tests, {len(different)} differ from upstream: {' '.join(different) or 'none'}")
            return 0
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
