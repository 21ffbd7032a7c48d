"""The extension for a server of the study's own: installed already, or built from the checkout and staged."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from pgflash.errors import MachineError
from pgflash.pilot import lab
from pgflash.system import run

INSTALL_HINT = "make install it, or run pgflash in the folder of its checkout"
_LEFT_OUT = shutil.ignore_patterns(".git", "*.o", "*.so", "*.bc", "results", "tmp_check", "build", "__pycache__")


@dataclass(frozen=True)
class Extension:
    """library_path: a value for dynamic_library_path; script: SQL in place of CREATE EXTENSION. Both empty if it is installed."""

    library_path: str = ""
    script: str = ""


def config(bin_folder: str, what: str) -> str:
    return run([f"{bin_folder}/pg_config", what], what="pg_config", error=MachineError).stdout.strip()


def is_installed(bin_folder: str) -> bool:
    return (Path(config(bin_folder, "--pkglibdir")) / "pg_flashcache.so").is_file()


def checkout() -> Path | None:
    """Sources of the extension: beside this package, or in the current folder (a pgflash installed without them)."""
    for folder in (lab.scripts().parent, Path.cwd()):
        if all((folder / name).is_file() for name in ("pg_flashcache.control", "Makefile")):
            return folder
    return None


def provide(bin_folder: str, how: str, work: Path) -> Extension:
    """how: installed, build, or auto (the checkout's if there is one)."""
    source = checkout()
    if how == "installed" or (how == "auto" and source is None):
        if not is_installed(bin_folder):
            raise MachineError(f"the server of {bin_folder} has no pg_flashcache", INSTALL_HINT)
        return Extension()
    if source is None:
        raise MachineError(
            "there are no sources of pg_flashcache beside pgflash or here", 'install the extension and set server.extension = "installed"'
        )
    return _build(bin_folder, source, work)


def _build(bin_folder: str, source: Path, work: Path) -> Extension:
    tree, stage = work / "tree", work / "stage"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(source, tree, ignore=_LEFT_OUT, symlinks=True)
    run(
        ["make", "-C", str(tree), f"PG_CONFIG={bin_folder}/pg_config", "with_llvm=no", "install", f"DESTDIR={stage}"],
        what="building the extension",
        error=MachineError,
    )
    libraries = f"{stage}{config(bin_folder, '--pkglibdir')}"
    return Extension(f"{libraries}:$libdir", _script(Path(f"{stage}{config(bin_folder, '--sharedir')}") / "extension", libraries))


def _script(folder: Path, libraries: str) -> str:
    """The extension's own script, made to name the staged library: CREATE EXTENSION looks into the server's folder only."""
    control = (folder / "pg_flashcache.control").read_text("utf-8")
    version = re.search(r"default_version\s*=\s*'([^']+)'", control)
    if version is None:
        raise MachineError("pg_flashcache.control names no version")
    text = (folder / f"pg_flashcache--{version[1]}.sql").read_text("utf-8")
    text = re.sub(r"^\\echo .*\\quit\n", "", text, flags=re.MULTILINE)
    return text.replace("MODULE_PATHNAME", f"{libraries}/pg_flashcache").replace("@extschema@", "public")
