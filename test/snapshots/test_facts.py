"""Numbers and verdicts of made-up intervals."""

from __future__ import annotations

import json
import re

import pytest

from pgflash.pilot.report import charts
from pgflash.snapshots import diff, render, report, verdict
from pgflash.snapshots.facts import facts, percentile
from pgflash.snapshots.moments import parse_duration, split
from pgflash.snapshots.verdict import relative
from pgflash.snapshots.waits import CPU, DISK, FLASH, OTHER, REST, TEMPORARY, database_time, group_of

from .made_up import Sections, interval, row, waits

DATABASE = [row("1", {"datname": "shop"}, xact_commit=1000, active_time=100000, blk_read_time=60000, blk_write_time=1000)]
TIMED = [row("", {"track_io_timing": "on", "pg_wait_sampling.profile_period": "20"})]


def cache(**counters: float) -> list[dict[str, object]]:
    return [row("", {"state": "active", "slots": 1000, "used": 500}, **counters)]


def disk(**more: object) -> Sections:
    return {"sampled_waits": waits(cpu=20, DataFileRead=71, WALWrite=9), "database": DATABASE, "cache": cache(misses=900, disk_reads=900)}


def flash() -> Sections:
    return {
        "sampled_waits": waits(cpu=74, DataFileRead=4, FlashcacheSingleBlockRead=8, WALWrite=14),
        "database": DATABASE,
        "cache": cache(hits=900, misses=100, disk_reads=100, read_time_us=90000, disk_read_time_us=500000, inserts=50, write_bytes=819200),
    }


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("15min", 900), ("1.5h", 5400), ("14d", 1209600), ("15", None), ("0s", None), ("-1h", None), ("1 week", None)],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


def test_an_interval() -> None:
    assert split("yesterday 02:00..12") == ("yesterday 02:00", "12")
    for text in ("12", "12..", "..12"):
        with pytest.raises(Exception, match="is no interval"):
            split(text)


def test_without_a_cache() -> None:
    """Nothing counts reads of a server whose size is 0: the report does not say that there were none."""
    none = [row("", {"state": "disabled", "reason": "pg_flashcache.size is 0", "slots": 0}, disk_reads=0)]
    found = facts(interval({"database": [row("1", {"datname": "shop"}, blks_read=700)], "cache": none}))
    assert [name for name, _ in report.efficiency_rows(found)] == ["state at the end", "pages read"]
    assert found.rates == {"pages read into shared_buffers": 700}


def test_pages_written_in_the_background() -> None:
    """What sessions and autovacuum wrote themselves, since nobody had done it for them, is none of it."""
    written = [row("", buffers_clean=0, buffers_checkpoint=30, buffers_backend=2249)]
    assert facts(interval({"bgwriter": written})).rates == {"pages written by background writer and checkpoints": 30}
    written = [row("", buffers_clean=5)]
    newer = facts(interval({"bgwriter": written, "checkpointer": [row("", buffers_written=7)]}, version=170000))
    assert newer.rates == {"pages written by background writer and checkpoints": 12}


def test_percentiles() -> None:
    buckets: list[tuple[float, float | None, float]] = [(0, 1, 0), (64, 128, 50), (128, 256, 40), (256, None, 10)]
    assert percentile(buckets, 0.25) == 96
    assert percentile(buckets, 0.5) == 128
    assert percentile(buckets, 0.7) == 192
    assert percentile(buckets, 0.99) == 256, "where the last one begins"
    twice = percentile([*buckets, *buckets], 0.25)
    assert twice == 96, "of two processes"


def test_the_verdict_on_one() -> None:
    words = verdict.of_one(facts(interval(disk()))).headline
    assert words == "User I/O was 71% of database time, CPU 20%: the disk limits, and flash answered no reads."
    words = verdict.of_one(facts(interval(flash()))).headline
    assert words == "User I/O was 12% of database time, CPU 74%: storage is not what limits; next limit: CPU."
    assert verdict.of_one(facts(interval({"cache": cache()}))).headline == "Nothing to conclude: no database time was counted."


def test_temporary_files_are_no_data_files() -> None:
    """No cache would make them less: neither is the disk said to limit, nor is it the cache's work where they go away."""
    spills = disk() | {"sampled_waits": [*waits(cpu=78), row("IO/BufFileWrite", {"event_type": "IO", "event": "BufFileWrite"}, samples=22)]}
    words = verdict.of_one(facts(interval(spills))).headline
    assert words == "User I/O was 0% of database time, CPU 78%: storage is not what limits; next limit: CPU."
    spills["sampled_waits"] = [*waits(cpu=20), row("IO/BufFileWrite", {"event_type": "IO", "event": "BufFileWrite"}, samples=80)]
    words = verdict.of_one(facts(interval(spills))).headline
    assert words == "User I/O was 0% of database time, CPU 20%: data files are not what limits; next limit: temporary files."
    assert "the cache works" not in verdict.of_two(facts(interval(spills)), facts(interval(flash()))).headline


def test_the_verdict_on_two() -> None:
    found = verdict.of_two(facts(interval(disk())), facts(interval(flash())))
    assert found.headline == ("User I/O fell from 71% to 12% of database time, CPU rose from 20% to 74%: the cache works; next limit: CPU.")
    assert "Database time of a transaction: 100 ms in A, 100 ms in B (0%)." in found.sentences
    assert (
        "In B: flash answered 90% of the reads that it could have (900 pages); a page took 0.1 ms from flash and 5 ms from disk."
        in found.sentences
    )


def test_not_by_the_cache() -> None:
    after = flash() | {"cache": cache(misses=1)}
    words = verdict.of_two(facts(interval(disk())), facts(interval(after))).headline
    assert words.endswith("CPU rose from 20% to 74%, but not by the cache: flash answered no reads.")
    words = verdict.of_two(facts(interval(flash())), facts(interval(disk()))).headline
    assert words.startswith("User I/O rose from 12% to 71% of database time, CPU fell from 74% to 20%: user I/O weighs more")
    words = verdict.of_two(facts(interval(disk())), facts(interval(disk()))).headline
    assert words.startswith("User I/O stayed at 71% (before: 71%) of database time, CPU stayed at 20%")


def test_little_time_is_said() -> None:
    little = disk() | {"sampled_waits": waits(cpu=2, DataFileRead=7)}
    assert any("9 s" in sentence for sentence in verdict.of_two(facts(interval(little)), facts(interval(flash()))).sentences)
    assert any("not reliable" in sentence for sentence in verdict.of_one(facts(interval(little))).sentences)


def test_sampled_time() -> None:
    """Each of 100 looks stands for the hundredth part of the time, in both steps."""
    found = database_time(interval(disk(), flash(), seconds=50))
    assert found is not None
    assert (found.source, found.seconds) == ("sampled", 100)
    assert (found.of(CPU), found.of(DISK), found.of(FLASH)) == (47, 37.5, 4)


def test_time_by_the_extension() -> None:
    """20 ms a count; idle sessions and background processes left out; what is left of active_time is the processor's."""
    rows = [
        row("a", {"event_type": "IO", "event": "DataFileRead"}, count=3000),
        row("b", {"event_type": "Client", "event": "ClientRead"}, count=99999),
        row("c", {"event_type": "Activity", "event": "WalWriterMain"}, count=99999),
        row("d", {"event_type": "Timeout", "event": "CheckpointWriteDelay"}, count=99999),
        row("e", {"event_type": "Lock", "event": "relation"}, count=500),
    ]
    found = database_time(interval({"wait_sampling": rows, "database": DATABASE, "settings": TIMED}))
    assert found is not None
    assert (found.source, found.seconds, found.of(DISK), found.of(CPU)) == ("wait_sampling", 100, 60, 30)


def test_time_by_the_database() -> None:
    found = database_time(interval({"database": DATABASE, "settings": TIMED, "cache": cache(read_time_us=21e6)}))
    assert found is not None
    assert (found.source, found.of(FLASH), found.of(DISK), found.of(REST)) == ("database", 21, 40, 39)
    untimed = database_time(interval({"database": DATABASE, "settings": [row("", {"track_io_timing": "off"})]}))
    assert untimed is not None and untimed.user_io is None
    assert "What database time was spent on is not known" in verdict.of_one(facts(interval({"database": DATABASE}))).headline


def test_time_of_reads_by_the_cache() -> None:
    """Without track_io_timing, where each read is timed: those of others (18 and later) would be left out."""
    measured = cache(read_time_us=21e6, disk_read_time_us=30e6)
    untimed = {"track_io_timing": "off"}
    found = database_time(interval({"database": DATABASE, "settings": [row("", untimed)], "cache": measured}))
    assert found is not None
    assert (found.source, found.of(FLASH), found.of(DISK), found.of(REST)) == ("database", 21, 30, 49)
    assert "the times of reads that the cache has measured itself (pg_stat_flashcache): track_io_timing is off" in found.words
    some = database_time(interval({"database": DATABASE, "settings": [row("", untimed | {"io_method": "worker"})], "cache": measured}))
    assert some is not None and some.user_io is None and "not known" in some.waits[0].event


def io(process: str, object_: str = "relation", **times: float) -> dict[str, object]:
    return row(f"{process}/{object_}", {"backend_type": process, "object": object_}, **times)


def read_by(process: str, operation: str, requests: float, us: float = 1000) -> dict[str, object]:
    labels = {"backend_type": process, "operation": operation, "bucket": 10, "from_us": us / 2, "to_us": us * 3 / 2}
    return row(f"{process}/{operation}/{us}", labels, count=requests)


def test_io_of_others_is_none_of_database_time() -> None:
    """A vacuum, while sessions do next to nothing: by pg_stat_io; before 16 by the cache; else it is not said what they did."""
    night = {"database": [row("1", {"datname": "shop"}, active_time=40000, blk_read_time=80000, blk_write_time=9000)], "settings": TIMED}
    counted = [io("autovacuum worker", read_time=70000, write_time=8000), io("background worker", read_time=7000),
               io("client backend", read_time=3000, write_time=800, extend_time=200), io("client backend", "wal", write_time=5000),
               io("client backend", "temp relation", read_time=400)]  # fmt: skip
    found = database_time(interval(night | {"io": counted, "cache": cache(read_time_us=1e6)}, version=160000))
    assert found is not None and found.words.endswith("by pg_stat_io")
    assert [found.seconds, found.of(FLASH), found.of(DISK), found.of(REST)] == pytest.approx([40, 1, 3.4, 35.6])

    latency = [read_by("autovacuum worker", "disk read", 60), read_by("parallel worker", "page cache read", 15),
               read_by("client backend", "disk read", 5), read_by("client backend", "flash read", 5), read_by("parallel worker", "flash read", 15),
               read_by("other", "flash write", 9999)]  # fmt: skip
    found = database_time(interval(night | {"flash_latency": latency, "cache": cache(read_time_us=20e6)}))
    assert found is not None and "estimated by the cache's histograms" in found.words
    assert [found.seconds, found.of(FLASH), found.of(DISK), found.of(REST)] == pytest.approx([40, 5, 3.9, 31.1])

    found = database_time(interval(night))
    assert found is not None and (found.seconds, found.user_io) == (40, None) and "most of them are not theirs" in found.words
    words = verdict.of_one(facts(interval(night))).headline
    assert words.startswith("What database time was spent on is not known")
    found = database_time(interval({"database": DATABASE, "settings": TIMED}))
    assert found is not None and found.of(DISK) == 61 and found.words.endswith("autovacuum and parallel workers count as sessions")
    idle = database_time(interval(night | {"io": [io("autovacuum worker", read_time=70000)]}, version=160000))
    assert idle is not None and (idle.user_io, idle.of(REST)) == (0, 40), "known to be none, which is not the same as not known"


WITHOUT: Sections = {"database": DATABASE, "settings": TIMED}
NO_SAMPLES = {"sampled_waits": "no samples"}


def test_samples_of_a_part() -> None:
    """Somebody else's snapshot does not throw them away: they stand for all of the interval, and the report says of how much they are."""
    both = interval(disk() | {"settings": TIMED}, WITHOUT, problems=NO_SAMPLES)
    found = database_time(both)
    assert found is not None and (found.source, found.covered, found.seconds, found.of(DISK)) == ("sampled", 0.5, 200, 142)
    assert found.words.endswith("in 100 looks, which cover 50% of the interval (1 min 40 s) and stand for all of it")
    assert facts(both).missing["sampled_waits"] == "in 1 of 2 snapshots only: no samples"
    said = "What sessions waited for was sampled in 50% of the interval: database time and its shares are taken to be the same in the rest."
    assert said in report.make(both)[0].warnings
    assert f"B: {said}" in diff.make(interval(disk()), both)[0].warnings


def test_samples_go_on_over_snapshots_of_others() -> None:
    """Those of both steps are with the second: none are missing."""
    with_them = disk() | {"settings": TIMED}
    with_them["sampled_waits"] = [row(looks=190, sampled_s=199), row("CPU/", {"event_type": "CPU", "event": ""}, samples=95)]
    both = interval(WITHOUT, with_them, problems=NO_SAMPLES)
    made, found = report.make(both)
    assert found.time is not None and (found.time.source, found.time.seconds, found.time.covered) == ("sampled", 100, 0.995)
    assert "sampled_waits" not in found.missing and not [line for line in made.warnings if "sampled" in line]
    assert found.time.words == "95 samples of sessions at work in 190 looks"
    chart = next(figure for figure in made.figures if figure.id == "waits-over-time")
    assert [(line.name, line.y) for line in chart.series] == [(CPU, [None, 0.5])]
    later = database_time(interval(with_them))
    assert later is not None and later.words.endswith("looks, the first of them from before the interval")


def test_few_samples_and_another_source() -> None:
    """Below a half they are not taken for all of it: what was counted all of the time is, also if it tells no waits."""
    counted = WITHOUT | {"wait_sampling": [row("a", {"event_type": "IO", "event": "DataFileRead"}, count=500)]}
    third = database_time(interval(disk() | counted, counted, counted, problems=NO_SAMPLES))
    assert third is not None and (third.source, third.covered) == ("wait_sampling", 1)
    three = interval(disk() | WITHOUT, WITHOUT, WITHOUT, problems=NO_SAMPLES)
    alone = database_time(three)
    assert alone is not None and (alone.source, alone.seconds) == ("database", 300)
    assert alone.words.endswith("the 100 samples cover only 33% of the interval (1 min 40 s), too little to stand for all of it")
    assert not [line for line in report.make(three)[0].warnings if "taken to be the same" in line]
    nothing = database_time(interval(disk() | {"database": []}, {}, {}, problems=NO_SAMPLES))
    assert nothing is None


@pytest.mark.parametrize(("version", "group"), [(150000, FLASH), (160000, FLASH), (170000, OTHER)])
def test_waits_without_a_name(version: int, group: str) -> None:
    """From 17 on ours have names: `Extension` is not ours there."""
    rows = [row("a", {"event_type": "Extension", "event": "Extension"}, count=1000, all_processes=5000),
            row("b", {"event_type": "Extension", "event": "FlashcacheSingleBlockRead"}, count=500, all_processes=500),
            row("c", {"event_type": "IO", "event": "DataFileSync"}, all_processes=900)]  # fmt: skip
    made, found = report.make(interval({"wait_sampling": rows, "database": DATABASE, "settings": TIMED}, version=version))
    assert found.time is not None
    assert {wait.event: (wait.group, wait.seconds) for wait in found.time.waits if wait.event != "CPU, and what is not sampled"} == {
        "Extension: Extension": (group, 20), "Extension: FlashcacheSingleBlockRead": (FLASH, 10),
    }  # fmt: skip
    words = next(figure for figure in made.figures if figure.id == "waits").conditions
    assert ("have no names" in words) == (version < 170000) and "in doubt it counts as a session" in words


@pytest.mark.parametrize(
    ("event_type", "event", "group"),
    [
        ("CPU", "", CPU), ("IO", "DataFileExtend", DISK), ("IO", "AioIoCompletion", DISK), ("Extension", "Extension", FLASH),
        ("Extension", "FlashcacheMultiBlockRead", FLASH), ("IO", "WALSync", "WAL and commit"), ("IPC", "SyncRep", "WAL and commit"),
        ("LWLock", "BufferMapping", "locks"), ("IO", "AioIoUringExecution", DISK), ("IO", "BufFileWrite", TEMPORARY), ("IO", "BufFileRead", TEMPORARY),
        ("IO", "SlruRead", OTHER), ("IO", "SLRURead", OTHER), ("IO", "DSMFillZeroWrite", OTHER), ("IO", "CopyFileRead", OTHER),
        ("IO", "BaseBackupRead", OTHER), ("IO", "ControlFileSync", OTHER), ("IPC", "ParallelFinish", "other waits"), ("Extension", "PgSleepExtension", "other waits"),
    ],
)  # fmt: skip
def test_classes(event_type: str, event: str, group: str) -> None:
    assert group_of(event_type, event, 150000) == group


def test_the_cache() -> None:
    found = facts(interval(flash(), flash())).cache
    assert found is not None
    assert (found.hits, found.hit_ratio, found.filled, found.flash_read_ms, found.disk_read_ms) == (1800, 0.9, 0.5, 0.1, 5)
    assert found.write_amplification == 2
    later = facts(interval(flash(), version=180001)).cache
    assert later is not None and later.disk_read_ms is None, "only some reads are timed there"


def test_the_rest_counts_for_shares_and_is_no_segment() -> None:
    relations = [
        row("1", {"schema": "public", "name": "a", "kind": "r", "tablespace": "pg_default", "bytes": 8192}, blks_read=30, blks_hit=10),
        row("2", {"schema": "public", "name": "b", "kind": "i", "of": "public.a", "tablespace": "fast"}, blks_read=20),
        row("rest/pg_default", {"tablespace": "pg_default", "rest": 7}, blks_read=50),
    ]
    made, found = report.make(interval({"relations": relations, "database": DATABASE}))
    assert [(item.key, item.get("blks_read")) for item in found.tablespaces] == [("pg_default", 80), ("fast", 20)]
    grid = next(figure.grid for figure in made.figures if figure.id == "segments-by-reads")
    assert grid is not None
    assert grid.rows == [
        ["public.a", "pg_default", "8 kB", "30", "30.0%", "25.0%"],
        ["public.b (index of public.a)", "fast", "-", "20", "20.0%", "0.0%"],
    ]


def written(**blocks: tuple[float, float]) -> Sections:
    """Of each relation: written again, and added. Those of `rest` are of relations that are not listed."""
    rows = [
        row("rest" if name == "rest" else name, {"rest": 3} if name == "rest" else {"schemaname": "public", "relname": name},
            disk_writes=again, disk_extends=added)
        for name, (again, added) in blocks.items()
    ]  # fmt: skip
    return {"flash_relations": [*rows, row("-", {}, disk_writes=10)], "database": DATABASE}


def test_physical_writes() -> None:
    """By all that was written; shares are of all relations."""
    made, found = report.make(interval(written(a=(50, 0), b=(10, 70), c=(0, 0), rest=(60, 0))))
    assert found.pages_written == 190, "the row of everything else is no counter: it takes over what dropped relations had"
    grid = next(figure.grid for figure in made.figures if figure.id == "segments-by-physical-writes")
    assert grid is not None
    assert grid.rows == [
        ["public.b", "80", "42.1%", "10", "70", "0.8"],
        ["public.a", "50", "26.3%", "50", "0", "0.5"],
    ]
    both, _ = diff.make(interval(written(a=(50, 0), rest=(40, 0))), interval(written(a=(10, 0), b=(30, 50)), first=9))
    grid = next(figure.grid for figure in both.figures if figure.id == "segments-by-physical-writes")
    assert grid is not None
    assert grid.rows == [
        ["public.b", "-", "0.8", "-", "-", "88.9%"],
        ["public.a", "0.5", "0.1", "-80%", "55.6%", "11.1%"],
    ]


def test_relations_without_a_place() -> None:
    """Where max_tracked_relations is full, what is listed is not all, and nothing is said to be nothing."""
    counted = [row("1", {"schemaname": "pg_catalog", "relname": "pg_database"}, disk_reads=1),
               row("-", {}, disk_reads=34505, disk_writes=764, disk_extends=382)]  # fmt: skip
    made, _ = report.make(interval({"flash_relations": counted, "cache": cache(disk_reads=34506), "database": DATABASE}))
    figures = {figure.id: figure for figure in made.figures}
    reads, writes = figures["segments-by-unoptimized-reads"], figures["segments-by-physical-writes"]
    assert "those that found no place among pg_flashcache.max_tracked_relations" in reads.conditions
    assert reads.conditions.endswith("have counters of their own had 0.0% of the server's reads from disk.")
    assert writes.missing == "Of no relation of this database that has counters of its own. Pages of others were written."
    made, _ = report.make(interval({"flash_relations": counted[:1], "cache": cache(disk_reads=1), "database": DATABASE}))
    figures = {figure.id: figure for figure in made.figures}
    assert figures["segments-by-unoptimized-reads"].conditions.endswith("had 100% of the server's reads from disk.")
    assert figures["segments-by-physical-writes"].missing.startswith("Nothing was written, or there is no cache")


def test_what_is_not_known_is_no_zero() -> None:
    """Times without track_io_timing, and the size of a relation that was never looked at; pages are pages where operations are counted, too."""

    def shown(version: int, timing: str, **counters: float) -> tuple[list[str], list[str]]:
        counted = row("a", {"backend_type": "client backend", "object": "relation", "context": "normal"}, **counters)
        relations = [row("1", {"schema": "public", "name": "a", "kind": "r", "tablespace": "pg_default", "bytes": 0}, blks_read=30)]
        made, _ = report.make(interval({"io": [counted], "relations": relations, "database": DATABASE, "settings": [row("", {"track_io_timing": timing})]}, version=version))  # fmt: skip
        grids = {figure.id: figure.grid.rows[0] for figure in made.figures if figure.grid}
        return grids["io"][3:6], grids["segments-by-reads"][:4]

    assert shown(160000, "off", reads=1305, writes=2) == (["1,305", "-", "2"], ["public.a", "pg_default", "-", "30"])
    assert shown(180000, "on", reads=1305, read_time=7, read_bytes=3908 * 8192, writes=2, write_bytes=5 * 8192)[0] == ["3,908", "7 ms", "5"]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [(100, 50, "-50%"), (100, 102.5, "+2.5%"), (0, 3, "new"), (0, 0, "0%"), (None, 3, "-"), (1, 2001, "+200,000%")],
)
def test_change(before: float | None, after: float | None, words: str) -> None:
    assert relative(before, after) == words


NASTY = "SELECT '</script><img src=x onerror=alert(1)>' | `x`"


def test_names_and_statements_are_text() -> None:
    sections = flash() | {
        "statements": [row("1", {"query": NASTY, "datname": "<b>"}, calls=1, total_exec_time=5)],
        "relations": [row("1", {"schema": "</script>", "name": "a|b", "kind": "r", "tablespace": "<i>"}, blks_read=3)],
    }
    made, _ = report.make(interval(sections))
    html = render.html(made)
    body = html[html.rindex("</head>") :]
    assert "<img" not in body and "<b>&lt;b" not in body and body.count("</script>") == 1
    markdown = render.markdown(made)
    assert "&lt;img src=x" in markdown and "a\\|b" in markdown and "\\`x\\`" in markdown
    widths = {line.replace("\\|", "").count("|") for line in markdown.splitlines() if line.startswith("| ") and "&lt;img" in line}
    assert widths == {8}


def test_a_report_in_one_piece() -> None:
    made, found = report.make(interval(flash(), flash()))
    html = render.html(made)
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=", html[html.rindex("</head>") :]), "nothing is fetched"
    assert 'id="chart-waits" data-series="1"' in html and 'id="chart-reads-over-time" data-series="2"' in html
    drawn = next(figure for figure in made.figures if figure.id == "reads-over-time")
    chart = json.loads(charts.as_json(drawn))
    assert chart["layout"]["xaxis"]["type"] == "date", "of numbers it would show nothing"
    assert [(line["name"], line["x"]) for line in chart["data"]] == [
        (name, ["2026-11-26 02:01:40", "2026-11-26 02:03:20"]) for name in ("from flash", "from disk")
    ]
    values = json.loads(json.dumps(found.as_json()))
    assert (values["user_io_share"], values["cache"]["hits"], values["transactions"]) == (0.12, 1800, 2000)


def test_side_by_side() -> None:
    made, values = diff.make(interval(disk() | {"settings": [row("", {"pg_flashcache.size": "0"})]}),
                             interval(flash() | {"settings": [row("", {"pg_flashcache.size": "64GB"})]}, seconds=50, first=8))  # fmt: skip
    grids = {figure.id: figure.grid.rows for figure in made.figures if figure.grid}
    assert grids["settings"] == [["pg_flashcache.size", "0", "64GB"]]
    assert ["user I/O, disk", "71%", "4.0%", "-67", "0.71", "0.04"] in grids["waits"]
    assert ["transactions a second", "10", "20", "+100%"] in grids["load"]
    assert ["pages read from flash a second", "0", "18", "new"] in grids["load"]
    assert {"name": "transactions a second", "a": 10, "b": 20, "change": "+100%"} in values["changes"]
    assert 'data-series="2"' in render.html(made)


def test_side_by_side_beyond_the_first() -> None:
    """What is among the first in one interval is looked for among all of the other; what the snapshots lack is not known."""

    def load(*most: int, rest: bool = False) -> Sections:
        names = range(30)
        found: Sections = {
            "relations": [row(f"{n}", {"schema": "s", "name": f"r{n:02}"}, blks_read=900 if n in most else 100) for n in names],
            "flash_relations": [
                row(f"{n}", {"schemaname": "s", "relname": f"r{n:02}"}, disk_writes=900 if n in most else 100) for n in names
            ],
            "statements": [row(f"{n}", {"query": f"q{n:02}"}, calls=10, total_exec_time=900 if n in most else 100) for n in names],
        }
        if rest:
            for name, counter in (("relations", "blks_read"), ("flash_relations", "disk_writes")):
                found[name] = [one for one in found[name] if one["key"] != "29"] + [row("rest", {"rest": 1}, **{counter: 7})]
        return found

    def shown(a: Sections, b: Sections) -> dict[str, list[list[str]]]:
        made, values = diff.make(interval(a), interval(b, first=9))
        assert len(values["a"]["reads"]) <= 20
        grids = {figure.id: figure.grid.rows for figure in made.figures if figure.grid}
        return {name: [line for line in grids[name] if "29" in line[0]] for name in grids}

    found = shown(load(), load(29))
    assert found["segments-by-reads"] == [["s.r29", "1", "9", "+800%"]]
    assert found["segments-by-physical-writes"] == [["s.r29", "1", "9", "+800%", "3.3%", "23.7%"]]
    assert [line[:4] for line in found["statements"]] == [["q29", "10 ms", "90 ms", "+800%"]]
    found = shown(load(rest=True), load(29))
    assert found["segments-by-reads"] == [["s.r29", "-", "9", "-"]]
    assert [line[:5] for line in found["segments-by-physical-writes"]] == [["s.r29", "-", "9", "-", "-"]]


def test_side_by_side_of_what_is_not_known() -> None:
    """Time of which nothing is known is not said to be the processor's."""
    untimed: Sections = {"database": DATABASE, "settings": [row("", {"track_io_timing": "off"})]}
    made, _ = diff.make(interval(untimed), interval(untimed, first=9))
    waits_ = next(figure for figure in made.figures if figure.id == "waits")
    assert waits_.grid is not None and waits_.grid.rows == [["not known", "100%", "100%", "+0", "1", "1"]]


def test_flash_that_is_slower_than_what_it_replaces() -> None:
    """Whatever else the headline says; and B's, not A's."""
    sections = flash()
    sections["cache"] = [
        row("", {"state": "active", "slots": 1000, "used": 500, "verdict": "the page cache answers"}, hits=900, misses=100, disk_reads=100,
            read_time_us=482400, disk_read_time_us=1020),
    ]  # fmt: skip
    found = verdict.of_one(facts(interval(sections)))
    assert found.verdict == "no"
    assert found.headline.endswith("but flash was slower than what it replaces (0.536 ms a page, the disk 0.0102 ms).")
    assert (
        "Reads that flash answered took longer than those that it did not. The view pg_stat_flashcache says: the page cache answers."
        in found.sentences
    )
    two = verdict.of_two(facts(interval(disk())), facts(interval(sections)))
    assert two.verdict == "no" and "flash was slower in B than what it replaces" in two.headline
    assert "slower" not in verdict.of_two(facts(interval(sections)), facts(interval(flash()))).headline
    assert verdict.of_one(facts(interval(flash()))).verdict == "buy"


def test_reads_from_disk_are_not_zero_without_a_cache() -> None:
    """They are not counted there: the line is left out, as is the chart."""
    without = {**disk(), "cache": [row("", {"state": "disabled", "slots": 0})]}
    names = {change["name"] for change in diff.make(interval(without), interval(flash()))[1]["changes"]}
    assert "pages read from flash a second" in names and not {name for name in names if name.startswith("pages read from disk")}
    both = {change["name"] for change in diff.make(interval(disk()), interval(flash()))[1]["changes"]}
    assert {"pages read from disk a second", "pages read from disk a transaction"} <= both
    made, _ = report.make(interval(without))
    assert next(figure for figure in made.figures if figure.id == "reads-over-time").series == []


def test_nested_statements() -> None:
    rows = [
        row("10/5/-42/false", {}, calls=1, disk_reads=3), row("10/5/-43/true", {}, calls=1, disk_reads=2),
        row("10/5/44/false", {"query": "SELECT 1"}, calls=1, disk_reads=1),
    ]  # fmt: skip
    made, _ = report.make(interval({**disk(), "flash_statements": rows}))
    figure = next(figure for figure in made.figures if figure.id == "statements-by-disk")
    assert figure.grid is not None
    assert [cells[0] for cells in figure.grid.rows] == [
        "nested statement, query identifier -42, text not known", "statement, query identifier -43, text not known", "nested: SELECT 1",
    ]  # fmt: skip
    assert "do not add up" in figure.conditions


def test_why_no_statements() -> None:
    """The settings of the last snapshot say it, unless the section itself is missing."""
    off = "Statements were not counted: pg_flashcache.track_statements is off."
    none = "Statements were not counted: they had no query identifiers (compute_query_id is {})."
    cases = [
        ("off", "on", off), ("auto", "auto", none.format("auto")), ("auto", "regress", none.format("regress")), ("auto", "off", none.format("off")),
        ("on", "off", none.format("off")), ("auto", "on", "Nothing was counted."), ("on", "auto", "Nothing was counted."),
    ]  # fmt: skip
    for track, identifiers, words in cases:
        settings = [row("", {"pg_flashcache.track_statements": track, "compute_query_id": identifiers})]
        made, _ = report.make(interval({**disk(), "flash_statements": [], "settings": settings}))
        assert next(figure for figure in made.figures if figure.id == "statements-by-disk").missing.startswith(words), (track, identifiers)
        counted = [row("10/5/-43/true", {}, calls=1, disk_reads=2)]
        made, _ = report.make(interval({**disk(), "flash_statements": counted, "settings": settings}))
        assert not next(figure for figure in made.figures if figure.id == "statements-by-disk").missing
    made, _ = report.make(interval(disk(), problems={"flash_statements": "no such view"}))
    assert next(figure for figure in made.figures if figure.id == "statements-by-disk").missing == "No such view."


def test_advice() -> None:
    """Of the last snapshot, by size; without it, why."""
    sizes = [
        row(f"{kind}/{factor}", {"kind": kind, "factor": factor, "size": int(8192 * 1000 * factor), "is_current": factor == 1, "hit_ratio": 0.5,
                                 "disk_reads_per_s": 12.0, "read_time_us": 250, **({"write_bytes_per_day": 8192} if kind == "flash" else {})})
        for kind in ("shared_buffers", "flash") for factor in (2, 1)
    ]  # fmt: skip
    older = [row("flash/4", {"kind": "flash", "factor": 4, "size": 1, "is_current": True})]
    made, found = report.make(interval({"advice": older}, {"advice": sizes}))
    (figure,) = (one for one in made.figures if one.id == "advice")
    assert figure.grid and [cells[:2] for cells in figure.grid.rows] == [
        ["flash", "7.81 MB (as it is)"], ["flash", "15.6 MB"], ["shared_buffers", "7.81 MB (as it is)"], ["shared_buffers", "15.6 MB"],
    ]  # fmt: skip
    assert figure.grid.rows[0][2:] == ["50%", "12", "0.25 ms", "8 kB"] and figure.grid.rows[2][5] == "-"
    assert [row.label("kind") for row in found.advice] == ["flash", "flash", "shared_buffers", "shared_buffers"]
    cases: list[tuple[Sections, str]] = [
        ({"advice": []}, "pg_flashcache.advice is off, or nothing was read."),
        ({}, "Not in these snapshots."),
    ]
    for sections, words in cases:
        made, _ = report.make(interval(sections))
        assert [one.missing for one in made.figures if one.id == "advice"] == [words]
