"""Does an object of Grafana's library keep to the types of Grafana's schema, from which the library is made?

The library itself takes any value when it reads JSON. What it does not know, it drops: who compares what it reads with what it writes
sees that.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Iterator
from typing import Any

_NUMBERS: dict[Any, tuple[type, ...]] = {int: (int,), float: (int, float)}


def _is_model(value: object) -> bool:
    return hasattr(type(value), "to_json")


def _of_type(value: Any, hint: Any) -> bool:
    if hint is bool or isinstance(value, bool):
        return hint is bool and isinstance(value, bool)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return value in [item.value for item in hint]
    return isinstance(value, _NUMBERS.get(hint, hint))


def violations(value: Any, hint: Any = object, path: str = "") -> Iterator[str]:
    """A line for each value that is not of its type."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        each = [list(violations(value, one, path)) for one in inner]
        yield from min(each, key=len)
    elif origin is typing.Literal:
        if value not in inner:
            yield f"{path}: {value!r} is none of {inner}"
    elif origin in (list, dict):
        if not isinstance(value, origin):
            yield f"{path}: {value!r} is no {origin.__name__}"
            return
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from violations(item, inner[-1], f"{path}[{key}]")
    elif hasattr(hint, "from_json") and isinstance(value, dict):  # the library reads some of these as they are
        model = hint.from_json(value)
        yield from (f"{path}.{name} is unknown" for name in set(value) - set(model.to_json()))
        yield from violations(model, hint, path)
    elif hint in (Any, object) or _is_model(value):
        if hint not in (Any, object) and not isinstance(value, hint):
            yield f"{path}: {type(value).__name__} is no {hint.__name__}"
        elif _is_model(value):
            for name, one in typing.get_type_hints(type(value)).items():
                yield from violations(getattr(value, name), one, f"{path}.{name}")
    elif not _of_type(value, hint):
        yield f"{path}: {value!r} is no {hint.__name__}"
