"""What to buy or not to buy, in words, each with the numbers it rests on.

Rules, for one scenario at its greatest number of clients:
1. A gain counts if the repetitions with and without do not overlap.
2. A factor of at least 2 in average response is worth money, 1.2 is a little, less is none.
3. The size to buy is the knee: the smallest with 90% of the greatest throughput.
4. What the limit is now (disk, processors) says whether more flash would bring more.
5. Moved objects, more memory and all-flash are held against the cache where they were measured.
"""

from __future__ import annotations

from pgflash.pilot.figures import Point
from pgflash.pilot.report import select
from pgflash.pilot.report.build import TELLING, factor, is_slower
from pgflash.pilot.report.model import Advice
from pgflash.pilot.scenario import Scenario
from pgflash.units import show_ms, show_times

WORTH = 2.0
LITTLE = 1.2
BUSY = 0.85


def advise(scenario: Scenario, points: list[Point]) -> Advice:
    points = select.of_clients(points, select.most_clients(points))
    base, caches = select.base(points), select.caches(points)
    if base is None:
        return _without_base(scenario, points)
    if not caches:
        return _other_ways(
            Advice(scenario.name, "unclear", "A flash cache in front of the disk was not measured here."), points, base, None
        )
    knee = select.knee([base, *caches]) or caches[-1]
    best = min(caches, key=lambda point: point.average_ms.median)
    advice = _verdict(scenario, base, best, knee)
    if advice.verdict != "buy":
        _instead(advice, points, base, best)
    _why(advice, base, best)
    _other_ways(advice, points, base, best)
    _warnings(advice, scenario, base, caches, points)
    return advice


def _without_base(scenario: Scenario, points: list[Point]) -> Advice:
    if all(point.arm["tuning"] != "none" for point in points):
        return Advice(scenario.name, "unclear", "This is about tuning: there is nothing in it to buy.")
    advice = Advice(scenario.name, "unclear", "There is no run on the disk alone to compare with.")
    _front(advice, points)
    return advice


def _size(point: Point) -> str:
    return f"{point.cache_mb} MB ({100 * select.share(point):.0f}% of the database)"


def _verdict(scenario: Scenario, base: Point, best: Point, knee: Point) -> Advice:
    gain = factor(base.average_ms, best.average_ms)
    if base.average_ms.count > 1 and best.average_ms.count > 1 and base.average_ms.overlaps(best.average_ms):
        return Advice(
            scenario.name, "no", "Do not buy flash for a cache: the difference it made is no larger than what repetitions scatter."
        )
    if gain < LITTLE:
        return Advice(
            scenario.name, "no", f"Do not buy flash for a cache: at best it answered {show_times(gain)} as fast as the disk alone."
        )
    if gain < WORTH:
        return Advice(
            scenario.name,
            "little",
            f"A flash cache helps a little: {show_times(gain)} faster at best. Use flash that is there; hardly worth buying.",
        )
    size = knee if select.cached(knee) else best
    there = factor(base.average_ms, size.average_ms)
    headline = f"Buy flash as a cache, {_size(size)}: {show_times(there)} faster, {show_ms(base.average_ms.median)} to {show_ms(size.average_ms.median)}."
    if size is not best:
        headline += f" More brings less: {_size(best)} gives {show_times(gain)}."
    return Advice(scenario.name, "buy", headline)


def _instead(advice: Advice, points: list[Point], base: Point, best: Point) -> None:
    """A cache is not the only use of flash."""
    ways = [
        ("moving indexes and temporary files to it", select.moved(points, "indexes")),
        ("moving the hottest objects to it", select.moved(points, "hottest")),
        ("putting everything on it", select.all_flash(points)),
    ]
    good = [
        f"{words} ({show_times(factor(base.average_ms, point.average_ms))} faster)"
        for words, point in ways
        if point is not None and factor(base.average_ms, point.average_ms) >= WORTH and not point.average_ms.overlaps(best.average_ms)
    ]
    if good:
        advice.headline += f" Flash does help by {', or '.join(good)}."


def _why(advice: Advice, base: Point, best: Point) -> None:
    busy, busy_after = base.device("disk", "busy"), best.device("disk", "busy")
    reads, reads_after = base.device("disk", "reads_per_s"), best.device("disk", "reads_per_s")
    if busy is not None and reads is not None and reads_after is not None:
        if busy.median >= BUSY:
            advice.reasons.append(
                f"Without flash the disk is the limit: {reads.median:,.0f} reads a second, busy {100 * busy.median:.0f}% of the time."
            )
        else:
            advice.reasons.append(
                f"Without flash the disk is busy only {100 * busy.median:.0f}% of the time ({reads.median:,.0f} reads a second)."
            )
        a_before, a_after = reads.median / base.tps.median, reads_after.median / best.tps.median
        advice.reasons.append(f"A transaction reads {a_before:.2g} times from the disk without flash, {a_after:.2g} times with it.")
    hits = best.named("hit_ratio")
    if hits is not None:
        advice.reasons.append(f"{100 * hits.median:.1f}% of the pages that shared_buffers did not have came from flash.")
    cpu, cpu_after = base.named("cpu"), best.named("cpu")
    if cpu is not None and cpu_after is not None:
        if cpu_after.median >= BUSY:
            advice.reasons.append(
                f"With flash the processors are the limit now ({100 * cpu_after.median:.0f}% busy): more flash would bring little."
            )
        elif busy_after is not None and busy_after.median >= BUSY:
            advice.reasons.append(
                f"With flash the disk is still the limit ({100 * busy_after.median:.0f}% busy): more flash would bring more."
            )
        if cpu.median >= BUSY and advice.verdict != "buy":
            advice.reasons.append(
                f"The processors are {100 * cpu.median:.0f}% busy without flash already: there is no room for it to help."
            )
    kernel, all_hits = best.rate("cache.os_cache_hits"), best.rate("cache.hits")
    if kernel is not None and all_hits is not None and kernel.median > all_hits.median:
        advice.reasons.append("Most pages that flash had were in the kernel's page cache as well, and were read from there.")


def _other_ways(advice: Advice, points: list[Point], base: Point, best: Point | None) -> Advice:
    for how, words in (("indexes", "indexes and temporary files"), ("hottest", "the hottest objects")):
        alone, both = select.moved(points, how), select.moved(points, how, with_cache=True)
        if alone is not None:
            _moved(advice, words, base, best, alone, both)
    memory = [p for p in points if p.arm["extra_memory"] and not select.cached(p)]
    if memory:
        _memory(advice, base, best, min(memory, key=lambda p: p.average_ms.median))
    flash = select.all_flash(points)
    if flash is not None:
        gain = factor(base.average_ms, flash.average_ms)
        text = f"Everything on flash is {show_times(gain)} faster than the disk ({show_ms(flash.average_ms.median)})."
        if best is not None:
            near = factor(flash.average_ms, best.average_ms)
            text += f" The cache of {_size(best)} has {100 * near:.0f}% of that speed, with less flash, and the data stays on the disk."
        advice.reasons.append(text)
    _front(advice, points)
    return advice


def _front(advice: Advice, points: list[Point]) -> None:
    without, with_cache = select.all_flash(points), select.all_flash(points, with_cache=True)
    if without is None or with_cache is None:
        return
    gain = factor(without.average_ms, with_cache.average_ms)
    if gain < LITTLE:
        advice.reasons.append(f"Do not buy a flash cache for storage that is itself flash: {show_times(gain)} as fast with it.")
    else:
        advice.reasons.append(f"Even in front of flash the cache is {show_times(gain)} faster.")


def _moved(advice: Advice, words: str, base: Point, best: Point | None, alone: Point, both: Point | None) -> None:
    gain = factor(base.average_ms, alone.average_ms)
    text = f"Moving {words} to flash ({alone.conditions.get('moved_mb', 0)} MB) is {show_times(gain)} faster than the disk"
    if best is not None:
        versus = factor(alone.average_ms, best.average_ms)
        if versus >= 1:
            text += f"; the cache of {_size(best)} is {show_times(versus)} as fast as that"
        else:
            text += f", and {show_times(1 / versus)} as fast as the cache of {_size(best)}"
    advice.reasons.append(text + ".")
    if both is not None and best is not None:
        better = min(alone, best, key=lambda point: point.average_ms.median)
        gain = factor(better.average_ms, both.average_ms)
        words = "pays" if gain >= LITTLE else "does not pay"
        speed = "just" if 1 / TELLING < gain < TELLING else show_times(gain)
        advice.reasons.append(f"Doing both {words}: {speed} as fast as the better of the two alone.")


def _memory(advice: Advice, base: Point, best: Point | None, memory: Point) -> None:
    gain = factor(base.average_ms, memory.average_ms)
    text = f"{memory.arm['extra_memory']} more memory instead is {show_times(gain)} faster than the disk"
    if best is not None:
        versus = factor(memory.average_ms, best.average_ms)
        text += (
            f"; the cache is {show_times(versus)} as fast as that"
            if versus >= 1
            else f", and {show_times(1 / versus)} as fast as the cache: compare the prices"
        )
    advice.reasons.append(text + ".")


def _warnings(advice: Advice, scenario: Scenario, base: Point, caches: list[Point], points: list[Point]) -> None:
    for point in caches:
        if is_slower(point, base):
            advice.warnings.append(f"Slower than without cache at {_size(point)}.")
    if min(len(point.runs) for point in points) < 3:
        advice.warnings.append("Fewer than three repetitions: take factors near 1 for nothing.")
    if any(str(point.conditions.get("memory_limit", "")).startswith("none") and point.arm["page_cache"] == "limited" for point in points):
        advice.warnings.append("There was no memory limit: the kernel's page cache may have hidden the disk.")
    errors = sum(int(run["errors"]) for point in points for run in point.runs)
    if errors:
        advice.warnings.append(f"{errors} transactions failed.")
    last = caches[-1]
    hits = last.named("hit_ratio")
    if hits is not None and hits.median < 0.5 and advice.verdict != "buy":
        advice.warnings.append(
            "The hit ratio stays low at the largest size: the load reads little of it twice, or the sizes were too small."
        )
