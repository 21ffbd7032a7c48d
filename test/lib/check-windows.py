#!/usr/bin/env python3
"""Holds the numbered steps of the protocol together: README, code, model, pause points, and the tests that stand at them.

usage: check-windows.py ROOT         prints every violation; exit status 1 when there is one
       check-windows.py --self-test  proves on made-up trees that each rule can fail

A step is what src/README.md defines as "- **F1** ...". Steps of one letter follow each other, and the gap between two of them
is a window in which another process may act. What must be so:
  1. each gap has a line in test/windows.txt, and each step is named there;
  2. each line names steps that there are (or "device" or "disk" and what is done to it), a pause point of src/failpoint.h,
     and a test that exists and uses that point;
  3. each pause point has a line, is known to src/failpoint.c under its own name, and stands somewhere in the code;
  4. each step is cited in a comment of the code, and in one of the model but for those of NOT_MODELLED.
Letters of RULES number what holds at all times: no windows, but each rule is cited in the code.
"""

import re
import sys
from pathlib import Path

from treecheck import main, violations_of

README = "src/README.md"
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

# What to do about devices that do not answer.
RULES = {"H"}

# Scrub: it links nothing, and for a reader it is the reuse of a slot, which the model has (F4).
NOT_MODELLED = {"Z"}

COLUMNS = 4


def read(root: Path, file: str) -> str:
    path = root / file
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def steps_of(readme: str) -> list[tuple[str, int]]:
    return [(letter, int(number)) for letter, number in STEP.findall(readme)]


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
        wrong += [f"{where}: {README} has no step {step}" for step in match.groups() if step not in steps]
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
    numbered = steps_of(read(root, README))
    steps = [step for step in numbered if step[0] not in RULES]
    rules = [f"{letter}{number}" for letter, number in numbered if letter in RULES]
    names = [f"{letter}{number}" for letter, number in steps]
    points = {name.lower() for name in ID.findall(read(root, POINTS)) if name not in NOT_POINTS}
    if not steps or not points:
        return [f"{README} has {len(steps)} steps, {POINTS} {len(points)} pause points"]

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
    wrong += [f"{README}: {WINDOWS} does not name step {name}" for name in names if name not in ends]
    for letter, number in steps:
        after = (letter, number + 1)
        gap = (f"{letter}{number}", f"{letter}{number + 1}")
        if after in steps and gap not in covered:
            wrong.append(f"{README}: {WINDOWS} has no line for {gap[0]} | {gap[1]}")

    # 3
    code = {path: path.read_text(encoding="utf-8") for path in sorted((root / "src").rglob("*.[ch]"))}
    own = {root / POINTS, root / NAMES}
    table = dict(NAME.findall(read(root, NAMES)))
    for point in sorted(points):
        if point not in used:
            wrong.append(f"{POINTS}: {point} has no line in {WINDOWS}")
        if table.get(point.upper()) != point:
            wrong.append(f"{NAMES}: {point} is not known by its name")
        call = re.compile(rf"\bfc_(?:process_)?failpoint(?:_fault|_about|_of)?\(FC_FP_{point.upper()}[,)]")
        if not any(call.search(text) for path, text in code.items() if path not in own):
            wrong.append(f"{POINTS}: {point} stands nowhere in the code")

    # 4
    model = read(root, MODEL)
    for name in names + rules:
        if not any(cited(name, text) for path, text in code.items() if path not in own):
            wrong.append(f"{README}: no comment in src/ says {name}")
    for name in names:
        if name[0] not in NOT_MODELLED and not cited(name, model):
            wrong.append(f"{README}: no comment in {MODEL} says {name}")
    return wrong


# A small tree that keeps every rule ...
GOOD_TREE: dict[str, str] = {
    README: "### Fill\n- **F1** look.\n- **F2** copy.\n- **F3** link.\n",
    POINTS: "typedef enum\n{\n\tFC_FP_FILL_BEGIN,\t/* F1 | F2 */\n\tFC_FP_FILL_COPIED,\n\tFC_FP_STORE_READ,\n\tFC_FP_COUNT\n}\n\tFC_FP_OFF,\n",
    NAMES: '\t[FC_FP_FILL_BEGIN] = "fill_begin",\n\t[FC_FP_FILL_COPIED] = "fill_copied",\n\t[FC_FP_STORE_READ] = "store_read",\n',
    "src/cache.c": "look();\t/* F1 */\nfc_failpoint(FC_FP_FILL_BEGIN);\ncopy();\t/* F2: once */\nfc_failpoint(FC_FP_FILL_COPIED);\n/*\n * F3.\n */\n",
    "src/room/store.c": "if (fc_failpoint(FC_FP_STORE_READ)) return;\n",
    MODEL: "/* F1 */ /* F2 and F3 */\n",
    WINDOWS: "# a list\nF1 | F2       fill_begin   drop     a.spec\n\nF2 | F3       fill_copied  drop     tap/b.pl\ndevice: read  store_read   a fault  tap/b.pl\n",
    "test/a.spec": "step x { SELECT f('fill_begin'); }\n",
    "test/tap/b.pl": "f('fill_copied'); f('store_read');\n",
}

# ... and one change for each way to break one: file, old text, new text, what the check must say.
BROKEN: list[tuple[str, str, str, list[str]]] = [
    (
        README,
        "- **F3** link.\n",
        "- **F3** link.\n- **F4** rest.\n",
        [
            "src/README.md: test/windows.txt does not name step F4",
            "src/README.md: test/windows.txt has no line for F3 | F4",
            "src/README.md: no comment in src/ says F4",
            "src/README.md: no comment in test/model/protocol.pml says F4",
        ],
    ),
    (
        WINDOWS,
        "F2 | F3       fill_copied",
        "F1 | F3       fill_copied",
        ["src/README.md: test/windows.txt has no line for F2 | F3"],
    ),
    (WINDOWS, "F1 | F2 ", "F0 | F2 ", [
        "test/windows.txt:2: src/README.md has no step F0",
        "src/README.md: test/windows.txt does not name step F1",
        "src/README.md: test/windows.txt has no line for F1 | F2",
    ]),
    (WINDOWS, "device: read", "devices read", ['test/windows.txt:5: "devices read" is no window']),
    (WINDOWS, "fill_begin ", "fill_bogin ", [
        "test/windows.txt:2: src/failpoint.h has no pause point fill_bogin",
        "test/windows.txt:2: test/a.spec does not use fill_bogin",
        "src/failpoint.h: fill_begin has no line in test/windows.txt",
    ]),
    (WINDOWS, "   drop     a.spec", " drop     a.spec", ["test/windows.txt:2: 3 columns instead of 4",
        "src/README.md: test/windows.txt does not name step F1",
        "src/README.md: test/windows.txt has no line for F1 | F2",
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
    ("src/cache.c", "/* F1 */", "/* F1-F3 */", ["src/README.md: no comment in src/ says F1"]),
    ("src/cache.c", " * F3.\n", " * The end.\n", ["src/README.md: no comment in src/ says F3"]),
    (MODEL, " and F3", "", ["src/README.md: no comment in test/model/protocol.pml says F3"]),
    (README, "- **F1** ", "- **H1** always.\n- **F1** ", ["src/README.md: no comment in src/ says H1"]),
    (README, "- **F1** ", "- **Z1** erase.\n- **F1** ", [
        "src/README.md: test/windows.txt does not name step Z1",
        "src/README.md: no comment in src/ says Z1",
    ]),
    (README, "**", "", ["src/README.md has 0 steps, src/failpoint.h 3 pause points"]),
]


def self_test() -> int:
    failed = 0
    found = violations_of(check_tree, GOOD_TREE)
    if found:
        failed += 1
        print(f"the good tree is not accepted: {found}", file=sys.stderr)
    for file, old, new, expected in BROKEN:
        text = GOOD_TREE[file]
        found = violations_of(check_tree, GOOD_TREE | {file: text.replace(old, new)})
        if old not in text or found != expected:
            failed += 1
            print(f"{file}, {old!r} -> {new!r}: expected {expected}, found {found}", file=sys.stderr)
    print(f"windows self-test: {len(BROKEN) + 1 - failed} of {len(BROKEN) + 1} cases")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(__doc__, check_tree, "windows: each gap between two steps has a pause point and a test", self_test))
