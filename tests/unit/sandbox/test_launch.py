"""Start requests: a round trip keeps every field, and an invalid command is refused with the remedy."""

import errno
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import HoldfastError, Invalid, TooLarge, Unavailable
from holdfast.ports.sandbox import DEFAULT_PATH, Command
from holdfast.sandbox.launch import encode_request, start_error
from holdfast.sandbox.supervisor import StartRequest
from tests.unit.sandbox.commands import command

WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
NAMES = st.text(st.characters(exclude_characters="\0=", exclude_categories=["Cs"]), min_size=1)


@given(st.lists(WORDS), WORDS, st.dictionaries(NAMES, WORDS))
def test_the_supervisor_reads_what_the_worker_wrote(
    arguments: list[str], folder: str, environment: dict[str, str]
) -> None:
    read = StartRequest(
        encode_request(command("program", *arguments, folder=Path("/", folder), environment=environment))
    )
    assert [word.decode() for word in read.argv] == ["program", *arguments]
    assert read.folder.decode() == str(Path("/", folder))
    expected = {"PATH": DEFAULT_PATH, **environment}
    assert {name.decode(): value.decode() for name, value in read.environment.items()} == expected


@given(st.binary(), st.none() | st.integers(1), st.lists(WORDS))
def test_the_limits_survive_a_round_trip(filter: bytes, max_processes: int | None, names: list[str]) -> None:
    paths = [Path("/", name) for name in names]
    read = StartRequest(
        encode_request(
            command("program", "x", seccomp_filter=filter, max_processes=max_processes, read_only_devices=paths)
        )
    )
    assert (read.filter, read.max_processes) == (filter, max_processes or 0)
    assert [path.decode() for path in read.read_only_paths] == [str(path) for path in paths]
    assert (read.argv, read.folder) == ([b"program", b"x"], b"/")


def test_bytes_that_are_not_utf_8_survive_a_round_trip() -> None:
    assert StartRequest(encode_request(command("program", "\udcff"))).argv == [b"program", b"\xff"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"argv": []}, "put its name first"),
        ({"argv": [""]}, "put its name first"),
        ({"argv": ["true", "a\0b"]}, "pass such bytes as input"),
        ({"argv": ["true", "\ud800"]}, "remove its surrogates"),
        ({"folder": Path("here")}, "pass an absolute path"),
        ({"folder": Path("/a\0b")}, "pass such bytes as input"),
        ({"timeout": 0.0}, "`timeout` must be more than 0"),
        ({"timeout": float("nan")}, "`timeout` must be more than 0"),
        ({"output_limit": -1}, "`output_limit` must be 0 bytes or more"),
        ({"environment": {"": "x"}}, "must not be empty or contain `=`"),
        ({"environment": {"A=B": "x"}}, "must not be empty or contain `=`"),
        ({"environment": {"A": "x\0"}}, "pass such bytes as input"),
    ],
)
def test_an_invalid_command_is_refused_with_the_remedy(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        encode_request(Command(**{"argv": ["true"], "folder": Path("/"), "timeout": 1.0, **fields}))


@pytest.mark.parametrize(
    ("step", "number", "kind", "message"),
    [
        ("program", errno.E2BIG, TooLarge, "pass them as input"),
        ("program", errno.ELOOP, Invalid, "could not be started"),
        ("folder", errno.EACCES, Invalid, "is not accessible"),
        ("folder", errno.ENOTDIR, Invalid, "is not a folder"),
        ("filter", errno.EINVAL, Invalid, "this kernel lacks `CONFIG_SECCOMP_FILTER`"),
        ("program", errno.ETXTBSY, Unavailable, "could not be started"),
        ("fork", errno.EAGAIN, Unavailable, "could not be started"),
        ("fork", errno.ENOMEM, Unavailable, "could not be started"),
    ],
)
def test_a_temporary_start_error_differs_from_a_permanent_one(
    step: str, number: int, kind: type[HoldfastError], message: str
) -> None:
    error = start_error(command("program"), step=step, number=number)
    assert type(error) is kind
    assert message in error.message
    assert error.details == {"started": False}


def test_a_program_with_a_slash_is_not_searched_in_the_path() -> None:
    assert StartRequest(encode_request(command("./program"))).programs() == [b"./program"]


def test_a_program_without_a_slash_is_searched_in_the_path_in_order() -> None:
    request = StartRequest(encode_request(command("program", environment={"PATH": "/first::/second"})))
    assert request.programs() == [b"/first/program", b"/second/program"]
