"""What `pgflash cluster apply` is to bring about: a file in TOML. Every fault of it is said at once, and nothing is begun."""

from __future__ import annotations

import os
import re
import shlex
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from pgflash.errors import ArgumentError, ScenarioError

PREFIX = "pg_flashcache."
DEFAULT = "default"  # as a value: takes the setting out of postgresql.auto.conf
LONGEST_FILE = 1024 * 1024  # bytes
LEADERS = ("last", "switchover", "skip")
_NAME = re.compile(r"pg_flashcache\.[a-z_]+")
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|h)")
_SECONDS = {"s": 1, "min": 60, "h": 3600}


@dataclass(frozen=True)
class Wanted:
    settings: Mapping[str, str | None]  # None: not set
    nodes: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    warm: float = 0.9
    wait_s: float = 1800.0
    standbys: int | None = None
    leader: str = "last"
    restart_before: datetime | None = None
    update_extension: tuple[str, ...] = ()  # databases
    commands: Mapping[str, str] = field(default_factory=dict)  # that restart a node, where Patroni does not

    def of(self, node: str) -> dict[str, str | None]:
        return {**self.settings, **self.nodes.get(node, {})}


def load(path: Path) -> Wanted:
    try:
        found = tomllib.loads(_text(path))
    except OSError as error:
        raise ArgumentError(f"{path} cannot be read: {error.strerror}") from None
    except RecursionError:
        raise ScenarioError(str(path), ["is no TOML that can be read: it is nested too deeply"]) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError(str(path), [f"is no TOML: {error}"]) from None
    faults: list[str] = []
    wanted = _wanted(found, faults)
    if faults:
        raise ScenarioError(str(path), faults)
    return wanted


def _text(path: Path) -> str:
    """Opened without waiting for somebody at the other end of a pipe."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ArgumentError(f"{path} is no file", "it is a device, a pipe or a folder")
        text = file.read(LONGEST_FILE + 1)
    if len(text) > LONGEST_FILE:
        raise ArgumentError(f"{path} is longer than {LONGEST_FILE // 1024} kB", "is it the right file?")
    return text.decode("utf-8")


def _wanted(found: dict[str, Any], faults: list[str]) -> Wanted:
    faults += [
        f"{name}: is not known; allowed: settings, nodes, rolling, restart"
        for name in found.keys() - {"settings", "nodes", "rolling", "restart"}
    ]
    tables = {name: _table(found.get(name, {}), name, faults) for name in ("settings", "nodes", "rolling", "restart")}
    settings = _settings(tables["settings"], "settings", faults)
    nodes = {name: _settings(_table(value, f"nodes.{name}", faults), f"nodes.{name}", faults) for name, value in tables["nodes"].items()}
    rolling = dict(tables["rolling"])
    commands = {name: value for name, value in tables["restart"].items() if isinstance(value, str) and value}
    faults += [f"restart.{name}: is no command" for name in tables["restart"] if name not in commands or not _words(commands[name])]
    warm = _take(rolling, "warm", 0.9, lambda value: _number(value) and 0 <= value <= 1, "a share from 0 to 1", faults)
    wait = _take(rolling, "wait", "30min", lambda value: _seconds(value) is not None, 'a time, as in "30min"', faults)
    standbys = _take(rolling, "standbys", None, lambda value: type(value) is int and value >= 0, "a number of standbys", faults)
    leader = _take(rolling, "leader", "last", lambda value: value in LEADERS, ", ".join(LEADERS), faults)
    moment = _take(
        rolling, "restart_before", None, lambda value: isinstance(value, datetime) and value.tzinfo is not None,
        "a date and time with its zone, as in 2026-11-26T10:00:00Z", faults,
    )  # fmt: skip
    databases = _take(
        rolling, "update_extension", [], lambda value: isinstance(value, list) and all(isinstance(item, str) and item for item in value),
        'a list of databases, as in ["postgres"]', faults,
    )  # fmt: skip
    faults += [f"rolling.{name}: is not known; allowed: warm, wait, standbys, leader, restart_before, update_extension" for name in rolling]
    if not faults and not settings and not any(nodes.values()) and moment is None and not databases:
        faults.append("nothing is wanted: no settings, no restart_before, no update_extension")
    return Wanted(settings, nodes, float(warm), _seconds(wait) or 0, standbys, leader, moment, tuple(databases), commands)


def _table(value: Any, name: str, faults: list[str]) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    faults.append(f"{name}: is no table")
    return {}


def _settings(found: dict[str, Any], where: str, faults: list[str]) -> dict[str, str | None]:
    """Of names with dots, quoted or not: TOML makes tables of those that are not."""
    flat: dict[str, Any] = {}
    for name, value in found.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": item for inner, item in value.items()}
        else:
            flat[name] = value
    settings: dict[str, str | None] = {}
    for name, value in flat.items():
        if not _NAME.fullmatch(name):
            faults.append(f"{where}.{name}: only settings of pg_flashcache are changed")
        elif isinstance(value, bool):
            settings[name] = "on" if value else "off"
        elif isinstance(value, str | int | float):
            settings[name] = None if value == DEFAULT else str(value)
        else:
            faults.append(f"{where}.{name}: is no value")
    return settings


def _take(found: dict[str, Any], name: str, default: Any, good: Any, what: str, faults: list[str]) -> Any:
    if name not in found:
        return default
    value = found.pop(name)
    if good(value):
        return value
    faults.append(f"rolling.{name}: {value!r} will not do; allowed: {what}")
    return default


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # a quote that is not closed
        return []


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _seconds(value: Any) -> float | None:
    match = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    return float(match[1]) * _SECONDS[match[2]] if match else None
