"""The manual page: it has each command, option and exit status of the command line, and no others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pgflash import __version__, cli, errors

PAGE = (Path(cli.__file__).parent / "pgflash.1").read_text("utf-8")
SECTIONS = dict(re.findall(r"^\.S[SH] (.+)\n((?:(?!\.S[SH] ).*\n)*)", PAGE, re.MULTILINE))
EVERYWHERE = {"--help", "--json"}


def commands() -> dict[str, Any]:
    """Each command by its full name."""
    found: dict[str, Any] = {}

    def walk(name: str, command: Any) -> None:
        inner = getattr(command, "commands", None)
        if inner is None:
            found[name] = command
        else:
            for key, value in inner.items():
                walk(f"{name} {key}", value)

    walk("pgflash", typer.main.get_command(cli.app))
    return found


def options(text: str) -> set[str]:
    """The options that entries of a section describe."""
    entries = re.findall(r"^\.TP\n(.*)$", text, re.MULTILINE)
    return {match for line in entries for match in re.findall(r"--[a-z-]+", line.replace("\\", ""))}


def test_each_command_has_its_section() -> None:
    assert {name for name in SECTIONS if name.startswith("pgflash ")} == set(commands())


@pytest.mark.parametrize("name", commands())
def test_options(name: str) -> None:
    declared = {word for item in commands()[name].params for word in [*item.opts, *item.secondary_opts] if word.startswith("--")}
    assert options(SECTIONS[name]) == declared - EVERYWHERE


def test_options_of_all() -> None:
    top = typer.main.get_command(cli.app)
    assert options(SECTIONS["OPTIONS"]) == EVERYWHERE | {word for item in top.params for word in item.opts if word.startswith("--")}


def test_exit_statuses() -> None:
    described = re.findall(r"^\.TP\n\.B (\d+)$", SECTIONS["EXIT STATUS"], re.MULTILINE)
    assert [int(status) for status in described] == sorted(value for name, value in vars(errors).items() if name.startswith("EXIT_"))


def test_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """No types of switches, nor Python's names of types, nor brackets within brackets."""
    monkeypatch.setenv("COLUMNS", "150")
    odd = r"<bool>|BOOLEAN|list\[(?!sql_exporter)|List\[|<class|\[\[|\]\]|\.\.\.\.|default: (?:True|False|None)"
    for name in ["pgflash", *(f"pgflash {group}" for group in ("pilot", "monitoring", "cluster", "place", "tier")), *commands()]:
        done = CliRunner().invoke(cli.app, [*name.split()[1:], "--help"], prog_name="pgflash")
        assert done.exit_code == 0 and f"Usage: {name} " in done.output, name
        assert re.findall(odd, done.output) == [], done.output
        (used,) = re.findall(r"Usage: [a-z ]*(.*)", done.output)
        assert used == used.upper(), "names are in capital letters, as on the manual page"


def test_switches_take_no_value() -> None:
    """What follows is an argument."""
    for arguments in (["top", "--once=true"], ["doctor", "--fix=yes"], ["cluster", "status", "--search=no"]):
        done = CliRunner().invoke(cli.app, arguments)
        assert done.exit_code == 2 and "does not take a value" in done.output, done.output


def test_version() -> None:
    assert f'"pgflash {__version__}"' in PAGE
