"""What is found in a shell command."""

from enum import StrEnum
from typing import TypeAlias

import msgspec

Words: TypeAlias = tuple[str | None, ...]
"""The words of a command as the program gets them; any number of them that are only known when it runs are one null."""


class Access(StrEnum):
    """What is done to a file."""

    READ = "read"
    WRITE = "write"


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """One simple command."""

    words: Words
    transparent: bool = False
    """It does nothing but run another, which is found as well, or nothing that matters: it needs nobody's leave."""
    hides: bool = False
    """It may run others that cannot be seen here: a script, or code in another language."""


class Touched(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a redirection opens."""

    path: str | None
    access: Access


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """All that a shell command does. While `unclear` says anything, that is not all."""

    programs: tuple[Program, ...] = ()
    touched: tuple[Touched, ...] = ()
    moved: bool = False
    """It changes its folder, so that relative paths lead elsewhere."""
    unclear: tuple[str, ...] = ()
    """Why more may run than was found."""
