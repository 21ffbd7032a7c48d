"""Debian's exporter really reads a server, Prometheus really reads that, and the numbers are the server's."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from pgflash.monitoring.alerts import ALERTS
from pgflash.monitoring.dashboard import panels
from pgflash.monitoring.metrics import DEVICES, DRIVES, GROUPS, LATENCY, NEWEST, RELATIONS, SERVER, STATEMENTS, WARMTH, all_names
from pgflash.monitoring.storage import EDGES, NODES, PREDICTED

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


# Expressions that have no answer on a server that is well: without this, they have one.
WELL = {"Devices that are off": " > 0"}


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The file that is imported into Grafana."""
    folder = tmp_path_factory.mktemp("dashboard")
    done = pgflash("monitoring", "write", folder, "--for", "grafana")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((folder / "pg_flashcache.dashboard.json").read_text())
    return found


def chosen(board: dict[str, Any], prometheus: Prometheus) -> list[str]:
    """The values of the variable that selects servers."""
    (variable,) = (item for item in board["templating"]["list"] if item["name"] == "instance")
    metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]).groups()  # type: ignore[union-attr]
    answer = json.loads(get(f"{prometheus.url}/api/v1/label/{label}/values?match[]={metric}"))
    return list(answer["data"])


def test_each_panel_shows_something(server: Monitored, prometheus: Prometheus, board: dict[str, Any]) -> None:
    """Each query of the file, asked as Grafana does, has an answer that is a number, with the labels of its legend."""
    instances = chosen(board, prometheus)
    assert [series["metric"]["instance"] for series in prometheus.query("pg_flashcache_hits_total")] == instances
    one_of = "|".join(re.sub(r"([\\^$*+?.()|[\]{}])", r"\\\\\1", name) for name in instances)  # as Grafana escapes within quotes
    asked = 0
    for panel in (panel for panel in board["panels"] if panel["type"] != "row"):
        for target in panel["targets"]:
            text = target["expr"].replace("$__rate_interval", "1m").replace("$__range", "1h").replace("$instance", f"({one_of})")
            assert "$" not in text.replace('"$1"', "").replace(' $1"', "")
            if healthy := WELL.get(panel["title"]):
                assert healthy in text and prometheus.query(text) == []
                text = text.replace(healthy, "")

            def answer(text: str = text, instant: bool = target.get("instant", False)) -> list[dict[str, Any]]:
                server.read()
                series = prometheus.query(text) if instant else prometheus.over_time(text)
                values = [value for item in series for _, value in item.get("values", [item.get("value")])]
                return series if any(value not in ("NaN", "+Inf", "-Inf") for value in values) else []

            try:
                series = until(answer)
            except AssertionError:
                pytest.fail(f"{panel['title']}: nothing answers {text}")
            if panel["type"] not in ("table", "nodeGraph"):
                assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= set.intersection(
                    *(set(item["metric"]) for item in series)
                )
            asked += 1
    assert asked == sum(len(panel.lines) for _, row in panels(NEWEST) for panel in row)


def test_expressions_of_alerts(prometheus: Prometheus) -> None:
    """None holds on a server that is well; what the verdict on one is whose disk is in memory depends on the moment."""
    for alert in ALERTS:
        assert prometheus.query(alert.expr) == [] or alert.name == "PgFlashcacheNotHelping"


def picture(prometheus: Prometheus) -> tuple[dict[str, dict[str, str]], set[tuple[str, str]]]:
    """What the node graph shows: nodes by their ids, and edges. Grafana's panel fails on an id that is not unique, or not there."""

    def answer(text: str) -> list[dict[str, Any]]:
        return prometheus.query(text.replace("{i}", '{instance=~".*"}'))

    found = answer(NODES)
    nodes = {item["metric"]["id"]: {**item["metric"], "value": item["value"][1]} for item in found}
    assert len(nodes) == len(found)
    predicted = [item["metric"]["id"] for item in answer(PREDICTED)]
    assert len(set(predicted)) == len(predicted) and set(predicted) <= set(nodes)
    edges = [item["metric"] for item in answer(EDGES)]
    assert len({edge["id"] for edge in edges}) == len(edges)
    assert {edge[end] for edge in edges for end in ("source", "target")} <= set(nodes)
    return nodes, {(edge["source"], edge["target"]) for edge in edges}


def test_picture_of_storage(server: Monitored, prometheus: Prometheus) -> None:
    """From a database to the flash cache, by tablespaces and the file systems that they are really on, with real sizes."""
    server.sql("CREATE TABLE IF NOT EXISTS on_fast TABLESPACE fast AS SELECT 1")
    (series,) = prometheus.query("pg_flashcache_hits_total")
    instance = series["metric"]["instance"]
    database, cache = f"database/{instance}/postgres", f"flash cache/{instance}"
    spaces = {name: f"tablespace/{instance}/{name}" for name in ("pg_default", "pg_global", "fast")}

    mount = server.data
    while not mount.is_mount():
        mount = mount.parent
    file_system = f"file system/{instance.partition(':')[0]}/{mount}"

    def complete() -> Any:
        nodes, edges = picture(prometheus)
        there = file_system in nodes and (database, spaces["fast"]) in edges and any(target == cache for _, target in edges)
        return (nodes, edges) if there else None

    nodes, edges = until(complete)
    assert set(nodes) >= {database, cache, *spaces.values(), file_system}
    assert {source for source, target in edges if target == cache} == {file_system}
    assert edges >= {(database, spaces["pg_default"]), (database, spaces["fast"])}
    assert edges >= {(space, file_system) for space in spaces.values()}
    assert (database, spaces["pg_global"]) not in edges
    assert (nodes[database]["title"], nodes[file_system]["title"]) == ("postgres", str(mount))
    size = server.rows("SELECT pg_database_size('postgres') AS size")[0]["size"]
    assert float(nodes[database]["value"]) * 1e9 == pytest.approx(size, rel=0.5)
    total = prometheus.value(f'max(pg_flashcache:filesystem_size_bytes{{mountpoint="{mount}"}})')
    counted = os.statvfs(mount)
    assert total == counted.f_blocks * counted.f_frsize
    assert until(lambda: prometheus.query(PREDICTED.replace("{i}", '{instance=~".*"}')))


@needs_promtool
def test_configuration(prometheus: Prometheus) -> None:
    promtool("check", "rules", "pg_flashcache.rules.yml", folder=prometheus.files)
    promtool("check", "config", "prometheus.yml", folder=prometheus.files)


# For each alert, series that must make it fire at 450 minutes: name, values by minute. All others stay silent on them.
FIRING = {
    "PgFlashcacheOff": [('pg_flashcache_state_current{instance="a",state="off"}', "1x600")],
    "PgFlashcacheNotStarted": [('pg_flashcache_not_started{instance="a"}', "1x600"), ('pg_flashcache_not_started{instance="b"}', "0x600")],
    "PgFlashcacheDeviceOff": [
        ('pg_flashcache_device_off{instance="a",device="2",path="/flash/2"}', "1x600"),
        ('pg_flashcache_state_current{instance="a",state="active"}', "1x600"),
        ('pg_flashcache_device_off{instance="b",device="1",path="/flash/1"}', "1x600"),
        ('pg_flashcache_device_off{instance="b",device="2",path="/flash/2"}', "0x600"),
    ],
    "PgFlashcachePaused": [('pg_flashcache_state_current{instance="a",state="paused"}', "1x600")],
    "PgFlashcacheWriterDown": [
        ('pg_flashcache_writer_up{instance="a"}', "0x600"), ('pg_flashcache_state_current{instance="a",state="active"}', "1x600")
    ],
    # b does not keep anything, c does, and d is off.
    "PgFlashcachePersistenceNotWritten": [
        (f'pg_flashcache_{name}{{instance="{instance}"{more}}}', values)
        for instance, wanted, writing, active in (("a", 1, 0, 1), ("b", 0, 0, 1), ("c", 1, 1, 1), ("d", 1, 0, 0))
        for name, more, values in (
            ("persistence_wanted", "", f"{wanted}x600"), ("persistence_writing", "", f"{writing}x600"),
            ("state_current", ',state="active"', f"{active}x600"),
        )
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
    # Every four minutes. Full in 9 days; a file system above it, and one of another machine, have room.
    "PgFlashcacheTablespaceFull": [
        ('pg_flashcache_tablespace_size_bytes{instance="a:5432",location="/srv/pg/fast/1",tablespace="fast"}', "1x800"),
        ('node_filesystem_size_bytes{instance="a:9100",device="/dev/x",mountpoint="/srv/pg"}', "1000000000x800"),
        ('node_filesystem_avail_bytes{instance="a:9100",device="/dev/x",mountpoint="/srv/pg"}', "100000000-30000x800"),
        ('node_filesystem_size_bytes{instance="a:9100",device="/dev/y",mountpoint="/srv"}', "1000000000x800"),
        ('node_filesystem_avail_bytes{instance="a:9100",device="/dev/y",mountpoint="/srv"}', "500000000x800"),
        ('node_filesystem_size_bytes{instance="b:9100",device="/dev/x",mountpoint="/srv/pg/fast"}', "1000000000x800"),
        ('node_filesystem_avail_bytes{instance="b:9100",device="/dev/x",mountpoint="/srv/pg/fast"}', "500000000x800"),
    ],
    # Machine c has no cache.
    "PgFlashcacheWear": [
        ('smartctl_device_percentage_used{instance="a:9633",device="nvme0"}', "81x600"),
        ('nvme_percentage_used_ratio{instance="a:9100",device="nvme1n1"}', "0.2x600"),
        ('smartctl_device_percentage_used{instance="c:9633",device="nvme0"}', "99x600"),
        ('pg_flashcache_capacity_bytes{instance="a:5432"}', "1x600"),
        ('pg_flashcache_drive_wear_ratio{instance="a:5432",device="1",path="/flash",drive="nvme2n1"}', "0.8x600"),
    ],
    "PgFlashcacheDriveLife": [
        ('pg_flashcache_drive_life_left_seconds{instance="a",device="1",path="/flash",drive="nvme0n1"}', "7775999x600"),
        ('pg_flashcache_drive_life_left_seconds{instance="b",device="1",path="/flash",drive="nvme0n1"}', "7776000x600"),
    ],
    "PgFlashcacheDriveFailing": [
        ('pg_flashcache_drive_failing{instance="a",device="1",path="/flash",drive="nvme0n1"}', "1x600"),
        ('pg_flashcache_drive_failing{instance="b",device="1",path="/flash",drive="nvme0n1"}', "0x600"),
    ],
}  # fmt: skip
# Labels of an alert that are not those of its first series; the interval of its values and when it is looked at, if they are not a
# minute and 450 of them.
LABELS = {
    "PgFlashcacheTablespaceFull": {
        "instance": "a:5432", "host": "a", "tablespace": "fast", "location": "/srv/pg/fast/1", "mountpoint": "/srv/pg", "device": "/dev/x",
    },
    "PgFlashcacheWear": {"host": "a", "device": "nvme0"},
}  # fmt: skip
TIMES = {"PgFlashcacheTablespaceFull": ("4m", "2800m")}


@needs_promtool
def test_alerts_fire(tmp_path: Path) -> None:
    """Each on its series, and no other on them."""
    assert set(FIRING) == {alert.name for alert in ALERTS}
    assert pgflash("monitoring", "write", tmp_path, "--for", "alerts").returncode == 0
    cases = []
    for alert in ALERTS:
        series = FIRING[alert.name]
        labels = LABELS.get(alert.name) or dict(re.findall(r'(\w+)="([^"]*)"', series[0][0]))
        summary, description = alert.summary, alert.description
        for label, value in labels.items():
            summary, description = (text.replace(f"{{{{ $labels.{label} }}}}", value) for text in (summary, description))
        fired = {
            "exp_labels": {**labels, "severity": alert.severity}, "exp_annotations": {"summary": summary, "description": description}
        }  # fmt: skip
        interval, moment = TIMES.get(alert.name, ("1m", "450m"))
        cases.append(
            {
                "interval": interval, "input_series": [{"series": key, "values": values} for key, values in series],
                "alert_rule_test": [
                    {"eval_time": moment, "alertname": other, "exp_alerts": [fired] if other == alert.name else []}
                    for other in FIRING
                ],
            }
        )  # fmt: skip
    (tmp_path / "test.yml").write_text(
        yaml.safe_dump({"rule_files": ["pg_flashcache.rules.yml"], "evaluation_interval": "4m", "tests": cases})
    )
    promtool("test", "rules", "test.yml", folder=tmp_path)


@needs_promtool
def test_wear_of_the_cache_s_drive(tmp_path: Path) -> None:
    """As pgflash drives reports it: no other exporter is needed."""
    assert pgflash("monitoring", "write", tmp_path, "--for", "alerts").returncode == 0
    wear = 'pg_flashcache_drive_wear_ratio{instance="a:5432",device="1",path="/flash",drive="nvme0n1"}'
    (alert,) = (alert for alert in ALERTS if alert.name == "PgFlashcacheWear")
    fired = {
        "exp_labels": {"host": "a", "device": "nvme0n1", "severity": "warning"},
        "exp_annotations": {"summary": "nvme0n1 of a nears the end of its endurance", "description": alert.description},
    }
    cases = [
        {
            "interval": "1m",
            "input_series": [{"series": wear, "values": value}, {"series": 'pg_flashcache_capacity_bytes{instance="a:5432"}', "values": "1x600"}],
            "alert_rule_test": [{"eval_time": "450m", "alertname": alert.name, "exp_alerts": expected}],
            "promql_expr_test": [
                {"expr": "pg_flashcache:wear_ratio", "eval_time": "450m",
                 "exp_samples": [{"labels": 'pg_flashcache:wear_ratio{host="a",device="nvme0n1"}', "value": float(value[:4])}]}
            ],
        }
        for value, expected in (("0.81x600", [fired]), ("0.80x600", []))
    ]  # fmt: skip
    (tmp_path / "test.yml").write_text(
        yaml.safe_dump({"rule_files": ["pg_flashcache.rules.yml"], "evaluation_interval": "4m", "tests": cases})
    )
    promtool("test", "rules", "test.yml", folder=tmp_path)


def test_drives(server: Monitored) -> None:
    """What was reported, to the number; what a drive does not say, or nobody has reported, is no series."""
    server.sql("CREATE DATABASE drives")
    dsn = server.dsn.replace("dbname=postgres", "dbname=drives")

    def drives(*reports: str) -> dict[str, float]:
        with psycopg.connect(dsn, autocommit=True) as connection:
            for arguments in reports:
                connection.execute(f"SELECT pg_flashcache_report_drive(path, {arguments}) FROM pg_stat_flashcache_device".encode())
        found = json.loads(pgflash("monitoring", "sample", dsn, "--json").stdout)["metrics"]
        of_drives = [one for one in found if one["name"].startswith("pg_flashcache_drive_")]
        assert {one["labels"]["drive"] for one in of_drives} <= {"sdz"} and len({one["labels"]["path"] for one in of_drives}) <= 1
        return {one["name"].removeprefix("pg_flashcache_drive_"): one["value"] for one in of_drives}

    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION pg_flashcache")
    assert drives() == {}
    before = time.time()
    silent = drives("'sdz'")
    assert before - 1 <= silent.pop("reported_timestamp_seconds") <= time.time() + 1
    assert silent == {"failing": 0}
    said = drives("'sdz', passed => true, used_percent => 130, spare_percent => 40, spare_threshold => 10, temperature => 41")
    del said["reported_timestamp_seconds"]
    assert said == {"failing": 0, "health_score": 0, "wear_ratio": 1.3, "temperature_celsius": 41}
    failing = drives("'sdz', passed => false, used_percent => 30, temperature => -5")
    del failing["reported_timestamp_seconds"]
    assert failing == {"failing": 1, "health_score": 0, "wear_ratio": 0.3, "temperature_celsius": -5}
    assert drives("'sdz', used_percent => 30")["health_score"] == 70
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("DROP DATABASE drives WITH (FORCE)")
    text = pgflash("monitoring", "sample", server.dsn).stdout
    (life,) = (line for line in text.splitlines() if line.startswith("pg_flashcache_drive_life"))
    assert life.endswith(f'drive="nvme0n1"}} {400 * 86400}.0')


@needs_promtool
def test_capacity_is_not_foretold_too_early(tmp_path: Path) -> None:
    """Less than a day of measurements says nothing about a month, and a week nothing about the wear of three."""
    assert pgflash("monitoring", "write", tmp_path, "--for", "alerts").returncode == 0
    wearing = [
        ('smartctl_device_percentage_used{instance="a:9633",device="nvme0"}', "0+1x20"),
        ('pg_flashcache_capacity_bytes{instance="a:5432"}', "1x20"),
    ]
    cases = [
        {
            "interval": interval, "input_series": [{"series": key, "values": values} for key, values in series],
            "alert_rule_test": [{"eval_time": moment, "alertname": alert, "exp_alerts": []}],
        }
        for alert, interval, series, moment in (
            ("PgFlashcacheTablespaceFull", "4m", FIRING["PgFlashcacheTablespaceFull"], "1400m"),
            ("PgFlashcacheWear", "5m", wearing, "95m"),
        )
    ]  # fmt: skip
    (tmp_path / "test.yml").write_text(
        yaml.safe_dump({"rule_files": ["pg_flashcache.rules.yml"], "evaluation_interval": "4m", "tests": cases})
    )
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
    assert (done.returncode, done.stdout, out.read_text()) == (3, "", "before")
    assert "outsider may not read pg_stat_flashcache" in done.stderr and "GRANT pg_monitor TO outsider" in done.stderr
    server.sql("DROP ROLE outsider")


def test_what_the_extension_lacks(server: Monitored) -> None:
    """A database without it, and one with its objects of 1.0."""
    server.sql("CREATE DATABASE bare", "CREATE DATABASE old")
    done = pgflash("monitoring", "sample", server.dsn.replace("dbname=postgres", "dbname=bare"))
    assert (done.returncode, done.stdout) == (3, "")
    assert "has no extension pg_flashcache" in done.stderr
    old = server.dsn.replace("dbname=postgres", "dbname=old")
    subprocess.run([f"{server.bin}/psql", "-Xqd", old, "-c", "CREATE EXTENSION pg_flashcache VERSION '1.0'"], check=True)
    done = pgflash("monitoring", "sample", old)
    assert done.returncode == 0, done.stderr
    found = set(re.findall(r"^([a-z_]+)(?:\{| )", done.stdout, re.MULTILINE))
    newer = {group.full(metric) for group in (RELATIONS, STATEMENTS, LATENCY, DEVICES, *DRIVES, WARMTH) for metric in group.metrics}
    assert found == all_names() - newer == {group.full(metric) for group in GROUPS for metric in group.of("1.0")}
