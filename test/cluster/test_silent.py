"""Servers that take the login and then say nothing: nobody waits for them beyond the time."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pgflash.cluster.apply import Rolling
from pgflash.cluster.find import Node, find
from pgflash.cluster.wanted import Wanted
from pgflash.connection import connect, reason
from pgflash.errors import ServerError

LONGEST_S = 100.0  # on a busy machine; without a bound it is never


@pytest.fixture
def silent() -> Iterator[dict[str, str]]:
    """Where one is: it says that whoever comes is let in, and that it is ready."""
    clients: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = listening.accept()
                    clients.append(client)
                    client.recv(65536)
                    client.sendall(b"R" + struct.pack("!ii", 8, 0) + b"Z" + struct.pack("!i", 5) + b"I")

        threading.Thread(target=serve, daemon=True).start()
        yield {"host": "127.0.0.1", "port": str(listening.getsockname()[1]), "sslmode": "disable", "gssencmode": "disable", "user": "x"}
        for client in clients:
            client.close()


def test_a_statement(silent: dict[str, str]) -> None:
    began = time.monotonic()
    with pytest.raises(Exception, match="timeout expired") as raised:
        connect(silent, 0.2)
    assert reason(raised.value) == "no answer in time"
    assert time.monotonic() - began < LONGEST_S


def test_who_is_asked_for_nodes(silent: dict[str, str]) -> None:
    assert [node.found_by for node in find([silent, silent], None, 0.2).nodes] == ["argument"]


def test_apply(silent: dict[str, str]) -> None:
    node = Node("a", silent, "argument")
    rolling = Rolling([node], None, Wanted({}), 0.2, lambda _event: None)
    calls: list[Any] = [lambda: rolling._rows(node, ["x"]), rolling.plan]
    for call in calls:
        with pytest.raises(ServerError, match="no answer"):
            call()
