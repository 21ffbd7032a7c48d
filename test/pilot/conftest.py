"""What several tests need."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgflash.pilot.scenario import Scenario, parse_scenario

MINIMAL = """
title = "minimal"
duration_s = 2
repetitions = 2

[load]
kind = "pgbench-select"
scale = 1
clients = [2, 4]

[flash]
sizes = ["20%", "64MB"]

[[arm]]
name = "disk"

[[arm]]
name = "cache"
cache = true
"""


@pytest.fixture
def minimal() -> Scenario:
    return parse_scenario(MINIMAL, "minimal", Path())


@pytest.fixture
def recorded() -> Path:
    """A study that was really run: every kind of arm on a database of a few megabytes."""
    return Path(__file__).parent / "data" / "recorded"
