"""Stdout and stderr as all commands use them: they take any text, and a stdout that is broken is told from all else."""

import errno
import io
import os
import sys
from typing import Final

UNPRINTED: Final = 4
"""The exit code of a command whose data could not be printed, however it went otherwise."""


class Unprinted(Exception):
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
            raise Unprinted(exc) from exc


def take_any_text() -> None:
    """Let characters that an encoding does not have be printed as their numbers."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def watch_stdout() -> None:
    """Raise `Unprinted` wherever stdout fails from now on."""
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


def give_up_stdout() -> None:
    """Let what is still in its buffers go nowhere: it would fail again when the process ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
