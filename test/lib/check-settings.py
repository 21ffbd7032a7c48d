#!/usr/bin/env python3
"""Holds the tables of settings, in README.md and docs/settings.md, to the settings that src/settings.c defines.

usage: check-settings.py ROOT          prints every difference; exit status 1 when there is one
       check-settings.py --self-test   proves on made-up trees that each rule can fail

A name is to be in README.md's table, and in docs/settings.md in the table and as the head of a section, once each; of what the
tables say besides, nothing is compared. A row may have several names. (That the settings exist is shown by 04_settings of
test/regress.)
"""

import re
import sys
from collections import Counter
from pathlib import Path

from treecheck import Change, main

DEFINED = re.compile(r'^\s*DefineCustom\w+Variable\(asked\("pg_flashcache\.(\w+)"\)', re.MULTILINE)
PLACES = (
    # File; a part of it; what is looked for in its lines; the names in that.
    ("README.md", "the table", re.compile(r"^\| (`pg_flashcache\.[^|]*)\|", re.MULTILINE), re.compile(r"`pg_flashcache\.(\w+)`")),
    ("docs/settings.md", "the table", re.compile(r"^\| (`\w+`) \|(?=(?:[^|\n]*\|){4}$)", re.MULTILINE), re.compile(r"`(\w+)`")),
    ("docs/settings.md", "the sections", re.compile(r"^## (`pg_flashcache\.\w+`)", re.MULTILINE), re.compile(r"`pg_flashcache\.(\w+)`")),
)


def check_tree(root: Path) -> list[str]:
    """All differences."""
    try:
        defined = DEFINED.findall((root / "src/settings.c").read_text("utf-8"))
        texts = {file: (root / file).read_text("utf-8") for file, *_ in PLACES}
    except OSError as error:
        return [f"cannot be read: {error}"]
    if not defined:
        return ["src/settings.c: defines no settings, as far as this check can see"]
    found = []
    for file, where, lines, names in PLACES:
        there = Counter(name for line in lines.findall(texts[file]) for name in names.findall(line))
        found += [f"{file}: {where}: {name} is missing" for name in sorted(set(defined) - set(there))]
        found += [f"{file}: {where}: there is no setting {name}" for name in sorted(set(there) - set(defined))]
        found += [f"{file}: {where}: {name} is there {number} times" for name, number in sorted(there.items()) if number > 1]
    return found


SOURCE = 'void\nf(void)\n{\n\tDefineCustomIntVariable(asked("pg_flashcache.a"),\n\tDefineCustomBoolVariable(asked("pg_flashcache.b"),\n}\n'
GOOD_TREE = {
    "src/settings.c": SOURCE,
    "README.md": "| setting | default | |\n|---|---|---|\n| `pg_flashcache.a`, `pg_flashcache.b` | 0, 1 | `pg_flashcache.c` is none |\n",
    "docs/settings.md": "| `a` | int | 0 | sighup | x |\n| `b` | int | 0 | sighup | x |\n\n## `pg_flashcache.a` (int)\n\n## `pg_flashcache.b`\n"
    "| `c` | of another table |\n",
}
BROKEN: list[Change] = [
    ("src/settings.c", "DefineCustom", "Define", ["src/settings.c: defines no settings, as far as this check can see"]),
    ("README.md", ", `pg_flashcache.b`", "", ["README.md: the table: b is missing"]),
    ("README.md", "`pg_flashcache.b`", "`pg_flashcache.b`, `pg_flashcache.x`", ["README.md: the table: there is no setting x"]),
    ("README.md", "`pg_flashcache.b`", "`pg_flashcache.b`, `pg_flashcache.b`", ["README.md: the table: b is there 2 times"]),
    ("docs/settings.md", "| `b` | int | 0 | sighup | x |\n", "", ["docs/settings.md: the table: b is missing"]),
    ("docs/settings.md", "\n## `pg_flashcache.b`\n", "", ["docs/settings.md: the sections: b is missing"]),
]


if __name__ == "__main__":
    sys.exit(main(__doc__, check_tree, "the tables of settings agree with src/settings.c", GOOD_TREE, BROKEN))
