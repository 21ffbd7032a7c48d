#!/usr/bin/env python3
"""Holds META.json, by which PGXN distributes the extension, to the PGXN Meta Spec 1.0, and to what the tree says of itself.

usage: check-meta.py ROOT          prints every contradiction; exit status 1 when there is one
       check-meta.py --self-test   proves on made-up trees that each rule can fail

Needs pydantic, which pgflash needs as well. The specification wants versions of three numbers: 1.0 of the control file is 1.0.0
here.
"""

import re
import sys
import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from treecheck import Change, main

Text = Annotated[str, StringConstraints(min_length=1)]
Tag = Annotated[str, StringConstraints(pattern=r"^[^/\\\x00-\x1f]{1,255}$")]
SemVer = Annotated[str, StringConstraints(pattern=r"^(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}(-?[A-Za-z][0-9A-Za-z-]*)?$")]
Phase = Literal["configure", "build", "test", "runtime", "develop"]
Relation = Literal["requires", "recommends", "suggests", "conflicts"]


class Part(BaseModel, extra="forbid"):
    """Of the specification: what META.json makes use of."""


class Provided(Part):
    abstract: Text = ""
    file: Text
    docfile: Text = ""
    version: SemVer


class Spec(Part):
    version: Literal["1.0.0"]
    url: Text = ""


class Meta(Part):
    name: Literal["pg_flashcache"]
    abstract: Text
    description: Text = ""
    version: SemVer
    maintainer: Text
    license: Literal["postgresql"]
    release_status: Literal["stable", "testing", "unstable"] = "stable"
    provides: dict[Literal["pg_flashcache"], Provided] = Field(min_length=1)
    prereqs: dict[Phase, dict[Relation, dict[str, SemVer]]] = {}
    tags: list[Tag] = []
    no_index: dict[Literal["file", "directory"], list[Text]] = {}
    spec: Spec = Field(alias="meta-spec")


def check_tree(root: Path) -> list[str]:
    def first(pattern: str, file: str) -> str:
        match = re.search(pattern, (root / file).read_text("utf-8"), re.MULTILINE)
        if match is None:
            raise ValueError(f"{file} names no version")
        return match[1]

    try:
        meta = Meta.model_validate_json((root / "META.json").read_text("utf-8"))
        extension = first(r"^default_version\s*=\s*'([^']+)'", "pg_flashcache.control")
        news = first(r"^## (\S+)", "CHANGELOG.md")
        source = first(r'^#define FC_VERSION "([^"]+)"', "src/compat.h")
        command = first(r'^__version__ = "([^"]+)"', "pgflash/__init__.py")
        tool = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    except ValidationError as error:
        return [f"META.json: {'.'.join(map(str, e['loc']))} is not as the PGXN Meta Spec wants it" for e in error.errors()]
    except (OSError, ValueError, KeyError) as error:
        return [str(error)]
    whole = extension if extension.count(".") == 2 else f"{extension}.0"
    provided = meta.provides["pg_flashcache"]
    found = [
        f"{what} is {is_it}, and by the control file it should be {wanted}"
        for what, is_it, wanted in (
            ("META.json: version", meta.version, whole),
            ("META.json: version of pg_flashcache", provided.version, whole),
            ("pyproject.toml: version", tool, whole),
            ("pgflash/__init__.py: version", command, whole),
            ("src/compat.h: FC_VERSION", source, extension),
            ("CHANGELOG.md: first heading", news, extension),
        )
        if is_it != wanted
    ]
    if not re.fullmatch(rf"sql/pg_flashcache--(?:[0-9.]+--)?{re.escape(extension)}\.sql", provided.file):
        found.append(f"META.json: {provided.file} is not the script that makes version {extension}")
    named = [provided.file, provided.docfile, *(name for names in meta.no_index.values() for name in names)]
    return found + [f"META.json: there is no {name}" for name in named if not (root / name).exists()]


GOOD_TREE = {
    "META.json": '{"name": "pg_flashcache", "version": "1.0.0", "abstract": "a", "maintainer": "m", "license": "postgresql",'
    ' "meta-spec": {"version": "1.0.0"}, "prereqs": {"runtime": {"requires": {"PostgreSQL": "15.0.0"}}}, "tags": ["a b"],'
    ' "release_status": "testing", "provides": {"pg_flashcache": {"file": "sql/pg_flashcache--1.0.sql", "docfile": "docs/README.md",'
    ' "version": "1.0.0"}}, "no_index": {"directory": ["docs"]}}',
    "pg_flashcache.control": "comment = 'x'\ndefault_version = '1.0'\n",
    "pyproject.toml": '[project]\nversion = "1.0.0"\n',
    "pgflash/__init__.py": '__version__ = "1.0.0"\n',
    "CHANGELOG.md": "# Changelog\n\n## 1.0 (unreleased)\n## 0.9\n",
    "sql/pg_flashcache--1.0.sql": "",
    "docs/README.md": "",
    "src/compat.h": '#define FC_VERSION "1.0"\n',
}


def spec(old: str, new: str, *places: str) -> Change:
    """A change of META.json that departs from the specification there."""
    return "META.json", old, new, [f"META.json: {place} is not as the PGXN Meta Spec wants it" for place in places]


BROKEN: list[Change] = [
    spec('"abstract": "a"', '"abstract": ""', "abstract"),
    spec('"maintainer": "m", ', "", "maintainer"),
    spec('"postgresql"', '"PostgreSQL"', "license"),
    spec('{"name"', '{"home": "x", "name"', "home"),
    spec('"a b"', '"a/b"', "tags.0"),
    spec('"testing"', '"new"', "release_status"),
    spec('"15.0.0"', '"15"', "prereqs.runtime.requires.PostgreSQL"),
    spec('"requires"', '"needs"', "prereqs.runtime.needs.[key]"),
    spec('meta-spec": {"version": "1.0.0"}', 'meta-spec": {"version": "2.0.0"}', "meta-spec.version"),
    spec('md", "version": "1.0.0"', 'md", "version": "1.0"', "provides.pg_flashcache.version"),
    ("META.json", 'he", "version": "1.0.0"', 'he", "version": "1.0.1"', [
        "META.json: version is 1.0.1, and by the control file it should be 1.0.0",
    ]),
    ("META.json", 'md", "version": "1.0.0"', 'md", "version": "2.0.0"', [
        "META.json: version of pg_flashcache is 2.0.0, and by the control file it should be 1.0.0",
    ]),
    ("META.json", "sql/pg_flashcache--1.0.sql", "docs/README.md", [
        "META.json: docs/README.md is not the script that makes version 1.0",
    ]),
    ("META.json", "docs/README.md", "docs/x.md", ["META.json: there is no docs/x.md"]),
    ("META.json", '["docs"]', '["lab"]', ["META.json: there is no lab"]),
    ("pyproject.toml", "1.0.0", "1.1.0", ["pyproject.toml: version is 1.1.0, and by the control file it should be 1.0.0"]),
    ("pgflash/__init__.py", "1.0.0", "1.1.0", ["pgflash/__init__.py: version is 1.1.0, and by the control file it should be 1.0.0"]),
    ("CHANGELOG.md", "## 1.0 (unreleased)\n", "", ["CHANGELOG.md: first heading is 0.9, and by the control file it should be 1.0"]),
    ("CHANGELOG.md", "## ", "", ["CHANGELOG.md names no version"]),
    ("src/compat.h", '"1.0"', "", ["src/compat.h names no version"]),
    ("src/compat.h", '"1.0"', '"1.1"', ["src/compat.h: FC_VERSION is 1.1, and by the control file it should be 1.0"]),
]

if __name__ == "__main__":
    sys.exit(main(__doc__, check_tree, "META.json agrees with the tree", GOOD_TREE, BROKEN))
