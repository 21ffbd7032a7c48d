#!/usr/bin/env python3
"""Makes a seccomp profile that lets the cache work, of the one that a container engine has anyway.

usage: seccomp.py [PROFILE]     the new profile goes to standard output
  PROFILE     a file of the engine's, or - for standard input; default: that of podman, /usr/share/containers/seccomp.json

Added are io_uring, without which the cache is off (docs/operation.md, Without io_uring), and cachestat, by which it asks what is in
the page cache. Nothing else is changed. io_uring has had holes in the kernel, which is why engines forbid it; keep the kernel current.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

DEFAULT = "/usr/share/containers/seccomp.json"
CALLS = ("io_uring_setup", "io_uring_enter", "io_uring_register", "cachestat")
ALLOW = "SCMP_ACT_ALLOW"


def unconditional(rule: dict[str, Any]) -> bool:
    return not any(rule.get(key) for key in ("args", "includes", "excludes"))


def widened(profile: dict[str, Any]) -> dict[str, Any]:
    """With a rule for those that are not allowed yet; rules that refuse them are without them."""
    rules: list[dict[str, Any]] = profile["syscalls"]
    allowed = {name for rule in rules if rule["action"] == ALLOW and unconditional(rule) for name in rule["names"]}
    wanted = [name for name in CALLS if name not in allowed]
    kept = []
    for rule in rules:
        names = [name for name in rule["names"] if name not in wanted]
        if names:
            kept.append(rule | {"names": names})
    if wanted:
        kept.append({"names": wanted, "action": ALLOW, "comment": "for pg_flashcache"})
    return profile | {"syscalls": kept}


def main(arguments: list[str]) -> int:
    if len(arguments) > 1 or any(word.startswith("-") and word != "-" for word in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    path = arguments[0] if arguments else DEFAULT
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text("utf-8")
        profile = json.loads(text)
        if not all(isinstance(name, str) for rule in profile["syscalls"] for name in [rule["action"], *rule["names"]]) or any(
            isinstance(rule["names"], str) for rule in profile["syscalls"]
        ):
            raise ValueError
        if not str(profile["defaultAction"]).startswith("SCMP_ACT_"):
            raise ValueError
        if profile["defaultAction"] == ALLOW:
            print(f"{path}: allows whatever it does not name; nothing is missing there", file=sys.stderr)
        profile = widened(profile)
    except OSError as error:
        print(f"{path}: {error.strerror}; name the profile of your container engine", file=sys.stderr)
        return 3
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        print(f"{path} is no seccomp profile of a container engine (JSON with defaultAction and syscalls)", file=sys.stderr)
        return 3
    try:
        print(json.dumps(profile, indent=2), flush=True)
    except OSError as error:
        print(f"standard output: {error.strerror}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
