"""How commands print."""

import re
from contextlib import suppress
from typing import Annotated, Final, TypeAlias

import msgspec
import typer

JsonFlag: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What a terminal obeys in place of showing it."""


def print_json(value: object) -> None:
    """Print data on one line of stdout, at once."""
    print_line(msgspec.json.encode(value, enc_hook=str))


def print_line(line: bytes) -> None:
    """Print data that is JSON already."""
    typer.echo(line)


def say(words: str) -> None:
    """Print words for people, on stderr; where it takes none, nobody reads them, and that stops nothing."""
    with suppress(OSError):
        typer.echo(harmless(words), err=True)


def harmless(words: str) -> str:
    """Return words without what a terminal would obey: a model that was fooled may say such things."""
    return _CONTROLS.sub("�", words.replace("\r", ""))
