"""The shape of a scenario's file: which keys there are, what each may be, what it is by default. docs/pilot.md is for people.

A class for each table. What pydantic finds wrong is reported in sentences of ours: each names the key by its full path and says what is
allowed there, and they are collected for all tables before anything is said. What a key means, and what only makes sense together,
is scenario.py's.
"""

from __future__ import annotations

import difflib
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from pgflash.units import SMALLEST_CACHE, Size, parse_size, show_bytes

LoadKind = Literal["pgbench-select", "pgbench-tpcb", "script", "sysbench-read-only", "sysbench-read-write", "tpcc"]
Keys = Literal["uniform", "gaussian", "zipfian", "hot-spot"]
Protocol = Literal["prepared", "extended", "simple"]
Allowance = Literal["database", "write", "settings", "restart", "objects", "drop-caches", "machine"]
Moved = Literal["none", "indexes", "hottest"]
Tuning = Literal["none", "before", "after", "doctor"]
Figure = Literal[
    "response-by-size", "three-ways", "throughput-by-size", "tps-by-users", "cache-or-move", "front-of-flash", "tuning",
    "memory-or-flash", "versions", "page-cache", "cluster", "failover",
]  # fmt: skip
FIRST_MAJOR, LAST_MAJOR = 15, 19

Text = Annotated[str, Field(pattern=r"\S")]
A_SIZE = 'a size such as "512MB" or "2GB"'
A_SHARE = 'a share of the database such as "47%"'


# --- values -----------------------------------------------------------------------------------------------


def _wrong(value: Any) -> ValueError:
    return ValueError(f"{value!r} will not do")


def _different(value: list[int]) -> list[int]:
    if len(set(value)) != len(value):
        raise _wrong(value)
    return value


def _size(value: Any, share: bool) -> Size | None:
    size = parse_size(value) if isinstance(value, str) else None
    return size if size is not None and (size.share if share and size.share else size.bytes) else None


def _one_size(value: Any) -> Size:
    size = _size(value, share=False)
    if size is None:
        raise _wrong(value)
    return size


def _size_or_share(value: Any) -> Size:
    size = _size(value, share=True)
    if size is None:
        raise _wrong(value)
    return size


def _cache_sizes(value: Any) -> list[Size]:
    if not isinstance(value, list) or not value or len(set(map(str, value))) != len(value):
        raise _wrong(value)
    sizes = {str(item): _size(item, share=True) for item in value}
    wrong = [item for item in value if sizes[str(item)] is None]
    if wrong:
        raise ValueError(f"{', '.join(map(repr, wrong))} will not do")
    good = [size for size in sizes.values() if size is not None]
    small = [size.text for size in good if not size.share and size.bytes < SMALLEST_CACHE]
    if small:
        raise ValueError(
            f"{', '.join(map(repr, small))} {'is' if len(small) == 1 else 'are'} too small for a cache; allowed: {show_bytes(SMALLEST_CACHE)} or more"
        )
    return good


def _cache(value: Any) -> bool | list[Size]:
    return value if isinstance(value, bool) else _cache_sizes(value)


def _settings(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or any(not isinstance(v, str | int | float | bool) for v in value.values()):
        raise _wrong(value)
    return {name: ("on" if v else "off") if isinstance(v, bool) else str(v) for name, v in value.items()}


SIZES = f"a list of different sizes, each {A_SIZE}, or {A_SHARE}"
OneSize = Annotated[Size, PlainValidator(_one_size), Field(description=A_SIZE)]
Settings = Annotated[
    dict[str, str], PlainValidator(_settings), Field(description="a table of PostgreSQL settings, each a text, number or boolean")
]


# --- tables -----------------------------------------------------------------------------------------------


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    def given(self, key: str) -> bool:
        return key in self.model_fields_set


class LoadTable(_Table):
    kind: LoadKind
    keys: Keys = "uniform"
    skew: float | None = Field(None, ge=1.001, le=1000)
    hot_share: float = Field(0.2, ge=0.0001, le=0.9999)
    hot_access: float = Field(0.8, ge=0.0001, le=0.9999)
    scatter: bool = False
    scale: int | None = Field(None, ge=1, le=100_000)
    script: Text = Field("", description="a file in pgbench's language")
    setup: Text = Field("", description="a file of SQL, run once by psql")
    writes: bool | None = None
    tables: int = Field(4, ge=1, le=1000)
    rows: int = Field(100_000, ge=1000, le=1_000_000_000)
    warehouses: int = Field(2, ge=1, le=100_000)
    clients: Annotated[list[Annotated[int, Field(ge=1, le=10_000)]], AfterValidator(_different)] = Field(
        [16], min_length=1, description="a list of different whole numbers from 1 to 10000"
    )
    threads: int = Field(1, ge=1, le=256)
    protocol: Protocol = "prepared"
    sample: float = Field(0.1, ge=0.0001, le=1)


class _StorageTable(_Table):
    path: Text = Field("", description="an existing folder")
    spindles: int | None = Field(None, ge=1, le=64)
    read_us: int | None = Field(None, ge=0, le=1_000_000)
    write_us: int | None = Field(None, ge=0, le=1_000_000)
    mb_per_s: int | None = Field(None, ge=1, le=100_000)


class DiskTable(_StorageTable):
    kind: Literal["lab", "path"] = "lab"


class FlashTable(_StorageTable):
    kind: Literal["file", "lab", "path"] = "file"
    sizes: Annotated[list[Size], PlainValidator(_cache_sizes)] = Field([], description=SIZES)


class MemoryTable(_Table):
    ratio: float = Field(0, ge=1, le=100_000)
    shared_buffers: OneSize | None = None
    headroom: OneSize | None = None


class ServerTable(_Table):
    major: int = Field(15, ge=FIRST_MAJOR, le=LAST_MAJOR)
    bin: Text = Field("", description="the folder of postgres, initdb and pgbench")
    extension: Literal["auto", "installed", "build"] = "auto"
    settings: Settings = Field({})
    dsn: Text = Field("", description="a connection string of libpq")
    allow: list[Allowance] = []
    restart_command: Text = Field("", description="a command that restarts the server")
    tablespace: Text = Field("", description="the name of a tablespace on flash")


class ClusterTable(_Table):
    nodes: int = Field(2, ge=2, le=4)
    failover: bool = False


class WarmupTable(_Table):
    slice_s: int = Field(10, ge=1, le=3600)
    step_points: float = Field(0.3, ge=0.01, le=50)
    flat: int = Field(3, ge=1, le=20)
    max_s: int = Field(600, ge=1, le=86400)
    disk: Literal["fast", "slow"] = "fast"


class ArmTable(_Table):
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$", description="small letters, digits and -")
    data: Literal["disk", "flash"] = "disk"
    cache: Annotated[bool | list[Size], PlainValidator(_cache)] = Field(False, description=f"true, false, or {SIZES}")
    moved: Moved = "none"
    hottest: int = Field(9, ge=1, le=1000)
    extra_memory: Annotated[Size | None, PlainValidator(_size_or_share)] = Field(None, description=f"{A_SIZE}, or {A_SHARE}")
    server: int | None = Field(None, ge=FIRST_MAJOR, le=LAST_MAJOR)
    page_cache: Literal["limited", "free"] = "limited"
    tuning: Tuning = "none"
    follow: bool = False
    enabled: Literal["on", "off"] | None = None
    settings: Settings = Field({})


class TopTable(_Table):
    """The tables in it are read one by one, so that a fault in one hides none in another."""

    title: Text = ""
    duration_s: int = Field(60, ge=1, le=86400)
    repetitions: int = Field(3, ge=1, le=100)
    figures: list[Figure] = []
    goal: float = Field(0, ge=1, le=1000)
    load: dict[str, Any] = Field(description="a table, [load]")
    disk: dict[str, Any] = Field({}, description="a table, [disk]")
    flash: dict[str, Any] = Field({}, description="a table, [flash]")
    memory: dict[str, Any] = Field({}, description="a table, [memory]")
    server: dict[str, Any] = Field({}, description="a table, [server]")
    cluster: dict[str, Any] | None = Field(None, description="a table, [cluster]")
    warmup: dict[str, Any] = Field({}, description="a table, [warmup]")
    arm: list[dict[str, Any]] = Field(min_length=1, description='one or more tables [[arm]], such as [[arm]] name = "disk"')


# --- reading ----------------------------------------------------------------------------------------------

T = TypeVar("T", bound=_Table)


def read(table: type[T], values: Any, path: str, faults: list[str]) -> T | None:
    """None if there are faults. Values that are no table are reported by the table above."""
    if not isinstance(values, dict):
        return None
    try:
        return table.model_validate(values)
    except ValidationError as error:
        faults += [f"{path}{_key(found)}: {_sentence(table, found)}" for found in error.errors(include_url=False)]
        return None


def allowed(table: type[_Table], key: str) -> str:
    field = table.model_fields[key]
    return field.description or _words(field.annotation, field.metadata)


def _key(error: ErrorDetails) -> str:
    """What is wrong within a list is named by its number, from 1."""
    return "".join(f"[{part + 1}]" if isinstance(part, int) else part for part in error["loc"])


def _sentence(table: type[_Table], error: ErrorDetails) -> str:
    key = str(error["loc"][0])
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(key, table.model_fields, n=1)
        meant = f" (did you mean {near[0]}?)" if near else ""
        return f"is not known{meant}; allowed: {', '.join(sorted(table.model_fields))}"
    words = f"allowed: {allowed(table, key)}"
    if error["type"] == "missing":
        return f"is missing; {words}"
    if error["type"] == "value_error":
        said = str(error["ctx"]["error"])
        return said if "allowed: " in said else f"{said}; {words}"
    return f"{error['input']!r} {'is not known' if error['type'] == 'literal_error' else 'will not do'}; {words}"


def _words(annotation: Any, metadata: list[Any]) -> str:
    """What a type allows."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        said = next((each.description for each in inner[1:] if isinstance(each, FieldInfo) and each.description), None)
        return said or _words(inner[0], list(inner[1:]))
    if origin in (Union, UnionType):
        return _words(next(each for each in inner if each is not NoneType), metadata)
    if origin is list:
        return _words(inner[0], metadata)
    if origin is Literal:
        return ", ".join(inner)
    if annotation is bool:
        return "true, false"
    least = next((each.ge for each in metadata if hasattr(each, "ge")), None)
    most = next((each.le for each in metadata if hasattr(each, "le")), None)
    if least is not None:
        return f"a whole number from {least} to {most}" if annotation is int else f"a number from {least:g} to {most:g}"
    return "a text"
