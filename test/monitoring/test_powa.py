"""PoWA as Debian has it really takes snapshots of the cache, aggregates and purges them, and the numbers are the server's."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pilot.servers import bin_folder, reachable
from psycopg.rows import dict_row

from pgflash.monitoring.metrics import SERVER
from pgflash.monitoring.powa import NAMES

from .conftest import ROOT, Monitored, pgflash, running, until

COALESCE = 5
COUNTERS = [metric for metric in SERVER.metrics if metric.kind == "counter"]


def _has_powa() -> bool:
    config = Path(bin_folder(), "pg_config")
    if not bin_folder():
        return False
    share = subprocess.run([config, "--sharedir"], capture_output=True, text=True, check=True).stdout.strip()
    return any(Path(share, "extension").glob("powa--4.1.*.sql"))


pytestmark = pytest.mark.skipif(not _has_powa(), reason="PoWA 4.1 (Debian 12: postgresql-15-powa) is not installed in the server")


class Powa(Monitored):
    """A server with PoWA in a database of its own. Its worker is there, and does nothing unless a test has it work."""

    scripts: Path

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.write("shared_preload_libraries = 'pg_stat_statements, powa, pg_flashcache'\npowa.frequency = -1\n")
            # Enough memory for the pages that a snapshot itself reads, and not for the table.
            conf.write(f"powa.coalesce = {COALESCE}\npowa.retention = '1d'\nshared_buffers = '6MB'\n")
        self.restart()
        self.sql("CREATE DATABASE powa")
        self.of_powa("CREATE EXTENSION powa CASCADE; CREATE EXTENSION pg_flashcache")

    def of_powa(self, text: str, database: str = "powa", role: str = "postgres") -> str:
        done = self.tried(text, database, role)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def tried(self, text: str, database: str = "powa", role: str = "postgres") -> subprocess.CompletedProcess[str]:
        dsn = f"host={self.folder}/socket user={role} dbname={database}"
        return subprocess.run(
            [f"{self.bin}/psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", dsn], input=text, capture_output=True, text=True, check=False
        )

    def script(self, name: str, database: str = "powa", role: str = "postgres") -> subprocess.CompletedProcess[str]:
        return self.tried((self.scripts / name).read_text(), database, role)

    def snapshot(self, server: int = 0) -> None:
        """PoWA counts functions that failed."""
        assert self.of_powa(f"SELECT powa_take_snapshot({server})") == "0", self.of_powa("SELECT errors FROM powa_snapshot_metas")

    def snapshot_to(self, rest: int) -> None:
        """Until so many snapshots have been taken since the last aggregate: PoWA aggregates at 0, and purges at 1."""
        while True:
            self.snapshot()
            if self.sequence() % COALESCE == rest:
                return

    def sequence(self) -> int:
        return int(self.of_powa("SELECT coalesce_seq FROM powa_snapshot_metas WHERE srvid = 0"))

    def counted(self) -> dict[str, float]:
        columns = ", ".join(f"({metric.sql})::float8 AS {metric.name}" for metric in COUNTERS)
        return {name: float(value) for name, value in self.rows(f"SELECT {columns} FROM pg_stat_flashcache")[0].items()}

    def samples(self, where: str = "srvid = 0") -> list[dict[str, Any]]:
        return self.powa_rows(f"SELECT * FROM powa_flashcache_samples WHERE {where} ORDER BY ts")

    def powa_rows(self, query: str) -> list[dict[str, Any]]:
        with psycopg.connect(self.dsn.replace("dbname=postgres", "dbname=powa"), row_factory=dict_row) as connection:
            return connection.execute(query).fetchall()

    def exact_snapshot(self) -> dict[str, float]:
        """Takes snapshots until the server has not moved meanwhile, and returns what it had counted."""

        def same() -> dict[str, float] | None:
            before = self.counted()
            self.snapshot()
            return before if self.counted() == before else None

        return dict(until(same))


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("powa")
    done = pgflash("monitoring", "write", folder, "--for", "powa")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def powa(scripts: Path) -> Iterator[Powa]:
    for folder in reachable():
        made = Powa(folder)
        made.scripts = scripts
        try:
            yield made
        finally:
            made.stop()


@pytest.fixture
def registered(powa: Powa) -> Iterator[Powa]:
    done = powa.script("powa-register.sql")
    assert done.returncode == 0, done.stderr
    yield powa
    done = powa.script("powa-unregister.sql")
    assert done.returncode == 0, done.stderr


def test_snapshots(registered: Powa) -> None:
    """Two, with reads in between: every counter, and what was counted in between."""
    first = registered.exact_snapshot()
    one = registered.samples()[-1]
    registered.read()
    registered.sql("SELECT count(*) FROM t")
    second = registered.exact_snapshot()
    two = registered.samples()[-1]
    assert {name: one[name] for name in first} == first
    assert {name: two[name] for name in second} == second
    assert second["hits_total"] + second["misses_total"] > first["hits_total"] + first["misses_total"]
    assert two["capacity_bytes"] == registered.stat()["slots"] * 8192 and two["writer_up"] == 1
    rates = registered.powa_rows("SELECT * FROM powa_flashcache_rates WHERE srvid = 0 ORDER BY ts")
    took = (rates[-1]["ts"] - rates[-2]["ts"]).total_seconds()
    before = registered.samples()[-2]
    assert rates[0]["hits_per_second"] is None
    for metric in COUNTERS:
        delta = two[metric.name] - before[metric.name]
        assert rates[-1][metric.name.removesuffix("_total") + "_per_second"] * took == pytest.approx(delta), metric.name


def test_statements(registered: Powa) -> None:
    """Of all databases, with the identifiers that PoWA's own table of statements has."""
    registered.restart()
    registered.read()
    registered.snapshot()
    found = registered.powa_rows("""
        SELECT f.hits_total, f.disk_reads_total FROM powa_flashcache_statement_samples f JOIN powa_statements s ON s.queryid::text = f.queryid
        WHERE f.datname = 'postgres' AND s.query LIKE '%generate_series%'""")
    assert found and all(row["hits_total"] + row["disk_reads_total"] > 0 for row in found)


def test_aggregate_and_purge(registered: Powa) -> None:
    """PoWA makes one row of several snapshots, nothing is lost by that, and old rows go."""
    registered.snapshot_to(0)
    assert registered.of_powa("SELECT count(*) FROM powa_flashcache_history_current") == "0"
    registered.snapshot_to(COALESCE - 1)
    before = registered.samples()
    assert registered.of_powa("SELECT count(*) FROM powa_flashcache_history_current") == str(COALESCE - 1)
    registered.snapshot()
    (row,) = registered.powa_rows("SELECT * FROM powa_flashcache_history ORDER BY upper(coalesce_range) DESC LIMIT 1")
    after = registered.samples()
    assert after[:-1] == before and len(after) == len(before) + 1
    assert (row["coalesce_range"].lower, row["coalesce_range"].upper) == (after[-COALESCE]["ts"], after[-1]["ts"])
    assert registered.of_powa("SELECT count(*) FROM powa_flashcache_history_current") == "0"
    rows = int(registered.of_powa("SELECT count(*) FROM powa_flashcache_history"))
    registered.of_powa(
        "INSERT INTO powa_flashcache_history SELECT srvid, tstzrange(now() - interval '2 days', now() - interval '25 hours'), records "
        "FROM powa_flashcache_history LIMIT 1"
    )
    registered.snapshot()
    assert registered.of_powa("SELECT count(*) FROM powa_flashcache_history") == str(rows)
    registered.of_powa("SELECT powa_reset(0)")
    assert registered.samples() == []


def test_the_worker_does_it_by_itself(registered: Powa) -> None:
    registered.sql("ALTER SYSTEM SET powa.frequency = '5s'")
    registered.sql("SELECT pg_reload_conf()")
    try:
        until(lambda: len(registered.samples()) >= 2)
    finally:
        registered.sql("ALTER SYSTEM RESET powa.frequency")
        registered.sql("SELECT pg_reload_conf()")
        registered.restart()  # no snapshot of the worker runs beside the other tests


def test_again_and_with_columns_that_are_new(registered: Powa) -> None:
    """What has been recorded stays; what an older file did not have comes last in the type, and still gets its own values."""
    registered.snapshot()
    before = registered.samples()
    assert registered.script("powa-register.sql").returncode == 0
    assert registered.samples() == before
    registered.of_powa(
        "DROP VIEW powa_flashcache_rates, powa_flashcache_samples; ALTER TYPE powa_flashcache_history_record DROP ATTRIBUTE hits_total"
    )
    assert registered.script("powa-register.sql").returncode == 0
    assert [row["hits_total"] for row in registered.samples()] == [None] * len(before)
    counted = registered.exact_snapshot()
    found = registered.samples()[-1]
    assert {name: found[name] for name in counted} == counted and counted["hits_total"] > 0
    assert registered.of_powa("SELECT count(*) FROM powa_functions WHERE module = 'pg_flashcache'") == str(4 * len(NAMES) + 1)


def test_a_reset_of_the_counters(registered: Powa) -> None:
    registered.snapshot()
    registered.sql("SELECT pg_flashcache_reset_stats()")
    registered.read()
    registered.snapshot()
    (last,) = registered.powa_rows("SELECT * FROM powa_flashcache_rates WHERE srvid = 0 ORDER BY ts DESC LIMIT 1")
    assert last["hits_per_second"] is None and last["probes_per_second"] is None
    assert last["used_bytes"] > 0


def test_another_server(registered: Powa) -> None:
    """As powa-collector does it: what the source gives there, into the table that is named after it here."""
    registered.of_powa("SELECT powa_register_server('db2.example', retention => '2 hours')")
    number = int(registered.of_powa("SELECT id FROM powa_servers WHERE hostname = 'db2.example'"))
    try:
        assert registered.of_powa(f"SELECT powa_flashcache_register({number})") == "t"
        found = registered.of_powa(
            f"SELECT query_source FROM powa_functions WHERE srvid = {number} AND module = 'pg_flashcache' AND operation = 'snapshot'"
        ).split()
        assert sorted(found) == sorted(f"{name}_src" for name in NAMES)
        for source in found:
            registered.of_powa(f"COPY (SELECT {number}, * FROM public.{source}(0)) TO '/dev/null'")
            registered.of_powa(f"INSERT INTO public.{source}_tmp SELECT {number}, * FROM public.{source}(0)")
        registered.snapshot(number)
        (row,) = registered.samples(f"srvid = {number}")
        assert row["capacity_bytes"] == registered.stat()["slots"] * 8192
        assert registered.of_powa("SELECT count(*) FROM powa_flashcache_src_tmp") == "0"
        registered.of_powa(f"SELECT powa_flashcache_aggregate({number}); SELECT powa_flashcache_purge({number})")
        assert len(registered.samples(f"srvid = {number}")) == 1
        registered.of_powa(f"UPDATE powa_servers SET retention = '-1 hour' WHERE id = {number}; SELECT powa_flashcache_purge({number})")
        assert registered.samples(f"srvid = {number}") == []
    finally:
        registered.of_powa(f"DELETE FROM powa_servers WHERE id = {number}")
    assert registered.of_powa(f"SELECT count(*) FROM powa_functions WHERE srvid = {number}") == "0"


def _has_collector() -> bool:
    """With the configuration that Debian's package has: it is read before any other, and names the database only."""
    config = Path("/etc/powa-collector.conf")
    try:
        return bool(shutil.which("powa-collector")) and json.loads(config.read_text())["repository"]["dsn"] == "postgresql:///powa"
    except (OSError, ValueError, KeyError):
        return False


@pytest.mark.skipif(not _has_collector(), reason="Debian's powa-collector is not installed, or is set up for another repository")
def test_the_collector(registered: Powa, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It really reads a server and sends what it has read; that this one is its own repository makes no difference to it."""
    socket = f"{registered.folder}/socket"
    registered.of_powa(f"SELECT powa_register_server('{socket}', username => 'postgres', frequency => 5)")
    number = int(registered.of_powa(f"SELECT id FROM powa_servers WHERE hostname = '{socket}'"))
    registered.of_powa(f"SELECT powa_flashcache_register({number})")
    monkeypatch.setenv("PGHOST", socket)
    monkeypatch.setenv("PGUSER", "postgres")
    try:
        with running(tmp_path / "collector.log", "powa-collector"):
            until(lambda: registered.samples(f"srvid = {number}"))
        assert registered.samples(f"srvid = {number}")[0]["capacity_bytes"] == registered.stat()["slots"] * 8192
        assert registered.of_powa(f"SELECT errors FROM powa_snapshot_metas WHERE srvid = {number}") == ""
    finally:
        registered.of_powa(f"DELETE FROM powa_servers WHERE id = {number}")


def test_the_documented_query(registered: Powa) -> None:
    registered.snapshot()
    registered.snapshot()
    (query,) = re.findall(r"```sql\n(SELECT ts,.*?)```", (ROOT / "docs/monitoring.md").read_text(), re.DOTALL)
    first, second = registered.powa_rows(query)
    assert first["hits_per_second"] is None and second["hits_per_second"] >= 0 and second["used_bytes"] > 0


def test_without_the_extension(registered: Powa) -> None:
    """PoWA's own trigger takes it off the list; nothing fails after that, and it can be put back."""
    registered.of_powa("DROP EXTENSION pg_flashcache")
    try:
        assert registered.of_powa("SELECT count(*) FROM powa_functions WHERE module = 'pg_flashcache'") == "0"
        registered.snapshot()
        assert registered.of_powa("SELECT powa_flashcache_register(0)") == "f"
    finally:
        registered.of_powa("CREATE EXTENSION pg_flashcache")
    assert registered.of_powa("SELECT powa_flashcache_register(0)") == "t"
    count = len(registered.samples())
    registered.snapshot()
    assert len(registered.samples()) == count + 1


OBJECTS = """
    SELECT count(*) FROM (SELECT relname FROM pg_class UNION ALL SELECT proname FROM pg_proc UNION ALL SELECT typname FROM pg_type) o
    WHERE relname LIKE '%powa\\_flashcache%'"""


def test_removal(powa: Powa) -> None:
    for _ in range(2):
        assert powa.script("powa-register.sql").returncode == 0
        powa.snapshot()
        assert powa.of_powa(OBJECTS) != "0"
        for _ in range(2):
            done = powa.script("powa-unregister.sql")
            assert done.returncode == 0, done.stderr
        assert powa.of_powa(OBJECTS) == "0"
        powa.snapshot()


def test_names_have_schemas(registered: Powa) -> None:
    """Whatever search_path PoWA's worker or a caller has: operators and functions of another schema are not found."""
    assert registered.of_powa("SELECT count(*) FROM pg_proc WHERE proname LIKE 'powa\\_flashcache%'") == str(5 * len(NAMES) + 2)
    assert (
        registered.of_powa("SELECT DISTINCT proconfig, prosecdef FROM pg_proc WHERE proname LIKE 'powa\\_flashcache%'")
        == '{"search_path=pg_catalog, pg_temp"}|f'
    )
    registered.of_powa(
        "CREATE SCHEMA evil;"
        "CREATE FUNCTION evil.now() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN RAISE 'evil'; END $$;"
        "CREATE FUNCTION evil.to_jsonb(anyelement) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN RAISE 'evil'; END $$"
    )
    try:
        registered.of_powa(
            "BEGIN; SET search_path = evil, pg_catalog, public; SELECT powa_flashcache_snapshot(0); SELECT powa_flashcache_aggregate(0);"
            "SELECT powa_flashcache_purge(0); SELECT count(*) FROM powa_flashcache_rates; COMMIT"
        )
        done = registered.tried("SET search_path = evil, pg_catalog, public;\n" + (registered.scripts / "powa-register.sql").read_text())
        assert done.returncode == 0, done.stderr
    finally:
        registered.of_powa("DROP SCHEMA evil CASCADE")


def test_refusals(powa: Powa, tmp_path: Path) -> None:
    """Without PoWA; with what somebody else has put there; with the extension elsewhere, or in somebody else's schema."""
    done = powa.script("powa-register.sql", database="postgres")
    assert done.returncode == 3 and "this is for PoWA 4.1, and this database has none" in done.stderr
    powa.of_powa("CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO mallory")
    try:
        powa.of_powa("CREATE TABLE public.powa_flashcache_history_current (srvid integer)", role="mallory")
        for name in ("powa-register.sql", "powa-unregister.sql"):
            done = powa.script(name)
            assert done.returncode == 3 and "not made by postgres: powa_flashcache_history_current" in done.stderr
        powa.of_powa("DROP TABLE public.powa_flashcache_history_current")
        powa.of_powa("ALTER SCHEMA public OWNER TO mallory")
        done = powa.script("powa-register.sql")
        assert done.returncode == 3 and "the schema public of pg_flashcache belongs to somebody who is no superuser" in done.stderr
    finally:
        powa.of_powa("ALTER SCHEMA public OWNER TO pg_database_owner; REVOKE CREATE ON SCHEMA public FROM mallory; DROP ROLE mallory")
    assert pgflash("monitoring", "write", tmp_path, "--for", "powa", "--schema", "fc").returncode == 0
    done = powa.tried((tmp_path / "powa-register.sql").read_text())
    assert done.returncode == 3 and "pg_flashcache is in the schema public, and this is for fc" in done.stderr
    assert powa.of_powa(OBJECTS) == "0"


def test_a_dump(registered: Powa, tmp_path: Path) -> None:
    """pg_dump takes history and registration along, and both can be restored."""
    registered.snapshot()
    dump = subprocess.run(
        [f"{registered.bin}/pg_dump", "-d", registered.dsn.replace("dbname=postgres", "dbname=powa")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    registered.sql("CREATE DATABASE restored")
    try:
        registered.of_powa(dump, database="restored")
        for what in ("powa_functions WHERE module = 'pg_flashcache'", "powa_flashcache_samples"):
            assert registered.of_powa(f"SELECT count(*) FROM {what}", database="restored") == registered.of_powa(
                f"SELECT count(*) FROM {what}"
            )
    finally:
        registered.sql("DROP DATABASE restored")


def test_objects_of_1_0(tmp_path: Path) -> None:
    assert pgflash("monitoring", "write", tmp_path, "--for", "powa", "--extension", "1.0").returncode == 0
    text = (tmp_path / "powa-register.sql").read_text()
    assert "powa_flashcache_history" in text and "powa_flashcache_statement" not in text
