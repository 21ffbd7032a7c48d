"""The command pgflash agent."""

from __future__ import annotations

import re
import socket
import threading
from typing import Annotated

import typer
from rich.console import Console

from pgflash.agent.answers import Answers
from pgflash.agent.keeper import Keeper
from pgflash.agent.server import PLACES, AgentServer
from pgflash.cluster.look import look
from pgflash.connection import SECRETS, name_of, parsed
from pgflash.errors import ArgumentError, MachineError
from pgflash.monitoring.textfile import metrics_of
from pgflash.shown import json_text, visible

UNIT = """# Answers load balancers and Prometheus, as the user postgres, who needs no password here. Made by: pgflash agent --systemd
# Better a role of its own: CREATE ROLE flash_agent LOGIN IN ROLE pg_monitor; its password belongs into ~postgres/.pgpass.
# Where pip has installed pgflash, it is elsewhere: change ExecStart.
[Unit]
Description=pgflash agent: health and warmth of PostgreSQL and its flash cache
After=network-online.target
Wants=network-online.target

[Service]
User=postgres
ExecStart=/usr/bin/pgflash agent {arguments}
Restart=always
RestartSec=2
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=no
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
MemoryMax=256M
TasksMax=64

[Install]
WantedBy=multi-user.target
"""


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise ArgumentError(f"--listen {text!r} will not do", "allowed: ADDRESS:PORT, as in 127.0.0.1:8009, 0.0.0.0:8009 or [::]:8009")
    return host, int(port)


def quoted(word: str) -> str:
    """As ExecStart in a unit of systemd takes it: of quotes, of variables, of its own specifiers."""
    if any(not char.isprintable() for char in word):
        raise ArgumentError("the connection string has characters that a unit cannot have", "no ends of lines or control characters")
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$").replace("%", "%%")
    return text if re.fullmatch(r"[A-Za-z0-9_.:/\[\]-]+", word) else f'"{text}"'


def agent_command(
    conninfo: Annotated[str, typer.Argument(help="Connection string of the local server; default: libpq's environment.")] = "",
    listen: Annotated[str, typer.Option(metavar="ADDRESS:PORT", help="Where to listen; port 0: any that is free.")] = "127.0.0.1:8009",
    share: Annotated[float, typer.Option(min=0, max=1, help="What /warm asks for, if the request does not say.")] = 0.9,
    timeout: Annotated[float, typer.Option(min=0.1, max=60, help="Seconds after which a server that does not answer counts as down.")] = 2,
    oldest: Annotated[float, typer.Option(min=0, max=60, help="Seconds for which an answer of the server may be used again.")] = 0.5,
    systemd: Annotated[bool, typer.Option("--systemd", help="Print a unit for systemd with these options, and end.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="JSON on standard output, errors included.")] = False,
) -> None:
    """Answers over HTTP whether the local server is up, primary, replica, or warm, and its metrics."""
    where = address(listen)
    parts = parsed(conninfo, 1)
    if systemd:
        secret = next((name for name in SECRETS if name in parts), None)
        if secret:
            raise ArgumentError(f"the connection string has a {secret}", "a unit can be read by everybody: ~/.pgpass is for passwords")
        words = [conninfo] if conninfo else []
        words += ["--listen", listen, "--share", f"{share:g}", "--timeout", f"{timeout:g}", "--oldest", f"{oldest:g}"]
        unit = UNIT.format(arguments=" ".join(map(quoted, words)))
        print(json_text({"unit": unit}) if json_ else unit, end="")
        return
    looks = Keeper("look", parts, timeout, look)
    measured = Keeper("metrics", parts, max(timeout, 10), metrics_of)
    answers = Answers(looks, measured, share, oldest, timeout)
    try:
        server = AgentServer(where, answers, PLACES)
    except (OSError, socket.gaierror) as error:
        raise MachineError(f"cannot listen at {listen}: {error.strerror or error}", "--listen names another address or port") from None
    looks.start()
    measured.start()
    at = f"{where[0] if ':' not in where[0] else f'[{where[0]}]'}:{server.server_port}"
    told = f"listening at http://{at}, for {name_of(parts)}"
    print(json_text({"listening": at, "server": name_of(parts)}) if json_ else visible(told), flush=True)
    thread = threading.Thread(target=server.serve_forever, name="http", daemon=True)
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:  # by Ctrl-C or systemd: that is how it ends
        Console(stderr=True, highlight=False).print("ended")
    finally:
        server.shutdown()
        server.server_close()
