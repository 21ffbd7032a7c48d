#!/usr/bin/env python3
"""Writes to the cache file of a running server what a broken device might give back.

usage: spoil.py FILE SEED OPERATIONS      that many, as fast as they go; prints how many there were of each kind

Whole slots are put in other places (a device that lost track), overwritten with zeros, with noise or with older content of
themselves; parts of them are torn; single bits flip; the header goes. The same seed does the same to the same file.
"""

import os
import random
import sys
from collections import Counter

HEADER = 65536
PAGE = 8192
SECTOR = 512


def spoil(fd: int, dice: random.Random, slots: int, kept: dict[int, bytes]) -> str:
    """One operation; returns what it was."""

    def at(slot: int) -> int:
        return HEADER + slot * PAGE

    slot, other = dice.randrange(slots), dice.randrange(slots)
    match dice.randrange(8):
        case 0:
            page, second = os.pread(fd, PAGE, at(slot)), os.pread(fd, PAGE, at(other))
            os.pwrite(fd, second, at(slot))
            os.pwrite(fd, page, at(other))
            return "swapped"
        case 1:
            os.pwrite(fd, os.pread(fd, PAGE, at(other)), at(slot))
            return "copied"
        case 2:
            kept[slot] = os.pread(fd, PAGE, at(slot))
            return "kept for later"
        case 3:
            if slot not in kept and kept:
                slot = dice.choice(sorted(kept))
            os.pwrite(fd, kept.get(slot, bytes(PAGE)), at(slot))
            return "set back"
        case 4:
            offset = at(slot) + dice.randrange(PAGE)
            byte = os.pread(fd, 1, offset)[0] ^ (1 << dice.randrange(8))
            os.pwrite(fd, bytes([byte]), offset)
            return "bit flipped"
        case 5:
            sectors = dice.randrange(1, PAGE // SECTOR)
            os.pwrite(fd, os.pread(fd, sectors * SECTOR, at(other)), at(slot))
            return "torn"
        case 6:
            os.pwrite(fd, dice.choice([bytes(PAGE), dice.randbytes(PAGE)]), at(slot))
            return "overwritten"
        case _:
            os.pwrite(fd, dice.randbytes(dice.randrange(1, 4096)), dice.randrange(HEADER // 2))
            return "header overwritten"


def main(arguments: list[str]) -> int:
    if len(arguments) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    path, seed, operations = arguments[0], int(arguments[1]), int(arguments[2])
    dice = random.Random(seed)
    kept: dict[int, bytes] = {}
    done: Counter[str] = Counter()
    fd = os.open(path, os.O_RDWR)
    slots = (os.fstat(fd).st_size - HEADER) // PAGE
    for _ in range(operations):
        done[spoil(fd, dice, slots, kept)] += 1
    os.close(fd)
    print(", ".join(f"{what} {n}" for what, n in sorted(done.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
