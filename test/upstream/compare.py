#!/usr/bin/env python3
"""Compares runs of an upstream suite with the cache to runs of the same suite on the stock server.

usage: compare.py compare ARM STOCK...   counts and explains; exit status 1 when the arm differs
       compare.py differences RUN        lists the tests that differ from upstream's expected output
       compare.py --self-test            proves that each kind of difference is seen

Each argument is a directory with `console` (what pg_regress printed) and `regression.diffs` (if any test differed).

The stock server may differ from upstream's expected output too: it may be a newer minor release, and some output
depends on the settings. So a test of the arm counts as passed when pg_regress accepts it, or when it differs from the
expected output exactly as it does in one of the stock runs.
"""

import re
import sys
import tempfile
from contextlib import redirect_stdout
from dataclasses import dataclass
from difflib import unified_diff
from io import StringIO
from pathlib import Path

RESULT = re.compile(r"^(?:test\s+|\s+)(?P<name>\S+)\s+\.\.\.\s+(?P<result>ok|FAILED|failed \(ignored\))(?P<how>[^\n]*)")
# From 16 on pg_regress prints the Test Anything Protocol; why a test ended stands on a line of its own.
TAP_RESULT = re.compile(r"^(?P<result>ok|not ok) \d+\s+[-+] (?P<name>\S+)\s+\d+ ms(?P<ignored> # SKIP \(ignored\))?")
TAP_REASON = re.compile(r"^# (?P<how>\(test process .*\))$")
DURATION = re.compile(r"\s*\d+ ms\s*")


@dataclass
class Run:
    """One run of a suite: the tests in order, and what differed."""

    tests: dict[str, str]  # name -> "ok", or what pg_regress said
    diffs: dict[str, list[str]]

    @classmethod
    def read(cls, directory: Path) -> "Run":
        tests: dict[str, str] = {}
        name = ""
        for line in (directory / "console").read_text(encoding="utf-8", errors="replace").splitlines():
            if match := RESULT.match(line):
                how = DURATION.sub("", match["how"]).strip()
                tests[match["name"]] = f"{match['result']} {how}".strip()
            elif match := TAP_RESULT.match(line):
                name = match["name"]
                tests[name] = "failed (ignored)" if match["ignored"] else "ok" if match["result"] == "ok" else "FAILED"
            elif (match := TAP_REASON.match(line)) and name:
                tests[name] += f" {match['how']}"
        diffs: dict[str, list[str]] = {}
        path = directory / "regression.diffs"
        if path.exists():
            header = 0
            # Paths differ from run to run; nothing in a result should depend on them.
            text = path.read_bytes().decode("latin-1").replace(str(directory), "RUN")
            for line in text.split("\n"):
                if line.startswith("diff -"):
                    name = Path(line.split()[-1]).stem
                    diffs[name] = []
                    header = 2
                elif header > 0:
                    # The two names with their times; which of several expected files was nearest does matter.
                    if header == 2:
                        diffs[name].append(Path(line.split("\t")[0]).name)
                    header -= 1
                else:
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


def self_test() -> int:
    stock = Run({"a": "ok", "b": "FAILED", "random": "failed (ignored)"}, {"b": ["-1", "+2"]})
    cases: list[tuple[str, Run, int]] = [
        ("the same", stock, 0),
        ("b is as upstream expects", Run(stock.tests | {"b": "ok"}, {}), 0),
        ("b differs in another way", Run(stock.tests, {"b": ["-1", "+3"]}), 1),
        ("b crashed", Run(stock.tests | {"b": "FAILED (test process exited with exit code 2)"}, stock.diffs), 1),
        ("a differs", Run(stock.tests | {"a": "FAILED"}, stock.diffs | {"a": ["+x"]}), 1),
        ("a did not run", Run({"b": "FAILED", "random": "ok"}, stock.diffs), 1),
        ("one test more", Run(stock.tests | {"c": "ok"}, stock.diffs), 1),
        ("nothing ran", Run({}, {}), 3),
    ]
    wrong = 0
    with redirect_stdout(StringIO()):
        results = [(what, compare(arm, [stock])[1], expected) for what, arm, expected in cases]
        results.append(("the stock server ran nothing", compare(Run({}, {}), [Run({}, {})])[1], 1))
        results.append(("forgiven by the second stock run", compare(stock, [Run({"b": "ok"}, {}), stock])[1], 2))
    for what, failed, expected in results:
        if failed != expected:
            wrong += 1
            print(f"{what}: {failed} failed instead of {expected}", file=sys.stderr)
    consoles = {
        "of 15": "test a    ... ok   12 ms\n     b    ... FAILED     3 ms\n"
        "test c  ... FAILED (test process exited with exit code 2) 9 ms\n     random ... failed (ignored) 1 ms\n",
        "of 16": "# parallel group\nok 1         - a       12 ms\nnot ok 2     + b        3 ms\nnot ok 3     - c      9 ms\n"
        "# (test process exited with exit code 2)\nnot ok 4     + random    1 ms # SKIP (ignored)\n1..4\n# 2 of 4 tests failed.\n",
    }
    for what, console in consoles.items():
        results.append((f"console and differences {what}", 0, 0))
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            (directory / "console").write_text(console, encoding="utf-8")
            (directory / "regression.diffs").write_text(
                f"diff -U3 /x/b_1.out {name}/r/b.out\n--- /x/b_1.out\t1\n+++ {name}/r/b.out\t2\n-{name}/a\n--- c\n", encoding="utf-8"
            )
            run = Run.read(directory)
        if run != Run(
            {"a": "ok", "b": "FAILED", "c": "FAILED (test process exited with exit code 2)", "random": "failed (ignored)"},
            {"b": ["b_1.out", "-RUN/a", "--- c", ""]},
        ):
            wrong += 1
            print(f"the console {what} and the differences are read as {run}", file=sys.stderr)
    print(f"comparison self-test: {len(results) - wrong} of {len(results)} cases")
    return 1 if wrong else 0


def main(arguments: list[str]) -> int:
    match arguments:
        case ["--self-test"]:
            return self_test()
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
