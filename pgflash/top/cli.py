"""The command pgflash top."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live

from pgflash.connection import parsed
from pgflash.errors import EXIT_SERVER, ArgumentError, Interrupted
from pgflash.shown import console, json_text
from pgflash.top.rates import RELATION_ORDERS, STATEMENT_ORDERS
from pgflash.top.screen import page
from pgflash.top.watch import Watcher, wait_for_all

REFRESH_S = 0.2


def top_command(
    conninfo: Annotated[list[str] | None, typer.Argument(help="Connection strings of servers; default: libpq's environment.")] = None,
    interval: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds between two looks.")] = 2,
    timeout: Annotated[float, typer.Option(min=0.1, max=600, help="Seconds after which a server counts as slow.")] = 5,
    once: Annotated[bool, typer.Option("--once", help="Two looks, plain text, and the end.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Two looks as JSON on standard output, errors included, and the end.")] = False,
) -> None:
    """What the caches of one or more servers do now, on a live screen."""
    run_top([parsed(text, number) for number, text in enumerate(conninfo or [""], 1)], interval, timeout, once, json_)


def run_top(servers: list[dict[str, str]], interval: float, timeout: float, once: bool, json_: bool) -> None:
    """Of servers, by the parts of their connection strings."""
    if not (once or json_) and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ArgumentError("the live screen needs a terminal", "--once prints plain text, and --json is for programs")
    watchers = [Watcher(parts, interval, timeout) for parts in servers]
    for watcher in watchers:
        watcher.start()
    try:
        if once or json_:
            try:
                _one_sample(watchers, interval, timeout, json_)
            except KeyboardInterrupt as error:
                raise Interrupted("interrupted") from error
        else:
            _live(watchers)
    finally:
        for watcher in watchers:
            watcher.stop()


def _one_sample(watchers: list[Watcher], interval: float, timeout: float, as_json: bool) -> None:
    wait_for_all(watchers, interval + 2 * timeout)
    views = [watcher.view() for watcher in watchers]
    if as_json:
        values: list[dict[str, Any]] = [
            {"name": view.name, "ok": view.ok, "problem": view.problem, **(view.rates.as_json() if view.rates else {})} for view in views
        ]
        print(json_text({"servers": values}))
    else:
        console().print(page(views, _first_good([view.ok for view in views]), RELATION_ORDERS[0], STATEMENT_ORDERS[0]))
    if not all(view.ok for view in views):
        raise typer.Exit(EXIT_SERVER)


def _first_good(good: list[bool]) -> int:
    return good.index(True) if True in good else 0


class State:
    """What the keys change."""

    def __init__(self, servers: int) -> None:
        self.servers = servers
        self.selected = 0
        self.relations = 0
        self.statements = 0
        self.ended = False

    def press(self, key: str) -> None:
        if key in ("q", "Q", "\x03", "\x04"):
            self.ended = True
        elif key == "n":
            self.selected = (self.selected + 1) % self.servers
        elif key == "p":
            self.selected = (self.selected - 1) % self.servers
        elif key == "o":
            self.relations = (self.relations + 1) % len(RELATION_ORDERS)
        elif key == "s":
            self.statements = (self.statements + 1) % len(STATEMENT_ORDERS)


@contextmanager
def _ended_by_signals(state: State) -> Iterator[None]:
    """Ctrl-C ends as q does. As a note, not as an exception: one in the middle of writing would leave the terminal as it is."""

    def end(_sign: int, _frame: FrameType | None) -> None:
        state.ended = True

    before = {sign: signal.signal(sign, end) for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


@contextmanager
def _keys() -> Iterator[int]:
    """Standard input, key by key; it is put back whatever happens."""
    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    try:
        tty.setcbreak(file)
        yield file
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)


def _live(watchers: list[Watcher]) -> None:
    screen = Console(highlight=False)
    state = State(len(watchers))

    def shown() -> Any:
        views = [watcher.view() for watcher in watchers]
        orders = RELATION_ORDERS[state.relations], STATEMENT_ORDERS[state.statements]
        return page(views, state.selected, *orders, (screen.size.width, screen.size.height), True, time.strftime("pgflash top   %H:%M:%S"))

    with _ended_by_signals(state), _keys() as file, Live(shown(), console=screen, screen=True, auto_refresh=False) as live:
        while not state.ended:
            live.update(shown(), refresh=True)
            ready, _, _ = select.select([file], [], [], REFRESH_S)
            if ready:
                pressed = os.read(file, 64).decode("utf-8", "replace")
                for key in pressed:
                    state.press(key)
                state.ended = state.ended or not pressed
