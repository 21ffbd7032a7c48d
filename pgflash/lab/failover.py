"""A primary that is killed and a standby that takes over: what everything that measures this has in common."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from pgflash.errors import BrokeOff
from pgflash.lab.cluster import USER, Cluster
from pgflash.system import give_to_server_user

REPLICATED = {"wal_level": "replica", "max_wal_senders": "4", "hot_standby": "on"}
FOLLOW_INTERVAL_S = 2
GATE = 0.95  # of the primary's pages, before it is killed
PATIENCE_S = 300
INTO_LOAD_S = 2


def following(database: str) -> dict[str, str]:
    """Settings of a standby that loads what its primary has on flash; the extension is asked for in that database."""
    return {
        "pg_flashcache.follow": "on", "pg_flashcache.follow_interval": str(FOLLOW_INTERVAL_S),
        "pg_flashcache.follow_conninfo": f"dbname={database} user={USER}",
    }  # fmt: skip


def make_standby(cluster: Cluster) -> None:
    """Of the stopped cluster's copy: it begins as a standby."""
    (cluster.data / "standby.signal").touch()
    give_to_server_user(cluster.data / "standby.signal")


def replayed(primary: Cluster, standby: Cluster, database: str) -> None:
    """Waits for all that was committed so far."""
    target = primary.sql(database, "SELECT pg_current_wal_flush_lsn()")
    began = time.monotonic()
    while standby.sql(database, f"SELECT pg_last_wal_replay_lsn() >= '{target}'") != "t":
        if time.monotonic() - began > PATIENCE_S:
            raise BrokeOff(f"the standby {standby.name} did not replay {target} within {PATIENCE_S} s")
        time.sleep(0.1)


def wait_until_warm(standby: Cluster, database: str) -> float:
    """The gate that docs/operation.md names; the share that is here by then."""
    began = time.monotonic()
    while standby.sql(database, f"SELECT pg_flashcache_is_warm({GATE})") != "t":
        if time.monotonic() - began > PATIENCE_S:
            seen = standby.sql(database, "SELECT state, reason, share FROM pg_flashcache_warmth")
            raise BrokeOff(f"the standby did not get warm within {PATIENCE_S} s: {seen}")
        time.sleep(0.5)
    return float(standby.sql(database, "SELECT share FROM pg_flashcache_warmth"))


def end_under(load: Callable[[], object], end: Callable[[], None]) -> float:
    """Seconds that it took to end the server, in the middle of a load, which breaks off."""
    with ThreadPoolExecutor(1) as pool:
        broken_off = pool.submit(load)
        time.sleep(INTO_LOAD_S)
        began = time.monotonic()
        end()
        took = time.monotonic() - began
        broken_off.exception()
    return round(took, 2)


def promote(standby: Cluster, database: str) -> float:
    """Seconds until it takes writes."""
    began = time.monotonic()
    if standby.sql(database, "SELECT pg_promote(true, 300)") != "t":
        raise BrokeOff("the standby was not promoted within 300 s")
    return round(time.monotonic() - began, 2)
