"""What becomes of the cache's devices beyond the first one while the others work: they come, go, change their size, and fail.

Its shadow is the list of the devices, their sizes and whether they are in use, for each server. What was acknowledged must
be in the server's list, also after a kill; what was in progress, or refused, is done or not, and nothing in between.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import random
import signal
import threading
from typing import TYPE_CHECKING

import pq
from cluster import Failure, Server, children_of, wait_until
from sessions import DEVICE_FAULTS, IN_USE, NOT_NOW, Session

if TYPE_CHECKING:
    from torture import Torture

PAGE = 8192
MAX_SIZE_MB = 96  # pg_flashcache.max_size; a chunk has 1 MB
FIRST_MB = 64  # what the first device has at the most
LEAST = 64  # pages of a device
NAMES = ("second", "third", "fourth")
# With the cache all its devices are disabled; the list has those that were disabled by themselves.
LIST_SQL = (
    "SELECT d.path, d.size / 8192, d.state, d.device, coalesce(d.reason, ''), d.state = 'disabled' AND d.reason IS DISTINCT FROM c.cause"
    " FROM pg_stat_flashcache_device d, (SELECT CASE state WHEN 'disabled' THEN reason END AS cause FROM pg_stat_flashcache) c"
    " WHERE d.device > 1"
)
# Faults of one device alone, whose number is the third argument.
FAULTS = [*(fault for fault in DEVICE_FAULTS if fault[0] != "store_open"), ("store_sync", "error")]
FAULT_SQL = (
    "CREATE OR REPLACE FUNCTION fc_failpoint_of(name text, action text, device oid) RETURNS void"
    " AS '$libdir/pg_flashcache', 'fc_failpoint_set' LANGUAGE C STRICT"
)


@dataclasses.dataclass(frozen=True)
class Device:
    pages: int
    in_use: bool = True

    @property
    def chunks(self) -> int:
        return -(-self.pages * PAGE // (1 << 20))


Known = dict[str, Device]


class Devices(Session):
    OPERATIONS = {"add": 6, "remove": 3, "resize": 6, "switch": 4, "look": 3, "fault": 6, "lose": 1, "kill_process": 1}
    # The cache is off, or disabled; there is no room; a writer has ended within the change.
    ALLOWED = (NOT_NOW, IN_USE)
    ends = 0  # before a clean stop: a change would be cut off
    database = "postgres"
    pause_ms = 120

    def __init__(self, name: str, torture: Torture, logs: pathlib.Path) -> None:
        super().__init__(name, torture, logs)
        self.lists: dict[str, Known] = {}
        self.doubt: tuple[str, Device | None] | None = None

    # ---- the shadow ----

    @property
    def known(self) -> Known:
        return self.lists.setdefault(str(self.torture.server.dir), {})

    def forget(self, server: Server) -> None:
        self.lists.pop(str(server.dir), None)

    def after(self, path: str, device: Device | None) -> Known:
        rest = {name: there for name, there in self.known.items() if name != path}
        return rest if device is None else rest | {path: device}

    def change(self, path: str, device: Device | None, sql: str) -> None:
        self.doubt = (path, device)
        self.run(f"SELECT {sql}")
        self.lists[str(self.torture.server.dir)] = self.after(path, device)
        self.doubt = None
        self.journal.note(devices=len(self.known))

    def look(self) -> dict[str, pq.Row]:
        """The list is the one that we know, or, where there is a doubt, the one that would be; that is then known."""
        rows = {row[0] or "": row for row in self.run(LIST_SQL)}
        found = {path: Device(int(row[1] or 0), row[5] == "f") for path, row in rows.items()}
        right = [self.known] + ([] if self.doubt is None else [self.after(*self.doubt)])
        if found not in right:
            raise Failure(f"the server has the devices {found}, and should have {' or '.join(str(known) for known in right)}")
        self.lists[str(self.torture.server.dir)] = found
        self.doubt = None
        return rows

    def refused(self) -> None:
        threading.Event().wait(0.1)  # until the cache is active again, perhaps
        if self.doubt is not None:
            try:
                self.look()
            except Failure as failure:
                self.failure = f"{self.last}: {failure}"

    def settle(self) -> None:
        self.ready()
        self.look()

    # ---- changes ----

    def left_out(self) -> set[str]:
        return set() if self.torture.faults else {"fault", "lose", "kill_process"}

    def path(self, name: str) -> str:
        return str(self.torture.server.dir / name)

    def draw_size(self, rng: random.Random, path: str) -> int:
        """Any that fits beside a first device of any size; or, to be refused, one that does not."""
        if rng.random() < 0.05:
            return 2 * MAX_SIZE_MB << 7
        others = sum(device.chunks for name, device in self.known.items() if name != path)
        return rng.choice((rng.randrange(LEAST, 512), rng.randrange(LEAST, max(LEAST + 1, (MAX_SIZE_MB - FIRST_MB - 1 - others) << 7))))

    def one(self, rng: random.Random) -> str | None:
        return rng.choice(sorted(self.known)) if self.known else None

    def op_add(self, rng: random.Random) -> None:
        path = self.path(rng.choice(NAMES))
        if path in self.known:
            return self.op_resize(rng)
        pages = self.draw_size(rng, path)
        self.change(path, Device(pages), f"pg_flashcache_add_device('{path}', {pages * PAGE + rng.randrange(PAGE)})")
        return None

    def op_remove(self, rng: random.Random) -> None:
        path = self.one(rng)
        if path is not None:
            self.change(path, None, f"pg_flashcache_remove_device('{path}')")

    def op_resize(self, rng: random.Random) -> None:
        path = self.one(rng)
        if path is not None and self.known[path].in_use:
            pages = self.draw_size(rng, path)
            device = Device(pages, self.known[path].in_use)
            self.change(path, device, f"pg_flashcache_resize_device('{path}', {pages * PAGE})")

    def op_switch(self, rng: random.Random) -> None:
        path = self.one(rng)
        if path is not None:
            device = dataclasses.replace(self.known[path], in_use=not self.known[path].in_use)
            self.change(path, device, f"pg_flashcache_{'enable' if device.in_use else 'disable'}_device('{path}')")

    def op_look(self, rng: random.Random) -> None:
        self.look()

    # ---- faults ----

    def ready(self) -> None:
        if self.conn is None:
            super().ready()
            assert self.conn is not None
            self.conn.run(FAULT_SQL)
            self.conn.prepare("fault", "SELECT fc_failpoint_of($1::text, $2::text, $3::oid)")
            self.conn.run_prepared("fault", "store_sync", "off", "0")

    def op_fault(self, rng: random.Random) -> None:
        """Of one device, which takes none of the others along, and is tried again."""
        path = self.one(rng)
        if path is None:
            return
        assert self.conn is not None
        number = self.look()[path][3] or "0"
        point, action = rng.choice(FAULTS)
        self.journal.note(point=point, action=action, device=number)
        self.conn.run_prepared("fault", point, action, number)
        threading.Event().wait(rng.randrange(1, 300) / 1000)
        self.conn.run_prepared("fault", point, "off", number)
        if self.known[path].in_use:
            self.run(f"SELECT pg_flashcache_enable_device('{path}')")

    def op_lose(self, rng: random.Random) -> None:
        """The file goes, becomes shorter, is another one, or has something else in it."""
        path = self.one(rng)
        if path is None or not os.path.exists(path):
            return
        how = rng.choice(("gone", "shorter", "another", "spoiled"))
        at = rng.randrange(os.path.getsize(path) or 1)
        self.journal.note(file=path, how=how, at=at)
        match how:
            case "gone":
                os.unlink(path)
            case "shorter":
                os.truncate(path, at)
            case "another":
                os.rename(path, path + ".away")
                pathlib.Path(path).touch(mode=0o600)
            case _:
                with open(path, "r+b") as file:
                    file.seek(at)
                    file.write(rng.randbytes(4 * PAGE))
        threading.Event().wait(rng.randrange(300) / 1000)
        if rng.random() < 0.5:
            self.change(path, None, f"pg_flashcache_remove_device('{path}')")

    def op_kill_process(self, rng: random.Random) -> None:
        """One of the processes that have the devices, the first one's as well."""
        for writer in self.torture.server.find("pg_flashcache writer"):
            processes = sorted(children_of(writer))
            if processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rng.choice(processes), signal.SIGKILL)

    # ---- after a recovery ----

    def check(self, rng: random.Random, crashed: bool) -> None:
        """The list is right, and each device in use becomes active; or, after a fault, can be removed.

        After faults those that are not in use go, too: they could not be erased with the others (Torture.forget_faults).
        """
        self.ready()
        self.look()
        for path, device in sorted(self.known.items()):
            if device.in_use:
                self.mend(path)
            elif self.torture.faults:
                self.change(path, None, f"pg_flashcache_remove_device('{path}')")
        self.clear()

    def clear(self) -> None:
        """What was spoiled is somebody else's to the cache, which refuses it for good: others may be added in its place."""
        for path in map(self.path, NAMES):
            if path not in self.known:
                pathlib.Path(path).unlink(missing_ok=True)

    def state(self, path: str) -> tuple[str, str]:
        row = self.look()[path]
        return row[2] or "", row[4] or ""

    def mend(self, path: str) -> None:
        faults = self.torture.faults

        def active() -> bool:
            if faults and self.state(path)[0] == "off":
                with contextlib.suppress(pq.SqlError):
                    self.run(f"SELECT pg_flashcache_enable_device('{path}')")
            return self.state(path)[0] == "active"

        try:
            wait_until(f"the device {path} is active", active, 2.0 if faults else 60.0)
        except Failure as failure:
            if not faults:
                raise Failure(f"{failure}: {self.state(path)}") from failure
            self.change(path, None, f"pg_flashcache_remove_device('{path}')")

    # ---- of other servers ----

    def give(self, server: Server, rng: random.Random) -> None:
        """A device of its own, to a standby."""
        path, device = str(server.dir / NAMES[0]), Device(rng.randrange(LEAST, 1024))
        with server.connect() as conn:
            conn.run(f"SELECT pg_flashcache_add_device('{path}', {device.pages * PAGE})")
        self.lists[str(server.dir)] = {path: device}

    def prepare_proof(self) -> None:
        """Two that are in use, and have room for everything."""
        self.ready()
        for path in sorted(self.known):
            self.change(path, None, f"pg_flashcache_remove_device('{path}')")
        self.clear()
        for name in NAMES[:2]:
            path, device = self.path(name), Device(30 << 7)
            self.change(path, device, f"pg_flashcache_add_device('{path}', {device.pages * PAGE})")
        self.disconnect()
