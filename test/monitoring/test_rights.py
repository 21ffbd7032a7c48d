"""What a role may not look at: it is said which privilege is lacking, and what is not lacking is shown. JSON of the metrics."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgflash.connection import connect, parsed
from pgflash.monitoring.textfile import metrics_of, sample

from .conftest import Monitored, pgflash

DATABASE = "elsewhere"


@pytest.fixture(scope="module")
def schema(server: Monitored) -> Iterator[str]:
    """Conninfo, but for the user, of a database with the extension in a schema of its own."""
    server.sql(f"CREATE DATABASE {DATABASE}", "CREATE ROLE plain LOGIN", 'CREATE ROLE "odd one" LOGIN IN ROLE pg_monitor')
    place = f"host={server.folder}/socket dbname={DATABASE}"
    for statement in (
        "CREATE SCHEMA flashcache",
        "CREATE EXTENSION pg_flashcache SCHEMA flashcache",
        "GRANT USAGE ON SCHEMA flashcache TO plain",
    ):
        subprocess.run([f"{server.bin}/psql", "-Xqd", f"{place} user=postgres", "-c", statement], check=True)
    yield place
    server.sql(f"DROP DATABASE {DATABASE} WITH (FORCE)", "DROP ROLE plain", 'DROP ROLE "odd one"')


def looked(conninfo: str) -> dict[str, Any]:
    done = pgflash("top", conninfo, "--json", "--interval", "0.1")
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["servers"][0]
    return found


def test_no_usage_on_the_schema(schema: str) -> None:
    """A member of pg_monitor lacks something else than pg_monitor."""
    conninfo, grant = f"{schema} user='odd one'", 'GRANT USAGE ON SCHEMA flashcache TO "odd one"'
    found = looked(conninfo)
    assert found["missing"] == [f"this role may not use the schema flashcache of the extension: {grant}"]
    assert found["tps"] is not None and grant in pgflash("top", conninfo, "--once", "--interval", "0.1").stdout
    for words in (
        ("monitoring", "sample", conninfo), ("place", "advise", conninfo, "--flash=1GB"), ("report", "--list", "--dsn", conninfo),
        ("snapshot", "--dsn", conninfo),
    ):  # fmt: skip
        done = pgflash(*words, "--json")
        error = json.loads(done.stdout)
        assert (done.returncode, error["message"], error["hint"]) == (
            3,
            "this role may not use the schema flashcache of the extension",
            grant,
        )


def test_no_pg_monitor(schema: str) -> None:
    found = looked(f"{schema} user=plain")
    assert {line for line in found["missing"] if "relation" in line} == {
        "pg_stat_flashcache_relation: this role may not read it: GRANT pg_monitor TO plain"
    }
    assert "GRANT pg_monitor TO plain" in pgflash("top", f"{schema} user=plain", "--once", "--interval", "0.1").stdout


def test_devices_that_cannot_be_seen(server: Monitored, schema: str) -> None:
    """To pg_read_all_stats: nothing says that one is off, so it is said that nothing would. To pg_monitor none is."""
    server.sql("DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN IN ROLE pg_read_all_stats")
    for database, grant in ((f"host={server.folder}/socket dbname=postgres", ""), (schema, "GRANT USAGE ON SCHEMA flashcache TO reader")):
        if grant:
            subprocess.run([f"{server.bin}/psql", "-Xqd", f"{database} user=postgres", "-c", grant], check=True)
        words = (
            "pg_stat_flashcache_device: this role may not read it, so nothing is known of a device that is off: GRANT pg_monitor TO reader"
        )
        done = pgflash("top", f"{database} user=reader", "--once", "--interval", "0.1")
        assert done.returncode == 0 and done.stdout.splitlines().count(words) == 1, done.stdout
        found = looked(f"{database} user=reader")
        assert found["devices_off"] is None and words in found["missing"] and found["state"] == "active"
        assert looked(f"{database} user=postgres")["devices_off"] == []
        several = pgflash("top", f"{database} user=reader", server.dsn, "--once", "--interval", "0.1").stdout
        assert sum(line.endswith(f": {words}") for line in several.splitlines()) == 1, several
        if grant:
            subprocess.run([f"{server.bin}/psql", "-Xqd", f"{database} user=postgres", "-c", "DROP OWNED BY reader"], check=True)
    server.sql("DROP ROLE reader")


def test_the_agent_gives_no_paths(server: Monitored) -> None:
    """Who reaches its port need not have a login."""
    with connect(parsed(server.dsn, 1), 60) as connection:
        text = metrics_of(connection)
    assert 'pg_flashcache_device_off{device="1"} 0' in text.splitlines()
    assert "path=" not in text and 'path="' in sample(server.dsn, 60)


def test_metrics_as_json(server: Monitored, tmp_path: Path) -> None:
    done = pgflash("monitoring", "sample", server.dsn, "--json")
    found = json.loads(done.stdout)["metrics"]
    assert all(set(one) == {"name", "labels", "value"} and math.isfinite(one["value"]) for one in found)
    assert [one["value"] for one in found if one["name"] == "pg_flashcache_capacity_bytes"] == [server.stat()["slots"] * 8192]
    state = {one["labels"]["state"]: one["value"] for one in found if one["name"] == "pg_flashcache_state_current"}
    assert state["active"] == 1 and state["off"] == 0
    names = {line.partition("{")[0].partition(" ")[0] for line in sample(server.dsn, 10).splitlines() if not line.startswith("#")}
    assert names == {one["name"] for one in found}
    file = tmp_path / "metrics.prom"
    done = pgflash("monitoring", "sample", server.dsn, "--out", file, "--json")
    assert json.loads(done.stdout) == {"file": str(file)} and file.read_text().startswith("# HELP")
