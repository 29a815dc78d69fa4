"""What an agent may do: its rules, in the order in which they decide."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from holdfast.domain.agent import Agent, Permissions
from holdfast.domain.content import Json
from holdfast.domain.permission import PermissionAction, PermissionDecision
from holdfast.tools.permissions.rules import Rule, bound, rule
from holdfast.tools.permissions.shell.found import Script
from holdfast.tools.permissions.shell_policy import ShellPolicy
from holdfast.tools.permissions.subjects import BASH, BINDING, SUBJECTS, WEB_FETCH

ASKED_BY_DEFAULT: Final = frozenset({BASH, WEB_FETCH})
"""Tools whose calls are asked for where no rule says otherwise."""


class Policy:
    """The rules of one agent."""

    def __init__(
        self, *, deny: Sequence[str], granted: Sequence[str], ask: Sequence[str], allow: Sequence[str]
    ) -> None:
        self._deny, self._granted, self._ask, self._allow = (
            [rule(text) for text in texts] for texts in (deny, granted, ask, allow)
        )
        self._shell = ShellPolicy(deny=self._deny, granted=self._granted, ask=self._ask, allow=self._allow)
        self.concerns: frozenset[str] = ASKED_BY_DEFAULT | self._ruled()
        """Tools of which something is to be decided; all others are left to their default."""

    @property
    def deny(self) -> Sequence[Rule]:
        """The rules that refuse."""
        return self._deny

    def decide(
        self, tool: str, arguments: dict[str, Json], *, default: PermissionAction = PermissionAction.ALLOW
    ) -> PermissionDecision:
        """Return what is done about a call."""
        if tool == BASH:
            return self._shell.decide(arguments.get(SUBJECTS[BASH].argument))
        decision = (
            bound([(one, one.binds(tool, arguments)) for one in self._deny], PermissionAction.DENY)
            or _allowed(self._granted, tool, arguments)
            or bound([(one, one.binds(tool, arguments)) for one in self._ask], PermissionAction.ASK)
            or _allowed(self._allow, tool, arguments)
        )
        return decision or PermissionDecision(verdict=default)

    def granting(self, rules: Sequence[str]) -> "Policy":
        """Return the policy as it would be with more rules granted."""
        deny, granted, ask, allow = (
            tuple(one.text for one in texts) for texts in (self._deny, self._granted, self._ask, self._allow)
        )
        return _policy(deny, (*granted, *rules), ask, allow)

    def asked_for(self, command: str) -> Script:
        """Return the parts of a command that somebody must be asked about."""
        return self._shell.asked_for(command)

    def _ruled(self) -> frozenset[str]:
        named = {one.tool for one in (*self._deny, *self._granted, *self._ask, *self._allow)}
        binding = {BINDING[one.tool] for one in (*self._deny, *self._ask) if one.tool in BINDING}
        bound = {name for name, subject in SUBJECTS.items() if not subject.access.isdisjoint(binding)}
        return frozenset(named | bound)


def policy_of(permissions: Permissions, granted: Sequence[str] = ()) -> Policy:
    """Return the policy that some rules make, which is put together once."""
    return _policy(tuple(permissions.deny), tuple(granted), tuple(permissions.ask), tuple(permissions.allow))


def agent_policy(agent: Agent) -> Policy:
    """Return what an agent may do."""
    return policy_of(agent.permissions, agent.granted)


def _allowed(rules: Sequence[Rule], tool: str, arguments: dict[str, Json]) -> PermissionDecision | None:
    found = next((one for one in rules if one.allows(tool, arguments)), None)
    return None if found is None else PermissionDecision(verdict=PermissionAction.ALLOW, rule=found.text)


@lru_cache(maxsize=256)
def _policy(deny: tuple[str, ...], granted: tuple[str, ...], ask: tuple[str, ...], allow: tuple[str, ...]) -> Policy:
    return Policy(deny=deny, granted=granted, ask=ask, allow=allow)
