"""The same help with any version of typer. Recent ones show the type of a switch, `<bool>`, as if it took a value, that of an
argument as Python has it, and the name of an argument in small letters; older ones show that an option has no default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


def _plain(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if parameter.default is None:
            parameter.show_default = False
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        elif parameter.param_type_name == "option":
            if parameter.multiple and not parameter.metavar and not getattr(getattr(parameter, "type_descriptor", None), "is_choice", True):
                parameter.metavar = "TEXT"  # not list[str]
        elif hasattr(parameter, "display_type_rich"):
            parameter.display_type_rich = _nothing
            parameter.metavar = parameter.metavar or parameter.name.upper()
    return parameters


def _nothing(ctx: Any) -> None:
    """No type."""


class Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _plain(super().get_params(ctx))


class Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _plain(super().get_params(ctx))


class Commands(typer.Typer):
    """As typer's, with such commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=Group, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        return super().command(name, cls=Command, **options)
