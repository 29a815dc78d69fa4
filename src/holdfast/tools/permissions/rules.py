"""One rule, ready to be matched with calls."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.permission import PermissionAction, PermissionDecision, parse_rule
from holdfast.tools.permissions.commands import CommandPattern, command_pattern
from holdfast.tools.permissions.domains import DomainPattern, domain_pattern
from holdfast.tools.permissions.match import Match
from holdfast.tools.permissions.paths import PathPattern, normal, path_pattern
from holdfast.tools.permissions.shell.found import Access
from holdfast.tools.permissions.subjects import BINDING, SUBJECTS, SubjectKind

MAYBE: Final = "it may be about this call"


class Rule(msgspec.Struct, frozen=True, kw_only=True):
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
        return self._is_of(tool) and self._match(tool, arguments) is Match.YES

    def binds(self, tool: str, arguments: dict[str, Json]) -> Match:
        """Say whether it is about a call of its tool, or of one that does the same to a path."""
        if self._is_of(tool):
            return self._match(tool, arguments)
        subject = SUBJECTS.get(tool)
        if subject is None or BINDING.get(self.tool) not in subject.access:
            return Match.NO
        return self._match(tool, arguments)

    def binds_path(self, path: str | None, access: Access, *, moved: bool) -> Match:
        """Say whether it is about what a shell does to a path."""
        if BINDING.get(self.tool) is not access:
            return Match.NO
        return Match.YES if self.path is None else self.path.match(path, moved=moved)

    def _is_of(self, tool: str) -> bool:
        """Say whether it is a rule of this tool, or of all whose names begin so."""
        return self.tool == tool or (self.tool.endswith("*") and tool.startswith(self.tool[:-1]))

    def _match(self, tool: str, arguments: dict[str, Json]) -> Match:
        if self.bare:
            return Match.YES
        subject = SUBJECTS[tool]
        said = arguments.get(subject.argument, "." if subject.kind is SubjectKind.PATH else None)
        if not isinstance(said, str):
            return Match.MAYBE
        if self.path is not None:
            return self.path.match(normal(said))
        if self.domain is not None:
            return Match.YES if self.domain.fits(said) else Match.NO
        return Match.YES if self.agent is not None and fnmatchcase(said, self.agent) else Match.NO


def bound(matches: Sequence[tuple[Rule, Match]], verdict: PermissionAction) -> PermissionDecision | None:
    """Return what rules that deny or ask make of a call; what one may be about is asked for."""
    for one, match in matches:
        if match is Match.YES:
            return PermissionDecision(verdict=verdict, rule=one.text)
    for one, match in matches:
        if match is Match.MAYBE:
            return PermissionDecision(verdict=PermissionAction.ASK, rule=one.text, reason=MAYBE)
    return None


@lru_cache(maxsize=4096)
def rule(text: str) -> Rule:
    """Return a rule that was checked when it was loaded."""
    parts = parse_rule(text)
    kind = SUBJECTS[parts.tool].kind if parts.tool in SUBJECTS else None
    said = parts.specifier
    return Rule(
        text=text,
        tool=parts.tool,
        path=path_pattern(said) if said is not None and kind is SubjectKind.PATH else None,
        command=command_pattern(said) if said is not None and kind is SubjectKind.COMMAND else None,
        agent=said if kind is SubjectKind.AGENT else None,
        domain=domain_pattern(said) if said is not None and kind is SubjectKind.DOMAIN else None,
    )
