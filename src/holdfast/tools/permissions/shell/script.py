"""The parsed form of a shell command: its programs, its redirections, and the parts that stayed unclear."""

from enum import StrEnum
from typing import TypeAlias

import msgspec

ShellWords: TypeAlias = tuple[str | None, ...]
"""The words of a command as the program receives them; null stands for any number of words known only at run time."""


class FileAccess(StrEnum):
    """How a file is used."""

    READ = "read"
    WRITE = "write"


class ShellProgram(msgspec.Struct, frozen=True, kw_only=True):
    """One simple command."""

    words: ShellWords
    transparent: bool = False
    """It is harmless, or only runs another command, which is listed as well: it needs no rule of its own."""
    opaque: bool = False
    """It may run programs that the parser cannot see: a script, or code in another language."""


class Redirection(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a redirection opens; the path is null if it is only known at run time."""

    path: str | None
    access: FileAccess


class ShellScript(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a shell command does; it is complete only if `unclear` is empty."""

    programs: tuple[ShellProgram, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    cwd_changed: bool = False
    """The command changes its directory, so the meaning of its relative paths is unknown."""
    unclear: tuple[str, ...] = ()
    """Reasons why the command may do more than was found."""
