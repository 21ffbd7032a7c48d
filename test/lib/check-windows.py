#!/usr/bin/env python3
"""Holds the numbered steps of the protocol together: its document, code, model, pause points, and the tests that stand at them.

usage: check-windows.py ROOT         prints every violation; exit status 1 when there is one
       check-windows.py --self-test  proves on made-up trees that each rule can fail

A step is what src/protocol.md defines as "- **F1** ...". Steps of one letter follow each other, and the gap between two of them
is a window in which another process may act. What must be so:
  1. each gap has a line in test/windows.txt, and each step is named there;
  2. each line names steps that there are (or "device" or "disk" and what is done to it), a pause point of src/failpoint.h,
     and a test that exists and uses that point;
  3. each pause point has a line, is known to src/failpoint.c under its own name, and stands somewhere in the code;
  4. each step is cited in a comment of the code, and in one of the model but for those of NOT_MODELLED;
  5. each pause point that a test names exists, but for the one that is there to be refused.
What src/device.md defines in the same way holds at all times: no windows, but each rule is cited in the code.
"""

import re
import sys
from pathlib import Path

from treecheck import Change, main

PROTOCOL = "src/protocol.md"
DEVICE = "src/device.md"
WINDOWS = "test/windows.txt"
POINTS = "src/failpoint.h"
NAMES = "src/failpoint.c"
MODEL = "test/model/protocol.pml"

STEP = re.compile(r"^- \*\*([A-Z])([0-9]+)\*\* ", re.MULTILINE)
ID = re.compile(r"^\s*FC_FP_([A-Z0-9_]+),", re.MULTILINE)
NAME = re.compile(r'\[FC_FP_([A-Z0-9_]+)\] = "([a-z0-9_]+)"')
WINDOW = re.compile(r"^([A-Z][0-9]+) \| ([A-Z][0-9]+)$")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)

# Ends of the enumeration, and names that are no points.
NOT_POINTS = {"COUNT", "OFF", "PAUSE", "ERROR", "NOSPACE", "SHORT", "FLIP", "TORN", "MISPLACED", "DELAY"}

# Scrub: it links nothing, and for a reader it is the reuse of a slot, which the model has (F4).
NOT_MODELLED = {"Z"}

# How tests name points; strings with variables in them are not looked at.
NAMED = re.compile(r"\bfc_failpoint(?:_wait)?\((?:\$\w+, *)?'([a-z0-9_]+)'")
NO_POINT = "no_such_point"
SCRIPTS = {".pl", ".pm", ".py", ".sh", ".spec", ".sql"}

COLUMNS = 4


def read(root: Path, file: str) -> str:
    path = root / file
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def steps_of(text: str) -> list[tuple[str, int]]:
    return [(letter, int(number)) for letter, number in STEP.findall(text)]


def cited(step: str, text: str) -> bool:
    """Does a comment name the step?  A range such as F1-F6, in the head of a file, is not the place where it is done."""
    return any(re.search(rf"(?<!-)\b{step}\b(?!-)", comment) for comment in COMMENT.findall(text))


def check_line(root: Path, number: int, line: str, steps: set[str], points: set[str]) -> tuple[list[str], str, str]:
    """What is wrong with a line of the list, its window, and its pause point."""
    where = f"{WINDOWS}:{number}"
    columns = re.split(r" {2,}", line.strip())
    if len(columns) != COLUMNS:
        return [f"{where}: {len(columns)} columns instead of {COLUMNS}"], "", ""
    window, point, _, test = columns
    wrong: list[str] = []
    if match := WINDOW.match(window):
        wrong += [f"{where}: {PROTOCOL} has no step {step}" for step in match.groups() if step not in steps]
    elif not window.startswith(("device: ", "disk: ")):
        wrong.append(f'{where}: "{window}" is no window')
    if point not in points:
        wrong.append(f"{where}: {POINTS} has no pause point {point}")
    path = root / "test" / test
    if not path.is_file():
        wrong.append(f"{where}: there is no test/{test}")
    elif not re.search(rf"\b{point}\b", path.read_text(encoding="utf-8")):
        wrong.append(f"{where}: test/{test} does not use {point}")
    return wrong, window, point


def check_tree(root: Path) -> list[str]:
    """All violations."""
    wrong: list[str] = []
    steps = steps_of(read(root, PROTOCOL))
    rules = [f"{letter}{number}" for letter, number in steps_of(read(root, DEVICE))]
    names = [f"{letter}{number}" for letter, number in steps]
    points = {name.lower() for name in ID.findall(read(root, POINTS)) if name not in NOT_POINTS}
    if not steps or not rules or not points:
        return [f"{PROTOCOL} has {len(steps)} steps, {DEVICE} {len(rules)} rules, {POINTS} {len(points)} pause points"]

    # 1, 2
    covered: set[tuple[str, str]] = set()
    ends: set[str] = set()
    used: set[str] = set()
    for number, line in enumerate(read(root, WINDOWS).splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        problems, window, point = check_line(root, number, line, set(names), points)
        wrong += problems
        used.add(point)
        if match := WINDOW.match(window):
            covered.add((match[1], match[2]))
            ends.update(match.groups())
    wrong += [f"{PROTOCOL}: {WINDOWS} does not name step {name}" for name in names if name not in ends]
    for letter, number in steps:
        after = (letter, number + 1)
        gap = (f"{letter}{number}", f"{letter}{number + 1}")
        if after in steps and gap not in covered:
            wrong.append(f"{PROTOCOL}: {WINDOWS} has no line for {gap[0]} | {gap[1]}")

    # 3
    code = {path: path.read_text(encoding="utf-8") for path in sorted((root / "src").rglob("*.[ch]"))}
    own = {root / POINTS, root / NAMES}
    table = dict(NAME.findall(read(root, NAMES)))
    for point in sorted(points):
        if point not in used:
            wrong.append(f"{POINTS}: {point} has no line in {WINDOWS}")
        if table.get(point.upper()) != point:
            wrong.append(f"{NAMES}: {point} is not known by its name")
        call = re.compile(rf"\bfc_(?:process_)?failpoint(?:_fault_of|_fault|_about|_of)?\(FC_FP_{point.upper()}[,)]")
        if not any(call.search(text) for path, text in code.items() if path not in own):
            wrong.append(f"{POINTS}: {point} stands nowhere in the code")

    # 4
    model = read(root, MODEL)
    for file, cited_names in ((PROTOCOL, names), (DEVICE, rules)):
        for name in cited_names:
            if not any(cited(name, text) for path, text in code.items() if path not in own):
                wrong.append(f"{file}: no comment in src/ says {name}")
    for name in names:
        if name[0] not in NOT_MODELLED and not cited(name, model):
            wrong.append(f"{PROTOCOL}: no comment in {MODEL} says {name}")

    # 5
    for path in sorted((root / "test").rglob("*")):
        if path.suffix in SCRIPTS and path.name != Path(__file__).name:
            for name in sorted(set(NAMED.findall(path.read_text(encoding="utf-8"))) - points - {NO_POINT}):
                wrong.append(f"{path.relative_to(root)}: {POINTS} has no pause point {name}")
    return wrong


# A small tree that keeps every rule ...
GOOD_TREE: dict[str, str] = {
    PROTOCOL: "### Fill\n- **F1** look.\n- **F2** copy.\n- **F3** link.\n",
    DEVICE: "- **H1** wait no longer.\n",
    POINTS: "typedef enum\n{\n\tFC_FP_FILL_BEGIN,\t/* F1 | F2 */\n\tFC_FP_FILL_COPIED,\n\tFC_FP_STORE_READ,\n\tFC_FP_COUNT\n}\n\tFC_FP_OFF,\n",
    NAMES: '\t[FC_FP_FILL_BEGIN] = "fill_begin",\n\t[FC_FP_FILL_COPIED] = "fill_copied",\n\t[FC_FP_STORE_READ] = "store_read",\n',
    "src/cache/cache.c": "look();\t/* F1 */\nfc_failpoint(FC_FP_FILL_BEGIN);\ncopy();\t/* F2: once */\nfc_failpoint(FC_FP_FILL_COPIED);\n/*\n * F3.\n */\n",
    "src/room/store.c": "if (fc_failpoint(FC_FP_STORE_READ)) return;\t/* H1 */\n",
    MODEL: "/* F1 */ /* F2 and F3 */\n",
    WINDOWS: "# a list\nF1 | F2       fill_begin   drop     a.spec\n\nF2 | F3       fill_copied  drop     tap/b.pl\ndevice: read  store_read   a fault  tap/b.pl\n",
    "test/a.spec": "step x { SELECT f('fill_begin'); }\n",
    "test/tap/b.pl": "f('fill_copied'); fc_failpoint($node, 'store_read', 'error'); fc_failpoint_wait($x, $point);\n",
    "test/regress/c.sql": "SELECT fc_failpoint_wait('fill_begin'), fc_failpoint('no_such_point', 'off');\n",
}

# ... and one change for each way to break one.
BROKEN: list[Change] = [
    (PROTOCOL, "- **F3** link.\n", "- **F3** link.\n- **F4** rest.\n", [
        "src/protocol.md: test/windows.txt does not name step F4",
        "src/protocol.md: test/windows.txt has no line for F3 | F4",
        "src/protocol.md: no comment in src/ says F4",
        "src/protocol.md: no comment in test/model/protocol.pml says F4",
    ]),
    (WINDOWS, "F2 | F3       fill_copied", "F1 | F3       fill_copied", ["src/protocol.md: test/windows.txt has no line for F2 | F3"]),
    (WINDOWS, "F1 | F2 ", "F0 | F2 ", [
        "test/windows.txt:2: src/protocol.md has no step F0",
        "src/protocol.md: test/windows.txt does not name step F1",
        "src/protocol.md: test/windows.txt has no line for F1 | F2",
    ]),
    (WINDOWS, "device: read", "devices read", ['test/windows.txt:5: "devices read" is no window']),
    (WINDOWS, "fill_begin ", "fill_bogin ", [
        "test/windows.txt:2: src/failpoint.h has no pause point fill_bogin",
        "test/windows.txt:2: test/a.spec does not use fill_bogin",
        "src/failpoint.h: fill_begin has no line in test/windows.txt",
    ]),
    (WINDOWS, "   drop     a.spec", " drop     a.spec", ["test/windows.txt:2: 3 columns instead of 4",
        "src/protocol.md: test/windows.txt does not name step F1",
        "src/protocol.md: test/windows.txt has no line for F1 | F2",
        "src/failpoint.h: fill_begin has no line in test/windows.txt",
    ]),
    (WINDOWS, "a.spec", "c.spec", ["test/windows.txt:2: there is no test/c.spec"]),
    ("test/a.spec", "fill_begin", "fill_begins", ["test/windows.txt:2: test/a.spec does not use fill_begin"]),
    (POINTS, "\tFC_FP_COUNT", "\tFC_FP_NEW,\n\tFC_FP_COUNT", [
        "src/failpoint.h: new has no line in test/windows.txt",
        "src/failpoint.c: new is not known by its name",
        "src/failpoint.h: new stands nowhere in the code",
    ]),
    (NAMES, '"fill_begin"', '"fill_copied"', ["src/failpoint.c: fill_begin is not known by its name"]),
    ("src/room/store.c", "FC_FP_STORE_READ", "FC_FP_FILL_BEGIN", ["src/failpoint.h: store_read stands nowhere in the code"]),
    ("src/cache/cache.c", "/* F1 */", "/* F1-F3 */", ["src/protocol.md: no comment in src/ says F1"]),
    ("src/cache/cache.c", " * F3.\n", " * The end.\n", ["src/protocol.md: no comment in src/ says F3"]),
    (MODEL, " and F3", "", ["src/protocol.md: no comment in test/model/protocol.pml says F3"]),
    (DEVICE, "- **H1** ", "- **H1** always.\n- **H2** ", ["src/device.md: no comment in src/ says H2"]),
    ("src/room/store.c", "H1", "H1-H2", ["src/device.md: no comment in src/ says H1"]),
    (PROTOCOL, "- **F1** ", "- **Z1** erase.\n- **F1** ", [
        "src/protocol.md: test/windows.txt does not name step Z1",
        "src/protocol.md: no comment in src/ says Z1",
    ]),
    ("test/tap/b.pl", "fc_failpoint($", "fc_failpoint($other, 'store_flip', 'off'); fc_failpoint($",
        ["test/tap/b.pl: src/failpoint.h has no pause point store_flip"]),
    ("test/regress/c.sql", "_wait('fill_begin", "_wait('fill_bogin",
        ["test/regress/c.sql: src/failpoint.h has no pause point fill_bogin"]),
    (PROTOCOL, "**", "", ["src/protocol.md has 0 steps, src/device.md 1 rules, src/failpoint.h 3 pause points"]),
    (DEVICE, "**", "", ["src/protocol.md has 3 steps, src/device.md 0 rules, src/failpoint.h 3 pause points"]),
]


if __name__ == "__main__":
    sys.exit(main(__doc__, check_tree, "windows: each gap between two steps has a pause point and a test", GOOD_TREE, BROKEN))
