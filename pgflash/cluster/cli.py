"""pgflash cluster: arguments and output."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from pgflash.cluster import show
from pgflash.cluster.find import Found, find
from pgflash.cluster.gather import Look, look_at
from pgflash.cluster.patroni import Access, Patroni
from pgflash.connection import parsed
from pgflash.errors import EXIT_ADVICE, EXIT_OK, EXIT_PROBLEM, EXIT_SERVER, ArgumentError, Interrupted, ServerError
from pgflash.shown import console, json_text, visible
from pgflash.top.cli import run_top
from pgflash.units import counted
from pgflash.usage import Commands

app = Commands(no_args_is_help=True, help="The caches of all nodes of a cluster: seen together, and changed one after the other.")
PASSWORD = "PGFLASH_API_PASSWORD"
PAUSE_S = 2.0

NodesArgument = Annotated[
    list[str] | None,
    typer.Argument(help="Connection strings of nodes; with --patroni one, that says how all are reached."),
]
PatroniOption = Annotated[
    list[str] | None, typer.Option("--patroni", metavar="URL", help="REST API of a member of Patroni's cluster; may be repeated.")
]
SearchOption = Annotated[
    bool, typer.Option("--search/--no-search", help="Also show nodes that those named know of: their list, standbys, Citus workers.")
]
TimeoutOption = Annotated[float, typer.Option(min=0.1, max=600, help="Seconds after which a node counts as down.")]
ShareOption = Annotated[float, typer.Option(min=0, max=1, help="Of the primary's pages that a warm standby has.")]
CaOption = Annotated[Path | None, typer.Option(metavar="FILE", help="Certificates that Patroni's REST API is checked with.")]
CertOption = Annotated[Path | None, typer.Option(metavar="FILE", help="Client certificate for Patroni's REST API.")]
KeyOption = Annotated[Path | None, typer.Option(metavar="FILE", help="Its key.")]
UserOption = Annotated[
    str, typer.Option(metavar="NAME", help=f"Who asks Patroni for changes; the password is in the environment, {PASSWORD}.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON on standard output, errors included.")]


def access(timeout: float, ca: Path | None, cert: Path | None, key: Path | None, user: str = "") -> Access:
    password = os.environ.get(PASSWORD, "")
    if user and not password:
        raise ArgumentError(f"--api-user {user} has no password", f"put it into the environment, {PASSWORD}")
    return Access(user, password, ca, cert, key, timeout)


def found(conninfo: list[str] | None, patroni: list[str] | None, search: bool, timeout: float, how: Access) -> Found:
    servers = [parsed(text, number) for number, text in enumerate(conninfo or [], 1)]
    return find(servers, Patroni(patroni, how) if patroni else None, timeout, search)


@app.command("status")
def status_command(
    conninfo: NodesArgument = None,
    patroni: PatroniOption = None,
    search: SearchOption = True,
    share: ShareOption = 0.9,
    timeout: TimeoutOption = 5,
    ca: CaOption = None,
    cert: CertOption = None,
    key: KeyOption = None,
    json_: JsonOption = False,
) -> None:
    """All nodes in one table: role, lag, state of the cache, hit ratio, warmth, and why something is not as it should be."""
    who = found(conninfo, patroni, search, timeout, access(timeout, ca, cert, key))
    looks = look_at(who.nodes, timeout)
    wrong = show.problems(looks)
    remarks = [*show.remarks(who, looks), *show.unasked(looks)]
    if json_:
        listed = [{"node": name, "problem": what} for name, what in wrong]
        print(json_text({"nodes": show.as_json(looks, share), "problems": listed, "remarks": remarks}))
    else:
        console().print(show.status(looks, share, remarks))
    if not all(item.ok for item in looks):
        raise typer.Exit(EXIT_SERVER)
    if wrong:
        raise typer.Exit(EXIT_PROBLEM)


@app.command("top")
def cluster_top_command(
    conninfo: NodesArgument = None,
    patroni: PatroniOption = None,
    search: SearchOption = True,
    interval: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds between two looks.")] = 2,
    timeout: TimeoutOption = 5,
    once: Annotated[bool, typer.Option("--once", help="Two looks, plain text, and the end.")] = False,
    ca: CaOption = None,
    cert: CertOption = None,
    key: KeyOption = None,
    json_: Annotated[bool, typer.Option("--json", help="Two looks as JSON on standard output, errors included, and the end.")] = False,
) -> None:
    """What the caches of all nodes do now: pgflash top of the nodes that are found."""
    who = found(conninfo, patroni, search, timeout, access(timeout, ca, cert, key))
    run_top([node.parts for node in who.nodes], interval, timeout, once, json_)


@app.command("warmth")
def warmth_command(
    conninfo: NodesArgument = None,
    patroni: PatroniOption = None,
    search: SearchOption = True,
    share: ShareOption = 0.9,
    node: Annotated[list[str] | None, typer.Option("--node", metavar="NAME", help="Only this standby; may be repeated.")] = None,
    wait: Annotated[float, typer.Option(min=0, max=86400, help="Seconds to wait until they are warm.")] = 0,
    timeout: TimeoutOption = 5,
    ca: CaOption = None,
    cert: CertOption = None,
    key: KeyOption = None,
    json_: JsonOption = False,
) -> None:
    """How much of the primary's cache each standby has. Exit status 10 if one is not warm, or there is none: the gate of a switch-over."""
    how = access(timeout, ca, cert, key)
    end = time.monotonic() + wait
    try:
        while True:
            try:
                who = found(conninfo, patroni, search, timeout, how)
                all_looks = look_at(who.nodes, timeout)
                looks = chosen(all_looks, node)
                status = _gate(looks, share)
            except ServerError:  # Patroni's members may all be busy for a moment
                if time.monotonic() >= end:
                    raise
                time.sleep(PAUSE_S)
                continue
            if status == EXIT_OK or time.monotonic() >= end:
                break
            time.sleep(min(PAUSE_S, max(0.0, end - time.monotonic())))
    except KeyboardInterrupt as error:
        raise Interrupted("interrupted") from error
    said = show.remarks(who, all_looks)
    if not any(item.seen is None or item.seen.standby for item in looks):
        said.append("no standby is known that could be warm" if not node else f"not a standby: {', '.join(node)}")
    if json_:
        print(json_text({"nodes": show.as_json(looks, share), "warm": status == EXIT_OK, "share": share, "remarks": said}))
    else:
        console().print(show.warm_table(looks, share, said))
    if status != EXIT_OK:
        raise typer.Exit(status)


def chosen(looks: list[Look], names: list[str] | None) -> list[Look]:
    if not names:
        return looks
    known = {item.node.name for item in looks}
    if unknown := [name for name in names if name not in known]:
        raise ArgumentError(f"there is no node {unknown[0]!r}", f"nodes: {', '.join(sorted(known)) or 'none'}")
    return [item for item in looks if item.node.name in names]


def _gate(looks: list[Look], share: float) -> int:
    """Of the standbys; one that is down is not warm. Without any, there is nothing to switch over to."""
    if not all(item.ok for item in looks):
        return EXIT_SERVER
    standbys = [item.seen for item in looks if item.seen and item.seen.standby]
    return EXIT_OK if standbys and all(seen.is_warm(share) for seen in standbys) else EXIT_ADVICE


@app.command("report")
def report_command(
    conninfo: NodesArgument = None,
    patroni: PatroniOption = None,
    search: SearchOption = True,
    interval: Annotated[float, typer.Option(min=1, max=86400, help="Seconds between the two looks that are compared.")] = 10,
    share: ShareOption = 0.9,
    rows: Annotated[int, typer.Option(min=1, max=1000, help="Relations to list.")] = 20,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it there, instead of standard output.")] = None,
    timeout: TimeoutOption = 5,
    ca: CaOption = None,
    cert: CertOption = None,
    key: KeyOption = None,
    json_: JsonOption = False,
) -> None:
    """One report of all nodes, or shards: what they read within an interval, in sum and each, by relation, and the advice on sizes."""
    from pgflash.cluster import report

    who = found(conninfo, patroni, search, timeout, access(timeout, ca, cert, key))
    try:
        made = report.make(who, interval, timeout, share, rows, quiet=json_ or not sys.stderr.isatty())
    except KeyboardInterrupt as error:
        raise Interrupted("interrupted") from error
    values: dict[str, Any] = made.as_json()
    if markdown:
        from pgflash.monitoring.textfile import replace_file

        replace_file(markdown, made.markdown())
        values["file"] = str(markdown)
    if json_:
        print(json_text(values))
    elif not markdown:
        print(made.markdown(), end="")
    if made.down:
        raise typer.Exit(EXIT_SERVER)


@app.command("apply")
def apply_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What is wanted, in TOML.")],
    conninfo: NodesArgument = None,
    patroni: PatroniOption = None,
    search: SearchOption = True,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Without, only what would be done is shown.")] = False,
    one_at_a_time: Annotated[
        bool, typer.Option("--one-at-a-time", show_default=False, help="One node after the other: the only way there is.")
    ] = True,
    switch_over: Annotated[
        bool, typer.Option("--switch-over", help="Before the leader is restarted, a warm replica takes over, by Patroni.")
    ] = False,
    timeout: TimeoutOption = 10,
    ca: CaOption = None,
    cert: CertOption = None,
    key: KeyOption = None,
    api_user: UserOption = "",
    json_: JsonOption = False,
) -> None:
    """Changes settings of the cache on all nodes, restarts where that is needed, and waits for warmth in between."""
    from pgflash.cluster.apply import Rolling
    from pgflash.cluster.wanted import load

    assert one_at_a_time
    wanted = load(file)
    if switch_over:
        wanted = replace(wanted, leader="switchover")
    how = access(timeout, ca, cert, key, api_user)
    who = found(conninfo, patroni, search, timeout, how)

    def tell(event: dict[str, Any]) -> None:
        print(json_text(event) if json_ else visible(words(event)), flush=True)

    rolling = Rolling(who.nodes, Patroni(patroni, how) if patroni else None, wanted, timeout, tell)
    if not yes:
        steps = rolling.plan()
        if json_:
            print(json_text({"steps": [step.as_json() for step in steps], "update_extension": list(wanted.update_extension)}))
            return
        for step in steps:
            print(visible(words({"event": "as wanted" if step.done else "planned", **step.as_json()})))
        for database in wanted.update_extension:
            print(visible(f"database {database}: ALTER EXTENSION pg_flashcache UPDATE, if there is a newer version"))
        print(
            "nothing was changed; --yes does it, in this order"
            if any(not step.done for step in steps) or wanted.update_extension
            else "nothing to do"
        )
        return
    try:
        changed = rolling.run()
    except KeyboardInterrupt as error:
        what = rolling.changed()
        hint = f"what was done stays: {what}; the same command goes on from there" if what else "nothing was changed"
        raise Interrupted("interrupted", hint) from error
    tell({"event": "end", "changed": changed})


def words(event: dict[str, Any]) -> str:
    """Of an event, for people."""
    node, kind = event.get("node", ""), event["event"]
    if kind in ("planned", "changing"):
        parts = [f"{name} = {change['to'] if change['to'] is not None else 'default'}"
                 + (f" (was {change['from']})" if change["from"] is not None else "") for name, change in event["settings"].items()]  # fmt: skip
        if event["reload"]:
            parts.append("reload, since not all that is written is in effect")
        if event["restart"]:
            parts.append(f"restart {event['restart']}")
        return f"{node}{' (leader)' if event['leader'] else ''}: {', '.join(parts)}"
    if kind == "waiting":
        return f"{node}: waiting: {event['for']}"
    if kind == "switching over":
        return f"switch-over from {event['from']} to {event['to']}"
    if kind == "extension updated":
        return f"{node}: extension updated to {event['to']} in database {event['database']}"
    if kind == "end":
        return f"{counted(event['changed'], 'change')} made" if event["changed"] else "nothing to do"
    return f"{node}: {kind}"
