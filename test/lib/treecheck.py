"""What the checks of a source tree in this folder share: trees made up for their self-tests, and their command line."""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

Check = Callable[[Path], list[str]]


def violations_of(check: Check, files: dict[str, str]) -> list[str]:
    """Of a tree that has these files and no others."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for file, text in files.items():
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text(text, encoding="utf-8")
        return check(root)


def main(usage: str | None, check: Check, good: str, self_test: Callable[[], int]) -> int:
    """`--self-test`, or a folder to check; `good` is said when it has no violations."""
    match sys.argv[1:]:
        case ["--self-test"]:
            return self_test()
        case [root]:
            violations = check(Path(root))
            print("\n".join(violations) if violations else good)
            return 1 if violations else 0
        case _:
            print(usage, file=sys.stderr)
            return 2
