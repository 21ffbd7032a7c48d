"""What the report concludes, of made-up runs whose answer is known, contradictory ones among them."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgflash.pilot.report import select
from pgflash.pilot.report.advice import advise, overall
from pgflash.pilot.report.charts import as_json
from pgflash.pilot.report.evidence import more_flash
from pgflash.pilot.report.figures import flash_writes, memory_or_flash, not_measured, operations, response_by_size, throughput_by_size
from pgflash.pilot.report.model import Report, Verdict
from pgflash.pilot.report.published import SOURCE
from pgflash.pilot.report.write import make, write
from pgflash.pilot.scenario import FIGURES, Scenario, changed, load_scenario, parse_scenario
from pgflash.pilot.store import Study, Writer, open_study
from pgflash.units import parse_endurance, parse_operation_price, show_years

from .conftest import MINIMAL
from .test_report import advice_on, lab, made_up, measured, scenario, warmed

__all__ = ["lab", "scenario"]  # fixtures

DISK, CACHE = made_up("disk", 40.0), made_up("cache@20%", 4.0, share=0.2)


def report_of(scenario: Scenario, *runs: list[dict[str, Any]], plateau: bool = True) -> Report:
    lines = [line | {"at": "now"} for some in runs for line in some]
    return make([Study(Path("made-up"), {"made-up": scenario}, lines + warmed(lines, plateau))])


# --- one verdict, first ---


def test_the_verdict_comes_first(recorded: Path, tmp_path: Path) -> None:
    written = write([open_study(recorded)], tmp_path)
    verdict = make([open_study(recorded)]).overall
    assert verdict.headline
    html = re.sub(r"<script>.*?</script>|<style>.*?</style>|<head>.*?</head>", "", written["html"].read_text("utf-8"), flags=re.DOTALL)
    assert re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html[html.index("</h1>") :])).strip().startswith(verdict.headline)
    assert written["md"].read_text("utf-8").split("\n\n")[1].strip() == f"**{verdict.headline}**"


def test_how_sure_it_is(scenario: Scenario) -> None:
    runs = made_up("disk", 40.0, scatter=2), made_up("cache@20%", 4.0, share=0.2, filled=0.97)
    verdict = report_of(scenario, *runs).overall
    assert (verdict.verdict, verdict.headline) == ("buy", "Buy flash as a cache: 10.5 times faster.")
    assert verdict.sentences == [
        "How sure: 3 repetitions of each measurement; averages that differ by at most 10% between repetitions; 6 of 6 runs on a plateau after"
        " warming up; caches filled to 97%."
    ]


def several(scenario: Scenario, *caches: tuple[float, str]) -> Verdict:
    """Scenarios a, b ... with a cache that answers in so many milliseconds, and a variant that was not warm."""
    advices, found = [], []
    for name, (average, cold) in zip("abcd", caches, strict=False):
        points = measured(DISK, made_up("cache@20%", average, share=0.2), cold=cold)
        advices.append(advise(replace(scenario, name=name), points, "study"))
        found += points
    return overall(advices, found)


@pytest.mark.parametrize(
    ("caches", "verdict", "headline"),
    [
        ([(4.0, ""), (2.0, "")], "buy", "Buy flash as a cache: 10 to 20 times faster in both loads measured."),
        ([(39.0, ""), (42.0, "")], "no", "Do not buy flash as a cache: 1.03 times as fast at best in both loads measured."),
        ([(4.0, "cache@20%")], "open", "Not conclusive: nothing to buy or to rule out by this yet."),
        ([(42.0, ""), (4.0, "disk")], "open", "Do not buy flash as a cache yet: nothing measured so far speaks for it, and b is not conclusive."),
        (
            [(4.0, ""), (25.0, ""), (40.0, ""), (1.0, "cache@20%")],
            "mixed",
            "Whether a flash cache pays depends on the load: it pays for a (10 times faster); hardly for b; not for c; not conclusive for d.",
        ),
    ],
)  # fmt: skip
def test_one_verdict_on_several_loads(scenario: Scenario, caches: list[tuple[float, str]], verdict: str, headline: str) -> None:
    found = several(scenario, *caches)
    assert (found.verdict, found.headline) == (verdict, headline)


def test_no_verdict_on_what_was_not_asked(scenario: Scenario) -> None:
    advice = advice_on(scenario, made_up("before", 4.0, tuning="before"), made_up("after", 4.0, tuning="after"))
    assert overall([advice], []).headline == "No verdict: nothing here compares the disk with a flash cache in front of it."


# --- nothing from too little ---


def test_not_from_one_repetition(scenario: Scenario) -> None:
    for runs in ((made_up("disk", 40.0, reps=1), CACHE), (DISK, made_up("cache@20%", 4.0, share=0.2, reps=1))):
        advice = advice_on(scenario, *runs)
        assert advice.verdict == "open"
        assert re.match(
            r"Not conclusive: (disk|cache@20%) was measured once only\. What was seen so far: 10 times as fast", advice.headline
        )
        assert advice.again == "pgflash pilot run study/scenarios/made-up.toml --repetitions 3 --study study"
        assert "buy" not in advice.headline.lower()


@pytest.mark.parametrize("average", [4.0, 39.0])
@pytest.mark.parametrize("cold", ["disk", "cache@20%"])
def test_not_without_a_plateau(scenario: Scenario, average: float, cold: str) -> None:
    advice = advice_on(scenario, DISK, made_up("cache@20%", average, share=0.2), cold=cold)
    assert advice.verdict == "open"
    assert advice.headline.startswith(f"Not conclusive: {cold} was still warming up in 3 of 3 repetitions.")
    assert advice.again == (
        "pgflash pilot run study/scenarios/made-up.toml --repetitions 3 --warm-up 2400 --study study-longer"
    )  # fmt: skip


def test_a_size_that_was_not_warm_is_left_out(scenario: Scenario) -> None:
    advice = advice_on(scenario, DISK, CACHE, made_up("cache@40%", 1.0, share=0.4), cold="cache@40%")
    assert advice.verdict == "buy"
    assert advice.headline == "Buy flash as a cache, 20 GB (20% of the database): 10 times faster, 40 ms to 4 ms."
    assert advice.warnings == ["Not used for the verdict: cache@40% was still warming up in 3 of 3 repetitions."]
    figure = response_by_size.draw(
        scenario, measured(DISK, CACHE, made_up("cache@40%", 1.0, share=0.4), cold="cache@40%")
    )  # fmt: skip
    assert figure is not None
    assert "Not conclusive: cache@40% was still warming up in 3 of 3 repetitions." in figure.findings


def test_a_study_without_warmups_is_not_conclusive(scenario: Scenario) -> None:
    study = Study(Path("x"), {"made-up": scenario}, [line | {"at": "now"} for line in DISK + CACHE])
    assert make([study]).overall.verdict == "open"


def test_the_command_for_more_goes_on_with_the_study() -> None:
    text = '# mine\ntitle = "x"\nrepetitions = 1  # few\n[load]\nkind = "pgbench-select"\nscale = 1\n[[arm]]\nname = "disk"\n'
    once = parse_scenario(text, "x", Path())
    more = parse_scenario(changed(text, 3, None), "x", Path())
    assert (more.repetitions, more.warmup.max_s, more.digest) == (3, 600, once.digest)
    longer = parse_scenario(changed(text, 3, 1800), "x", Path())
    assert (longer.repetitions, longer.warmup.max_s) == (3, 1800)
    assert longer.digest != once.digest
    other = text + "[warmup]\nmax_s = 5\nflat = 2\n"
    assert parse_scenario(changed(other, None, 1800), "x", Path()).warmup.max_s == 1800
    assert parse_scenario(changed(other, None, 1800), "x", Path()).warmup.flat == 2


# --- no verdict that its own table contradicts ---


@pytest.mark.parametrize(
    ("filled", "cpu", "busy", "last", "kind"),
    [
        (0.62, 0.3, 1.0, 1.0, "unfilled"),
        (1.0, 0.97, 1.0, 1.0, "processors"),
        (1.0, 0.3, 1.0, 3.9, "flat"),
        (1.0, 0.3, 1.0, 1.0, "rising"),
        (1.0, 0.3, 0.4, 1.0, "unknown"),
    ],
)
def test_whether_more_flash_would_bring_more(scenario: Scenario, filled: float, cpu: float, busy: float, last: float, kind: str) -> None:
    runs = (DISK, CACHE, made_up("cache@47%", last, share=0.47, filled=filled, cpu=cpu, busy=busy))
    found = more_flash(select.caches(measured(*runs)))
    assert found.kind == kind
    advice = advice_on(scenario, *runs)
    figure = throughput_by_size.draw(scenario, measured(*runs))
    assert figure is not None
    everything = " ".join([advice.headline, *advice.reasons, *advice.warnings, *figure.findings])
    assert ("may bring more" in everything) == (kind == "rising")
    assert (found.words in advice.reasons, found.words in figure.findings) == (kind != "unknown",) * 2


def test_only_what_was_filled_speaks_of_larger_sizes(scenario: Scenario) -> None:
    runs = made_up("cache@20%", 39.0, share=0.2, filled=0.62)
    for line in runs:
        line["hit_ratio"] = 0.3
    advice = advice_on(scenario, DISK, runs)
    assert "Of 20 GB (20% of the database) only 62% was filled: more flash would bring no more." in advice.reasons
    assert "The hit ratio stays low at the largest size: the load reads little of it twice." in advice.warnings


@pytest.mark.parametrize(("average", "said"), [(4.0, False), (30.0, False), (39.0, True)])
@pytest.mark.parametrize("reps", [1, 3])
def test_busy_processors_are_no_reason_beside_a_gain(scenario: Scenario, average: float, said: bool, reps: int) -> None:
    advice = advice_on(scenario, made_up("disk", 40.0, cpu=1.0, reps=reps), made_up("cache@20%", average, share=0.2, reps=reps))
    assert ("The processors are 100% busy without flash already: there is no room for it to help." in advice.reasons) == said


@pytest.mark.parametrize(
    ("flash_reps", "cold", "words"),
    [
        (3, "", "everything on flash (40 times faster)"),
        (3, "all-flash", "everything on flash (40 times faster; not conclusive)"),
        (3, "cache@20%", "everything on flash (40 times faster; not conclusive)"),
        (3, "disk", "everything on flash (40 times faster; not conclusive)"),
        (1, "", ""),
    ],
)
def test_what_is_better_is_as_sure_as_its_runs(scenario: Scenario, flash_reps: int, cold: str, words: str) -> None:
    points = measured(DISK, CACHE, made_up("all-flash", 1.0, data="flash", reps=flash_reps), cold=cold)
    advice = advise(scenario, points, "study")
    assert advice.instead == ([words] if words else [])
    assert ("Better than the cache" in advice.headline) == bool(words)
    assert (f"Better than the cache: for made-up {words}." in overall([advice], points).sentences) == bool(words)


@pytest.mark.parametrize(("kernel", "share"), [(0, ""), (200, ""), (300, "25%"), (800, "47%"), (2700, "75%")])
def test_the_page_cache_is_named(scenario: Scenario, kernel: int, share: str) -> None:
    runs = [line | {"counters": {"cache.hits": 900, "cache.inserts": 50, "cache.os_cache_hits": kernel}} for line in CACHE]
    said = [reason for reason in advice_on(scenario, DISK, runs).reasons if "the kernel's page cache" in reason]
    assert [reason.split(" of the reads")[0] for reason in said] == ([share] if share else [])


# --- memory, all of it ---


def test_memory_has_the_page_cache(scenario: Scenario) -> None:
    free = made_up("free", 1.0, page_cache="free")
    for line in free:
        line["conditions"] = line["conditions"] | {"memory_limit": "none: page cache free"}
    runs = (DISK, CACHE, made_up("memory", 20.0, extra_memory="6%"), free)
    figure = memory_or_flash.draw(scenario, measured(*runs))
    assert figure is not None and figure.grid is not None
    assert [(row[0], row[-1]) for row in figure.grid.rows] == [
        ("disk", "230 MB"), ("6% more memory", "230 MB"), ("flash cache of 20%", "230 MB"),
        ("no memory limit", "no limit"),
    ]  # fmt: skip
    assert "1 ms, 40 times faster than with the limit, faster than either." in figure.findings[1]
    advice = advice_on(scenario, *runs)
    assert advice.headline.endswith(" Better than the cache: memory for the whole database, as page cache (40 times faster).")
    assert any("where memory for the whole database can be had, it beats flash" in reason for reason in advice.reasons)
    without = memory_or_flash.draw(scenario, measured(*runs[:3]))
    assert without is not None
    assert "was not measured" in without.findings[1]


# --- published figures ---


def test_published_figures_never_stand_alone_and_name_their_source(recorded: Path) -> None:
    figures = [not_measured(name) for name in FIGURES] + make([open_study(recorded)]).figures
    there = [figure for figure in figures if any(series.published for series in figure.series)]
    assert len(there) >= 3
    for figure in there:
        assert figure.measured, figure.id
        assert all(SOURCE in series.name for series in figure.series if series.published), figure.id
        ours = {x for series in figure.series if not series.published for x in series.x}
        if figure.kind == "bar":
            assert all(set(series.x) <= ours for series in figure.series), figure.id
    assert all(SOURCE in figure.published for figure in figures if figure.published)


# --- a lab is called one ---


def test_a_lab_is_marked_wherever_it_has_numbers(lab: Scenario, tmp_path: Path) -> None:
    runs = [line | {"conditions": line["conditions"] | {"database_mb": 1000}} for line in DISK + CACHE]
    report = report_of(lab, runs)
    words = "Lab in toy sizes, not your system: modelled disk, database of 1000 MB"
    assert [figure.lab for figure in report.figures if figure.measured] == [words] * sum(figure.measured for figure in report.figures)
    assert report.advice[0].lab == words
    assert report.overall.headline == "In the lab a flash cache pays: 10 times faster."
    assert report.overall.sentences[0].startswith(
        "The figures are of a lab in toy sizes, not of your system: modelled disks and databases of"
    )
    assert "buy" not in f"{report.overall.headline} {report.advice[0].headline}".lower()
    drawn = next(figure for figure in report.figures if figure.series)
    assert [note["text"] for note in json.loads(as_json(drawn))["layout"]["annotations"]] == [words]


def test_real_storage_is_not_marked(scenario: Scenario) -> None:
    report = report_of(scenario, DISK, CACHE)
    assert [figure.lab for figure in report.figures] == [""] * len(report.figures)


# --- words and axes ---


def test_a_manager_can_read_it(recorded: Path, tmp_path: Path) -> None:
    report = make([open_study(recorded)])
    for figure in report.figures:
        if figure.series:
            layout = json.loads(as_json(figure))["layout"]
            assert layout["yaxis"]["title"]["text"], figure.id
            assert figure.kind == "bar" or layout["xaxis"]["title"]["text"], figure.id
    text = write([open_study(recorded)], tmp_path)["md"].read_text("utf-8")
    text = text.replace("sysbench tells the 99th percentile only", "")  # recorded so
    assert re.findall(r"\bp(?:50|95|99)\b|\btps\b|percentile", text) == []


def test_sizes_have_bytes_beside_the_share(scenario: Scenario) -> None:
    figure = response_by_size.draw(scenario, measured(DISK, CACHE, made_up("cache@47%", 1.0, share=0.47)))
    assert figure is not None
    axis = json.loads(as_json(figure))["layout"]["xaxis"]
    assert axis["ticktext"] == ["no<br>flash", "20%<br>20 GB", "47%<br>47 GB"]


# --- the life of the drive ---


@pytest.mark.parametrize(
    ("text", "terabytes"),
    [("1750 TBW", 1750.0), ("1.5 PBW", 1500.0), ("1 DWPD of 960GB for 5 years", 1752.0), ("0.3 DWPD of 3.84TB for 5 years", 2102.4)],
)
def test_endurance(text: str, terabytes: float) -> None:
    found = parse_endurance(text)
    assert found is not None
    assert found.bytes == pytest.approx(terabytes * 1e12)


@pytest.mark.parametrize("text", ["", "1750", "0 TBW", "1 DWPD", "1 DWPD of 960GB", "many TBW"])
def test_no_endurance(text: str) -> None:
    assert parse_endurance(text) is None


def test_years_of_the_drive(scenario: Scenario) -> None:
    """1 MB a second is 31.6 TB a year."""
    drive = parse_endurance("315.576 TBW")
    assert drive is not None
    assert drive.years(1e6) == pytest.approx(10)
    figure = flash_writes.draw(scenario, measured(DISK, CACHE), drive, assumed=False)
    assert figure is not None and figure.grid is not None
    row = dict(zip(figure.grid.header, figure.grid.rows[0], strict=True))
    assert (row["a day"], row["life of the drive, years"]) == ("86.4 GB", "10.0")
    assert "a drive of 315.576 TBW, 316 TB in all, would live 10.0 years at worst (cache@20%)" in figure.findings[0]
    assumed = flash_writes.draw(scenario, measured(DISK, CACHE), drive, assumed=True)
    assert assumed is not None
    assert "(assumed: give yours with --endurance)" in assumed.findings[0]
    lively = [line | {"flash_write_bytes_per_s": 5e7} for line in CACHE]
    figure = flash_writes.draw(scenario, measured(DISK, lively), drive, assumed=False)
    assert figure is not None and figure.grid is not None
    assert figure.grid.rows[0][2] == "4,320 GB", "never as a power of ten"
    assert (show_years(drive.years(0)), show_years(0.25)) == ("more than 100", "0.25")


# --- an existing server ---


def test_a_cache_that_is_there_is_judged_off_against_on(scenario: Scenario) -> None:
    there = replace(scenario, server=replace(scenario.server, dsn="host=db"))
    off = made_up("off", 40.0, enabled="off")
    advice = advise(there, measured(off, made_up("on", 4.0, share=0.2, cache="as installed", enabled="on")), "study")
    assert (advice.verdict, advice.lab) == ("buy", "")
    assert advice.headline == "The flash cache pays, 20 GB (20% of the database): 10 times faster, 40 ms to 4 ms."
    advice = advise(there, measured(off, made_up("on", 39.0, share=0.2, cache="as installed", enabled="on")), "study")
    assert advice.headline == "The flash cache does not pay: at best it answered 1.03 times as fast as the disk alone."
    advice = advise(there, measured(made_up("as-it-is", 4.0, share=0.2, cache="")), "study")
    assert advice.headline == "There is no run on the disk alone to compare with.", "a server as it is, with its cache on"


# --- operations of the disk ---


def taking(runs: list[dict[str, Any]], reads: float, writes: float) -> list[dict[str, Any]]:
    return [line | {"devices": {"disk": {"reads_per_s": reads, "writes_per_s": writes, "busy": 0.9}}} for line in runs]


@pytest.mark.parametrize(
    ("text", "bill"), [("0.005 USD", 50.0), ("0.005 USD, 3000 included", 35.0), ("0.01€, 20000 included", 0.0), (" 1 EUR ", 10000.0)]
)
def test_price_of_operations(text: str, bill: float) -> None:
    price = parse_operation_price(text)
    assert price is not None
    assert price.a_month(10000) == pytest.approx(bill)


@pytest.mark.parametrize("text", ["", "5", "USD", "0 USD", "-1 USD", "0.005 dollars", "0.005 USD, 3000", "0.005 USD, some included"])
def test_no_price_of_operations(text: str) -> None:
    assert parse_operation_price(text) is None


def test_operations_saved(scenario: Scenario) -> None:
    """400 transactions a second take 2 operations each; with a cache 4,000 take half a one."""
    points = measured(taking(DISK, 700.0, 100.0), taking(CACHE, 1500.0, 500.0))
    price = parse_operation_price("0.01 USD, 3000 included")
    figure = operations.draw(scenario, points, price)
    assert figure is not None and figure.grid is not None
    assert figure.grid.rows == [["disk", "400", "2", "800", "-", "-"], ["cache@20%", "4,000", "0.5", "2,000", "8,000", "50"]]
    assert figure.findings[:2] == [
        "A transaction takes 0.5 operations with cache@20%, 2 without. The 4,000 transactions a second that were reached there would need"
        " 8,000 operations a second without flash, and took 2,000: 6,000 fewer.",
        "At 0.01 USD, 3000 included that is 50 USD a month without flash, and 0 with it, if just what is used is provisioned."
        " The price of the flash is not in this.",
    ]


def test_operations_without_a_price(scenario: Scenario) -> None:
    points = measured(taking(DISK, 700.0, 100.0), taking(CACHE, 8000.0, 4000.0))
    figure = operations.draw(scenario, points, None)
    assert figure is not None and figure.grid is not None
    assert figure.grid.rows[1] == ["cache@20%", "4,000", "3", "12,000", "8,000"]
    assert figure.findings[0].endswith("and took 12,000: 4,000 more.")
    assert "--operation-price" in figure.findings[1]


def test_flash_reads_are_no_reads_of_the_disk(scenario: Scenario) -> None:
    """With the cache beside the data nothing is said of the device; what the server counted is."""

    def beside(runs: list[dict[str, Any]], pages: int) -> list[dict[str, Any]]:
        return [
            line
            | {
                "devices": {},
                "conditions": line["conditions"] | {"cache_on_disk": True},
                "counters": line["counters"] | {"cache.disk_reads": pages},
            }
            for line in runs
        ]

    points = measured(beside(DISK, 6920), beside(CACHE, 2000))
    assert operations.draw(scenario, points, parse_operation_price("0.005 USD")) is None
    advice = advise(scenario, points)
    assert "A transaction reads 1.7 pages from data files without flash, 0.05 with it." in advice.reasons
    assert any(text.startswith("The cache is in the file system of the data: what the disk did is left out") for text in advice.warnings)
    assert not any("from the disk" in text for text in advice.reasons)


def test_operations_need_both(scenario: Scenario) -> None:
    """And a device that counts them."""
    assert operations.draw(scenario, measured(taking(DISK, 700.0, 100.0)), None) is None
    assert operations.draw(scenario, measured(DISK, taking(CACHE, 1500.0, 500.0)), None) is None
    assert operations.draw(scenario, measured(taking(DISK, 700.0, 100.0), CACHE), None) is None


@pytest.mark.parametrize("own", [True, False])
def test_the_command_that_would_make_it_conclusive_can_be_pasted(tmp_path: Path, own: bool) -> None:
    """Whatever is in the names of the folders, and although the study's copy of the scenario is not beside what it names."""
    folder = tmp_path / "my scenarios"
    folder.mkdir()
    (folder / "load.sql").write_text("SELECT 1;\n")
    (folder / "setup.sql").write_text("SELECT 1;\n")
    text = (
        MINIMAL.replace('kind = "pgbench-select"\nscale = 1', 'kind = "script"\nscript = "load.sql"\nsetup = "setup.sql"')
        if own
        else MINIMAL
    )
    assert (text != MINIMAL) == own
    (folder / "mine.toml").write_text(text)
    study = tmp_path / "it's a study"
    writer = Writer(study)
    scenario = load_scenario(str(folder / "mine.toml"))
    try:
        writer.open([scenario])
        writer.add("study", scenarios=["mine"], files={"mine": scenario.file})
    finally:
        writer.close()
    stored = open_study(study)
    points = measured(made_up("disk", 40.0, reps=1), CACHE)
    advice = advise(stored.scenarios["mine"], points, str(study), stored.file("mine"))
    words = shlex.split(advice.again)
    assert words[:3] == ["pgflash", "pilot", "run"] and words[-2:] == ["--study", str(study)]
    named = load_scenario(words[3])
    assert named.digest == scenario.digest and Path(named.load.script) == (folder / "load.sql" if own else Path())
    again = Writer(Path(words[-1]))
    try:
        again.open([named])  # it is the same study
    finally:
        again.close()
