"""A Patroni that says what a test wants, and notes what it is asked; and made-up looks at servers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pgflash.cluster.find import Node
from pgflash.cluster.gather import Look
from pgflash.cluster.look import Replica, Seen
from pgflash.cluster.patroni import PatroniMember

WHEN = datetime(2026, 11, 26, 2, 0, tzinfo=UTC)


class FakePatroni:
    def __init__(self) -> None:
        self.members: Any = []
        self.config: dict[str, Any] = {}
        self.asked: list[tuple[str, str, Any, str | None]] = []
        self.status: dict[str, int] = {}
        self.text: str | None = None
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(None)

            def do_POST(self) -> None:
                self._answer(json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "null"))

            def _answer(self, body: Any) -> None:
                fake.asked.append((self.command, self.path, body, self.headers.get("Authorization")))
                known = {"/cluster": {"members": fake.members}, "/config": fake.config}
                text = fake.text if fake.text is not None else json.dumps(known.get(self.path, "done"))
                self.send_response(fake.status.get(self.path, 200))
                if fake.status.get(self.path) == 302:
                    self.send_header("Location", "http://127.0.0.1:1/")
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def member(self, name: str, role: str = "replica", state: str = "running", **more: Any) -> dict[str, Any]:
        return {"name": name, "role": role, "state": state, "host": "10.0.0.1", "port": 5432, "api_url": f"{self.url}/patroni", **more}


@contextmanager
def fake_patroni() -> Iterator[FakePatroni]:
    fake = FakePatroni()
    try:
        yield fake
    finally:
        fake.server.shutdown()
        fake.server.server_close()


def seen(standby: bool = False, **more: Any) -> Seen:
    values: dict[str, Any] = {
        "at": WHEN, "standby": standby, "major": 15, "cluster": "", "database": "postgres", "started": WHEN, "port": 5432, "lsn": "0/3000000",
        "replay_delay_s": 0.0 if standby else None, "receiver": "streaming" if standby else None, "timeline": 1, "pending_restart": 0,
        "synchronous_standby_names": "", "version": "1.1",
        "stat": {"state": "active", "reason": None, "hits": 90, "misses": 10, "used": 50, "slots": 100},
    }  # fmt: skip
    return Seen(**{**values, **more})


def warmth(share: float | None, state: str = "waiting", too_old: bool = False, **more: Any) -> dict[str, Any]:
    return {
        "state": state, "reason": None, "share": share, "hot_share": share, "too_old": too_old, "age": 3.0, "missing_locked": 0,
        "missing_no_room": 0, "missing_database": 0, "missing_gone": 0, "missing_unreadable": 0, **more,
    }  # fmt: skip


def replica(name: str, sync_state: str = "async", state: str = "streaming", address: str | None = None) -> Replica:
    return Replica(name, address, state, sync_state, 0)


def look(name: str, what: Seen | None, problem: str | None = None, member: PatroniMember | None = None) -> Look:
    return Look(Node(name, {"host": f"host-{name}"}, "argument", member), what, problem)
