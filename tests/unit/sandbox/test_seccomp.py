"""The seccomp filter, interpreted like the kernel does: it blocks the dangerous calls and no others."""

import errno
import os
import socket
import struct
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.sandbox.seccomp import system_call_filter

ALLOWED: Final = 0x7FFF0000
MISSING: Final = 0x00050000 | errno.ENOSYS
FORBIDDEN: Final = 0x00050000 | errno.EPERM
UNSUPPORTED: Final = 0x00050000 | errno.EAFNOSUPPORT
MACHINES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
SOCKET: Final = {"x86_64": 41, "aarch64": 198}
FAMILIES: Final = {socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, 16}
BLOCKED: Final = {
    "x86_64": {248, 249, 250, 425, 426, 427, 437},
    "aarch64": {217, 218, 219, 425, 426, 427, 437},
}
MODE_OF: Final = {
    "x86_64": {85: 1, 90: 1, 91: 1, 83: 1, 133: 1, 268: 2, 452: 2, 258: 2, 259: 2},
    "aarch64": {52: 1, 53: 2, 452: 2, 34: 2, 33: 2},
}
"""Calls, and which of their arguments is a mode."""
OPENING: Final = {"x86_64": {2: 1, 257: 2}, "aarch64": {56: 2}}
"""Calls that open a file, and which of their arguments are the flags; the mode comes next."""

machines: Final = st.sampled_from(sorted(MACHINES))
words: Final = st.integers(0, 2**32 - 1)


def decide(machine: str, call: int, *arguments: int, architecture: int | None = None) -> int:
    """Return the value that the filter of a machine returns for a call."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    call_data = struct.pack("IIQ6Q", call, MACHINES[machine] if architecture is None else architecture, 0, *padded)
    steps = list(struct.iter_unpack("HBBI", system_call_filter(machine)))
    at, loaded = 0, 0
    while True:
        code, yes, no, value = steps[at]
        at += 1
        match code:
            case 0x20:
                (loaded,) = struct.unpack_from("I", call_data, value)
            case 0x15:
                at += yes if loaded == value else no
            case 0x35:
                at += yes if loaded >= value else no
            case 0x45:
                at += yes if loaded & value else no
            case 0x06:
                return int(value)
            case _:
                pytest.fail(f"{code:#x} is not an instruction used here")


@pytest.mark.parametrize("machine", MACHINES)
def test_a_blocked_call_is_reported_as_missing(machine: str) -> None:
    assert {decide(machine, call) for call in BLOCKED[machine]} == {MISSING}


@given(machines, words)
def test_only_socket_families_bound_by_network_namespaces_are_allowed(machine: str, family: int) -> None:
    assert decide(machine, SOCKET[machine], family) == (ALLOWED if family in FAMILIES else UNSUPPORTED)


@given(machines, st.integers(0, 0o7777))
def test_no_setuid_or_setgid_file_can_be_created(machine: str, mode: int) -> None:
    expected = FORBIDDEN if mode & 0o6000 else ALLOWED
    for call, place in MODE_OF[machine].items():
        assert decide(machine, call, *[0o7777] * place, mode) == expected
    for call, place in OPENING[machine].items():
        for flags in (os.O_CREAT, 0o20000000, os.O_CREAT | os.O_EXCL):
            assert decide(machine, call, *[0] * place, flags | os.O_RDWR, mode) == expected
        assert decide(machine, call, *[0] * place, os.O_RDWR, mode) == ALLOWED  # the mode is ignored then


@given(machines, st.integers(0, 0x3FFFFFFF) | st.integers(0, 500), st.lists(words, max_size=6))
def test_every_other_call_is_allowed_with_any_arguments(machine: str, call: int, arguments: list[int]) -> None:
    if call not in {SOCKET[machine], *BLOCKED[machine], *MODE_OF[machine], *OPENING[machine]}:
        assert decide(machine, call, *arguments) == ALLOWED


@given(machines, st.integers(0, 500), words)
def test_calls_of_another_architecture_are_reported_as_missing(machine: str, call: int, other: int) -> None:
    if other != MACHINES[machine]:
        assert decide(machine, call, architecture=other) == MISSING
    assert decide(machine, call | 0x40000000) == MISSING


def test_an_unknown_architecture_has_no_filter() -> None:
    assert system_call_filter("pdp11") == b""
