"""Runs the command that restarts a node."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence

LONGEST = 4096  # bytes of what it says, from its end
POLL_S = 0.1


def run(command: Sequence[str], longest_s: float, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Its status, and the end of what it said. A server that it has started may have the same output, and keep it open for as long as it
    runs: nobody waits for that, or reads it. OSError, subprocess.TimeoutExpired."""
    end = time.monotonic() + longest_s
    said = b""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env) as process:
        assert process.stdout is not None
        line = process.stdout.fileno()
        os.set_blocking(line, False)
        try:
            while True:
                status = process.poll()
                part = _read(line)
                said = (said + part)[-LONGEST:]
                if status is not None:
                    return status, said.decode("utf-8", "replace")
                if time.monotonic() > end:
                    raise subprocess.TimeoutExpired(list(command), longest_s)
                if not part:
                    time.sleep(POLL_S)
        except BaseException:
            process.kill()
            raise


def _read(line: int) -> bytes:
    """What there is now."""
    try:
        return os.read(line, 1 << 16)
    except BlockingIOError:
        return b""
