"""Seccomp filter against system calls that bypass the namespaces of a sandbox.

    keyrings    every process started by the server inherits its session keyring
    sockets     families for a hypervisor or hardware ignore the network namespace
    setuid      a setuid file in the working folder would give the server's rights to any user who runs it outside
    io_uring    does all of this without a visible call; the arguments of `openat2` cannot be inspected either

The filter is a classic BPF program. Calls of another architecture, such as those of 32-bit programs, are rejected.
"""

import errno
import os
import platform
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from stat import S_ISGID, S_ISUID
from typing import Final, NamedTuple

_RETURN_VALUES: Final = {
    "allowed": 0x7FFF0000,
    "missing": 0x00050000 | errno.ENOSYS,
    "forbidden": 0x00050000 | errno.EPERM,
    "unsupported": 0x00050000 | errno.EAFNOSUPPORT,
}
"""Return values for the kernel, in the order of the return instructions at the end of the program."""


class BpfInstruction(NamedTuple):
    """One instruction: a code, its value, and two jump targets: a return value, or a number of instructions to skip."""

    code: int
    value: int
    yes: str | int = 0
    no: str | int = 0


class Architecture(NamedTuple):
    """The audit id of an architecture, and its system call numbers."""

    audit_id: int
    calls: Mapping[str, int]


# fmt: off
_ARCHITECTURES: Final = {
    "x86_64": Architecture(0xC000003E, {
        "open": 2, "socket": 41, "mkdir": 83, "creat": 85, "chmod": 90, "fchmod": 91, "mknod": 133, "add_key": 248,
        "request_key": 249, "keyctl": 250, "openat": 257, "mkdirat": 258, "mknodat": 259, "fchmodat": 268,
        "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "openat2": 437, "fchmodat2": 452,
    }),
    "aarch64": Architecture(0xC00000B7, {
        "mknodat": 33, "mkdirat": 34, "fchmod": 52, "fchmodat": 53, "openat": 56, "socket": 198, "add_key": 217,
        "request_key": 218, "keyctl": 219, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
        "openat2": 437, "fchmodat2": 452,
    }),
}
# fmt: on
_BLOCKED_CALLS: Final = (
    *("add_key", "request_key", "keyctl"),
    *("io_uring_setup", "io_uring_enter", "io_uring_register", "openat2"),
)
# 16 is AF_NETLINK, by which programs read their own addresses.
_ALLOWED_SOCKET_FAMILIES: Final = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, 16)
_SETID_BITS: Final = S_ISUID | S_ISGID
_CREATE_FLAGS: Final = os.O_CREAT | 0o20000000  # O_TMPFILE; without either flag, `open` ignores the mode
_MODE_ARGUMENTS: Final[Mapping[str, Sequence[tuple[int, int]]]] = {
    **dict.fromkeys(("chmod", "fchmod", "creat", "mkdir", "mknod"), [(1, _SETID_BITS)]),
    **dict.fromkeys(("fchmodat", "fchmodat2", "mkdirat", "mknodat"), [(2, _SETID_BITS)]),
    "open": [(1, _CREATE_FLAGS), (2, _SETID_BITS)],
    "openat": [(2, _CREATE_FLAGS), (3, _SETID_BITS)],
}
"""Calls that set the mode of a file, with (argument, bits) pairs: a call is forbidden if every pair matches."""

_LOAD: Final = 0x20
_IF_EQUAL: Final = 0x15
_IF_AT_LEAST: Final = 0x35
_IF_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06
_CALL_OFFSET: Final = 0
_ARCHITECTURE_OFFSET: Final = 4
_ARGUMENTS_OFFSET: Final = 16
_X32_CALLS: Final = 0x40000000  # the second set of x86-64 calls begins here


def system_call_filter(machine: str | None = None) -> bytes:
    """Return the filter for `machine`, by default this one; empty for an unknown architecture."""
    architecture = _ARCHITECTURES.get(machine or platform.machine())
    return b"" if architecture is None else _assemble(list(_instructions(architecture)))


def _instructions(architecture: Architecture) -> Iterator[BpfInstruction]:
    calls = architecture.calls
    yield BpfInstruction(_LOAD, _ARCHITECTURE_OFFSET)
    yield BpfInstruction(_IF_EQUAL, architecture.audit_id, no="missing")
    yield BpfInstruction(_LOAD, _CALL_OFFSET)
    yield BpfInstruction(_IF_AT_LEAST, _X32_CALLS, yes="missing")
    yield from (BpfInstruction(_IF_EQUAL, calls[name], yes="missing") for name in _BLOCKED_CALLS)
    for name, bits in _MODE_ARGUMENTS.items():
        if name in calls:
            yield from _forbid_bits(calls[name], bits)
    yield BpfInstruction(_IF_EQUAL, calls["socket"], no="allowed")
    yield BpfInstruction(_LOAD, _ARGUMENTS_OFFSET)
    yield from (BpfInstruction(_IF_EQUAL, family, yes="allowed") for family in _ALLOWED_SOCKET_FAMILIES)
    yield BpfInstruction(_RETURN, _RETURN_VALUES["unsupported"])


def _forbid_bits(call: int, bits: Sequence[tuple[int, int]]) -> Iterator[BpfInstruction]:
    """Forbid a call if each of the listed arguments has one of its bits set."""
    yield BpfInstruction(_IF_EQUAL, call, no=2 * len(bits))
    for number, (argument, mask) in enumerate(bits, start=1):
        yield BpfInstruction(_LOAD, _ARGUMENTS_OFFSET + 8 * argument)
        yield BpfInstruction(_IF_ANY_BIT, mask, yes="forbidden" if number == len(bits) else 0, no="allowed")


def _assemble(instructions: Sequence[BpfInstruction]) -> bytes:
    """Append the return instructions, resolve the jumps, and return the program as bytes."""
    returns = {name: len(instructions) + index for index, name in enumerate(_RETURN_VALUES)}
    program = [*instructions, *(BpfInstruction(_RETURN, value) for value in _RETURN_VALUES.values())]

    def offset(target: str | int, position: int) -> int:
        return target if isinstance(target, int) else returns[target] - position - 1

    return b"".join(
        struct.pack("HBBI", step.code, offset(step.yes, position), offset(step.no, position), step.value)
        for position, step in enumerate(program)
    )
