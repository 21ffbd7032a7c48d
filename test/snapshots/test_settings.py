"""Settings of a database, a role or the environment that change how a server writes values: they change nothing here."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from pgflash import safe

from .conftest import Database

# As ALTER DATABASE or ALTER ROLE may have set them. The isolation level would not be allowed on a standby, nor end before others.
ODD = {
    "datestyle": "German", "intervalstyle": "sql_standard", "quote_all_identifiers": "on", "bytea_output": "escape", "extra_float_digits": "-15",
    "standard_conforming_strings": "off", "transform_null_equals": "on", "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on", "client_encoding": "LATIN1",
}  # fmt: skip


def pgflash(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pgflash", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, (arguments, done.stdout + done.stderr)
    return done


def test_every_command_under_odd_settings(database: Database) -> None:
    database.sql(*(f"ALTER DATABASE {database.name} SET {name} = '{value}'" for name, value in ODD.items()))
    assert database.sql("SHOW datestyle") == "German, DMY"
    database.sql('CREATE TABLE "表" AS SELECT i FROM generate_series(1, 100) i')  # a name that LATIN1 does not have
    for _ in range(2):
        database.pgflash("snapshot")
    listed = json.loads(pgflash("report", "--list", "--json", "--dsn", database.dsn).stdout)["snapshots"]
    assert [row["id"] for row in listed] == [1, 2] and listed[0]["taken_at"][:2] == "20"
    found: dict[str, Any] = json.loads(pgflash("report", "1", "2", "--json", "--dsn", database.dsn).stdout)
    assert found["since"][:2] == "20" and not found["restarted"]
    pgflash("report", "yesterday 02:00", "now", "--dsn", database.dsn)
    pgflash("diff", "1..2", "1..2", "--dsn", database.dsn)
    top = json.loads(pgflash("top", database.dsn, "--json", "--interval", "0.1").stdout)["servers"][0]
    assert top["ok"] and top["state"] == "active"
    pgflash("monitoring", "sample", database.dsn)
    advice = json.loads(pgflash("place", "advise", database.dsn, "--flash", "10MB", "--json").stdout)
    assert advice["window_s"] > 0
    assert pgflash("place", "status", database.dsn).stdout.strip() == "nothing was moved"


@pytest.mark.parametrize("name", sorted(ODD))
def test_a_connection_has_none_of_them(database: Database, name: str) -> None:
    database.sql(f"ALTER DATABASE {database.name} SET {name} = '{ODD[name]}'")
    odd = database.sql(f"SHOW {name}")
    with safe.connect(database.dsn) as connection:
        assert connection.execute(f"SHOW {name}").fetchone() != (odd,)
