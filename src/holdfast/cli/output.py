"""Output of commands: data on stdout, messages on stderr, and the errors that end a command.

It imports nothing heavy, because every command imports it.
"""

import errno
import io
import os
import re
import sys
from contextlib import suppress
from typing import Annotated, Final, TypeAlias

import msgspec
import typer

EXIT_STDOUT_FAILED: Final = 4
"""The exit code of a command whose data could not be printed, however it went otherwise."""


class StdoutError(Exception):
    """Stdout did not take what was printed; `quiet` if nobody is there who would want to know."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(cause.strerror or str(cause))
        self.quiet = cause.errno == errno.EPIPE


class _Stdout(io.FileIO):
    """Stdout, whose errors are not taken for those of files and connections."""

    def write(self, data: object) -> int:
        """Write some of it."""
        try:
            return super().write(data)  # type: ignore[arg-type]  # whatever the buffer has
        except OSError as exc:
            raise StdoutError(exc) from exc


def escape_unencodable() -> None:
    """Let characters that an encoding does not have be printed as their numbers."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def detect_stdout_errors() -> None:
    """Raise `StdoutError` wherever stdout fails from now on."""
    old = sys.stdout
    if isinstance(old, io.TextIOWrapper) and old is sys.__stdout__:  # nobody has put something else in its place
        raw = io.BufferedWriter(_Stdout(old.fileno(), "w", closefd=False))
        sys.stdout = io.TextIOWrapper(
            raw,
            encoding=old.encoding,
            errors=old.errors,
            line_buffering=old.line_buffering,
            write_through=old.write_through,
        )


def discard_stdout() -> None:
    """Let what is still in its buffers go nowhere: it would fail again when the process ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


JsonFlag: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

_CONTROL_CHARS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What a terminal obeys in place of showing it."""


def print_json(value: object) -> None:
    """Print data on one line of stdout, at once."""
    print_line(msgspec.json.encode(value, enc_hook=str))


def print_line(line: bytes) -> None:
    """Print data that is JSON already."""
    typer.echo(line)


def print_message(words: str) -> None:
    """Print words for people, on stderr; where it takes none, nobody reads them, and that stops nothing."""
    with suppress(OSError):
        typer.echo(strip_control_chars(words), err=True)


def strip_control_chars(words: str) -> str:
    """Return words without what a terminal would obey: a model that was fooled may say such things."""
    return _CONTROL_CHARS.sub("�", words.replace("\r", ""))


class ServerErrorDetail(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says it refuses, and why."""

    code: str
    message: str


class ServerRefused(Exception):
    """The server will not do it, however often it is asked."""

    def __init__(self, problem: ServerErrorDetail) -> None:
        super().__init__(problem.message)
        self.problem = problem
