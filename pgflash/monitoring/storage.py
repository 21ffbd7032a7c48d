"""Databases, tablespaces, file systems and flash, for Prometheus: what is recorded by rules, and the expressions of the picture.

A server knows its tablespaces and their paths, node_exporter the file systems of a machine and where they are mounted. The two are
joined by the name of the machine, which is what stands before the colon in the label instance of both, and by the longest mount
point that a tablespace's path begins with.
"""

from __future__ import annotations

MONTH = 30 * 86400
DEEPEST = 8  # parts of a path below its mount point that are looked for
# What others measure: the name of the metric, and who has it.
FOREIGN = {
    "node_filesystem_size_bytes": "node_exporter (Debian: prometheus-node-exporter)",
    "node_filesystem_avail_bytes": "node_exporter",
    "smartctl_device_percentage_used": "smartctl_exporter",
    "nvme_percentage_used_ratio": "node_exporter with nvme_metrics.sh (Debian: prometheus-node-exporter-collectors)",
}
SIZE = "pg_flashcache:filesystem_size_bytes"
AVAIL = "pg_flashcache:filesystem_avail_bytes"
WEAR = "pg_flashcache:wear_ratio"


def _with_host(expr: str) -> str:
    return f'label_replace({expr}, "host", "$1", "instance", "([^:]+).*")'


def _mounted() -> str:
    """The size of the file system of each tablespace: of several mount points above it, the one of the longest name."""
    tablespaces = _with_host("pg_flashcache_tablespace_size_bytes")
    file_systems = f"topk by (host, mountpoint) (1, {_with_host('node_filesystem_size_bytes')})"

    def at(mount: str, location: str) -> str:
        return (
            f'label_replace({tablespaces}, "mountpoint", "{mount}", "location", "{location}")'
            f" * 0 + on (host, mountpoint) group_left (device) {file_systems}"
        )

    levels = [at("$1", "(/.+)" + "/[^/]+" * depth) for depth in range(DEEPEST)] + [at("/", "/.*")]
    return "\nor on (instance, tablespace)\n".join(levels)


# Name and expression, in the order in which they build on each other.
RULES = (
    (SIZE, _mounted()),
    (
        AVAIL,
        f"{SIZE} * 0 + on (host, mountpoint, device) group_left ()"
        f" max by (host, mountpoint, device) ({_with_host('node_filesystem_avail_bytes')})",
    ),
    (
        WEAR,
        f"max by (host, device) ({_with_host('smartctl_device_percentage_used')} / 100"
        f" or {_with_host('nvme_percentage_used_ratio')}"
        f' or label_replace({_with_host("pg_flashcache_drive_wear_ratio")}, "device", "$1", "drive", "(.+)"))'
        f" and on (host) {_with_host('pg_flashcache_capacity_bytes')} > 0",
    ),
)

FULL = f"predict_linear({AVAIL}[7d], {MONTH}) < 0 and {AVAIL} offset 1d"
WORN = f"{WEAR} > 0.8 or (predict_linear({WEAR}[30d], {3 * MONTH}) > 1 and {WEAR} offset 7d)"

# {i} stands for the selected servers, as in dashboard.py.
USED = f"1 - max by (host, mountpoint) ({AVAIL}{{i}}) / max by (host, mountpoint) ({SIZE}{{i}})"
USED_THEN = (
    f"1 - clamp_min(max by (host, mountpoint) (predict_linear({AVAIL}{{i}}[7d], {MONTH})), 0) / max by (host, mountpoint) ({SIZE}{{i}})"
)


def _id(expr: str, label: str, kind: str, *names: str) -> str:
    """The label, as identifier of a node: what it is and its names."""
    quoted = ", ".join(f'"{name}"' for name in names)
    return f'label_join(label_replace({expr}, "kind", "{kind}", "instance", ".*"), "{label}", "/", "kind", {quoted})'


DATABASE = ("database", "instance", "datname")
TABLESPACE = ("tablespace", "instance", "tablespace")
FILE_SYSTEM = ("file system", "host", "mountpoint")
CACHE = ("flash cache", "instance")
_CACHES = "(pg_flashcache_capacity_bytes{i} > 0)"


def _node(expr: str, kind: tuple[str, ...], title: str, subtitle: str) -> str:
    named = f'label_replace({_id(expr, "id", *kind)}, "title", "$1", "{title}", "(.*)")'
    return f'max by (id, title, subtitle) (label_replace({named}, "subtitle", "{kind[0]} $1", "{subtitle}", "(.*)")) / 1e9'


def _edge(expr: str, source: tuple[str, ...], target: tuple[str, ...]) -> str:
    ends = _id(_id(expr, "source", *source), "target", *target)
    return f'max by (id, source, target) (label_join({ends}, "id", " - ", "source", "target"))'


def _each(database: str, tablespace: str, file_system: str, cache: str) -> str:
    """Four kinds of node in one answer."""
    return "\nor ".join(
        (
            _node(database, DATABASE, "datname", "instance"),
            _node(tablespace, TABLESPACE, "tablespace", "instance"),
            _node(file_system, FILE_SYSTEM, "mountpoint", "device"),
            _node(cache, CACHE, "instance", "none"),
        )
    )


def _then(metric: str) -> str:
    return f"clamp_min(predict_linear({metric}{{i}}[7d], {MONTH}), 0)"


NODES = _each(
    "pg_flashcache_database_size_bytes{i}",
    "pg_flashcache_tablespace_size_bytes{i}",
    f"({SIZE}{{i}} - {AVAIL}{{i}})",
    f"(pg_flashcache_used_bytes{{i}} and {_CACHES})",
)
PREDICTED = "max by (id) ({})".format(
    _each(
        _then("pg_flashcache_database_size_bytes"),
        _then("pg_flashcache_tablespace_size_bytes"),
        f"({SIZE}{{i}} - {_then(AVAIL)})",
        f'(min without (part) (label_replace({_then("pg_flashcache_used_bytes")}, "part", "used", "none", "")'
        f' or label_replace({_CACHES}, "part", "all", "none", "")) and {_CACHES})',
    )
)
# Grafana's panel fails on an edge to a node that is not there: each end has been seen.
EDGES = "\nor ".join(
    (
        _edge(
            "(pg_flashcache_tablespace_database_present{i} and on (instance, datname) pg_flashcache_database_size_bytes"
            " and on (instance, tablespace) pg_flashcache_tablespace_size_bytes)",
            DATABASE,
            TABLESPACE,
        ),
        _edge(f"({SIZE}{{i}} and on (instance, tablespace) pg_flashcache_tablespace_size_bytes and {AVAIL})", TABLESPACE, FILE_SYSTEM),
        _edge(f"({SIZE}{{i}} and {AVAIL} and on (instance) {_CACHES})", FILE_SYSTEM, CACHE),
        _edge(
            f"(pg_flashcache_tablespace_size_bytes{{i}} unless on (instance, tablespace) {SIZE} and on (instance) {_CACHES})",
            TABLESPACE,
            CACHE,
        ),
    )
)
