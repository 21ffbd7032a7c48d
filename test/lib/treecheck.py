"""What the checks of a source tree in this folder share: their command line, and the proof that each of their rules can fail."""

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

Check = Callable[[Path], list[str]]
# A change of a tree: a file, some of its text (none: all of it), what it becomes, and all violations that there are then.
Change = tuple[str, str, str, list[str]]


def violations_of(check: Check, files: Mapping[str, str]) -> list[str]:
    """Of a tree that has these files and no others."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for file, text in files.items():
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text(text, encoding="utf-8")
        return check(root)


def self_test(check: Check, good: Mapping[str, str], broken: Sequence[Change]) -> int:
    """The good tree is accepted, each change of it is found, and so is a tree without files."""
    cases: list[tuple[str, dict[str, str], list[str]]] = [("the good tree", dict(good), [])]
    for file, old, new, expected in broken:
        text = good[file].replace(old, new) if old else new
        cases.append((f"{file}, {old!r} -> {new!r}", {**good, file: text}, expected))
    failed = 0
    for what, tree, expected in cases:
        found = violations_of(check, tree)
        if found != expected:
            failed += 1
            print(f"{what}: expected {expected}, found {found}", file=sys.stderr)
    if not violations_of(check, {}):
        failed += 1
        print("a tree without files is accepted", file=sys.stderr)
    print(f"self-test: {len(cases) + 1 - failed} of {len(cases) + 1} cases")
    return 1 if failed else 0


def main(usage: str | None, check: Check, well: str, good: Mapping[str, str], broken: Sequence[Change]) -> int:
    """`--self-test`, or a folder to check; `well` is said when it has no violations."""
    match sys.argv[1:]:
        case ["--self-test"]:
            return self_test(check, good, broken)
        case [root]:
            violations = check(Path(root))
            print("\n".join(violations) if violations else well)
            return 1 if violations else 0
        case _:
            print(usage, file=sys.stderr)
            return 2
