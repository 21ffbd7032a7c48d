"""Moves that end before their time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from pgflash.errors import BrokeOff, MachineError
from pgflash.place.run import carry_out


@pytest.mark.parametrize("error", [psycopg.OperationalError("server closed the connection"), MachineError("no room"), OSError("a pipe")])
def test_it_is_said_how_far_they_came(error: Exception) -> None:
    class Moving:
        def move(self, row: Any, *, back: bool) -> str:
            if row.kind == "table":
                raise error
            return "done"

    rows: Any = [SimpleNamespace(kind="index"), SimpleNamespace(kind="table"), SimpleNamespace(kind="index")]
    moving: Any = Moving()
    with pytest.raises(BrokeOff, match=r"; done before: 1 of 3$") as raised:
        carry_out(moving, rows, lambda _event: None)
    assert raised.value.exit_code == 4 and "pgflash place status" in raised.value.hint
