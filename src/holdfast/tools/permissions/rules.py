"""Permission rules: which argument the rules of each tool match, and whether a rule matches a call."""

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
    """The kind of argument that a specifier matches."""

    PATH = "path"
    COMMAND = "command"
    AGENT = "agent"
    DOMAIN = "domain"


class RuleSubject(msgspec.Struct, frozen=True, kw_only=True):
    """The argument of a tool that its rules match."""

    kind: RuleSubjectKind
    argument: str
    access: frozenset[FileAccess] = frozenset()
    """How the tool uses the contents of a path."""


_READ_ACCESS: Final = frozenset({FileAccess.READ})
_WRITE_ACCESS: Final = frozenset({FileAccess.WRITE})
_AGENT_SUBJECT: Final = RuleSubject(kind=RuleSubjectKind.AGENT, argument="agent")

RULE_SUBJECTS: Final[Mapping[str, RuleSubject]] = {
    BASH_TOOL: RuleSubject(kind=RuleSubjectKind.COMMAND, argument="command"),
    "read_file": RuleSubject(kind=RuleSubjectKind.PATH, argument="path", access=_READ_ACCESS),
    "grep": RuleSubject(kind=RuleSubjectKind.PATH, argument="path", access=_READ_ACCESS),
    "write_file": RuleSubject(kind=RuleSubjectKind.PATH, argument="path", access=_WRITE_ACCESS),
    "edit_file": RuleSubject(kind=RuleSubjectKind.PATH, argument="path", access=_READ_ACCESS | _WRITE_ACCESS),
    "list_dir": RuleSubject(kind=RuleSubjectKind.PATH, argument="path"),
    "glob": RuleSubject(kind=RuleSubjectKind.PATH, argument="path"),
    "agent_spawn": _AGENT_SUBJECT,
    "agent_send": _AGENT_SUBJECT,
    "agent_message": _AGENT_SUBJECT,
    "task_create": _AGENT_SUBJECT,
    "task_spawn": _AGENT_SUBJECT,
    WEB_FETCH_TOOL: RuleSubject(kind=RuleSubjectKind.DOMAIN, argument="url"),
}

PATH_RULE_ACCESS: Final[Mapping[str, FileAccess]] = {
    "read_file": FileAccess.READ,
    "write_file": FileAccess.WRITE,
    "edit_file": FileAccess.WRITE,
}
"""Tools whose deny and ask rules bind every tool and command that uses a path in the same way."""


class PermissionRule(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed rule, with at most one pattern."""

    text: str
    tool: str
    path: PathPattern | None = None
    command: CommandPattern | None = None
    agent: str | None = None
    domain: DomainPattern | None = None

    @property
    def bare(self) -> bool:
        """Whether it matches every call of its tool."""
        return self.text == self.tool

    def allows(self, tool: str, arguments: dict[str, Json]) -> bool:
        """Return whether it matches a call of its own tool; commands of `bash` are matched by `CommandPattern`."""
        return self._names(tool) and self._match(tool, arguments) is RuleMatch.YES

    def binds(self, tool: str, arguments: dict[str, Json]) -> RuleMatch:
        """Return whether it matches a call of its tool, or of another tool that uses a path in the same way."""
        if not self._names(tool):
            subject = RULE_SUBJECTS.get(tool)
            if subject is None or PATH_RULE_ACCESS.get(self.tool) not in subject.access:
                return RuleMatch.NO
        return self._match(tool, arguments)

    def binds_path(self, path: str | None, access: FileAccess, *, cwd_changed: bool) -> RuleMatch:
        """Return whether it matches a file that a shell command opens."""
        if PATH_RULE_ACCESS.get(self.tool) is not access:
            return RuleMatch.NO
        return RuleMatch.YES if self.path is None else self.path.match(path, cwd_changed=cwd_changed)

    def _names(self, tool: str) -> bool:
        return self.tool == tool or (self.tool.endswith("*") and tool.startswith(self.tool[:-1]))

    def _match(self, tool: str, arguments: dict[str, Json]) -> RuleMatch:
        if self.bare:
            return RuleMatch.YES
        subject = RULE_SUBJECTS[tool]
        argument = arguments.get(subject.argument, "." if subject.kind is RuleSubjectKind.PATH else None)
        if not isinstance(argument, str):
            return RuleMatch.MAYBE
        if self.path is not None:
            return self.path.match(normalize_path(argument))
        if self.domain is not None:
            return RuleMatch.YES if self.domain.matches(argument) else RuleMatch.NO
        return RuleMatch.YES if self.agent is not None and fnmatchcase(argument, self.agent) else RuleMatch.NO


def binding_decision(
    matches: Sequence[tuple[PermissionRule, RuleMatch]], action: PermissionAction
) -> PermissionDecision | None:
    """Return the decision of deny or ask rules: `action` for a certain match, approval for a possible one."""
    for rule, match in matches:
        if match is RuleMatch.YES:
            return PermissionDecision(action=action, rule=rule.text)
    for rule, match in matches:
        if match is RuleMatch.MAYBE:
            reason = "the rule may match this call"
            return PermissionDecision(
                action=PermissionAction.ASK,
                rule=rule.text,
                reason=reason,
                possibly_denied=action is PermissionAction.DENY,
            )
    return None


@lru_cache(maxsize=4096)
def compile_rule(text: str) -> PermissionRule:
    """Return the rule of a text that was checked when it was loaded."""
    parsed = parse_rule(text)
    kind = RULE_SUBJECTS[parsed.tool].kind if parsed.tool in RULE_SUBJECTS else None
    specifier = parsed.specifier
    if specifier is None:
        return PermissionRule(text=text, tool=parsed.tool)
    return PermissionRule(
        text=text,
        tool=parsed.tool,
        path=path_pattern(specifier) if kind is RuleSubjectKind.PATH else None,
        command=command_pattern(specifier) if kind is RuleSubjectKind.COMMAND else None,
        agent=specifier if kind is RuleSubjectKind.AGENT else None,
        domain=domain_pattern(specifier) if kind is RuleSubjectKind.DOMAIN else None,
    )
