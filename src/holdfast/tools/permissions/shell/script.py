"""What the parser finds in a shell command: its programs, the files it redirects, and what stayed unclear."""

from enum import StrEnum
from typing import TypeAlias

import msgspec

ShellWords: TypeAlias = tuple[str | None, ...]
"""The words of a command as the program gets them; any number of them that are only known when it runs are one null."""


class FileAccess(StrEnum):
    """What is done to a file."""

    READ = "read"
    WRITE = "write"


class ShellProgram(msgspec.Struct, frozen=True, kw_only=True):
    """One simple command."""

    words: ShellWords
    transparent: bool = False
    """It does nothing but run another, which is found as well, or nothing that matters: it needs nobody's leave."""
    opaque: bool = False
    """It may run others that cannot be seen here: a script, or code in another language."""


class Redirection(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a redirection opens."""

    path: str | None
    access: FileAccess


class ShellScript(msgspec.Struct, frozen=True, kw_only=True):
    """All that a shell command does. While `unclear` says anything, that is not all."""

    programs: tuple[ShellProgram, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    cwd_changed: bool = False
    """It changes its folder, so that relative paths lead elsewhere."""
    unclear: tuple[str, ...] = ()
    """Why more may run than was found."""
