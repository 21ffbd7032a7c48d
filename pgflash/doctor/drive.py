"""What is wrong with a drive, by what it says of itself: the same for the doctor's checks and for `pgflash drives`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pgflash.doctor.facts.smart import Health
from pgflash.units import counted

WORN, USED_UP = 80, 100  # percent of its rated life
HOT = 70  # degrees Celsius


@dataclass(frozen=True)
class Wrong:
    what: str
    advice: bool = False
    """No problem yet."""


def status(health: Health) -> Wrong | None:
    if health.passed is not False and not health.critical_warning:
        return None
    warning = f" (critical warning 0x{health.critical_warning:02x})" if health.critical_warning else ""
    return Wrong(f"does not pass its own assessment{warning}")


def wear(health: Health) -> Wrong | None:
    if health.used_percent is None or health.used_percent < WORN:
        return None
    return Wrong(f"{health.used_percent}% of its rated life is used", health.used_percent < USED_UP)


def spare(health: Health) -> Wrong | None:
    if health.spare_percent is None or above_threshold(health.spare_percent, health.spare_threshold) > 0:
        return None
    return Wrong(f"{health.spare_percent}% of its spare blocks are left, the threshold is {health.spare_threshold or 0}%")


def media_errors(health: Health) -> Wrong | None:
    return Wrong(f"has counted {counted(health.media_errors, 'error')} of its medium") if health.media_errors else None


def temperature(health: Health) -> Wrong | None:
    if health.temperature is None or health.temperature < HOT:
        return None
    return Wrong(f"has {health.temperature} degrees Celsius", advice=True)


ALL: tuple[Callable[[Health], Wrong | None], ...] = (status, wear, spare, media_errors, temperature)


def wrong(health: Health) -> list[Wrong]:
    return [found for judge in ALL if (found := judge(health))]


def above_threshold(spare_percent: int, threshold: int | None) -> int:
    """Of the spare blocks above the threshold, the percent that is left, as fc_policy_health() of the server counts."""
    if spare_percent >= 100:
        return 100
    least = threshold or 0
    return (spare_percent - least) * 100 // (100 - least) if spare_percent > least else 0


def left(health: Health) -> int:
    """The number that the server shows as `health`, from 100 down to 0; 101 if the drive says nothing of it."""
    if health.passed is False or health.critical_warning:
        return 0
    found = [] if health.used_percent is None else [100 - min(health.used_percent, 100)]
    if health.spare_percent is not None:
        found.append(above_threshold(health.spare_percent, health.spare_threshold))
    return min(found, default=101)
