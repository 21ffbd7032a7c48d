"""What goes wrong, and the exit status each kind ends the command with: docs/exit-status.md."""

from __future__ import annotations

from pathlib import Path

EXIT_OK = 0
EXIT_BUG = 1
EXIT_WRONG = 2
EXIT_MACHINE = 3
EXIT_BROKE_OFF = 4
EXIT_STUDY = 5
EXIT_SLOWER = 6
EXIT_SERVER = 7
EXIT_ADVICE = 10
EXIT_PROBLEM = 11
EXIT_INTERRUPTED = 130


class PgflashError(Exception):
    """A message for the user; never a traceback."""

    exit_code = EXIT_BUG
    kind = "error"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ScenarioError(PgflashError):
    """The scenario is wrong: every fault at once, each naming its key and what is allowed there."""

    exit_code = EXIT_WRONG
    kind = "scenario"

    def __init__(self, where: str, faults: list[str]) -> None:
        self.where = where
        self.faults = faults
        super().__init__("\n".join(f"{where}: {fault}" for fault in faults))


class ArgumentError(PgflashError):
    """An option or argument that the command does not have, or a value that it does not take."""

    exit_code = EXIT_WRONG
    kind = "argument"


class OutputError(ArgumentError):
    """A file of output that cannot be written where it was wanted. What it is made from is kept."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"{path} cannot be written: {error.strerror or error}", "name a file in a folder that this user may write to")


class MachineError(PgflashError):
    """Machine, server or role cannot do what is asked for: no root, no driver, no extension, no privilege, too little space."""

    exit_code = EXIT_MACHINE
    kind = "machine"


class BrokeOff(PgflashError):
    """Something failed while measuring or changing; what had been done is kept."""

    exit_code = EXIT_BROKE_OFF
    kind = "broke-off"


class Unreachable(BrokeOff):
    """The server that the command is for does not answer, or refuses the connection."""

    exit_code = EXIT_SERVER
    kind = "server"


class Refused(BrokeOff):
    """A statement that the server refuses: a privilege is lacking, or another session has a lock."""

    exit_code = EXIT_MACHINE
    kind = "machine"


class Locked(Refused):
    """Another session has a lock that was not granted in time: later it may be."""


class DiskFull(BrokeOff):
    """No space left: going on with the next arm would only fail again."""

    kind = "disk-full"


class Interrupted(PgflashError):
    """By Ctrl-C or a signal."""

    exit_code = EXIT_INTERRUPTED
    kind = "interrupted"


class StudyError(PgflashError):
    """A study's folder is not what the command needs: none, empty, of another scenario, in use."""

    exit_code = EXIT_STUDY
    kind = "study"


class ServerError(PgflashError):
    """A server that is to be looked at does not answer, or refuses the connection."""

    exit_code = EXIT_SERVER
    kind = "server"
