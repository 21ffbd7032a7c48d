"""What to buy or not to buy, in words, each with the numbers it rests on. Pure functions over what was recorded.

Rules, for one scenario at its greatest number of clients:
1. Nothing is concluded from one repetition, nor from a cache that was still warming up: the verdict is open then, and has the
   command that would close it.
2. A gain counts if the repetitions with and without do not overlap.
3. A factor of at least 2 in average response is worth money, 1.2 is a little, less is none.
4. The size to buy is the knee: the smallest with 90% of the greatest throughput.
5. What was filled, what the limit is now (disk, processors) and the last step in size say whether more flash would bring more.
6. Moved objects, more memory, the machine's free memory and all-flash are held against the cache where they were measured.
On all scenarios together: overall().
"""

from __future__ import annotations

from shlex import quote

from pgflash.pilot.figures import Point
from pgflash.pilot.report import evidence, select
from pgflash.pilot.report.evidence import BUSY
from pgflash.pilot.report.evidence import size as _size
from pgflash.pilot.report.figures import failover
from pgflash.pilot.report.model import Advice, Verdict
from pgflash.pilot.report.parts import TELLING, factor, is_slower
from pgflash.pilot.scenario import Scenario
from pgflash.units import MB, show_bytes, show_ms, show_times

WORTH = 2.0
LITTLE = 1.2
# What a lab has shown is no reason to spend money.
IN_THE_LAB = {
    "Buy flash as a cache": "In the lab a flash cache pays",
    "Do not buy flash for a cache": "In the lab a flash cache does not pay",
    "Do not buy flash as a cache": "In the lab a flash cache does not pay",
    "Whether a flash cache pays": "In the lab, whether a flash cache pays",
    "Use flash that is there; hardly worth buying.": "Hardly worth buying.",
}
# Of a cache that the server has.
IN_PLACE = {"Buy flash as a cache": "The flash cache pays", "Do not buy flash for a cache": "The flash cache does not pay"}
WHOLE = 0.9  # of the database: a cache so large could as well hold the data
NOTABLE = 0.25  # of the reads that flash could have answered: where the page cache answered so many, the report says so


def advise(scenario: Scenario, points: list[Point], folder: str = "STUDY", file: str = "") -> Advice:
    """`folder`: of the study; `file`: the scenario's own, where that is known."""
    points = select.of_clients(points, select.most_clients(points))
    advice = _advise(scenario, points, folder, file)
    advice.title = scenario.title
    advice.lab = evidence.lab(scenario, points)
    if advice.lab:
        for here, there in IN_THE_LAB.items():
            advice.headline = advice.headline.replace(here, there, 1)
    elif any(point.arm.get("enabled") for point in points):
        for here, there in IN_PLACE.items():
            advice.headline = advice.headline.replace(here, there, 1)
    return advice


def _advise(scenario: Scenario, points: list[Point], folder: str, file: str) -> Advice:
    base, caches = select.base(points), select.caches(points)
    if base is None:
        return _without_base(scenario, points)
    if not caches:
        return _other_ways(
            Advice(scenario.name, "unclear", "A flash cache in front of the disk was not measured here."), points, base, None
        )
    sound = [point for point in caches if not evidence.doubts(point)]
    if evidence.doubts(base) or not sound:
        best = min(caches, key=lambda point: point.average_ms.median)
        advice = _open(scenario, base, caches, best, folder, file)
    else:
        best = min(sound, key=lambda point: point.average_ms.median)
        advice = _verdict(scenario, base, best, select.knee([base, *sound]) or best)
    _instead(advice, points, base, best)
    _why(advice, base, best, caches)
    _other_ways(advice, points, base, best)
    _warnings(advice, base, caches, points)
    return advice


def _without_base(scenario: Scenario, points: list[Point]) -> Advice:
    if all(point.arm["tuning"] != "none" for point in points):
        return Advice(scenario.name, "unclear", "This is about tuning: there is nothing in it to buy.")
    advice = Advice(scenario.name, "unclear", "There is no run on the disk alone to compare with.")
    _front(advice, points)
    return advice


def _open(scenario: Scenario, base: Point, caches: list[Point], best: Point, folder: str, file: str) -> Advice:
    words = evidence.doubts(base) + [doubt for point in caches for doubt in evidence.doubts(point)]
    if len(words) > 3:
        words = [*words[:3], f"and {len(words) - 3} more such"]
    gain = factor(base.average_ms, best.average_ms)
    seen = f"What was seen so far: {show_times(gain)} as fast, {show_ms(base.average_ms.median)} to {show_ms(best.average_ms.median)}."
    advice = Advice(scenario.name, "open", f"Not conclusive: {'; '.join(words)}. {seen}", times=gain)
    advice.again = again(scenario, [base, *caches], folder, file)
    return advice


def again(scenario: Scenario, points: list[Point], folder: str, file: str) -> str:
    """The command that measures what is missing. More repetitions go on in the same study; a longer warm-up is another one. The study's
    copy of the scenario stays as it was; but what that names by relative paths is beside the file itself."""
    file = quote(file or f"{scenario.name}.toml") if scenario.has_relative_paths else quote(f"{folder}/scenarios/{scenario.name}.toml")
    repetitions = f" --repetitions {max(3, scenario.repetitions)}"
    if any(point.warm < point.repetitions for point in points):
        return f"pgflash pilot run {file}{repetitions} --warm-up {max(1800, 4 * scenario.warmup.max_s)} --study {quote(folder + '-longer')}"
    return f"pgflash pilot run {file}{repetitions} --study {quote(folder)}"


def _verdict(scenario: Scenario, base: Point, best: Point, knee: Point) -> Advice:
    gain = factor(base.average_ms, best.average_ms)
    if base.average_ms.overlaps(best.average_ms):
        return Advice(
            scenario.name, "no", "Do not buy flash for a cache: the difference it made is no larger than what repetitions scatter.", times=gain
        )  # fmt: skip
    if gain < LITTLE:
        words = f"Do not buy flash for a cache: at best it answered {show_times(gain)} as fast as the disk alone."
        return Advice(scenario.name, "no", words, times=gain)
    if gain < WORTH:
        words = f"A flash cache helps a little: {show_times(gain)} faster at best. Use flash that is there; hardly worth buying."
        return Advice(scenario.name, "little", words, times=gain)
    size = knee if select.cached(knee) else best
    there = factor(base.average_ms, size.average_ms)
    headline = f"Buy flash as a cache, {_size(size)}: {show_times(there)} faster, {show_ms(base.average_ms.median)} to {show_ms(size.average_ms.median)}."
    if size is not best:
        headline += f" More brings less: {_size(best)} gives {show_times(gain)}."
    if select.share(size) >= WHOLE:
        headline += " That is about the whole database: putting all of it on flash would do without a cache."
    return Advice(scenario.name, "buy", headline, times=there)


def _instead(advice: Advice, points: list[Point], base: Point, best: Point) -> None:
    """A cache is not the only use of flash, nor flash the only use of money."""
    ways = [
        ("moving indexes and temporary files to flash", select.moved(points, "indexes")),
        ("moving the hottest objects to flash", select.moved(points, "hottest")),
        ("everything on flash", select.all_flash(points)),
        ("memory for the whole database, as page cache", select.free_memory(points)),
    ]
    good = [
        (words, factor(base.average_ms, point.average_ms), advice.verdict == "open" or bool(evidence.doubts(point)))
        for words, point in ways
        if point is not None
        and point.repetitions >= evidence.ENOUGH
        and point.average_ms.median < best.average_ms.median
        and not point.average_ms.overlaps(best.average_ms)
    ]
    advice.instead = [
        f"{words} ({show_times(gain)} faster{'; not conclusive' if unsure else ''})" for words, gain, unsure in good if gain >= WORTH
    ]
    if advice.instead:
        advice.headline += f" Better than the cache: {', or '.join(advice.instead)}."


def _why(advice: Advice, base: Point, best: Point, caches: list[Point]) -> None:
    busy = base.device("disk", "busy")
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
    elif (pages := base.rate("cache.disk_reads")) is not None and (after := best.rate("cache.disk_reads")) is not None:
        a_before, a_after = pages.median / base.tps.median, after.median / best.tps.median
        advice.reasons.append(f"A transaction reads {a_before:.2g} pages from data files without flash, {a_after:.2g} with it.")
    hits = best.named("hit_ratio")
    if hits is not None:
        advice.reasons.append(f"{100 * hits.median:.1f}% of the pages that shared_buffers did not have came from flash.")
    more = evidence.more_flash(caches)
    if more.words:
        advice.reasons.append(more.words)
    cpu = base.named("cpu")
    if cpu is not None and cpu.median >= BUSY and factor(base.average_ms, best.average_ms) < LITTLE:
        advice.reasons.append(f"The processors are {100 * cpu.median:.0f}% busy without flash already: there is no room for it to help.")
    kernel, all_hits = best.rate("cache.os_cache_hits"), best.rate("cache.hits")
    if kernel is not None and all_hits is not None and kernel.median > 0:
        share = kernel.median / (kernel.median + all_hits.median)
        if share >= NOTABLE:
            advice.reasons.append(
                f"{100 * share:.0f}% of the reads of pages that flash had were answered by the kernel's page cache, which had them as well."
            )


def _other_ways(advice: Advice, points: list[Point], base: Point, best: Point | None) -> Advice:
    for how, words in (("indexes", "indexes and temporary files"), ("hottest", "the hottest objects")):
        alone, both = select.moved(points, how), select.moved(points, how, with_cache=True)
        if alone is not None:
            _moved(advice, words, base, best, alone, both)
    memory = [p for p in points if p.arm["extra_memory"] and not select.cached(p)]
    if memory:
        _memory(advice, base, best, min(memory, key=lambda p: p.average_ms.median))
    free = select.free_memory(points)
    if free is not None:
        _free(advice, base, best, free)
    flash = select.all_flash(points)
    if flash is not None:
        gain = factor(base.average_ms, flash.average_ms)
        text = f"Everything on flash is {show_times(gain)} faster than the disk ({show_ms(flash.average_ms.median)})."
        if best is not None:
            near = factor(flash.average_ms, best.average_ms)
            text += f" The cache of {_size(best)} has {100 * near:.0f}% of that speed, with less flash, and the data stays on the disk."
        advice.reasons.append(text)
    advice.reasons += failover.sentences(select.failovers(points))
    _front(advice, points)
    return advice


def _front(advice: Advice, points: list[Point]) -> None:
    without, with_cache = select.all_flash(points), select.all_flash(points, with_cache=True)
    if without is None or with_cache is None:
        return
    gain = factor(without.average_ms, with_cache.average_ms)
    unsure = evidence.doubts(without) + evidence.doubts(with_cache)
    if unsure:
        text = f"In front of flash the cache was {show_times(gain)} as fast. Not conclusive: {'; '.join(unsure)}."
    elif gain < LITTLE:
        text = f"Do not buy a flash cache for storage that is itself flash: {show_times(gain)} as fast with it."
    else:
        text = f"Even in front of flash the cache is {show_times(gain)} faster."
    advice.front = text
    advice.reasons.append(text)


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


def _free(advice: Advice, base: Point, best: Point | None, free: Point) -> None:
    """What memory does that the study kept from the server: as page cache of the whole database."""
    gain = factor(base.average_ms, free.average_ms)
    database = show_bytes(int(free.conditions.get("database_mb") or 0) * MB)
    text = f"With no limit on the kernel's page cache (the database is {database}) the disk alone is {show_times(gain)} faster ({show_ms(free.average_ms.median)})"
    if best is not None:
        versus = factor(free.average_ms, best.average_ms)
        text += (
            f"; the cache is {show_times(versus)} as fast as that"
            if versus >= 1
            else f", and {show_times(1 / versus)} as fast as the cache: where memory for the whole database can be had, it beats flash"
        )
    advice.reasons.append(text + ".")


def _warnings(advice: Advice, base: Point, caches: list[Point], points: list[Point]) -> None:
    for point in caches:
        if is_slower(point, base):
            advice.warnings.append(f"Slower than without cache at {_size(point)}.")
    advice.warnings += [f"Not used for the verdict: {doubt}." for point in caches for doubt in evidence.doubts(point)] * (
        advice.verdict != "open"
    )
    if min(point.repetitions for point in points) < 3:
        advice.warnings.append("Fewer than three repetitions: take factors near 1 for nothing.")
    if any(str(point.conditions.get("memory_limit", "")).startswith("none") and point.arm["page_cache"] == "limited" for point in points):
        advice.warnings.append("There was no memory limit: the kernel's page cache may have hidden the disk.")
    if any(point.conditions.get("cache_on_disk") for point in points):
        advice.warnings.append(
            "The cache is in the file system of the data: what the disk did is left out, since reads from flash would be among it."
        )
    errors = sum(int(run["errors"]) for point in points for run in point.runs)
    if errors:
        advice.warnings.append(f"{errors} transactions failed.")
    hits = caches[-1].named("hit_ratio")
    if hits is not None and hits.median < 0.5 and advice.verdict in ("no", "little"):
        full = evidence.more_flash(caches).kind not in ("unfilled", "unknown")
        advice.warnings.append(
            f"The hit ratio stays low at the largest size: the load reads little of it twice{', or the sizes were too small' if full else ''}."
        )


# --- on all scenarios ---------------------------------------------------------------------------------------


def overall(advices: list[Advice], points: list[Point]) -> Verdict:
    """The first thing in the report: what to buy, or not, and how sure that is."""
    asked = [advice for advice in advices if advice.verdict != "unclear"]
    labels = [advice.lab for advice in asked if advice.lab]
    by = {verdict: [advice for advice in asked if advice.verdict == verdict] for verdict in ("buy", "little", "no", "open")}
    closed = len(asked) - len(by["open"])
    if not asked:
        verdict = Verdict("unclear", "No verdict: nothing here compares the disk with a flash cache in front of it.")
    elif not closed:
        verdict = Verdict("open", "Not conclusive: nothing to buy or to rule out by this yet.")
    elif len(by["buy"]) == len(asked):
        verdict = Verdict("buy", f"Buy flash as a cache: {_range(by['buy'])} faster{_loads(asked)}.")
    elif by["buy"]:
        parts = [f"it pays for {_names(by['buy'])} ({_range(by['buy'])} faster)"]
        parts += [f"hardly for {_names(by['little'])}"] if by["little"] else []
        parts += [f"not for {_names(by['no'])}"] if by["no"] else []
        parts += [f"not conclusive for {_names(by['open'])}"] if by["open"] else []
        verdict = Verdict("mixed", f"Whether a flash cache pays depends on the load: {'; '.join(parts)}.")
    elif by["open"]:
        words = f"nothing measured so far speaks for it, and {_names(by['open'])} is not conclusive."
        verdict = Verdict("open", f"Do not buy flash as a cache yet: {words}")
    else:
        at_best = max(advice.times for advice in asked)
        verdict = Verdict("no", f"Do not buy flash as a cache: {show_times(at_best)} as fast at best{_loads(asked)}.")
    if labels:
        for here, there in IN_THE_LAB.items():
            verdict.headline = verdict.headline.replace(here, there, 1)
        verdict.sentences.append(
            f"The figures are of a lab in toy sizes, not of your system: {evidence.labs(labels, points)}."
            " They show what shape to expect. Before money is spent, measure your load on your storage: docs/pilot.md says how."
        )
    better = [f"for {advice.scenario} {', or '.join(advice.instead)}" for advice in asked if advice.instead]
    if better:
        verdict.sentences.append(f"Better than the cache: {'; '.join(better)}.")
    verdict.sentences += [advice.front for advice in advices if advice.front]
    if asked:
        verdict.sentences.append(evidence.sureness(points))
    verdict.sentences += [f"To make {advice.scenario} conclusive: {advice.again}" for advice in by["open"] if advice.again]
    return verdict


def _names(advices: list[Advice]) -> str:
    return ", ".join(advice.scenario for advice in advices)


def _range(advices: list[Advice]) -> str:
    times = sorted(advice.times for advice in advices)
    least, most = (show_times(each).removesuffix(" times") for each in (times[0], times[-1]))
    return f"{least} times" if least == most else f"{least} to {most} times"


def _loads(asked: list[Advice]) -> str:
    return f" in {'both' if len(asked) == 2 else f'all {len(asked)}'} loads measured" if len(asked) > 1 else ""
