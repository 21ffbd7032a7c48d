#!/usr/bin/env python3
"""Holds the include graph of src/ to the levels of the architecture: calls go down only.

usage: check-includes.py SRC          prints every violation; exit status 1 when there is one
       check-includes.py --self-test  proves on made-up trees that each rule can fail

A room is a folder below src/, or the files NAME.* and NAME_*.* for a name in ROOMS. A file may include headers of its own
room and of rooms on lower levels. Rooms on one level do not know each other. Any room may count into stats and may have
pause points. A file that belongs to no room is a violation too: the picture and this list must be kept up to date.
"""

import re
import sys
from pathlib import Path

from treecheck import main, violations_of

ROOMS: dict[str, int] = {
    "pg_flashcache": 5,
    "sql_functions": 5,
    "attach": 4,
    "writer": 4,
    "explain": 4,
    "cache": 3,
    "directory": 2,
    "store": 2,
    "bufscan": 2,
    "handoff": 2,
    "oscache": 2,
    "pagecmp": 2,
    "stats": 2,
    "policy": 1,
    "checksum": 1,
    "layout": 1,
    "failpoint": 1,
    "library": 1,
    "machine": 1,
    "settings": 2,
    "types": 0,
    "compat": 0,
}

# Headers of the project that any room may include, upwards too.
FOR_ALL = {"stats.h", "failpoint.h"}

# Server headers that only one room may include.
RESERVED: dict[str, str] = {
    "storage/smgr.h": "attach",
    "storage/md.h": "attach",
    "storage/buf_internals.h": "bufscan",
}

# Rooms that also run outside the server: no server header at all.
WITHOUT_SERVER = {"policy", "checksum", "machine"}

# Where the server's version may be asked for: in rooms that live with the server's internals, and in files that are
# about something that only some versions have.
VERSION_ROOMS = {"compat", "attach", "bufscan", "explain"}
VERSION_FILES = {"stats_kind.c"}

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
VERSION = re.compile(r"^\s*#\s*(?:if|elif|ifdef|ifndef)\b.*\b(?:PG_VERSION_NUM|PG_MAJORVERSION_NUM|PG_MAJORVERSION)\b")


def room_of(file: Path) -> str | None:
    """The room of a file, given by its path below src/."""
    if len(file.parts) > 1:
        return file.parts[0] if file.parts[0] in ROOMS else None
    if file.stem in ROOMS:
        return file.stem
    prefixes = [room for room in ROOMS if file.stem.startswith(room + "_")]
    return max(prefixes, key=len, default=None)


def check_include(src: Path, file: Path, room: str, header: str) -> str | None:
    """What is wrong with this include, or None."""
    own = next((path for path in (src / file.parent / header, src / header) if path.is_file()), None)
    if own is None:
        if room in WITHOUT_SERVER:
            return f"{room} runs outside the server too and must not include {header}"
        only = RESERVED.get(header)
        if only is not None and only != room:
            return f"only {only} may include {header}"
        return None
    target = own.resolve().relative_to(src.resolve())
    target_room = room_of(target)
    if target_room is None:
        return None  # that file has its own line in the report
    if str(target) in FOR_ALL or target_room == room or ROOMS[target_room] < ROOMS[room]:
        return None
    where = "on the same level" if ROOMS[target_room] == ROOMS[room] else "above it"
    return f"{room} (level {ROOMS[room]}) must not include {target}: {target_room} (level {ROOMS[target_room]}) is {where}"


def check_tree(src: Path) -> list[str]:
    """All violations, as FILE:LINE: MESSAGE."""
    violations: list[str] = []
    files = sorted(path.relative_to(src) for path in src.rglob("*") if path.suffix in (".c", ".h"))
    if not files:
        return [f"{src}: no C files here"]
    for file in files:
        room = room_of(file)
        if room is None:
            violations.append(f"{file}: belongs to no room; add the room and its level to this check and to src/README.md")
            continue
        for number, line in enumerate((src / file).read_text(encoding="utf-8").splitlines(), start=1):
            if match := INCLUDE.match(line):
                if message := check_include(src, file, room, match[1]):
                    violations.append(f"{file}:{number}: {message}")
            elif VERSION.match(line) and room not in VERSION_ROOMS and file.name not in VERSION_FILES:
                violations.append(f"{file}:{number}: the server's version is asked for in compat, attach, bufscan, explain and stats_kind.c only")
    return violations


# A small tree that keeps every rule ...
GOOD_TREE: dict[str, str] = {
    "pg_flashcache.c": '#include "postgres.h"\n#include "attach/attach.h"\n#include "cache.h"\n',
    "attach/attach.c": '#include "attach.h"\n#include "cache.h"\n#include "storage/smgr.h"\n#if PG_VERSION_NUM >= 160000\n#endif\n',
    "attach/attach.h": '#include "types.h"\n',
    "cache.h": '#include "types.h"\n',
    "cache_fill.c": '#include "cache.h"\n#include "directory.h"\n#include "policy.h"\n',
    "directory.c": '#include "directory.h"\n#include "stats.h"\n#include "failpoint.h"\n#include "storage/lwlock.h"\n',
    "directory.h": '#include "types.h"\n',
    "bufscan.c": '#include "storage/buf_internals.h"\n',
    "stats.h": "",
    "store.h": "",
    "failpoint.h": "",
    "policy.c": '#include "policy.h"\n#include <stdint.h>\n',
    "policy.h": "",
    "types.h": "",
    "compat.h": "#if PG_VERSION_NUM >= 150000\n#endif\n",
}

# ... and one change for each way to break one, with what the check must say.
BROKEN: list[tuple[str, str, str]] = [
    (
        "cache_fill.c",
        '#include "attach/attach.h"\n',
        "cache_fill.c:1: cache (level 3) must not include attach/attach.h: attach (level 4) is above it",
    ),
    (
        "directory.c",
        '#include "store.h"\n',
        "directory.c:1: directory (level 2) must not include store.h: store (level 2) is on the same level",
    ),
    (
        "attach/attach.h",
        '#include "../pg_flashcache.h"\n',
        "attach/attach.h:1: attach (level 4) must not include pg_flashcache.h: pg_flashcache (level 5) is above it",
    ),
    ("cache_fill.c", '#include "storage/smgr.h"\n', "cache_fill.c:1: only attach may include storage/smgr.h"),
    ("writer.c", '#  include "storage/md.h"\n', "writer.c:1: only attach may include storage/md.h"),
    ("store.c", '#include "storage/buf_internals.h"\n', "store.c:1: only bufscan may include storage/buf_internals.h"),
    ("policy.c", '#include "postgres.h"\n', "policy.c:1: policy runs outside the server too and must not include postgres.h"),
    (
        "cache.c",
        "\n#elif PG_VERSION_NUM >= 170000\n",
        "cache.c:2: the server's version is asked for in compat, attach, bufscan, explain and stats_kind.c only",
    ),
    (
        "extra.c",
        "",
        "extra.c: belongs to no room; add the room and its level to this check and to src/README.md",
    ),
]


def self_test() -> int:
    failed = 0
    found = violations_of(check_tree, GOOD_TREE)
    if found:
        failed += 1
        print(f"the good tree is not accepted: {found}", file=sys.stderr)
    for file, text, expected in BROKEN:
        tree = GOOD_TREE | {file: text}
        if "pg_flashcache.h" in text:
            tree["pg_flashcache.h"] = ""
        found = violations_of(check_tree, tree)
        if found != [expected]:
            failed += 1
            print(f"{file}: expected {[expected]}, found {found}", file=sys.stderr)
    if violations_of(check_tree, {}) == []:
        failed += 1
        print("a tree without files is accepted", file=sys.stderr)
    print(f"include-graph self-test: {len(BROKEN) + 2 - failed} of {len(BROKEN) + 2} cases")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(__doc__, check_tree, "include graph: calls go down only", self_test))
