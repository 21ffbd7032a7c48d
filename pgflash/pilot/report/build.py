"""The figures, from points. One function each; every one returns a figure for each scenario that can fill it."""

from __future__ import annotations

from collections.abc import Callable

from pgflash.pilot.figures import Point, Spread
from pgflash.pilot.report import evidence, published, select
from pgflash.pilot.report.model import Figure, Grid, Series
from pgflash.pilot.scenario import Scenario
from pgflash.units import MB, Endurance, show_bytes, show_ms, show_number, show_times, show_years

TELLING = 1.05  # a smaller factor is not told as a gain
FASTER = {"p50": "half come within", "p95": "95 of 100 come within", "p99": "99 of 100 come within"}
AVERAGE = "average answer"
TAIL = f"answers: {FASTER['p95']}"

Maker = Callable[[Scenario, list[Point]], Figure | None]


def conditions_words(scenario: Scenario, points: list[Point]) -> str:
    """What belongs under each chart."""
    first = points[0].conditions
    servers = sorted({str(point.conditions.get("server")) for point in points})
    buffers = sorted({int(point.conditions.get("shared_buffers_mb") or 0) for point in points})
    limits = sorted({str(point.conditions.get("memory_limit")) for point in points})
    load = scenario.load
    keys = (
        f", {load.keys} keys" + (f" ({load.skew:g})" if load.keys in ("gaussian", "zipfian") else "")
        if load.kind.startswith("pgbench")
        else ""
    )
    clients = "/".join(str(count) for count in sorted({point.clients for point in points}))
    runs = sorted({len(point.runs) for point in points})
    parts = [
        f"{', '.join(servers)}; {load.kind}{keys}; database {first.get('database_mb')} MB, shared_buffers {_several(buffers)} MB, memory limit {' or '.join(limits)}",
        f"disk: {first.get('disk')}; flash: {first.get('flash')}",
        f"{clients} clients; {scenario.duration_s} s a run after warming up to a plateau"
        + (
            " (modelled delays suspended)"
            if scenario.warmup.disk == "fast" and scenario.disk.kind == "lab" and scenario.own_cluster
            else ""
        )
        + f"; median of {_several(runs)}, bars from least to greatest",
    ]
    if scenario.own_cluster and scenario.disk.kind == "lab":
        parts.append("the disk is modelled: ratios can be carried over to other machines, absolute numbers cannot")
    return ". ".join(part[0].upper() + part[1:] for part in parts) + "."


def _several(numbers: list[int]) -> str:
    return "/".join(map(str, numbers))


def ms(value: Spread | None) -> str:
    if value is None:
        return "-"
    text = show_ms(value.median)
    return text if value.count < 2 else f"{text} ({show_number(value.least)}-{show_number(value.greatest)})"


def number(value: Spread | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value.median:,.{digits}f}"


def percent(value: Spread | None) -> str:
    return "-" if value is None else f"{100 * value.median:.1f}%"


def factor(before: Spread, after: Spread) -> float:
    return before.median / after.median if after.median else 0.0


def _faster(ratio: float) -> str:
    return f"{show_times(ratio)} faster" if ratio >= TELLING else "no faster"


def _label(point: Point) -> str:
    return "none" if not select.cached(point) else f"{100 * select.share(point):.0f}%"


def _size_tick(point: Point) -> tuple[float, str]:
    """Where it is on the x axis, and what stands there: share and bytes."""
    x = round(100 * select.share(point), 1)
    return x, f"{x:g}%<br>{show_bytes(point.cache_mb * MB)}" if select.cached(point) else "no<br>flash"


# --- by size ------------------------------------------------------------------------------------------------


def response_by_size(scenario: Scenario, points: list[Point]) -> Figure | None:
    points = select.of_clients(points, select.most_clients(points))
    base, caches = select.base(points), select.caches(points)
    if base is None or len(caches) < 2:
        return None
    ours = Series(f"{AVERAGE}, measured", [], [])
    tail = Series(f"{TAIL}, measured", [], [])
    rows = []
    for point in [base, *caches]:
        x = round(100 * select.share(point), 1)
        ours.add(x, point.average_ms)
        tail.add(x, point.percentile("p95"))
        theirs = published.response_near(select.share(point))
        rows.append([
            _label(point), show_bytes(point.cache_mb * MB) if point.cache_mb else "-", ms(point.average_ms), ms(point.percentile("p95")),
            f"{factor(base.average_ms, point.average_ms):.3g}", percent(point.named("hit_ratio")),
            show_ms(theirs) if theirs else "-", f"{published.RESPONSE_MS[0] / theirs:.3g}" if theirs else "-",
        ])  # fmt: skip
    figure = Figure(
        f"response-by-size-{scenario.name}", "Average response time by size of flash", "How much flash does it take?",
        x_title="size of the flash cache: share of the database, and bytes", y_title="milliseconds", log_y=True,
        series=[ours, tail, _published_response()], ticks=[_size_tick(point) for point in [base, *caches]],
        grid=Grid(["flash", "", AVERAGE, FASTER["p95"], "times faster", "reads answered by flash", "published elsewhere",
                   "published elsewhere, times faster"], rows),
        published=published.RESPONSE_WORDS, conditions=conditions_words(scenario, [base, *caches]),
    )  # fmt: skip
    last = caches[-1]
    figure.findings.append(
        f"With {_label(last)} of the database on flash the average response is {show_times(factor(base.average_ms, last.average_ms))} faster"
        f" ({show_ms(base.average_ms.median)} to {show_ms(last.average_ms.median)})."
    )
    figure.findings += _unsure([base, *caches])
    slower = [point for point in caches if is_slower(point, base)]
    figure.findings.append(
        "At no size was the cache slower than no cache."
        if not slower
        else "Slower than no cache at: " + ", ".join(_label(p) for p in slower) + "."
    )
    return figure


def _unsure(points: list[Point]) -> list[str]:
    found = [doubt for point in points for doubt in evidence.doubts(point)]
    return [f"Not conclusive: {'; '.join(found)}."] if found else []


def _published_response() -> Series:
    return Series(
        f"average answer, {published.LEGEND}",
        [round(100 * share, 1) for share, _ in published.response_shares()],
        [value for _, value in published.response_shares()],
        published=True,
    )


def is_slower(point: Point, base: Point) -> bool:
    """Beyond what repetitions scatter; with one repetition each, beyond 5%."""
    if point.average_ms.count > 1 and base.average_ms.count > 1:
        return point.average_ms.least > base.average_ms.greatest
    return point.average_ms.median > TELLING * base.average_ms.median


def throughput_by_size(scenario: Scenario, points: list[Point]) -> Figure | None:
    points = select.of_clients(points, select.most_clients(points))
    base, caches = select.base(points), select.caches(points)
    if base is None or len(caches) < 2:
        return None
    names = ("transactions a second", "reads from the disk a second", "pages from flash a second", "pages written to flash a second")
    lines = [Series(name, [], [], second=i > 0) for i, name in enumerate(names)]
    rows = []
    for point in [base, *caches]:
        x = round(100 * select.share(point), 1)
        reads = point.device("disk", "reads_per_s")
        values = [point.tps, reads, point.rate("cache.hits"), point.rate("cache.inserts")]
        for line, value in zip(lines, values, strict=True):
            line.add(x, value)
        rows.append([_label(point), *(number(value) for value in values), f"{point.tps.median / base.tps.median:.3g}"])
    knee = select.knee([base, *caches])
    figure = Figure(
        f"throughput-by-size-{scenario.name}", "Throughput, disk reads, flash reads and flash writes by size", "Where is the knee?",
        x_title="size of the flash cache: share of the database, and bytes", y_title="transactions a second",
        y2_title="reads and pages a second", series=[line for line in lines if line.x],
        ticks=[_size_tick(point) for point in [base, *caches]], grid=Grid(["flash", *names, "times"], rows), published=published.KNEE_WORDS,
        conditions=conditions_words(scenario, [base, *caches]),
    )  # fmt: skip
    best = max(caches, key=lambda point: point.tps.median)
    if knee is not None:
        figure.findings.append(
            f"The knee is at {_label(knee)} of the database: the smallest size with at least 90% of the greatest throughput"
            f" ({number(best.tps)} a second, {show_times(best.tps.median / base.tps.median)} that without flash)."
        )
        figure.findings += _unsure([base, *caches])
        more = evidence.more_flash(caches)
        if more.words:
            figure.findings.append(more.words)
    return figure


# --- bars ---------------------------------------------------------------------------------------------------


def _bars(
    scenario: Scenario,
    figure: Figure,
    chosen: list[tuple[str, Point]],
    theirs: dict[str, float] | None = None,
    more: dict[str, list[str]] | None = None,
) -> Figure:
    """Average, and what 95 of 100 keep to, of some points, with the factor against the first."""
    average, tail = Series(f"{AVERAGE}, measured", [], []), Series(f"{TAIL}, measured", [], [])
    rows = []
    first = chosen[0][1]
    for label, point in chosen:
        average.add(label, point.average_ms)
        tail.add(label, point.percentile("p95"))
        row = [
            label,
            ms(point.average_ms),
            ms(point.percentile("p95")),
            number(point.tps),
            f"{factor(first.average_ms, point.average_ms):.3g}",
        ]
        if theirs is not None:
            row += [show_ms(theirs[label]) if label in theirs else "-"]
        rows.append(row + (more or {}).get(label, []))
    figure.kind = "bar"
    figure.y_title = figure.y_title or "milliseconds"
    figure.log_y = True
    figure.series = [average] + ([tail] if tail.x else [])
    header = ["", AVERAGE, FASTER["p95"], "transactions a second", "times faster"]
    if theirs is not None:
        header.append("published elsewhere")
        known = [label for label, _ in chosen if label in theirs]
        figure.series.append(Series(f"average answer, {published.LEGEND}", list(known), [theirs[label] for label in known], published=True))
    figure.grid = Grid(header + ([""] * max((len(cells) for cells in (more or {}).values()), default=0)), rows)
    figure.conditions = conditions_words(scenario, [point for _, point in chosen])
    return figure


def three_ways(scenario: Scenario, points: list[Point]) -> Figure | None:
    points = select.of_clients(points, select.most_clients(points))
    disk, hybrid, flash = select.base(points), select.moved(points, "indexes"), select.all_flash(points)
    if disk is None or hybrid is None or flash is None:
        return None
    labels = ("on disk", "indexes and temporary files on flash", "all on flash")
    chosen = list(zip(labels, (disk, hybrid, flash), strict=True))
    theirs = dict(zip(labels, published.THREE_WAYS_MS.values(), strict=True))
    caches = select.caches(points)
    if caches:
        chosen.insert(2, (f"flash cache of {_label(caches[-1])}", caches[-1]))
    figure = Figure(
        f"three-ways-{scenario.name}",
        "Traditional, hybrid, all-flash",
        "What do the three ways of buying flash give?",
        published=published.THREE_WAYS_WORDS,
    )
    _bars(scenario, figure, chosen, theirs)
    figure.findings.append(
        "; ".join(f"{label}: {_faster(factor(disk.average_ms, point.average_ms))}" for label, point in chosen[1:]).capitalize() + "."
    )
    return figure


def cache_or_move(scenario: Scenario, points: list[Point]) -> Figure | None:
    points = select.of_clients(points, select.most_clients(points))
    disk, caches = select.base(points), select.caches(points)
    hottest, both = select.moved(points, "hottest"), select.moved(points, "hottest", with_cache=True)
    if disk is None or not caches or hottest is None or both is None:
        return None
    count = len(hottest.conditions.get("moved_objects", []))
    chosen = [("disk", disk), ("flash cache", caches[-1]), (f"{count} hottest objects on flash", hottest), ("both", both)]
    figure = Figure(
        f"cache-or-move-{scenario.name}",
        "A cache, or the hottest objects on flash, or both",
        "Cache, or move?",
        published=published.CACHE_OR_MOVE_WORDS,
    )
    more = {label: [_flash_used(point)] for label, point in chosen}
    _bars(scenario, figure, chosen, more=more)
    assert figure.grid is not None
    figure.grid.header[-1] = "flash used"
    best = min(chosen[1:], key=lambda pair: pair[1].average_ms.median)
    figure.findings.append(f"Fastest: {best[0]}, {show_times(factor(disk.average_ms, best[1].average_ms))} faster than disk alone.")
    alone = min(caches[-1], hottest, key=lambda point: point.average_ms.median)
    if is_slower(both, alone):
        figure.findings.append("Both together are slower than the better of the two alone.")
    figure.findings.append("Moved: " + ", ".join(hottest.conditions.get("moved_objects", [])) + ".")
    return figure


def _flash_used(point: Point) -> str:
    total = point.cache_mb + int(point.conditions.get("moved_mb") or 0)
    return f"{total} MB" if total else "-"


def front_of_flash(scenario: Scenario, points: list[Point]) -> Figure | None:
    points = select.of_clients(points, select.most_clients(points))
    without, with_cache = select.all_flash(points), select.all_flash(points, with_cache=True)
    if without is None or with_cache is None:
        return None
    figure = Figure(f"front-of-flash-{scenario.name}", "A flash cache in front of flash", "Does a cache help storage that is itself flash?")
    figure.published = published.FRONT_WORDS
    _bars(scenario, figure, [("all on flash", without), ("the same with a cache", with_cache)])
    gain = factor(without.average_ms, with_cache.average_ms)
    words = "A loss" if is_slower(with_cache, without) else "No gain" if gain < 1.1 else f"A gain of {show_times(gain)}"
    figure.findings += _unsure([without, with_cache])
    figure.findings.insert(
        0, f"{words}: {show_ms(without.average_ms.median)} without, {show_ms(with_cache.average_ms.median)} with the cache."
    )
    return figure


def tuning(scenario: Scenario, points: list[Point]) -> Figure | None:
    points = select.of_clients(points, select.most_clients(points))
    before = next((p for p in points if p.arm["tuning"] == "before"), None)
    after = next(
        (p for p in points if p.arm["tuning"] == "after" and select.cached(p) == (before is not None and select.cached(before))), None
    )
    if before is None or after is None:
        return None
    figure = Figure(
        f"tuning-{scenario.name}", "The operating system, before and after tuning", "Do scheduler, access times and alignment matter?"
    )
    figure.published = published.TUNING_WORDS
    _bars(scenario, figure, [("before", before), ("after", after)])
    times = f"{show_ms(before.average_ms.median)} before, {show_ms(after.average_ms.median)} after"
    p95 = before.percentile("p95"), after.percentile("p95")
    if p95[0] is not None and p95[1] is not None:
        times += f" (95 of 100 come within {show_ms(p95[0].median)}, {show_ms(p95[1].median)})"
    gain = factor(before.average_ms, after.average_ms)
    if is_slower(before, after) and gain >= TELLING:
        figure.findings.append(f"Tuning makes it {show_times(gain)} faster: {times}.")
    elif is_slower(after, before) and gain <= 1 / TELLING:
        figure.findings.append(f"Tuning makes it slower here: {times}. Leave these settings as they were.")
    else:
        figure.findings.append(f"Tuning makes no difference to speak of to the average: {times}.")
    for label, point in (("Before", before), ("After", after)):
        applied = point.conditions.get("tuning") or {}
        figure.findings.append(
            f"{label}: " + (", ".join(f"{name} {value}" for name, value in applied.items()) or "nothing could be set here") + "."
        )
    figure.findings.append("The lab's disk has no sectors: what misalignment costs a real drive does not show on it.")
    return figure


def memory_or_flash(scenario: Scenario, points: list[Point]) -> Figure | None:
    points = select.of_clients(points, select.most_clients(points))
    disk, caches = select.base(points), select.caches(points)
    memory = [p for p in points if p.arm["extra_memory"] and not select.cached(p)]
    if disk is None or not caches or not memory:
        return None
    free = select.free_memory(points)
    chosen = [("disk", disk)]
    chosen += [(f"{p.arm['extra_memory']} more memory", p) for p in memory]
    chosen += [(f"flash cache of {_label(p)}", p) for p in caches]
    if free is not None:
        chosen.append(("no memory limit", free))
    figure = Figure(f"memory-or-flash-{scenario.name}", "More memory, or flash", "Would memory do it?")
    _bars(scenario, figure, chosen, more={label: [_memory_words(p)] for label, p in chosen})
    assert figure.grid is not None
    figure.grid.header[-1] = "memory with page cache"
    best = min(memory, key=lambda p: p.average_ms.median)
    last = caches[-1]
    better = "More memory" if best.average_ms.median < last.average_ms.median else "The flash cache"
    figure.findings.append(
        f"{better} is faster here: {show_ms(best.average_ms.median)} with {best.arm['extra_memory']} more memory,"
        f" {show_ms(last.average_ms.median)} with a flash cache of {_label(last)}."
    )
    if free is not None:
        gain = factor(disk.average_ms, free.average_ms)
        words = (
            "faster than either"
            if free.average_ms.median < min(best, last, key=lambda p: p.average_ms.median).average_ms.median
            else "no faster"
        )
        figure.findings.append(
            f"With no limit on memory the kernel's page cache may hold the whole database: {show_ms(free.average_ms.median)}, {show_times(gain)}"
            f" faster than with the limit, {words}. A cache on flash is for databases that memory cannot hold."
        )
    else:
        figure.findings.append(
            'How fast the disk would be with all of the machine\'s memory as page cache was not measured: an arm with page_cache = "free" says it.'
        )
    return figure


def _memory_words(point: Point) -> str:
    limit = str(point.conditions.get("memory_limit", ""))
    return "no limit" if limit.startswith("none") else limit.split(" (")[0]


def versions(scenario: Scenario, points: list[Point]) -> Figure | None:
    points = select.of_clients(points, select.most_clients(points))
    if len({point.arm["server"] for point in points}) < 2:
        return None
    chosen = [(f"{p.variant}, {p.arm['server']}", p) for p in points if select.usual(p) and p.arm["data"] == "disk"]
    figure = Figure(f"versions-{scenario.name}", "PostgreSQL's versions", "Does the major version matter?")
    return _bars(scenario, figure, chosen) if len(chosen) > 1 else None


def page_cache(scenario: Scenario, points: list[Point]) -> Figure | None:
    points = select.of_clients(points, select.most_clients(points))
    if len({point.arm["page_cache"] for point in points}) < 2:
        return None
    chosen = [
        (f"{p.variant} (page cache {p.arm['page_cache']})", p)
        for p in points
        if p.arm["data"] == "disk" and p.arm["moved"] == "none" and not p.arm["extra_memory"]
    ]
    figure = Figure(
        f"page-cache-{scenario.name}", "The kernel's page cache, limited and free", "Does the page cache do the work of flash already?"
    )
    _bars(scenario, figure, chosen)
    figure.findings.append("Where the page cache holds what falls out of shared_buffers, there is nothing left for flash to gain.")
    return figure


# --- users --------------------------------------------------------------------------------------------------


def tps_by_users(scenario: Scenario, points: list[Point]) -> Figure | None:
    counts = sorted({point.clients for point in points})
    if len(counts) < 2:
        return None
    lines = {name: Series(name, [], []) for name in ("disk", "disk and flash cache", "all on flash")}
    rows = []
    used: list[Point] = []
    for count in counts:
        there = select.of_clients(points, count)
        caches = select.caches(there)
        chosen = (select.base(there), caches[-1] if caches else None, select.all_flash(there))
        for line, point in zip(lines.values(), chosen, strict=True):
            if point is not None:
                line.add(count, point.tps)
                used.append(point)
        rows.append([str(count), *(number(point.tps) if point is not None else "-" for point in chosen)])
    if any(not line.x for line in lines.values()):
        return None
    spread_over = [float(counts[0]), float(counts[-1])]
    theirs = [
        Series(f"{words} a second, {published.LEGEND}", list(spread_over), [level, level], published=True)
        for words, level in (("1,024", published.TPS_LOW), ("over 7,000", published.TPS_HIGH))
    ]
    figure = Figure(
        f"tps-by-users-{scenario.name}", "Transactions a second by users", "How many users does each way of storage carry?",
        x_title="clients", y_title="transactions a second", log_x=True, log_y=True, series=[*lines.values(), *theirs],
        grid=Grid(["clients", *lines], rows), published=published.USERS_WORDS, conditions=conditions_words(scenario, used),
    )  # fmt: skip
    most = {name: max((y for y in line.y if y is not None), default=0.0) for name, line in lines.items()}
    figure.findings.append(
        f"At most {most['disk']:,.0f} a second on disk, {most['disk and flash cache']:,.0f} with the flash cache"
        f" ({show_times(most['disk and flash cache'] / most['disk'])} as many), {most['all on flash']:,.0f} all on flash."
    )
    return figure


# --- always -------------------------------------------------------------------------------------------------


def latency_over_time(scenario: Scenario, points: list[Point]) -> Figure | None:
    points = select.of_clients(points, select.most_clients(points))
    figure = Figure(
        f"latency-over-time-{scenario.name}",
        "Answers over time",
        "Is it steady?",
        x_title="seconds",
        y_title="milliseconds",
        log_y=True,
    )
    rows = []
    for point in points:
        run = point.runs[-1]
        for column, name in enumerate(("p50", "p95", "p99"), start=1):
            pairs = [(row[0], row[column]) for row in run["over_time"] if row[column]]
            if pairs:
                hidden = name != "p95" and len(points) > 2 and any(row[2] for row in run["over_time"])
                figure.series.append(
                    Series(f"{point.variant}: {FASTER[name]}", [x for x, _ in pairs], [y for _, y in pairs], hidden=hidden)
                )
        rows.append([point.variant, *(ms(point.percentile(name)) for name in ("p50", "p95", "p99"))])
    if not figure.series:
        return None
    figure.grid = Grid(["", *FASTER.values()], rows)
    figure.conditions = conditions_words(scenario, points) + " The last repetition of each, second by second."
    if any(series.hidden for series in figure.series):
        figure.findings.append(
            "Shown is the time within which 95 of 100 answers come; a click on the legend shows the same for half and for 99 of 100."
        )
    notes = sorted({run["note"] for point in points for run in point.runs if run["note"]})
    figure.findings += [note[0].upper() + note[1:] + "." for note in notes]
    return figure


def flash_writes(scenario: Scenario, points: list[Point], drive: Endurance, assumed: bool) -> Figure | None:
    """How much is written, and how many years the drive stands that."""
    points = [
        p
        for p in select.of_clients(points, select.most_clients(points))
        if select.cached(p) and p.named("flash_write_bytes_per_s") is not None
    ]
    if not points:
        return None
    a_day = Series("written to flash, GB a day", [], [])
    rows = []
    for point in points:
        rate = point.named("flash_write_bytes_per_s")
        assert rate is not None
        a_day.add(point.variant, point.value(lambda run: run["flash_write_bytes_per_s"] * 86400 / 1e9))
        written = point.named("disk_write_bytes_per_transaction")
        rows.append([
            point.variant, show_bytes(rate.median), f"{show_number(rate.median * 86400 / 1e9)} GB", show_years(drive.years(rate.median)),
            number(point.named("flash_page_writes_per_miss"), 3), number(point.named("write_amplification"), 3),
            show_bytes(written.median) if written is not None else "-",
        ])  # fmt: skip
    worst = max(points, key=lambda p: _rate(p))
    figure = Figure(
        f"flash-writes-{scenario.name}", "Writes to flash", "How long will the drive live?", kind="bar", y_title="GB a day (10^9 bytes)",
        series=[a_day], conditions=conditions_words(scenario, points),
        grid=Grid(["", "to flash, a second", "a day", "life of the drive, years", "pages written to flash for each page read in",
                   "bytes written for each byte kept", "to the disk, a transaction"], rows),
    )  # fmt: skip
    figure.findings.append(
        f"At these rates, day and night, a drive of {drive.text}{' (assumed: give yours with --endurance)' if assumed else ''},"
        f" {drive.bytes / 1e12:,.0f} TB in all, would live {show_years(drive.years(_rate(worst)))} years at worst ({worst.variant})."
        " Measured on a warm cache: filling it comes on top, once."
    )
    return figure


def _rate(point: Point) -> float:
    rate = point.named("flash_write_bytes_per_s")
    return rate.median if rate is not None else 0.0


def warm_up(scenario: Scenario, warmups: list[dict[str, object]]) -> Figure | None:
    """Of the first repetition of each variant."""
    figure = Figure(
        f"warm-up-{scenario.name}",
        "Warming up",
        "How soon does it help?",
        x_title="seconds of load on a cold cache",
        y_title="page reads found in the cache, %",
    )
    rows = []
    seen: set[str] = set()
    for line in warmups:
        variant, slices = str(line["variant"]), line["rows"]
        if variant in seen or not isinstance(slices, list) or not slices:
            continue
        seen.add(variant)
        name = "hit_ratio" if slices[-1]["hit_ratio"] is not None else "buffer_hit_ratio"
        pairs = [(row["t"], 100 * row[name]) for row in slices if row[name] is not None]
        words = "flash" if name == "hit_ratio" else "shared_buffers"
        figure.series.append(Series(f"{variant} ({words})", [x for x, _ in pairs], [y for _, y in pairs]))
        filled = slices[-1]["filled"]
        end = f"{pairs[-1][1]:.1f}%" if pairs else "-"
        rows.append(
            [
                variant,
                words,
                f"{line['seconds']} s",
                end,
                f"{100 * filled:.0f}%" if filled is not None else "-",
                "yes" if line["plateau"] else "no",
            ]
        )
    if not figure.series:
        return None
    figure.grid = Grid(["", "found in", "took", "share found at the end", "flash filled", "plateau reached"], rows)
    warm = scenario.warmup
    modelled = scenario.own_cluster and scenario.disk.kind == "lab"
    figure.conditions = (
        f"The load that is measured, cold cache, slices of {warm.slice_s} s, until {warm.flat} of them raise the share of page reads found by less"
        f" than {warm.step_points:g} points (the plateau), at most {warm.max_s} s. "
        + (
            f"The modelled disk's delays are {'suspended' if warm.disk == 'fast' else 'on'} meanwhile."
            if modelled
            else "Real storage at its own speed."
        )
    )
    if modelled and warm.disk == "fast":
        figure.findings.append('The time on a disk with its delays is longer by far: run with warmup.disk = "slow" to see it.')
    return figure


MAKERS: dict[str, Maker] = {
    "response-by-size": response_by_size,
    "three-ways": three_ways,
    "throughput-by-size": throughput_by_size,
    "tps-by-users": tps_by_users,
    "cache-or-move": cache_or_move,
    "front-of-flash": front_of_flash,
    "tuning": tuning,
    "memory-or-flash": memory_or_flash,
    "versions": versions,
    "page-cache": page_cache,
}


def not_measured(name: str) -> Figure:
    """In place of a figure that no study has the data for. It draws nothing: what was published does not stand alone."""
    figures: dict[str, Figure] = {
        "response-by-size": Figure(
            name, "Average response time by size of flash", "How much flash does it take?", published=published.RESPONSE_WORDS
        ),
        "three-ways": Figure(
            name, "Traditional, hybrid, all-flash", "What do the three ways of buying flash give?", published=published.THREE_WAYS_WORDS
        ),
        "throughput-by-size": Figure(name, "Throughput, disk reads, flash reads and flash writes by size", "Where is the knee?", published=published.KNEE_WORDS),
        "tps-by-users": Figure(
            name, "Transactions a second by users", "How many users does each way of storage carry?", published=published.USERS_WORDS
        ),
        "cache-or-move": Figure(name, "A cache, or the hottest objects on flash, or both", "Cache, or move?", published=published.CACHE_OR_MOVE_WORDS),
        "front-of-flash": Figure(name, "A flash cache in front of flash", "Does a cache help storage that is itself flash?", published=published.FRONT_WORDS),
        "tuning": Figure(name, "The operating system, before and after tuning", "Do scheduler, access times and alignment matter?", published=published.TUNING_WORDS),
        "memory-or-flash": Figure(name, "More memory, or flash", "Would memory do it?"),
        "versions": Figure(name, "PostgreSQL's versions", "Does the major version matter?"),
        "page-cache": Figure(name, "The kernel's page cache, limited and free", "Does the page cache do the work of flash already?"),
    }  # fmt: skip
    return figures[name]
