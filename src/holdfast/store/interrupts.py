"""Interrupts in SQL, and how the runs above an interrupted run are notified of them.

A run that starts to wait for a person tells its parent. When an interrupt closes, every run above it gets an inbox
item, so each run that showed the interrupt continues.
"""

from collections.abc import Iterable, Mapping, Sequence

from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, IdTaken, NotFound
from holdfast.domain.ids import InterruptId, RunId, SpaceId, check_client_id
from holdfast.domain.inbox import InboxKind
from holdfast.domain.instant import Instant, instant, maybe_instant
from holdfast.domain.interrupt import (
    Interrupt,
    InterruptKind,
    InterruptResponse,
    InterruptStatus,
    check_response,
    child_interrupts,
)
from holdfast.domain.message import NewMessage
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page, check_page_size
from holdfast.store.encoding import dump_json, load_json, load_optional_json, parse_number_cursor, to_page
from holdfast.store.inbox import put_inbox_item
from holdfast.store.run_rows import run_key_of
from holdfast.store.run_state import current_values
from holdfast.store.spaces import space_key
from holdfast.store.transaction import Database, Row, Transaction

_END_EVENT_TYPES = dump_json(["RUN_ERROR", "RUN_FINISHED"])


class SqlInterrupts:
    """`Interrupts`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, space: SpaceId, interrupt: InterruptId) -> Interrupt:
        """Return the interrupt."""

        async def find(tx: Transaction) -> Interrupt:
            return _to_interrupt(await _interrupt_row(tx, space, interrupt))

        return await self._database.read(find)

    async def of_run(self, space: SpaceId, run: RunId, *, below: bool = False) -> list[Interrupt]:
        """Return the interrupts of a run, or of the tree it is the root of."""

        async def find(tx: Transaction) -> list[Interrupt]:
            key = await run_key_of(tx, space, run)
            rows = await tx.all("interrupts_below" if below else "interrupts_of_run", run_key=key)
            return [_to_interrupt(row) for row in rows]

        return await self._database.read(find)

    async def open_for_run(self, space: SpaceId, run: RunId) -> list[Interrupt]:
        """Return the open questions that a run asks or shows."""

        async def find(tx: Transaction) -> list[Interrupt]:
            return await open_interrupts_shown_by_run(tx, await run_key_of(tx, space, run))

        return await self._database.read(find)

    async def page(
        self,
        space: SpaceId,
        *,
        status: InterruptStatus | None = InterruptStatus.OPEN,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Interrupt]:
        """Return the interrupts of a space, the newest first."""
        check_page_size(limit)
        before = 2**62 if cursor is None else parse_number_cursor(cursor)

        async def find(tx: Transaction) -> Page[Interrupt]:
            rows = await tx.all(
                "list_interrupts",
                space_key=await space_key(tx, space),
                before=before,
                status=status and status.value,
                limit=limit + 1,
            )
            return to_page(rows, limit, value=_to_interrupt, cursor=lambda row: str(row["interrupt_key"]))

        return await self._database.read(find)

    async def expire(self, *, limit: int = 100) -> list[InterruptId]:
        """Close those that nobody answered in time."""
        check_page_size(limit, maximum=1000)
        due = await self._database.read(lambda tx: tx.all("due_interrupts", now=tx.now, limit=limit))
        return [row["id"] for row in due if await self._close(row)]

    async def next_expiry(self) -> Instant | None:
        """Return when the next open one runs out."""

        async def find(tx: Transaction) -> Instant | None:
            row = await tx.one("next_expiry")
            return None if row is None else maybe_instant(row["expires_at"])

        return await self._database.read(find)

    async def _close(self, due: Row) -> bool:
        return await self._database.write(lambda tx: _expire(tx, due))

    async def respond(self, space: SpaceId, interrupt: InterruptId, response: InterruptResponse) -> Interrupt:
        """Settle the interrupt and wake its run."""

        async def settle(tx: Transaction) -> Interrupt:
            run_key = (await _interrupt_row(tx, space, interrupt))["run_key"]
            above = await parent_run_keys(tx, run_key)
            await tx.lock(runs=[run_key, *above])
            await _settle(tx, space, await _interrupt_row(tx, space, interrupt), response, above=above)
            return _to_interrupt(await _interrupt_row(tx, space, interrupt))

        return await self._database.write(settle)

    async def respond_all(
        self,
        space: SpaceId,
        run: RunId,
        responses: Mapping[InterruptId, InterruptResponse],
        *,
        segment: RunId | None = None,
        messages: Sequence[NewMessage] = (),
    ) -> int:
        """Settle interrupts of a run and of those below it, name what it says next, and tell it something."""
        if segment is not None:
            check_client_id(segment, field="segment")

        async def settle(tx: Transaction) -> int:
            key = await run_key_of(tx, space, run)
            above = {interrupt: await _run_and_parent_keys(tx, space, interrupt) for interrupt in responses}
            await tx.lock(runs={key}.union(*above.values()))
            if segment is not None:
                await _name_segment(tx, space, key, segment)
            for interrupt, answer in responses.items():
                if key not in above[interrupt]:
                    raise NotFound(f"run `{run}` does not ask `{interrupt}`", id=interrupt)
                named = None if segment is None else (key, segment)
                await _settle(
                    tx,
                    space,
                    await _interrupt_row(tx, space, interrupt),
                    answer,
                    above=above[interrupt][1:],
                    named=named,
                )
            for said in messages:
                await put_inbox_item(tx, key, kind=InboxKind.MESSAGE, data=dump_json(said), by=said.created_by)
            ends = await tx.all("events_of_types_after", run_key=key, seq=0, types=_END_EVENT_TYPES, limit=2**31)
            return ends[-1]["seq"] if ends else 0

        return await self._database.write(settle)


async def open_interrupts_shown_by_run(tx: Transaction, run_key: int) -> list[Interrupt]:
    """Return the open questions of a run, and those of its children that it shows, the oldest first."""
    below = child_interrupts(await current_values(tx, run_key)).values()
    shown = {question.id for asked in below for question in asked}
    rows = await tx.all("interrupts_below" if shown else "interrupts_of_run", run_key=run_key)
    asked = [row for row in rows if row["run_key"] == run_key or row["id"] in shown]
    return [_to_interrupt(row) for row in asked if row["status"] == InterruptStatus.OPEN]


async def open_interrupts_of_run(tx: Transaction, run_key: int) -> list[Interrupt]:
    """Return the questions of a run that are open, the oldest first."""
    rows = await tx.all("interrupts_of_run", run_key=run_key)
    return [_to_interrupt(row) for row in rows if row["status"] == InterruptStatus.OPEN]


async def _run_and_parent_keys(tx: Transaction, space: SpaceId, interrupt: InterruptId) -> list[int]:
    """Return the run that asks, and all above it."""
    run_key: int = (await _interrupt_row(tx, space, interrupt))["run_key"]
    return [run_key, *await parent_run_keys(tx, run_key)]


async def _name_segment(tx: Transaction, space: SpaceId, run_key: int, segment: RunId) -> None:
    if not await tx.many("add_run_ids", [(await space_key(tx, space), segment, run_key)]):
        raise IdTaken(f"the run id `{segment}` was used before in this space", id=segment)


async def _settle(
    tx: Transaction,
    space: SpaceId,
    row: Row,
    answer: InterruptResponse,
    *,
    above: Sequence[int],
    named: tuple[int, RunId] | None = None,
) -> None:
    """Settle an interrupt whose run is held, as are those above it, and wake them."""
    asked = _to_interrupt(row)
    check_response(asked, answer, now=instant(tx.now))
    response, by = dump_json(answer.response), answer.by
    await tx.run("answer_interrupt", interrupt_key=row["interrupt_key"], response=response, by=by, now=tx.now)
    said = {"interrupt_id": asked.id, "response": answer.response}
    data = dump_json({**said, "segment": named[1]} if named is not None and named[0] == row["run_key"] else said)
    if await put_inbox_item(tx, row["run_key"], kind=InboxKind.RESPONSE, data=data, by=by) is None:
        raise Conflict(f"run `{asked.run_id}` has ended", run_id=asked.run_id)
    tx.wake(run=(space, asked.run_id), queue=True)
    await notify_of_closed_interrupt(tx, above, asked.id, named=named)


async def _expire(tx: Transaction, due: Row) -> bool:
    """Close an interrupt whose time is up, unless somebody was faster."""
    above = await parent_run_keys(tx, due["run_key"])
    await tx.lock(runs=[due["run_key"], *above])
    row = await tx.one("interrupt", space=due["space_id"], id=due["id"])
    if row is None or row["status"] != InterruptStatus.OPEN:
        return False
    asked = _to_interrupt(row)
    await tx.run("expire_interrupt", interrupt_key=row["interrupt_key"])
    data = dump_json({"interrupt_id": asked.id, "response": asked.default, "expired": True})
    await put_inbox_item(tx, row["run_key"], kind=InboxKind.RESPONSE, data=data)
    tx.wake(run=(due["space_id"], asked.run_id), queue=True)
    await notify_of_closed_interrupt(tx, above, asked.id)
    return True


async def _interrupt_row(tx: Transaction, space: SpaceId, interrupt: InterruptId) -> Row:
    row = await tx.one("interrupt", space=space, id=interrupt)
    if row is None:
        raise NotFound(f"there is no interrupt `{interrupt}`", id=interrupt)
    return row


def _to_interrupt(row: Row) -> Interrupt:
    return Interrupt(
        id=row["id"],
        run_id=row["run_id"],
        thread_id=row["thread_id"],
        root_run_id=row["root_run_id"],
        kind=InterruptKind(row["kind"]),
        status=InterruptStatus(row["status"]),
        message=row["message"],
        tool_call_id=row["tool_call_id"],
        arguments=load_optional_json(row["arguments"]),
        digest=row["digest"],
        response_schema=load_optional_json(row["response_schema"]),
        default=load_optional_json(row["default_outcome"]),
        metadata=load_json(row["metadata"]),
        response=load_optional_json(row["response"]),
        answered_by=row["answered_by"],
        answered_at=maybe_instant(row["answered_at"]),
        expires_at=instant(row["expires_at"]),
        created_at=instant(row["created_at"]),
    )


async def parent_run_keys(tx: Transaction, run_key: int) -> list[int]:
    """Return those above a run, the nearest first."""
    return [row["run_key"] for row in await tx.all("above", run_key=run_key)]


async def notify_parent_of_interrupts(tx: Transaction, parent_key: int, run: RunId, asks: Sequence[Json]) -> None:
    """Tell a parent, which is held, what people are asked by its child."""
    data = dump_json({"run_id": run, "interrupts": list(asks)})
    if await put_inbox_item(tx, parent_key, kind=InboxKind.CHILD_INTERRUPT, data=data) is not None:
        tx.wake(queue=True)


async def notify_of_closed_interrupt(
    tx: Transaction, above: Iterable[int], interrupt: InterruptId, *, named: tuple[int, RunId] | None = None
) -> None:
    """Tell those above, which are held, that a question below is closed; one of them goes on as the segment `named`."""
    for run_key in above:
        name = {"segment": named[1]} if named is not None and named[0] == run_key else {}
        data = dump_json({"interrupt_id": interrupt, **name})
        if await put_inbox_item(tx, run_key, kind=InboxKind.RESPONSE, data=data) is not None:
            tx.wake(queue=True)
