"""The agent: what it answers to whom, in bounded time, however the server under it and its clients behave."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pilot.servers import Server, needs_server, reachable

from pgflash.agent.answers import Answers
from pgflash.agent.command import address, quoted
from pgflash.agent.keeper import Keeper
from pgflash.agent.overflow import Overflow
from pgflash.agent.server import AgentServer
from pgflash.cluster.look import Seen, look
from pgflash.connection import parsed
from pgflash.errors import ArgumentError

from .fakes import seen, warmth

ROOT = Path(__file__).resolve().parents[2]
folder = pytest.fixture(scope="module")(reachable)


class Fixed:
    """In the place of a Keeper."""

    def __init__(self, answer: Any, problem: str | None = None, wait: threading.Event | None = None) -> None:
        self.answer, self.problem, self.wait = answer, problem, wait

    def get(self, _oldest_s: float, longest_s: float) -> tuple[Any, str | None]:
        if self.wait:
            self.wait.wait(longest_s)
        return self.answer, self.problem


def answers(what: Seen | None, problem: str | None = None, **more: Any) -> Answers:
    values = {"metrics": Fixed("m 1\n"), "share": 0.9, "oldest_s": 0.5, "longest_s": 5.0, **more}
    return Answers(looks=Fixed(what, problem, values.pop("wait", None)), **values)  # type: ignore[arg-type]


PRIMARY = seen()
OFF = seen(stat={**(PRIMARY.stat or {}), "state": "off", "reason": "it broke"})
WARM = seen(standby=True, warmth=warmth(0.95))
COLD = seen(standby=True, warmth=warmth(0.5))
OLD = seen(standby=True, warmth=warmth(0.95, too_old=True))
ALONE = seen(standby=True, warmth=warmth(None, "off"))
FAILED = seen(standby=True, warmth=warmth(0.95, "failed"))
OLDER = seen(standby=True, warmth=None)


@pytest.mark.parametrize(
    ("path", "up_for"),
    [
        ("/", "primary off warm cold old alone failed older"), ("/health", "primary off warm cold old alone failed older"),
        ("/primary", "primary off"), ("/replica", "warm cold old alone failed older"), ("/active", "primary warm cold old alone failed older"),
        ("/warm", "primary warm failed"), ("/warm?share=0.5", "primary warm cold failed"), ("/replica?share=0.96", ""),
        ("/replica?share=0.9", "warm failed"), ("/replica/?share=0", "warm cold failed"),
    ],
)  # fmt: skip
def test_checks(path: str, up_for: str) -> None:
    kinds = {"primary": PRIMARY, "off": OFF, "warm": WARM, "cold": COLD, "old": OLD, "alone": ALONE, "failed": FAILED, "older": OLDER}
    found = {name: answers(what).to(path).status for name, what in kinds.items()}
    assert found == {name: 200 if name in up_for.split() else 503 for name in kinds}


def test_why() -> None:
    off = seen(
        stat={**(PRIMARY.stat or {}), "state": "off", "reason": "/flash/cache: broken"}, warmth=warmth(0.5, "failed", reason="/flash")
    )
    for path in ("/", "/health", "/primary", "/active", "/status"):  # nobody who asks has a login
        assert "/flash" not in answers(off).to(path).text
    assert json.loads(answers(off).to("/active").text)["reason"] == "off"
    assert json.loads(answers(off).to("/status").text)["warmth"]["reason"] == "failed"
    assert json.loads(answers(PRIMARY).to("/status").text)["stat"]["reason"] is None
    assert json.loads(answers(None, "nothing listens there").to("/health").text) == {"error": "nothing listens there"}
    assert json.loads(answers(WARM).to("/status").text)["warmth"]["share"] == 0.95


@pytest.mark.parametrize(
    ("path", "status"),
    [("/nix", 404), ("/warm?share=2", 400), ("/warm?share=nan", 400), ("/warm?share=", 400), ("/warm?x=1", 400), ("/primary?share=1", 400),
     ("/warm?a=1&b=2&c=3&d=4&e=5", 400), ("/liveness", 200), ("/metrics", 200)],
)  # fmt: skip
def test_other_paths(path: str, status: int) -> None:
    assert answers(WARM).to(path).status == status


def test_the_server_is_down() -> None:
    gone = answers(None, "nothing listens there", metrics=Fixed(None, "nothing listens there"))
    assert {path: gone.to(path).status for path in ("/", "/primary", "/replica", "/warm", "/active", "/status", "/metrics", "/liveness")} == {
        "/": 503, "/primary": 503, "/replica": 503, "/warm": 503, "/active": 503, "/status": 503, "/metrics": 503, "/liveness": 200,
    }  # fmt: skip


def test_nobody_is_told_where_the_server_is() -> None:
    made: Keeper[Any] = Keeper("test", {"host": "/nowhere"}, 2, look)
    made.start()
    try:
        assert made.get(0, 60) == (None, "nothing listens there")
    finally:
        made.stop()


# --- over HTTP ---


@contextmanager
def serving(made: Answers, places: int = 4, slowest_s: float = 10.0, of_a_client: int = 32) -> Iterator[AgentServer]:
    server = AgentServer(("127.0.0.1", 0), made, places, slowest_s, of_a_client)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def raw(server: AgentServer, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.server_port), 30) as client:
        client.sendall(request)
        return b"".join(iter(lambda: client.recv(65536), b""))


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_methods_of_load_balancers(method: str) -> None:
    with serving(answers(WARM)) as server:
        answer = raw(server, f"{method} /warm HTTP/1.0\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.0 200 ")
    assert (b'"role": "standby"' in answer) == (method == "GET" or (method == "OPTIONS" and b'"role"' in answer))


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"POST /warm HTTP/1.0\r\n\r\n", b"501"),
        (b"GET /" + b"x" * 4000 + b" HTTP/1.0\r\n\r\n", b"414"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET http://[ HTTP/1.0\r\n\r\n", b"400"),
    ],
)
def test_wrong_requests(request_: bytes, status: bytes) -> None:
    with serving(answers(WARM)) as server:
        assert status in raw(server, request_).split(b"\r\n")[0]
        assert b" 200 " in raw(server, b"GET / HTTP/1.0\r\n\r\n")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([b"x: " + b"a" * 7900], b"200"),
        ([b"x: " + b"a" * 65000] * 90, b"431"),
        ([b"x: y"] * 3000, b"431"),
        ([b"x: " + b"a" * 8170], b"431"),
    ],
)
def test_no_more_of_a_request_is_read_than_is_short(headers: list[bytes], status: bytes) -> None:
    read = 0
    with serving(answers(WARM)) as server, socket.create_connection(("127.0.0.1", server.server_port), 60) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        try:
            for part in (b"GET /warm HTTP/1.0\r\n", *(header + b"\r\n" for header in headers), b"\r\n"):
                client.sendall(part)
                read += len(part)
        except OSError:  # it does not read on
            assert status == b"431" and read < 2_000_000
            return
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(100).split(b" ")[1] == status
        assert b" 200 " in raw(server, b"GET /warm HTTP/1.0\r\n\r\n")


@pytest.mark.parametrize("where", ["127.0.0.1:{used}", "192.0.2.1:8009", "nohost.invalid:8009"])
def test_where_it_cannot_listen(where: str) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as used:
        listen = where.format(used=used.getsockname()[1])
        command = [sys.executable, "-m", "pgflash", "agent", "port=1", "--listen", listen, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)
    assert done.returncode == 3, done.stderr
    error = json.loads(done.stdout)
    assert error["message"].startswith(f"cannot listen at {listen}: ") and "--listen" in error["hint"]


def test_all_places_are_taken() -> None:
    wait = threading.Event()
    with serving(answers(WARM, wait=wait, longest_s=60.0), places=2) as server:
        waiting = [socket.create_connection(("127.0.0.1", server.server_port), 30) for _ in range(2)]
        for client in waiting:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        answer = b""
        for _ in range(600):  # until both are at work
            answer = raw(server, b"GET /nix HTTP/1.0\r\n\r\n")
            if answer.startswith(b"HTTP/1.0 503"):
                break
            time.sleep(0.05)
        assert answer.startswith(b"HTTP/1.0 503")
        answer = raw(server, b"GET /liveness HTTP/1.0\r\nHost: x\r\n\r\n")
        assert answer.startswith(b"HTTP/1.0 200") and answer.endswith(b'{"state": "the agent runs"}\n')
        wait.set()
        for client in waiting:
            assert client.recv(100).startswith(b"HTTP/1.0 200")
            client.close()


def test_an_address_does_not_take_all_places() -> None:
    with serving(answers(WARM), places=4, of_a_client=2) as server, contextlib.ExitStack() as slow:

        def connected(source: str) -> socket.socket:
            return slow.enter_context(socket.create_connection(("127.0.0.1", server.server_port), 60, (source, 0)))

        mine = [connected("127.0.0.2") for _ in range(3)]
        assert mine[2].recv(100).startswith(b"HTTP/1.0 503")  # the third has no place, and says nothing
        other = connected("127.0.0.3")
        other.sendall(b"GET /warm HTTP/1.0\r\n\r\n")
        assert other.recv(100).startswith(b"HTTP/1.0 200")


def test_many_that_send_nothing() -> None:
    """Beyond the places as well: the first of them goes, so that the next one is heard."""
    overflow = Overflow(b"it runs", most=2, longest_s=3600)
    try:
        pairs = [socket.socketpair() for _ in range(3)]
        for here, there in pairs:
            here.settimeout(60)
            overflow.take(there)
        assert pairs[0][0].recv(100).startswith(b"HTTP/1.0 503")
        pairs[2][0].sendall(b"HEAD /liveness?x=1 HTTP/1.1\r\nHost: h\r\n\r\n")
        assert pairs[2][0].recv(100) == b"it runs"
        pairs[1][0].sendall(b"GET /livenessx HTTP/1.1\r\n\r\n")
        assert pairs[1][0].recv(100).startswith(b"HTTP/1.0 503")
    finally:
        overflow.take(None)
        for here, _ in pairs:
            here.close()


def test_who_sends_nothing_is_disconnected() -> None:
    with (
        serving(answers(WARM, longest_s=0.1), places=1, slowest_s=0.2) as server,
        socket.create_connection(("127.0.0.1", server.server_port), 60) as slow,
    ):
        slow.sendall(b"GET /")
        assert slow.recv(100) == b""
        until_free(server)


def until_free(server: AgentServer) -> None:
    end = time.monotonic() + 60
    while b" 200 " not in raw(server, b"GET / HTTP/1.0\r\n\r\n"):
        assert time.monotonic() < end, "its place stays taken"
        time.sleep(0.05)


# --- the keeper ---


class FakeConnection:
    closed = False

    def close(self) -> None:
        self.closed = True


def keeper(monkeypatch: pytest.MonkeyPatch, ask: Any) -> Keeper[Any]:
    monkeypatch.setattr("pgflash.agent.keeper.connect", lambda _parts, _timeout: FakeConnection())
    made: Keeper[Any] = Keeper("test", {}, 1, ask)
    made.start()
    return made


def test_a_server_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()
    made = keeper(monkeypatch, lambda _connection: goes_on.wait(60) and "there")
    assert made.get(0, 0.1) == (None, "the server has not answered within 0.1 s")
    goes_on.set()
    assert made.get(0, 60) == ("there", None)
    made.stop()


def test_answers_are_shared_while_they_are_young(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def ask(_connection: Any) -> int:
        asked.append(1)
        return len(asked)

    made = keeper(monkeypatch, ask)
    assert made.get(3600, 60) == (1, None)
    assert made.get(3600, 60) == (1, None)
    assert made.get(0, 60) == (2, None)
    made.stop()


def test_each_look_has_a_connection_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is kept goes on to answer while nobody can connect any more."""
    asked: list[Any] = []

    def ask(connection: Any) -> int:
        asked.append(connection)
        return len(asked)

    made = keeper(monkeypatch, ask)
    assert made.get(0, 60) == (1, None)
    assert made.get(0, 60) == (2, None)
    assert asked[0] is not asked[1] and asked[0].closed
    monkeypatch.setattr("pgflash.agent.keeper.connect", lambda _parts, _timeout: refuse(None))
    assert made.get(0, 60) == (None, "unexpected: OSError")
    made.stop()


@needs_server
def test_a_postmaster_that_has_stopped(folder: Path) -> None:
    """Its sessions would still answer."""
    server = Server(folder)
    postmaster = int((server.data / "postmaster.pid").read_text().split()[0])
    made: Keeper[Any] = Keeper("test", parsed(server.dsn, 1), 2, look)
    made.start()
    try:
        found, problem = made.get(0, 60)
        assert problem is None and found is not None and found.role == "primary"
        os.kill(postmaster, signal.SIGSTOP)
        try:
            assert made.get(0, 60) == (None, "no answer in time")
        finally:
            os.kill(postmaster, signal.SIGCONT)
        assert made.get(0, 60)[1] is None
    finally:
        made.stop()
        server.stop()


def refuse(_connection: Any) -> Any:
    raise OSError("tOpS3cret")


def test_a_server_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    made = keeper(monkeypatch, refuse)
    assert made.get(0, 60) == (None, "unexpected: OSError")
    made.stop()


@pytest.mark.parametrize(("text", "found"), [("127.0.0.1:1", ("127.0.0.1", 1)), ("[::]:8009", ("::", 8009)), ("0.0.0.0:0", ("0.0.0.0", 0))])
def test_addresses(text: str, found: tuple[str, int]) -> None:
    assert address(text) == found


@pytest.mark.parametrize("text", ["", "8009", ":8009", "h:x", "h:70000"])
def test_wrong_addresses(text: str) -> None:
    with pytest.raises(ArgumentError):
        address(text)


def printed(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pgflash", "agent", *arguments, "--systemd"]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)


def test_the_unit() -> None:
    done = printed("user=flash_agent dbname=100%", "--listen=10.0.0.1:8009", "--share=0.8")
    assert done.returncode == 0, done.stderr
    started = [line for line in done.stdout.splitlines() if line.startswith("ExecStart=")]
    assert started == [
        'ExecStart=/usr/bin/pgflash agent "user=flash_agent dbname=100%%" --listen 10.0.0.1:8009 --share 0.8 --timeout 2 --oldest 0.5'
    ]
    done = printed("user=flash_agent password=tOpS3cret")
    assert done.returncode == 2 and "tOpS3cret" not in done.stdout + done.stderr
    done = printed("user=flash_agent sslkey=/k sslpassword=tOpS3cret")
    assert done.returncode == 2 and "tOpS3cret" not in done.stdout + done.stderr and "sslpassword" in done.stderr


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("127.0.0.1:8009", "127.0.0.1:8009"), ("[::1]:8009", "[::1]:8009"), ("a b", '"a b"'), ("$HOME", '"$$HOME"'), ("%h", '"%%h"'),
        ("dbname='a\\'b\"'", "\"dbname='a\\\\'b\\\"'\""), ("user=x", '"user=x"'),
    ],
)  # fmt: skip
def test_words_in_a_unit(word: str, text: str) -> None:
    assert quoted(word) == text


def test_what_a_unit_cannot_have() -> None:
    with pytest.raises(ArgumentError, match="characters"):
        quoted("user=a\nExecStartPre=/bin/sh")
