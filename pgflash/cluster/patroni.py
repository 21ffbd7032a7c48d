"""Patroni's REST API: who the members are, and what they are asked to do.

Any member answers for all; so several may be named, and the first that answers counts. Nothing of an answer is trusted to have the
right shape. A password for requests that change something comes from the environment or a file, and is never shown.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
import ssl
import threading
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pgflash.errors import ArgumentError, ServerError
from pgflash.shown import visible

LONGEST_ANSWER = 4 * 1024 * 1024  # bytes
LEADERS = ("leader", "master", "primary", "standby_leader")
GOOD_STATES = ("running", "streaming", "in archive recovery")


@dataclass(frozen=True)
class PatroniMember:
    """As /cluster has it."""

    name: str
    role: str
    state: str
    host: str
    port: int
    api_url: str
    timeline: int | None
    lag_bytes: int | None
    pending_restart: bool
    tags: Mapping[str, Any] = field(default_factory=dict)

    @property
    def leader(self) -> bool:
        return self.role in LEADERS

    @property
    def good(self) -> bool:
        return self.state in GOOD_STATES


@dataclass(frozen=True)
class Access:
    """How requests are made: certificates, and who asks for changes."""

    user: str = ""
    password: str = ""
    ca_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    timeout_s: float = 5.0

    def context(self) -> ssl.SSLContext:
        try:
            made = ssl.create_default_context(cafile=str(self.ca_file) if self.ca_file else None)
            if self.certificate:
                made.load_cert_chain(str(self.certificate), str(self.key) if self.key else None)
        except (OSError, ssl.SSLError) as error:
            raise ArgumentError(
                "a certificate for Patroni's REST API cannot be read", "--ca, --cert and --key name files in PEM"
            ) from error
        return made


def checked_url(text: str) -> str:
    """http://host:port or https://; a wrong one is not quoted, since it may hold a password."""
    try:
        parts = urllib.parse.urlsplit(text if "//" in text else f"http://{text}")
        port = parts.port
    except ValueError:
        parts, port = urllib.parse.urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
        raise ArgumentError("--patroni takes the address of a member's REST API", "as in http://10.0.0.2:8008; the user is in --api-user")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port or 8008}"


class Patroni:
    """The cluster that the members at these addresses belong to."""

    def __init__(self, urls: Sequence[str], access: Access | None = None) -> None:
        self.urls = [checked_url(url) for url in urls]
        self.access = access or Access()
        self._context = self.access.context() if any(url.startswith("https:") for url in self.urls) else None

    def request(self, method: str, url: str, body: Any = None, timeout_s: float | None = None) -> tuple[int, str]:
        """Status and text, all of it within the time; ServerError where nobody answers so. No proxy, and no redirection is followed:
        who is asked answers, and a password goes nowhere else."""
        longest_s = timeout_s or self.access.timeout_s
        where = url.partition("//")[2].partition("/")[0]
        found: list[tuple[int, str] | Exception] = []
        lines: list[socket.socket] = []

        def ask() -> None:
            try:
                with contextlib.closing(self._connection(url, longest_s)) as connection:
                    connection.connect()
                    lines.append(connection.sock)
                    found.append(self._answer(connection, method, url, body))
            except Exception as error:  # of any kind: it is Patroni's, and the text is ours
                found.append(error)

        # In a thread, since somebody who sends a byte a second is never late for a single read, and a name may be looked up for long.
        thread = threading.Thread(target=ask, name=f"patroni {where}", daemon=True)
        thread.start()
        thread.join(longest_s)
        if not found:
            for line in lines:
                with contextlib.suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)
            raise ServerError(f"{where}: Patroni does not answer (not within {longest_s:g} s)")
        answer = found[0]
        if isinstance(answer, Exception):
            why = str(answer) if isinstance(answer, OSError | ServerError) else f"no HTTP: {type(answer).__name__}"
            raise ServerError(f"{where}: Patroni does not answer ({visible(why)})")
        return answer

    def _connection(self, url: str, timeout_s: float) -> http.client.HTTPConnection:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme == "https":
            context = self._context or self.access.context()
            return http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=timeout_s, context=context)
        return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)

    def _answer(self, connection: http.client.HTTPConnection, method: str, url: str, body: Any) -> tuple[int, str]:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if method != "GET" and self.access.user:
            word = base64.b64encode(f"{self.access.user}:{self.access.password}".encode()).decode()
            headers["Authorization"] = f"Basic {word}"
        parts = urllib.parse.urlsplit(url)
        connection.request(method, parts.path or "/", None if body is None else json.dumps(body), headers)
        with connection.getresponse() as answer:
            text = answer.read(LONGEST_ANSWER + 1)
        if len(text) > LONGEST_ANSWER:
            raise ServerError(f"its answer is longer than {LONGEST_ANSWER // 1024 // 1024} MB")
        return answer.status, text.decode("utf-8", "replace")

    def _get(self, path: str) -> Any:
        """From the first member that answers."""
        faults: list[str] = []
        for base in self.urls:
            try:
                status, text = self.request("GET", base + path)
                if status == 200:
                    return json.loads(text)
                faults.append(f"{base}{path}: status {status}")
            except ServerError as error:
                faults.append(error.message)
            except (ValueError, RecursionError):
                faults.append(f"{base}{path}: no JSON")
        raise ServerError("; ".join(faults), "--patroni may be given for several members")

    def members(self) -> list[PatroniMember]:
        found = self._get("/cluster")
        entries = found.get("members") if isinstance(found, dict) else None
        if not isinstance(entries, list) or not all(isinstance(entry, dict) and entry.get("name") for entry in entries):
            raise ServerError("what answers there is not Patroni's REST API: /cluster has no members")
        return [_member(entry) for entry in entries]

    def config(self) -> dict[str, Any]:
        found = self._get("/config")
        return found if isinstance(found, dict) else {}

    def restart(self, member: PatroniMember, timeout_s: float) -> None:
        """Returns when the server has been restarted."""
        self._change("POST", f"{_base(member.api_url)}/restart", {}, f"restart of {member.name}", timeout_s)

    def switch_over(self, leader: str, candidate: str, timeout_s: float) -> None:
        at = next((member for member in self.members() if member.name == leader), None)
        if at is None or not at.leader:
            raise ServerError(f"{leader} is not the leader any more")
        body = {"leader": leader, "candidate": candidate}
        self._change("POST", f"{_base(at.api_url)}/switchover", body, f"switch-over from {leader} to {candidate}", timeout_s)

    def _change(self, method: str, url: str, body: Any, what: str, timeout_s: float) -> None:
        status, text = self.request(method, url, body, timeout_s)
        if status not in (200, 202):
            hint = (
                "--api-user and PGFLASH_API_PASSWORD are what restapi.authentication in patroni.yml asks for"
                if status in (401, 403)
                else ""
            )
            raise ServerError(f"{what}: Patroni refuses with status {status}: {visible(text.strip()[:300])}", hint)


def _base(api_url: str) -> str:
    parts = urllib.parse.urlsplit(api_url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ServerError("Patroni names no address of the member's REST API")
    return f"{parts.scheme}://{parts.netloc}"


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _member(entry: dict[str, Any]) -> PatroniMember:
    tags = entry.get("tags")
    return PatroniMember(
        name=str(entry["name"]), role=str(entry.get("role", "")), state=str(entry.get("state", "")), host=str(entry.get("host", "")),
        port=_number(entry.get("port")) or 5432, api_url=str(entry.get("api_url", "")), timeline=_number(entry.get("timeline")),
        lag_bytes=_number(entry.get("lag")), pending_restart=entry.get("pending_restart") is True,
        # Such as Patroni has: nothing in them is nested.
        tags={name: value for name, value in tags.items() if not isinstance(value, dict | list)} if isinstance(tags, dict) else {},
    )  # fmt: skip
