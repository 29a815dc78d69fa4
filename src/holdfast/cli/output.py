"""Output of commands: data on stdout, messages on stderr, and the errors that end a command.

It imports nothing heavy, because every command imports it.
"""

import errno
import io
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import msgspec
import typer

EXIT_STDOUT_FAILED: Final = 4
"""Exit code of a command whose output could not be written to stdout."""


class StdoutError(Exception):
    """Writing to stdout failed; `quiet` for a broken pipe, which needs no message."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(cause.strerror or str(cause))
        self.quiet = cause.errno == errno.EPIPE


class _Stdout(io.FileIO):
    """Stdout whose errors are distinct from those of files and connections."""

    def write(self, data: object) -> int:
        """Write bytes; raise `StdoutError` on failure."""
        try:
            return super().write(data)  # type: ignore[arg-type]  # the type of the buffer
        except OSError as exc:
            raise StdoutError(exc) from exc


def open_missing_streams() -> None:
    """Open those of stdin, stdout and stderr that the caller closed; stdout then takes nothing, and says so."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            # An empty descriptor would be given to the next file or connection.
            descriptor = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            mode = "r" if name == "stdin" else "w"
            opened = _Stdout(descriptor, mode, closefd=False) if name == "stdout" else io.FileIO(descriptor, mode)
            buffer = io.BufferedReader(opened) if mode == "r" else io.BufferedWriter(opened)
            setattr(sys, name, io.TextIOWrapper(buffer, encoding="utf-8"))


def escape_unencodable() -> None:
    """Print characters that the output encoding lacks as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def detect_stdout_errors() -> None:
    """Raise `StdoutError` wherever stdout fails from now on."""
    old = sys.stdout
    if isinstance(old, io.TextIOWrapper) and old is sys.__stdout__:  # not replaced, as by a test runner
        raw = io.BufferedWriter(_Stdout(old.fileno(), "w", closefd=False))
        sys.stdout = io.TextIOWrapper(
            raw,
            encoding=old.encoding,
            errors=old.errors,
            line_buffering=old.line_buffering,
            write_through=old.write_through,
        )


def discard_stdout() -> None:
    """Send the buffered output to `/dev/null`: writing it at exit would fail again."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


JsonFlag: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
WorkspaceOption: TypeAlias = Annotated[
    Path, typer.Option("--workspace", "-w", metavar="DIR", readable=False, help="The workspace folder.")
]
DatabaseOption: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="URL", help="A `postgresql://` URL or a SQLite file; by default the workspace's own."),
]
PoolOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="A pool to take runs from, by default `default`; may be repeated."),
]

_CONTROL_CHARS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that control a terminal."""


def print_json(value: object) -> None:
    """Print a value as one line of JSON on stdout."""
    print_line(msgspec.json.encode(value, enc_hook=str))


def print_line(line: bytes) -> None:
    """Print a line of encoded data on stdout."""
    typer.echo(line)


def print_message(message: str) -> None:
    """Print a message on stderr; a closed stderr is ignored."""
    with suppress(OSError):
        typer.echo(strip_control_chars(message), err=True)


def strip_control_chars(text: str) -> str:
    """Return a text without control characters: model output may contain terminal escapes."""
    return _CONTROL_CHARS.sub("�", text.replace("\r", ""))
