"""What came in and no call waits for: it is said to the model before its next call.

While calls wait, nothing may come between them and their results; what must be told later is held in a value.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.agent.mail import edits, ended_children, plan_edits, spoken, taints
from holdfast.agent.tainting import mark
from holdfast.agent.work import Work
from holdfast.domain.events.custom import PlanChanged
from holdfast.domain.inbox import InboxItem, is_from_person
from holdfast.domain.message import NewMessage
from holdfast.domain.plan import Plan
from holdfast.domain.plan_edit import PlanEdit, apply_edits
from holdfast.tools.builtin.plan import PLAN_VALUE as PLAN
from holdfast.tools.tool import encode_value

HELD: Final = "mail"
"""The value of a run that keeps what the model is to be told once its calls are answered."""


async def take_in(work: Work) -> None:
    """Let everything that came in enter the conversation."""
    items = work.mail.rest()
    held = _held(work)
    if not items and not held:
        return
    work.log.draft.add(messages=_with_new_ids(work, [*held, *spoken(items)]))
    if held:
        work.set_values({HELD: None})
    _take(work, items)
    await work.commit()


def hold(work: Work) -> None:
    """Keep what came in for later, so that the run can go on waiting."""
    items = work.mail.rest()
    if messages := spoken(items):
        work.set_values({HELD: msgspec.to_builtins([*_held(work), *messages])})
    _take(work, items)


def take_in_last(work: Work) -> None:
    """Keep what people said and changed, though the run ends before it reads it: whoever goes on from it does.

    The rest of what came in is of no use any more.
    """
    items = work.mail.rest()
    kept = [item for item in items if is_from_person(item)]
    work.log.draft.add(messages=_with_new_ids(work, [*_held(work), *spoken(kept)]), consumed=[i.number for i in items])
    if _held(work):
        work.set_values({HELD: None})
    _edit(work, kept)


def _take(work: Work, items: list[InboxItem]) -> None:
    work.log.draft.add(consumed=[item.number for item in items])
    exchange = work.conversation.open_exchange()
    mark(work, taints(items), at=None if exchange is None else exchange[0].sequence)
    _edit(work, items)
    work.log.tell(*ended_children(items))


def _edit(work: Work, items: Sequence[InboxItem]) -> None:
    work.set_values(edits(items))
    if changes := plan_edits(items):
        _change_plan(work, changes)


def _change_plan(work: Work, changes: Sequence[PlanEdit]) -> None:
    """Take in what people changed of the plan, and tell what it is then, even if nothing of it fits any more."""
    plan = apply_edits(msgspec.convert(work.values.get(PLAN) or {}, Plan), changes)
    work.set_values({PLAN: encode_value(plan)})
    work.log.tell(PlanChanged(items=plan.items))


def _with_new_ids(work: Work, messages: Sequence[NewMessage]) -> list[NewMessage]:
    """Return messages without the ids that were used before: somebody who says a thing twice must not end the run."""
    used = {message.id for message in work.conversation.messages}
    said = []
    for message in messages:
        said.append(replace(message, id=None) if message.id in used else message)
        if message.id is not None:
            used.add(message.id)
    return said


def _held(work: Work) -> list[NewMessage]:
    held = work.values.get(HELD)
    return msgspec.convert(held, list[NewMessage]) if held else []
