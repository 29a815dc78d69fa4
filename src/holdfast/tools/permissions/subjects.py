"""What a rule of each tool is about: a path, a command, an agent, a host, or nothing but the tool itself."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.tools.permissions.shell.found import Access

BASH: Final = "bash"
WEB_FETCH: Final = "web_fetch"


class SubjectKind(StrEnum):
    """What a specifier is matched with."""

    PATH = "path"
    COMMAND = "command"
    AGENT = "agent"
    DOMAIN = "domain"


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The argument of a tool that its rules are about."""

    kind: SubjectKind
    argument: str
    access: frozenset[Access] = frozenset()
    """What the tool does to the contents of a path."""


_READS: Final = frozenset({Access.READ})
_WRITES: Final = frozenset({Access.WRITE})

SUBJECTS: Final[Mapping[str, Subject]] = {
    BASH: Subject(kind=SubjectKind.COMMAND, argument="command"),
    "read_file": Subject(kind=SubjectKind.PATH, argument="path", access=_READS),
    "grep": Subject(kind=SubjectKind.PATH, argument="path", access=_READS),
    "write_file": Subject(kind=SubjectKind.PATH, argument="path", access=_WRITES),
    "edit_file": Subject(kind=SubjectKind.PATH, argument="path", access=_READS | _WRITES),
    "list_dir": Subject(kind=SubjectKind.PATH, argument="path"),
    "glob": Subject(kind=SubjectKind.PATH, argument="path"),
    "agent_spawn": Subject(kind=SubjectKind.AGENT, argument="agent"),
    "agent_send": Subject(kind=SubjectKind.AGENT, argument="agent"),
    "agent_message": Subject(kind=SubjectKind.AGENT, argument="agent"),
    "task_create": Subject(kind=SubjectKind.AGENT, argument="agent"),
    "task_spawn": Subject(kind=SubjectKind.AGENT, argument="agent"),
    WEB_FETCH: Subject(kind=SubjectKind.DOMAIN, argument="url"),
}

BINDING: Final[Mapping[str, Access]] = {
    "read_file": Access.READ,
    "write_file": Access.WRITE,
    "edit_file": Access.WRITE,
}
"""Tools whose rules that deny or ask bind everything that does the same to a path, and not only calls of the tool."""
