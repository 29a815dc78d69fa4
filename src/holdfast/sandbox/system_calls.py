"""System calls that a sandbox takes away, because they lead to what no namespace keeps apart.

    keyrings    that of the session in which the server was started comes down to all that it starts
    sockets     those towards a hypervisor, or hardware, know of no network that could be off
    setuid      a program of the working folder would lend the rights of the server to whoever runs it outside
    io_uring    does all of this without a call that could be seen here; the arguments of `openat2` could not be, either

It is a program for the kernel's seccomp, in the classic language of packet filters. Calls of another machine, as a
program of 32 bits would make, have other numbers: they are taken away altogether.
"""

import errno
import os
import platform
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from stat import S_ISGID, S_ISUID
from typing import Final, NamedTuple

_ANSWERS: Final = {
    "allowed": 0x7FFF0000,
    "missing": 0x00050000 | errno.ENOSYS,
    "forbidden": 0x00050000 | errno.EPERM,
    "unsupported": 0x00050000 | errno.EAFNOSUPPORT,
}
"""What the kernel is told, in the order in which they end the program."""


class Instruction(NamedTuple):
    """One step: what to do with a value, then which answer to give, or how many steps to pass over."""

    code: int
    value: int
    yes: str | int = 0
    no: str | int = 0


class Machine(NamedTuple):
    """What a machine calls itself, and the numbers of its calls."""

    name: int
    calls: Mapping[str, int]


# fmt: off
_MACHINES: Final = {
    "x86_64": Machine(0xC000003E, {
        "open": 2, "socket": 41, "mkdir": 83, "creat": 85, "chmod": 90, "fchmod": 91, "mknod": 133, "add_key": 248,
        "request_key": 249, "keyctl": 250, "openat": 257, "mkdirat": 258, "mknodat": 259, "fchmodat": 268,
        "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "openat2": 437, "fchmodat2": 452,
    }),
    "aarch64": Machine(0xC00000B7, {
        "mknodat": 33, "mkdirat": 34, "fchmod": 52, "fchmodat": 53, "openat": 56, "socket": 198, "add_key": 217,
        "request_key": 218, "keyctl": 219, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
        "openat2": 437, "fchmodat2": 452,
    }),
}
# fmt: on
_MISSING: Final = (
    *("add_key", "request_key", "keyctl"),
    *("io_uring_setup", "io_uring_enter", "io_uring_register", "openat2"),
)
_FAMILIES: Final = (
    socket.AF_UNIX,
    socket.AF_INET,
    socket.AF_INET6,
    16,
)  # by the last one programs find their addresses
_LENDING: Final = S_ISUID | S_ISGID
_MAKING: Final = os.O_CREAT | 0o20000000  # or a file that has no name yet; where neither is said, there is no mode
_MODES: Final[Mapping[str, Sequence[tuple[int, int]]]] = {
    **dict.fromkeys(("chmod", "fchmod", "creat", "mkdir", "mknod"), [(1, _LENDING)]),
    **dict.fromkeys(("fchmodat", "fchmodat2", "mkdirat", "mknodat"), [(2, _LENDING)]),
    "open": [(1, _MAKING), (2, _LENDING)],
    "openat": [(2, _MAKING), (3, _LENDING)],
}
"""Calls that give a file a mode, and which bits of which arguments they may not have all at once."""

_LOAD: Final = 0x20
_IF_EQUAL: Final = 0x15
_IF_AT_LEAST: Final = 0x35
_IF_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06
_CALL: Final = 0
_MACHINE: Final = 4
_ARGUMENTS: Final = 16
_OTHER_NUMBERS: Final = 0x40000000  # x86-64 has a second set of calls from here on


def system_call_filter(machine: str | None = None) -> bytes:
    """Return the program for a machine, this one unless it is named; none where its calls are not known."""
    known = _MACHINES.get(machine or platform.machine())
    return b"" if known is None else _assembled(list(_steps(known)))


def _steps(machine: Machine) -> Iterator[Instruction]:
    calls = machine.calls
    yield Instruction(_LOAD, _MACHINE)
    yield Instruction(_IF_EQUAL, machine.name, no="missing")
    yield Instruction(_LOAD, _CALL)
    yield Instruction(_IF_AT_LEAST, _OTHER_NUMBERS, yes="missing")
    yield from (Instruction(_IF_EQUAL, calls[name], yes="missing") for name in _MISSING)
    for name, bits in _MODES.items():
        if name in calls:
            yield from _unless_all(calls[name], bits)
    yield Instruction(_IF_EQUAL, calls["socket"], no="allowed")
    yield Instruction(_LOAD, _ARGUMENTS)
    yield from (Instruction(_IF_EQUAL, family, yes="allowed") for family in _FAMILIES)
    yield Instruction(_RETURN, _ANSWERS["unsupported"])


def _unless_all(call: int, bits: Sequence[tuple[int, int]]) -> Iterator[Instruction]:
    """Forbid a call of which each of some arguments has one of some bits."""
    yield Instruction(_IF_EQUAL, call, no=2 * len(bits))
    for place, (argument, wanted) in enumerate(bits, start=1):
        yield Instruction(_LOAD, _ARGUMENTS + 8 * argument)
        yield Instruction(_IF_ANY_BIT, wanted, yes="forbidden" if place == len(bits) else 0, no="allowed")


def _assembled(steps: Sequence[Instruction]) -> bytes:
    """Return steps, and the answers after them, as the kernel reads them."""
    ends = {answer: len(steps) + place for place, answer in enumerate(_ANSWERS)}
    program = [*steps, *(Instruction(_RETURN, value) for value in _ANSWERS.values())]

    def passed_over(to: str | int, at: int) -> int:
        return to if isinstance(to, int) else ends[to] - at - 1

    return b"".join(
        struct.pack("HBBI", step.code, passed_over(step.yes, at), passed_over(step.no, at), step.value)
        for at, step in enumerate(program)
    )
