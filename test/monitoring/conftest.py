"""A server with a cache that has hits, and Debian's programs around it."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pilot.servers import Server, bin_folder, reachable
from psycopg.rows import dict_row

ROOT = Path(__file__).parents[2]
PAGES_HIT = 200
# The view, with a drive below each device that has been reported for long.
DRIVE = """
    CREATE OR REPLACE VIEW pg_stat_flashcache_device_health AS
    SELECT device, path, 'nvme0n1'::text AS drive, 'Model'::text AS model, clock_timestamp() AS reported, 70 AS health, true AS passed,
      30 AS used_percent, 100 AS spare_percent, 10 AS spare_threshold, 0::bigint AS media_errors, 41 AS temperature, 1000::bigint AS written,
      10::bigint AS written_today, 5::bigint AS cache_written_today, 2000::bigint AS rated_bytes_a_day, 400::bigint AS days_left,
      interval '1 minute' AS age
    FROM pg_flashcache_device_health_rows()"""
LONGEST_S = 60
SECRET = "tOpS3cret"

# Stand-ins for views of 1.1, where the extension does not have them: same columns, some rows.
STANDINS = {
    "pg_stat_flashcache_relation": """
        CREATE TABLE pg_stat_flashcache_relation (relid oid, schemaname name, relname name, relkind "char", toast_of oid, index_of oid,
          reads bigint, hits bigint, read_time_us bigint, disk_reads bigint, disk_read_time_us bigint, os_cache_hits bigint, disk_writes bigint,
          disk_extends bigint, inserts bigint, invalidations bigint, evictions_without_hit bigint, optimized_reads bigint, unoptimized_reads bigint, stats_reset timestamptz);
        INSERT INTO pg_stat_flashcache_relation VALUES
          (1, 'public', 'a"b', 'r', NULL, NULL, 30, 10, 100, 20, 2000000, 5, 4, 6, 1, 2, 3, 10, 20, now()),
          (NULL, NULL, NULL, NULL, NULL, NULL, 3, 1, 10, 2, 20, 0, 0, 0, 0, 0, 0, 1, 2, now())""",
    "pg_stat_flashcache_statements": """
        CREATE TABLE pg_stat_flashcache_statements (userid oid, dbid oid, queryid bigint, toplevel boolean, calls bigint, hits bigint,
          read_time_us bigint, disk_reads bigint, disk_read_time_us bigint, os_cache_hits bigint, query text);
        INSERT INTO pg_stat_flashcache_statements SELECT 10, oid, -4711, true, 5, 10, 100, 20, 2000000, 5, 'SELECT  1'
          FROM pg_database WHERE datname = 'postgres'""",
    "pg_stat_flashcache_device": """
        CREATE TABLE pg_stat_flashcache_device (device int, path text, state text, reason text, size bigint, used bigint, reads bigint, read_us float8,
            writes bigint, write_bytes bigint, write_us float8, read_errors bigint, write_errors bigint, timeouts bigint);
        INSERT INTO pg_stat_flashcache_device VALUES (1, '/flash', 'active', NULL, 1048576, 1, 2, 3, 4, 32768, 5, 0, 0, 0);
        GRANT SELECT ON pg_stat_flashcache_device TO pg_monitor""",
    "pg_stat_flashcache_latency": """
        CREATE TABLE pg_stat_flashcache_latency (backend_type text, operation text, bucket int, from_us bigint, to_us bigint, count bigint);
        INSERT INTO pg_stat_flashcache_latency VALUES ('client backend', 'flash read', 0, 0, 1, 2),
          ('client backend', 'flash read', 1, 1, 2, 3), ('client backend', 'flash read', 2, 2, NULL, 4)""",
}  # fmt: skip


class Monitored(Server):
    """A cache with hits, and nothing that runs by itself."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.write((ROOT / "test/lib/cache.conf").read_text())
            conf.write("shared_buffers = '2MB'\npg_flashcache.size = '32MB'\npg_flashcache.write_limit = '100MB'\n")
            conf.write(
                "autovacuum = off\ncompute_query_id = on\ncheckpoint_timeout = '1d'\ncluster_name = 'watched'\nbgwriter_lru_maxpages = 0\n"
            )
        hba = self.data / "pg_hba.conf"
        hba.write_text("local all secretive scram-sha-256\n" + hba.read_text())
        self.restart()
        self.sql(
            f"CREATE ROLE secretive LOGIN PASSWORD '{SECRET}'", "CREATE ROLE monitor LOGIN IN ROLE pg_monitor",
            "CREATE TABLE t AS SELECT g AS id, repeat('x', 1000) AS pad FROM generate_series(1, 7000) g",
            "CREATE INDEX ON t (id)", "VACUUM ANALYZE t",
        )  # fmt: skip
        for name, text in STANDINS.items():
            self.sql(f"DO $do$ BEGIN IF to_regclass('{name}') IS NULL THEN {text}; GRANT SELECT ON {name} TO monitor; END IF; END $do$")
        self.sql(DRIVE)
        self.read()

    def restart(self) -> None:
        self.command("pg_ctl", "--silent", "--wait", f"--log={self.data}/log", "restart")

    def restart_in_between(self, action: Callable[[], None]) -> None:
        """Stops the server, does that, and starts it."""
        self.command("pg_ctl", "--silent", "--wait", "--mode=fast", "stop")
        try:
            action()
        finally:
            self.command("pg_ctl", "--silent", "--wait", f"--log={self.data}/log", "start")

    def read(self) -> None:
        """Until enough pages have come from flash."""
        reading = "SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(t.pad) FROM generate_series(1, 7000, 3) g, t "
        until(lambda: bool(self.sql(reading + "WHERE t.id = 1 + (g * 7919) % 7000")) and int(self.stat()["hits"]) >= PAGES_HIT)

    @property
    def url(self) -> str:
        return f"postgres://monitor@/postgres?host={urllib.parse.quote(str(self.folder))}/socket&sslmode=disable"

    def rows(self, query: str) -> list[dict[str, Any]]:
        with psycopg.connect(self.dsn, row_factory=dict_row) as connection:
            return connection.execute(query).fetchall()

    def stat(self) -> dict[str, Any]:
        return self.rows("SELECT * FROM pg_stat_flashcache")[0]


def until(true: Callable[[], Any], longest_s: float = LONGEST_S) -> Any:
    """What it returns when that is true at last."""
    end = time.monotonic() + longest_s
    while not (found := true()):
        assert time.monotonic() < end, f"still not after {longest_s} s"
        time.sleep(0.05)
    return found


def pgflash(*arguments: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pgflash", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **(env or {})}, timeout=120, check=False)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read(), "utf-8")


def answers(url: str) -> bool:
    try:
        return bool(get(url))
    except OSError:
        return False


@contextmanager
def running(log: Path, *command: str) -> Iterator[None]:
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, cwd=log.parent, env={**os.environ, "GOMAXPROCS": "2"})
    try:
        yield
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        process.wait(60)


class Prometheus:
    """A running one, which reads an exporter that reads the server."""

    def __init__(self, url: str, exporter: str, files: Path) -> None:
        self.url = url
        self.exporter = exporter
        self.files = files

    def query(self, text: str) -> list[dict[str, Any]]:
        answer = json.loads(get(f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': text})}"))
        assert answer["status"] == "success", text
        return list(answer["data"]["result"])

    def over_time(self, text: str) -> list[dict[str, Any]]:
        """In the last minute."""
        now = time.time()
        wanted = {"query": text, "start": now - 60, "end": now, "step": 5}
        answer = json.loads(get(f"{self.url}/api/v1/query_range?{urllib.parse.urlencode(wanted)}"))
        assert answer["status"] == "success", text
        return list(answer["data"]["result"])

    def value(self, text: str) -> float | None:
        found = self.query(text)
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None


@pytest.fixture(scope="session")
def server() -> Iterator[Monitored]:
    if not bin_folder():
        pytest.skip("no server with pg_flashcache: test.sh makes one (FC_PILOT_BIN)")
    for folder in reachable():
        made = Monitored(folder)
        try:
            yield made
        finally:
            made.stop()


@pytest.fixture(scope="session")
def prometheus(server: Monitored, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    for program in ("prometheus", "prometheus-sql-exporter", "prometheus-node-exporter"):
        if not shutil.which(program):
            pytest.skip(f"Debian's {program} is not installed")
    folder = tmp_path_factory.mktemp("prometheus")
    done = pgflash("monitoring", "write", folder, "--for", "sql_exporter-free", "--for", "alerts")
    assert done.returncode == 0, done.stderr
    exporter, node, own = free_port(), free_port(), free_port()
    config = folder / "prometheus-sql-exporter.yml"
    text = config.read_text()
    for interval in ("interval: 15s", "interval: 300s"):
        assert interval in text
        text = text.replace(interval, "interval: 1s")
    config.write_text(text.replace("postgres://monitor@localhost:5432/postgres?sslmode=disable", server.url))
    jobs = folder / "prometheus.yml"
    at = f"127.0.0.1:{exporter}"
    with (
        running(folder / "exporter.log", "prometheus-sql-exporter", f"-config.file={config}", f"-web.listen-address={at}"),
        running(
            folder / "node.log", "prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{node}", "--collector.disable-defaults",
            "--collector.filesystem", "--collector.filesystem.fs-types-exclude=^$",
            "--collector.filesystem.mount-points-exclude=^/(dev|proc|sys)($|/)",
        ),
    ):  # fmt: skip
        found = until(
            lambda: (
                re.search(r'^sql_pg_flashcache\{.*host="([^"]*)"', get(f"http://{at}/metrics"), re.MULTILINE)
                if answers(f"http://{at}/metrics")
                else None
            )
        )
        jobs.write_text(
            "global:\n  scrape_interval: 1s\n  evaluation_interval: 1s\nrule_files: [pg_flashcache.rules.yml]\n"
            + jobs.read_text().replace("localhost:9237", at)
            + f"- job_name: node\n  static_configs:\n  - targets: ['127.0.0.1:{node}']\n"
            f"    labels: {{instance: '{found[1] or at}'}}\n"
        )
        yield from _read_by_prometheus(folder, jobs, at, own)


def _read_by_prometheus(folder: Path, jobs: Path, at: str, own: int) -> Iterator[Prometheus]:
    with running(
        folder / "prometheus.log", "prometheus", f"--config.file={jobs}", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{own}",
    ):  # fmt: skip
        made = Prometheus(f"http://127.0.0.1:{own}", f"http://{at}/metrics", folder)
        until(lambda: answers(f"{made.url}/-/ready") and answers(made.exporter))
        until(lambda: made.query("pg_flashcache_hits_total"))
        yield made
