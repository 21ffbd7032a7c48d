"""Both files of a report, from a study's lines alone."""

from __future__ import annotations

import os
import time
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from pgflash import __version__
from pgflash.errors import DiskFull, OutputError, StudyError
from pgflash.pilot.figures import Point, points
from pgflash.pilot.report import charts, evidence, parts, published, select
from pgflash.pilot.report.advice import advise, overall
from pgflash.pilot.report.figures import KINDS, flash_writes, latency_over_time, not_measured, operations, warm_up
from pgflash.pilot.report.model import Advice, Figure, Grid, Report
from pgflash.pilot.scenario import FIGURES, Scenario, figures_of, shipped
from pgflash.pilot.store import Study
from pgflash.shown import in_markdown, in_template
from pgflash.system import disk_full
from pgflash.units import Endurance, OperationPrice, parse_endurance, show_times

HTML = "report.html"
MARKDOWN = "report.md"
TITLES_TOLD = 3  # more of them are counted
DRIVE = parse_endurance("1 DWPD of 960GB for 5 years")  # a common drive for servers

KEPT = 0.9  # after a failover to a standby that has followed its primary
UNSURE = 1.02  # times the average without a cache: a median above that is no sign of "never slower"


def write(studies: list[Study], out: Path, drive: Endurance | None = None, price: OperationPrice | None = None) -> dict[str, Path]:
    """Both files, each whole or as it was before."""
    report = make(studies, drive, price)
    environment = Environment(
        loader=PackageLoader("pgflash.pilot.report", "."), autoescape=lambda name: name is not None and ".html" in name, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, finalize=in_template,
    )  # fmt: skip
    environment.filters |= {"cell": _cell, "text": _text}
    drawn = [(figure, charts.as_json(figure)) for figure in report.figures if figure.series]
    html = environment.get_template("report.html.j2").render(report=report, charts=drawn, library=charts.library(), version=__version__)
    markdown = environment.get_template("report.md.j2").render(report=report, version=__version__)
    written = {}
    for name, text in ((HTML, html), (MARKDOWN, markdown)):
        written[name.split(".")[1]] = _put(out / name, text)
    return written


def _put(path: Path, text: str) -> Path:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(text, "utf-8")
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        if disk_full(error):
            raise DiskFull(
                f"{path}: the disk is full", "make room, then `pgflash pilot report` writes it from what was measured"
            ) from error
        raise OutputError(path, error) from error
    return path


def _text(text: str) -> str:
    """For Markdown: a sentence of ours, which may have code in it, with names and messages of a server, which are no links or HTML."""
    return "\n".join(in_markdown(line, code=True) for line in text.split("\n"))


def _cell(text: str) -> str:
    """For a table of Markdown."""
    return _text(text.replace("\n", " "))


# --- from studies to a report -------------------------------------------------------------------------------


def make(studies: list[Study], drive: Endurance | None = None, price: OperationPrice | None = None) -> Report:
    measured: list[tuple[Scenario, list[Point], Study]] = []
    for study in studies:
        for name, scenario in study.scenarios.items():
            found = points(study.of("run", name), study.of("warmup", name))
            if found:
                measured.append((scenario, found, study))
    if not measured:
        raise StudyError("the studies have no runs of a scenario that they know")
    failures = [
        f"{line['scenario']}, {line['variant']}, run {line['repetition']}: {line['error']}"
        for study in studies
        for line in study.of("failed")
        if not _made_good(study, line)
    ]
    advice = [advise(scenario, found, str(study.folder), study.file(scenario.name)) for scenario, found, study in measured]
    return Report(
        title=f"Will flash help? {_title([scenario for scenario, _, _ in measured])}",
        overall=overall(advice, _judged(measured, advice)),
        made=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        studies=[_study_words(study) for study in studies],
        machines=_machines(studies),
        advice=advice,
        goals=_goals(measured),
        figures=_figures(measured, drive, price),
        runs=_runs(measured),
        checks=_checks(studies),
        failures=failures,
        notes=_notes(studies, measured),
    )


def _judged(measured: list[tuple[Scenario, list[Point], Study]], advice: list[Advice]) -> list[Point]:
    """What the verdicts rest on: the disk alone, and the caches in front of it."""
    found = []
    for (_, points_, _), each in zip(measured, advice, strict=True):
        there = select.of_clients(points_, select.most_clients(points_))
        base = select.base(there)
        if each.verdict != "unclear" and base is not None:
            found += [base, *select.caches(there)]
    return found


def _title(scenarios: list[Scenario]) -> str:
    titles = list(dict.fromkeys(scenario.title for scenario in scenarios))
    return "; ".join(titles) if len(titles) <= TITLES_TOLD else f"A study of {len(titles)} scenarios"


def _made_good(study: Study, failed: dict[str, object]) -> bool:
    """Whether all that failed there was measured later."""
    key = (failed["scenario"], failed["variant"], failed["repetition"])
    clients = failed["clients"]
    assert isinstance(clients, list)
    there = {run["clients"] for run in study.runs if (run["scenario"], run["variant"], run["repetition"]) == key}
    return set(clients) <= there


def _figures(measured: list[tuple[Scenario, list[Point], Study]], drive: Endurance | None, price: OperationPrice | None) -> list[Figure]:
    """In the fixed order; a figure that nothing was measured for says so."""
    figures: list[Figure] = []
    for name in FIGURES:
        made = []
        for scenario, found, _ in measured:
            if name in figures_of(scenario) and (figure := KINDS[name].draw(scenario, found)) is not None:
                figure.lab = evidence.lab(scenario, found)
                made.append(figure)
        if not made:
            absent = not_measured(name)
            absent.missing = f"Not measured here. {_who_measures(name)}"
            made = [absent]
        if len(made) > 1 or len(measured) > 1:
            for figure in made:
                if figure.measured:
                    figure.title += f" ({figure.id.removeprefix(name + '-')})"
        figures += made
    endurance = drive or DRIVE
    assert endurance is not None
    for scenario, found, study in measured:
        always = (
            latency_over_time.draw(scenario, found),
            warm_up.draw(scenario, study.of("warmup", scenario.name)),
            flash_writes.draw(scenario, found, endurance, assumed=drive is None),
            operations.draw(scenario, found, price),
        )
        for figure in always:
            if figure is not None:
                figure.lab = evidence.lab(scenario, found)
                if len(measured) > 1:
                    figure.title += f" ({scenario.name})"
                figures.append(figure)
    return figures


def _who_measures(figure: str) -> str:
    names = [name for name, text in shipped().items() if f'"{figure}"' in text]
    return f"To have it: pgflash pilot run {' or '.join(names)}." if names else "A scenario of your own can have it: docs/pilot.md."


def _goals(measured: list[tuple[Scenario, list[Point], Study]]) -> Grid | None:
    rows = []
    for scenario, found, _ in measured:
        there = select.of_clients(found, select.most_clients(found))
        base, caches = select.base(there), select.caches(there)
        if base is None or not caches:
            continue
        if scenario.goal:
            gain = parts.factor(base.average_ms, caches[-1].average_ms)
            reached = ("reached" if gain >= scenario.goal else "not reached") + ("; not conclusive" if evidence.doubts(caches[-1]) else "")
            size = f"{100 * select.share(caches[-1]):.0f}%"
            rows.append([scenario.name, f"at least {show_times(scenario.goal)} faster at {size}", show_times(gain), reached])
        rows.append([scenario.name, "never slower than no cache", *_never_slower(base, caches)])
        rows += [
            [
                scenario.name,
                f"at least {100 * KEPT:.0f}% of the transactions a second after a failover",
                parts.percent(point.kept),
                _kept(point),
            ]
            for point in select.failovers(there)
            if point.arm.get("follow")
        ]
    return Grid(["scenario", "goal", "measured", ""], rows) if rows else None


def _never_slower(base: Point, caches: list[Point]) -> tuple[str, str]:
    """What was measured, and whether it shows that. A slower average whose repetitions overlap shows neither."""

    def at(points: list[Point]) -> str:
        return ", ".join(f"{100 * select.share(point):.0f}%" for point in points)

    if slower := [point for point in caches if parts.is_slower(point, base)]:
        return f"slower at {at(slower)}", "not reached"
    if unsure := [point for point in caches if point.average_ms.median > UNSURE * base.average_ms.median]:
        return f"slower at {at(unsure)} in the middle of the repetitions, which overlap", "not shown"
    doubted = any(evidence.doubts(point) for point in (base, *caches))
    return "slower at no size", "not conclusive" if doubted else "reached"


def _kept(point: Point) -> str:
    assert point.kept is not None
    reached = "reached" if point.kept.median >= KEPT else "not reached"
    return f"{reached}; not conclusive" if evidence.doubts(point) else reached


def _runs(measured: list[tuple[Scenario, list[Point], Study]]) -> Grid:
    rows = []
    for scenario, found, _ in measured:
        for point in found:
            reads = point.device("disk", "reads_per_s")
            rows.append([
                scenario.name, point.variant, str(point.clients), str(len(point.runs)), parts.ms(point.average_ms), parts.ms(point.percentile("p50")),
                parts.ms(point.percentile("p95")), parts.ms(point.percentile("p99")), parts.number(point.tps), parts.percent(point.named("hit_ratio")),
                parts.number(reads), parts.percent(point.device("disk", "busy")), parts.percent(point.named("cpu")),
            ])  # fmt: skip
    header = [
        "scenario",
        "variant",
        "clients",
        "runs",
        parts.AVERAGE,
        *parts.FASTER.values(),
        "transactions a second",
        "reads answered by flash",
        "reads from the disk a second",
        "disk busy",
        "processors busy",
    ]
    return Grid(header, rows)


def _checks(studies: list[Study]) -> Grid | None:
    rows = [
        [line["scenario"], line["variant"], str(line["repetition"]), line["what"], "yes" if line["passed"] else f"NO: {line['detail']}"]
        for study in studies
        for line in study.of("check")
    ]
    return Grid(["scenario", "variant", "run", "check", "passed"], rows) if rows else None


def _wanted(study: Study) -> int:
    return sum(len(s.variants) * len(s.load.clients) * s.repetitions for s in study.scenarios.values())


def _study_words(study: Study) -> dict[str, object]:
    lines = study.lines
    return {"name": study.name, "runs": len(study.runs), "wanted": _wanted(study), "first": lines[0]["at"], "last": lines[-1]["at"]}


def _machines(studies: list[Study]) -> list[str]:
    """Each machine once, with its load at every start of a study there."""
    loads: dict[str, list[str]] = {}
    for study in studies:
        for line in study.of("study"):
            machine = line["machine"]
            words = f"{machine['cpus']} processors ({machine['cpu']}), {machine['memory_mb']} MB of memory, Linux {machine['kernel']}, {machine['system']}"
            loads.setdefault(words, []).append(str(machine["load"]))
    return [f"{words}; load average at the start {', '.join(found)}" for words, found in loads.items()]


def _notes(studies: list[Study], measured: list[tuple[Scenario, list[Point], Study]]) -> list[str]:
    notes = []
    for study in studies:
        words = _study_words(study)
        if len(study.runs) < _wanted(study):
            notes.append(
                f"{study.name} is not complete: {words['runs']} of {words['wanted']} runs. The same `pgflash pilot run` goes on with it."
            )
        busy = [line["machine"]["load"] for line in study.of("study") if float(line["machine"]["load"]) > float(line["machine"]["cpus"])]
        if busy:
            notes.append(
                f"{study.name}: the machine had other work when it started (load average {', '.join(busy)}): figures bound by the processor are blurred."
            )
    if any(scenario.own_cluster and scenario.disk.kind == "lab" for scenario, _, _ in measured):
        notes.append("The disk is modelled (spindles, seek time, bandwidth). Ratios between arms can be carried over, milliseconds cannot.")
    notes.append(f"Published figures are of {published.SOURCE}, on other hardware. Compare shapes and factors with them.")
    return notes
