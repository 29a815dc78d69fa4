"""Permissions of tool calls: a call is allowed, requires approval, or is denied.

    deny ──► granted ──► ask ──► allow ──► the default of the tool

The first rule that matches decides. Rules granted by an approval "always" take precedence over `ask` rules, which they
answer, but never over `deny` rules. A grant belongs to the space in which it was given.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.agent import Permissions, TaintPolicy
from holdfast.domain.agent_version import LiveRules
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.idempotency import request_digest
from holdfast.domain.ids import GrantId, InterruptId, RunId
from holdfast.domain.instant import Instant

RIGHTS_VALUE: Final = "rights"
"""The run value that holds the rights of its ancestors."""
APPROVALS_VALUE: Final = "approvals"
"""The run value that holds the approval decisions about unsettled calls."""

_RULE: Final = re.compile(r"(?P<tool>[A-Za-z_][A-Za-z0-9_-]*\*?)(\((?P<specifier>.+)\))?", re.DOTALL)


class PermissionAction(StrEnum):
    """Action for a call, the strictest last."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"

    @property
    def strictness(self) -> int:
        """Rank by strictness."""
        return list(PermissionAction).index(self)


class PermissionDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The decision about a call and its rule; without a rule it is the default of the tool."""

    action: PermissionAction
    rule: str | None = None
    reason: str | None = None
    """Explanation beyond the rule itself."""
    agent: str | None = None
    """The ancestor whose rule it is; null if it is the calling agent's own."""
    possibly_denied: bool = False
    """Whether it requires approval because a deny rule may match: a person may approve it as shown, not change it."""


class ParsedRule(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed rule: `bash(git *)` matches calls of `bash` that match `git *`."""

    tool: str
    specifier: str | None = None


class Rights(msgspec.Struct, frozen=True, kw_only=True):
    """Permissions of an agent at the time it spawned another; a child has at most the rights of all its ancestors."""

    agent: str
    permissions: Permissions = Permissions()
    granted: list[str] = []
    """Rules of `permissions.json`; those of the space are read when a call is decided."""
    tainted: TaintPolicy = TaintPolicy.ASK
    folder: str | None = None
    """Its working folder, which its path rules are about; null in runs of earlier versions."""
    only: list[list[str]] = []
    """`allowed-tools` of the skills that were active."""

    def narrowed(self, rules: LiveRules | None) -> "Rights":
        """Return the rights with the rules of the agent that hold now."""
        if rules is None:
            return self
        return replace(self, permissions=rules.applied_to(self.permissions), granted=list(rules.granted))


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that a person granted to an agent in a space; in force until it is revoked."""

    id: GrantId
    agent: str
    rule: str
    run_id: RunId
    """The run whose approval was answered with "always"."""
    interrupt_id: InterruptId
    created_by: str | None
    created_at: Instant
    revoked_by: str | None
    revoked_at: Instant | None


def granted_rules(metadata: Mapping[str, Json], response: Json) -> tuple[Sequence[str], Sequence[str]]:
    """Return the agents and the rules that a response to an approval grants them; both are empty if it grants nothing.

    Only rules that the approval offered can be granted, to the agents whose rules required it.
    """
    match response, metadata:
        case {"decision": "always", **chosen}, {"offers": [narrowest, *_] as offers, "asking": [*agents]}:
            rules: Json = chosen.get("rules", narrowest)
            return (agents, rules) if rules in offers else ((), ())
        case _:
            return (), ()


def inherited_rights(values: Mapping[str, Json]) -> list[Rights]:
    """Return the rights of the ancestors of a run, the root first; an unreadable value raises `Invalid`."""
    value = values.get(RIGHTS_VALUE)
    try:
        return [] if value is None else msgspec.convert(value, list[Rights])
    except msgspec.ValidationError as exc:
        raise Invalid(f"the rights of this run cannot be read: {exc}", value=RIGHTS_VALUE) from exc


def parse_rule(text: str) -> ParsedRule:
    """Parse a permission rule."""
    found = _RULE.fullmatch(text)
    if found is None:
        raise Invalid(f"`{text}` is not a rule: write the name of a tool, or `tool(specifier)`", field="rule")
    return ParsedRule(tool=found["tool"], specifier=found["specifier"])


def strictest_decision(decisions: Iterable[PermissionDecision]) -> PermissionDecision:
    """Return the strictest decision, preferring one with a rule; allow if there are none."""
    default = PermissionDecision(action=PermissionAction.ALLOW)
    return max(decisions, key=lambda one: (one.action.strictness, one.rule is not None), default=default)


def call_digest(tool: str, arguments: Json) -> str:
    """Return the digest that binds an approval to the exact call that was shown."""
    return request_digest([tool, arguments])
