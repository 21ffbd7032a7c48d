#!/usr/bin/env python3
r"""Ends every COPY ... FROM STDIN of upstream's test scripts with a line `\.`, where it has none.

usage: end_copy.py FILE.sql...
       end_copy.py --self-test

Recent psql (seen in 15.20) reads the data of a COPY FROM STDIN to its end even when the server refuses the statement.
Upstream's older scripts have statements that are expected to fail and that no data follows: there such a psql swallows
the rest of the script up to the next `\.`, hundreds of statements in rowsecurity.sql alone. The scripts of the same
release would have the missing line, but their tarball is not always to be had.

psql prints nothing for the line, so the expected output stays as it is. A script that is complete is not changed.
"""

import re
import sys
from pathlib import Path

# Such a statement, to the end of its last line. A semicolon after a backslash joins statements into one message.
COPY = re.compile(
    r"^(?:[^\n]*\\;\s*)?copy\b(?:[^;]|(?<=\\);)*?\bfrom\s+stdin\b(?:[^;]|(?<=\\);)*;[^\n]*$", re.IGNORECASE | re.MULTILINE
)
END_OF_DATA = re.compile(r"^\\\.$", re.MULTILINE)


def complete(script: str) -> str:
    """The script with the missing ends."""

    def ended(statement: re.Match[str]) -> str:
        # Data runs up to the first end of data, unless another such statement comes before that: then there is none.
        after = COPY.search(script, statement.end())
        has_end = END_OF_DATA.search(script, statement.end(), after.start() if after else len(script))
        return statement[0] if has_end else statement[0] + "\n\\."

    return COPY.sub(ended, script)


def self_test() -> int:
    cases: list[tuple[str, str]] = [
        ("COPY t FROM stdin;\n1\n\\.\nSELECT 1;", "COPY t FROM stdin;\n1\n\\.\nSELECT 1;"),
        ("copy t from stdin; -- fails\nSELECT 1;", "copy t from stdin; -- fails\n\\.\nSELECT 1;"),
        ("copy t from stdin;\ncopy t from stdin;\n1\n\\.", "copy t from stdin;\n\\.\ncopy t from stdin;\n1\n\\."),
        ("COPY t\n(a)\nFROM STDIN;\nSELECT 1;", "COPY t\n(a)\nFROM STDIN;\n\\.\nSELECT 1;"),
        ("copy t from stdin;\nselect 0\\; copy t from stdin;\n1\n\\.", "copy t from stdin;\n\\.\nselect 0\\; copy t from stdin;\n1\n\\."),
        ("COPY t TO stdout;\n-- copy t from stdin;\nSELECT 1;", "COPY t TO stdout;\n-- copy t from stdin;\nSELECT 1;"),
    ]
    wrong = 0
    for script, expected in cases:
        found = complete(script)
        if found != expected:
            wrong += 1
            print(f"expected {expected!r}, found {found!r}", file=sys.stderr)
    print(f"end of COPY self-test: {len(cases) - wrong} of {len(cases)} cases")
    return 1 if wrong else 0


def main(names: list[str]) -> int:
    if names == ["--self-test"]:
        return self_test()
    for name in names:
        path = Path(name)
        # Some scripts hold bytes of other encodings: latin-1 maps every byte to itself.
        script = path.read_bytes().decode("latin-1")
        completed = complete(script)
        if completed != script:
            path.write_bytes(completed.encode("latin-1"))
            print(f"{path.name}: ended {completed.count(chr(10)) - script.count(chr(10))} COPY statements that no data follows")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
