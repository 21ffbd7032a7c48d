#!/usr/bin/env python3
"""Holds the include graph of src/ to the levels of the architecture: calls go down only.

usage: check-includes.py SRC          prints every violation; exit status 1 when there is one
       check-includes.py --self-test  proves on made-up trees that each rule can fail

A module is a folder below src/, or the files NAME.* and NAME_*.* for a name in MODULES. A file may include headers of its own
module and of modules on lower levels. Modules on one level do not know each other. Any module may count into stats and may have
pause points. A file that belongs to no module is a violation too: the picture and this list must be kept up to date.
"""

import re
import sys
from pathlib import Path

from treecheck import Change, main

MODULES: dict[str, int] = {
    "pg_flashcache": 7,
    "sql_advice": 7,
    "sql_admission": 7,
    "sql_functions": 7,
    "sql_commands": 7,
    "sql_load": 7,
    "sql_failpoint": 7,
    "sql_bypass": 7,
    "sql_devices": 7,
    "sql_health": 7,
    "sql_extents": 7,
    "sql_policy": 7,
    "sql_objects": 7,
    "sql_follow": 7,
    "follow": 6,
    "prewarm": 5,
    "sql_row": 5,
    "attach": 4,
    "writer": 4,
    "explain": 4,
    "resolver": 4,
    "rulebook": 3,
    "statements": 4,
    "objects": 4,
    "buffers": 4,
    "map": 4,
    "cache": 3,
    "warm": 3,
    "advice": 3,
    "health": 3,
    "directory": 2,
    "admission": 2,
    "store": 2,
    "bufscan": 2,
    "handoff": 2,
    "oscache": 2,
    "pagecmp": 2,
    "stats": 2,
    "child": 1,
    "policy": 1,
    "rules": 1,
    "checksum": 1,
    "layout": 1,
    "durable": 1,
    "failpoint": 1,
    "library": 1,
    "memory": 1,
    "settings": 2,
    "machine": 0,
    "reason": 0,
    "amount": 0,
    "types": 0,
    "compat": 0,
}

# Headers of the project that any module may include, upwards too.
FOR_ALL = {"stats/stats.h", "stats/stats_relation.h", "stats/stats_latency.h", "stats/stats_statement.h", "failpoint.h"}

# Server headers that only one module may include.
RESERVED: dict[str, str] = {
    "storage/smgr.h": "attach",
    "storage/md.h": "attach",
    "storage/buf_internals.h": "bufscan",
}

# Modules that also run outside the server: no server header at all.
WITHOUT_SERVER = {"policy", "checksum", "machine"}

# Where the server's version may be asked for: in modules that live with the server's internals, and in files that are
# about something that only some versions have.
VERSION_MODULES = {"compat", "attach", "bufscan", "explain", "statements"}
VERSION_FILES = {"stats_kind.c", "memory.c"}

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
VERSION = re.compile(r"^\s*#\s*(?:if|elif|ifdef|ifndef)\b.*\b(?:PG_VERSION_NUM|PG_MAJORVERSION_NUM|PG_MAJORVERSION)\b")


def module_of(file: Path) -> str | None:
    """The module of a file, given by its path below src/."""
    if len(file.parts) > 1:
        return file.parts[0] if file.parts[0] in MODULES else None
    if file.stem in MODULES:
        return file.stem
    prefixes = [module for module in MODULES if file.stem.startswith(module + "_")]
    return max(prefixes, key=len, default=None)


def check_include(src: Path, file: Path, module: str, header: str) -> str | None:
    """What is wrong with this include, or None."""
    own = next((path for path in (src / file.parent / header, src / header) if path.is_file()), None)
    if own is None:
        if module in WITHOUT_SERVER:
            return f"{module} runs outside the server too and must not include {header}"
        only = RESERVED.get(header)
        if only is not None and only != module:
            return f"only {only} may include {header}"
        return None
    target = own.resolve().relative_to(src.resolve())
    target_module = module_of(target)
    if target_module is None:
        return None  # that file has its own line in the report
    if str(target) in FOR_ALL or target_module == module or MODULES[target_module] < MODULES[module]:
        return None
    where = "on the same level" if MODULES[target_module] == MODULES[module] else "above it"
    return f"{module} (level {MODULES[module]}) must not include {target}: {target_module} (level {MODULES[target_module]}) is {where}"


def check_tree(src: Path) -> list[str]:
    """All violations, as FILE:LINE: MESSAGE."""
    violations: list[str] = []
    files = sorted(path.relative_to(src) for path in src.rglob("*") if path.suffix in (".c", ".h"))
    if not files:
        return [f"{src}: no C files here"]
    for file in files:
        module = module_of(file)
        if module is None:
            violations.append(f"{file}: belongs to no module; add the module and its level to this check and to src/README.md")
            continue
        for number, line in enumerate((src / file).read_text(encoding="utf-8").splitlines(), start=1):
            if match := INCLUDE.match(line):
                if message := check_include(src, file, module, match[1]):
                    violations.append(f"{file}:{number}: {message}")
            elif VERSION.match(line) and module not in VERSION_MODULES and file.name not in VERSION_FILES:
                violations.append(f"{file}:{number}: the server's version is asked for in compat, attach, bufscan, explain and stats_kind.c only")
    return violations


# A small tree that keeps every rule ...
GOOD_TREE: dict[str, str] = {
    "pg_flashcache.c": '#include "postgres.h"\n#include "attach/attach.h"\n#include "cache/cache.h"\n',
    "pg_flashcache.h": "",
    "attach/attach.c": '#include "attach.h"\n#include "cache/cache.h"\n#include "storage/smgr.h"\n#if PG_VERSION_NUM >= 160000\n#endif\n',
    "attach/attach.h": '#include "types.h"\n',
    "cache/cache.h": '#include "types.h"\n',
    "cache/cache_fill.c": '#include "cache/cache.h"\n#include "directory/directory.h"\n#include "policy.h"\n',
    "directory/directory.c": '#include "directory/directory.h"\n#include "stats/stats.h"\n#include "failpoint.h"\n#include "storage/lwlock.h"\n',
    "directory/directory.h": '#include "types.h"\n',
    "bufscan.c": '#include "storage/buf_internals.h"\n',
    "stats/stats.h": "",
    "store.h": "",
    "failpoint.h": "",
    "policy.c": '#include "policy.h"\n#include <stdint.h>\n',
    "policy.h": "",
    "types.h": "",
    "compat.h": "#if PG_VERSION_NUM >= 150000\n#endif\n",
}

# ... and one change for each way to break one.
BROKEN: list[Change] = [
    ("cache/cache_fill.c", "", '#include "attach/attach.h"\n', [
        "cache/cache_fill.c:1: cache (level 3) must not include attach/attach.h: attach (level 4) is above it",
    ]),
    ("directory/directory.c", "", '#include "store.h"\n', [
        "directory/directory.c:1: directory (level 2) must not include store.h: store (level 2) is on the same level",
    ]),
    ("attach/attach.h", "", '#include "../pg_flashcache.h"\n', [
        "attach/attach.h:1: attach (level 4) must not include pg_flashcache.h: pg_flashcache (level 7) is above it",
    ]),
    ("cache/cache_fill.c", "", '#include "storage/smgr.h"\n', ["cache/cache_fill.c:1: only attach may include storage/smgr.h"]),
    ("writer/writer.c", "", '#  include "storage/md.h"\n', ["writer/writer.c:1: only attach may include storage/md.h"]),
    ("store.c", "", '#include "storage/buf_internals.h"\n', ["store.c:1: only bufscan may include storage/buf_internals.h"]),
    ("policy.c", "", '#include "postgres.h"\n', ["policy.c:1: policy runs outside the server too and must not include postgres.h"]),
    ("cache/cache.c", "", "\n#elif PG_VERSION_NUM >= 170000\n", [
        "cache/cache.c:2: the server's version is asked for in compat, attach, bufscan, explain and stats_kind.c only",
    ]),
    ("extra.c", "", "", ["extra.c: belongs to no module; add the module and its level to this check and to src/README.md"]),
]


if __name__ == "__main__":
    sys.exit(main(__doc__, check_tree, "include graph: calls go down only", GOOD_TREE, BROKEN))
