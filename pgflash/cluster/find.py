"""Who the nodes of a cluster are: those that are named, and those that Patroni, a primary, or a list of nodes on a server names.

A node is reached as the first connection string says, but for host and port. What is found twice is one node. Standbys that only
pg_stat_replication names are sent no password, and nothing else that could be used elsewhere: a role with REPLICATION can put any host
there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from psycopg import pq

from pgflash import safe
from pgflash.cluster.ask import ask_each
from pgflash.cluster.patroni import Patroni, PatroniMember
from pgflash.connection import ASKS, Connection, exists, members, name_of
from pgflash.errors import ArgumentError

# What says where a server is, and nothing else.
_PLACE = ("host", "hostaddr", "port", "service")
NODES = "pg_flashcache_nodes"
STANDBYS = "pg_stat_replication"
# What libpq sends a server, or a server could find a password from. An empty password is also one: PGPASSWORD is not looked at. A file
# that cannot be there, other than one that is no plain file, is passed over without a word.
_SECRET = ("password", "sslpassword", "gssdelegation", "scram_client_key", "scram_server_key")
_NO_SECRETS = {"password": "", "passfile": "/dev/null/none"}
_NO_DELEGATION = {"gssdelegation": "0"}  # libpq 16 and later: not by PGGSSDELEGATION either
# Citus. Found by its name: who may make such a table in pg_catalog is a superuser.
_DIST_NODE = """
SELECT nodename::text AS host, nodeport::int AS port FROM pg_catalog.pg_dist_node WHERE isactive AND noderole::text = 'primary' ORDER BY nodeid
"""
_STANDBYS = """
SELECT host(client_addr) AS address, application_name AS name, count(*)::int AS count FROM pg_stat_replication r
 WHERE state IS NOT NULL AND application_name NOT IN ('pg_basebackup', 'pg_receivewal')
   AND NOT EXISTS (SELECT FROM pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical') GROUP BY 1, 2 ORDER BY 2, 1
"""


@dataclass(frozen=True)
class Node:
    """A server, and how it is reached."""

    name: str
    parts: dict[str, str]
    found_by: str
    patroni: PatroniMember | None = None

    @property
    def nowhere(self) -> str:
        """Why it can't be asked: Patroni has no address of a member that has not started yet, or has failed to."""
        return f"Patroni says {self.patroni.state}, and no address" if self.patroni and not self.patroni.host else ""

    @property
    def untrusted(self) -> bool:
        """Who says that it is one need not be a superuser."""
        return self.found_by == STANDBYS

    def why(self, problem: str | None) -> str | None:
        """With what there is to do about it."""
        return f"{problem}, and is sent none: only {STANDBYS} names it; name it" if self.untrusted and problem == ASKS else problem

    def also(self, other: Node) -> Node:
        """Both are the same server. One of the command line has its name of the list, as files of `apply` say it."""
        if self.untrusted and not other.untrusted:
            return other
        return replace(self, name=other.name) if self.found_by == "argument" and other.found_by == NODES else self


@dataclass(frozen=True)
class Found:
    nodes: list[Node]
    remarks: list[str]  # what could not be asked, or not be used
    unplaced: Sequence[tuple[str, str]] = ()  # of each standby that cannot be asked: the name under which it receives, and why


def find(servers: Sequence[dict[str, str]], patroni: Patroni | None, timeout_s: float, search: bool = True) -> Found:
    """With Patroni, its members, reached as the first of the servers is; otherwise the servers, and who they know of."""
    if patroni is not None:
        if len(servers) > 1:
            raise ArgumentError(
                "Patroni names the nodes: one connection string says how they are reached", "as in 'user=flash_monitor dbname=postgres'"
            )
        template = servers[0] if servers else {}
        return Found([_of_patroni(member, template) for member in patroni.members()], [])
    named = list(servers) or [{}]
    nodes = [Node(name_of(parts), parts, "argument") for parts in named]
    remarks: list[str] = []
    unplaced: list[tuple[str, str]] = []
    if search:
        # A server that is down, or says nothing, knows nobody: it is a node itself, and will be shown as what it is.
        for known, _ in ask_each(named, timeout_s, known_to):
            if known is not None:
                nodes += known.nodes
                remarks += known.remarks
                unplaced += known.unplaced
    return Found(once(nodes), list(dict.fromkeys(remarks)), unplaced)


def _of_patroni(member: PatroniMember, template: dict[str, str]) -> Node:
    return Node(member.name, placed(template, member.host, member.port), "patroni", member)


def placed(template: Mapping[str, str], host: str, port: int | str | None) -> dict[str, str]:
    """The same at another place."""
    parts = {name: value for name, value in template.items() if name not in _PLACE}
    return parts | {"host": host} | ({"port": str(port)} if port else {})


def without_passwords(parts: Mapping[str, str]) -> dict[str, str]:
    """The same, and libpq has no password to send, wherever else it takes one from."""
    kept = {name: value for name, value in parts.items() if name not in _SECRET and not name.startswith("oauth_")}
    return kept | _NO_SECRETS | (_NO_DELEGATION if pq.version() >= 160000 else {})


def once(nodes: Iterable[Node]) -> list[Node]:
    """Each place once; names that are taken get the place added."""
    found: dict[tuple[str, str, str], Node] = {}
    for node in nodes:
        key = (node.parts.get("host") or node.parts.get("hostaddr") or node.parts.get("service") or "", node.parts.get("port") or "5432",
               node.parts.get("dbname") or "")  # fmt: skip
        found[key] = found[key].also(node) if key in found else node
    named: dict[str, Node] = {}
    for node in found.values():
        name = node.name if node.name not in named else f"{node.name} ({name_of(node.parts)})"
        named[name] = Node(name, node.parts, node.found_by, node.patroni)
    return list(named.values())


def known_to(connection: Connection, parts: Mapping[str, str]) -> Found:
    """Of a server: the nodes in its list, the standbys that it sends its WAL to, Citus' workers. The list says who is sent the password
    of this command: only superusers' entries count, in a list that nobody else can have replaced."""
    nodes: list[Node] = []
    remarks: list[str] = []
    unplaced: list[tuple[str, str]] = []
    listed: set[str] = set()
    found = safe.extension(connection)
    usable = found is not None and not found.danger and not found.lacking
    if found is not None and usable and NODES not in members(connection, (NODES,)) and exists(connection, NODES):
        remarks.append(f"this role may not read the list of nodes, {NODES}: GRANT pg_monitor TO {found.role}")
    elif found is not None and usable and exists(connection, NODES):
        rows = connection.execute(f"SELECT node, host, port, dbname, trusted FROM {found.schema}.{NODES} ORDER BY node".encode()).fetchall()
        listed = {row["node"] for row in rows}
        for row in rows:
            if not (row["trusted"] and found.trusted):
                why = "its server" if found.trusted else f"the schema {found.schema} of the list"
                remarks.append(f"node {row['node']} is not used: {why} belongs to somebody who is no superuser")
            elif row["host"]:
                template = {**parts, **({"dbname": row["dbname"]} if row["dbname"] else {})}
                nodes.append(Node(row["node"], placed(template, row["host"], row["port"]), NODES))
            else:
                remarks.append(f"node {row['node']} is not used: the list has a service, and no host; name it")
    if not nodes:
        nodes, unplaced = _standbys(connection, parts)
        unplaced = [one for one in unplaced if one[0] not in listed]  # why they are not used is said already
    if _row(connection, "SELECT to_regclass('pg_catalog.pg_dist_node') IS NOT NULL AS there")["there"]:
        nodes += [
            Node(f"{row['host']}:{row['port']}", placed(parts, row["host"], row["port"]), "pg_dist_node")
            for row in connection.execute(_DIST_NODE).fetchall()
        ]
    return Found(nodes, remarks, unplaced)


def _standbys(connection: Connection, parts: Mapping[str, str]) -> tuple[list[Node], list[tuple[str, str]]]:
    nodes, unplaced = [], []
    port = parts.get("port")
    for row in connection.execute(_STANDBYS).fetchall():
        if row["address"] is None:
            why = "has no address: it is connected through a socket; name it, here or in this database's list of nodes"
            unplaced += [(row["name"], f"standby {row['name']} {why}")] * row["count"]
        elif re.match(r"127\.|::1$", row["address"]):
            why = "is on the primary's own machine: its port is not known; name it, here or in this database's list of nodes"
            unplaced += [(row["name"], f"standby {row['name']} {why}")] * row["count"]
        else:
            nodes.append(Node(row["name"], without_passwords(placed(parts, row["address"], port)), STANDBYS))
    return nodes, unplaced


def _row(connection: Connection, query: str) -> dict[str, Any]:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row
