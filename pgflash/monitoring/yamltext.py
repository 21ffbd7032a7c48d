"""YAML for people: long texts as blocks, keys in the order in which they are given, and a comment before."""

from __future__ import annotations

from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def as_yaml(comment: str, value: Any) -> str:
    lines = "".join(f"# {line}".rstrip() + "\n" for line in comment.strip().splitlines())
    return lines + yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
