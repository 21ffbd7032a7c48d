"""Patroni's REST API: what is read, what is refused, and that nothing secret goes where it should not."""

from __future__ import annotations

import base64
import contextlib
import socket
import threading

import pytest

from pgflash.cluster.find import find
from pgflash.cluster.patroni import LONGEST_ANSWER, Access, Patroni, checked_url
from pgflash.errors import ArgumentError, ServerError

from .fakes import fake_patroni


def test_members() -> None:
    with fake_patroni() as fake:
        fake.members = [
            fake.member("a", "leader", timeline=3), fake.member("b", "sync_standby", "streaming", lag=42, tags={"flash": "64GB"}),
            fake.member("c", state="starting", lag="unknown", pending_restart=True),
        ]  # fmt: skip
        a, b, c = Patroni([fake.url]).members()
        assert (a.leader, a.good, a.timeline, a.lag_bytes) == (True, True, 3, None)
        assert (b.leader, b.good, b.lag_bytes, b.tags) == (False, True, 42, {"flash": "64GB"})
        assert (c.good, c.lag_bytes, c.pending_restart) == (False, None, True)


def test_the_first_that_answers() -> None:
    with fake_patroni() as fake:
        fake.members = [fake.member("a", "leader")]
        assert [member.name for member in Patroni(["http://127.0.0.1:1", fake.url], Access(timeout_s=2)).members()] == ["a"]
    with pytest.raises(ServerError, match="Patroni does not answer"):
        Patroni(["http://127.0.0.1:1"], Access(timeout_s=2)).members()


@pytest.mark.parametrize("text", ["[]", "{}", '{"members": 1}', '{"members": [{}]}', '"x"'])
def test_something_else_answers(text: str) -> None:
    with fake_patroni() as fake:
        fake.text = text
        with pytest.raises(ServerError, match="not Patroni's REST API"):
            Patroni([fake.url]).members()


def test_no_json() -> None:
    with fake_patroni() as fake:
        fake.text = "<html>"
        with pytest.raises(ServerError, match="no JSON"):
            Patroni([fake.url]).members()


@pytest.mark.parametrize("text", ["", "ftp://x", "http://", "http://user:tOpS3cret@h", "http://h:x", "http://h?x"])
def test_wrong_urls(text: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        checked_url(text)
    assert "tOpS3cret" not in raised.value.message + raised.value.hint


@pytest.mark.parametrize(
    ("text", "url"), [("h", "http://h:8008"), ("https://h:1/x", "https://h:1"), ("http://[::1]:9", "http://[::1]:9"), ("h:7", "http://h:7")]
)
def test_urls(text: str, url: str) -> None:
    assert checked_url(text) == url


def test_changes_are_asked_with_the_password_and_looks_are_not() -> None:
    with fake_patroni() as fake:
        fake.members = [fake.member("a", "leader"), fake.member("b")]
        patroni = Patroni([fake.url], Access("admin", "secret"))
        patroni.restart(patroni.members()[1], 10)
        patroni.switch_over("a", "b", 10)
        word = "Basic " + base64.b64encode(b"admin:secret").decode()
        assert fake.asked == [
            ("GET", "/cluster", None, None), ("POST", "/restart", {}, word), ("GET", "/cluster", None, None),
            ("POST", "/switchover", {"leader": "a", "candidate": "b"}, word),
        ]  # fmt: skip


def test_a_refusal_is_an_error() -> None:
    with fake_patroni() as fake:
        fake.members = [fake.member("a", "leader"), fake.member("b")]
        fake.status = {"/restart": 401, "/switchover": 412}
        patroni = Patroni([fake.url])
        with pytest.raises(ServerError, match="restart of b: Patroni refuses with status 401") as raised:
            patroni.restart(patroni.members()[1], 10)
        assert "PGFLASH_API_PASSWORD" in raised.value.hint
        with pytest.raises(ServerError, match="status 412"):
            patroni.switch_over("a", "b", 10)
        with pytest.raises(ServerError, match="b is not the leader"):
            patroni.switch_over("b", "a", 10)


def test_a_redirection_is_not_followed() -> None:
    with fake_patroni() as fake:
        fake.status = {"/cluster": 302}
        with pytest.raises(ServerError, match="status 302"):
            Patroni([fake.url]).members()


def test_members_are_reached_as_the_connection_string_says() -> None:
    with fake_patroni() as fake:
        fake.members = [fake.member("a", "leader"), {**fake.member("b"), "host": "10.0.0.2", "port": 5433}]
        found = find([{"user": "monitor", "dbname": "shop", "host": "vip", "port": "1"}], Patroni([fake.url]), 1)
        assert [(node.name, node.parts) for node in found.nodes] == [
            ("a", {"user": "monitor", "dbname": "shop", "host": "10.0.0.1", "port": "5432"}),
            ("b", {"user": "monitor", "dbname": "shop", "host": "10.0.0.2", "port": "5433"}),
        ]
        with pytest.raises(ArgumentError, match="one connection string"):
            find([{}, {}], Patroni([fake.url]), 1)


def test_a_byte_at_a_time_is_too_slow() -> None:
    """No single read of the answer is late."""
    end = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            client, _ = listening.accept()
            with client, contextlib.suppress(OSError):
                client.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
                while not end.wait(0.05):
                    client.sendall(b" ")

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        with pytest.raises(ServerError, match=r"Patroni does not answer \(not within 0.5 s\)"):
            Patroni([f"http://127.0.0.1:{listening.getsockname()[1]}"], Access(timeout_s=0.5)).members()
        thread.join(60)  # it is disconnected as well
        assert not thread.is_alive()
        end.set()


@pytest.mark.parametrize(
    ("text", "words"),
    [("[" * 100_000, "no JSON"), ('{"members": "' + "x" * LONGEST_ANSWER + '"}', "longer than 4 MB"), ('{"members": [1]}', "no members")],
)
def test_an_answer_that_is_too_much(text: str, words: str) -> None:
    with fake_patroni() as fake:
        fake.text = text
        with pytest.raises(ServerError, match=words):
            Patroni([fake.url]).members()


def test_what_is_no_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            client, _ = listening.accept()
            with client:
                client.recv(65536)
                client.sendall(b"SSH-2.0\r\n")

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(ServerError, match="no HTTP"):
            Patroni([f"http://127.0.0.1:{listening.getsockname()[1]}"], Access(timeout_s=30)).members()


def test_tags_are_flat() -> None:
    with fake_patroni() as fake:
        fake.members = [fake.member("a", tags={"flash": "64GB", "deep": [[[]]], "nofailover": True})]
        assert Patroni([fake.url]).members()[0].tags == {"flash": "64GB", "nofailover": True}
