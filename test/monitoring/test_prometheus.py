"""Debian's exporter really reads a server, Prometheus really reads that, and the numbers are the server's."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from pgflash.monitoring.alerts import ALERTS
from pgflash.monitoring.dashboard import panels
from pgflash.monitoring.metrics import GROUPS, LATENCY, NEWEST, RELATIONS, SERVER, STATEMENTS, all_names

from .conftest import Monitored, Prometheus, get, pgflash, until

needs_promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="Debian's prometheus is not installed")


def promtool(*arguments: str, folder: Path, text: str | None = None) -> None:
    done = subprocess.run(["promtool", *arguments], cwd=folder, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def scraped(text: str) -> dict[str, str]:
    """What the exporter says, by name and column."""
    return {
        f"{name[4:]}_{col}": value for name, col, value in re.findall(r'^(sql_[a-z_]+)\{col="([a-z_]+)",[^}]*\} (.+)$', text, re.MULTILINE)
    }


def test_a_scraped_counter_is_the_server_s(server: Monitored, prometheus: Prometheus) -> None:
    """Exactly, when the server has not moved between a look before and one after."""
    exact = {SERVER.full(metric): metric for metric in SERVER.metrics if metric.kind == "counter"}
    columns = ", ".join(f"({metric.sql})::float8 AS {name}" for name, metric in exact.items())

    def looked() -> dict[str, float]:
        return {name: float(value) for name, value in server.rows(f"SELECT {columns} FROM pg_stat_flashcache")[0].items()}

    def same() -> bool:
        before = looked()
        found = scraped(get(prometheus.exporter))
        assert set(exact) <= set(found)
        return before == {name: float(found[name]) for name in exact} == looked()

    until(same)
    assert looked()["pg_flashcache_hits_total"] >= 200


def test_prometheus_has_it(server: Monitored, prometheus: Prometheus) -> None:
    """Under the names of the table, without what the exporter adds, and with the server's value."""
    until(lambda: prometheus.value("pg_flashcache_hits_total") == float(server.stat()["hits"]))
    (series,) = prometheus.query("pg_flashcache_hits_total")
    assert set(series["metric"]) == {"__name__", "instance", "job"}
    assert prometheus.value("pg_flashcache_capacity_bytes") == server.stat()["slots"] * 8192
    assert prometheus.value("pg_flashcache_settings_write_limit_bytes_per_second") == 100 * 1024 * 1024
    assert prometheus.value("pg_flashcache_writer_up") == 1
    states = {item["metric"]["state"]: item["value"][1] for item in prometheus.query("pg_flashcache_state_current")}
    assert {state for state, value in states.items() if value == "1"} == {"active"}


def test_prometheus_has_all(prometheus: Prometheus) -> None:
    until(lambda: {item["metric"]["__name__"] for item in prometheus.query('{__name__=~"pg_flashcache_.*"}')} == all_names())


def test_expressions_of_the_dashboard(prometheus: Prometheus) -> None:
    """Prometheus understands each, and each names metrics that there are."""
    for _, row in panels(NEWEST):
        for panel in row:
            for expr, _ in panel.expressions():
                assert "{i}" not in expr and "{i," not in expr
                assert set(re.findall(r"pg_flashcache_[a-z_]+", expr)) <= all_names(), expr
                text = expr.replace("$__rate_interval", "1m").replace("$__range", "1h").replace("$instance", ".*")
                assert "$" not in text
                prometheus.query(text)


def test_expressions_of_alerts(prometheus: Prometheus) -> None:
    """None holds on a server that is well; what the verdict on one is whose disk is in memory depends on the moment."""
    for alert in ALERTS:
        assert set(re.findall(r"pg_flashcache_[a-z_]+", alert.expr)) <= all_names(), alert.expr
        assert prometheus.query(alert.expr) == [] or alert.name == "PgFlashcacheNotHelping"


@needs_promtool
def test_configuration(prometheus: Prometheus) -> None:
    promtool("check", "rules", "pg_flashcache.rules.yml", folder=prometheus.files)
    promtool("check", "config", "prometheus.yml", folder=prometheus.files)


# For each alert, series that must make it fire at 450 minutes: name, values by minute. All others stay silent on them.
FIRING = {
    "PgFlashcacheOff": [('pg_flashcache_state_current{instance="a",state="off"}', "1x600")],
    "PgFlashcachePaused": [('pg_flashcache_state_current{instance="a",state="paused"}', "1x600")],
    "PgFlashcacheWriterDown": [
        ('pg_flashcache_writer_up{instance="a"}', "0x600"), ('pg_flashcache_state_current{instance="a",state="active"}', "1x600")
    ],
    "PgFlashcacheHitRatioFell": [
        ('pg_flashcache_hits_total{instance="a"}', "0+6000x300 1800000x300"), ('pg_flashcache_misses_total{instance="a"}', "0+6000x600")
    ],
    "PgFlashcacheWriteLimitReached": [
        ('pg_flashcache_insert_skip_write_limit_total{instance="a"}', "0+600x600"), ('pg_flashcache_inserts_total{instance="a"}', "0+600x600")
    ],
    "PgFlashcacheDeviceErrors": [
        (f'pg_flashcache_{name}_total{{instance="a"}}', values)
        for name, values in (("read_errors", "0+1x600"), ("write_errors", "0x600"), ("timeouts", "0x600"))
    ],
    "PgFlashcacheChecksumFailures": [('pg_flashcache_checksum_failures_total{instance="a"}', "0+1x600")],
    "PgFlashcacheVerifyFailures": [('pg_flashcache_verify_failures_total{instance="a"}', "0+1x600")],
    "PgFlashcacheNotHelping": [('pg_flashcache_verdict_current{instance="a",verdict="few hits"}', "1x600")],
}  # fmt: skip


@needs_promtool
def test_alerts_fire(tmp_path: Path) -> None:
    """Each on its series, and no other on them."""
    assert set(FIRING) == {alert.name for alert in ALERTS}
    assert pgflash("monitoring", "write", tmp_path, "--for", "alerts").returncode == 0
    cases = []
    for alert in ALERTS:
        series = FIRING[alert.name]
        labels = dict(re.findall(r'(\w+)="([^"]*)"', series[0][0]))
        summary = alert.summary
        for label, value in labels.items():
            summary = summary.replace(f"{{{{ $labels.{label} }}}}", value)
        fired = {
            "exp_labels": {**labels, "severity": alert.severity}, "exp_annotations": {"summary": summary, "description": alert.description}
        }  # fmt: skip
        cases.append(
            {
                "interval": "1m", "input_series": [{"series": key, "values": values} for key, values in series],
                "alert_rule_test": [
                    {"eval_time": "450m", "alertname": other, "exp_alerts": [fired] if other == alert.name else []} for other in FIRING
                ],
            }
        )  # fmt: skip
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"rule_files": ["pg_flashcache.rules.yml"], "tests": cases}))
    promtool("test", "rules", "test.yml", folder=tmp_path)


@needs_promtool
def test_the_text_format(server: Monitored, tmp_path: Path) -> None:
    out = tmp_path / "pg_flashcache.prom"
    done = pgflash("monitoring", "sample", server.dsn, "--out", out)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
    text = out.read_text()
    promtool("check", "metrics", folder=tmp_path, text=text)
    assert set(re.findall(r"^([a-z_]+)(?:\{| )", text, re.MULTILINE)) == all_names()
    assert f"pg_flashcache_capacity_bytes {server.stat()['slots'] * 8192}\n" in text
    if server.sql("SELECT relkind FROM pg_class WHERE relname = 'pg_stat_flashcache_relation'") == "r":  # the stand-ins
        assert 'relname="a\\"b"} 2.0\n' in text
        assert 'le="1e-06"} 2.0\n' in text and 'le="2e-06"} 5.0\n' in text and 'le="+Inf"} 9.0\n' in text


def test_who_may_not_look(server: Monitored, tmp_path: Path) -> None:
    """Gets no half of the metrics, which would look like all of them; a file of before stays."""
    server.sql("CREATE ROLE outsider LOGIN")
    out = tmp_path / "pg_flashcache.prom"
    out.write_text("before")
    done = pgflash("monitoring", "sample", f"{server.dsn} user=outsider", "--out", out)
    assert (done.returncode, done.stdout, out.read_text()) == (7, "", "before")
    assert "outsider may not read pg_stat_flashcache" in done.stderr and "GRANT pg_monitor TO outsider" in done.stderr
    server.sql("DROP ROLE outsider")


def test_what_the_extension_lacks(server: Monitored) -> None:
    """A database without it, and one with its objects of 1.0."""
    server.sql("CREATE DATABASE bare", "CREATE DATABASE old")
    done = pgflash("monitoring", "sample", server.dsn.replace("dbname=postgres", "dbname=bare"))
    assert (done.returncode, done.stdout) == (7, "")
    assert "has no extension pg_flashcache" in done.stderr
    old = server.dsn.replace("dbname=postgres", "dbname=old")
    subprocess.run([f"{server.bin}/psql", "-Xqd", old, "-c", "CREATE EXTENSION pg_flashcache VERSION '1.0'"], check=True)
    done = pgflash("monitoring", "sample", old)
    assert done.returncode == 0, done.stderr
    found = set(re.findall(r"^([a-z_]+)(?:\{| )", done.stdout, re.MULTILINE))
    newer = {group.full(metric) for group in (RELATIONS, STATEMENTS, LATENCY) for metric in group.metrics}
    assert found == all_names() - newer == {group.full(metric) for group in GROUPS for metric in group.of("1.0")}
