"""What was read from a shell command: its programs, its redirections, and why a rule cannot allow it."""

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
    """It may run programs that its command line does not name: a script, or code in another language."""
    may_run_words: bool = False
    """It is not known to run no other program, so that each of its words could name one that it runs."""


class Redirection(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a command opens; the path is null if it is only known at run time."""

    path: str | None
    access: FileAccess


class ShellScript(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a shell command does.

    `programs` and `redirections` are exact if `unclear` is empty; otherwise no rule may allow the command.
    """

    programs: tuple[ShellProgram, ...] = ()
    possible: tuple[ShellWords, ...] = ()
    """Further commands that it spells out and may run: a rule may deny them."""
    redirections: tuple[Redirection, ...] = ()
    cwd_changed: bool = False
    """The command changes its directory, so the meaning of its relative paths is unknown."""
    unclear: tuple[str, ...] = ()
    """The constructs that no rule can allow."""
    code: tuple[str, ...] = ()
    """The texts that were read as shell code: the command, and the code of `bash -c`, `eval` and `trap` in it."""
