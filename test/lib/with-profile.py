#!/usr/bin/python3
"""Runs a command under a seccomp profile of a container engine, as a container without any capability has it.

usage: with-profile.py PROFILE COMMAND [ARGUMENT...]

PROFILE is JSON with defaultAction, defaultErrnoRet and syscalls. Rules that need a capability do not count. Everything that the
command starts is bound by it as well. Needs python3-seccomp, and no privileges.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from typing import Any

import seccomp

NEWER = {"cachestat": 451}  # than the library
ARCHES = {"x86_64": "amd64", "aarch64": "arm64"}
COMPARISONS = {"SCMP_CMP_EQ": seccomp.EQ, "SCMP_CMP_NE": seccomp.NE, "SCMP_CMP_MASKED_EQ": seccomp.MASKED_EQ}


def applies(rule: dict[str, Any]) -> bool:
    here = ARCHES[platform.machine()]
    wants, not_with = rule.get("includes") or {}, rule.get("excludes") or {}
    return not wants.get("caps") and here in wants.get("arches", [here]) and here not in not_with.get("arches", [])


def argument(wanted: dict[str, Any]) -> seccomp.Arg:
    if wanted["op"] == "SCMP_CMP_MASKED_EQ":
        return seccomp.Arg(wanted["index"], seccomp.MASKED_EQ, wanted["value"], wanted["valueTwo"])
    return seccomp.Arg(wanted["index"], COMPARISONS[wanted["op"]], wanted["value"])


def filter_of(profile: dict[str, Any]) -> seccomp.SyscallFilter:
    refuse = seccomp.ERRNO(profile.get("defaultErrnoRet", 1))
    made = seccomp.SyscallFilter(refuse)
    for rule in profile["syscalls"]:
        if rule["action"] != "SCMP_ACT_ALLOW" or not applies(rule):
            continue
        for name in rule["names"]:
            number = NEWER.get(name) or seccomp.resolve_syscall(seccomp.Arch(), name)
            if number >= 0:
                made.add_rule(seccomp.ALLOW, number, *map(argument, rule.get("args") or []))
    return made


def main(arguments: list[str]) -> int:
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    with open(arguments[0], encoding="utf-8") as file:
        profile = json.load(file)
    filter_of(profile).load()
    os.execvp(arguments[1], arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
