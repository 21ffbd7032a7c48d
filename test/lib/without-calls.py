#!/usr/bin/env python3
"""Runs a command that may not make some system calls, as in a container with a seccomp profile.

usage: without-calls.py ERRNO CALL[,CALL...] COMMAND [ARGUMENT...]

ERRNO is a name such as EPERM, which the calls fail with; CALL is one of the names in CALLS. Everything that the command
starts is bound by it as well. Needs no privileges; x86-64 and 64-bit ARM only.
"""

import ctypes
import errno
import os
import platform
import struct
import sys

# The same numbers on both architectures.
CALLS: dict[str, int] = {"io_uring_setup": 425, "cachestat": 451}

# linux/audit.h
ARCHITECTURES: dict[str, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_MODE_FILTER = 2
SECCOMP_RET_ERRNO = 0x00050000
SECCOMP_RET_ALLOW = 0x7FFF0000

# Instructions of the classic packet filter, linux/bpf_common.h
LOAD_WORD = 0x20
JUMP_IF_EQUAL = 0x15
RETURN = 0x06

# struct seccomp_data
OFFSET_NUMBER = 0
OFFSET_ARCHITECTURE = 4


class Program(ctypes.Structure):
    """struct sock_fprog"""

    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def filter_program(architecture: int, numbers: list[int], error: int) -> bytes:
    """Lets everything pass but these calls."""
    program = [
        instruction(LOAD_WORD, OFFSET_ARCHITECTURE),
        instruction(JUMP_IF_EQUAL, architecture, 1, 0),
        instruction(RETURN, SECCOMP_RET_ALLOW),
        instruction(LOAD_WORD, OFFSET_NUMBER),
    ]
    for i, number in enumerate(numbers):
        program.append(instruction(JUMP_IF_EQUAL, number, len(numbers) - i, 0))
    program.append(instruction(RETURN, SECCOMP_RET_ALLOW))
    program.append(instruction(RETURN, SECCOMP_RET_ERRNO | error))
    return b"".join(program)


def main(arguments: list[str]) -> int:
    if len(arguments) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    error = getattr(errno, arguments[0])
    numbers = [CALLS[name] for name in arguments[1].split(",")]
    code = filter_program(ARCHITECTURES[platform.machine()], numbers, error)
    memory = ctypes.create_string_buffer(code, len(code))
    program = Program(len(code) // 8, ctypes.addressof(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    for call in (
        (PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)),
        (PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), ctypes.byref(program), ctypes.c_ulong(0), ctypes.c_ulong(0)),
    ):
        if libc.prctl(*call) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
    # The filter is no good if it lets pass what it should not.
    for number in numbers:
        if libc.syscall(ctypes.c_long(number), 0, 0, 0, 0) != -1 or ctypes.get_errno() != error:
            raise RuntimeError(f"system call {number} is still there")
    os.execvp(arguments[2], arguments[2:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
