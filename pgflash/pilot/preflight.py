"""What can be known to fail is asked before anything starts."""

from __future__ import annotations

from pathlib import Path

from pgflash.errors import MachineError
from pgflash.pilot import db, extension, lab
from pgflash.pilot.existing import check_switch
from pgflash.pilot.loads import Driver
from pgflash.pilot.own import bin_folder
from pgflash.pilot.scenario import Scenario
from pgflash.system import as_server_user, free_bytes, in_memory, is_root, run
from pgflash.units import MB, show_bytes


def check(scenario: Scenario, driver: Driver, base: Path) -> list[str]:
    """Raises MachineError, or returns what the user should know."""
    if not scenario.own_cluster:
        return _check_existing(scenario, driver)
    for major in sorted({variant.arm.major for variant in scenario.variants}):
        _check_server(scenario, driver, major)
    if scenario.disk.kind == "lab":
        lab.check("the disk of this scenario")
    if scenario.flash.kind == "lab":
        lab.check("the flash of this scenario")
    _check_folder(scenario, driver, base)
    if is_root():
        return []
    return ["no memory limit can be set without root: the kernel's page cache may hide the disk, and the report says so"]


def _check_server(scenario: Scenario, driver: Driver, major: int) -> None:
    folder = bin_folder(scenario, major)
    for program in ("postgres", "initdb", "pg_config"):
        if not (Path(folder) / program).exists():
            raise MachineError(
                f"there is no {folder}/{program}: PostgreSQL {major} is not here",
                f"install postgresql-{major} and postgresql-server-dev-{major}, or name its programs in server.bin",
            )
    missing = driver.missing(folder)
    if missing:
        raise MachineError(f"the load needs {missing}, which this machine does not have")
    if not any(variant.cache for variant in scenario.variants if variant.arm.major == major):
        return
    how = scenario.server.extension
    if how != "installed" and extension.checkout() is not None and not Path(extension.config(folder, "--pgxs")).exists():
        raise MachineError(f"the extension cannot be built for PostgreSQL {major}", f"install postgresql-server-dev-{major}, make and gcc")
    if (how == "installed" or (how == "auto" and extension.checkout() is None)) and not extension.is_installed(folder):
        raise MachineError(f"PostgreSQL {major} in {folder} has no pg_flashcache", extension.INSTALL_HINT)


def _check_folder(scenario: Scenario, driver: Driver, base: Path) -> None:
    if not base.is_dir():
        raise MachineError(f"{base} is not a folder", "choose another with --dir")
    if in_memory(base):
        raise MachineError(f"{base} is in memory, and a disk it is not", "choose a folder on a disk with --dir")
    if run(as_server_user(["test", "-x", str(base)]), what="test", check=False).returncode != 0:
        raise MachineError(f"the user that runs the servers cannot reach {base}", "choose another folder with --dir")
    size_mb = driver.space_mb() or 4000
    # The pristine copy, the disk with the cluster, flash with a cache or everything; the lab's flash is sized likewise.
    need = (size_mb * 4 + 6000 + (size_mb * 3 + 3000 if scenario.flash.kind == "lab" else 0)) * MB
    if free_bytes(base) < need:
        raise MachineError(
            f"{base} has {show_bytes(free_bytes(base))} free and about {show_bytes(need)} are needed", "choose another folder with --dir"
        )


def _check_existing(scenario: Scenario, driver: Driver) -> list[str]:
    missing = driver.missing("")
    if missing:
        raise MachineError(f"the load needs {missing}, which this machine does not have")
    if "drop-caches" in scenario.server.allow and not is_root():
        raise MachineError('server.allow has "drop-caches", which needs root')
    with db.connect(scenario.server.dsn) as connection:
        if any(arm.enabled for arm in scenario.arms):
            check_switch(connection)
        if not scenario.server.tablespace:
            return []
        if db.value(connection, "SELECT 1 FROM pg_tablespace WHERE spcname = %s", scenario.server.tablespace) is None:
            raise MachineError(
                f"the server has no tablespace {scenario.server.tablespace}",
                "make it on the flash device, then name it in server.tablespace",
            )
    return []
