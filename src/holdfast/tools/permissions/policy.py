"""Permission policy: the rules of one agent, the chain of agents above it, and the paths they deny.

A run has at most the rights of its agent and of all runs that spawned it; the strictest decides. The rights of those
above are recorded as a value of the run when it is spawned, and do not change afterwards.

Tools that walk folders or follow links check `is_hidden` for each path; a sandbox covers hidden paths and mounts
read-only ones.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.agent import Agent, Permissions, TaintPolicy
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.permission import RIGHTS_VALUE, PermissionAction, PermissionDecision, Rights, strictest_decision
from holdfast.domain.untrusted import inherited_taint, read_taint
from holdfast.tools.permissions.patterns import RuleMatch, normalize_path, path_pattern
from holdfast.tools.permissions.rules import (
    BASH_TOOL,
    PATH_RULE_ACCESS,
    RULE_SUBJECTS,
    WEB_FETCH_TOOL,
    PermissionRule,
    binding_decision,
    compile_rule,
)
from holdfast.tools.permissions.shell.script import FileAccess, ShellScript
from holdfast.tools.permissions.shell_policy import ShellPolicy

DEFAULT_APPROVAL_TOOLS: Final = frozenset({BASH_TOOL, WEB_FETCH_TOOL})
"""Tools whose calls are asked for where no rule says otherwise."""


class PermissionPolicy:
    """The rules of one agent."""

    def __init__(
        self, *, deny: Sequence[str], granted: Sequence[str], ask: Sequence[str], allow: Sequence[str]
    ) -> None:
        self._deny, self._granted, self._ask, self._allow = (
            [compile_rule(text) for text in texts] for texts in (deny, granted, ask, allow)
        )
        self._shell = ShellPolicy(deny=self._deny, granted=self._granted, ask=self._ask, allow=self._allow)
        self.governed_tools: frozenset[str] = DEFAULT_APPROVAL_TOOLS | self._governed_tools()
        """Tools of which something is to be decided; all others are left to their default."""

    @property
    def deny(self) -> Sequence[PermissionRule]:
        """The rules that refuse."""
        return self._deny

    def decide(
        self, tool: str, arguments: dict[str, Json], *, default: PermissionAction = PermissionAction.ALLOW
    ) -> PermissionDecision:
        """Return what is done about a call."""
        if tool == BASH_TOOL:
            return self._shell.decide(arguments.get(RULE_SUBJECTS[BASH_TOOL].argument))
        decision = (
            binding_decision([(one, one.binds(tool, arguments)) for one in self._deny], PermissionAction.DENY)
            or _allow_decision(self._granted, tool, arguments)
            or binding_decision([(one, one.binds(tool, arguments)) for one in self._ask], PermissionAction.ASK)
            or _allow_decision(self._allow, tool, arguments)
        )
        return decision or PermissionDecision(action=default)

    def with_grants(self, rules: Sequence[str]) -> "PermissionPolicy":
        """Return the policy as it would be with more rules granted."""
        deny, granted, ask, allow = (
            tuple(one.text for one in texts) for texts in (self._deny, self._granted, self._ask, self._allow)
        )
        return _cached_policy(deny, (*granted, *rules), ask, allow)

    def parts_needing_approval(self, command: str) -> ShellScript:
        """Return the parts of a command that somebody must be asked about."""
        return self._shell.parts_needing_approval(command)

    def _governed_tools(self) -> frozenset[str]:
        named = {one.tool for one in (*self._deny, *self._granted, *self._ask, *self._allow)}
        binding = {PATH_RULE_ACCESS[one.tool] for one in (*self._deny, *self._ask) if one.tool in PATH_RULE_ACCESS}
        bound = {name for name, subject in RULE_SUBJECTS.items() if not subject.access.isdisjoint(binding)}
        return frozenset(named | bound)


def permission_policy(permissions: Permissions, granted: Sequence[str] = ()) -> PermissionPolicy:
    """Return the policy that some rules make, which is put together once."""
    return _cached_policy(tuple(permissions.deny), tuple(granted), tuple(permissions.ask), tuple(permissions.allow))


def agent_policy(agent: Agent) -> PermissionPolicy:
    """Return what an agent may do."""
    return permission_policy(agent.permissions, agent.granted)


def _allow_decision(
    rules: Sequence[PermissionRule], tool: str, arguments: dict[str, Json]
) -> PermissionDecision | None:
    found = next((one for one in rules if one.allows(tool, arguments)), None)
    return None if found is None else PermissionDecision(action=PermissionAction.ALLOW, rule=found.text)


@lru_cache(maxsize=256)
def _cached_policy(
    deny: tuple[str, ...], granted: tuple[str, ...], ask: tuple[str, ...], allow: tuple[str, ...]
) -> PermissionPolicy:
    return PermissionPolicy(deny=deny, granted=granted, ask=ask, allow=allow)


class PermissionChain:
    """An agent and those above it: the strictest of them decides."""

    def __init__(self, agent: Agent, above: Sequence[Rights] = ()) -> None:
        self.links: list[tuple[str, PermissionPolicy]] = [
            (agent.name, agent_policy(agent)),
            *((one.agent, permission_policy(one.permissions, one.granted)) for one in above),
        ]
        self.requires_approval_when_tainted = TaintPolicy.ASK in (agent.tainted, *(one.tainted for one in above))
        """Whether a person is asked about calls that reach beyond the workspace, once the run is tainted."""
        concerns = [policy.governed_tools for _, policy in self.links]
        self.governed_tools = concerns[0].union(*concerns[1:]) if above else concerns[0]

    def decide(
        self, tool: str, arguments: dict[str, Json], *, default: PermissionAction = PermissionAction.ALLOW
    ) -> PermissionDecision:
        """Return what is done about a call."""
        own, *above = self.decisions(tool, arguments, default=default)
        return strictest_decision(
            [own, *(replace(one, agent=name) for (name, _), one in zip(self.links[1:], above, strict=True))]
        )

    def decisions(
        self, tool: str, arguments: dict[str, Json], *, default: PermissionAction
    ) -> list[PermissionDecision]:
        """Return what each of them decides, the agent itself first."""
        return [policy.decide(tool, arguments, default=default) for _, policy in self.links]


def permission_chain(agent: Agent, values: Mapping[str, Json]) -> PermissionChain:
    """Return the rights of a run of `agent` with these values."""
    return PermissionChain(agent, inherited_rights(values))


def inherited_rights(values: Mapping[str, Json]) -> list[Rights]:
    """Return the rights of those above a run; what cannot be read is no reason to have more of them."""
    written = values.get(RIGHTS_VALUE)
    try:
        return [] if written is None else msgspec.convert(written, list[Rights])
    except msgspec.ValidationError as exc:
        raise Invalid(f"the rights of this run cannot be read: {exc}", value=RIGHTS_VALUE) from exc


def values_for_child(agent: Agent, values: Mapping[str, Json]) -> dict[str, Json]:
    """Return the values of a run that `agent` spawns: it has at most the rights of all above it, and their taint."""
    own = Rights(agent=agent.name, permissions=agent.permissions, granted=agent.granted, tainted=agent.tainted)
    return {
        RIGHTS_VALUE: msgspec.to_builtins([*inherited_rights(values), own]),
        **inherited_taint(read_taint(values).names()),
    }


class DeniedPaths(msgspec.Struct, frozen=True, kw_only=True):
    """Patterns of paths, as rules write them; `**` is everything."""

    hidden: tuple[str, ...] = ()
    """What may not be read."""
    read_only: tuple[str, ...] = ()
    """What may not be written."""

    def is_hidden(self, path: str) -> bool:
        """Say whether a path, relative to the working folder or absolute, may not be read."""
        return _any_match(self.hidden, path)

    def is_read_only(self, path: str) -> bool:
        """Say whether it may not be written."""
        return _any_match(self.read_only, path)


def denied_paths(agent: Agent, values: Mapping[str, Json]) -> DeniedPaths:
    """Return the paths that are denied to a run of `agent`, by its own rules or by those above it."""
    found: dict[FileAccess, dict[str, None]] = {access: {} for access in FileAccess}
    for _, policy in permission_chain(agent, values).links:
        for one in policy.deny:
            if one.tool in PATH_RULE_ACCESS:
                found[PATH_RULE_ACCESS[one.tool]]["**" if one.path is None else one.path.text] = None
    return DeniedPaths(hidden=tuple(found[FileAccess.READ]), read_only=tuple(found[FileAccess.WRITE]))


def _any_match(patterns: tuple[str, ...], path: str) -> bool:
    place = normalize_path(path)
    return any(path_pattern(pattern).match(place) is RuleMatch.YES for pattern in patterns)
