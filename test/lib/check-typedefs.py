#!/usr/bin/env python3
"""Holds typedefs.list, by which pgindent knows the names of types, to the types that src/ defines.

usage: check-typedefs.py ROOT          prints every difference; exit status 1 when there is one
       check-typedefs.py --self-test   proves on made-up trees that each rule can fail
"""

import re
import sys
from pathlib import Path

from treecheck import Change, main

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
TYPEDEF = re.compile(r"^typedef\b((?:[^;{}]|\{(?:[^{}]|\{[^{}]*\})*\})*);", re.MULTILINE)
# A header of the server that makes types, with this prefix.
GENERATED = re.compile(r"^#define SH_PREFIX (\w+)$", re.MULTILINE)
FUNCTION = re.compile(r"\(\s*\*?\s*(\w+)\s*\)\s*\(")
NAME = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)?$")


def defined(text: str) -> set[str]:
    """The names that a file gives to types."""
    names = {f"{prefix}_hash" for prefix in GENERATED.findall(text)}
    for match in TYPEDEF.finditer(COMMENT.sub("", text)):
        outside = re.sub(r"\{.*\}", " ", match[1], flags=re.DOTALL)
        if name := FUNCTION.search(outside) or NAME.search(outside.strip()):
            names.add(name[1])
    return names


def check_tree(root: Path) -> list[str]:
    """All differences."""
    try:
        listed = (root / "typedefs.list").read_text("utf-8").splitlines()
    except OSError as error:
        return [f"cannot be read: {error}"]
    types: set[str] = set()
    for file in (root / "src").rglob("*.[ch]"):
        types |= defined(file.read_text("utf-8"))
    found = [] if listed == sorted(set(listed)) else ["typedefs.list: not sorted (LC_ALL=C), or a name is there twice"]
    found += [f"typedefs.list: {name} is missing" for name in sorted(types - set(listed))]
    return found + [f"typedefs.list: src/ defines no {name}" for name in sorted(set(listed) - types)]


SOURCE = """typedef struct A
{
	struct { int x; } inner;	/* typedef int Comment; */
} A;
typedef uint32 B;
typedef const char *(*C) (int a, void (*f) (void));
typedef char D[16];
typedef enum { E_X } E;
#define SH_PREFIX nodes
"""
GOOD_TREE = {"src/a.c": SOURCE, "typedefs.list": "A\nB\nC\nD\nE\nnodes_hash\n", "src/b/b.h": "int typedefs;\n"}
BROKEN: list[Change] = [
    ("typedefs.list", "B\n", "", ["typedefs.list: B is missing"]),
    ("typedefs.list", "E\n", "E\nX\n", ["typedefs.list: src/ defines no X"]),
    ("typedefs.list", "A\nB\n", "B\nA\n", ["typedefs.list: not sorted (LC_ALL=C), or a name is there twice"]),
    ("src/b/b.h", "", "typedef int Z;\n", ["typedefs.list: Z is missing"]),
]


if __name__ == "__main__":
    sys.exit(main(__doc__, check_tree, "typedefs.list agrees with src/", GOOD_TREE, BROKEN))
