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

END_OF_DATA = "\\."
MOST_LINES_OF_ONE_STATEMENT = 8


def end_of_copy_statement(lines: list[str], start: int) -> int | None:
    """The last line of the COPY ... FROM STDIN statement that begins in line start, or None."""
    if not re.search(r"\bcopy\b", lines[start], re.IGNORECASE):
        return None
    statement = ""
    for i in range(start, min(start + MOST_LINES_OF_ONE_STATEMENT, len(lines))):
        statement += re.sub(r"--.*", "", lines[i]) + "\n"
        # A semicolon after a backslash joins statements into one message instead of ending it.
        if re.search(r"(?<!\\);", statement):
            is_copy = re.search(r"(^|\\;)\s*copy\b.*\bfrom\s+stdin\b", statement, re.IGNORECASE | re.DOTALL)
            return i if is_copy else None
    return None


def complete(lines: list[str]) -> tuple[list[str], int]:
    """The script with the missing ends, and how many there were."""
    out: list[str] = []
    added = 0
    i = 0
    while i < len(lines):
        end = end_of_copy_statement(lines, i)
        if end is None:
            out.append(lines[i])
            i += 1
            continue
        # Data runs up to the first end of data, unless another such statement comes before that: then there is none.
        after = end + 1
        while after < len(lines) and lines[after] != END_OF_DATA and end_of_copy_statement(lines, after) is None:
            after += 1
        out += lines[i : end + 1]
        if after < len(lines) and lines[after] == END_OF_DATA:
            out += lines[end + 1 : after + 1]
            i = after + 1
        else:
            out.append(END_OF_DATA)
            added += 1
            i = end + 1
    return out, added


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
        found = "\n".join(complete(script.split("\n"))[0])
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
        lines, added = complete(path.read_bytes().decode("latin-1").split("\n"))
        if added:
            path.write_bytes("\n".join(lines).encode("latin-1"))
            print(f"{path.name}: ended {added} COPY statements that no data follows")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
