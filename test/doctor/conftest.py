from __future__ import annotations

from pathlib import Path

import pytest

from .fakes import Fake


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)
