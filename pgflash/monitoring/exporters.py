"""Collectors for exporters of Prometheus: two programs called sql_exporter, whose files differ, and postgres_exporter."""

from __future__ import annotations

from typing import Any

from pgflash.monitoring.metrics import Group, groups_of
from pgflash.monitoring.yamltext import as_yaml

# As in each of these files.
MADE = "Made by pgflash monitoring write, for objects of pg_flashcache {version} in the schema {schema}."
# Otherwise the owner of the database chooses whose operators and functions run as the role that looks.
SEARCH_PATH = "SET search_path = pg_catalog, pg_temp"
OPTIONS = "options=-csearch_path%3Dpg_catalog%2Cpg_temp"
PLAIN_DSN = f"postgres://monitor@localhost:5432/postgres?sslmode=disable&{OPTIONS}"
ROLE = f"""Connect with a search_path that the database's owner cannot change: {OPTIONS} in the URL, or
ALTER ROLE monitor SET search_path = pg_catalog, pg_temp"""


# For what takes a look at every file of a server.
SELDOM_S = 300


def made(version: str, schema: str) -> str:
    return MADE.format(version=version, schema=schema)


def sql_exporter_free(version: str, schema: str, dsn: str) -> dict[str, str]:
    """The one of Debian's package prometheus-sql-exporter (github.com/justwatchcom/sql_exporter).

    It has one kind of metric, sql_QUERY{col="COLUMN"}; a rule for each group, in Prometheus, gives them their names.
    """

    def job(name: str, interval: str, seldom: bool) -> dict[str, Any]:
        queries = [
            {
                "name": group.name, "help": group.title, "labels": [name for name, _ in group.labels],
                "values": [metric.name for metric in group.of(version)], "query": _text(group, version, schema), "allow_zero_rows": True,
            }
            for group in groups_of(version)
            if group.seldom == seldom
        ]  # fmt: skip
        return {
            "name": name, "interval": interval, "connections": [dsn],
            "startup_sql": [SEARCH_PATH, "SET statement_timeout = '10s'", "SET lock_timeout = '1s'"], "queries": queries,
        }  # fmt: skip

    config = {"jobs": [job("pg_flashcache", "15s", False), job("pg_flashcache_storage", f"{SELDOM_S}s", True)]}
    comment = f"""{made(version, schema)}
For Debian's package prometheus-sql-exporter: /etc/prometheus-sql-exporter.yml, or its -config.file.
Prometheus reads it with the job of prometheus.yml, which gives the metrics their names.
Put the connection of your servers, as URLs, under connections, and leave their options; passwords belong into ~/.pgpass."""
    rename = [
        {
            "source_labels": ["__name__", "col"], "separator": ";", "regex": "sql_(pg_flashcache[a-z_]*);(.+)",
            "target_label": "__name__", "replacement": "${1}_${2}",
        },
        {"regex": "col|driver|sql_job|user", "action": "labeldrop"},
        {"source_labels": ["host"], "regex": "(.+)", "target_label": "instance"},
        {"regex": "host|database", "action": "labeldrop"},
    ]  # fmt: skip
    scraped = {
        "job_name": "pg_flashcache", "static_configs": [{"targets": ["localhost:9237"]}], "metric_relabel_configs": rename,
    }  # fmt: skip
    return {
        "prometheus-sql-exporter.yml": as_yaml(comment, config),
        "prometheus.yml": as_yaml(
            f"{made(version, schema)}\nThe job for /etc/prometheus/prometheus.yml that reads Debian's prometheus-sql-exporter.",
            {"scrape_configs": [scraped]},
        ),
    }


def sql_exporter_burningalchemist(version: str, schema: str, dsn: str) -> dict[str, str]:
    """github.com/burningalchemist/sql_exporter: a collector, and the configuration that names it."""

    def collector(name: str, seldom: bool) -> dict[str, Any]:
        metrics: list[dict[str, Any]] = []
        queries = []
        for group in groups_of(version):
            if group.seldom != seldom:
                continue
            queries.append({"query_name": group.name, "query": _text(group, version, schema)})
            for metric in group.of(version):
                labels: dict[str, Any] = {"key_labels": [name for name, _ in group.labels]} if group.labels else {}
                metrics.append(
                    {
                        "metric_name": group.full(metric), "type": metric.kind, "help": metric.help, **labels,
                        "values": [metric.name], "query_ref": group.name,
                    }
                )  # fmt: skip
        return {"collector_name": name, **({"min_interval": f"{SELDOM_S}s"} if seldom else {}), "metrics": metrics, "queries": queries}

    config = {
        "global": {"scrape_timeout": "10s", "scrape_timeout_offset": "500ms", "max_connections": 1, "max_idle_connections": 1},
        "target": {"data_source_name": dsn, "collectors": ["pg_flashcache", "pg_flashcache_storage"]},
        "collector_files": ["*.collector.yml"],
    }
    comment = f"{made(version, schema)}\nA collector for github.com/burningalchemist/sql_exporter."
    return {
        "pg_flashcache.collector.yml": as_yaml(comment, collector("pg_flashcache", False)),
        "pg_flashcache_storage.collector.yml": as_yaml(comment, collector("pg_flashcache_storage", True)),
        "sql_exporter.yml": as_yaml(
            f"{made(version, schema)}\nThe server, for github.com/burningalchemist/sql_exporter, whose documentation\n"
            "says where a password belongs. Leave the options as they are.",
            config,
        ),
    }


def postgres_exporter(version: str, schema: str, dsn: str) -> dict[str, str]:
    """Custom queries, which postgres_exporter has declared deprecated."""
    found: dict[str, Any] = {}
    for group in groups_of(version):
        columns = [{name: {"usage": "LABEL", "description": f"Label {name}."}} for name, _ in group.labels]
        columns += [{metric.name: {"usage": metric.kind.upper(), "description": metric.help}} for metric in group.of(version)]
        found[group.name] = {"query": _text(group, version, schema), "master": not group.of_database,
                             **({"cache_seconds": SELDOM_S} if group.seldom else {}), "metrics": columns}  # fmt: skip
    comment = f"""{made(version, schema)}
For postgres_exporter: --extend.query-path.
Its custom queries are DEPRECATED by its authors and will be removed: on a new installation use sql_exporter instead.
{ROLE}"""
    return {"queries.yaml": as_yaml(comment, found)}


def _text(group: Group, version: str, schema: str) -> str:
    return group.query(version, schema) + "\n"
