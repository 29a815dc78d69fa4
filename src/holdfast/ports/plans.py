"""Plans, in the hands of people."""

from typing import Protocol

from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.plan import Plan, PlanItem
from holdfast.domain.plan_edit import PlanEdit


class Plans(Protocol):
    """What agents plan on threads."""

    async def of_run(self, space: SpaceId, run: RunId) -> Plan:
        """Return the plan of a run, with the edits that a live run has not taken in yet."""

    async def edit(self, space: SpaceId, thread: ThreadId, edit: PlanEdit, *, by: str | None = None) -> PlanItem:
        """Change the plan of a thread's newest run, and return the item as it is then.

        A live run is given the edit in its inbox, and takes it in before its next model call; one that ends before
        that leaves its plan without it. No two items of a thread receive the same number. A thread without a run has
        no plan to change, and one that is closed takes no edit (`Conflict`).
        """
