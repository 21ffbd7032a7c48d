"""The file that results are saved in, and what is left of it when somebody pulls the plug."""

from __future__ import annotations

import errno
import json
import subprocess
from pathlib import Path

import pytest

from pgflash.errors import DiskFull, StudyError
from pgflash.pilot.scenario import Scenario, parse_scenario
from pgflash.pilot.store import RUNS, Writer, open_study, read_lines, step_key
from pgflash.system import is_root

from .conftest import MINIMAL

RUN = {"scenario": "minimal", "variant": "disk", "clients": 2, "repetition": 1}


def test_a_line_is_there_as_soon_as_it_is_added(tmp_path: Path, minimal: Scenario) -> None:
    writer = Writer(tmp_path / "study")
    writer.open([minimal])
    writer.add("run", **RUN, tps=1.5)
    line = json.loads((tmp_path / "study" / RUNS).read_text())
    assert (line["kind"], line["tps"], step_key(line)) == ("run", 1.5, ("minimal", "disk", 2, 1))
    writer.close()
    assert open_study(tmp_path / "study").scenarios["minimal"].digest == minimal.digest


def test_a_line_cut_short_is_dropped_and_the_next_one_is_whole(tmp_path: Path, minimal: Scenario) -> None:
    writer = Writer(tmp_path)
    writer.open([minimal])
    writer.add("run", **RUN)
    writer.close()
    with (tmp_path / RUNS).open("a") as file:
        file.write('{"kind": "run", "scenario": "mini')
    assert len(read_lines(tmp_path / RUNS)) == 1
    writer = Writer(tmp_path)
    assert len(writer.open([minimal]).runs) == 1
    writer.add("run", **RUN | {"repetition": 2})
    writer.close()
    assert [line["repetition"] for line in read_lines(tmp_path / RUNS)] == [1, 2]


def test_a_broken_line_in_the_middle_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / RUNS).write_text('{"kind": "run"}\n{"kind":\n{"kind": "run"}\n')
    with pytest.raises(StudyError, match="line 2: not JSON"):
        read_lines(tmp_path / RUNS)


def test_another_scenario_of_the_same_name_is_refused(tmp_path: Path, minimal: Scenario) -> None:
    writer = Writer(tmp_path)
    writer.open([minimal])
    writer.close()
    other = parse_scenario(MINIMAL.replace("scale = 1", "scale = 3"), "minimal", Path())
    with pytest.raises(StudyError, match="was begun with another minimal"):
        Writer(tmp_path).open([other])


def test_one_at_a_time(tmp_path: Path, minimal: Scenario) -> None:
    writer = Writer(tmp_path)
    writer.open([minimal])
    with pytest.raises(StudyError, match="in use by another pgflash"):
        Writer(tmp_path).open([minimal])
    writer.close()
    again = Writer(tmp_path)
    again.open([minimal])
    again.close()


def test_no_study(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"is no study: it has no runs\.jsonl"):
        open_study(tmp_path)


def test_another_format(tmp_path: Path) -> None:
    (tmp_path / RUNS).write_text('{"kind": "study", "format": 99}\n')
    with pytest.raises(StudyError, match=r"another version of pgflash \(format \['99'\]\)"):
        open_study(tmp_path)


def test_a_full_disk_is_told_as_such(tmp_path: Path, minimal: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(tmp_path)
    writer.open([minimal])
    writer.add("run", **RUN)

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("pgflash.pilot.store.os.fsync", full)
        with pytest.raises(DiskFull, match="what was saved before is kept"):
            writer.add("run", **RUN | {"repetition": 2})
    writer.close()
    assert [line["repetition"] for line in read_lines(tmp_path / RUNS)] == [1]


@pytest.mark.skipif(not is_root(), reason="only root can mount a small disk")
def test_a_disk_that_is_full(tmp_path: Path, minimal: Scenario) -> None:
    """A real one: what was saved is whole, closing does not fail, and with room again it goes on."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(tmp_path)], check=True)
    try:
        writer = Writer(tmp_path / "study")
        writer.open([minimal])
        saved = 0
        with pytest.raises(DiskFull):
            for saved in range(1000):
                writer.add("run", **RUN | {"repetition": saved}, filler="x" * 1000)
        writer.close()
        assert 10 < saved < 64
        raw = (tmp_path / "study" / RUNS).read_bytes()
        assert raw.endswith(b"}\n")
        assert [line["repetition"] for line in read_lines(tmp_path / "study" / RUNS)] == list(range(saved))
        subprocess.run(["mount", "-o", "remount,size=128k", str(tmp_path)], check=True)
        writer = Writer(tmp_path / "study")
        writer.open([minimal])
        writer.add("run", **RUN | {"repetition": saved})
        writer.close()
        assert (tmp_path / "study" / RUNS).read_bytes().startswith(raw)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
