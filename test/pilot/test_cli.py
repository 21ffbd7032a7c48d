"""The commands as a user or a program calls them: output, errors, exit status."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pgflash.pilot.scenario import shipped
from pgflash.system import is_root

from .conftest import MINIMAL


def pgflash(*arguments: str | Path, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pgflash", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env={**os.environ, **(env or {})}, check=False)


def write(folder: Path, text: str, name: str = "mine") -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


def test_a_wrong_scenario(tmp_path: Path) -> None:
    path = write(tmp_path, MINIMAL.replace('"pgbench-select"', '"select"').replace("duration_s = 2", "duration_s = 0"))
    done = pgflash("pilot", "run", path, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "load.kind: 'select' is not known; allowed: pgbench-select," in done.stderr
    assert "duration_s: 0 will not do; allowed: a whole number from 1 to 86400" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(item.name for item in tmp_path.iterdir()) == ["mine.toml"], "nothing was started"


def test_a_wrong_scenario_in_json(tmp_path: Path) -> None:
    path = write(tmp_path, MINIMAL.replace("duration_s = 2", "duration_s = 0"))
    done = pgflash("pilot", "run", path, "--json", cwd=tmp_path)
    error = json.loads(done.stdout)
    assert (done.returncode, error["exit"], error["kind"]) == (2, 2, "scenario")
    assert error["faults"] == ["duration_s: 0 will not do; allowed: a whole number from 1 to 86400"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "quick", "--bogus"), "No such option: --bogus"),
        (("run", "quick", "--repetitions", "0"), "--repetitions"),
        (("run", "quick", "--warm-up", "long"), "--warm-up"),
        (("run",), "Missing argument"),
        (("run", "quick", "--check", "--endurance", "much"), "'much' will not do; allowed: "),
        (("report", "/nowhere", "--endurance", "much"), "'much' will not do; allowed: "),
        (("run", "quick", "--check", "--operation-price", "much"), "'much' will not do; allowed: "),
        (("report", "/nowhere", "--operation-price", "0 USD"), "'0 USD' will not do; allowed: "),
        (("compare", "a"), "Missing argument"),
        (("compare", "a", "b", "--fail-if-slower", "-1"), "--fail-if-slower"),
        (("list", "--bogus"), "No such option: --bogus"),
        (("restore",), "Missing argument"),
        (("bogus",), "No such command"),
    ],
)
def test_wrong_arguments_in_json(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    """Errors included: those too that are found before a command begins, wherever --json stands."""
    for order in ([*arguments, "--json"], [arguments[0], "--json", *arguments[1:]]):
        done = pgflash("pilot", *order, cwd=tmp_path)
        error = json.loads(done.stdout)
        assert (done.returncode, error["event"], error["kind"], error["exit"]) == (2, "error", "argument", 2)
        assert said in error["message"]
        assert "--help" in error["hint"]
    people = pgflash("pilot", *arguments, cwd=tmp_path)
    assert (people.returncode, people.stdout) == (2, "")
    assert "Usage: pgflash pilot" in people.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_status_in_json(tmp_path: Path, recorded: Path) -> None:
    """What is no error keeps its exit status, and its output."""
    helped = pgflash("pilot", "run", "--json", "--help", cwd=tmp_path)
    assert (helped.returncode, helped.stdout.lstrip().startswith("Usage: pgflash pilot run")) == (0, True)
    assert json.loads(pgflash("pilot", "compare", recorded, recorded, "--json", cwd=tmp_path).stdout)["rows"]


def test_two_of_the_same_name(tmp_path: Path) -> None:
    path = write(tmp_path, MINIMAL)
    done = pgflash("pilot", "run", path, path, cwd=tmp_path)
    assert done.returncode == 2
    assert "mine: is given twice" in done.stderr


def test_no_such_server(tmp_path: Path) -> None:
    text = MINIMAL + f'[disk]\nkind = "path"\npath = "{tmp_path}"\n[server]\nbin = "{tmp_path}"\n'
    done = pgflash("pilot", "run", write(tmp_path, text), cwd=tmp_path)
    assert done.returncode == 3
    assert f"there is no {tmp_path}/postgres: PostgreSQL 15 is not here" in done.stderr


def test_a_driver_that_is_missing(tmp_path: Path) -> None:
    """Said before anything starts: a PATH without sysbench."""
    for name in ("postgres", "initdb", "pg_config"):
        (tmp_path / name).touch()
    text = MINIMAL.replace('kind = "pgbench-select"\nscale = 1', 'kind = "sysbench-read-only"')
    text += f'[disk]\nkind = "path"\npath = "{tmp_path}"\n[server]\nbin = "{tmp_path}"\n'
    done = pgflash("pilot", "run", write(tmp_path, text), cwd=tmp_path, env={"PATH": str(tmp_path)})
    assert done.returncode == 3
    assert "the load needs sysbench (Debian: sysbench), which this machine does not have" in done.stderr
    assert not (tmp_path / "pgflash-studies").exists()


def test_a_plotting_library_that_is_missing(tmp_path: Path) -> None:
    """Said before anything starts, not when the report is due."""
    (tmp_path / "plotly.py").write_text('raise ImportError("no plotly here")\n')
    done = pgflash("pilot", "run", write(tmp_path, MINIMAL), cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 3
    assert "error: the report cannot be written: no plotly here" in done.stderr
    assert "--no-report" in done.stderr
    assert not (tmp_path / "pgflash-studies").exists()


@pytest.mark.skipif(is_root(), reason="as root there is nothing to refuse")
def test_the_lab_needs_root(tmp_path: Path) -> None:
    done = pgflash("pilot", "run", "one-to-thirty", cwd=tmp_path)
    assert done.returncode == 3
    assert "that needs root" in done.stderr
    assert 'hint: run the same command as root (sudo), or name real storage: kind = "path"' in done.stderr


def test_a_server_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "one.sql").write_text("SELECT 1;")
    text = '[load]\nkind = "script"\nscript = "one.sql"\nwrites = false\n[server]\ndsn = "host=127.0.0.1 port=1 dbname=x"\n[[arm]]\nname = "as-it-is"\n'
    for option in ([], ["--check"]):
        done = pgflash("pilot", "run", write(tmp_path, text), *option, cwd=tmp_path)
        assert done.returncode == 7
        assert "the server cannot be reached" in done.stderr
    assert not (tmp_path / "pgflash-studies").exists(), "nothing was started"


@pytest.mark.parametrize(
    ("words", "dsn"),
    [
        (("doctor", "{}"), "host=/nowhere password=se cret"), (("snapshot", "--dsn", "{}"), "postgresql://me:se@cret@nowhere.invalid/x"),
        (("report", "--dsn", "{}", "1", "2"), "host=/nowhere password='cret"), (("place", "status", "{}"), "host=/nowhere password=se cret"),
        (("top", "{}", "--once"), "postgresql://me:se@cret@nowhere.invalid/x"),
    ],
)  # fmt: skip
def test_a_wrong_connection_string_is_not_quoted(tmp_path: Path, words: tuple[str, ...], dsn: str) -> None:
    done = pgflash(*(word.format(dsn) for word in words), cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "connection string 1 is none" in done.stderr and "cret" not in done.stdout + done.stderr


@pytest.mark.parametrize("words", [("doctor", "{}"), ("snapshot", "--dsn", "{}")])
def test_what_libpq_says_is_legible(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = pgflash(*(word.format("host=/nowhere") for word in words), cwd=tmp_path)
    assert done.returncode == 7 and "Is the server running locally" in done.stderr and "\\x" not in done.stderr


def test_list(tmp_path: Path, recorded: Path) -> None:
    done = pgflash("pilot", "list", "--json", recorded.parent, cwd=tmp_path)
    listed = json.loads(done.stdout)
    assert done.returncode == 0
    assert [item["name"] for item in listed["scenarios"]] == list(shipped())
    (study,) = listed["studies"]
    assert (study["study"], study["runs"] == study["runs_wanted"]) == (str(recorded), True)
    assert "one-to-thirty" in pgflash("pilot", "list", cwd=tmp_path).stdout


def test_report(tmp_path: Path, recorded: Path) -> None:
    done = pgflash("pilot", "report", recorded, "--out", tmp_path / "out", "--json", cwd=tmp_path)
    assert done.returncode == 0
    written = json.loads(done.stdout)
    assert Path(written["html"]).stat().st_size > 1_000_000
    assert Path(written["md"]).read_text().startswith("# Will flash help?")


def test_report_of_nothing(tmp_path: Path) -> None:
    done = pgflash("pilot", "report", tmp_path, cwd=tmp_path)
    assert done.returncode == 5
    assert f"{tmp_path} is no study" in done.stderr


def test_compare_with_itself(tmp_path: Path, recorded: Path) -> None:
    done = pgflash("pilot", "compare", recorded, recorded, "--json", "--fail-if-slower", "0", cwd=tmp_path)
    result = json.loads(done.stdout)
    assert done.returncode == 0
    assert {row["ratio"] for row in result["rows"]} == {1.0}
    assert (result["only_a"], result["only_b"], result["conditions_that_differ"]) == ([], [], [])


def test_compare_with_a_slower_one(tmp_path: Path, recorded: Path) -> None:
    slower = tmp_path / "slower"
    (slower / "scenarios").mkdir(parents=True)
    for path in (recorded / "scenarios").iterdir():
        (slower / "scenarios" / path.name).write_text(path.read_text())
    lines = [json.loads(line) for line in (recorded / "runs.jsonl").read_text().splitlines()]
    for line in lines:
        if line["kind"] == "run":
            line["average_ms"] *= 1000
    (slower / "runs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = pgflash("pilot", "compare", recorded, slower, "--fail-if-slower", "50", cwd=tmp_path)
    assert done.returncode == 6
    assert "slower: " in done.stderr
    in_json = pgflash("pilot", "compare", recorded, slower, "--fail-if-slower", "50", "--json", cwd=tmp_path)
    assert (in_json.returncode, len(json.loads(in_json.stdout)["rows"]) > 0) == (6, True)
    assert pgflash("pilot", "compare", slower, recorded, "--fail-if-slower", "50", cwd=tmp_path).returncode == 0
    assert pgflash("pilot", "compare", recorded, slower, cwd=tmp_path).returncode == 0


def test_check_starts_nothing(tmp_path: Path) -> None:
    done = pgflash("pilot", "run", "nonesuch", "--check", cwd=tmp_path)
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_version(tmp_path: Path) -> None:
    assert pgflash("--version", cwd=tmp_path).stdout.startswith("pgflash ")


def test_installed_by_pip(tmp_path: Path) -> None:
    """Not from the checkout: what travels with the package is all there."""
    root = Path(__file__).parents[2]
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(root / name, source)
    shutil.copytree(root / "pgflash", source / "pgflash", ignore=shutil.ignore_patterns("__pycache__"))
    there = tmp_path / "there"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target", str(there), str(source)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    shutil.rmtree(source)
    for name in (
        "lab/slowdisk.c",
        "lab/slowread.c",
        "pilot/report/report.html.j2",
        "pilot/loads/go-tpc/go.sum",
        "py.typed",
    ):
        assert (there / "pgflash" / name).is_file(), name
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for name in ("pg_flashcache.control", "Makefile"):
        shutil.copy(root / name, checkout)
    code = "import pgflash.lab.extension as e; print(e.__file__, e.checkout())"
    for folder, found in ((tmp_path, None), (checkout, checkout)):
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env={**os.environ, "PYTHONPATH": str(there)}, check=True)
        assert done.stdout.split() == [str(there / "pgflash" / "lab" / "extension.py"), str(found)]
