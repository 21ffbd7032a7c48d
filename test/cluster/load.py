"""Clients that work while the cluster changes, and their log: what was acknowledged must be there, what was not may be."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import psycopg

COUNTERS = 500
ROWS = 8000


def pad(number: int) -> str:
    return hashlib.md5(str(number).encode()).hexdigest() * 28


def prepare(connection: psycopg.Connection[Any]) -> None:
    """Some 1100 pages that nobody changes, and what clients write to: a row and its counter belong together."""
    connection.execute(f"CREATE TABLE still AS SELECT g AS id, repeat(md5(g::text), 28) AS pad FROM generate_series(1, {ROWS}) g")
    connection.execute("ALTER TABLE still ADD PRIMARY KEY (id)")
    connection.execute(
        f"CREATE TABLE counters AS SELECT g AS id, 0::bigint AS n, repeat('x', 900) AS pad FROM generate_series(1, {COUNTERS}) g"
    )
    connection.execute("ALTER TABLE counters ADD PRIMARY KEY (id)")
    connection.execute("CREATE TABLE written (client int, seq int, counter int, pad text, PRIMARY KEY (client, seq))")
    connection.execute("GRANT SELECT ON still, counters, written TO monitor")
    connection.execute("VACUUM ANALYZE still, counters")


@dataclass
class Client:
    """Writes through the pooler, each transaction logged before and after."""

    number: int
    conninfo: str
    acknowledged: dict[int, int] = field(default_factory=dict)  # seq: counter
    unknown: dict[int, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


class Load:
    def __init__(self, pooled: str, reading: str, writers: int = 2, readers: int = 2) -> None:
        self._stop = threading.Event()
        self.clients = [Client(number, pooled) for number in range(writers)]
        self.wrong: list[str] = []
        self.reads = 0
        self._threads = [threading.Thread(target=self._write, args=(client,), daemon=True) for client in self.clients]
        self._threads += [threading.Thread(target=self._read, args=(reading, number), daemon=True) for number in range(readers)]
        for thread in self._threads:
            thread.start()

    def acknowledged(self) -> int:
        return sum(len(client.acknowledged) for client in self.clients)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "a client hangs"

    def _write(self, client: Client) -> None:
        drawn = random.Random(client.number)
        connection: psycopg.Connection[Any] | None = None
        seq = 0
        while not self._stop.is_set():
            seq += 1
            counter = drawn.randint(1, COUNTERS)
            began = False
            try:
                if connection is None:
                    connection = psycopg.connect(client.conninfo, connect_timeout=10, prepare_threshold=None)
                began = True
                with connection.transaction():
                    connection.execute("INSERT INTO written VALUES (%s, %s, %s, %s)", (client.number, seq, counter, pad(seq)))
                    connection.execute("UPDATE counters SET n = n + 1 WHERE id = %s", (counter,))
                client.acknowledged[seq] = counter
            except psycopg.Error as error:
                if began:
                    client.unknown[seq] = counter
                client.errors.append(str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__)
                if connection is not None:
                    connection.close()
                connection = None
                self._stop.wait(0.2)
            self._stop.wait(0.005)
        if connection is not None:
            connection.close()

    def _read(self, conninfo: str, number: int) -> None:
        """From replicas that are warm: rows that do not change, and counters that must go with their rows in each snapshot."""
        drawn = random.Random(1000 + number)
        connection: psycopg.Connection[Any] | None = None
        while not self._stop.is_set():
            try:
                if connection is None:
                    connection = psycopg.connect(conninfo, connect_timeout=10, autocommit=True)
                wanted = [drawn.randint(1, ROWS) for _ in range(20)]
                for row, text in connection.execute("SELECT id, pad FROM still WHERE id = ANY (%s)", (wanted,)).fetchall():
                    if text != pad(row):
                        self.wrong.append(f"row {row} of still is wrong")
                self.reads += 1
                if self.reads % 50 == 0:
                    bad = connection.execute(CONSISTENT).fetchall()
                    if bad:
                        self.wrong.append(f"counters and rows differ: {bad[:3]}")
            except psycopg.Error:
                if connection is not None:
                    connection.close()
                connection = None
                self._stop.wait(0.2)
            time.sleep(0.002)
        if connection is not None:
            connection.close()


CONSISTENT = """
SELECT c.id, c.n, w.n FROM counters c LEFT JOIN (SELECT counter, count(*) AS n FROM written GROUP BY 1) w ON w.counter = c.id
 WHERE c.n <> coalesce(w.n, 0)
"""


def check(load: Load, connection: psycopg.Connection[Any]) -> list[str]:
    """What a server has, against the log of the clients."""
    wrong = [f"counters and rows differ: {row}" for row in connection.execute(CONSISTENT.encode()).fetchall()[:5]]
    for row, text in connection.execute("SELECT id, pad FROM still").fetchall():
        if text != pad(row):
            wrong.append(f"row {row} of still is wrong")
    for client in load.clients:
        rows = connection.execute("SELECT seq, counter, pad FROM written WHERE client = %s", (client.number,)).fetchall()
        there = {seq: counter for seq, counter, _ in rows}
        wrong += [f"client {client.number}: row {seq} has wrong content" for seq, _, text in rows if text != pad(seq)]
        wrong += [f"client {client.number}: row {seq} was acknowledged and is lost" for seq in client.acknowledged if seq not in there]
        known = client.acknowledged | client.unknown
        wrong += [f"client {client.number}: row {seq} was never written so" for seq, counter in there.items() if known.get(seq) != counter]
    return wrong
