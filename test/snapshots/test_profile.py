"""With pg_profile: samples and snapshots taken together, and its report with ours in it. A stand-in has its place: stand_ins.py."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pilot.test_browser import browse

from pgflash.errors import BrokeOff, PgflashError
from pgflash.pilot.report.model import Figure, Grid, Series, Verdict
from pgflash.snapshots import diff, profile
from pgflash.snapshots import report as reports
from pgflash.snapshots.report import Report

from .conftest import Database
from .made_up import interval
from .test_server import refused, report

SPLICE = re.compile(r"<script>data\.sections\.splice\((\d+), 0, (.*?)\);</script>")


def parts(page: str) -> tuple[str, int, dict[str, Any]]:
    """pg_profile's page as it was; the place of our section among its sections; our section."""
    found = SPLICE.search(page)
    assert found, page[:500]
    return SPLICE.sub("", page), int(found[1]), json.loads(found[2])


def work(database: Database, calls: int) -> None:
    """Slow enough to be among the top statements, whatever else the server does."""
    for _ in range(calls):
        database.sql("SELECT 4713 AS counted FROM pg_sleep(0.1)")


def test_a_sample_with_each_snapshot(stand_ins: Database) -> None:
    """pg_profile resets what it has read: that is counted from zero, more than before it included, and nobody is warned of it."""
    database = stand_ins
    # Texts of other databases may be none in this encoding (test_names): pg_stat_statements then answers nobody here.
    database.sql(
        "CREATE EXTENSION pg_stat_statements",
        "SELECT pg_stat_statements_reset()",
        "INSERT INTO ws VALUES (1, 'IO', 'DataFileRead', 5, 100)",
    )
    work(database, 3)
    assert database.pgflash("snapshot", "--pg-profile").stdout == "snapshot 1\n"
    assert database.sql("SELECT count(*) FROM ws") == "0"
    work(database, 5)
    database.sql("INSERT INTO ws VALUES (1, 'IO', 'DataFileRead', 5, 130)")
    assert database.pgflash("snapshot", "--pg-profile").stdout == "snapshot 2\n"
    assert database.sql("SELECT string_agg(sample::text, ',' ORDER BY sample) FROM taken") == "1,2"
    rows = database.sql(
        "SELECT snapshot, data -> 0 -> 'labels' ->> 'sample' FROM pg_flashcache_snapshot_data WHERE section = 'pg_profile' ORDER BY 1"
    )
    assert rows == "1|1\n2|2"
    found = report(database, "report", "1", "2")
    assert found["resets"] == [] and not any("reset" in line for line in found["warnings"])
    assert [row["moved"]["calls"] for row in found["statements"] if row["labels"]["query"] == "SELECT $1 AS counted FROM pg_sleep($2)"] == [
        5
    ]
    assert [wait["seconds"] for wait in found["time"]["waits"] if wait["event"] == "IO: DataFileRead"] == [1.3]


def test_a_reset_by_others_is_told(stand_ins: Database) -> None:
    stand_ins.sql("CREATE EXTENSION pg_stat_statements")
    stand_ins.pgflash("snapshot", "--pg-profile")
    stand_ins.sql("SELECT pg_stat_statements_reset()")
    stand_ins.pgflash("snapshot", "--pg-profile")
    assert report(stand_ins, "report", "1", "2")["resets"] == []  # of what was empty nothing is lost
    work(stand_ins, 1)
    stand_ins.pgflash("snapshot")
    stand_ins.sql("SELECT pg_stat_statements_reset()")
    work(stand_ins, 1)
    stand_ins.pgflash("snapshot", "--pg-profile")
    assert report(stand_ins, "report", "3", "4")["resets"] == ["statements"]


def test_a_sample_that_fails(stand_ins: Database) -> None:
    """pg_profile raises no error: the result says it. Of this server both are taken or neither; others are reported."""
    database = stand_ins
    database.sql("UPDATE results SET result = E'division by zero\\nCONTEXT: somewhere'")
    status, message, hint = refused(database, "snapshot", "--pg-profile")
    assert (status, message) == (4, "no snapshot was taken: pg_profile's sample failed: division by zero") and "take_sample()" in hint
    database.sql("DELETE FROM results", "INSERT INTO results VALUES ('far', 'OK')")
    status, message, hint = refused(database, "snapshot", "--pg-profile")
    assert (status, message) == (3, "pg_profile takes no samples of this server, local") and hint == "SELECT public.enable_server('local')"
    assert database.sql("SELECT (SELECT count(*) FROM pg_flashcache_snapshots), (SELECT count(*) FROM taken)") == "0|0"
    database.sql(
        "INSERT INTO results VALUES ('local', 'OK')", "UPDATE results SET result = E'cannot connect\\nCONTEXT: x' WHERE server = 'far'"
    )
    done = database.pgflash("snapshot", "--pg-profile")
    assert (done.returncode, done.stdout, done.stderr) == (0, "snapshot 1\n", "pg_profile, server far: cannot connect\n")
    values = json.loads(database.pgflash("snapshot", "--pg-profile", "--json").stdout)
    assert values["id"] == 2 and values["missing"]["pg_profile"] == "pg_profile, server far: cannot connect"
    assert database.sql("SELECT count(*) FROM taken") == "2"


def test_without_pg_profile(database: Database, tmp_path: Path) -> None:
    for words in (("snapshot", "--pg-profile"), ("report", "1", "2", "--pg-profile", "--html", str(tmp_path / "r.html"))):
        if words[0] == "report":
            database.sql("SELECT pg_flashcache_snapshot()", "SELECT pg_flashcache_snapshot()")
        status, message, _ = refused(database, *words)
        assert (status, message) == (3, "the extension pg_profile is not in this database")
    assert not list(tmp_path.iterdir())


def test_a_report(stand_ins: Database, tmp_path: Path) -> None:
    """The page is pg_profile's, of the samples that belong to the snapshots, and shows our tables; a browser draws it."""
    database = stand_ins
    database.sql("INSERT INTO taken SELECT 40, now() - interval '1 day'")
    for _ in range(3):
        database.pgflash("snapshot", "--pg-profile")
    page = tmp_path / "r.html"
    found = report(database, "report", "1", "3", "--pg-profile", "--html", str(page), "--markdown", str(tmp_path / "r.md"))
    assert found["pg_profile"] == [[41, 43]] and found["written"] == {"html": str(page), "markdown": str(tmp_path / "r.md")}
    theirs, place, ours = parts(page.read_text())
    assert theirs == database.sql("SELECT get_report(41, 43)")
    assert place == 1 and ours["sect_id"] == "pg_flashcache" and found["verdict"]["headline"] in ours["content"]["text"]
    ids = [one["sect_id"] for one in ours["sections"]]
    assert ids[:2] == ["pg_flashcache_waits", "pg_flashcache_waits-over-time"] and "pg_flashcache_cache" in ids
    assert "pg_flashcache_load" not in ids and "pg_flashcache_statements" not in ids, "pg_profile has these"
    drawn = browse(tmp_path, page, "--dump-dom")
    assert drawn.index("Report details") < drawn.index("Flash cache, by pg_flashcache") < drawn.index('id="srvstat"')
    assert "<td>state at the end</td><td>active</td>" in drawn
    compared = report(database, "diff", "1..2", "2..3", "--pg-profile", "--html", str(page))
    assert compared["pg_profile"] == [[41, 42], [42, 43]]
    theirs, place, ours = parts(page.read_text())
    assert theirs == database.sql("SELECT get_diffreport(41, 42, 42, 43)") and place == 1
    of_ours = ("waits", "cache", "latency", "segments-by-physical-writes")
    assert [one["sect_id"] for one in ours["sections"]] == [f"pg_flashcache_{name}" for name in of_ours]


def test_samples_that_do_not_belong(stand_ins: Database, tmp_path: Path) -> None:
    database, page = stand_ins, str(tmp_path / "r.html")
    database.sql("SELECT pg_flashcache_snapshot()", "SELECT pg_flashcache_snapshot()")
    status, message, hint = refused(database, "report", "1", "2", "--pg-profile")
    assert (status, message) == (2, "--pg-profile goes with --html") and "FILE" in hint
    status, message, hint = refused(database, "report", "1", "2", "--pg-profile", "--html", page)
    assert (status, message) == (2, "pg_profile has no sample that was taken with snapshot 1") and "pgflash snapshot --pg-profile" in hint
    # one that somebody else has taken, a few seconds later; another is too far away
    database.sql("UPDATE pg_flashcache_snapshots SET taken_at = '2026-01-01 00:00 UTC'::timestamptz + id * interval '1 hour'")
    database.sql("INSERT INTO taken VALUES (5, '2026-01-01 01:00:09 UTC'), (6, '2026-01-01 02:01:01 UTC')")
    assert (
        refused(database, "report", "1", "2", "--pg-profile", "--html", page)[1]
        == "pg_profile has no sample that was taken with snapshot 2"
    )
    database.sql("INSERT INTO taken VALUES (7, '2026-01-01 01:59:30 UTC')")
    assert report(database, "report", "1", "2", "--pg-profile", "--html", page)["pg_profile"] == [[5, 7]]
    said = parts(Path(page).read_text())[2]["content"]["text"]
    assert (
        "Sample 5 of pg_profile was taken 9 s away from snapshot 1.<br>Sample 7 of pg_profile was taken 30 s away from snapshot 2." in said
    )
    database.sql("UPDATE pg_flashcache_snapshots SET taken_at = '2026-01-01 01:00:20 UTC' WHERE id = 2")
    status, message, _ = refused(database, "report", "1", "2", "--pg-profile", "--html", page)
    assert (status, message) == (2, "snapshots 1 and 2 belong to the same sample of pg_profile, 5")
    database.pgflash("snapshot", "--pg-profile")
    database.pgflash("snapshot", "--pg-profile")
    database.sql("DELETE FROM taken WHERE sample = 8")
    status, message, hint = refused(database, "report", "3", "4", "--pg-profile", "--html", page)
    assert (status, message) == (
        2,
        "sample 8 of pg_profile, which was taken with snapshot 3, is not there any more",
    ) and "max_sample_age" in hint


def test_reports_of_another_form(stand_ins: Database, tmp_path: Path) -> None:
    database, page = stand_ins, tmp_path / "r.html"
    for _ in range(2):
        database.pgflash("snapshot", "--pg-profile")
    database.sql("UPDATE pg_extension SET extversion = '4.3' WHERE extname = 'pg_profile'")
    status, message, hint = refused(database, "report", "1", "2", "--pg-profile", "--html", str(page))
    assert (status, message) == (3, "pg_profile 4.3 makes reports of another form") and "4.4" in hint
    database.sql("UPDATE pg_extension SET extversion = '5.0' WHERE extname = 'pg_profile'")
    database.sql("CREATE OR REPLACE FUNCTION page(data jsonb) RETURNS text LANGUAGE sql AS $$ SELECT '<html>' $$")
    status, message, hint = refused(database, "report", "1", "2", "--pg-profile", "--html", str(page))
    assert (status, message) == (4, "pg_profile's report has another form than is known") and hint == "leave --pg-profile out"
    assert not list(tmp_path.iterdir())


def made(figures: list[Figure] | None = None) -> Report:
    found = Report("</script><b>", "sub", Verdict("open", "head <i>", ["one & two"]), figures=figures or [])
    found.warnings, found.notes = ["\x1bwarned"], ["noted"]
    return found


@pytest.mark.parametrize(
    "page",
    ["", "<script>const data=</script>", "<script>const data={</script>", "<script>const data={}</script>",
     '<script>const data={"sections": []};</script>', '<script>const data={"sections": [1]}</script>', '<script>const data={"sections": 5}</script>'],
)  # fmt: skip
def test_a_page_that_is_not_known(page: str) -> None:
    with pytest.raises(PgflashError) as error:
        profile.with_ours(page, made())
    assert isinstance(error.value, BrokeOff)


def test_what_is_markup_and_what_is_not() -> None:
    figure = Figure("x", "Title <", "Question?", grid=Grid(["", "a & b"], [["</script><b>", "1"]]), conditions="when <")
    page = '<script>const data={"sections": [{"sect_id": "other"}]}</script><p>'
    theirs, place, ours = parts(profile.with_ours(page, made([figure])))
    assert theirs == page and place == 1
    assert profile.with_ours(page, made([figure])).count("</script>") == 2, "nothing in it ends the script"
    assert ours["content"]["text"] == (
        "<div><b>head &lt;i&gt;</b><br>one &amp; two<br><i>\\x1bwarned</i><br>&lt;/script&gt;&lt;b&gt;: sub<br>noted</div>"
    )
    (one,) = ours["sections"]
    assert (one["tbl_cap"], one["content"]["text"]) == ("Title &lt;", "<div>Question?<br>when &lt;</div>")
    assert [column["caption"] for column in one["header"][0]["columns"]] == ["&nbsp;", "a &amp; b"]
    assert one["data"] == [[{"c0": "</script><b>", "c1": "1"}]]


def test_what_is_a_chart_in_our_report_is_a_table() -> None:
    figure = Figure("x", "T", "Q", x_title="at", series=[Series("a", ["1", "2"], [1.0, None]), Series("b", ["2"], [3.0])])
    (one,) = profile.section(made([figure]))["sections"]
    assert [column["caption"] for column in one["header"][0]["columns"]] == ["at", "a", "b"]
    assert [list(row.values()) for row in one["data"][0]] == [["1", "1", "-"], ["2", "-", "3"]]


def test_sections_that_pg_profile_has() -> None:
    """Each of them is one of ours."""
    single, _ = reports.make(interval({}))
    both, _ = diff.make(interval({}), interval({}))
    assert {figure.id for figure in [*single.figures, *both.figures]} >= profile.THEIRS
