"""Permission policy: the rules of one agent, the chain of its ancestors, and the paths that they deny.

A run has at most the rights of its agent and of all its ancestors; the strictest decision wins. The rights of the
ancestors are stored as a value of the run when it is spawned; afterwards they are only narrowed, by rules that deny or
ask and were added since, and by grants that were removed. Path rules of an ancestor apply to the run's own working
folder, and to the ancestor's where the two overlap.

Tools that walk folders or follow links check `is_hidden` for each path; a sandbox masks hidden paths and mounts
read-only ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import lru_cache
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.agent import Agent, Permissions, TaintPolicy
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.permission import (
    RIGHTS_VALUE,
    PermissionAction,
    PermissionDecision,
    Rights,
    inherited_rights,
    strictest_decision,
)
from holdfast.domain.run_skills import skill_restrictions
from holdfast.domain.untrusted import inherited_taint, read_taint
from holdfast.domain.working_path import is_outside_workspace
from holdfast.tools.permissions.patterns import RuleMatch, normalize_path, path_pattern, relocate_pattern
from holdfast.tools.permissions.rules import (
    BASH_TOOL,
    PATH_RULE_ACCESS,
    RULE_SUBJECTS,
    WEB_FETCH_TOOL,
    PermissionRule,
    binding_decision,
    compile_rule,
)
from holdfast.tools.permissions.shell.script import FileAccess
from holdfast.tools.permissions.shell_policy import ShellPolicy

UNRESTRICTED_TOOLS: Final = frozenset(
    {
        "ask_user",
        "network",
        "skill_activate",
        "skill_catalog",
        "skill_context",
        "skill_describe",
        "skill_get",
        "skill_list",
    }
    | {"tool_activate", "tool_search"}
)
"""Tools that `allowed-tools` of a skill does not concern: they only find tools and skills, or ask the user."""
DEFAULT_APPROVAL_TOOLS: Final = frozenset({BASH_TOOL, WEB_FETCH_TOOL})
"""Tools that require approval unless a rule decides otherwise."""


class PermissionPolicy:
    """The rules of one agent."""

    def __init__(
        self, *, deny: Sequence[str], granted: Sequence[str], ask: Sequence[str], allow: Sequence[str]
    ) -> None:
        self.deny, self._granted, self._ask, self._allow = (
            [compile_rule(text) for text in texts] for texts in (deny, granted, ask, allow)
        )
        self.shell: Final = ShellPolicy(deny=self.deny, granted=self._granted, ask=self._ask, allow=self._allow)
        named = {rule.tool for rule in (*self.deny, *self._granted, *self._ask, *self._allow)}
        bound_access = {PATH_RULE_ACCESS.get(rule.tool) for rule in (*self.deny, *self._ask)}
        bound = {name for name, subject in RULE_SUBJECTS.items() if not subject.access.isdisjoint(bound_access)}
        self.governed_tools: frozenset[str] = DEFAULT_APPROVAL_TOOLS | named | bound
        """Tools whose calls need a decision; all others get their default."""

    def decide(
        self, tool: str, arguments: dict[str, Json], *, default: PermissionAction = PermissionAction.ALLOW
    ) -> PermissionDecision:
        """Decide on a call; `default` applies if no rule matches."""
        if tool == BASH_TOOL:
            return self.shell.decide(arguments.get(RULE_SUBJECTS[BASH_TOOL].argument))
        return (
            binding_decision([(rule, rule.binds(tool, arguments)) for rule in self.deny], PermissionAction.DENY)
            or _allow_decision(self._granted, tool, arguments)
            or binding_decision([(rule, rule.binds(tool, arguments)) for rule in self._ask], PermissionAction.ASK)
            or _allow_decision(self._allow, tool, arguments)
            or PermissionDecision(action=default)
        )

    def with_grants(self, rules: Sequence[str]) -> "PermissionPolicy":
        """Return the policy with more granted rules."""
        deny, granted, ask, allow = (
            tuple(rule.text for rule in own) for own in (self.deny, self._granted, self._ask, self._allow)
        )
        return _cached_policy(deny, (*granted, *rules), ask, allow)


def permission_policy(permissions: Permissions, granted: Sequence[str] = ()) -> PermissionPolicy:
    """Return the policy of these rules, from a cache."""
    return _cached_policy(tuple(permissions.deny), tuple(granted), tuple(permissions.ask), tuple(permissions.allow))


def _allow_decision(
    rules: Sequence[PermissionRule], tool: str, arguments: dict[str, Json]
) -> PermissionDecision | None:
    match = next((rule for rule in rules if rule.allows(tool, arguments)), None)
    return None if match is None else PermissionDecision(action=PermissionAction.ALLOW, rule=match.text)


@lru_cache(maxsize=256)
def _cached_policy(
    deny: tuple[str, ...], granted: tuple[str, ...], ask: tuple[str, ...], allow: tuple[str, ...]
) -> PermissionPolicy:
    return PermissionPolicy(deny=deny, granted=granted, ask=ask, allow=allow)


class PermissionChain:
    """The policies of an agent and of its ancestors: the strictest decision wins."""

    def __init__(
        self,
        agent: Agent,
        ancestors: Sequence[Rights] = (),
        *,
        folder: str | None = None,
        restrictions: Sequence[tuple[str, Sequence[str]]] = (),
    ) -> None:
        """Apply the rules to the working folder `folder`; path rules of ancestors also to their own.

        `restrictions` are rules of active skills, which only narrow what the others allow.
        """
        self.links: list[tuple[str, PermissionPolicy]] = [
            (name, permission_policy(relocate_permissions(permissions, origin=origin, to=folder), granted))
            for name, permissions, granted, origin in (
                (agent.name, agent.permissions, agent.granted, folder),
                *((one.agent, one.permissions, one.granted, one.folder) for one in ancestors),
            )
        ]
        self.restrictions: list[tuple[str, PermissionPolicy]] = [
            (skill, permission_policy(Permissions(allow=_valid_rules(rules)))) for skill, rules in restrictions
        ]
        """Active skills that narrow the tools: a call must be allowed by each."""
        self.requires_approval_when_tainted = TaintPolicy.ASK in (agent.tainted, *(one.tainted for one in ancestors))
        """Whether calls that reach beyond the workspace require approval once the run is tainted."""
        own = self.links[0][1].governed_tools
        self.governed_tools = own.union(*(policy.governed_tools for _, policy in self.links[1:])) if ancestors else own

    def with_grants(self, granted: Mapping[str, Sequence[str]]) -> "PermissionChain":
        """Return the chain with more granted rules, by agent."""
        chain = copy(self)
        chain.links = [
            (name, policy.with_grants(granted[name]) if name in granted else policy) for name, policy in self.links
        ]
        return chain

    def decide(
        self, tool: str, arguments: dict[str, Json], *, default: PermissionAction = PermissionAction.ALLOW
    ) -> PermissionDecision:
        """Return the strictest decision; one of an ancestor names its agent."""
        own, *inherited = self.decisions(tool, arguments, default=default)
        return strictest_decision(
            [
                own,
                *(replace(one, agent=name) for (name, _), one in zip(self.links[1:], inherited, strict=True)),
                *(self._skill_denials(tool, arguments) if self.restrictions else ()),
            ]
        )

    def _skill_denials(self, tool: str, arguments: dict[str, Json]) -> Iterator[PermissionDecision]:
        if tool in UNRESTRICTED_TOOLS:
            return
        for skill, policy in self.restrictions:
            decision = policy.decide(tool, arguments, default=PermissionAction.DENY)
            if decision.action is not PermissionAction.ALLOW:
                reason = f"refused: the active skill `{skill}` does not allow this call of `{tool}`"
                yield PermissionDecision(action=PermissionAction.DENY, reason=reason)

    def decisions(
        self, tool: str, arguments: dict[str, Json], *, default: PermissionAction
    ) -> list[PermissionDecision]:
        """Return the decision of each policy, that of the agent itself first."""
        return [policy.decide(tool, arguments, default=default) for _, policy in self.links]


def _valid_rules(rules: Sequence[str]) -> list[str]:
    """Return the rules that can be read: one that cannot, of a skill for another program, allows nothing."""
    valid = []
    for rule in rules:
        with suppress(Invalid):
            compile_rule(rule)
            valid.append(rule)
    return valid


def permission_chain(agent: Agent, values: Mapping[str, Json], *, folder: str | None = None) -> PermissionChain:
    """Return the permissions of a run of `agent` with these values, in the working folder `folder`."""
    ancestors = inherited_rights(values)
    restrictions = [*((one.agent, rules) for one in ancestors for rules in one.only), *skill_restrictions(values)]
    return PermissionChain(agent, ancestors, folder=folder, restrictions=restrictions)


def relocate_permissions(permissions: Permissions, *, origin: str | None, to: str | None) -> Permissions:
    """Return rules written for the working folder `origin` for a run in the folder `to`.

    Path rules also mean the same files where the folders overlap. In a folder outside the workspace, files are matched
    by their absolute path too.
    """
    outside = to is not None and is_outside_workspace(to)
    if to is None or origin is None or (to == origin and not outside):
        return permissions
    deny, ask = (
        [*rules, *(moved for rule in rules for moved in _relocate_rule(rule, origin=origin, to=to))]
        for rules in (permissions.deny, permissions.ask)
    )
    return replace(permissions, deny=deny, ask=ask)


def _relocate_rule(text: str, *, origin: str, to: str) -> list[str]:
    rule = compile_rule(text)
    if rule.path is None:
        return []
    origin = "/" if rule.path.text.startswith("/") else origin
    return (
        []
        if origin == to
        else [f"{rule.tool}({new})" for new in relocate_pattern(rule.path.text, origin=origin, to=to)]
    )


def values_for_child(agent: Agent, values: Mapping[str, Json], *, folder: str | None = None) -> dict[str, Json]:
    """Return the values of a run that `agent` spawns: the rights and folders of all its ancestors, and their taint."""
    own = Rights(
        agent=agent.name,
        permissions=agent.permissions,
        granted=agent.granted,
        tainted=agent.tainted,
        folder=folder,
        only=[rules for _, rules in skill_restrictions(values)],
    )
    return {
        RIGHTS_VALUE: msgspec.to_builtins([*inherited_rights(values), own]),
        **inherited_taint(read_taint(values).names()),
    }


class DeniedPaths(msgspec.Struct, frozen=True, kw_only=True):
    """Path patterns as in rules; `**` matches everything."""

    hidden: tuple[str, ...] = ()
    """Paths that may not be read."""
    read_only: tuple[str, ...] = ()
    """Paths that may not be written."""

    def is_hidden(self, path: str) -> bool:
        """Return whether a path, relative to the working folder or absolute, may not be read."""
        return _any_match(self.hidden, path)

    def is_read_only(self, path: str) -> bool:
        """Return whether a path may not be written."""
        return _any_match(self.read_only, path)


def denied_paths(agent: Agent, values: Mapping[str, Json], *, folder: str | None = None) -> DeniedPaths:
    """Return the paths in `folder` that are denied to a run of `agent`, by its own rules or those of its ancestors."""
    patterns: dict[FileAccess, dict[str, None]] = {access: {} for access in FileAccess}
    for _, policy in permission_chain(agent, values, folder=folder).links:
        for rule in policy.deny:
            if rule.tool in PATH_RULE_ACCESS:
                patterns[PATH_RULE_ACCESS[rule.tool]]["**" if rule.path is None else rule.path.text] = None
    return DeniedPaths(hidden=tuple(patterns[FileAccess.READ]), read_only=tuple(patterns[FileAccess.WRITE]))


def denied_programs(agent: Agent, values: Mapping[str, Json]) -> frozenset[str]:
    """Return the names of the programs that rules deny to a run of `agent` with any arguments."""
    rules = [rule for _, policy in permission_chain(agent, values).links for rule in policy.deny]
    return frozenset(
        rule.command.program.rpartition("/")[2]
        for rule in rules
        if rule.command is not None and rule.command.any_arguments
    )


def _any_match(patterns: tuple[str, ...], path: str) -> bool:
    normal = normalize_path(path)
    return any(path_pattern(pattern).match(normal) is RuleMatch.YES for pattern in patterns)
