"""The rights of a run: those of its agent, and at most those of all that spawned it.

The rights of those above are written down when the run is spawned, as a value of it, and stay as they were then.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from holdfast.domain.agent import Agent, TaintPolicy
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.permission import RIGHTS_VALUE, PermissionAction, PermissionDecision, Rights, strictest_decision
from holdfast.domain.untrusted import inherited_taint, read_taint
from holdfast.tools.permissions.policy import Policy, agent_policy, policy_of


class Chain:
    """An agent and those above it: the strictest of them decides."""

    def __init__(self, agent: Agent, above: Sequence[Rights] = ()) -> None:
        self.links: list[tuple[str, Policy]] = [
            (agent.name, agent_policy(agent)),
            *((one.agent, policy_of(one.permissions, one.granted)) for one in above),
        ]
        self.asks_tainted = TaintPolicy.ASK in (agent.tainted, *(one.tainted for one in above))
        """Whether a person is asked about calls that reach beyond the workspace, once the run is tainted."""
        concerns = [policy.concerns for _, policy in self.links]
        self.concerns = concerns[0].union(*concerns[1:]) if above else concerns[0]

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


def chain_of(agent: Agent, values: Mapping[str, Json]) -> Chain:
    """Return the rights of a run of `agent` with these values."""
    return Chain(agent, inherited(values))


def inherited(values: Mapping[str, Json]) -> list[Rights]:
    """Return the rights of those above a run; what cannot be read is no reason to have more of them."""
    written = values.get(RIGHTS_VALUE)
    try:
        return [] if written is None else msgspec.convert(written, list[Rights])
    except msgspec.ValidationError as exc:
        raise Invalid(f"the rights of this run cannot be read: {exc}", value=RIGHTS_VALUE) from exc


def passed_on(agent: Agent, values: Mapping[str, Json]) -> dict[str, Json]:
    """Return the values of a run that `agent` spawns: it has at most the rights of all above it, and their taint."""
    own = Rights(agent=agent.name, permissions=agent.permissions, granted=agent.granted, tainted=agent.tainted)
    return {RIGHTS_VALUE: msgspec.to_builtins([*inherited(values), own]), **inherited_taint(read_taint(values).names())}
