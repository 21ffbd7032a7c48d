"""What the doctor would change, made by a program that measures its effect, and put back.

As `pgflash doctor --fix` and `--undo`, without a person: the caller says what may be changed, and has a file of its own for what was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pgflash.doctor.check import Change, Write
from pgflash.doctor.command import Session, look
from pgflash.doctor.fix import Fixer, Undo, changes, refusal


@dataclass(frozen=True)
class Treated:
    """In words: what was changed, and what was found besides, with the reason why it was left."""

    made: tuple[str, ...]
    left: tuple[str, ...]


class Treatment:
    def __init__(self, state: Path) -> None:
        self.undo = Undo(state)

    def make(self, conninfo: str, forbidden: Callable[[Change], str], flash: str = "") -> Treated:
        """forbidden: why a change may not be made, or nothing."""
        session = Session(conninfo)
        try:
            facts = session.facts(flash, "", 0, True)
            results = look(facts, [])
            fixer = Fixer(session.machine, self.undo, session.connection, facts.server)
            made, left = [], []
            for result, _, change in changes(results):
                if why := forbidden(change) or refusal(change, session.machine, facts.server):
                    left.append(f"{_words(change)} ({why})")
                else:
                    fixer.make(result, change)
                    made.append(_words(change))
        finally:
            session.close()
        left += [f"{found.subject}: {found.what}" for result in results for found in result.findings if found.change is None]
        return Treated(tuple(made), tuple(left))

    def put_back(self, conninfo: str) -> list[str]:
        """What could not be, in words; it stays in the file. Without a server, conninfo is empty, and its settings stay."""
        if not self.undo.path.exists():
            return []
        session = Session(conninfo)
        try:
            server = session.facts("", "", 0, True).server if conninfo else None
            fixer = Fixer(session.machine, self.undo, session.connection, server)
            return [words for words, done in fixer.try_each() if not done]
        finally:
            session.close()

    def forget(self) -> None:
        """What is noted is gone with the server and the device that it was of."""
        self.undo.path.unlink(missing_ok=True)


def _words(change: Change) -> str:
    return change.command if isinstance(change, Write) else f"{change.name} = {change.value}"
