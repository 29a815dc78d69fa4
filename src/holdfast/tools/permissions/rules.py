"""Permission rules: what a rule of each tool is about, and whether it matches a call."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.permission import PermissionAction, PermissionDecision, parse_rule
from holdfast.tools.permissions.command_pattern import CommandPattern, command_pattern
from holdfast.tools.permissions.patterns import (
    DomainPattern,
    PathPattern,
    RuleMatch,
    domain_pattern,
    normalize_path,
    path_pattern,
)
from holdfast.tools.permissions.shell.script import FileAccess

BASH_TOOL: Final = "bash"
WEB_FETCH_TOOL: Final = "web_fetch"


class RuleSubjectKind(StrEnum):
    """What a specifier is matched with."""

    PATH = "path"
    COMMAND = "command"
    AGENT = "agent"
    DOMAIN = "domain"


class RuleSubject(msgspec.Struct, frozen=True, kw_only=True):
    """The argument of a tool that its rules are about."""

    kind: RuleSubjectKind
    argument: str
    access: frozenset[FileAccess] = frozenset()
    """What the tool does to the contents of a path."""


_READ_ACCESS: Final = frozenset({FileAccess.READ})
_WRITE_ACCESS: Final = frozenset({FileAccess.WRITE})

RULE_SUBJECTS: Final[Mapping[str, RuleSubject]] = {
    BASH_TOOL: RuleSubject(kind=RuleSubjectKind.COMMAND, argument="command"),
    "read_file": RuleSubject(kind=RuleSubjectKind.PATH, argument="path", access=_READ_ACCESS),
    "grep": RuleSubject(kind=RuleSubjectKind.PATH, argument="path", access=_READ_ACCESS),
    "write_file": RuleSubject(kind=RuleSubjectKind.PATH, argument="path", access=_WRITE_ACCESS),
    "edit_file": RuleSubject(kind=RuleSubjectKind.PATH, argument="path", access=_READ_ACCESS | _WRITE_ACCESS),
    "list_dir": RuleSubject(kind=RuleSubjectKind.PATH, argument="path"),
    "glob": RuleSubject(kind=RuleSubjectKind.PATH, argument="path"),
    "agent_spawn": RuleSubject(kind=RuleSubjectKind.AGENT, argument="agent"),
    "agent_send": RuleSubject(kind=RuleSubjectKind.AGENT, argument="agent"),
    "agent_message": RuleSubject(kind=RuleSubjectKind.AGENT, argument="agent"),
    "task_create": RuleSubject(kind=RuleSubjectKind.AGENT, argument="agent"),
    "task_spawn": RuleSubject(kind=RuleSubjectKind.AGENT, argument="agent"),
    WEB_FETCH_TOOL: RuleSubject(kind=RuleSubjectKind.DOMAIN, argument="url"),
}

PATH_RULE_ACCESS: Final[Mapping[str, FileAccess]] = {
    "read_file": FileAccess.READ,
    "write_file": FileAccess.WRITE,
    "edit_file": FileAccess.WRITE,
}
"""Tools whose rules that deny or ask bind everything that does the same to a path, and not only calls of the tool."""

POSSIBLE_MATCH_REASON: Final = "it may be about this call"


class PermissionRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule in its parts, of which at most one pattern is there."""

    text: str
    tool: str
    path: PathPattern | None = None
    command: CommandPattern | None = None
    agent: str | None = None
    domain: DomainPattern | None = None

    @property
    def bare(self) -> bool:
        """Whether it is about every call of its tool."""
        return self.text == self.tool

    def allows(self, tool: str, arguments: dict[str, Json]) -> bool:
        """Say whether it is about a call of exactly its tool, other than of a shell."""
        return self._is_of(tool) and self._match(tool, arguments) is RuleMatch.YES

    def binds(self, tool: str, arguments: dict[str, Json]) -> RuleMatch:
        """Say whether it is about a call of its tool, or of one that does the same to a path."""
        if self._is_of(tool):
            return self._match(tool, arguments)
        subject = RULE_SUBJECTS.get(tool)
        if subject is None or PATH_RULE_ACCESS.get(self.tool) not in subject.access:
            return RuleMatch.NO
        return self._match(tool, arguments)

    def binds_path(self, path: str | None, access: FileAccess, *, cwd_changed: bool) -> RuleMatch:
        """Say whether it is about what a shell does to a path."""
        if PATH_RULE_ACCESS.get(self.tool) is not access:
            return RuleMatch.NO
        return RuleMatch.YES if self.path is None else self.path.match(path, cwd_changed=cwd_changed)

    def _is_of(self, tool: str) -> bool:
        """Say whether it is a rule of this tool, or of all whose names begin so."""
        return self.tool == tool or (self.tool.endswith("*") and tool.startswith(self.tool[:-1]))

    def _match(self, tool: str, arguments: dict[str, Json]) -> RuleMatch:
        if self.bare:
            return RuleMatch.YES
        subject = RULE_SUBJECTS[tool]
        said = arguments.get(subject.argument, "." if subject.kind is RuleSubjectKind.PATH else None)
        if not isinstance(said, str):
            return RuleMatch.MAYBE
        if self.path is not None:
            return self.path.match(normalize_path(said))
        if self.domain is not None:
            return RuleMatch.YES if self.domain.matches(said) else RuleMatch.NO
        return RuleMatch.YES if self.agent is not None and fnmatchcase(said, self.agent) else RuleMatch.NO


def binding_decision(
    matches: Sequence[tuple[PermissionRule, RuleMatch]], verdict: PermissionAction
) -> PermissionDecision | None:
    """Return what rules that deny or ask make of a call; what one may be about is asked for."""
    for one, match in matches:
        if match is RuleMatch.YES:
            return PermissionDecision(action=verdict, rule=one.text)
    for one, match in matches:
        if match is RuleMatch.MAYBE:
            return PermissionDecision(action=PermissionAction.ASK, rule=one.text, reason=POSSIBLE_MATCH_REASON)
    return None


@lru_cache(maxsize=4096)
def compile_rule(text: str) -> PermissionRule:
    """Return a rule that was checked when it was loaded."""
    parts = parse_rule(text)
    kind = RULE_SUBJECTS[parts.tool].kind if parts.tool in RULE_SUBJECTS else None
    said = parts.specifier
    return PermissionRule(
        text=text,
        tool=parts.tool,
        path=path_pattern(said) if said is not None and kind is RuleSubjectKind.PATH else None,
        command=command_pattern(said) if said is not None and kind is RuleSubjectKind.COMMAND else None,
        agent=said if kind is RuleSubjectKind.AGENT else None,
        domain=domain_pattern(said) if said is not None and kind is RuleSubjectKind.DOMAIN else None,
    )
