"""A throw-away server: starting, stopping and killing it, and reading its log.

DIR/data is the data directory, DIR/log the server's log, DIR/flash the cache file. It listens on a socket in DIR alone.
Only processes of this server are ever signalled: children of its postmaster, found by their parent.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable

import pq

PORT = 5432  # the name of the socket, nothing more
DEVICES_FILE = "pg_flashcache.devices"  # the list, in the data directory: of another server's devices in a copy
PATIENCE_S = 120.0  # a bound against waiting for ever, not a measurement

FAILPOINT_SQL = (
    "CREATE OR REPLACE FUNCTION fc_failpoint(name text, action text) RETURNS void"
    " AS '$libdir/pg_flashcache', 'fc_failpoint_set' LANGUAGE C STRICT"
)

# Devices beyond the first one are opened when the cache is active; their pages are not on flash before that.
SETTLED_SQL = (
    "SELECT state NOT IN ('starting', 'active') OR state = 'active' AND"
    " NOT EXISTS (SELECT FROM pg_stat_flashcache_device WHERE state = 'starting') FROM pg_stat_flashcache"
)
# Counters that must be 0.
TROUBLE = ("verify_failures", "checksum_failures", "read_errors", "write_errors", "slots_retired")
# What no log may hold, whatever was done to the server.
NEVER = re.compile(
    r"PANIC:|TRAP:|AddressSanitizer|differs between flash and disk|could not read block|unexpected data beyond EOF"
    r"|stuck spinlock|could not access status of transaction|out of memory"
)
# Unless a page was damaged on purpose, or the device was.
NEVER_WITHOUT_FAULTS = re.compile(
    r"invalid page|WARNING:(?!  pg_flashcache uses a file on the same).*flash|pg_flashcache is off|page verification failed"
)
DIED = re.compile(r"\(PID (\d+)\) was terminated by signal")
# Recovery's last words, at the first start. PostgreSQL's own (docs/reliability.md): an unlogged table was made and rolled
# back just before the crash; its file stayed, which goes with the next checkpoint, and the record of the rollback was not
# flushed. The next start succeeds: recovery has made the table's init fork by then, and removes the file because of it.
IN_THE_WAY = re.compile(r'FATAL:  could not create file "([^"]+)": File exists')


class Failure(Exception):
    """The torture has found something."""


def wait_until(what: str, condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(f"waited {patience_s:.0f} s in vain: {what}")
        time.sleep(0.02)


def process_state(pid: int) -> tuple[str, int] | None:
    """State and parent of a process, or None."""
    try:
        line = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = line.rpartition(")")[2].split()
    return fields[0], int(fields[1])


def lsn(text: str) -> int:
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


def is_dead(pid: int) -> bool:
    # A zombie is dead: it waits for nothing but its parent.
    state = process_state(pid)
    return state is None or state[0] in "ZX"


def children_of(parent: int) -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            state = process_state(int(entry))
            if state is not None and state[1] == parent and state[0] not in "ZX":
                found.append(int(entry))
    return found


def title(pid: int) -> str:
    """What ps shows: `postgres: checkpointer` and the like."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0 ").decode(errors="replace")
    except OSError:
        return ""


class Server:
    kills = 0  # of all servers: so often processes were killed

    def __init__(self, directory: pathlib.Path) -> None:
        self.dir = directory
        self.data = directory / "data"
        self.log = directory / "log"
        self.killed: set[int] = set()  # processes that we have killed
        self.in_the_way: list[str] = []  # files for which it had to be started twice
        self.conf: dict[str, str] = {}  # settings drawn for it, the last ones
        self.good_for = 0  # the checkpoint for which the log on flash is known to be complete (src/warm.md)
        self.due = 0  # the same, where the last start began at it, and hence must load the log
        self._log_seen = 0

    # ---- making it ----

    def initdb(self, checksums: bool, conf: Iterable[str]) -> None:
        self.dir.mkdir(parents=True, exist_ok=True)
        major = int(re.split(r"\D", run(["postgres", "--version"]).split()[2])[0])
        off = ["--no-data-checksums"] if major >= 18 else []
        run(
            ["initdb", "-D", str(self.data), "--no-locale", "--encoding=UTF8", "--auth=trust", "--username=postgres"]
            + ["--no-sync", "--no-instructions"]
            + (["--data-checksums"] if checksums else off)
        )
        self.configure(conf)

    def configure(self, conf: Iterable[str]) -> None:
        """Appends to postgresql.conf; the last line of a setting wins."""
        with open(self.data / "postgresql.conf", "a") as f:
            f.writelines(line + "\n" for line in conf)

    def own_place(self) -> list[str]:
        return [
            f"port = {PORT}",
            "listen_addresses = ''",
            f"unix_socket_directories = '{self.dir}'",
            f"pg_flashcache.file = '{self.dir}/flash'",
        ]

    def standby(self, directory: pathlib.Path) -> Server:
        """A streaming standby of this one with a cache of its own, not yet started."""
        other = Server(directory)
        directory.mkdir(parents=True)
        run(
            ["pg_basebackup", "--no-sync", "--checkpoint=fast", "--wal-method=stream", "--write-recovery-conf"]
            + [f"--dbname={self.address()}", f"--pgdata={other.data}"]
        )
        (other.data / DEVICES_FILE).unlink(missing_ok=True)
        other.configure(other.own_place())
        other.conf = dict(self.conf)
        return other

    def rewind(self, source: Server) -> None:
        """This one, killed, becomes a standby of another one with which it shares a part of its history; not yet started.

        That one runs, or was stopped cleanly.
        """
        kept = (self.data / "postgresql.conf").read_text()
        running = source.postmaster() is not None
        place = f"--source-server={source.address()} dbname=postgres" if running else f"--source-pgdata={source.data}"
        command = ["pg_rewind", "--no-sync", f"--target-pgdata={self.data}", place]
        try:
            run(command)
        except Failure as failure:  # it recovers the server first
            found = IN_THE_WAY.search(str(failure))
            if found is None:
                raise
            self.in_the_way.append(found.group(1))
            run(command)
        (self.data / "postgresql.conf").write_text(kept)
        (self.data / "postgresql.auto.conf").write_text(f"primary_conninfo = '{source.address()}'\n")
        (self.data / "standby.signal").touch()
        (self.data / DEVICES_FILE).unlink(missing_ok=True)
        self.good_for = 0

    def address(self) -> str:
        return f"host={self.dir} port={PORT} user=postgres"

    def remove(self) -> None:
        shutil.rmtree(self.dir)

    # ---- running it ----

    def connect(self, database: str = "postgres", name: str = "torture", options: str = "") -> pq.Connection:
        return pq.Connection(f"{self.address()} dbname={database} application_name={name} connect_timeout=60 options='{options}'")

    def postmaster(self) -> int | None:
        try:
            return int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
        except (OSError, ValueError):
            return None

    def checkpoint(self) -> int:
        """The last one, by pg_control."""
        found = re.search(r"Latest checkpoint location: +(\S+)", run(["pg_controldata", str(self.data)]))
        assert found is not None
        return lsn(found.group(1))

    def start(self, arm: str = "", wait: bool = True) -> None:
        """`arm`: a point and its action, armed from the start (src/failpoint.h)."""
        self.due = self.good_for if self.good_for == self.checkpoint() else 0
        self.good_for = 0
        command = ["pg_ctl", "--wait" if wait else "--no-wait", "--silent", f"--timeout={PATIENCE_S:.0f}"]
        command += [f"--pgdata={self.data}", f"--log={self.log}", "start"]
        env = {**os.environ, "FC_ARM": arm} if arm else None
        logged = self.log.stat().st_size if self.log.exists() else 0
        try:
            run(command, env=env)
        except Failure:
            found = IN_THE_WAY.search(self.log_since(logged))
            if found is None:
                raise
            self.in_the_way.append(found.group(1))
            run(command, env=env)
        if not wait:
            wait_until("the postmaster is there", lambda: self.postmaster() is not None)

    def stop(self, mode: str) -> None:
        run(["pg_ctl", "--wait", "--silent", f"--timeout={PATIENCE_S:.0f}", f"--pgdata={self.data}", f"--mode={mode}", "stop"])

    def accepts(self) -> bool:
        try:
            self.connect().close()
        except pq.Lost:
            return False
        return True

    def wait_ready(self) -> None:
        """Until it takes connections, and the cache has made up its mind."""

        def accepts() -> bool:
            if self.postmaster() is None:  # it has given up, in the recovery from the crash of a child
                self.start()
            return self.accepts()

        wait_until("the server takes connections again", accepts)

        def settled() -> bool:
            try:
                with self.connect() as conn:
                    return conn.one(SETTLED_SQL) == "t"
            except pq.Lost:
                return False

        wait_until("the cache has started", settled)

    # ---- killing it ----

    def find(self, kind: str) -> list[int]:
        """Processes of the server whose title says so."""
        parent = self.postmaster()
        return [] if parent is None else [pid for pid in children_of(parent) if kind in title(pid)]

    def kill_child(self, pid: int) -> bool:
        """False if it has ended before."""
        parent = self.postmaster()
        state = process_state(pid)
        if parent is None or state is None or state[1] != parent:
            return False
        self.killed.add(pid)
        Server.kills += 1
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        wait_until(f"process {pid} is dead", lambda: is_dead(pid))
        return True

    def kill_all(self) -> None:
        """The postmaster and its children, all at once, without a chance to write anything."""
        postmaster = self.postmaster()
        if postmaster is None or is_dead(postmaster):
            return
        # It must not start another one while we count them.
        os.kill(postmaster, signal.SIGSTOP)
        wait_until("the postmaster has stopped", lambda: (process_state(postmaster) or ("Z", 0))[0] in "TZX")
        self._kill_these(children_of(postmaster) + [postmaster])

    def kill_postmaster(self) -> None:
        """The postmaster alone; its children see that and leave, or are killed after a while."""
        postmaster = self.postmaster()
        if postmaster is None or is_dead(postmaster):
            return
        children = children_of(postmaster)
        os.kill(postmaster, signal.SIGKILL)
        wait_until("the postmaster is dead", lambda: is_dead(postmaster))
        with contextlib.suppress(Failure):
            wait_until("the children have left", lambda: all(is_dead(pid) for pid in children), 5.0)
        self._kill_these(children + [postmaster])

    def _kill_these(self, pids: list[int]) -> None:
        Server.kills += 1
        for pid in pids:
            self.killed.add(pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until("killed processes are dead", lambda: all(is_dead(pid) for pid in pids))
        # A dead process keeps its number until its parent has asked for it; the next postmaster would take it for a
        # running one.
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        (self.dir / f".s.PGSQL.{PORT}.lock").unlink(missing_ok=True)

    def remove_unfinished_tablespaces(self) -> None:
        """Of those in place, once the server is stopped: pg_checksums wants the version's folder in each.

        CREATE TABLESPACE makes it after the one around it, and DROP TABLESPACE removes it before that one (tablespace.c): a
        server killed in between leaves one that is empty.
        """
        for folder in (self.data / "pg_tblspc").iterdir():
            if not any(folder.iterdir()):
                folder.rmdir()

    def clean_up(self) -> None:
        with contextlib.suppress(Exception):
            self.kill_all()

    # ---- its log ----

    def new_log(self) -> str:
        """What has been logged since the last call."""
        try:
            with open(self.log, "rb") as f:
                f.seek(self._log_seen)
                text = f.read()
        except OSError:
            return ""
        # whole lines only
        text = text[: text.rfind(b"\n") + 1]
        self._log_seen += len(text)
        return text.decode(errors="replace")

    def log_since(self, offset: int) -> str:
        with open(self.log, "rb") as f:
            f.seek(offset)
            return f.read().decode(errors="replace")

    def log_complaints(self, text: str, faults: bool) -> list[str]:
        """Lines that must not be there. `faults`: the device was damaged on purpose."""
        bad = []
        for line in text.splitlines():
            if NEVER.search(line) or (not faults and NEVER_WITHOUT_FAULTS.search(line)):
                bad.append(line)
                continue
            died = DIED.search(line)
            if died and int(died.group(1)) not in self.killed:
                bad.append(line)
        return bad


def run(command: list[str], env: dict[str, str] | None = None) -> str:
    """Output of a program; Failure if it fails."""
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout
