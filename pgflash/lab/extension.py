"""The extension for a private server: installed already, or built from the checkout and staged."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pgflash.errors import MachineError
from pgflash.system import run

LIBRARY = "pg_flashcache.so"
LONGEST_LIBRARY = 95
INSTALL_HINT = "make install it, or run pgflash in the folder of its checkout"
# What CREATE EXTENSION does besides running the script: by its membership the views are found, by pgflash and by a standby that follows.
_REGISTERED = """SET allow_system_table_mods = on;
INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
VALUES (pg_nextoid('pg_extension', 'oid', 'pg_extension_oid_index'), 'pg_flashcache', 10, 'public'::regnamespace, false, '{version}');
{script}
INSERT INTO pg_depend (classid, objid, objsubid, refclassid, refobjid, refobjsubid, deptype)
SELECT made.class, made.oid, 0, 'pg_extension'::regclass, e.oid, 0, 'e'
  FROM pg_extension e, (SELECT 'pg_class'::regclass, oid, relnamespace FROM pg_class WHERE relkind IN ('v', 'r')
                        UNION ALL SELECT 'pg_proc'::regclass, oid, pronamespace FROM pg_proc) made (class, oid, namespace)
 WHERE e.extname = 'pg_flashcache' AND made.namespace = e.extnamespace AND made.oid > e.oid;
RESET allow_system_table_mods;
"""
_LEFT_OUT = shutil.ignore_patterns(".git", "*.o", "*.so", "*.bc", "results", "tmp_check", "build", "__pycache__")


@dataclass(frozen=True)
class Extension:
    """library_path: a value for dynamic_library_path; script: SQL in place of CREATE EXTENSION. Both empty if it is installed."""

    library_path: str = ""
    script: Path | None = None

    def create(self, cluster: Psql, database: str) -> None:
        cluster.psql(database, *(["-f", str(self.script)] if self.script is not None else ["-c", "CREATE EXTENSION pg_flashcache"]))


class Psql(Protocol):
    def psql(self, database: str, *arguments: str) -> str: ...


def config(bin_folder: str, what: str) -> str:
    return run([f"{bin_folder}/pg_config", what], what="pg_config", error=MachineError).stdout.strip()


def is_installed(bin_folder: str) -> bool:
    return (Path(config(bin_folder, "--pkglibdir")) / LIBRARY).is_file()


def checkout() -> Path | None:
    """Sources of the extension: beside this package, or in the current folder (a pgflash installed without them)."""
    for folder in (Path(__file__).resolve().parents[2], Path.cwd()):
        if all((folder / name).is_file() for name in ("pg_flashcache.control", "Makefile")):
            return folder
    return None


def is_built(how: str) -> bool:
    """Of the checkout, or the one that is installed?"""
    return how == "build" or (how == "auto" and checkout() is not None)


def check_path(major: int, work: Path) -> None:
    """On 15 and 16 the name of a background worker's library, which is its path, has room for 95 bytes."""
    path = library_folder(major, work) / LIBRARY
    if major < 17 and len(os.fsencode(path)) > LONGEST_LIBRARY:
        raise MachineError(
            f"the extension would be {path}: {len(os.fsencode(path))} bytes, and PostgreSQL {major} has room for {LONGEST_LIBRARY}",
            "choose a shorter folder with --dir",
        )


def library_folder(major: int, work: Path) -> Path:
    """Where the library that is built is put: as high as can be, for the sake of its path's length."""
    return work / str(major)


def provide(bin_folder: str, major: int, how: str, work: Path, defines: str = "") -> Extension:
    """how: installed, build, or auto (the checkout's if there is one). work: the folder of the study's clusters. defines: for the compiler,
    of a build."""
    source = checkout()
    if not is_built(how):
        if not is_installed(bin_folder):
            raise MachineError(f"the server of {bin_folder} has no pg_flashcache", INSTALL_HINT)
        return Extension()
    if source is None:
        raise MachineError(
            "there are no sources of pg_flashcache beside pgflash or here", 'install the extension and set server.extension = "installed"'
        )
    check_path(major, work)
    return _build(bin_folder, source, work / f"extension-{major}", library_folder(major, work), defines)


def _build(bin_folder: str, source: Path, place: Path, libraries: Path, defines: str) -> Extension:
    tree, stage = place / "tree", place / "stage"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(source, tree, ignore=_LEFT_OUT, symlinks=True)
    run(
        ["make", "-C", str(tree), f"PG_CONFIG={bin_folder}/pg_config", "with_llvm=no", f"PROFILE={defines}", "install", f"DESTDIR={stage}"],
        what="building the extension",
        error=MachineError,
    )
    libraries.mkdir(exist_ok=True)
    shutil.copy(f"{stage}{config(bin_folder, '--pkglibdir')}/{LIBRARY}", libraries)
    script = place / "pg_flashcache.sql"
    script.write_text(staged_script(Path(f"{stage}{config(bin_folder, '--sharedir')}") / "extension", libraries), "utf-8")
    return Extension(f"{libraries}:$libdir", script)


def staged_script(folder: Path, libraries: Path) -> str:
    """The extension's own script, made to name the staged library: CREATE EXTENSION looks into the server's folder only."""
    control = (folder / "pg_flashcache.control").read_text("utf-8")
    version = re.search(r"default_version\s*=\s*'([^']+)'", control)
    if version is None:
        raise MachineError("pg_flashcache.control names no version")
    # that of the first version, and those that lead from there to this one
    scripts = [folder / "pg_flashcache--1.0.sql"]
    while scripts[-1].stem.rpartition("--")[2] != version[1]:
        script = next(folder.glob(f"pg_flashcache--{scripts[-1].stem.rpartition('--')[2]}--*.sql"), None)
        if script is None:
            raise MachineError(f"no script of the extension leads to version {version[1]}")
        scripts.append(script)
    text = "\n".join(script.read_text("utf-8") for script in scripts)
    text = re.sub(r"^\\echo .*\\quit\n", "", text, flags=re.MULTILINE)
    # only a script that CREATE EXTENSION runs may say what is dumped
    text = re.sub(r"^SELECT pg_catalog\.pg_extension_config_dump\(.*\);\n", "", text, flags=re.MULTILINE)
    text = text.replace("MODULE_PATHNAME", f"{libraries}/pg_flashcache").replace("@extschema@", "public")
    return _REGISTERED.format(version=version[1], script=text)
