"""What a pilot study does, as read from a TOML file. docs/pilot.md documents every key; this file is the model.

A scenario is checked whole before anything starts: ScenarioError has every fault. What can be known only on the machine
(root, drivers, space) is asked by preflight.py, also before anything starts.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from pgflash.errors import ScenarioError
from pgflash.pilot.toml_reader import Table
from pgflash.units import MB, Size

LOADS = ("pgbench-select", "pgbench-tpcb", "script", "sysbench-read-only", "sysbench-read-write", "tpcc")
KEYS = ("uniform", "gaussian", "zipfian", "hot-spot")
MAJORS = (15, 16, 17, 18, 19)
ALLOWANCES = ("database", "write", "settings", "restart", "objects", "drop-caches")
MOVED = ("none", "indexes", "hottest")
TUNING = ("none", "before", "after")
FIGURES = (
    "response-by-size", "three-ways", "throughput-by-size", "tps-by-users", "cache-or-move", "front-of-flash", "tuning",
    "memory-or-flash", "versions", "page-cache",
)  # fmt: skip


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
    warmup: Warmup
    arms: tuple[Arm, ...]
    figures: tuple[str, ...]
    goal: float
    duration_s: int
    repetitions: int
    text: str

    @property
    def digest(self) -> str:
        """Of what is measured, not how often: a comment, another layout of the file, or more repetitions are the same study."""
        values = tomllib.loads(self.text)
        values.pop("repetitions", None)
        return hashlib.sha256(repr(sorted(values.items())).encode()).hexdigest()[:16]

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
        return parse_scenario(changed(text, repetitions, warm_up_s), path.stem, path.parent)
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
    top = Table(values, "", faults)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,60}", name):
        faults.append(f"its file name, {name!r}, names the study: allowed are letters, digits and _ . -")
    server = _server(top.table("server"))
    here = _Paths(folder, must_exist=not stored)
    load = _load(top.table("load", required=True), here)
    flash_table = top.table("flash")
    sizes = tuple(flash_table.sizes("sizes", share=True))
    flash = _storage(flash_table, here, ("file", "lab", "path"), FLASH)
    scenario = Scenario(
        name=name,
        title=top.text("title", name),
        load=load,
        disk=_storage(top.table("disk"), here, ("lab", "path"), DISK),
        flash=flash,
        memory=_memory(top.table("memory")),
        server=server,
        warmup=_warmup(top.table("warmup")),
        arms=_arms(top, sizes, server),
        figures=tuple(top.choices("figures", FIGURES)),
        goal=top.number("goal", 1, 1000, 0),
        duration_s=top.integer("duration_s", 1, 86400, 60),
        repetitions=top.integer("repetitions", 1, 100, 3),
        text=text,
    )
    top.done()
    _check_together(scenario, faults, stored)
    if faults:
        raise ScenarioError(name, faults)
    return scenario


@dataclass(frozen=True)
class _Paths:
    """Paths named in a scenario, relative to where it lies."""

    base: Path
    must_exist: bool

    def file(self, table: Table, key: str, needed: bool, what: str) -> str:
        path = self._absolute(table.text(key, None if needed else "", what=what))
        if path and self.must_exist and not Path(path).is_file():
            table.fault(key, f"there is no file {path}; allowed: {what}")
        return path

    def folder(self, table: Table, key: str, needed: bool) -> str:
        path = self._absolute(table.text(key, None if needed else "", what="an existing folder"))
        if path and self.must_exist and not Path(path).is_dir():
            table.fault(key, f"there is no folder {path}; allowed: an existing folder")
        return path

    def _absolute(self, text: str) -> str:
        return str((self.base / Path(text).expanduser()).absolute()) if text else ""


def _load(table: Table, paths: _Paths) -> Load:
    kind = table.choice("kind", LOADS)
    keys = table.choice("keys", KEYS, "uniform")
    pgbench = kind.startswith("pgbench")
    load = Load(
        kind=kind,
        keys=keys,
        skew=table.number("skew", 1.001 if keys == "zipfian" else 2, 1000, 1.1 if keys == "zipfian" else 5.0),
        hot_share=table.number("hot_share", 0.0001, 0.9999, 0.2),
        hot_access=table.number("hot_access", 0.0001, 0.9999, 0.8),
        scatter=table.boolean("scatter", False),
        scale=table.integer("scale", 1, 100_000, None if pgbench else 1),
        script=paths.file(table, "script", kind == "script", "a file in pgbench's language"),
        setup=paths.file(table, "setup", False, "a file of SQL, run once by psql"),
        writes=table.boolean("writes", kind == "script") or kind in ("pgbench-tpcb", "sysbench-read-write", "tpcc"),
        tables=table.integer("tables", 1, 1000, 4),
        rows=table.integer("rows", 1000, 1_000_000_000, 100_000),
        warehouses=table.integer("warehouses", 1, 100_000, 2),
        clients=tuple(table.integers("clients", 1, 10_000, [16])),
        threads=table.integer("threads", 1, 256, 1),
        protocol=table.choice("protocol", ("prepared", "extended", "simple"), "prepared"),
        sample=table.number("sample", 0.0001, 1, 0.1),
    )
    for key in ("keys", "skew", "scatter", "hot_share", "hot_access", "scale"):
        if not pgbench and key in table.values and not (key == "scale" and kind == "script"):
            table.fault(key, f"has no meaning for {kind}; it is for pgbench-select and pgbench-tpcb")
    if "skew" in table.values and keys in ("uniform", "hot-spot"):
        table.fault("skew", f"has no meaning for {keys} keys; it is for gaussian and zipfian")
    if keys != "hot-spot":
        for key in ("hot_share", "hot_access"):
            if key in table.values:
                table.fault(key, f"has no meaning for {keys} keys; it is for hot-spot")
    if "writes" in table.values and kind != "script":
        table.fault("writes", "is known for this load; it is for script")
    table.done()
    return load


def _storage(table: Table, paths: _Paths, kinds: tuple[str, ...], default: Storage) -> Storage:
    kind = table.choice("kind", kinds, default.kind)
    storage = Storage(
        kind=kind,
        path=paths.folder(table, "path", kind == "path"),
        spindles=table.integer("spindles", 1, 64, default.spindles),
        read_us=table.integer("read_us", 0, 1_000_000, default.read_us),
        write_us=table.integer("write_us", 0, 1_000_000, default.write_us),
        mb_per_s=table.integer("mb_per_s", 1, 100_000, default.mb_per_s),
    )
    _only_for_lab(table, kind)
    table.done()
    return storage


def _only_for_lab(table: Table, kind: str) -> None:
    for key in ("spindles", "read_us", "write_us", "mb_per_s"):
        if kind != "lab" and key in table.values:
            table.fault(key, f'has no meaning for kind = "{kind}"; it is for kind = "lab"')
    if kind != "path" and "path" in table.values:
        table.fault("path", f'has no meaning for kind = "{kind}"; it is for kind = "path"')


def _memory(table: Table) -> Memory:
    ratio = table.number("ratio", 1, 100_000, 0)
    buffers = table.size("shared_buffers", share=False)
    if ratio and buffers is not None:
        table.fault("shared_buffers", "and ratio exclude each other; allowed: one of them")
    headroom = table.size("headroom", share=False)
    table.done()
    if not ratio and buffers is None:
        return Memory(shared_buffers=128 * MB, headroom=headroom.bytes if headroom else Memory().headroom)
    return Memory(ratio, buffers.bytes if buffers else 0, headroom.bytes if headroom else Memory().headroom)


def _server(table: Table) -> Server:
    server = Server(
        major=table.integer("major", MAJORS[0], MAJORS[-1], 15),
        bin=table.text("bin", what="the folder of postgres, initdb and pgbench"),
        extension=table.choice("extension", ("auto", "installed", "build"), "auto"),
        settings=table.settings("settings"),
        dsn=table.text("dsn", what="a connection string of libpq"),
        allow=tuple(table.choices("allow", ALLOWANCES)),
        restart_command=table.text("restart_command", what="a command that restarts the server"),
        tablespace=table.text("tablespace", what="the name of a tablespace on flash"),
    )
    for key in ("allow", "restart_command", "tablespace"):
        if not server.dsn and key in table.values:
            table.fault(key, "is for an existing server; it needs server.dsn")
    for key in ("bin", "extension", "settings"):
        if server.dsn and key in table.values:
            table.fault(key, "is for a server that the study makes; it excludes server.dsn")
    table.done()
    return server


def _warmup(table: Table) -> Warmup:
    default = Warmup()
    warmup = Warmup(
        slice_s=table.integer("slice_s", 1, 3600, default.slice_s),
        step_points=table.number("step_points", 0.01, 50, default.step_points),
        flat=table.integer("flat", 1, 20, default.flat),
        max_s=table.integer("max_s", 1, 86400, default.max_s),
        disk=table.choice("disk", ("fast", "slow"), default.disk),
    )
    table.done()
    return warmup


def _arms(top: Table, sizes: tuple[Size, ...], server: Server) -> tuple[Arm, ...]:
    arms = [_arm(table, sizes, server) for table in top.tables("arm")]
    names = [arm.name for arm in arms]
    for name in sorted({name for name in names if names.count(name) > 1}):
        top.fault("arm", f"the name {name!r} is given twice; allowed: a name of its own for each arm")
    if not arms:
        top.fault("arm", 'is missing; allowed: one or more tables [[arm]], such as [[arm]] name = "disk"')
    return tuple(arms)


def _arm(table: Table, sizes: tuple[Size, ...], server: Server) -> Arm:
    name = table.text("name", None, what="a name of small letters, digits and -")
    if name and not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,40}", name):
        table.fault("name", f"{name!r} will not do; allowed: small letters, digits and -")
    arm = Arm(
        name=name,
        data=table.choice("data", ("disk", "flash"), "disk"),
        cache=_cache_sizes(table, sizes),
        moved=table.choice("moved", MOVED, "none"),
        hottest=table.integer("hottest", 1, 1000, 9),
        extra_memory=table.size("extra_memory", share=True),
        major=table.integer("server", MAJORS[0], MAJORS[-1], server.major),
        page_cache=table.choice("page_cache", ("limited", "free"), "limited"),
        tuning=table.choice("tuning", TUNING, "none"),
        enabled=table.choice("enabled", ("on", "off"), ""),
        settings=table.settings("settings"),
    )
    if "hottest" in table.values and arm.moved != "hottest":
        table.fault("hottest", 'has no meaning without moved = "hottest"')
    if arm.data == "flash" and arm.moved != "none":
        table.fault("moved", 'excludes data = "flash", where everything is on flash already; allowed there: none')
    if arm.enabled and arm.cache:
        table.fault("cache", "and enabled exclude each other: enabled takes the cache that the server has, at its size")
    if arm.enabled and not server.dsn:
        table.fault(
            "enabled", "switches the cache of an existing server, and needs server.dsn; for a cluster of the study's own there is cache"
        )
    if arm.tuning != "none" and arm.data == "flash":
        table.fault("tuning", 'is about the disk; it excludes data = "flash"; allowed there: none')
    table.done()
    return arm


def _cache_sizes(table: Table, sizes: tuple[Size, ...]) -> tuple[Size, ...]:
    """true: all of flash.sizes; a list: these; false: no cache."""
    if not table.has("cache"):
        return ()
    if isinstance(table.values["cache"], bool):
        if not table.values["cache"]:
            return ()
        if not sizes:
            table.fault("cache", "true means the sizes of flash.sizes, and there are none; allowed: false, or a list of sizes")
        return sizes
    return tuple(table.sizes("cache", share=True))


# --- what only makes sense together -----------------------------------------------------------------------


def _check_together(scenario: Scenario, faults: list[str], stored: bool) -> None:
    for figure in scenario.figures:
        need = figure_needs(figure, scenario)
        if need:
            faults.append(f"figures: {figure} needs {need}")
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
        if arm.tuning != "none" or arm.page_cache != "limited":
            faults.append(f"{where}: tuning and page_cache need a cluster that the study makes")
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


def _script_text(load: Load) -> str:
    try:
        return Path(load.script).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def plain(arm: Arm) -> bool:
    """Nothing but where the data is and the cache differs from the base."""
    return arm.moved == "none" and arm.extra_memory is None and arm.tuning == "none" and arm.page_cache == "limited"


def figure_needs(figure: str, scenario: Scenario) -> str:
    """What a scenario lacks for a figure; empty if nothing."""
    arms = scenario.arms
    base = scenario.server.major

    def there(test: Callable[[Arm], bool]) -> bool:
        return any(test(arm) for arm in arms)

    def usual(arm: Arm) -> bool:
        return plain(arm) and arm.major == base

    disk = there(lambda a: usual(a) and a.data == "disk" and not a.cache)
    cache = there(lambda a: usual(a) and a.data == "disk" and bool(a.cache))
    sizes = max((len(a.cache) for a in arms if usual(a) and a.data == "disk"), default=0)
    all_flash = there(lambda a: usual(a) and a.data == "flash" and not a.cache)
    needs: dict[str, tuple[bool, str]] = {
        "response-by-size": (disk and sizes >= 2, "an arm on disk without cache, and one with at least two sizes of cache"),
        "throughput-by-size": (disk and sizes >= 2, "an arm on disk without cache, and one with at least two sizes of cache"),
        "three-ways": (
            disk and all_flash and there(lambda a: a.moved == "indexes" and not a.cache),
            'arms on disk, with moved = "indexes", and with data = "flash"',
        ),
        "tps-by-users": (
            disk and cache and all_flash and len(scenario.load.clients) >= 2,
            'arms on disk, with a cache, and with data = "flash", and two or more load.clients',
        ),
        "cache-or-move": (
            disk
            and cache
            and there(lambda a: a.moved == "hottest" and not a.cache)
            and there(lambda a: a.moved == "hottest" and bool(a.cache)),
            'arms on disk, with a cache, with moved = "hottest", and with both',
        ),
        "front-of-flash": (
            all_flash and there(lambda a: usual(a) and a.data == "flash" and bool(a.cache)),
            'arms with data = "flash", without and with a cache',
        ),
        "tuning": (
            there(lambda a: a.tuning == "before") and there(lambda a: a.tuning == "after"),
            'arms with tuning = "before" and "after"',
        ),
        "memory-or-flash": (
            disk and cache and there(lambda a: a.extra_memory is not None),
            "arms on disk, with a cache, and with extra_memory",
        ),
        "versions": (len({a.major for a in arms}) >= 2, "arms with different server"),
        "page-cache": (
            there(lambda a: a.page_cache == "free") and there(lambda a: a.page_cache == "limited"),
            'arms with page_cache = "limited" and "free"',
        ),
    }
    good, words = needs[figure]
    return "" if good else words


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
