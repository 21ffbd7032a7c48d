"""A dashboard for Grafana, built with Grafana's own library, which also knows the schema that it must follow.

The library is needed here only, and is no dependency of the command line: pip install 'pgflash[grafana]'.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pgflash.errors import MachineError
from pgflash.monitoring.alerts import hit_ratio
from pgflash.monitoring.metrics import older
from pgflash.monitoring.storage import EDGES, MONTH, NODES, PREDICTED, USED, USED_THEN, WEAR

INSTANCE = '{instance=~"$instance"}'
WINDOW = "$__rate_interval"


@dataclass(frozen=True)
class Panel:
    """One panel: lines are (expression, legend). {i} stands for the selected servers. Of a node graph, legends are names of frames."""

    kind: str  # timeseries, table, statetimeline, bargauge or nodegraph
    title: str
    unit: str
    lines: tuple[tuple[str, str], ...]
    description: str = ""
    width: int = 12
    height: int = 9
    stacked: bool = False
    warns: bool = False  # of bars: much is bad
    since: str = "1.0"
    limits: tuple[float | None, float | None] = field(default=(0, None))

    def expressions(self) -> list[tuple[str, str]]:
        return [(_selected(expr), legend) for expr, legend in self.lines]


def _selected(expr: str) -> str:
    """With the servers that are selected: {i} after a metric without other labels, {i, within others."""
    return expr.replace("{i}", INSTANCE).replace("{i,", INSTANCE[:-1] + ",")


def _rate(name: str, more: str = "") -> str:
    return f"rate(pg_flashcache_{name}{{i{',' + more if more else ''}}}[{WINDOW}])"


def _mean(time: str, count: str, more: str = "") -> str:
    return f"{_rate(time)} / ({_rate(count)} > 0){more}"


_RATIO = hit_ratio(WINDOW).replace("_total[", "_total{i}[")
_TIMED = " and on (instance) (pg_flashcache_settings_disk_reads_timed{i} == 1)"
_QUANTILE = "histogram_quantile(0.95, sum by (instance, operation, le) (rate(pg_flashcache_latency_seconds_bucket{i}[$__rate_interval])))"

ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Servers",
        (
            Panel("statetimeline", "State", "", (("max by (instance, state) (pg_flashcache_state_current{i}) == 1", "{{instance}} {{state}}"),),
                  "The state of each cache; pg_stat_flashcache.reason says why one is not active.", limits=(None, None)),
            Panel("table", "State and verdict", "",
                  (("pg_flashcache_state_current{i} == 1", "state"), ("pg_flashcache_verdict_current{i} == 1", "verdict")),
                  "What each server is doing now.", limits=(None, None)),
        ),
    ),
    (
        "Reads",
        (
            Panel("timeseries", "Hit ratio", "percentunit", ((_RATIO, "{{instance}}"),),
                  "Of the pages that flash could have held, those that came from there.", limits=(0, 1)),
            Panel("timeseries", "Reads by source", "ops",
                  ((_rate("hits_total"), "{{instance}} flash"), (_rate("os_cache_hits_total"), "{{instance}} page cache"),
                   (f"{_rate('disk_reads_total')} - {_rate('os_cache_hits_total')}", "{{instance}} disk")),
                  "Pages a second. Page cache: pages that were on flash, but that the kernel held. Other pages that the kernel held are "
                  "among those of the disk.", stacked=True),
            Panel("timeseries", "Mean latency by source", "s",
                  ((_mean("read_seconds_total", "hits_total"), "{{instance}} flash"),
                   (_mean("disk_read_seconds_total", "disk_reads_total", _TIMED), "{{instance}} disk")),
                  "Of one page. The disk's is shown where every read is timed: not with io_method worker or io_uring of PostgreSQL 18 "
                  "and later."),
            Panel("timeseries", "95th percentile of latency by operation", "s", ((_QUANTILE, "{{instance}} {{operation}}"),),
                  "From log2 buckets: within a factor of two.", since="1.1"),
        ),
    ),
    (
        "Flash",
        (
            Panel("timeseries", "Fill", "bytes",
                  (("pg_flashcache_used_bytes{i}", "{{instance}} used"), ("pg_flashcache_capacity_bytes{i}", "{{instance}} capacity"))),
            Panel("timeseries", "Writes to flash", "Bps",
                  ((f"{_rate('write_bytes_total')} + on (instance) {_rate('persistence_log_bytes_total')}", "{{instance}}"),
                   ("pg_flashcache_settings_write_limit_bytes_per_second{i} > 0", "{{instance}} write_limit")),
                  "With the log of persistence, which write_limit does not cover."),
            Panel("timeseries", "Pages not written to flash, by reason", "ops",
                  tuple((_rate(f"insert_skip_{reason}_total"), f"{{{{instance}}}} {reason.replace('_', ' ')}")
                        for reason in ("corrupt", "exists", "modification", "not_current", "not_useful", "overloaded", "pinned",
                                       "write_limit"))),
            Panel("timeseries", "Errors of the device", "short",
                  tuple((f"increase(pg_flashcache_{name}_total{{i}}[{WINDOW}])", f"{{{{instance}}}} {name.replace('_', ' ')}")
                        for name in ("read_errors", "write_errors", "timeouts", "checksum_failures", "switch_offs"))),
            Panel("timeseries", "Devices that are off", "short", (("pg_flashcache_device_off{i} > 0", "{{instance}} {{device}} {{path}}"),),
                  "Of several devices: the cache goes on without them. Not shown are those that are disabled.", since="1.1"),
            Panel("timeseries", "Temperature of the cache's drives", "celsius",
                  (("pg_flashcache_drive_temperature_celsius{i}", "{{instance}} {{drive}}"),),
                  "As pgflash drives has reported it last.", since="1.1"),
            Panel("timeseries", "Health of the cache's drives", "short",
                  (("pg_flashcache_drive_health_score{i}", "{{instance}} {{drive}}"),
                   ("pg_flashcache_drive_life_left_seconds{i} / 86400", "{{instance}} {{drive}} days left")),
                  "Health counts down from 100. Days are those until the rated life is used, at the rate of lately.", since="1.1"),
            Panel("timeseries", "Written to flash in 30 days", "bytes",
                  (("30 * 86400 * rate(pg_flashcache_write_bytes_total{i}[1d])", "{{instance}}"),),
                  "At the rate of the last day: to be compared with the endurance of the drive."),
            Panel("timeseries", "Removed from flash", "ops",
                  ((_rate("eviction_aged_out_total"), "{{instance}} for another page"),
                   (_rate("eviction_invalidated_total"), "{{instance}} changed"))),
        ),
    ),
    (
        "Storage",
        (
            Panel("nodegraph", "Databases, tablespaces, file systems and flash", "",
                  ((NODES, "nodes"), (PREDICTED, "predicted"), (EDGES, "edges")),
                  "What is used now, and, below, in 30 days at the rate of the last 7. File systems need node_exporter and the recording "
                  "rules of pg_flashcache.rules.yml.", width=24, height=16, limits=(None, None)),
            Panel("bargauge", "File systems of tablespaces, used", "percentunit",
                  ((USED, "{{host}} {{mountpoint}} now"), (USED_THEN, "{{host}} {{mountpoint}} in 30 days")),
                  "At the rate of the last 7 days.", width=8, limits=(0, 1), warns=True),
            Panel("bargauge", "Flash caches, used", "percentunit",
                  (("pg_flashcache_used_bytes{i} / (pg_flashcache_capacity_bytes{i} > 0)", "{{instance}}"),),
                  "A cache that is full is well: pages that are used less make room for others.", width=8, limits=(0, 1)),
            Panel("bargauge", "Wear of drives", "percentunit",
                  ((WEAR, "{{host}} {{device}} now"), (f"predict_linear({WEAR}[30d], {MONTH})", "{{host}} {{device}} in 30 days")),
                  "Of the drives of machines with a flash cache, as they report it: 100 % is what they are made for. Needs "
                  "pgflash drives, smartctl_exporter, or node_exporter with nvme_metrics.sh.", width=8, limits=(0, 1), warns=True),
            Panel("timeseries", "Size of databases", "bytes", (("pg_flashcache_database_size_bytes{i}", "{{instance}} {{datname}}"),)),
            Panel("timeseries", "Size of tablespaces", "bytes",
                  (("pg_flashcache_tablespace_size_bytes{i}", "{{instance}} {{tablespace}}"),)),
        ),
    ),
    (
        "Relations and statements",
        (
            Panel("table", "Relations by disk reads", "short",
                  (("topk(20, sum by (instance, datname, schemaname, relname) "
                    "(increase(pg_flashcache_relation_disk_reads_total{i}[$__range])))", "pages"),),
                  "Pages read from the disk in the time that is shown.", since="1.1"),
            Panel("table", "Relations by flash hits", "short",
                  (("topk(20, sum by (instance, datname, schemaname, relname) "
                    "(increase(pg_flashcache_relation_hits_total{i}[$__range])))", "pages"),),
                  "Pages read from flash in the time that is shown.", since="1.1"),
            Panel("table", "Relations by disk writes", "short",
                  (("topk(20, sum by (instance, datname, schemaname, relname) "
                    "(increase(pg_flashcache_relation_disk_writes_total{i}[$__range]) "
                    "+ increase(pg_flashcache_relation_disk_extends_total{i}[$__range])))", "pages"),),
                  "Pages of data files written again or added in the time that is shown, by whatever process.", since="1.1"),
            Panel("table", "Statements by time of disk reads", "s",
                  (("topk(20, sum by (instance, datname, queryid) "
                    "(increase(pg_flashcache_statement_disk_read_seconds_total{i}[$__range])))", "seconds"),),
                  "pg_stat_statements has the text of each queryid. If nothing is here, pg_flashcache_tracking_stat() shows why.", since="1.1"),
        ),
    ),
)  # fmt: skip


def panels(version: str) -> list[tuple[str, list[Panel]]]:
    found = [(title, [panel for panel in row if older(panel.since, version)]) for title, row in ROWS]
    return [(title, row) for title, row in found if row]


def dashboard(version: str) -> Any:
    """As the library builds it."""
    try:
        from grafana_foundation_sdk.builders import bargauge, nodegraph, prometheus, statetimeline, table, timeseries
        from grafana_foundation_sdk.builders import common as commons
        from grafana_foundation_sdk.builders import dashboard as boards
        from grafana_foundation_sdk.models import common
        from grafana_foundation_sdk.models import dashboard as models
        from grafana_foundation_sdk.models.prometheus import PromQueryFormat
    except ImportError as error:
        raise MachineError(
            "the dashboard is built with Grafana's library, which is not installed", "pip install 'pgflash[grafana]' brings it along"
        ) from error
    source = models.DataSourceRef(type_val="prometheus", uid="$datasource")
    kinds: dict[str, Any] = {
        "timeseries": timeseries.Panel, "table": table.Panel, "statetimeline": statetimeline.Panel, "bargauge": bargauge.Panel,
        "nodegraph": nodegraph.Panel,
    }  # fmt: skip

    def query(panel: Panel, number: int, expr: str, legend: str) -> Any:
        line = prometheus.Dataquery().expr(expr)
        if panel.kind == "nodegraph":
            return line.ref_id(legend).instant().format(PromQueryFormat.TABLE)
        line.legend_format(legend).ref_id(chr(ord("A") + number))
        if panel.kind == "table":
            return line.instant().format(PromQueryFormat.TABLE)
        return line.instant() if panel.kind == "bargauge" else line.range()

    def as_graph(made: Any) -> None:
        """Two answers about nodes become one frame, by their ids, with columns of the names that the panel looks for: a column that is
        only renamed keeps its name for that, so each is the last value of a row of one column."""

        def calculated(alias: str, value: str) -> Any:
            options = {"mode": "reduceRow", "alias": alias, "reduce": {"reducer": "lastNotNull", "include": [value]}}
            joined = models.MatcherConfig(id_val="byRefId", options="joinByField-nodes-predicted")
            return models.DataTransformerConfig(id_val="calculateField", options=options, filter_val=joined)

        of_nodes = models.MatcherConfig(id_val="byRefId", options="/^(?:nodes|predicted)$/")
        by_id = {"byField": "id", "mode": "outer"}
        made.with_transformation(models.DataTransformerConfig(id_val="joinByField", options=by_id, filter_val=of_nodes))
        made.with_transformation(calculated("mainstat", "Value #nodes"))
        made.with_transformation(calculated("secondarystat", "Value #predicted"))
        made.nodes(nodegraph.NodeOptions().main_stat_unit("GB").secondary_stat_unit("GB then"))

    def as_bars(made: Any, warns: bool) -> None:
        steps = [models.Threshold(None, "green")]
        if warns:
            steps += [models.Threshold(0.8, "orange"), models.Threshold(0.95, "red")]
        made.orientation(common.VizOrientation.HORIZONTAL).display_mode(common.BarGaugeDisplayMode.BASIC)
        made.reduce_options(commons.ReduceDataOptions().calcs(["lastNotNull"]))
        made.thresholds(boards.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps))

    def built(panel: Panel) -> Any:
        made = kinds[panel.kind]().title(panel.title).datasource(source).span(panel.width).height(panel.height)
        if panel.description:
            made.description(panel.description)
        if panel.unit:
            made.unit(panel.unit)
        least, most = panel.limits
        if least is not None:
            made.min(least)
        if most is not None:
            made.max(most)
        if panel.kind == "timeseries":
            made.line_width(1).fill_opacity(30 if panel.stacked else 0).show_points(common.VisibilityMode.NEVER)
            if panel.stacked:
                made.stacking(commons.StackingConfig().mode(common.StackingMode.NORMAL))
        for number, (expr, legend) in enumerate(panel.expressions()):
            made.with_target(query(panel, number, expr, legend))
        if panel.kind == "nodegraph":
            as_graph(made)
        if panel.kind == "bargauge":
            as_bars(made, panel.warns)
        return made

    board = (
        boards.Dashboard("pg_flashcache").uid("pg-flashcache").description("A second-level buffer cache on flash for PostgreSQL")
        .tags(["postgresql", "pg_flashcache"]).refresh("1m").time("now-6h", "now").timezone("browser").editable()
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .with_variable(boards.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .with_variable(
            boards.QueryVariable("instance").label("server").datasource(source).multi(True).include_all(True)
            .query("label_values(pg_flashcache_hits_total, instance)").refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        )
    )  # fmt: skip
    for title, row in panels(version):
        board.with_row(boards.Row(title))
        for panel in row:
            board.with_panel(built(panel))
    return board.build()


def grafana(version: str, schema: str, dsn: str) -> dict[str, str]:
    made = dashboard(version)
    from grafana_foundation_sdk.cog.encoder import JSONEncoder

    return {"pg_flashcache.dashboard.json": JSONEncoder(sort_keys=True, indent=2).encode(made) + "\n"}
