"""Changes settings on all nodes, one after the other: replicas first, the leader last, or by a switch-over.

What is done stands in the nodes themselves: a setting in postgresql.auto.conf, a restart in when the server started. So the same
command goes on where it was stopped, and does nothing where all is done. It stops at the first node that does not come back.
"""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from pgflash import safe
from pgflash.cluster.find import Node
from pgflash.cluster.gather import Look, look_at
from pgflash.cluster.lock import OneAtATime
from pgflash.cluster.patroni import Patroni
from pgflash.cluster.quorum import refusal
from pgflash.cluster.restart import run
from pgflash.cluster.values import same
from pgflash.cluster.wanted import Wanted
from pgflash.cluster.write import PutBack, said, write
from pgflash.connection import Connection, connect, reason, without_secrets
from pgflash.errors import ArgumentError, BrokeOff, MachineError, PgflashError, Refused, ServerError
from pgflash.shown import visible
from pgflash.units import show_seconds

POLL_S = 0.5
SETTLE_S = 60.0
Tell = Callable[[dict[str, Any]], None]
# What is written, and what is in effect. A value that cannot be applied waits for a restart, whether or not the files have been read
# since: for settings of the context postmaster. ALTER SYSTEM makes the file anew: `unread` is that it was made after it was read last;
# None: this role is not told.
_WRITTEN = """
SELECT s.name, s.context, s.setting, s.unit, s.source, s.pending_restart OR (s.context = 'postmaster' AND EXISTS (
          SELECT FROM pg_file_settings f WHERE f.name = s.name AND f.error = 'setting could not be applied')) AS pending_restart,
       (SELECT f.setting FROM pg_file_settings f WHERE f.name = s.name AND f.sourcefile LIKE '%%/postgresql.auto.conf'
         ORDER BY f.seqno DESC LIMIT 1) AS written,
       s.sourcefile LIKE '%%/postgresql.auto.conf' AS from_written,
       CASE WHEN has_function_privilege('pg_stat_file(text)', 'EXECUTE')
            THEN (pg_stat_file('postgresql.auto.conf')).modification > pg_conf_load_time() END AS unread,
       (SELECT count(*) FROM pg_file_settings f WHERE f.name = s.name AND f.error IS NOT NULL
          AND f.error <> 'setting could not be applied')::int AS faults
  FROM pg_settings s WHERE s.name = ANY (%s)
"""
NEW = "for new settings"
ENABLED, SIZE = "pg_flashcache.enabled", "pg_flashcache.size"
HINT = "the same command goes on from there"


@dataclass(frozen=True)
class Step:
    """What is to be done on a node; nothing: it is as wanted."""

    node: Node
    leader: bool
    settings: Mapping[str, str | None]  # that are written otherwise
    was: Mapping[str, str | None]
    restart: str  # why; empty: no restart
    reload: bool = False  # something is written as wanted, and not in effect

    @property
    def done(self) -> bool:
        return not self.settings and not self.restart and not self.reload

    def as_json(self) -> dict[str, Any]:
        return {
            "node": self.node.name, "leader": self.leader, "restart": self.restart or None,
            "reload": self.reload,
            "settings": {name: {"from": _shown(name, self.was.get(name)), "to": _shown(name, value)} for name, value in self.settings.items()},
        }  # fmt: skip


class Rolling:
    def __init__(self, nodes: Sequence[Node], patroni: Patroni | None, wanted: Wanted, timeout_s: float, tell: Tell) -> None:
        self.nodes = list(nodes)
        self.patroni = patroni
        self.wanted = wanted
        self.timeout_s = timeout_s
        self.tell = tell
        self._touched = False
        self._done: list[str] = []  # what has been changed
        self._begun = ""  # what may have been
        self._lock = OneAtATime(timeout_s)

    # --- looking ---

    def looks(self) -> list[Look]:
        """With what Patroni says now."""
        if self.patroni is not None:
            members = {member.name: member for member in self.patroni.members()}
            self.nodes = [Node(node.name, node.parts, node.found_by, members.get(node.name, node.patroni)) for node in self.nodes]
        return look_at(self.nodes, self.timeout_s, whole=True)

    def config(self) -> dict[str, Any]:
        return self.patroni.config() if self.patroni is not None else {}

    def plan(self) -> list[Step]:
        """Replicas in the order of their names, synchronous ones last of them, then the leader. Everything must be up."""
        looks = self.looks()
        unknown = (set(self.wanted.nodes) | set(self.wanted.commands)) - {item.node.name for item in looks}
        if unknown:
            raise ArgumentError(f"there is no node {min(unknown)!r}", f"nodes: {', '.join(item.node.name for item in looks)}")
        for item in looks:
            if item.seen is None:
                raise ServerError(f"{item.node.name} is down: {item.problem}", "nothing is changed while a node is down")
        leaders = [item for item in looks if item.seen and not item.seen.standby]
        if len(leaders) != 1:
            names = ", ".join(item.node.name for item in leaders) or "none"
            raise ServerError(f"one primary is needed, there is: {names}", "name the nodes of one cluster: shards are changed one by one")
        self.nodes = [item.node for item in looks]  # what was found twice is one node from here on
        self._databases(leaders[0].node)
        sync = {row.name for row in leaders[0].seen.replicas if row.sync_state in ("sync", "quorum")} if leaders[0].seen else set()
        order = sorted(looks, key=lambda item: (item is leaders[0], item.node.name in sync, item.node.name))
        steps = [self._step(item, item is leaders[0]) for item in order]
        if self.wanted.leader == "skip":
            steps = [step for step in steps if not step.leader]
        if self.patroni is None:
            if self.wanted.leader == "switchover" and any(step.leader and step.restart for step in steps):
                raise ArgumentError("a switch-over needs Patroni", '--patroni, or leader = "last" in the file')
            lacking = [step.node.name for step in steps if step.restart and step.node.name not in self.wanted.commands]
            if lacking:
                raise ArgumentError(
                    f"{lacking[0]} has to be restarted, and it is not known how",
                    f'in the file: [restart], {lacking[0]} = "ssh ... systemctl restart postgresql@15-main"; or --patroni',
                )
        return steps

    def _step(self, item: Look, leader: bool) -> Step:
        assert item.seen is not None
        wanted = self.wanted.of(item.node.name)
        rows = self._rows(item.node, {*wanted, SIZE})
        if wanted and SIZE not in rows:
            raise Refused(f"{item.node.name}: there is no setting {SIZE}", "is pg_flashcache in shared_preload_libraries there?")
        absent = sorted(set(wanted) - set(rows))
        if absent:
            raise ArgumentError(f"{item.node.name}: there is no setting {absent[0]}", "is the name right, and has that version it?")
        rows = {name: rows[name] for name in wanted}
        fixed = [name for name, row in rows.items() if row["source"] == "command line"]
        if fixed:
            raise Refused(f"{item.node.name}: {fixed[0]} is on the server's command line, which ALTER SYSTEM does not overrule")
        other = {name: value for name, value in wanted.items() if rows[name]["written"] != value}
        secret = [name for name, value in other.items() if _shown(name, value) != value]
        if secret and item.node.untrusted:
            raise Refused(
                f"{item.node.name}: {secret[0]} has a password, and only pg_stat_replication says that this is a standby", "name it"
            )
        taken_out = [
            name for name, value in wanted.items() if value is None and rows[name]["written"] is None and rows[name]["from_written"]
        ]
        unread = taken_out + [
            name for name, value in wanted.items()
            if value is not None and name not in other and not same(rows[name], value) and rows[name]["unread"] is not False
        ]  # fmt: skip
        restart = ""
        if any(rows[name]["context"] == "postmaster" and not same(rows[name], value) for name, value in other.items()):
            restart = NEW
        elif any(row["pending_restart"] or (name in taken_out and row["context"] == "postmaster") for name, row in rows.items()):
            restart = "for settings that wait for it"
        if self.wanted.restart_before and item.seen.started < self.wanted.restart_before:
            restart = f"running since {item.seen.started:%Y-%m-%d %H:%M:%S}" if restart in ("", NEW) else restart
        return Step(item.node, leader, other, {name: rows[name]["written"] for name in other}, restart, bool(unread))

    def _rows(self, node: Node, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        with self._connected(node) as connection:
            try:
                return {row["name"]: row for row in connection.execute(_WRITTEN, (list(names),)).fetchall()}
            except psycopg.Error as error:
                if error.sqlstate == "42501":
                    raise Refused(f"{node.name}: permission denied: its settings take a superuser") from None
                raise ServerError(f"{node.name}: {reason(error)}") from None

    def _connected(self, node: Node, parts: Mapping[str, str] | None = None) -> Connection:
        try:
            return connect({**node.parts, **(parts or {})}, self.timeout_s)
        except (psycopg.Error, PgflashError) as error:
            raise ServerError(f"{node.name}: {reason(error)}") from None

    # --- changing ---

    def run(self) -> int:
        """How many nodes and extensions were changed. Whatever ends it after a change says what is changed, and is BrokeOff."""
        try:
            self._hold(self.looks())
            return self._run()
        except psycopg.Error as error:
            raise self._stopped(ServerError(reason(error))) from None
        except PgflashError as error:
            raise self._stopped(error) from None
        except OSError as error:
            raise self._stopped(MachineError(f"what is done cannot be written: {error.strerror}")) from None
        finally:
            self._lock.release()

    def changed(self) -> str:
        """In words; empty: nothing."""
        parts = [f"done: {', '.join(self._done)}"] if self._done else []
        parts += [f"begun, and perhaps changed: {self._begun}"] if self._begun else []
        return "; ".join(parts)

    def _stopped(self, error: PgflashError) -> PgflashError:
        if not self.changed():
            return error
        hints = [hint for hint in (error.hint.removesuffix(HINT).removesuffix("; "), self.changed(), HINT) if hint]
        return BrokeOff(error.message, "; ".join(hints))

    def _run(self) -> int:
        changed = 0
        for step in self.plan():
            if step.done:
                self.tell({"event": "as wanted", "node": step.node.name})
                continue
            if step.leader and step.restart and self.wanted.leader == "switchover":
                self._switch_over(step.node)
                step = replace(step, leader=False)
            self._change(step)
            changed += 1
        return changed + self._update_extension()

    def _hold(self, looks: Sequence[Look]) -> None:
        """Nobody else applies something to this cluster: on its primary as it is now."""
        primaries = [item.node for item in looks if item.seen and not item.seen.standby]
        if len(primaries) == 1:
            self._lock.hold(primaries[0])

    def _change(self, step: Step) -> None:
        node = step.node
        me = self._in_role(step, "is not touched")
        assert me.seen is not None
        began = me.seen.started
        self.tell({"event": "changing", **step.as_json()})
        self._begun = node.name
        pending = self._write(node, step)
        if pending and not step.restart:
            raise BrokeOff(f"{node.name}: a setting waits for a restart that was not planned", HINT)
        restart = bool(step.restart) and (step.restart != NEW or pending)  # the same size, written otherwise, needs none
        if restart:
            me = self._in_role(step, "is not restarted")
            self.tell({"event": "restarting", "node": node.name})
            self._restart(me)
        self._wait(node, began if restart else None, restart or ENABLED in step.settings)
        self._is_done(node.name)
        self.tell({"event": "done", "node": node.name})

    def _is_done(self, what: str) -> None:
        self._done.append(what)
        self._begun = ""

    def _in_role(self, step: Step, what: str) -> Look:
        """The node, when it may be touched, as what it was in the plan."""
        name = step.node.name
        me = self._ready(step.node, bool(step.restart), f"{name} {what}")
        assert me.seen is not None
        if me.seen.standby == step.leader:
            raise BrokeOff(f"{name} {what}: it has become {'a standby' if me.seen.standby else 'the primary'} meanwhile", HINT)
        return me

    def _ready(self, node: Node, restart: bool, what: str) -> Look:
        """The cluster as it is, when the node may be touched. What was changed before may take a moment to settle."""
        end = time.monotonic() + (SETTLE_S if self._touched else 0)
        while True:
            looks = self.looks()
            me = _of(looks, node)
            why = refusal(me, looks, self.config(), self.wanted.standbys, restart)
            if not why:
                self._hold(looks)
                self._touched = True
                return me
            if time.monotonic() >= end:
                raise BrokeOff(f"{what}: {why}", HINT)
            time.sleep(POLL_S)

    def _write(self, node: Node, step: Step) -> bool:
        """Does a setting wait for a restart?"""
        try:
            write(node.name, lambda: self._connected(node), step.settings, step.was)
        except (PutBack, ServerError):  # nothing is changed
            self._begun = ""
            raise
        rows = self._rows(node, self.wanted.of(node.name)).values()
        wrong = [row["name"] for row in rows if row["faults"]]
        if wrong:
            raise BrokeOff(f"{node.name}: the server does not accept {wrong[0]} in its files", "SELECT * FROM pg_file_settings")
        return any(row["pending_restart"] for row in rows)

    def _restart(self, item: Look) -> None:
        if self.patroni is not None:
            assert item.node.patroni is not None
            self.patroni.restart(item.node.patroni, self.wanted.wait_s)
            return
        command = shlex.split(self.wanted.commands[item.node.name])
        try:
            status, output = run(command, self.wanted.wait_s)
        except OSError as error:
            raise BrokeOff(f"{item.node.name}: {command[0]} cannot be run: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise BrokeOff(f"{item.node.name}: its restart is not over after {show_seconds(self.wanted.wait_s)}") from None
        if status != 0:
            text = visible(output.strip()[-500:], lines=True)
            raise BrokeOff(f"{item.node.name}: its restart ended with status {status}\n{text}".rstrip())

    def _wait(self, node: Node, restarted_after: Any, warm: bool) -> None:
        """Until it is back as wanted: up, active, receiving, with nothing pending, and warm if it has been cold."""
        why = ["it has not answered"]
        told = [time.monotonic()]

        def back() -> bool:
            looks = self.looks()
            me = _of(looks, node)
            why[0] = self._lacking(me, restarted_after, warm)
            if why[0] and time.monotonic() - told[0] > 10:
                told[0] = time.monotonic()
                self.tell({"event": "waiting", "node": node.name, "for": why[0]})
            return not why[0]

        end = time.monotonic() + self.wanted.wait_s
        while True:
            try:
                if back():
                    return
            except ServerError as error:  # Patroni itself may be busy for a moment
                why[0] = error.message
            if time.monotonic() > end:
                raise BrokeOff(f"{node.name} is not back after {show_seconds(self.wanted.wait_s)}: {why[0]}")
            time.sleep(POLL_S)

    def _lacking(self, me: Look, restarted_after: Any, warm: bool) -> str:
        seen = me.seen
        if seen is None:
            return me.problem or "it does not answer"
        if restarted_after is not None and seen.started <= restarted_after:
            return "it has not been restarted"
        rows = self._rows(me.node, [*self.wanted.of(me.node.name), ENABLED, SIZE])
        pending = [name for name, row in rows.items() if row["pending_restart"] and name in self.wanted.of(me.node.name)]
        if pending:
            return f"{pending[0]} waits for a restart"
        on, size = (rows.get(name, {}).get("setting") for name in (ENABLED, SIZE))
        should = on == "on" and size not in (None, "0")
        if seen.stat is not None and should and seen.state != "active":
            return f"its cache is {seen.state}: {seen.reason or 'no reason yet'}"
        if not seen.standby:
            return ""
        if seen.receiver != "streaming":
            return "it does not receive WAL"
        if warm and should and self.wanted.warm > 0 and seen.follows and not seen.is_warm(self.wanted.warm):
            share = "nothing is known yet" if seen.share is None else f"{100 * seen.share:.1f}%"
            return f"it is not warm: {share}"
        return ""

    def _switch_over(self, leader: Node) -> None:
        assert self.patroni is not None
        me = self._ready(leader, False, "no switch-over")
        looks = self.looks()
        assert me.seen is not None
        sync = {row.name for row in me.seen.replicas if row.sync_state in ("sync", "quorum")}
        synchronous = bool(self.config().get("synchronous_mode"))
        able = [
            item for item in looks
            if item.seen and item.seen.standby and not (item.node.patroni and item.node.patroni.tags.get("nofailover"))
            and (item.node.name in sync or not synchronous)
        ]  # fmt: skip
        warm = [item for item in able if self.wanted.warm == 0 or (item.seen and item.seen.is_warm(self.wanted.warm))]
        if not warm:
            raise BrokeOff("no switch-over: no standby that may lead is warm", f"pgflash cluster warmth shows why; {HINT}")
        candidate = warm[0].node.name
        self.tell({"event": "switching over", "from": leader.name, "to": candidate})
        self._begun = f"switch-over to {candidate}"
        self.patroni.switch_over(leader.name, candidate, self.wanted.wait_s)

        def over() -> bool:
            now = {item.node.name: item.seen for item in self.looks()}
            old, new = now.get(leader.name), now.get(candidate)
            return bool(old and new and old.standby and not new.standby and old.receiver == "streaming")

        self._until(over, f"the switch-over from {leader.name} to {candidate}", self.wanted.wait_s)
        self._is_done(self._begun)

    def _until(self, true: Callable[[], bool], what: str, longest_s: float) -> None:
        end = time.monotonic() + longest_s
        while not true():
            if time.monotonic() > end:
                raise BrokeOff(f"still waiting after {show_seconds(longest_s)} for {what}", HINT)
            time.sleep(POLL_S)

    def _databases(self, leader: Node) -> None:
        """Those whose extension is to be updated: they are there, and have it."""
        for database in self.wanted.update_extension:
            with self._connected(leader, {"dbname": database}) as connection:
                self._extension(connection, leader, database)

    def _extension(self, connection: Connection, node: Node, database: str) -> safe.Extension:
        try:
            found = safe.extension(connection)
        except psycopg.Error as error:
            raise ServerError(f"{node.name}, {visible(database)}: {reason(error)}") from None
        safe.require(found, Refused)
        if found is None:
            raise Refused(f"database {database} has no extension pg_flashcache", "CREATE EXTENSION pg_flashcache, or take it off the list")
        return found

    def _update_extension(self) -> int:
        changed = 0
        for database in self.wanted.update_extension:
            looks = self.looks()
            leader = next((item for item in looks if item.seen and not item.seen.standby), None)
            if leader is None:
                raise BrokeOff("there is no primary to update the extension on", HINT)
            self._hold(looks)
            with self._connected(leader.node, {"dbname": database}) as connection:
                found = self._extension(connection, leader.node, database)
                connection.execute("SET default_transaction_read_only = off")
                self._begun = f"extension of database {visible(database)}"
                try:
                    connection.execute("ALTER EXTENSION pg_flashcache UPDATE")
                except psycopg.Error as error:
                    if not connection.broken:
                        self._begun = ""
                    raise Refused(f"{leader.node.name}, {visible(database)}: {said(error, {})}", HINT) from None
                now = safe.extension(connection)
            if now and now.version != found.version:
                self._is_done(self._begun)
                self.tell({"event": "extension updated", "node": leader.node.name, "database": database, "to": now.version})
                changed += 1
            self._begun = ""
        return changed


def _shown(name: str, value: str | None) -> str | None:
    return None if value is None else without_secrets(name, value)


def _of(looks: Sequence[Look], node: Node) -> Look:
    found = next((item for item in looks if item.node.name == node.name), None)
    if found is None:
        raise ServerError(f"{node.name} is not there any more: its address answers as another node")
    return found
