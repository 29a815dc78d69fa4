"""What people said to a run, and changed of its plan, that ends before it reads it."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError, IdTaken
from holdfast.domain.inbox import InboxItem
from holdfast.domain.message import NewMessage
from holdfast.domain.plan import Plan
from holdfast.domain.plan_edit import PlanEdit, edited_by_all
from holdfast.domain.unread import edit_in, is_of_people, said_in
from holdfast.store.encoding import dump
from holdfast.store.inbox import to_item
from holdfast.store.messages import Tip, check_new_ids
from holdfast.store.prepared import message_row
from holdfast.store.run_rows import run_row_by_key
from holdfast.store.transaction import Row, Transaction
from holdfast.store.values import values_of

PLAN = "plan"


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be kept of an inbox."""

    said: Sequence[NewMessage]
    values: Mapping[str, Json]
    plan: Plan | None
    """With the edits, if there are any."""
    numbers: Sequence[int]


async def unread_of_people(tx: Transaction, run: Row) -> Unread:
    """Return what people told a run that is held, oldest first."""
    rows = await tx.all("inbox_of_run", run_key=run["run_key"])
    items = [item for item in map(to_item, rows) if is_of_people(item) and _can_be_kept(item)]
    edits = [edit for edit in map(edit_in, items) if edit is not None]
    changes = [edit.plan for edit in edits if edit.plan is not None]
    return Unread(
        said=await _with_new_ids(tx, run, [said for said in map(said_in, items) if said is not None]),
        values={name: value for edit in edits for name, value in edit.values.items()},
        plan=await plan_with(tx, await run_row_by_key(tx, run["run_key"]), changes) if changes else None,
        numbers=[item.number for item in items],
    )


async def plan_with(tx: Transaction, run: Row, edits: Sequence[PlanEdit]) -> Plan:
    """Return the plan of a run, as the view shows it, with those edits that still fit it."""
    return edited_by_all(msgspec.convert((await values_of(tx, run)).get(PLAN) or {}, Plan), edits)


async def keep_values(tx: Transaction, run_key: int, values: Mapping[str, Json], plan: Plan | None = None) -> None:
    """Keep values, and a plan if there is one, from the last message of their run on."""
    kept = dict(values) if plan is None else {**values, PLAN: msgspec.to_builtins(plan)}
    if not kept:
        return
    (last,) = await tx.many("last_sequences", [(run_key,)])
    await tx.many("add_values", [(run_key, name, last["last_sequence"], dump(value)) for name, value in kept.items()])


def _can_be_kept(item: InboxItem) -> bool:
    """Say whether an item is nothing that no table takes: such a one must not keep its run from ending."""
    said = said_in(item)
    try:
        return said is None or message_row(said) is not None
    except HoldfastError:
        return False


async def _with_new_ids(tx: Transaction, run: Row, messages: Sequence[NewMessage]) -> list[NewMessage]:
    """Return messages without the ids that were used before: they must not keep the run from ending."""
    kept: list[NewMessage] = []
    for message in messages:
        try:
            await check_new_ids(tx, [(Tip(run["thread_key"], run["run_key"]), [message_row(message)])])
        except IdTaken:
            message = replace(message, id=None)
        kept.append(replace(message, id=None) if message.id in {each.id for each in kept} else message)
    return kept
