"""The HTTP side: a bounded number of requests at a time, each bounded in time, one to a connection.

HTTP/1.0 as load balancers use it for checks: GET, HEAD and OPTIONS ask the same, anything else is refused. Who sends slowly, or
nothing, is disconnected; who comes when all places are taken is told 503 at once.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pgflash import __version__
from pgflash.agent.answers import Answers

PLACES = 32
SLOWEST_S = 10.0  # of a request, from its connection to its answer, beyond what the server under it takes
LONGEST_LINE = 2048
BUSY = b"HTTP/1.0 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class AgentServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], answers: Answers, places: int = PLACES, slowest_s: float = SLOWEST_S) -> None:
        self.answers = answers
        self._free = threading.BoundedSemaphore(places)
        self._slowest_s = slowest_s + answers.longest_s
        self._open: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # Without HTTPServer's look-up of a name for the address: it may take as long as it likes.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            with contextlib.suppress(OSError):
                request.settimeout(0)
                request.send(BUSY)
            self.shutdown_request(request)
            return
        with self._lock:
            self._open[request] = time.monotonic()
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
            if self._open.pop(request, None) is None:
                return
        self._free.release()

    def service_actions(self) -> None:
        """Called twice a second by serve_forever()."""
        late = time.monotonic() - self._slowest_s
        with self._lock:
            for request, began in self._open.items():
                if began < late:
                    with contextlib.suppress(OSError):
                        request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nothing to be told."""


class _Handler(BaseHTTPRequestHandler):
    server: AgentServer
    server_version = f"pgflash/{__version__}"
    sys_version = ""
    timeout = SLOWEST_S

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
