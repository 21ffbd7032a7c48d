"""What can be known to fail is asked before anything starts."""

from __future__ import annotations

from pathlib import Path

from pgflash.errors import BrokeOff, MachineError, Unreachable
from pgflash.lab import extension, proxy, storage
from pgflash.lab.work import check_base
from pgflash.pilot import db
from pgflash.pilot.existing import check_switch
from pgflash.pilot.loads import Driver
from pgflash.pilot.own import WORK_LENGTH, bin_folder
from pgflash.pilot.scenario import Scenario
from pgflash.system import is_root
from pgflash.units import MB


def check(scenario: Scenario, driver: Driver, base: Path) -> list[str]:
    """Raises MachineError, or returns what the user should know."""
    try:
        return _check(scenario, driver, base)
    except Unreachable:
        raise
    except BrokeOff as error:  # from what is used while measuring, too: nothing is measured yet
        raise MachineError(error.message, error.hint) from error


def _check(scenario: Scenario, driver: Driver, base: Path) -> list[str]:
    if not scenario.own_cluster:
        return _check_existing(scenario, driver)
    for major in sorted({variant.arm.major for variant in scenario.variants}):
        _check_server(scenario, driver, base, major)
    if scenario.disk.kind == "lab":
        _check_lab("the disk of this scenario")
    if scenario.flash.kind == "lab":
        _check_lab("the flash of this scenario")
    if scenario.cluster.nodes > 1:
        proxy.check(base.resolve() / ("x" * WORK_LENGTH) / "socket")
    check_base(base, _need(scenario, driver))
    if is_root():
        return []
    return ["no memory limit can be set without root: the kernel's page cache may hide the disk, and the report says so"]


def _check_server(scenario: Scenario, driver: Driver, base: Path, major: int) -> None:
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
    if extension.is_built(how):
        extension.check_path(major, base.resolve() / ("x" * WORK_LENGTH))
        if extension.checkout() is not None and not Path(extension.config(folder, "--pgxs")).exists():
            raise MachineError(
                f"the extension cannot be built for PostgreSQL {major}", f"install postgresql-server-dev-{major}, make and gcc"
            )
    elif not extension.is_installed(folder):
        raise MachineError(f"PostgreSQL {major} in {folder} has no pg_flashcache", extension.INSTALL_HINT)


def _check_lab(what: str) -> None:
    if not is_root():
        raise MachineError(
            f"{what} is the lab's, which has to be mounted: that needs root",
            'run the same command as root (sudo), or name real storage: kind = "path", path = "/a/folder"',
        )
    try:
        storage.check()
    except MachineError as error:
        raise MachineError(f"{what} is the lab's, and this machine cannot have it: {error}") from error


def _need(scenario: Scenario, driver: Driver) -> int:
    """The pristine copy, the disk with the cluster, flash with a cache or everything; the lab's flash is sized likewise. For each
    standby a disk and a cache more."""
    size_mb = driver.space_mb() or 4000
    standbys = (size_mb * 5 // 2 + 3000) * (scenario.cluster.nodes - 1)
    return (size_mb * 4 + 6000 + standbys + (size_mb * 3 + 3000 if scenario.flash.kind == "lab" else 0)) * MB


def _check_existing(scenario: Scenario, driver: Driver) -> list[str]:
    missing = driver.missing("")
    if missing:
        raise MachineError(f"the load needs {missing}, which this machine does not have")
    if "drop-caches" in scenario.server.allow and not is_root():
        raise MachineError('server.allow has "drop-caches", which needs root')
    with db.connect(scenario.server.dsn) as connection:
        if any(arm.enabled for arm in scenario.arms):
            check_switch(connection)
        db.cache_view(connection)  # refuses one that is not safe to use
        if not scenario.server.tablespace:
            return []
        if db.value(connection, "SELECT 1 FROM pg_tablespace WHERE spcname = %s", scenario.server.tablespace) is None:
            raise MachineError(
                f"the server has no tablespace {scenario.server.tablespace}",
                "make it on the flash device, then name it in server.tablespace",
            )
    return []
