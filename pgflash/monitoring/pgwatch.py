"""Metrics for pgwatch 3, as a YAML file, and a preset with all of them."""

from __future__ import annotations

from pgflash.monitoring.exporters import ROLE, made
from pgflash.monitoring.metrics import Group, groups_of
from pgflash.monitoring.yamltext import as_yaml

OLDEST_SERVER = 15  # pgwatch takes the text of the greatest version that is not newer than the server's
SELDOM = 300
INTERVALS = {"pg_flashcache_relation": 120, "pg_flashcache_statement": 120}
EPOCH = "(EXTRACT(epoch FROM pg_catalog.now()) * 1e9)::int8 AS epoch_ns"


def query(group: Group, version: str, schema: str) -> str:
    """As of the other tools, with the time, and the labels as tags."""
    text = group.query(version, schema)
    for name, sql in group.labels:
        text = text.replace(f"{sql} AS {name}", f"{sql} AS tag_{name}", 1)
    return text.replace("SELECT ", f"SELECT /* pgwatch_generated */\n       {EPOCH},\n       ", 1)


def pgwatch(version: str, schema: str, dsn: str) -> dict[str, str]:
    metrics = {}
    for group in groups_of(version):
        gauges = [metric.name for metric in group.of(version) if metric.kind == "gauge"]
        metrics[group.name] = {
            "description": group.title,
            "sqls": {OLDEST_SERVER: query(group, version, schema) + "\n"},
            **({"gauges": gauges} if gauges else {}),
            **({} if group.of_database else {"is_instance_level": True}),
        }
    preset = {
        "description": "The flash cache of pg_flashcache",
        "metrics": {group.name: SELDOM if group.seldom else INTERVALS.get(group.name, 60) for group in groups_of(version)},
    }
    comment = f"""{made(version, schema)}
For pgwatch 3 (pgwatch --metrics=FILE, beside or within your metrics.yaml). A source that has the preset pg_flashcache
is asked for all of it. The text under 15 is for PostgreSQL 15 and all later versions.
{ROLE}"""
    return {"pg_flashcache.metrics.yaml": as_yaml(comment, {"metrics": metrics, "presets": {"pg_flashcache": preset}})}
