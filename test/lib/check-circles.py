#!/usr/bin/env python3
"""Looks for files of src/ that call each other in a circle: what a file uses is to lie below it.

usage: check-circles.py SRC          SRC: of a tree that has been built; prints every circle; exit status 1 when something is wrong
       check-circles.py --self-test  proves on made-up trees that each rule can fail

The graph is that of the objects, by nm: one uses another one if a function or variable of it is undefined there. lib/check-includes.py
holds folders to their levels; here it is files, also those of one folder. What a circle is made of may be far apart, so
all edges within it are printed.

The cure is mostly a file at the bottom of the folder, with what all others use (a pointer to shared memory, small accessors), and
one at the top that combines the parts. A call upwards becomes a returned value, or is made by the caller. A pointer to
a function that only hides a circle is none.

KNOWN has circles that are left for later. None may be added but with a reason, and one that has gone, or has become
smaller, is to be taken from the list.
"""

import subprocess
import sys
from pathlib import Path

from treecheck import Change, main

Graph = dict[str, dict[str, set[str]]]

# Each circle: its files, below src/, without .o.
KNOWN: list[set[str]] = []


def symbols(path: Path) -> tuple[set[str], set[str]]:
    """What an object defines for others, and what it wants of others."""
    defined: set[str] = set()
    wanted: set[str] = set()
    output = subprocess.run(["nm", "--extern-only", "--portability", str(path)], check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        name, kind = line.split()[:2]
        (wanted if kind in "Uvw" else defined).add(name)
    return defined, wanted


def graph_of(src: Path) -> Graph:
    """For each object those that it uses, and by which symbols."""
    objects = {str(path.relative_to(src).with_suffix("")): symbols(path) for path in sorted(src.rglob("*.o"))}
    owner = {name: file for file, (defined, _) in objects.items() for name in defined}
    graph: Graph = {file: {} for file in objects}
    for file, (_, wanted) in objects.items():
        for name in wanted:
            if name in owner and owner[name] != file:
                graph[file].setdefault(owner[name], set()).add(name)
    return graph


def reached_from(graph: Graph, file: str) -> set[str]:
    """All that a file uses, and what that uses."""
    found: set[str] = set()
    ahead = [file]
    while ahead:
        for other in graph[ahead.pop()]:
            if other not in found:
                found.add(other)
                ahead.append(other)
    return found


def circles_of(graph: Graph) -> list[set[str]]:
    """The largest sets of files each of which uses all others, by whatever way."""
    reached = {file: reached_from(graph, file) for file in graph}
    circles: list[set[str]] = []
    for file in sorted(graph):
        circle = {other for other in reached[file] if file in reached[other]}
        if circle and circle not in circles:
            circles.append(circle)
    return circles


def check_tree(src: Path, known: list[set[str]] = KNOWN) -> list[str]:
    """All that is wrong, line by line."""
    graph = graph_of(src)
    if not any(graph.values()):
        return [f"{src}: no objects here that use each other: has it been built?"]
    circles = circles_of(graph)
    wrong: list[str] = []
    for circle in circles:
        if circle not in known:
            wrong.append(f"a circle: {' '.join(sorted(circle))}")
            for file in sorted(circle):
                for other in sorted(circle & graph[file].keys()):
                    wrong.append(f"  {file} uses {other}: {', '.join(sorted(graph[file][other]))}")
    for circle in known:
        if circle not in circles:
            wrong.append(f"no circle any more, or another one: {' '.join(sorted(circle))}: change the list in check-circles.py")
    return wrong


# A made-up tree, with a circle that is known; the objects are made for the test ...
SELF_TEST_KNOWN = [{"store/a", "store/b"}]
GOOD_TREE: dict[str, str] = {
    "top.c": "extern int room(void), a(int); int top(void) { return room() + a(1); }\n",
    "room/room.c": "extern int part(void), shared; int room(void) { return part() + shared; }\n",
    "room/room_part.c": "extern int shared; static int mine(void) { return 1; } int part(void) { return shared + mine(); }\n",
    "room/room_shared.c": "int shared;\n",
    "store/a.c": "extern int b(int); int a(int n) { return n > 9 ? b(n) : 0; }\n",
    "store/b.c": "extern int a(int); int b(int n) { return a(n / 2); }\n",
}

# ... and one change for each way to break a rule.
BROKEN: list[Change] = [
    ("room/room_part.c", "return shared + mine()", "extern int room(void); return shared + mine() + room()", [
        "a circle: room/room room/room_part",
        "  room/room uses room/room_part: part",
        "  room/room_part uses room/room: room",
    ]),
    ("room/room_shared.c", "int shared;", "extern int part(void); int shared; int through(void) { return part(); }", [
        "a circle: room/room_part room/room_shared",
        "  room/room_part uses room/room_shared: shared",
        "  room/room_shared uses room/room_part: part",
    ]),
    ("room/room_shared.c", "int shared;", "extern int top(void); int shared; int through(void) { return top(); }", [
        "a circle: room/room room/room_part room/room_shared top",
        "  room/room uses room/room_part: part",
        "  room/room uses room/room_shared: shared",
        "  room/room_part uses room/room_shared: shared",
        "  room/room_shared uses top: top",
        "  top uses room/room: room",
    ]),
    ("store/b.c", "a(n / 2)", "n", [
        "no circle any more, or another one: store/a store/b: change the list in check-circles.py",
    ]),
    ("store/b.c", "return a(n / 2)", "extern int top(void); return a(n / 2) + top()", [
        "a circle: store/a store/b top",
        "  store/a uses store/b: b",
        "  store/b uses store/a: a",
        "  store/b uses top: top",
        "  top uses store/a: a",
        "no circle any more, or another one: store/a store/b: change the list in check-circles.py",
    ]),
]


def check_made_up(src: Path) -> list[str]:
    """As check_tree(), of sources that have not been compiled yet."""
    for path in src.rglob("*.c"):
        subprocess.run(["gcc", "-c", "-Wall", "-Wextra", "-Werror", "-o", str(path.with_suffix(".o")), str(path)], check=True)
    return check_tree(src, SELF_TEST_KNOWN)


if __name__ == "__main__":
    check = check_made_up if sys.argv[1:] == ["--self-test"] else check_tree
    sys.exit(main(__doc__, check, "calls between files: no circles", GOOD_TREE, BROKEN))
