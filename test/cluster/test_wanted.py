"""Files of pgflash cluster apply: what is read, and every fault at once."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pgflash.cluster.wanted import LONGEST_FILE, load
from pgflash.errors import ArgumentError, ScenarioError


def test_all_of_it(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("""
        [settings]
        "pg_flashcache.size" = "64GB"
        pg_flashcache.enabled = true
        pg_flashcache.keep_limit = 70
        pg_flashcache.write_limit = "default"
        [nodes.b]
        "pg_flashcache.size" = "32GB"
        [rolling]
        warm = 0.8
        wait = "1.5h"
        standbys = 2
        leader = "switchover"
        restart_before = 2026-11-26T10:00:00Z
        update_extension = ["postgres"]
        [restart]
        b = "ssh b 'systemctl restart x'"
    """)
    wanted = load(file)
    assert wanted.of("a") == {
        "pg_flashcache.size": "64GB", "pg_flashcache.enabled": "on", "pg_flashcache.keep_limit": "70", "pg_flashcache.write_limit": None,
    }  # fmt: skip
    assert wanted.of("b")["pg_flashcache.size"] == "32GB"
    assert (wanted.warm, wanted.wait_s, wanted.standbys, wanted.leader) == (0.8, 5400, 2, "switchover")
    assert wanted.restart_before == datetime(2026, 11, 26, 10, tzinfo=UTC)
    assert (wanted.update_extension, wanted.commands) == (("postgres",), {"b": "ssh b 'systemctl restart x'"})


def test_faults(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("""
        [settings]
        shared_buffers = "1GB"
        "pg_flashcache.size; DROP" = "1GB"
        "pg_flashcache.file" = ["x"]
        [rolling]
        warm = 90
        wait = "soon"
        leader = "first"
        standbys = -1
        restart_before = 2026-11-26T10:00:00
        update_extension = "postgres"
        speed = 1
        [restart]
        a = "ssh 'x"
        [other]
    """)
    with pytest.raises(ScenarioError) as raised:
        load(file)
    assert [fault.partition(":")[0] for fault in raised.value.faults] == [
        "other", "settings.shared_buffers", "settings.pg_flashcache.size; DROP", "settings.pg_flashcache.file", "restart.a", "rolling.warm",
        "rolling.wait", "rolling.standbys", "rolling.leader", "rolling.restart_before", "rolling.update_extension", "rolling.speed",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"), [("", "nothing is wanted"), ("[settings", "is no TOML"), ("settings = 1", "settings: is no table")]
)
def test_nothing(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    with pytest.raises(ScenarioError, match=words):
        load(file)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="cannot be read"):
        load(tmp_path / "none.toml")


def test_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), tmp_path / "pipe", tmp_path):
        with pytest.raises(ArgumentError, match=r"is no file|Is a directory"):
            load(path)


def test_a_file_that_is_too_much(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("#" * LONGEST_FILE + "#")
    with pytest.raises(ArgumentError, match="longer than 1024 kB"):
        load(file)
    file.write_text("a = " + "[" * 100_000)
    with pytest.raises(ScenarioError, match="nested"):
        load(file)
