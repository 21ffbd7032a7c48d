"""Reports from a recorded study, and what they say of made-up ones whose answer is known."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgflash.errors import StudyError
from pgflash.pilot.figures import Point, points
from pgflash.pilot.report.advice import advise
from pgflash.pilot.report.charts import as_json
from pgflash.pilot.report.figures import front_of_flash, not_measured, response_by_size, three_ways, throughput_by_size, tuning, versions
from pgflash.pilot.report.model import Advice
from pgflash.pilot.report.parts import ms
from pgflash.pilot.report.write import _cell, _text, make, write
from pgflash.pilot.scenario import FIGURES, Scenario, figures_of, parse_scenario
from pgflash.pilot.store import Study, open_study
from pgflash.units import show_ms

ARM = {
    "name": "x", "data": "disk", "moved": "none", "cache": "", "cache_share": 0.0, "extra_memory": "", "server": 15, "page_cache": "limited",
    "tuning": "none", "settings": {},
}  # fmt: skip


def made_up(
    variant: str,
    average_ms: float,
    *,
    scatter: float = 0.0,
    share: float = 0.0,
    reps: int = 3,
    cpu: float = 0.3,
    filled: float = 1.0,
    busy: float = 0.99,
    **arm: Any,
) -> list[dict[str, Any]]:
    """Runs of one variant with 16 clients, the repetitions apart by `scatter` milliseconds."""
    return [
        {
            "kind": "run", "scenario": "made-up", "variant": variant, "clients": 16, "repetition": i + 1,
            "arm": ARM | {"cache": f"{share:.0%}" if share else "", "cache_share": share} | arm,
            "conditions": {"server": "PostgreSQL 15.1", "database_mb": 102400, "shared_buffers_mb": 30, "memory_limit": "230 MB", "disk": "a disk",
                           "flash": "a flash", "flash_mb": round(102400 * share), "moved_mb": 100, "moved_objects": ["index a"]},
            "average_ms": average_ms + i * scatter, "tps": 16000 / (average_ms + i * scatter), "transactions": 1000, "percentiles": {"p95": 2 * average_ms},
            "errors": 0, "note": "", "over_time": [[0, 1.0, 2.0, 3.0]], "elapsed_s": 10.0, "cpu": cpu,
            "hit_ratio": 0.9 if share else None, "slots": 1000 if share else None, "used": round(1000 * filled) if share else None,
            "flash_write_bytes_per_s": 1e6 if share else None, "counters": {"cache.hits": 900, "cache.inserts": 50} if share else {},
            "devices": {"disk": {"reads_per_s": 900.0, "busy": busy}},
        }
        for i in range(reps)
    ]  # fmt: skip


@pytest.fixture
def scenario() -> Scenario:
    text = 'goal = 45\nrepetitions = 3\n[load]\nkind = "pgbench-select"\nscale = 1\n[disk]\nkind = "path"\npath = "/"\n[[arm]]\nname = "disk"\n[[arm]]\nname = "cache"\ncache = ["20%", "47%"]\n'
    return parse_scenario(text, "made-up", Path())


def warmed(runs: list[dict[str, Any]], plateau: bool = True) -> list[dict[str, Any]]:
    """The warm-ups before these runs."""
    return [
        {"kind": "warmup", "at": "now", "plateau": plateau, "seconds": 30, "rows": []}
        | {name: run[name] for name in ("scenario", "variant", "repetition", "conditions")}
        for run in runs
    ]


def measured(*runs: list[dict[str, Any]], cold: str = "") -> list[Point]:
    """Points of these runs, all warm but the variant `cold`."""
    lines = [line for some in runs for line in some]
    return points(lines, [line | {"plateau": line["variant"] != cold} for line in warmed(lines)])


def advice_on(scenario: Scenario, *runs: list[dict[str, Any]], cold: str = "") -> Advice:
    return advise(scenario, measured(*runs, cold=cold), "study")


@pytest.fixture
def lab(scenario: Scenario) -> Scenario:
    return parse_scenario(scenario.text.replace('kind = "path"\npath = "/"', 'kind = "lab"'), "made-up", Path())


# --- words ---


@pytest.mark.parametrize(
    ("value", "words"), [(0.4612, "0.461 ms"), (23.06, "23.1 ms"), (99.96, "100 ms"), (513.2, "513 ms"), (1073.4, "1,073 ms")]
)
def test_milliseconds_never_as_a_power_of_ten(value: float, words: str) -> None:
    assert show_ms(value) == words


def test_scatter_is_shown_like_the_median(scenario: Scenario) -> None:
    [point] = points(made_up("disk", 1000.0, scatter=500.0))
    assert ms(point.average_ms) == "1,500 ms (1,000-2,000)"


def test_a_machine_is_told_once(scenario: Scenario) -> None:
    machine = {"cpus": 2, "cpu": "a processor", "memory_mb": 1000, "kernel": "6.1", "system": "Debian", "load": 0.5}
    starts = [{"kind": "study", "at": "now", "machine": machine | more} for more in ({}, {"load": 1.5}, {"cpus": 4})]
    runs = [line | {"at": "now"} for line in made_up("disk", 40.0)]
    assert make([Study(Path("made-up"), {"made-up": scenario}, [*starts, *runs])]).machines == [
        "2 processors (a processor), 1000 MB of memory, Linux 6.1, Debian; load average at the start 0.5, 1.5",
        "4 processors (a processor), 1000 MB of memory, Linux 6.1, Debian; load average at the start 0.5",
    ]


def test_a_large_study_counts_its_scenarios(scenario: Scenario) -> None:
    def study(names: str) -> Study:
        lines = [line | {"at": "now", "scenario": name} for name in names for line in made_up("disk", 40.0)]
        return Study(Path("made-up"), {name: replace(scenario, name=name, title=f"Scenario {name}") for name in names}, lines)

    assert make([study("abc")]).title == "Will flash help? Scenario a; Scenario b; Scenario c"
    assert make([study("abcd")]).title == "Will flash help? A study of 4 scenarios"


def test_buy_the_knee_not_the_largest(scenario: Scenario) -> None:
    advice = advice_on(
        scenario,
        made_up("disk", 40.0),
        made_up("cache@20%", 4.0, share=0.2),
        made_up("cache@40%", 1.0, share=0.4),
        made_up("cache@80%", 0.95, share=0.8),
    )
    assert advice.verdict == "buy"
    assert advice.headline == (
        "Buy flash as a cache, 40 GB (40% of the database): 40 times faster, 40 ms to 1 ms. More brings less: 80 GB (80% of the database) gives 42 times."
    )
    assert "Without flash the disk is the limit: 900 reads a second, busy 99% of the time." in advice.reasons
    assert "90.0% of the pages that shared_buffers did not have came from flash." in advice.reasons
    assert advice.warnings == []


def test_a_difference_within_the_scatter_is_none(scenario: Scenario) -> None:
    advice = advice_on(scenario, made_up("disk", 40.0, scatter=10), made_up("cache@20%", 25.0, scatter=10, share=0.2))
    assert (advice.verdict, advice.headline) == (
        "no", "Do not buy flash for a cache: the difference it made is no larger than what repetitions scatter."
    )  # fmt: skip


def test_too_little_to_buy(scenario: Scenario) -> None:
    assert advice_on(scenario, made_up("disk", 40.0), made_up("cache@20%", 38.0, share=0.2)).verdict == "no"
    advice = advice_on(scenario, made_up("disk", 40.0), made_up("cache@20%", 25.0, share=0.2))
    assert advice.verdict == "little"
    assert advice.headline.startswith("A flash cache helps a little: 1.6 times faster at best.")


def test_flash_can_help_without_a_cache(scenario: Scenario) -> None:
    advice = advice_on(scenario, made_up("disk", 40.0), made_up("cache@20%", 39.0, share=0.2), made_up("hot", 10.0, moved="hottest"))
    assert advice.verdict == "no"
    assert advice.headline.endswith(" Better than the cache: moving the hottest objects to flash (4 times faster).")


def test_slower_is_said(scenario: Scenario) -> None:
    advice = advice_on(scenario, made_up("disk", 10.0), made_up("cache@20%", 11.0, share=0.2), made_up("cache@47%", 1.0, share=0.47))
    assert advice.warnings == ["Slower than without cache at 20 GB (20% of the database)."]


def test_the_processors_are_the_limit(scenario: Scenario) -> None:
    advice = advice_on(scenario, made_up("disk", 10.0), made_up("cache@20%", 1.0, share=0.2, cpu=0.97))
    assert "With flash the processors are the limit now (97% busy): more flash would bring little." in advice.reasons


def test_moving_memory_and_flash_are_held_against_the_cache(scenario: Scenario) -> None:
    advice = advice_on(
        scenario, made_up("disk", 40.0), made_up("cache@20%", 4.0, share=0.2), made_up("hot", 2.0, moved="hottest"),
        made_up("both@20%", 2.1, share=0.2, moved="hottest"), made_up("memory", 20.0, extra_memory="6%"), made_up("flash", 1.0, data="flash"),
        made_up("front@20%", 1.0, share=0.2, data="flash"),
    )  # fmt: skip
    assert (
        "Moving the hottest objects to flash (100 MB) is 20 times faster than the disk,"
        " and 2 times as fast as the cache of 20 GB (20% of the database)." in advice.reasons
    )
    assert "Doing both does not pay: 0.952 times as fast as the better of the two alone." in advice.reasons
    as_fast = advice_on(
        scenario,
        made_up("disk", 40.0),
        made_up("cache@20%", 4.0, share=0.2),
        made_up("hot", 2.0, moved="hottest"),
        made_up("both@20%", 1.99, share=0.2, moved="hottest"),
    )
    assert "Doing both does not pay: just as fast as the better of the two alone." in as_fast.reasons
    assert "6% more memory instead is 2 times faster than the disk; the cache is 5 times as fast as that." in advice.reasons
    assert "Do not buy a flash cache for storage that is itself flash: 1 times as fast with it." in advice.reasons


def test_nothing_to_compare_with(scenario: Scenario) -> None:
    assert advice_on(scenario, made_up("cache@20%", 1.0, share=0.2)).verdict == "unclear"


def test_few_repetitions_and_no_limit_are_warned_of(scenario: Scenario) -> None:
    runs = made_up("disk", 40.0, reps=1) + made_up("cache@20%", 4.0, share=0.2, reps=1)
    for run in runs:
        run["conditions"]["memory_limit"] = "none: needs root"
    assert advice_on(scenario, runs).warnings == [
        "Fewer than three repetitions: take factors near 1 for nothing.",
        "There was no memory limit: the kernel's page cache may have hidden the disk.",
    ]


# --- figures ---


def test_the_curve_stands_beside_the_published_one(scenario: Scenario) -> None:
    runs = made_up("disk", 40.0, scatter=1) + made_up("cache@20%", 4.0, share=0.2) + made_up("cache@47%", 0.5, share=0.47)
    figure = response_by_size.draw(scenario, measured(runs))
    assert figure is not None and figure.grid is not None
    ours, _, theirs = figure.series
    assert (ours.x, ours.y, ours.low, ours.high) == ([0.0, 20.0, 47.0], [41.0, 4.0, 0.5], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0])
    assert (theirs.published, theirs.x[0], theirs.y[0], theirs.x[-1], theirs.y[-1]) == (True, 0.0, 3500.0, 46.7, 77.0)
    assert figure.grid.rows[-1] == ["47%", "47 GB", "0.5 ms (0.5-0.5)", "1 ms (1-1)", "82", "90.0%", "77 ms", "45.5"]
    assert figure.findings[-1] == "At no size was the cache slower than no cache."
    assert "database 102400 MB, shared_buffers 30 MB, memory limit 230 MB" in figure.conditions


def test_the_knee(scenario: Scenario) -> None:
    runs = made_up("disk", 40.0) + made_up("cache@20%", 4.0, share=0.2) + made_up("cache@47%", 3.9, share=0.47)
    figure = throughput_by_size.draw(scenario, measured(runs))
    assert figure is not None
    assert figure.findings[0].startswith(
        "The knee is at 20% of the database: the smallest size with at least 90% of the greatest throughput ("
    )
    assert [series.name for series in figure.series] == [
        "transactions a second",
        "reads from the disk a second",
        "pages from flash a second",
        "pages written to flash a second",
    ]
    for faster, where in ((3.7, "20%"), (3.5, "47%")):  # 92 and 88% of the greatest throughput
        runs = made_up("disk", 40.0) + made_up("cache@20%", 4.0, share=0.2) + made_up("cache@47%", faster, share=0.47)
        figure = throughput_by_size.draw(scenario, measured(runs))
        assert figure is not None
        assert figure.findings[0].startswith(f"The knee is at {where} of the database")
    rising = made_up("disk", 40.0) + made_up("cache@20%", 4.0, share=0.2) + made_up("cache@47%", 1.0, share=0.47)
    figure = throughput_by_size.draw(scenario, measured(rising))
    assert figure is not None
    assert figure.findings[1] == (
        "With 47 GB (47% of the database), which was full, the disk is still the limit (99% busy): more flash may bring more."
    )


def test_goals(scenario: Scenario) -> None:
    runs = made_up("disk", 40.0) + made_up("cache@20%", 4.0, share=0.2) + made_up("cache@47%", 0.5, share=0.47)
    study = Study(Path("made-up"), {"made-up": scenario}, [line | {"at": "now"} for line in runs + warmed(runs)])
    report = make([study])
    assert report.goals is not None
    assert report.goals.rows == [
        ["made-up", "at least 45 times faster at 47%", "80 times", "reached"],
        ["made-up", "never slower than no cache", "slower at no size", "reached"],
    ]


def test_never_slower_is_not_claimed_of_what_overlaps(scenario: Scenario) -> None:
    """A cache that was slower in the middle, with repetitions that overlap, shows nothing."""
    runs = made_up("disk", 0.3, scatter=0.3) + made_up("cache@20%", 0.35, scatter=0.3, share=0.2)
    study = Study(Path("made-up"), {"made-up": scenario}, [line | {"at": "now"} for line in runs + warmed(runs)])
    goals = make([study]).goals
    assert goals is not None
    assert goals.rows[-1] == [
        "made-up",
        "never slower than no cache",
        "slower at 20% in the middle of the repetitions, which overlap",
        "not shown",
    ]


def test_versions_and_tuning(scenario: Scenario) -> None:
    runs = (
        made_up("disk-15", 40.0)
        + made_up("disk-17", 38.0, server=17)
        + made_up("before", 50.0, tuning="before")
        + made_up("after", 45.0, tuning="after")
    )
    by_version = versions.draw(scenario, measured(runs))
    assert by_version is not None
    assert by_version.series[0].x == ["disk-15, 15", "disk-17, 17"]
    tuned = tuning.draw(scenario, measured(runs))
    assert tuned is not None
    assert (tuned.series[0].x, tuned.series[0].y) == (["before", "after"], [50.0, 45.0])
    assert tuned.findings[1] == "Before: nothing could be set here."


@pytest.mark.parametrize(
    ("before", "after", "scatter", "words"),
    [
        (50.0, 25.0, 0.0, "it 2 times faster: 50 ms before, 25 ms after (95 of 100 come within 100 ms, 50 ms)."),
        (
            25.0,
            50.0,
            0.0,
            "it slower here: 25 ms before, 50 ms after (95 of 100 come within 50 ms, 100 ms). Leave these settings as they were.",
        ),
        (50.0, 49.0, 0.0, "no difference to speak of to the average: 50 ms before, 49 ms after (95 of 100 come within 100 ms, 98 ms)."),
        (50.0, 40.0, 10.0, "no difference to speak of to the average: 60 ms before, 50 ms after (95 of 100 come within 100 ms, 80 ms)."),
    ],
)
def test_tuning_in_words(scenario: Scenario, before: float, after: float, scatter: float, words: str) -> None:
    runs = made_up("before", before, scatter=scatter, tuning="before") + made_up("after", after, scatter=scatter, tuning="after")
    figure = tuning.draw(scenario, measured(runs))
    assert figure is not None
    assert figure.findings[0] == f"Tuning makes {words}"


def treated(runs: list[dict[str, Any]], made: list[str], left: list[str]) -> list[dict[str, Any]]:
    return [line | {"conditions": line["conditions"] | {"doctor": {"made": made, "left": left}}} for line in runs]


def test_what_the_doctor_proposes(scenario: Scenario) -> None:
    """Against the server as it is, or as nobody has tuned it; what it only says is not claimed to be in the figures."""
    doctored = treated(
        made_up("treated", 25.0, tuning="doctor"), ["ALTER SYSTEM SET a = '1'", "echo 1 > /sys/b"], [f"thing {i}" for i in range(7)]
    )
    figure = tuning.draw(scenario, measured(made_up("as-it-is", 50.0), made_up("cache@20%", 5.0, share=0.2), doctored))
    assert figure is not None
    assert (figure.series[0].x, figure.series[0].y) == (["as it is", "as the doctor proposes"], [50.0, 25.0])
    assert figure.findings[:3] == [
        "What the doctor changed makes it 2 times faster: 50 ms as it is, 25 ms as the doctor proposes (95 of 100 come within 100 ms, 50 ms).",
        "The doctor changed: ALTER SYSTEM SET a = '1'; echo 1 > /sys/b.",
        "It also proposes, which was not done and is not in these figures: thing 0; thing 1; thing 2; thing 3; thing 4; and 2 more.",
    ]
    three = tuning.draw(
        scenario,
        measured(made_up("before", 50.0, tuning="before"), made_up("after", 40.0, tuning="after"), treated(doctored, [], [])),
    )
    assert three is not None
    assert three.series[0].x == ["before", "after", "as the doctor proposes"]
    assert "The doctor changed: nothing, it found nothing that it may change." in three.findings
    assert tuning.draw(scenario, measured(made_up("as-it-is", 50.0), made_up("cache@20%", 5.0, share=0.2))) is None


@pytest.mark.parametrize(
    ("without", "with_cache", "words"),
    [
        (1.0, 1.25, "A loss: 1 ms without, 1.25 ms with the cache."),
        (1.0, 0.95, "No gain: 1 ms without, 0.95 ms with the cache."),
        (1.0, 0.5, "A gain of 2 times: 1 ms without, 0.5 ms with the cache."),
    ],
)
def test_front_of_flash_in_words(scenario: Scenario, without: float, with_cache: float, words: str) -> None:
    runs = made_up("flash", without, data="flash") + made_up("flash+cache", with_cache, share=0.3, data="flash")
    figure = front_of_flash.draw(scenario, measured(runs))
    assert figure is not None
    assert figure.findings == [words]


def test_three_ways_in_words(scenario: Scenario) -> None:
    runs = (
        made_up("disk", 40.0)
        + made_up("moved", 50.0, moved="indexes")
        + made_up("cache", 20.0, share=0.3)
        + made_up("flash", 4.0, data="flash")
    )
    figure = three_ways.draw(scenario, measured(runs))
    assert figure is not None
    assert figure.findings == [
        "Indexes and temporary files on flash: no faster; flash cache of 30%: 2 times faster; all on flash: 10 times faster."
    ]


@pytest.mark.parametrize("name", FIGURES)
def test_what_was_not_measured_says_so(name: str) -> None:
    assert not_measured(name).title
    assert not not_measured(name).measured


@pytest.mark.parametrize(("before", "after", "kind", "ticks"), [(50.0, 45.0, "linear", None), (500.0, 0.5, "log", "array")])
def test_ticks_of_bars(scenario: Scenario, before: float, after: float, kind: str, ticks: str | None) -> None:
    """On a linear axis the ticks of a logarithmic one would be a black stripe."""
    figure = tuning.draw(scenario, points(made_up("before", before, tuning="before") + made_up("after", after, tuning="after")))
    assert figure is not None
    axis = json.loads(as_json(figure))["layout"]["yaxis"]
    assert (axis["type"], axis.get("tickmode")) == (kind, ticks)


# --- a recorded study ---


def test_every_figure_is_drawn(recorded: Path) -> None:
    report = make([open_study(recorded)])
    drawn = {figure.id: figure for figure in report.figures}
    for name in set(FIGURES) - {"versions", "cluster", "failover"}:  # a machine of one version, and one server
        found = [figure for key, figure in drawn.items() if key.startswith(name)]
        assert [figure.missing for figure in found] == [""] * len(found), name
        assert all(figure.measured and figure.conditions and figure.grid for figure in found), name
    for name in ("latency-over-time", "warm-up", "flash-writes"):
        assert any(key.startswith(name) for key in drawn), name
    assert report.failures == []


def test_the_recorded_study_is_complete(recorded: Path) -> None:
    study = open_study(recorded)
    for scenario in study.scenarios.values():
        wanted = {(v.name, n, r + 1) for v in scenario.variants for n in scenario.load.clients for r in range(scenario.repetitions)}
        there = [(run["variant"], run["clients"], run["repetition"]) for run in study.of("run", scenario.name)]
        assert len(there) == len(set(there))
        assert set(there) == wanted
        assert figures_of(scenario)


def test_html_needs_nothing_else(recorded: Path, tmp_path: Path) -> None:
    written = write([open_study(recorded)], tmp_path)
    html = written["html"].read_text("utf-8")
    page = html[html.index("</script>") :]  # behind the library
    assert re.findall(r"<(?:link|img|iframe)\b", page) == []
    assert re.findall(r"\bsrc\s*=", page) == []
    assert html[: html.index("<script>")].count("http") == 0
    report = make([open_study(recorded)])
    for figure in report.figures:
        assert f'<section id="{figure.id}">' in page
    for advice in report.advice:
        assert advice.headline.split(":")[0] in page


def test_titles_cannot_break_out(tmp_path: Path, scenario: Scenario) -> None:
    runs = made_up("disk", 40.0) + made_up("cache@20%", 4.0, share=0.2)
    for run in runs:
        run["conditions"]["disk"] = "</script><script>alert(1)</script>"
        run["variant"] += "</script>"
    study = Study(Path("made-up"), {"made-up": scenario}, [line | {"at": "now"} for line in runs])
    page = write([study], tmp_path)["html"].read_text("utf-8")
    assert "<script>alert" not in page
    assert page.count("</script>") == 2


def test_names_of_a_server_are_no_markup() -> None:
    assert _text("Moved: table <b>x</b>, ![y](http://203.0.113.9/t). `pgflash pilot` 12:30") == (
        "Moved: table &lt;b&gt;x&lt;/b&gt;, \\!\\[y\\](http&#58;//203.0.113.9/t). `pgflash pilot` 12:30"
    )
    assert _cell("a|b\n<i>") == "a\\|b &lt;i&gt;"
    assert _text("cache@20%: ~~x~~ *y*\nwww.evil.example") == "cache@20%: \\~\\~x\\~\\~ \\*y\\*\nwww&#46;evil.example"


def test_no_line_of_the_markdown_has_markup_of_others(scenario: Scenario, tmp_path: Path) -> None:
    runs = made_up("disk", 40.0) + made_up("cache@20%", 4.0, share=0.2)
    for run in runs:
        run["conditions"]["disk"] = "[x](http://203.0.113.9/)"
        run["variant"] += "[x](http://203.0.113.9/)"
    named = replace(scenario, name="[x](http://203.0.113.9/)")
    for run in runs:
        run["scenario"] = named.name
    study = Study(Path("made-up"), {named.name: named}, [line | {"at": "now"} for line in runs])
    text = re.sub(r"`[^`\n]*`", "", write([study], tmp_path)["md"].read_text("utf-8"))  # code is none
    assert "203.0.113.9" in text and "[x]" not in text and "://203" not in text


def test_markdown_has_every_table(recorded: Path, tmp_path: Path) -> None:
    report = make([open_study(recorded)])
    text = write([open_study(recorded)], tmp_path)["md"].read_text("utf-8")
    for figure in report.figures:
        assert f"### {figure.title}\n" in text
        if figure.published:
            assert f"> {figure.published}\n" in text
        if figure.grid:
            assert "| " + " | ".join(figure.grid.header) + " |\n|" in text
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.rstrip().endswith("|")


def test_several_studies_in_one_report(recorded: Path, scenario: Scenario) -> None:
    study = Study(
        Path("made-up"),
        {"made-up": scenario},
        [line | {"at": "now"} for line in made_up("disk", 4.0) + made_up("cache@20%", 1.0, share=0.2)],
    )
    report = make([open_study(recorded), study])
    assert {advice.scenario for advice in report.advice} > {"made-up"}
    assert [words["name"] for words in report.studies] == ["recorded", "made-up"]


def test_a_study_without_runs() -> None:
    with pytest.raises(StudyError):
        make([Study(Path("x"), {}, [])])


def test_a_failure_that_was_made_good_is_not_told(scenario: Scenario) -> None:
    failed = {"kind": "failed", "scenario": "made-up", "variant": "disk", "repetition": 1, "clients": [16], "error": "gone", "at": "now"}
    other = failed | {"variant": "cache@20%"}
    study = Study(Path("x"), {"made-up": scenario}, [failed, other, *(line | {"at": "now"} for line in made_up("disk", 4.0))])
    assert make([study]).failures == ["made-up, cache@20%, run 1: gone"]


def test_recorded_lines_are_json(recorded: Path) -> None:
    for line in (recorded / "runs.jsonl").read_text().splitlines():
        assert json.loads(line)["kind"] in ("study", "warmup", "run", "check")
