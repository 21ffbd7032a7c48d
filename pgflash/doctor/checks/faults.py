"""Known faults of firmware and kernels: only those with a public source. Short on purpose; it replaces no list of a manufacturer."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass


def _m4_old(firmware: str) -> bool:
    return firmware.isdigit() and int(firmware) < 309


@dataclass(frozen=True)
class Firmware:
    model: re.Pattern[str]
    affected: Callable[[str], bool]
    what: str
    command: str
    source: str


@dataclass(frozen=True)
class Kernel:
    first: tuple[int, ...]
    last: tuple[int, ...]
    file_system: str
    what: str
    command: str
    source: str


FIRMWARE = (
    Firmware(
        re.compile(r"samsung ssd 980 pro\b.*", re.IGNORECASE),
        lambda firmware: firmware == "3B2QGXA7",
        "may become read-only for good",
        "update the firmware to 5B2QGXA7 or later",
        "https://www.pugetsystems.com/support/guides/critical-samsung-ssd-firmware-update/",
    ),
    Firmware(
        re.compile(r"(crucial_)?m4-ct\d+m4ssd.*", re.IGNORECASE),
        _m4_old,
        "stops to answer after 5184 hours of operation, and then every hour",
        "update the firmware to 0309 or later",
        "https://hothardware.com/news/crucial-rolls-out-firmware-update-to-fix-funky-m4-ssd-issue",
    ),
)

KERNELS = (
    Kernel(
        (6, 1, 64),
        (6, 1, 65),
        "ext4",
        "direct writes of ext4 may end at the wrong place in the file",
        "apt-get install linux-image-amd64, and boot it (6.1.66-1 or later)",
        "https://bugs.debian.org/1057843",
    ),
)
