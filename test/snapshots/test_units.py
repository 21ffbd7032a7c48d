"""The units of systemd: systemd takes them, and the commands in them are such as pgflash has."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import typer

from pgflash import cli

FOLDER = Path(__file__).parents[2] / "tools" / "systemd"
UNITS = sorted(path.name for path in FOLDER.iterdir())


def commands() -> list[list[str]]:
    lines = [line for name in UNITS for line in (FOLDER / name).read_text().splitlines() if line.startswith("ExecStart=")]
    return [line.removeprefix("ExecStart=").split() for line in lines]


def test_there_are() -> None:
    kinds = ("drives.service", "drives.timer", "snapshot.service", "snapshot.timer", "snapshots.service")
    assert [f"pgflash-{kind}" for kind in kinds] == UNITS


@pytest.mark.parametrize("command", commands())
def test_commands(command: list[str]) -> None:
    assert command[0] == "/usr/bin/pgflash"
    top = typer.main.get_command(cli.app)
    context = top.make_context("pgflash", command[1:], resilient_parsing=True)
    assert command[1] in top.list_commands(context)  # type: ignore[attr-defined]
    known = {word for item in top.get_command(context, command[1]).params for word in item.opts}  # type: ignore[attr-defined]
    assert {word for word in command[2:] if word.startswith("--")} <= known


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
def test_systemd_takes_them(tmp_path: Path) -> None:
    """With a program that is there: pgflash is not where a package puts it."""
    for name in UNITS:
        (tmp_path / name).write_text((FOLDER / name).read_text().replace("/usr/bin/pgflash", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / name) for name in UNITS)], capture_output=True, text=True, check=False
    )
    about = [line for line in (done.stdout + done.stderr).splitlines() if any(name in line for name in UNITS)]
    assert about == [], "\n".join(about)
