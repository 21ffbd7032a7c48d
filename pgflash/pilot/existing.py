"""An existing cluster, by its DSN. Nothing is changed but what server.allow names, and that is put back at the end.

database      a database of its own for the load's data, dropped at the end
write         loads that write
settings      ALTER SYSTEM and a reload; reset to what was there
restart       server.restart_command, where a setting needs it
objects       tables and indexes move to server.tablespace, and back
machine       with tuning = "doctor": scheduler, read-ahead, vm.* of this machine (root, on the server's own machine)
drop-caches   the kernel forgets its page cache before an arm starts (root, on the server's own machine)

What has to be put back is written to the study's folder (undo.json) before anything is changed. Whatever ends the study, SIGKILL
included: the next run of it, or `pgflash pilot restore`, begins with that. What the doctor changes is in a file of its own beside it
(doctor.json), which is `pgflash doctor`'s.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shlex
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from pgflash import safe
from pgflash.cluster import restart
from pgflash.connection import said, without_secrets
from pgflash.doctor.check import Change, Write
from pgflash.doctor.treatment import Treatment
from pgflash.errors import BrokeOff, MachineError, PgflashError, Refused, StudyError
from pgflash.pilot import db
from pgflash.pilot.loads import Driver, LoadResult
from pgflash.pilot.scenario import Scenario, Variant
from pgflash.pilot.store import Study
from pgflash.pilot.target import ENVIRONMENT, Place, Started
from pgflash.shown import literal
from pgflash.system import Device, device_of, environment, failure, is_root, on_one_device
from pgflash.units import MB

RANKING_S = 20
RESTART_S = 1800.0  # for server.restart_command
SWITCH = "pg_flashcache.enabled"


def undo_file(folder: Path) -> Path:
    return folder / "undo.json"


def restore(study: Study) -> list[str]:
    """Puts a server back as it was before a run of the study that could not do it itself. What was done, in words."""
    path = undo_file(study.folder)
    if not path.exists():
        return []
    try:
        there = json.loads(path.read_text("utf-8"))
        scenario = study.scenarios[there["scenario"]]
        target = ExistingTarget(scenario, None, study.folder, path)
        target.undo(there)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StudyError(f"{path} cannot be read: {error!r}", "put the server back by hand, then remove the file") from error
    target.close()
    return [f"{scenario.name}: the server was put back as it was before a run that was cut short"]


# A setting that postgresql.conf has although no library defines it is not among these.
SIZE = "SELECT setting FROM pg_settings WHERE name = 'pg_flashcache.size' AND context = 'postmaster'"


def check_switch(connection: db.Connection) -> None:
    """Whether the cache can be switched off and on here; MachineError says what is missing."""
    size = db.value(connection, SIZE)
    if size is None:
        raise MachineError("the server does not have pg_flashcache loaded", "an arm with enabled is for a server that has it")
    allowed = db.value(
        connection,
        "SELECT has_parameter_privilege(%s, 'ALTER SYSTEM') AND has_function_privilege('pg_reload_conf()', 'EXECUTE')"
        " AND has_table_privilege('pg_file_settings', 'SELECT') AND has_function_privilege('pg_show_all_file_settings()', 'EXECUTE')",
        SWITCH,
    )
    if not allowed:
        raise MachineError(
            f"{connection.info.user} may not switch the cache of this server: that takes ALTER SYSTEM SET {SWITCH}, pg_reload_conf(),"
            " pg_show_all_file_settings() and pg_file_settings",
            "connect as a superuser",
        )
    if size == "0":
        raise MachineError("the server has no cache to switch: pg_flashcache.size is 0", "set it, restart the server, and try again")


class ExistingTarget:
    def __init__(self, scenario: Scenario, driver: Driver | None, work: Path, undo: Path) -> None:
        self.scenario = scenario
        self.driver = driver
        self.undo_path = undo
        self.allow = set(scenario.server.allow)
        self.database_bytes = 0
        self.log_folder = work
        self.scratch = work
        self.made_database = ""
        self.before: dict[str, str | None] = {}  # settings in postgresql.auto.conf as they were; None: not there
        self.moved_back: list[tuple[str, str, str]] = []  # kind, name, tablespace
        self.treatment = Treatment(undo.with_name("doctor.json"))
        self.peer = db.connect(scenario.server.dsn)  # fails now rather than later
        with self.peer:
            info = self.peer.info
            given = conninfo_to_dict(scenario.server.dsn)
            parameters = info.get_parameters()
            parameters["options"] = safe.users_options(parameters.get("options", ""))  # the drivers have a search_path of their own
            more = tuple((name, text) for name, text in parameters.items() if name in ENVIRONMENT and name != "password" and text)
            password = info.password or str(given.get("password") or "")
            self.place = Place(info.host, info.port, info.user, info.dbname, password, ssl=self.peer.pgconn.ssl_in_use, more=more)
            self.buffers = int(db.value(self.peer, "SELECT setting::bigint * 8192 FROM pg_settings WHERE name = 'shared_buffers'"))

    def _connect(self) -> db.Connection:
        return db.connect(self.scenario.server.dsn, dbname=self.place.database)

    def prepare(self) -> None:
        if "database" in self.allow and (self.scenario.load.kind != "script" or self.scenario.load.setup):
            name = f"pgflash_pilot_{secrets.token_hex(4)}"
            self._note(database=name)
            with db.connect(self.scenario.server.dsn) as connection:
                db.execute(connection, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
            self.made_database = name
            self.place = replace(self.place, database=name)
            assert self.driver is not None
            self.driver.prepare(self.place, self.scratch)
            with self._connect() as connection:
                db.rows(connection, "VACUUM ANALYZE")
        with self._connect() as connection:
            self.database_bytes = int(db.value(connection, "SELECT pg_database_size(current_database())"))
            if any(variant.cache or variant.arm.enabled for variant in self.scenario.variants) and not self._has_cache(connection):
                raise MachineError(
                    "the server does not have pg_flashcache loaded, or the view pg_stat_flashcache cannot be seen",
                    "install it there: shared_preload_libraries, pg_flashcache.file, a restart, CREATE EXTENSION",
                )

    def _has_cache(self, connection: db.Connection) -> bool:
        if db.value(connection, SIZE) is None:
            return False
        if not db.cache_view(connection) and self.made_database:
            db.rows(connection, "CREATE EXTENSION pg_flashcache SCHEMA public")
        return bool(db.cache_view(connection))

    # --- what has to be put back ---

    def _note(self, database: str = "") -> None:
        """On disk before the server is changed."""
        there = {
            "scenario": self.scenario.name, "settings": self.before, "database": database or self.made_database, "objects": self.moved_back,
        }  # fmt: skip
        fresh = self.undo_path.with_name(self.undo_path.name + ".new")
        with fresh.open("w", encoding="utf-8") as file:
            json.dump(there, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.undo_path)
        folder = os.open(self.undo_path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def undo(self, there: dict[str, Any]) -> None:
        """Takes over what an earlier run noted; close() then does it."""
        self.before = dict(there["settings"])
        self.made_database = str(there["database"])
        # Objects in a database of the study's own go with it.
        self.moved_back = [] if self.made_database else [(kind, name, space) for kind, name, space in there["objects"]]

    # --- settings ---

    def _wanted(self, variant: Variant) -> dict[str, str]:
        """What the variant needs set; nothing where it takes the server as it is."""
        wanted = dict(variant.arm.settings)
        if any(other.cache for other in self.scenario.variants):
            size = variant.cache.of(self.database_bytes) // MB if variant.cache is not None else 0
            wanted["pg_flashcache.size"] = f"{size}MB"
        if variant.arm.enabled:
            wanted[SWITCH] = variant.arm.enabled
        if variant.arm.extra_memory is not None:
            wanted["shared_buffers"] = f"{self.buffers // MB + variant.arm.extra_memory.of(self.database_bytes) // MB}MB"
        return wanted

    def _apply(self, wanted: dict[str, str]) -> None:
        """Sets what is wanted, puts back what an earlier variant had set, and reloads or restarts if that changed anything."""
        with self._connect() as connection:
            changed = self._alter(connection, wanted)
            if not changed:
                return
            if "settings" not in self.allow:
                raise BrokeOff("settings would have to be changed, which server.allow does not name")
            restart = db.value(connection, "SELECT count(*) FROM pg_settings WHERE context = 'postmaster' AND name = ANY(%s)", changed)
            if not restart:
                self._reload(connection)
        if restart:
            self._restart()

    def _reload(self, connection: db.Connection) -> None:
        """Sessions that begin when it is back have the new values."""
        before = db.value(connection, "SELECT pg_conf_load_time()")
        db.rows(connection, "SELECT pg_reload_conf()")
        for _ in range(300):
            with self._connect() as fresh:
                if db.value(fresh, "SELECT pg_conf_load_time()") != before:
                    return
            time.sleep(0.1)
        raise BrokeOff("the server did not read its configuration again within 30 s")

    def _alter(self, connection: db.Connection, wanted: dict[str, str]) -> list[str]:
        """Names of what it had to change."""
        changed: list[str] = []
        for name in {*self.before, *wanted}:
            if name not in self.before:
                self.before[name] = self._in_auto_conf(connection, name)
                self._note()
            now = self._in_auto_conf(connection, name)
            goal = wanted.get(name, self.before[name])
            if now == goal:
                continue
            identifier = sql.SQL(".").join(sql.Identifier(part) for part in name.split("."))
            if goal is None:
                db.execute(connection, sql.SQL("ALTER SYSTEM RESET {}").format(identifier))
            else:
                db.execute(connection, sql.SQL("ALTER SYSTEM SET {} = {}").format(identifier, sql.Literal(goal)))
            changed.append(name)
        return changed

    @staticmethod
    def _in_auto_conf(connection: db.Connection, name: str) -> str | None:
        found = db.value(
            connection, "SELECT setting FROM pg_file_settings WHERE sourcefile LIKE '%%/postgresql.auto.conf' AND name = %s", name
        )
        return str(found) if found is not None else None

    def _restart(self) -> None:
        if "restart" not in self.allow:
            raise BrokeOff("the server would have to be restarted, which server.allow does not name")
        with self._connect() as connection:
            since = db.value(connection, "SELECT pg_postmaster_start_time()")
        command = shlex.split(self.scenario.server.restart_command)
        try:
            status, text = restart.run(command, RESTART_S, environment())
        except OSError as error:
            raise MachineError(f"server.restart_command: {command[0]} cannot be run: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise BrokeOff(f"server.restart_command has not ended within {RESTART_S:g} s") from error
        if status != 0:
            raise failure("server.restart_command", status, text)
        for _ in range(600):
            with contextlib.suppress(BrokeOff, psycopg.Error), self._connect() as connection:
                if db.value(connection, "SELECT pg_postmaster_start_time()") != since:
                    return
            time.sleep(0.2)
        raise BrokeOff("server.restart_command came back, and the server did not start anew within two minutes")

    # --- a variant ---

    def start(self, variant: Variant) -> Started:
        wanted = self._wanted(variant)
        self._untreat()
        if wanted or self.before:
            self._apply(wanted)
        treated = self._treat() if variant.arm.tuning == "doctor" else {}
        if "drop-caches" in self.allow and is_root():
            Path("/proc/sys/vm/drop_caches").write_text("1")
        with self._connect() as connection:
            if variant.cache is not None or variant.arm.enabled == "on":
                self._await_cache(connection, "active")
            elif variant.arm.enabled == "off":
                self._await_cache(connection, "disabled")
            conditions = self._conditions(connection, variant) | treated
        return Started(self.place, conditions)

    def _treat(self) -> dict[str, Any]:
        """What the doctor would change, as far as server.allow goes."""

        def forbidden(change: Change) -> str:
            return "server.allow does not name machine" if isinstance(change, Write) and "machine" not in self.allow else ""

        self._note()
        treated = self.treatment.make(self.scenario.server.dsn, forbidden)
        with self._connect() as connection:
            self._reload(connection)
        return {"doctor": {"made": treated.made, "left": treated.left}}

    def _untreat(self) -> None:
        if remain := self.treatment.put_back(self.scenario.server.dsn):
            raise BrokeOff("what the doctor changed could not all be put back:\n" + "\n".join(remain))

    def _await_cache(self, connection: db.Connection, state: str) -> None:
        """The writer learns of a reload when it next comes by; until then the other state is to be seen."""
        row: dict[str, Any] = {}
        for _ in range(600):
            row = db.cache_row(connection)
            if row.get("state") == state:
                return
            if row.get("state") not in ("starting", "active", "disabled"):
                break
            time.sleep(0.1)
        raise BrokeOff(f"the cache is not {state}: {row.get('state')}, {row.get('reason')}")

    def _conditions(self, connection: db.Connection, variant: Variant) -> dict[str, Any]:
        version = str(db.value(connection, "SHOW server_version")).split()[0]
        buffers = int(db.value(connection, "SELECT setting::bigint * 8192 FROM pg_settings WHERE name = 'shared_buffers'"))
        row = db.cache_row(connection)
        return {
            "server": f"PostgreSQL {version}, an existing cluster",
            "database_mb": self.database_bytes // MB,
            "shared_buffers_mb": buffers // MB,
            "memory_limit": "none: the server as it is",
            "flash_mb": int(row.get("slots") or 0) * 8192 // MB if row.get("state") == "active" else 0,
            "data_on": "disk",
            "moved": variant.arm.moved,
            "disk": "the server's own",
            "cache_on_disk": self._shared(connection),
            "flash": "the server's own",
        }

    def rank(self, variant: Variant, started: Started) -> Started:
        with self._connect() as connection:
            before = {item["name"]: item["reads"] for item in db.hottest_objects(connection, 1_000_000)}
        if variant.arm.moved == "hottest":
            assert self.driver is not None
            self.driver.run(self.place, max(self.scenario.load.clients), RANKING_S, self.scratch, measured=False)
        with self._connect() as connection:
            time.sleep(1)  # a session's counts arrive up to a second after it has ended
            if variant.arm.moved == "hottest":
                ranked = db.hottest_objects(connection, 1_000_000)
                for item in ranked:
                    item["reads"] -= before.get(item["name"], 0)
                objects = sorted((item for item in ranked if item["reads"] > 0), key=lambda item: -item["reads"])[: variant.arm.hottest]
            else:
                objects = db.user_indexes(connection)
            moved = 0
            for item in objects:
                self.moved_back.append((item["kind"], item["name"], db.tablespace_of(connection, item["name"])))
                self._note()
                db.move(connection, item["kind"], item["name"], self.scenario.server.tablespace)
                moved += int(db.value(connection, "SELECT pg_relation_size(%s::regclass)", item["name"]))
        started.conditions["moved_objects"] = [f"{item['kind'].lower()} {item['name']}" for item in objects]
        started.conditions["moved_mb"] = moved // MB
        return started

    def slow(self) -> None:
        """Real storage has one speed."""

    def warm_speed(self) -> None:
        """Real storage has one speed."""

    def devices(self) -> dict[str, list[Device]]:
        """That of the data directory, where the server runs on this machine and says where it is, and the cache is elsewhere: else reads
        from flash would be counted as reads from the disk."""
        with contextlib.suppress(PgflashError, OSError), self._connect() as connection:
            if self._shared(connection) is False:
                device = device_of(Path(str(db.value(connection, "SHOW data_directory"))))
                return {"disk": [device]} if device is not None else {}
        return {}

    def _local(self) -> bool:
        return self.place.host.startswith("/") or self.place.host in ("localhost", "127.0.0.1", "::1")

    def _shared(self, connection: db.Connection) -> bool | None:
        """Is a device of the cache in the file system of the data? None: not known. Another machine's paths say nothing of this one's
        file systems, and a role without pg_read_all_settings, or that may not read the view, is not told them."""
        data = db.value(connection, "SELECT setting FROM pg_settings WHERE name = 'data_directory'")
        if not self._local() or not data:
            return None
        paths = [str(db.value(connection, "SELECT setting FROM pg_settings WHERE name = 'pg_flashcache.file'") or "")]
        try:
            if view := db.cache_view(connection, "pg_stat_flashcache_device"):
                paths += [str(path) for (path,) in db.rows(connection, f"SELECT path FROM {view}")]
        except (Refused, MachineError):
            return None
        return any(on_one_device(Path(data), Path(data) / path) for path in paths if path)

    def memory_peak_mb(self) -> int | None:
        return None

    def fail_over(self, variant: Variant, load: Callable[[int], LoadResult]) -> None:
        return None

    # --- the end ---

    def stop(self) -> None:
        if not self.moved_back:
            return
        with self._connect() as connection:
            while self.moved_back:
                kind, name, tablespace = self.moved_back[-1]
                db.move(connection, kind, name, tablespace)
                self.moved_back.pop()

    def close(self) -> None:
        """Everything as it was found. A step that fails is reported, and does not keep the others from being done."""
        faults = []
        for step in (self.stop, self._untreat, self._put_settings_back, self._drop_database):
            try:
                step()
            except psycopg.Error as error:
                faults.append(said(error))
            except (PgflashError, OSError) as error:
                faults.append(str(error))
        if not faults:
            self.undo_path.unlink(missing_ok=True)
        else:
            raise BrokeOff("the server could not be put back as it was:\n" + "\n".join(faults), self._by_hand())

    def _put_settings_back(self) -> None:
        if self.before:
            self._apply({})
            self.before.clear()

    def _drop_database(self) -> None:
        name, self.made_database = self.made_database, ""
        if name:
            with db.connect(self.scenario.server.dsn) as connection:
                db.execute(connection, sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _by_hand(self) -> str:
        steps = [f"ALTER {kind} {name} SET TABLESPACE {space or 'pg_default'}" for kind, name, space in self.moved_back]
        steps += [self._set_by_hand(name, text) for name, text in self.before.items()]
        steps += [f"DROP DATABASE {self.made_database}"] if self.made_database else []
        state = self.treatment.undo.path
        steps += [f"pgflash doctor CONNINFO --undo --state {state}, and remove that file"] if state.exists() else []
        return "by hand: " + "; ".join(steps) if steps else ""

    def _set_by_hand(self, name: str, text: str | None) -> str:
        """A value with a password is not shown, and what is shown in its place is no value."""
        if text is None:
            return f"ALTER SYSTEM RESET {name}"
        if without_secrets(name, text) != text:
            return f"ALTER SYSTEM SET {name} to what {self.undo_path} has for it, which may hold a password"
        return f"ALTER SYSTEM SET {name} = {literal(text)}"
