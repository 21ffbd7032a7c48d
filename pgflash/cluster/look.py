"""One look at a server: its role, its lag, its cache, and how warm it is. The agent and the cluster's commands see the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from pgflash import devices, safe
from pgflash.connection import Connection, exists, members
from pgflash.errors import ServerError
from pgflash.state import not_started

STAT = "pg_stat_flashcache"
WARMTH = "pg_flashcache_warmth"

# Of a standby: how far it is behind what it has received, and whether it receives. After a restart it has received up to the start of
# a segment, and replayed more; one that restores from an archive receives nothing, and has replayed what there was. A primary's lag is
# none. The last checkpoint may be of an older timeline than what is replayed. A receiver says under which name it asks for WAL.
_SERVER = """
SELECT clock_timestamp() AS at, pg_is_in_recovery() AS standby, current_setting('server_version_num')::int / 10000 AS major,
       current_setting('cluster_name') AS cluster, current_database() AS database, pg_postmaster_start_time() AS started,
       current_setting('port')::int AS port,
       CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END::text AS lsn,
       CASE WHEN pg_is_in_recovery() THEN
           CASE WHEN COALESCE(pg_last_wal_receive_lsn() <= pg_last_wal_replay_lsn(), true) THEN 0
                ELSE extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) END END::float8 AS replay_delay_s,
       CASE WHEN pg_is_in_recovery() THEN COALESCE((SELECT status FROM pg_stat_wal_receiver), 'none') END AS receiver,
       (SELECT conninfo FROM pg_stat_wal_receiver) AS receives_by, (SELECT system_identifier FROM pg_control_system()) AS system,
       CASE WHEN pg_is_in_recovery() THEN COALESCE(
                (SELECT received_tli FROM pg_stat_wal_receiver), (SELECT NULLIF(min_recovery_end_timeline, 0) FROM pg_control_recovery()),
                (SELECT timeline_id FROM pg_control_checkpoint()))
            ELSE ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int END AS timeline,
       host(inet_server_addr()) AS address,
       (SELECT count(*) FROM pg_settings WHERE pending_restart)::int AS pending_restart,
       current_setting('synchronous_standby_names') AS synchronous_standby_names
"""
_REPLICAS = """
SELECT application_name, host(client_addr) AS address, state, sync_state,
       pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint AS lag_bytes,
       EXISTS (SELECT FROM pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical') AS logical
  FROM pg_stat_replication r WHERE state IS NOT NULL ORDER BY application_name, pid
"""
FOLLOWS_NOTHING = "off"


@dataclass(frozen=True)
class Replica:
    """What a server sends its WAL to."""

    name: str
    address: str | None
    state: str
    sync_state: str
    lag_bytes: int | None
    logical: bool = False  # a subscriber, not a standby


@dataclass(frozen=True)
class Seen:
    """Everything is as the server says; None: it does not say."""

    at: datetime
    standby: bool
    major: int
    cluster: str
    database: str
    started: datetime
    port: int
    lsn: str
    replay_delay_s: float | None
    receiver: str | None
    timeline: int | None
    pending_restart: int
    synchronous_standby_names: str
    address: str | None = None  # at which it was reached
    system: int | None = None  # the identifier that a server shares with its copies
    receives_as: str | None = None  # its name in pg_stat_replication of whoever it receives WAL from
    version: str | None = None
    stat: dict[str, Any] | None = None
    warmth: dict[str, Any] | None = None
    devices_off: list[dict[str, Any]] = field(default_factory=list)
    devices_unasked: str = ""  # why none of them would be known
    replicas: Sequence[Replica] = ()
    missing: list[str] = field(default_factory=list)

    @property
    def role(self) -> str:
        return "standby" if self.standby else "primary"

    @property
    def state(self) -> str | None:
        return self.stat["state"] if self.stat else None

    @property
    def reason(self) -> str | None:
        """Why the cache is not active, or what else there is to say."""
        return (self.stat["reason"] if self.stat else None) or next(iter(self.missing), None)

    @property
    def not_started(self) -> bool:
        """The cache is wanted, and could not start, or still does not."""
        since = (self.stat or {}).get("state_since")
        return self.stat is not None and not_started(self.stat, (self.at - since).total_seconds() if since else None)

    @property
    def hit_ratio(self) -> float | None:
        return _share(self.stat["hits"], self.stat["hits"] + self.stat["misses"]) if self.stat else None

    @property
    def fill(self) -> float | None:
        return _share(self.stat["used"], self.stat["slots"]) if self.stat else None

    @property
    def follows(self) -> bool:
        return self.warmth is not None and self.warmth["state"] != FOLLOWS_NOTHING

    @property
    def share(self) -> float | None:
        """Of the other server's map, here; None: nothing is followed, or nothing is known."""
        return self.warmth["share"] if self.warmth else None

    def is_warm(self, share: float) -> bool:
        """As pg_flashcache_is_warm()."""
        warmth = self.warmth
        return warmth is not None and self.follows and warmth["share"] is not None and not warmth["too_old"] and warmth["share"] >= share

    def as_json(self) -> dict[str, Any]:
        values = asdict(self)
        for name in ("stat", "warmth"):
            if values[name]:
                values[name] = {key: item.isoformat() if isinstance(item, datetime) else item for key, item in values[name].items()}
        return {
            **values, "at": self.at.isoformat(), "started": self.started.isoformat(), "role": self.role, "hit_ratio": self.hit_ratio,
            "fill": self.fill,
        }  # fmt: skip


def _share(part: int | None, whole: int | None) -> float | None:
    return part / whole if part is not None and whole else None


def _name_in(conninfo: str | None) -> str | None:
    """A receiver's name; without one in primary_conninfo, it is the server's cluster_name."""
    try:
        parts = conninfo_to_dict(conninfo or "")
    except psycopg.Error:
        return None
    name = parts.get("application_name") or parts.get("fallback_application_name")
    return str(name) if name is not None else None


def look(connection: Connection) -> Seen:
    row = connection.execute(_SERVER).fetchone()
    assert row is not None
    replicas = [
        Replica(item["application_name"], item["address"], item["state"], item["sync_state"] or "", item["lag_bytes"], item["logical"])
        for item in ([] if row["standby"] else connection.execute(_REPLICAS).fetchall())
    ]
    missing: list[str] = []
    receives_as = _name_in(row.pop("receives_by"))
    return Seen(**row, **_cache(connection, row["database"], missing), receives_as=receives_as, replicas=replicas, missing=missing)


def _cache(connection: Connection, database: str, missing: list[str]) -> dict[str, Any]:
    found = safe.extension(connection)
    if found is None:
        missing.append(f"database {database} has no extension pg_flashcache")
        return {}
    if found.lacking and not found.danger:
        missing.append(f"{found.closed}: {found.lacking}")
        return {"version": found.version}
    safe.require(found, ServerError)
    there = members(connection, (STAT, WARMTH))
    for view in (STAT, WARMTH):
        if view not in there:
            why = f"this role may not read it: GRANT pg_monitor TO {found.role}"
            if not exists(connection, view):
                why = f"not in version {found.version} of the extension: ALTER EXTENSION pg_flashcache UPDATE"
            missing.append(f"{view}: {why}")

    def one(view: str) -> dict[str, Any] | None:
        # The name is the extension's own, its schema is quoted.
        return connection.execute(f"SELECT * FROM {found.schema}.{view}".encode()).fetchone() if view in there else None

    return {
        "version": found.version, "stat": one(STAT), "warmth": one(WARMTH), "devices_off": devices.off(connection, found.schema) or [],
        "devices_unasked": devices.unasked(connection, found.role) if STAT in there else "",  # else it is said of the cache as a whole
    }  # fmt: skip
