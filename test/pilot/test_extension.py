"""Where the extension that a study builds is put, and that its path is not too long for the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgflash.errors import MachineError
from pgflash.lab import extension, work
from pgflash.pilot import preflight
from pgflash.pilot.loads import driver_for
from pgflash.pilot.own import WORK_LENGTH
from pgflash.pilot.scenario import Scenario

LONGEST = 95 - len("/15/pg_flashcache.so")


@pytest.mark.parametrize("major", [15, 16])
def test_a_path_that_is_too_long(major: int) -> None:
    extension.check_path(major, Path("/" + "x" * (LONGEST - 1)))
    with pytest.raises(MachineError) as caught:
        extension.check_path(major, Path("/" + "x" * LONGEST))
    assert caught.value.message.endswith(f"/{major}/pg_flashcache.so: 96 bytes, and PostgreSQL {major} has room for 95")
    assert caught.value.hint == "choose a shorter folder with --dir"
    extension.check_path(17, Path("/" + "x" * 200))


def test_it_is_said_before_anything_starts(minimal: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the folder that the study would make below the one that is given."""
    monkeypatch.setattr(work, "run", lambda *_, **__: pytest.fail("nothing is started"))
    monkeypatch.setattr(Path, "exists", lambda _: True)
    monkeypatch.setattr(extension, "is_built", lambda _: True)
    monkeypatch.setattr(extension, "config", lambda *_: "/pgxs")
    driver = driver_for(minimal.load)
    monkeypatch.setattr(driver, "missing", lambda _: "")
    base = Path("/" + "x" * (LONGEST - WORK_LENGTH - 1))
    with pytest.raises(MachineError, match="and PostgreSQL 15 has room for 95"):
        preflight.check(minimal, driver, base)
    with pytest.raises(MachineError) as caught:
        preflight.check(minimal, driver, base.with_name(base.name[:-1]))
    assert "has room" not in caught.value.message, "one byte less will do; such a folder there is not"
