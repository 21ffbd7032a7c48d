#!/usr/bin/env python3
"""Looks whether a PostgreSQL server calls its storage manager's functions through the table that pg_flashcache changes.

usage: check-calls.py POSTGRES SHAPE_C    the server's program file, and src/attach/shape.c
       check-calls.py --self-test

A compiler may see that the table is constant and has one row, and call mdreadv() directly or put it inline: then a
changed table is never used. Compilers do so with entries that we leave alone (mdinit, mdopen, mdimmedsync and mdregistersync,
which ones differs from server to server). So for each entry that shape.c replaces, if the server has it:
  - the function of smgr.c that calls it must contain an indirect call or jump, and
  - nobody outside md.c may call or jump to it directly.

Needs objdump and nm. The functions are exported by the server, so no debug symbols are needed.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# The functions of smgr.c that call an entry, where the names don't say it; those that a version lacks are left out.
CALLERS = {"mdunlink": ["smgrdounlinkall"], "mdtruncate": ["smgrtruncate", "smgrtruncate2"]}
# Every entry is there in some version, but not all in one.
FEWEST_ENTRIES = 7

LABEL = re.compile(r"^([0-9a-f]+) <([^>@]+)[^>]*>:$")
DIRECT = re.compile(r"^\s*([0-9a-f]+):\s+(?:bnd\s+)?(?:call|j[a-z]+|b|bl)\s+([0-9a-f]+)\b")
INDIRECT = re.compile(r"^\s*[0-9a-f]+:\s+(?:(?:bnd|notrack)\s+)?(?:(?:call|jmp)\s+\*|blr\s|br\s)")


def command(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def exported(program: str) -> dict[str, tuple[int, int]]:
    """Exported functions: name -> start, end."""
    found: dict[str, tuple[int, int]] = {}
    for line in command("nm", "-D", "-S", "--defined-only", program).splitlines():
        if match := re.match(r"^([0-9a-f]+) ([0-9a-f]+) T ([^@]+)", line):
            start = int(match[1], 16)
            found[match[3]] = (start, start + int(match[2], 16))
    return found


def code(program: str, start: int, end: int) -> list[str]:
    text = command("objdump", "-d", "--no-show-raw-insn", f"--start-address={start}", f"--stop-address={end}", program)
    return text.splitlines()


def replaced(shape: str) -> list[str]:
    """The functions of md.c that shape.c replaces, in any version."""
    originals = dict(re.findall(r"\[(AT_\w+)\] = (md\w+)", shape))
    ours = set(re.findall(r"\[(AT_\w+)\] = fc_\w+", shape))
    both = dict(re.findall(r"\[(AT_\w+)\] = (md\w+v)\b", shape))  # read and readv stand in the same place
    names = {originals[at] for at in ours} | {both[at] for at in ours if at in both}
    return sorted(names | {name.removesuffix("v") for name in names if name in ("mdreadv", "mdwritev")})


def check(program: str, entries: list[str]) -> list[str]:
    """One line for each entry; those that begin with `not ok` are wrong."""
    functions = exported(program)
    there = {functions[name][0]: name for name in entries if name in functions}
    if len(there) < FEWEST_ENTRIES:
        return [f"not ok: only {len(there)} of the functions are exported: is this a PostgreSQL server?"]
    lines = []
    for entry in there.values():
        callers = [name for name in CALLERS.get(entry, ["smgr" + entry.removeprefix("md")]) if name in functions]
        direct = [name for name in callers if not any(INDIRECT.match(line) for line in code(program, *functions[name]))]
        lines += [f"not ok: {name} makes no indirect call, {entry} is not called through the table" for name in direct]
        lines += [f"ok: {name} calls {entry} through the table" for name in callers if name not in direct]
        if not callers:
            lines.append(f"not ok: {entry} is there, but no caller is exported")

    # md.c's functions lie together; it may call its own.
    md = [place for name, place in functions.items() if re.fullmatch(r"md(init|open|close|create|exists|unlink|nblocks|immedsync)", name)]
    first, last = min([*there, *(start for start, _ in md)]), max([end for _, end in md] + [functions[n][1] for n in there.values()])
    where = "?"
    seen = 0
    with subprocess.Popen(["objdump", "-d", "--no-show-raw-insn", program], stdout=subprocess.PIPE, text=True) as objdump:
        assert objdump.stdout is not None
        for line in objdump.stdout:
            if match := LABEL.match(line):
                where = match[2]
            elif match := DIRECT.match(line):
                seen += 1
                source, target = int(match[1], 16), int(match[2], 16)
                if target in there and not first <= source < last:
                    lines.append(f"not ok: {where} (at {source:x}) calls {there[target]} directly")
    if objdump.returncode != 0 or seen == 0:
        lines.append("not ok: objdump found no code")
    return lines


# A made-up server: a table with one row, and functions that call through it.
SELF_TEST = """
typedef struct { %(members)s } table;
%(functions)s
static %(const)s table smgrsw[] = {{ %(row)s }};
__attribute__((noipa)) int which(void) { return 0; }
%(callers)s
%(more)s
int main(void) { return 0; }
"""
SELF_TEST_SHAPE = "[AT_READ] = mdread, [AT_READ] = mdreadv, [AT_OPEN] = mdopen, [AT_READ] = fc_smgr_read, " + ", ".join(
    f"[AT_{name.upper()}] = md{name}, [AT_{name.upper()}] = fc_smgr_{name}"
    for name in ("create", "unlink", "extend", "prefetch", "truncate", "maxcombine")
)


def made_up(directory: Path, kind: str) -> str:
    entries = [name for name in replaced(SELF_TEST_SHAPE) if name != "mdread"]
    constant = kind == "devirtualised"
    source = SELF_TEST % {
        "const": "const" if constant else "volatile",
        "members": " ".join(f"int (*{name})(int);" for name in entries),
        "functions": "\n".join(f"__attribute__((noinline)) int {name}(int x) {{ return x * {i + 3}; }}" for i, name in enumerate(entries)),
        "row": ", ".join(entries),
        "callers": "\n".join(
            f"int {caller}(int x) {{ return smgrsw[{0 if constant else 'which()'}].{entry}(x) + 1; }}"
            for entry in entries
            for caller in CALLERS.get(entry, ["smgr" + entry.removeprefix("md")])
            if (kind, caller) != ("missing", "smgrextend")
        ),
        "more": "int other(int x) { return mdreadv(x) + 1; }" if kind == "direct" else "",
    }
    (directory / f"{kind}.c").write_text(source, encoding="utf-8")
    program = directory / kind
    command("gcc", "-O2", "-fPIE", "-pie", "-rdynamic", "-o", str(program), str(directory / f"{kind}.c"))
    return str(program)


def self_test() -> int:
    entries = replaced(SELF_TEST_SHAPE)
    # All that must be found, and where nothing else may be.
    cases: dict[str, tuple[list[str], bool]] = {
        "good": ([], True),
        "devirtualised": (
            [
                "not ok: smgrreadv makes no indirect call, mdreadv is not called through the table",
                "not ok: smgrreadv (at X) calls mdreadv directly",
                "not ok: smgrdounlinkall (at X) calls mdunlink directly",
            ],
            False,
        ),
        "direct": (["not ok: other (at X) calls mdreadv directly"], True),
        "missing": (["not ok: mdextend is there, but no caller is exported"], True),
    }
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        for kind, (expected, nothing_else) in cases.items():
            found = [re.sub(r"at [0-9a-f]+", "at X", line) for line in check(made_up(Path(name), kind), entries)]
            wrong = [line for line in found if not line.startswith("ok")]
            if (wrong != expected) if nothing_else else not set(expected) <= set(wrong):
                failed += 1
                print(f"{kind}: {found}", file=sys.stderr)
    # Another kind of program altogether.
    if not any(line.startswith("not ok") for line in check(shutil.which("objdump") or "objdump", entries)):
        failed += 1
        print("objdump passes for a server", file=sys.stderr)
    print(f"self-test: {len(cases) + 1 - failed} of {len(cases) + 1} cases")
    return 1 if failed else 0


def main(arguments: list[str]) -> int:
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    lines = check(arguments[0], replaced(Path(arguments[1]).read_text(encoding="utf-8")))
    print("\n".join(lines))
    failed = sum(line.startswith("not ok") for line in lines)
    print(f"{len(lines) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
