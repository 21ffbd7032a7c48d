"""Connections beyond the places: they are told 503, but who asks whether the agent runs is told that it does.

One thread for all of them, which waits for nobody in particular. Where there are too many, the one that came first goes.
"""

from __future__ import annotations

import contextlib
import queue
import re
import selectors
import socket
import threading
import time

MOST = 256
LONGEST_S = 1.0
LONGEST_LINE = 2048
_LIVENESS = re.compile(rb"(?:GET|HEAD|OPTIONS) /liveness/?(?:\?\S*)? HTTP/1\.[01]\r?\n")
BUSY = b"HTTP/1.0 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Overflow:
    def __init__(self, liveness: bytes, most: int = MOST, longest_s: float = LONGEST_S) -> None:
        """`liveness` is the whole answer to it."""
        self._liveness = liveness
        self._most = most
        self._longest_s = longest_s
        self._new: queue.SimpleQueue[socket.socket | None] = queue.SimpleQueue()
        self._woken, self._wake = socket.socketpair()
        for end in (self._woken, self._wake):
            end.setblocking(False)
        self._since: dict[socket.socket, float] = {}  # who came first is first
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._woken, selectors.EVENT_READ)
        threading.Thread(target=self._run, name="overflow", daemon=True).start()

    def take(self, client: socket.socket | None) -> None:
        """It is closed here. None: the end."""
        self._new.put(client)
        with contextlib.suppress(OSError):  # full: it will wake up
            self._wake.send(b"x")

    def _run(self) -> None:
        while True:
            first = next(iter(self._since.values()), None)
            for key, _ in self._selector.select(None if first is None else max(0.0, first + self._longest_s - time.monotonic())):
                if key.fileobj is not self._woken:
                    assert isinstance(key.fileobj, socket.socket)
                    self._answer(key.fileobj)
                elif not self._admit():
                    return
            now = time.monotonic()
            for client in [client for client, since in self._since.items() if since + self._longest_s <= now]:
                self._end(client, BUSY)

    def _admit(self) -> bool:
        with contextlib.suppress(OSError):
            self._woken.recv(4096)
        while not self._new.empty():
            client = self._new.get()
            if client is None:
                for left in list(self._since):
                    self._end(left, BUSY)
                self._selector.close()
                self._woken.close()
                self._wake.close()
                return False
            client.setblocking(False)
            self._selector.register(client, selectors.EVENT_READ)
            self._since[client] = time.monotonic()
            if len(self._since) > self._most:
                self._end(next(iter(self._since)), BUSY)
        return True

    def _answer(self, client: socket.socket) -> None:
        if client not in self._since:  # it has just been ended
            return
        said = b""
        with contextlib.suppress(OSError):
            said = client.recv(LONGEST_LINE)
        self._end(client, self._liveness if _LIVENESS.match(said) else BUSY)

    def _end(self, client: socket.socket, answer: bytes) -> None:
        del self._since[client]
        self._selector.unregister(client)
        with contextlib.suppress(OSError):
            client.send(answer)
            client.shutdown(socket.SHUT_WR)
        client.close()
