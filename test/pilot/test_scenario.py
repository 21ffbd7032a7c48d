"""Scenarios: what is read, and what is said of one that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgflash.errors import ScenarioError
from pgflash.pilot.loads.pgbench import script
from pgflash.pilot.scenario import COMPLETE, FIGURES, Load, Scenario, figure_needs, figures_of, load_scenario, parse_scenario, shipped
from pgflash.units import MB, parse_size

from .conftest import MINIMAL


def faults(text: str, name: str = "test") -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, name, Path("/nowhere"))
    return caught.value.faults


def test_variants_are_arms_times_sizes(minimal: Scenario) -> None:
    assert [variant.name for variant in minimal.variants] == ["disk", "cache@20%", "cache@64MB"]
    assert minimal.load.clients == (2, 4)
    first, second = (variant.cache for variant in minimal.variants[1:])
    assert first is not None and first.of(1000 * MB) == 200 * MB
    assert second is not None and second.of(1000 * MB) == 64 * MB


def test_defaults(minimal: Scenario) -> None:
    assert (minimal.disk.kind, minimal.disk.spindles, minimal.disk.read_us) == ("lab", 4, 4000)
    assert minimal.memory.buffers_for(10**9) == 128 * MB
    assert minimal.load.keys == "uniform"
    assert minimal.own_cluster


def test_ratio_is_of_the_database() -> None:
    scenario = parse_scenario(MINIMAL + "[memory]\nratio = 30\n", "test", Path())
    assert scenario.memory.buffers_for(3000 * MB) == 100 * MB
    assert scenario.memory.buffers_for(10 * MB) == MB


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (('kind = "pgbench-select"', 'kind = "pgbanch"'), "load.kind: 'pgbanch' is not known; allowed: pgbench-select, pgbench-tpcb, script, "
         "sysbench-read-only, sysbench-read-write, tpcc"),
        (("scale = 1\n", ""), "load.scale: is missing; allowed: a whole number from 1 to 100000"),
        (("scale = 1\n", "scale = true\n"), "load.scale: True will not do; allowed: a whole number from 1 to 100000"),
        (("clients = [2, 4]", "clients = [2, 2]"), "load.clients: [2, 2] will not do; allowed: a list of different whole numbers from 1 to 10000"),
        (("clients = [2, 4]", "client = [2]"), "load.client: is not known (did you mean clients?); allowed: clients, hot_access, hot_share, keys, "
         "kind, protocol, rows, sample, scale, scatter, script, setup, skew, tables, threads, warehouses, writes"),
        (('"20%"', '"20"'), "flash.sizes: '20' will not do; allowed: a list of different sizes, each a size such as \"512MB\" or \"2GB\", "
         'or a share of the database such as "47%"'),
        (('"64MB"', '"512kB"'), "flash.sizes: '512kB' is too small for a cache; allowed: 1 MB or more"),
        (("cache = true", 'cache = ["0.5MB"]'), "arm[2].cache: '0.5MB' is too small for a cache; allowed: 1 MB or more"),
        (('name = "disk"', 'name = "cache"'), "arm: the name 'cache' is given twice; allowed: a name of its own for each arm"),
        (('name = "disk"', 'name = "Disk 1"'), "arm[1].name: 'Disk 1' will not do; allowed: small letters, digits and -"),
        (('name = "disk"', 'name = "disk"\ndata = "tape"'), "arm[1].data: 'tape' is not known; allowed: disk, flash"),
        (('name = "disk"', 'name = "disk"\nhottest = 3'), 'arm[1].hottest: has no meaning without moved = "hottest"'),
        (('name = "disk"', 'name = "disk"\nserver = 14'), "arm[1].server: 14 will not do; allowed: a whole number from 15 to 19"),
        (("duration_s = 2", "duration_s = 0"), "duration_s: 0 will not do; allowed: a whole number from 1 to 86400"),
        (("[flash]", "[memory]\nratio = 3\nshared_buffers = \"1MB\"\n[flash]"), "memory.shared_buffers: and ratio exclude each other; allowed: one of them"),
        (("[flash]", '[disk]\nkind = "path"\n[flash]'), "disk.path: is missing; allowed: an existing folder"),
        (("[flash]", '[disk]\nkind = "path"\npath = "/no/such"\n[flash]'), "disk.path: there is no folder /no/such; allowed: an existing folder"),
        (("[flash]", '[disk]\npath = "/tmp"\n[flash]'), 'disk.path: has no meaning for kind = "lab"; it is for kind = "path"'),
        (("scale = 1\n", 'scale = 1\nkeys = "zipfian"\nskew = 1.0\n'), "load.skew: 1.0 will not do; allowed: a number from 1.001 to 1000"),
        (("scale = 1\n", "scale = 1\nskew = 3\n"), "load.skew: has no meaning for uniform keys; it is for gaussian and zipfian"),
        (("scale = 1\n", "scale = 1\nhot_share = 0.5\n"), "load.hot_share: has no meaning for uniform keys; it is for hot-spot"),
        (('title = "minimal"', 'figures = ["tuning"]'), 'figures: tuning needs arms with tuning = "before" and "after"; or with "doctor", and one that is as it was'),
        (('title = "minimal"', 'figures = ["tunning"]'), f"figures[1]: 'tunning' is not known; allowed: {', '.join(FIGURES)}"),
        (('title = "minimal"', "title = ' '"), "title: ' ' will not do; allowed: a text"),
        (('title = "minimal"', "goal = nan"), "goal: nan will not do; allowed: a number from 1 to 1000"),
        (('title = "minimal"', "disk = 3"), "disk: 3 will not do; allowed: a table, [disk]"),
        (('title = "minimal"', "hue = 3"), "hue: is not known; allowed: arm, cluster, disk, duration_s, figures, flash, goal, load, memory, repetitions, "
         "server, title, warmup"),
        (("clients = [2, 4]", "clients = [2, true]"), "load.clients[2]: True will not do; allowed: a list of different whole numbers from 1 to 10000"),
        (("clients = [2, 4]", "clients = []"), "load.clients: [] will not do; allowed: a list of different whole numbers from 1 to 10000"),
        (("clients = [2, 4]", 'scatter = "yes"'), "load.scatter: 'yes' will not do; allowed: true, false"),
        (("scale = 1\n", 'scale = 1\nkeys = "gaussian"\nskew = 1.5\n'), "load.skew: 1.5 will not do for gaussian keys; allowed: a number from 2 to 1000"),
        (("[flash]", "[memory]\nheadroom = 5\n[flash]"), 'memory.headroom: 5 will not do; allowed: a size such as "512MB" or "2GB"'),
        (("[flash]", "[memory]\nheadroom = '5%'\n[flash]"), "memory.headroom: '5%' will not do; allowed: a size such as \"512MB\" or \"2GB\""),
        (("[flash]", "[server]\nsettings = { work_mem = [] }\n[flash]"), "server.settings: {'work_mem': []} will not do; allowed: a table of PostgreSQL "
         "settings, each a text, number or boolean"),
        (('name = "disk"', 'data = "disk"'), "arm[1].name: is missing; allowed: small letters, digits and -"),
        (("cache = true", "cache = 3"), "arm[2].cache: 3 will not do; allowed: true, false, or a list of different sizes, each a size such as \"512MB\" or "
         '"2GB", or a share of the database such as "47%"'),
    ],
)  # fmt: skip
def test_a_fault_names_its_key_and_what_is_allowed(change: tuple[str, str], expected: str) -> None:
    assert change[0] in MINIMAL
    assert expected in faults(MINIMAL.replace(*change, 1))


def test_all_faults_at_once() -> None:
    text = (
        MINIMAL.replace("scale = 1", "scale = 0")
        .replace("duration_s = 2", "duration_s = -1")
        .replace('name = "disk"', 'name = "disk"\nmoved = "x"')
    )
    assert len(faults(text)) == 3
    # what a table means is looked at although another one is wrong
    assert faults(MINIMAL.replace("scale = 1", "scale = 0").replace('name = "disk"', 'name = "disk"\nhottest = 3')) == [
        "load.scale: 0 will not do; allowed: a whole number from 1 to 100000",
        'arm[1].hottest: has no meaning without moved = "hottest"',
    ]


def test_values_are_those_of_the_file() -> None:
    text = MINIMAL.replace(
        "cache = true", 'cache = ["1MB", "2%"]\nserver = 17\nsettings = { jit = true, work_mem = "7MB", x = 1.5 }\nextra_memory = "5%"'
    )
    scenario = parse_scenario(text + '[memory]\nheadroom = "9MB"\n[warmup]\nslice_s = 3\n[disk]\nspindles = 7\n', "test", Path())
    arm = scenario.arms[1]
    assert [size.text for size in arm.cache] == ["1MB", "2%"]
    assert (arm.major, scenario.arms[0].major, arm.settings) == (17, 15, {"jit": "on", "work_mem": "7MB", "x": "1.5"})
    assert arm.extra_memory is not None and arm.extra_memory.share == 0.05
    assert (scenario.memory.headroom, scenario.warmup.slice_s, scenario.warmup.max_s) == (9 * MB, 3, 600)
    assert (scenario.disk.spindles, scenario.disk.read_us, scenario.flash.spindles) == (7, 4000, 8)


def test_not_toml() -> None:
    assert faults("a = [")[0].startswith("is not TOML: ")


def test_no_arm() -> None:
    assert faults('[load]\nkind = "pgbench-select"\nscale = 1\n') == [
        'arm: is missing; allowed: one or more tables [[arm]], such as [[arm]] name = "disk"'
    ]


def test_a_script_has_to_be_there(tmp_path: Path) -> None:
    text = '[load]\nkind = "script"\nscript = "mine.sql"\n[[arm]]\nname = "disk"\n'
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, "test", tmp_path)
    assert caught.value.faults[0] == f"load.script: there is no file {tmp_path}/mine.sql; allowed: a file in pgbench's language"
    (tmp_path / "mine.sql").write_text("SELECT 1 FROM pgbench_accounts LIMIT 1;")
    scenario = parse_scenario(text, "test", tmp_path)
    assert scenario.load.script == str(tmp_path / "mine.sql")
    assert scenario.load.writes, "a script writes unless the scenario says that it does not"


EXISTING = '[server]\ndsn = "host=db"\n[load]\nkind = "pgbench-tpcb"\nscale = 1\n'


def test_an_existing_server_is_changed_only_as_allowed() -> None:
    found = faults(EXISTING + '[[arm]]\nname = "cache"\ncache = ["10%"]\nmoved = "hottest"\n')
    allowances = "(allowed: database, write, settings, restart, objects, drop-caches, machine)"
    assert found == [
        "server.tablespace: is missing; arm cache needs the name of a tablespace on flash",
        "server.restart_command: is missing; the arms need restarts",
        f'server.allow: the load makes a database of its own, and drops it; to allow it, add "database" {allowances}',
        f'server.allow: the load writes; to allow it, add "write" {allowances}',
        f'server.allow: arm cache moves tables and indexes, and back; to allow it, add "objects" {allowances}',
        f'server.allow: arm cache needs a restart; to allow it, add "restart" {allowances}',
        f'server.allow: arms with a cache or more memory change settings; to allow it, add "settings" {allowances}',
    ]


def test_an_existing_server_has_one_disk_and_one_version() -> None:
    found = faults(EXISTING.replace("dsn", 'allow = ["database", "write"]\ndsn') + '[[arm]]\nname = "a"\ndata = "flash"\nserver = 17\n')
    assert found == [
        'arm a: data = "flash" needs a cluster that the study makes; allowed with server.dsn: disk',
        "arm a: server needs a cluster that the study makes; with server.dsn there is one version",
    ]


def test_the_doctor_on_an_existing_server() -> None:
    """Its proposals are settings, at least; before and after remount disks."""
    allowed = EXISTING.replace("dsn", 'allow = ["database", "write"]\ndsn')
    arms = '[[arm]]\nname = "as-it-is"\n[[arm]]\nname = "treated"\ntuning = "doctor"\n'
    assert faults(allowed + arms) == [
        'server.allow: arm treated changes settings as the doctor proposes; to allow it, add "settings" (allowed: database, write, settings,'
        " restart, objects, drop-caches, machine)"
    ]
    good = parse_scenario(allowed.replace('"write"', '"write", "settings", "machine"') + arms, "test", Path())
    assert figures_of(good) == ["tuning"]
    assert faults(allowed + '[[arm]]\nname = "a"\ntuning = "after"\n') == [
        "arm a: tuning and page_cache need a cluster that the study makes; allowed with server.dsn: tuning = doctor"
    ]


def test_the_cache_of_an_existing_server_is_an_arm(tmp_path: Path) -> None:
    (tmp_path / "mine.sql").write_text("SELECT 1;")
    load = '[load]\nkind = "script"\nwrites = false\nscript = "mine.sql"\n'
    arms = '[[arm]]\nname = "off"\nenabled = "off"\n[[arm]]\nname = "on"\nenabled = "on"\n'
    text = f'[server]\ndsn = "host=db"\nallow = ["settings"]\n{load}{arms}'
    assert [arm.enabled for arm in parse_scenario(text, "test", tmp_path).arms] == ["off", "on"]
    found = faults(EXISTING.replace("dsn", 'allow = ["database", "write"]\ndsn') + arms)
    assert found == [
        'server.allow: arm on switches the cache on; to allow it, add "settings" (allowed: database, write, settings, restart, objects,'
        " drop-caches, machine)"
    ]
    assert faults(MINIMAL + '[[arm]]\nname = "on"\nenabled = "on"\n') == [
        "arm[3].enabled: switches the cache of an existing server, and needs server.dsn; for a cluster of the study's own there is cache"
    ]
    assert "arm[1].enabled: True is not known; allowed: on, off" in faults(EXISTING + '[[arm]]\nname = "on"\nenabled = true\n')


def test_a_script_on_an_existing_server_needs_no_allowance(tmp_path: Path) -> None:
    (tmp_path / "mine.sql").write_text("SELECT 1;")
    text = '[server]\ndsn = "host=db"\n[load]\nkind = "script"\nwrites = false\nscript = "mine.sql"\n[[arm]]\nname = "as-it-is"\n'
    assert parse_scenario(text, "test", tmp_path).server.allow == ()


@pytest.mark.parametrize("name", list(shipped()))
def test_shipped_scenarios_are_good(name: str) -> None:
    scenario = load_scenario(name)
    assert scenario.title != name, "it says what it asks"
    for figure in scenario.figures:
        assert figure_needs(figure, scenario) == ""


def test_the_complete_study_has_every_figure_of_the_sources() -> None:
    drawn = {figure for name in COMPLETE for figure in figures_of(load_scenario(name))}
    assert set(FIGURES) - drawn == {"versions", "cluster", "failover"}


def test_our_own_study_is_the_complete_one_shortened() -> None:
    results = Path(__file__).parents[2] / "bench" / "results"
    assert {path.stem for path in (results / "scenarios").glob("*.toml")} == set(COMPLETE)
    for name in COMPLETE:
        ours = load_scenario(str(results / "scenarios" / f"{name}.toml"))
        assert figures_of(ours) == figures_of(load_scenario(name))
        assert ours.digest == load_scenario(str(results / "complete" / "scenarios" / f"{name}.toml")).digest, (
            "it measured what is written there"
        )


def test_unknown_name() -> None:
    with pytest.raises(ScenarioError) as caught:
        load_scenario("nonesuch")
    assert "no such scenario; allowed: a file NAME.toml, complete, or one of " in str(caught.value)
    assert "one-to-thirty" in str(caught.value)


def test_the_digest_minds_values_only(minimal: Scenario) -> None:
    commented = parse_scenario("# a comment\n" + MINIMAL, "minimal", Path())
    other = parse_scenario(MINIMAL.replace("scale = 1", "scale = 2"), "minimal", Path())
    assert commented.digest == minimal.digest
    assert other.digest != minimal.digest


@pytest.mark.parametrize(
    ("load", "lines"),
    [
        (Load(keys="uniform"), [r"\set aid random(1, 100000 * :scale)"]),
        (Load(keys="gaussian", skew=5.0), [r"\set aid random_gaussian(1, 100000 * :scale, 5.0)"]),
        (Load(keys="zipfian", skew=1.1, scatter=True), [
            r"\set aid random_zipfian(1, 100000 * :scale, 1.1)", r"\set aid 1 + permute(:aid - 1, 100000 * :scale, 1)"]),
        (Load(keys="hot-spot", hot_share=0.2, hot_access=0.8), [
            r"\set hot greatest(1, int(100000 * :scale * 0.2))", r"\set dice random(1, 1000000)", r"\if :dice <= 800000",
            r"\set aid random(1, :hot)", r"\else", r"\set aid random(least(:hot + 1, 100000 * :scale), 100000 * :scale)", r"\endif"]),
    ],
)  # fmt: skip
def test_keys(load: Load, lines: list[str]) -> None:
    assert script(load).splitlines() == [*lines, "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;"]


@pytest.mark.parametrize(
    ("text", "expected"), [("512MB", 512 * MB), ("1.5GB", 1536 * MB), ("8kB", 8192), ("64", None), ("MB", None), ("-1MB", None)]
)
def test_sizes(text: str, expected: int | None) -> None:
    size = parse_size(text)
    assert (size.bytes if size else None) == expected
