"""The HTTP side: a bounded number of requests at a time, each bounded in time, one to a connection.

HTTP/1.0 as load balancers use it for checks: GET, HEAD and OPTIONS ask the same, anything else is refused. Who sends slowly, or
nothing, is disconnected, and of nobody more is read than a short request line and headers; who comes when all places are taken, or all
that his address may have, is told 503 at once. Only /liveness is answered then as well.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pgflash import __version__
from pgflash.agent.answers import Answer, Answers
from pgflash.agent.overflow import LONGEST_LINE, Overflow

PLACES = 32
OF_A_CLIENT = 16  # of these, by its address
LONGEST_HEAD = 8192  # bytes of a request: all there is of one
RECEIVED = 16384  # bytes that the kernel keeps of a connection until they are read
SLOWEST_S = 10.0  # of a request, from its connection to its answer, beyond what the server under it takes


class AgentServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    allow_reuse_address = True

    def __init__(
        self, address: tuple[str, int], answers: Answers, places: int = PLACES, slowest_s: float = SLOWEST_S, of_a_client: int = OF_A_CLIENT
    ) -> None:
        self.answers = answers
        self._places, self._of_a_client = places, of_a_client
        self._slowest_s = slowest_s + answers.longest_s
        self._open: dict[socket.socket, tuple[float, str]] = {}  # since when, and whose
        self._lock = threading.Lock()
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._overflow: Overflow | None = None  # where nothing can be listened to, it is closed without
        super().__init__(address, _Handler)
        self._overflow = Overflow(_whole(answers.to("/liveness")))

    def server_bind(self) -> None:
        # Without HTTPServer's look-up of a name for the address: it may take as long as it likes.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED)  # of each that is accepted
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        client = str(client_address[0])
        with self._lock:
            full = len(self._open) >= self._places or sum(whose == client for _, whose in self._open.values()) >= self._of_a_client
            if not full:
                self._open[request] = time.monotonic(), client
        if full:
            assert self._overflow is not None
            self._overflow.take(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._done(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._done(request)

    def _done(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)

    def service_actions(self) -> None:
        """Called twice a second by serve_forever()."""
        late = time.monotonic() - self._slowest_s
        with self._lock:
            for request, (began, _) in self._open.items():
                if began < late:
                    with contextlib.suppress(OSError):
                        request.shutdown(socket.SHUT_RDWR)

    def server_close(self) -> None:
        super().server_close()
        if self._overflow is not None:
            self._overflow.take(None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nothing to be told."""


def _whole(answer: Answer) -> bytes:
    head = f"HTTP/1.0 {answer.status} OK\r\nContent-Type: {answer.kind}\r\nContent-Length: {len(answer.text.encode())}\r\nConnection: close"
    return f"{head}\r\n\r\n{answer.text}".encode()


class _Head(io.BufferedIOBase):
    """What a client sends, to a number of bytes: http.client would take 100 headers of 64 kB each."""

    def __init__(self, inner: io.BufferedIOBase, most: int) -> None:
        self._inner, self._left = inner, most

    def readline(self, size: int | None = -1, /) -> bytes:
        if self._left <= 0:
            raise http.client.HTTPException(f"more than {LONGEST_HEAD} bytes")  # 431
        line = self._inner.readline(self._left if size is None or size < 0 else min(size, self._left))
        self._left -= len(line)
        return line

    def close(self) -> None:
        self._inner.close()
        super().close()


class _Handler(BaseHTTPRequestHandler):
    server: AgentServer
    server_version = f"pgflash/{__version__}"
    sys_version = ""
    timeout = SLOWEST_S

    def setup(self) -> None:
        super().setup()
        self.rfile = _Head(self.rfile, LONGEST_HEAD)

    def parse_request(self) -> bool:
        if len(getattr(self, "raw_requestline", b"")) > LONGEST_LINE:
            self.requestline, self.request_version, self.command = "", "HTTP/1.0", ""
            self.send_error(414)
            return False
        return super().parse_request()

    def do_GET(self) -> None:
        answer = self.server.answers.to(self.path)
        body = answer.text.encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_OPTIONS(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        """Checks come every second or so: nothing is written of them."""
