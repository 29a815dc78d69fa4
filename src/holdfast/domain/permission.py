"""What a call may: it is made, a person is asked first, or it is refused.

    deny ──► granted ──► ask ──► allow ──► the default of the tool

The first rule that matches decides. What a person granted by answering "always" comes before the rules that ask, since
it is the answer to them; it never comes before one that denies.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.domain.agent import Permissions, TaintPolicy
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.idempotency import request_digest

RIGHTS_VALUE: Final = "rights"
"""The value of a run that holds the rights of those who spawned it."""
APPROVALS_VALUE: Final = "approvals"
"""The value of a run that holds what people decided about calls that have not settled yet."""

_RULE: Final = re.compile(r"(?P<tool>[A-Za-z_][A-Za-z0-9_-]*\*?)(\((?P<specifier>.+)\))?", re.DOTALL)


class PermissionAction(StrEnum):
    """What is done about a call, the strictest last."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"

    @property
    def strictness(self) -> int:
        """How strict it is, to compare."""
        return list(PermissionAction).index(self)


class PermissionDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict, and why: the rule, or the default of the tool where there is none."""

    action: PermissionAction
    rule: str | None = None
    reason: str | None = None
    """What the rule does not say by itself."""
    agent: str | None = None
    """Whose rule it is, where that is not the agent that calls but one above it."""


class ParsedRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule in its parts: `bash(git *)` is about calls of `bash` that fit `git *`."""

    tool: str
    specifier: str | None = None


class Rights(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent was allowed when it spawned another: a child may at most what all above it may."""

    agent: str
    permissions: Permissions = Permissions()
    granted: list[str] = []
    tainted: TaintPolicy = TaintPolicy.ASK


def parse_rule(text: str) -> ParsedRule:
    """Return a rule in its parts."""
    found = _RULE.fullmatch(text)
    if found is None:
        raise Invalid(f"`{text}` is no rule: write the name of a tool, or `tool(specifier)`", field="rule")
    return ParsedRule(tool=found["tool"], specifier=found["specifier"])


def strictest_decision(decisions: Iterable[PermissionDecision]) -> PermissionDecision:
    """Return the strictest of some decisions, of several the first that has a rule; of none it is to allow."""
    default = PermissionDecision(action=PermissionAction.ALLOW)
    return max(decisions, key=lambda one: (one.action.strictness, one.rule is not None), default=default)


def call_digest(tool: str, arguments: Json) -> str:
    """Return what binds an approval to the exact call that was shown."""
    return request_digest([tool, arguments])
