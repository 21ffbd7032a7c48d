"""What a pilot study does, as read from a TOML file. docs/pilot.md documents every key; this file is the model.

A scenario is checked whole before anything starts: ScenarioError has every fault. What can be known only on the machine
(root, drivers, space) is asked by preflight.py, also before anything starts.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any, get_args

from pgflash.errors import ScenarioError
from pgflash.pilot.scenario_file import (
    Allowance,
    ArmTable,
    ClusterTable,
    DiskTable,
    Figure,
    FlashTable,
    LoadTable,
    MemoryTable,
    ServerTable,
    TopTable,
    WarmupTable,
    allowed,
    read,
)
from pgflash.units import MB, Size

ALLOWANCES: tuple[str, ...] = get_args(Allowance)
FIGURES: tuple[str, ...] = get_args(Figure)


@dataclass(frozen=True)
class Load:
    kind: str = "pgbench-select"
    keys: str = "uniform"
    skew: float = 5.0
    hot_share: float = 0.2
    hot_access: float = 0.8
    scatter: bool = False
    scale: int = 10
    script: str = ""
    setup: str = ""
    writes: bool = False
    tables: int = 4
    rows: int = 100_000
    warehouses: int = 2
    clients: tuple[int, ...] = (16,)
    threads: int = 1
    protocol: str = "prepared"
    sample: float = 0.1

    @property
    def is_pgbench(self) -> bool:
        return self.kind in ("pgbench-select", "pgbench-tpcb", "script")


@dataclass(frozen=True)
class Storage:
    """kind: lab (modelled, needs root), path (a folder of the user's), file (of flash: in the work folder).

    The numbers are the model's.
    """

    kind: str
    path: str
    spindles: int
    read_us: int
    write_us: int
    mb_per_s: int


DISK = Storage("lab", "", 4, 4000, 4000, 200)
FLASH = Storage("file", "", 8, 150, 150, 1500)


@dataclass(frozen=True)
class Memory:
    ratio: float = 0.0
    shared_buffers: int = 0
    headroom: int = 200 * MB

    def buffers_for(self, database_bytes: int) -> int:
        """Whole megabytes, at least 1."""
        wanted = round(database_bytes / self.ratio) if self.ratio else self.shared_buffers
        return max(MB, wanted // MB * MB)


@dataclass(frozen=True)
class Server:
    major: int = 15
    bin: str = ""
    extension: str = "auto"
    settings: dict[str, str] = field(default_factory=dict)
    dsn: str = ""
    allow: tuple[str, ...] = ()
    restart_command: str = ""
    tablespace: str = ""


@dataclass(frozen=True)
class Topology:
    """nodes: a primary and its standbys, behind a proxy if there are several; failover: at the end the first standby takes over."""

    nodes: int = 1
    failover: bool = False


@dataclass(frozen=True)
class Warmup:
    slice_s: int = 10
    step_points: float = 0.3
    flat: int = 3
    max_s: int = 600
    disk: str = "fast"


@dataclass(frozen=True)
class Arm:
    """One way of using the hardware. With cache sizes it is as many variants as there are sizes."""

    name: str
    data: str = "disk"
    cache: tuple[Size, ...] = ()
    moved: str = "none"
    hottest: int = 9
    extra_memory: Size | None = None
    major: int = 15
    page_cache: str = "limited"
    tuning: str = "none"
    follow: bool = False  # standbys load what the primary has on flash
    enabled: str = ""  # on, off: the cache that an existing server has; empty: as it is
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Variant:
    """An arm with one size of cache, or none: what a server is started for."""

    arm: Arm
    cache: Size | None

    @property
    def name(self) -> str:
        return f"{self.arm.name}@{self.cache.text}" if self.cache is not None else self.arm.name


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    load: Load
    disk: Storage
    flash: Storage
    memory: Memory
    server: Server
    cluster: Topology
    warmup: Warmup
    arms: tuple[Arm, ...]
    figures: tuple[str, ...]
    goal: float
    duration_s: int
    repetitions: int
    text: str
    file: str = field(default="", compare=False)  # from which it was read; empty: shipped, or a study's copy

    @property
    def digest(self) -> str:
        """Of what is measured, not how often: a comment, another layout of the file, or more repetitions are the same study."""
        values = tomllib.loads(self.text)
        values.pop("repetitions", None)
        return hashlib.sha256(repr(sorted(values.items())).encode()).hexdigest()[:16]

    @property
    def has_relative_paths(self) -> bool:
        """It means something in its own folder only."""
        values = tomllib.loads(self.text)
        named = [
            values.get(table, {}).get(key) for table, key in (("load", "script"), ("load", "setup"), ("disk", "path"), ("flash", "path"))
        ]
        return any(path and not Path(path).expanduser().is_absolute() for path in named)

    @property
    def variants(self) -> tuple[Variant, ...]:
        return tuple(Variant(arm, cache) for arm in self.arms for cache in (arm.cache or (None,)))

    @property
    def own_cluster(self) -> bool:
        return not self.server.dsn

    def variant(self, name: str) -> Variant | None:
        return next((variant for variant in self.variants if variant.name == name), None)


# --- reading ----------------------------------------------------------------------------------------------


def shipped() -> dict[str, str]:
    """Names and texts of the scenarios that come with the program."""
    folder = resources.files("pgflash.pilot") / "scenarios"
    found = {item.name[:-5]: item.read_text("utf-8") for item in folder.iterdir() if item.name.endswith(".toml")}
    return dict(sorted(found.items()))


# All that the sources' figures need, in one study.
COMPLETE = (
    "one-to-thirty", "three-ways", "knee", "users", "cache-or-move", "front-of-flash", "tuning", "memory-or-flash",
)  # fmt: skip


def expanded(names: list[str]) -> list[str]:
    """`complete` stands for several."""
    return [each for name in names for each in (COMPLETE if name == "complete" else (name,))]


def changed(text: str, repetitions: int | None, warm_up_s: int | None) -> str:
    """The text with other values for these two, as options of the command ask for."""
    if repetitions is not None:
        text = _with(text, "", "repetitions", repetitions)
    return text if warm_up_s is None else _with(text, "warmup", "max_s", warm_up_s)


def _with(text: str, table: str, key: str, number: int) -> str:
    """With the key in that table, the top one if it has no name."""
    line_of_key = f"{key} = {number}"
    lines = [] if table else [line_of_key]
    here, placed = "", not table
    for line in text.splitlines():
        header = re.match(r"\s*\[+\s*([\w-]+)\s*\]", line)
        if header:
            here = header[1]
        elif here == table and re.match(rf"\s*{key}\s*=", line):
            continue
        lines.append(line)
        if header and here == table:
            lines.append(line_of_key)
            placed = True
    if not placed:
        lines += [f"[{table}]", line_of_key]
    return "\n".join(lines) + "\n"


def load_scenario(name: str, repetitions: int | None = None, warm_up_s: int | None = None) -> Scenario:
    """A file, or the name of a shipped one."""
    path = Path(name)
    if path.suffix == ".toml" or path.is_file():
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ScenarioError(name, [f"cannot be read: {error}"]) from error
        return replace(parse_scenario(changed(text, repetitions, warm_up_s), path.stem, path.parent), file=str(path.absolute()))
    texts = shipped()
    if name not in texts:
        raise ScenarioError(name, [f"no such scenario; allowed: a file NAME.toml, complete, or one of {', '.join(texts)}"])
    return parse_scenario(changed(texts[name], repetitions, warm_up_s), name, Path())


def parse_scenario(text: str, name: str, folder: Path, *, stored: bool = False) -> Scenario:
    """Paths in it are relative to the folder it lies in. `stored`: what it names may be gone since."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(name, [f"is not TOML: {error}"]) from error
    faults: list[str] = []
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,60}", name):
        faults.append(f"its file name, {name!r}, names the study: allowed are letters, digits and _ . -")
    here = _Paths(folder, must_exist=not stored, faults=faults)
    top = read(TopTable, values, "", faults)
    server = _server(read(ServerTable, values.get("server", {}), "server.", faults), faults)
    load = _load(read(LoadTable, values.get("load"), "load.", faults), here, faults)
    flash_table = read(FlashTable, values.get("flash", {}), "flash.", faults)
    flash = _storage(flash_table, "flash.", here, FLASH, faults)
    disk = _storage(read(DiskTable, values.get("disk", {}), "disk.", faults), "disk.", here, DISK, faults)
    memory = _memory(read(MemoryTable, values.get("memory", {}), "memory.", faults), faults)
    cluster = read(ClusterTable, values["cluster"], "cluster.", faults) if "cluster" in values else None
    warmup = read(WarmupTable, values.get("warmup", {}), "warmup.", faults)
    sizes = tuple(flash_table.sizes) if flash_table is not None else None
    arms = _arms(values.get("arm"), sizes, server, faults)
    if top is None or server is None or load is None or flash is None or disk is None or memory is None or warmup is None or faults:
        raise ScenarioError(name, faults)
    scenario = Scenario(
        name=name,
        title=top.title or name,
        load=load,
        disk=disk,
        flash=flash,
        memory=memory,
        server=server,
        cluster=Topology(**cluster.model_dump()) if cluster is not None else Topology(),
        warmup=Warmup(**warmup.model_dump()),
        arms=arms,
        figures=tuple(top.figures),
        goal=top.goal,
        duration_s=top.duration_s,
        repetitions=top.repetitions,
        text=text,
    )
    _check_together(scenario, faults, stored)
    if faults:
        raise ScenarioError(name, faults)
    return scenario


@dataclass(frozen=True)
class _Paths:
    """Paths named in a scenario, relative to where it lies."""

    base: Path
    must_exist: bool
    faults: list[str]

    def file(self, text: str, key: str, what: str) -> str:
        path = self._absolute(text)
        if path and self.must_exist and not Path(path).is_file():
            self.faults.append(f"{key}: there is no file {path}; allowed: {what}")
        return path

    def folder(self, text: str, key: str) -> str:
        path = self._absolute(text)
        if path and self.must_exist and not Path(path).is_dir():
            self.faults.append(f"{key}: there is no folder {path}; allowed: an existing folder")
        return path

    def _absolute(self, text: str) -> str:
        return str((self.base / Path(text).expanduser()).absolute()) if text else ""


def _load(table: LoadTable | None, paths: _Paths, faults: list[str]) -> Load | None:
    if table is None:
        return None
    kind, keys = table.kind, table.keys
    pgbench = kind.startswith("pgbench")
    for key, needed in (("scale", pgbench), ("script", kind == "script")):
        if needed and not table.given(key):
            faults.append(f"load.{key}: is missing; allowed: {allowed(LoadTable, key)}")
    for key in ("keys", "skew", "scatter", "hot_share", "hot_access", "scale"):
        if not pgbench and table.given(key) and not (key == "scale" and kind == "script"):
            faults.append(f"load.{key}: has no meaning for {kind}; it is for pgbench-select and pgbench-tpcb")
    if table.given("skew") and keys in ("uniform", "hot-spot"):
        faults.append(f"load.skew: has no meaning for {keys} keys; it is for gaussian and zipfian")
    if keys == "gaussian" and table.skew is not None and table.skew < 2:
        faults.append(f"load.skew: {table.skew!r} will not do for gaussian keys; allowed: a number from 2 to 1000")
    for key in ("hot_share", "hot_access"):
        if keys != "hot-spot" and table.given(key):
            faults.append(f"load.{key}: has no meaning for {keys} keys; it is for hot-spot")
    if table.given("writes") and kind != "script":
        faults.append("load.writes: is known for this load; it is for script")
    return Load(
        kind=kind,
        keys=keys,
        skew=table.skew or (1.1 if keys == "zipfian" else 5.0),
        hot_share=table.hot_share,
        hot_access=table.hot_access,
        scatter=table.scatter,
        scale=table.scale or 1,
        script=paths.file(table.script, "load.script", allowed(LoadTable, "script")),
        setup=paths.file(table.setup, "load.setup", allowed(LoadTable, "setup")),
        writes=(kind == "script" if table.writes is None else table.writes) or kind in ("pgbench-tpcb", "sysbench-read-write", "tpcc"),
        tables=table.tables,
        rows=table.rows,
        warehouses=table.warehouses,
        clients=tuple(table.clients),
        threads=table.threads,
        protocol=table.protocol,
        sample=table.sample,
    )


def _storage(table: DiskTable | FlashTable | None, where: str, paths: _Paths, default: Storage, faults: list[str]) -> Storage | None:
    if table is None:
        return None
    numbers = ("spindles", "read_us", "write_us", "mb_per_s")
    if table.kind == "path" and not table.given("path"):
        faults.append(f"{where}path: is missing; allowed: {allowed(type(table), 'path')}")
    for key in (*numbers, "path"):
        for_kind = "path" if key == "path" else "lab"
        if table.kind != for_kind and table.given(key):
            faults.append(f'{where}{key}: has no meaning for kind = "{table.kind}"; it is for kind = "{for_kind}"')
    given = {key: getattr(table, key) for key in numbers if table.given(key)}
    return replace(default, kind=table.kind, path=paths.folder(table.path, f"{where}path"), **given)


def _memory(table: MemoryTable | None, faults: list[str]) -> Memory | None:
    if table is None:
        return None
    if table.ratio and table.shared_buffers is not None:
        faults.append("memory.shared_buffers: and ratio exclude each other; allowed: one of them")
    headroom = table.headroom.bytes if table.headroom is not None else Memory().headroom
    if not table.ratio and table.shared_buffers is None:
        return Memory(shared_buffers=128 * MB, headroom=headroom)
    return Memory(table.ratio, table.shared_buffers.bytes if table.shared_buffers is not None else 0, headroom)


def _server(table: ServerTable | None, faults: list[str]) -> Server | None:
    if table is None:
        return None
    for key in ("allow", "restart_command", "tablespace"):
        if not table.dsn and table.given(key):
            faults.append(f"server.{key}: is for an existing server; it needs server.dsn")
    for key in ("bin", "extension", "settings"):
        if table.dsn and table.given(key):
            faults.append(f"server.{key}: is for a server that the study makes; it excludes server.dsn")
    return Server(**table.model_dump() | {"allow": tuple(table.allow)})


def _arms(values: Any, sizes: tuple[Size, ...] | None, server: Server | None, faults: list[str]) -> tuple[Arm, ...]:
    tables = values if isinstance(values, list) else []  # reported by the table above
    arms = [_arm(item, f"arm[{i + 1}].", sizes, server, faults) for i, item in enumerate(tables)]
    names = [arm.name for arm in arms if arm is not None]
    for name in sorted({name for name in names if names.count(name) > 1}):
        faults.append(f"arm: the name {name!r} is given twice; allowed: a name of its own for each arm")
    return tuple(arm for arm in arms if arm is not None)


def _arm(values: Any, where: str, sizes: tuple[Size, ...] | None, server: Server | None, faults: list[str]) -> Arm | None:
    """sizes, server: None where there were faults in them."""
    table = read(ArmTable, values, where, faults)
    if table is None:
        return None
    cache = tuple(table.cache) if isinstance(table.cache, list) else (sizes or ()) if table.cache else ()
    if table.cache is True and sizes == ():
        faults.append(f"{where}cache: true means the sizes of flash.sizes, and there are none; allowed: false, or a list of sizes")
    if table.given("hottest") and table.moved != "hottest":
        faults.append(f'{where}hottest: has no meaning without moved = "hottest"')
    if table.data == "flash" and table.moved != "none":
        faults.append(f'{where}moved: excludes data = "flash", where everything is on flash already; allowed there: none')
    if table.enabled and cache:
        faults.append(f"{where}cache: and enabled exclude each other: enabled takes the cache that the server has, at its size")
    if table.enabled and server is not None and not server.dsn:
        faults.append(
            f"{where}enabled: switches the cache of an existing server, and needs server.dsn; for a cluster of the study's own there is cache"
        )
    if table.tuning != "none" and table.data == "flash":
        faults.append(f'{where}tuning: is about the disk; it excludes data = "flash"; allowed there: none')
    return Arm(
        name=table.name,
        data=table.data,
        cache=cache,
        moved=table.moved,
        hottest=table.hottest,
        extra_memory=table.extra_memory,
        major=table.server or (server.major if server is not None else 15),
        page_cache=table.page_cache,
        tuning=table.tuning,
        follow=table.follow,
        enabled=table.enabled or "",
        settings=table.settings,
    )


# --- what only makes sense together -----------------------------------------------------------------------


def _check_together(scenario: Scenario, faults: list[str], stored: bool) -> None:
    for figure in scenario.figures:
        need = figure_needs(figure, scenario)
        if need:
            faults.append(f"figures: {figure} needs {need}")
    _check_cluster(scenario, faults)
    if scenario.own_cluster:
        for arm in scenario.arms:
            if arm.tuning != "none" and scenario.disk.kind != "lab":
                faults.append(f'arm {arm.name}: tuning remounts the disk; it needs disk.kind = "lab", and leaves real disks alone')
        if scenario.load.kind == "script" and not scenario.load.setup and not stored and "pgbench" not in _script_text(scenario.load):
            faults.append("load.setup: is missing; a script that does not use pgbench's tables needs the SQL that makes its own")
        return
    needed: dict[str, str] = {}
    allow = set(scenario.server.allow)
    load = scenario.load
    if load.kind != "script" or load.setup:
        needed["database"] = "the load makes a database of its own, and drops it"
    if load.writes:
        needed["write"] = "the load writes"
    for arm in scenario.arms:
        where = f"arm {arm.name}"
        if arm.data == "flash":
            faults.append(f'{where}: data = "flash" needs a cluster that the study makes; allowed with server.dsn: disk')
        if arm.major != scenario.server.major:
            faults.append(f"{where}: server needs a cluster that the study makes; with server.dsn there is one version")
        if arm.tuning not in ("none", "doctor") or arm.page_cache != "limited":
            faults.append(f"{where}: tuning and page_cache need a cluster that the study makes; allowed with server.dsn: tuning = doctor")
        if arm.tuning == "doctor":
            needed["settings"] = f"{where} changes settings as the doctor proposes"
        if arm.moved != "none":
            needed["objects"] = f"{where} moves tables and indexes, and back"
            if not scenario.server.tablespace:
                faults.append(f"server.tablespace: is missing; {where} needs the name of a tablespace on flash")
        if arm.extra_memory is not None or arm.cache:
            needed["restart"] = f"{where} needs a restart"
        if arm.settings:
            needed["settings"] = f"{where} changes settings"
        if arm.enabled:
            needed["settings"] = f"{where} switches the cache {arm.enabled}"
            if any(other.cache for other in scenario.arms):
                faults.append(f"{where}: enabled takes the cache at its size; with arms that have sizes of cache it makes no sense")
    if "restart" in needed:
        needed["settings"] = "arms with a cache or more memory change settings"
        if not scenario.server.restart_command:
            faults.append("server.restart_command: is missing; the arms need restarts")
    for allowance, why in needed.items():
        if allowance not in allow:
            faults.append(f'server.allow: {why}; to allow it, add "{allowance}" (allowed: {", ".join(ALLOWANCES)})')


def _check_cluster(scenario: Scenario, faults: list[str]) -> None:
    nodes, failover, load = scenario.cluster.nodes, scenario.cluster.failover, scenario.load
    for arm in scenario.arms:
        if arm.follow and not (failover and arm.cache):
            faults.append(
                f"arm {arm.name}: follow is for the cache of a standby that takes over; it needs cluster.failover = true, and cache"
            )
    if nodes == 1:
        return
    if not scenario.own_cluster:
        faults.append("cluster: is for servers that the study makes; it excludes server.dsn")
    if load.kind not in ("pgbench-select", "script") or load.writes:
        what = "a script that writes" if load.kind == "script" else load.kind
        faults.append(f"load.kind: {what} does not run on standbys; allowed with [cluster]: pgbench-select, or script with writes = false")
    for clients in load.clients:
        if clients % nodes:
            faults.append(
                f"load.clients: {clients} cannot be spread evenly over {nodes} nodes; allowed with [cluster]: multiples of {nodes}"
            )
    for arm in scenario.arms:
        if arm.data != "disk" or arm.moved != "none" or arm.tuning != "none":
            faults.append(f'arm {arm.name}: data = "flash", moved and tuning are for one server; they exclude [cluster]')
    if failover and len(load.clients) > 1:
        faults.append(
            f"load.clients: {list(load.clients)} will not do; allowed with cluster.failover = true: one number, since the primary is gone then"
        )
    if failover and not any(arm.cache for arm in scenario.arms):
        faults.append("cluster.failover: needs an arm with a cache: that of the standby is what it measures")


def _script_text(load: Load) -> str:
    try:
        return Path(load.script).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


class Arms:
    """What a scenario has of what figures need. `usual` arms differ from the base by where the data is and the cache, nothing else."""

    def __init__(self, scenario: Scenario) -> None:
        self.all = scenario.arms
        self.clients = len(scenario.load.clients)
        usual = [arm for arm in self.all if _plain(arm) and arm.major == scenario.server.major]
        on_disk = [arm for arm in usual if arm.data == "disk"]
        self.disk = any(not arm.cache for arm in on_disk)
        self.cache = any(arm.cache for arm in on_disk)
        self.sizes = max((len(arm.cache) for arm in on_disk), default=0)
        self.all_flash = any(arm.data == "flash" and not arm.cache for arm in usual)
        self.cached_flash = any(arm.data == "flash" and arm.cache for arm in usual)
        self.nodes, self.failover = scenario.cluster.nodes, scenario.cluster.failover

    def there(self, test: Callable[[Arm], bool]) -> bool:
        return any(test(arm) for arm in self.all)


def _plain(arm: Arm) -> bool:
    return arm.moved == "none" and arm.extra_memory is None and arm.tuning == "none" and arm.page_cache == "limited" and not arm.follow


def figure_needs(figure: str, scenario: Scenario) -> str:
    """What a scenario lacks for a figure; empty if nothing."""
    from pgflash.pilot.report.figures import KINDS  # which know scenarios

    return KINDS[figure].needs(Arms(scenario))


def figures_of(scenario: Scenario) -> list[str]:
    """The figures asked for, or all that its arms suffice for."""
    return list(scenario.figures) or [figure for figure in FIGURES if not figure_needs(figure, scenario)]


def as_json(scenario: Scenario) -> dict[str, Any]:
    return {
        "name": scenario.name,
        "title": scenario.title,
        "load": scenario.load.kind,
        "variants": [variant.name for variant in scenario.variants],
        "clients": list(scenario.load.clients),
        "repetitions": scenario.repetitions,
        "duration_s": scenario.duration_s,
        "figures": figures_of(scenario),
        "needs_root": scenario.own_cluster and (scenario.disk.kind == "lab" or scenario.flash.kind == "lab"),
    }
