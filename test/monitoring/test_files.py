"""What is made from the table of metrics, and that the table is complete."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import Dataquery

from pgflash.monitoring.cli import Tool
from pgflash.monitoring.metrics import GROUPS, LEFT_OUT, NEWEST, SERVER, STATEMENTS, STATES, VERDICTS, VERSIONS, all_names, groups_of
from pgflash.monitoring.storage import FOREIGN

from .conforming import violations
from .conftest import ROOT, Monitored, pgflash


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All files of the newest version, by name."""
    folder = tmp_path_factory.mktemp("files")
    done = pgflash("monitoring", "write", folder, "--json", *(word for tool in Tool for word in ("--for", tool.value)))
    assert done.returncode == 0, done.stderr
    return {Path(name).name: Path(name) for name in json.loads(done.stdout)["files"]}


def test_every_column_is_a_metric_or_left_out(server: Monitored) -> None:
    shown = [metric.column for metric in SERVER.metrics if metric.column]
    assert len(set(shown)) == len(shown)
    assert not set(shown) & set(LEFT_OUT)
    assert set(shown) | set(LEFT_OUT) == set(server.stat())


def test_names() -> None:
    """Of Prometheus: base units, and _total for what only grows."""
    for group in GROUPS:
        for metric in group.metrics:
            name = group.full(metric)
            assert re.fullmatch(r"pg_flashcache(_[a-z0-9]+)+", name)
            assert name.endswith(("_total", "_bucket")) == (metric.kind == "counter"), name
            if metric.unit in ("seconds", "bytes"):
                assert metric.unit in name, name
            assert metric.help.endswith(".")
    assert len(all_names()) == sum(len(group.metrics) for group in GROUPS)


def test_states_and_verdicts_are_the_documented_ones() -> None:
    """Those of docs/views.md."""
    text = (ROOT / "docs/views.md").read_text()
    line, *_ = re.findall(r"^\| `state` \|.*$", text.split("\n## `pg_stat_flashcache`\n")[1], re.MULTILINE)
    assert set(re.findall(r"`(\w+)`(?= \(|;| \||$|, )", line)) - {"state"} >= set(STATES)
    section = text.split("### `verdict`")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `([a-z ]+)` \|", section, re.MULTILINE)) == set(VERDICTS)


@pytest.mark.parametrize("version", VERSIONS)
def test_queries(server: Monitored, version: str) -> None:
    """Each gives its labels as text and its metrics as numbers that are not NULL, for a role that is just a monitor."""
    with psycopg.connect(server.dsn.replace("user=postgres", "user=monitor")) as connection:
        for group in groups_of(version):
            cursor = connection.execute(group.query(version, "public"))
            assert [column.name for column in cursor.description or []] == [name for name, _ in group.labels] + [
                item.name for item in group.of(version)
            ]
            rows = cursor.fetchall()
            assert rows, group.name
            for row in rows:
                assert all(isinstance(value, str) for value in row[: len(group.labels)]), row
                assert all(float(value) >= 0 for value in row[len(group.labels) :]), row


def test_pgwatch(server: Monitored, made: dict[str, Path]) -> None:
    """Its SQL runs, and has the columns that pgwatch wants."""
    found = yaml.safe_load(made["pg_flashcache.metrics.yaml"].read_text())
    assert set(found["metrics"]) == set(found["presets"]["pg_flashcache"]["metrics"]) == {group.name for group in GROUPS}
    for name, metric in found["metrics"].items():
        assert set(metric) <= {"description", "sqls", "gauges", "is_instance_level"}
        assert set(metric["sqls"]) == {15}
        row = server.rows(metric["sqls"][15])[0]
        assert isinstance(row.pop("epoch_ns"), int)
        (group,) = (item for item in GROUPS if item.name == name)
        assert set(row) == {f"tag_{label}" for label, _ in group.labels} | {item.name for item in group.metrics}
        assert set(metric.get("gauges", [])) <= set(row)


def test_burningalchemist(server: Monitored, made: dict[str, Path]) -> None:
    collectors = [yaml.safe_load(made[f"{name}.collector.yml"].read_text()) for name in ("pg_flashcache", "pg_flashcache_storage")]
    queries = {query["query_name"]: server.rows(query["query"])[0] for found in collectors for query in found["queries"]}
    metrics = [metric for found in collectors for metric in found["metrics"]]
    assert sorted(metric["metric_name"] for metric in metrics) == sorted(all_names())
    assert ["min_interval" in found for found in collectors] == [False, True]
    for metric in metrics:
        assert set(metric) <= {"metric_name", "type", "help", "key_labels", "values", "query_ref"}
        row = queries[metric["query_ref"]]
        assert set(metric.get("key_labels", [])) | set(metric["values"]) <= set(row)
        assert metric["type"] in ("counter", "gauge")
    config = yaml.safe_load(made["sql_exporter.yml"].read_text())
    assert config["target"]["collectors"] == [found["collector_name"] for found in collectors]


def test_postgres_exporter(server: Monitored, made: dict[str, Path]) -> None:
    """It names a metric QUERY_COLUMN."""
    text = made["queries.yaml"].read_text()
    assert "DEPRECATED" in text
    names = set()
    for name, query in yaml.safe_load(text).items():
        row = server.rows(query["query"])[0]
        columns = {column: item["usage"] for entry in query["metrics"] for column, item in entry.items()}
        assert set(columns) == set(row)
        names |= {f"{name}_{column}" for column, usage in columns.items() if usage in ("COUNTER", "GAUGE")}
        assert set(columns.values()) <= {"LABEL", "COUNTER", "GAUGE"}
    assert names == all_names()


OPTION = "options=-csearch_path%3Dpg_catalog%2Cpg_temp"


def test_every_file_of_a_tool_that_asks_sets_search_path(made: dict[str, Path]) -> None:
    for job in yaml.safe_load(made["prometheus-sql-exporter.yml"].read_text())["jobs"]:
        assert job["startup_sql"][0] == "SET search_path = pg_catalog, pg_temp"
        assert job["connections"] == [f"postgres://monitor@localhost:5432/postgres?sslmode=disable&{OPTION}"]
    assert yaml.safe_load(made["sql_exporter.yml"].read_text())["target"]["data_source_name"].endswith(f"&{OPTION}")
    for name in ("queries.yaml", "pg_flashcache.metrics.yaml"):  # these hold no connection: they say how to make it
        text = made[name].read_text()
        assert OPTION in text and "ALTER ROLE monitor SET search_path = pg_catalog, pg_temp" in text
    assert "pgflash itself sets search_path to pg_catalog, pg_temp" in made["pgflash-metrics.service"].read_text()


def test_search_path_against_the_databases_owner(server: Monitored) -> None:
    """As docs/monitoring.md says: the URL's options, and ALTER ROLE, against ALTER DATABASE; and that she cannot undo the latter."""
    server.sql("CREATE ROLE alice LOGIN", "CREATE ROLE careful LOGIN IN ROLE pg_monitor", "CREATE DATABASE app OWNER alice")
    try:
        server.sql("ALTER DATABASE app SET search_path = evil, pg_catalog", "ALTER ROLE careful SET search_path = pg_catalog, pg_temp")

        def path(url: str) -> str:
            with psycopg.connect(url) as connection:
                found = connection.execute("SHOW search_path").fetchone()
            assert found
            return str(found[0]).replace(" ", "")

        app = server.url.replace("/postgres?", "/app?")
        assert path(app) == "evil,pg_catalog"
        assert path(f"{app}&{OPTION}") == "pg_catalog,pg_temp"
        assert path(app.replace("monitor@", "careful@")) == "pg_catalog,pg_temp"
        with psycopg.connect(app.replace("monitor@", "alice@")) as alice, pytest.raises(psycopg.errors.InsufficientPrivilege):
            alice.execute("ALTER ROLE careful IN DATABASE app SET search_path = evil")
    finally:
        server.sql("DROP DATABASE IF EXISTS app", "DROP ROLE alice", "DROP ROLE careful")


def test_statements_are_read_without_their_texts(made: dict[str, Path]) -> None:
    """Metrics show none, and reading them takes pg_stat_statements' file of texts."""
    for name in ("prometheus-sql-exporter.yml", "pg_flashcache.collector.yml", "queries.yaml", "pg_flashcache.metrics.yaml"):
        text = made[name].read_text()
        assert "public.pg_flashcache_statement_stat(false)" in text and "pg_stat_flashcache_statements" not in text
    assert STATEMENTS.reads == "pg_flashcache_statement_stat(boolean)"


def not_in(file: Any, again: Any, path: str = "") -> Iterator[str]:
    """What the file has and the library does not write: it does not know that. It may add defaults."""
    if isinstance(file, dict) and isinstance(again, dict):
        for key, value in file.items():
            yield from not_in(value, again[key], f"{path}.{key}") if key in again else [f"{path}.{key}"]
    elif isinstance(file, list) and isinstance(again, list) and len(file) == len(again):
        for number, (one, other) in enumerate(zip(file, again, strict=True)):
            yield from not_in(one, other, f"{path}[{number}]")
    elif file != again:
        yield path


def against_the_schema(board: Any) -> list[str]:
    """All that Grafana's schema does not allow, those of the panels' and queries' kinds among it."""
    register_default_plugins()
    read = models.Dashboard.from_json(board)
    untyped = [
        f"panel {panel.title}: no schema for this kind"
        for panel in read.panels or []
        if isinstance(panel, models.Panel)
        and (isinstance(panel.options, dict) or any(not isinstance(target, Dataquery) for target in panel.targets or []))
    ]
    return untyped + list(not_in(board, json.loads(JSONEncoder().encode(read)))) + list(violations(read))


def test_dashboard_keeps_to_the_schema(made: dict[str, Path]) -> None:
    """Grafana's library knows each value, and each is of its type."""
    board = json.loads(made["pg_flashcache.dashboard.json"].read_text())
    assert against_the_schema(board) == []
    titles = {panel["title"] for panel in board["panels"]}
    assert {"State", "State and verdict", "Hit ratio", "Reads by source", "Mean latency by source", "Fill", "Writes to flash"} <= titles
    assert {"Relations by disk reads", "Statements by time of disk reads"} <= titles


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("timeseries", "fieldConfig.defaults.unit", 3),
        ("timeseries", "fieldConfig.defaults.custom.showPoints", "nevr"),
        ("timeseries", "fieldConfig.defaults.custom.lineWith", 1),
        ("bargauge", "options.displayMode", "basik"),
        ("bargauge", "options.colour", "green"),
        ("bargauge", "fieldConfig.defaults.thresholds.mode", "abs"),
        ("table", "targets.0.format", "tabel"),
        ("table", "targets.0.instant", "yes"),
        ("table", "targets.0.exprs", "up"),
        ("table", "gridPos.w", "12"),
        ("nodeGraph", "transformations.0.idd", "joinByField"),
        ("nodeGraph", "type", "nodegraf"),
    ],
)
def test_the_check_of_the_schema(made: dict[str, Path], kind: str, path: str, value: Any) -> None:
    """It sees a wrong type, a word that is none of a list, and a name that is not known."""
    board = json.loads(made["pg_flashcache.dashboard.json"].read_text())
    *way, last = path.split(".")
    place: Any = next(panel for panel in board["panels"] if panel["type"] == kind)
    for name in way:
        place = place[int(name) if name.isdigit() else name]
    place[last] = value
    assert against_the_schema(board)


def test_what_the_schema_does_not_say(made: dict[str, Path]) -> None:
    """No panel covers another one, and each variable is one of the dashboard's, or Grafana's own."""
    text = made["pg_flashcache.dashboard.json"].read_text()
    board = json.loads(text)
    taken: set[tuple[int, int]] = set()
    for at in (panel["gridPos"] for panel in board["panels"]):
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert cells and not cells & taken and at["x"] + at["w"] <= 24
        taken |= cells
    variables = {variable["name"] for variable in board["templating"]["list"]}
    assert set(re.findall(r"\$(?!\d)(\w+)", text)) <= variables | {"__rate_interval", "__range"}


def test_what_others_measure(made: dict[str, Path]) -> None:
    """Dashboard, alerts and documentation name metrics of the table, those of FOREIGN, and what the rules record."""
    rules = yaml.safe_load(made["pg_flashcache.rules.yml"].read_text())["groups"][0]["rules"]
    recorded = {rule["record"] for rule in rules if "record" in rule}
    targets = [target["expr"] for panel in json.loads(made["pg_flashcache.dashboard.json"].read_text())["panels"]
               for target in panel.get("targets", [])]  # fmt: skip
    texts = [rule["expr"] for rule in rules] + targets
    named = {name for text in texts for name in re.findall(r"\b(?:pg_flashcache:|pg_flashcache_|node_|smartctl_|nvme_)\w+", text)}
    assert named <= all_names() | set(FOREIGN) | recorded
    assert recorded | set(FOREIGN) <= named
    documented = (ROOT / "docs/monitoring.md").read_text()
    for name in recorded | set(FOREIGN):
        assert f"`{name}`" in documented


def test_the_picture_has_frames_of_the_names_that_the_panel_reads(made: dict[str, Path]) -> None:
    """As Grafana's data library 11.6 does it: answers about nodes are joined, and get columns by these names."""
    (panel,) = (item for item in json.loads(made["pg_flashcache.dashboard.json"].read_text())["panels"] if item["type"] == "nodeGraph")
    assert [(target["refId"], target["format"], target["instant"]) for target in panel["targets"]] == [
        ("nodes", "table", True), ("predicted", "table", True), ("edges", "table", True)
    ]  # fmt: skip
    join, *calculated = panel["transformations"]
    assert (join["id"], join["options"]["byField"]) == ("joinByField", "id")
    assert re.fullmatch(join["filter"]["options"].strip("/"), "nodes") and not re.fullmatch(join["filter"]["options"].strip("/"), "edges")
    assert {
        (item["id"], item["filter"]["options"], item["options"]["alias"], *item["options"]["reduce"]["include"]) for item in calculated
    } == {
        ("calculateField", "joinByField-nodes-predicted", "mainstat", "Value #nodes"),
        ("calculateField", "joinByField-nodes-predicted", "secondarystat", "Value #predicted"),
    }


def test_an_older_extension_has_fewer(tmp_path: Path) -> None:
    done = pgflash("monitoring", "write", tmp_path, "--extension", "1.0", "--schema", "fc", *(w for t in Tool for w in ("--for", t.value)))
    assert done.returncode == 0, done.stderr
    text = "".join(path.read_text() for path in tmp_path.iterdir())
    assert "pg_flashcache_hits_total" in text and "fc.pg_stat_flashcache" in text
    assert "pg_flashcache_relation" not in text and "public.pg_" not in text


def test_nothing_is_replaced_unasked(tmp_path: Path) -> None:
    (tmp_path / "pg_flashcache.rules.yml").write_text("mine")
    done = pgflash("monitoring", "write", tmp_path, "--for", "alerts", "--for", "pgwatch")
    assert done.returncode == 2 and "already in" in done.stderr
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]
    assert pgflash("monitoring", "write", tmp_path, "--for", "alerts", "--force").returncode == 0
    assert (tmp_path / "pg_flashcache.rules.yml").read_text() != "mine"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--extension", "0.9"), "no version '0.9' of the extension"),
        (("--schema", "a b"), "'a b' will not do as a schema"),
        (("--for", "abacus"), "abacus"),
    ],
)
def test_wrong_arguments(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = pgflash("monitoring", "write", tmp_path / "new", "--for", "alerts", *arguments)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "new").exists()


def test_the_list() -> None:
    found: list[dict[str, Any]] = json.loads(pgflash("monitoring", "list", "--json").stdout)
    assert {row["name"] for row in found} == all_names()
    assert {row["since"] for row in found} == set(VERSIONS)


def test_documentation_has_the_table() -> None:
    """Each metric with its type, in the order of the table."""
    text = (ROOT / "docs/monitoring.md").read_text()
    rows = re.findall(r"^\| `(pg_flashcache_[a-z_]+)`(?: by ([^|]*))? \| (counter|gauge) \| (.*) \|$", text, re.MULTILINE)
    wanted = [
        (group.full(metric), ", ".join(f"`{label}`" for label, _ in group.labels), metric.kind, metric.help)
        for group in GROUPS
        for metric in group.of(NEWEST)
    ]
    assert rows == wanted
    for column, reason in LEFT_OUT.items():
        assert f"| `{column}` | {reason} |" in text
