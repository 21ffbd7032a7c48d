"""Which points belong to which figure, by what an arm is, never by its name."""

from __future__ import annotations

from pgflash.pilot.figures import Point


def of_clients(points: list[Point], clients: int) -> list[Point]:
    return [point for point in points if point.clients == clients]


def most_clients(points: list[Point]) -> int:
    return max((point.clients for point in points), default=0)


def usual(point: Point) -> bool:
    """Where the data is and the cache are all that may differ."""
    arm = point.arm
    return (
        not arm["extra_memory"]
        and arm["moved"] == "none"
        and arm["tuning"] == "none"
        and arm["page_cache"] == "limited"
        and not arm.get("follow")
    )


def cached(point: Point) -> bool:
    """Whether the study set it up, or the server had it."""
    return bool(point.arm["cache"]) or point.cache_mb > 0


def base_major(points: list[Point]) -> int:
    """The version that most arms have."""
    majors = [int(point.arm["server"]) for point in points]
    return max(set(majors), key=lambda major: (majors.count(major), -major)) if majors else 0


def base(points: list[Point]) -> Point | None:
    """Disk, nothing else."""
    major = base_major(points)
    return next((p for p in points if usual(p) and p.arm["data"] == "disk" and not cached(p) and p.arm["server"] == major), None)


def caches(points: list[Point]) -> list[Point]:
    """On disk with a cache, by size."""
    major = base_major(points)
    found = [p for p in points if usual(p) and p.arm["data"] == "disk" and cached(p) and p.arm["server"] == major]
    return sorted(found, key=lambda p: p.cache_mb)


def all_flash(points: list[Point], *, with_cache: bool = False) -> Point | None:
    return next((p for p in points if usual(p) and p.arm["data"] == "flash" and cached(p) == with_cache), None)


def moved(points: list[Point], how: str, *, with_cache: bool = False) -> Point | None:
    return next((p for p in points if p.arm["moved"] == how and cached(p) == with_cache), None)


def free_memory(points: list[Point]) -> Point | None:
    """The disk alone, with all of the machine's memory for the kernel's page cache."""
    return next(
        (p for p in points if p.arm["page_cache"] == "free" and p.arm["data"] == "disk" and p.arm["moved"] == "none" and not cached(p)),
        None,
    )


def failovers(points: list[Point]) -> list[Point]:
    """What ended with one; a standby that follows its primary comes first."""
    found = [point for point in points if point.kept is not None]
    return sorted(found, key=lambda point: not point.arm.get("follow"))


def share(point: Point) -> float:
    return float(point.arm.get("cache_share") or 0.0)


def knee(found: list[Point]) -> Point | None:
    """The smallest cache that has 90% of the greatest throughput."""
    if not found:
        return None
    most = max(point.tps.median for point in found)
    return next(point for point in found if point.tps.median >= 0.9 * most)
