"""Whether a person has said what a worker wants to have written: an agent must not grant itself anything."""

from collections.abc import Sequence

from holdfast.domain.commit import Lease
from holdfast.domain.errors import Conflict
from holdfast.domain.interrupt import Interrupt, InterruptKind, InterruptStatus
from holdfast.ports.queue import Interrupts


async def check_granted(interrupts: Interrupts, lease: Lease, *, agent: str, rules: Sequence[str]) -> None:
    """Raise `Conflict` unless somebody answered a question of the run with "always", and was shown just that."""
    asked = await interrupts.of_run(lease.space_id, lease.run_id)
    if not any(_grants(one, agent=agent, rules=list(rules)) for one in asked):
        raise Conflict(f"nobody has always allowed this to agent `{agent}`: ask a person first", rules=list(rules))


def _grants(asked: Interrupt, *, agent: str, rules: list[str]) -> bool:
    if asked.kind is not InterruptKind.APPROVAL or asked.status is not InterruptStatus.ANSWERED:
        return False
    match asked.response, asked.metadata:
        case {"decision": "always", **said}, {"offers": [narrowest, *_] as offers, "asking": [*asking]}:
            return rules in offers and rules == said.get("rules", narrowest) and agent in asking
        case _:
            return False
