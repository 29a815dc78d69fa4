"""Interrupts in SQL, and the notification of the ancestors of an interrupted run.

A run that starts to wait for a person notifies its parent. When an interrupt closes, every ancestor of its run gets an
inbox item, so each run that showed the interrupt continues.
"""

from collections.abc import Iterable, Mapping, Sequence

from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, IdTaken, Invalid, NotFound
from holdfast.domain.ids import InterruptId, MessageId, RunId, SpaceId, check_client_id
from holdfast.domain.inbox import InboxKind
from holdfast.domain.instant import Instant, instant, maybe_instant
from holdfast.domain.interrupt import (
    Interrupt,
    InterruptFilter,
    InterruptKind,
    InterruptResponse,
    InterruptStatus,
    check_response,
    child_interrupts,
)
from holdfast.domain.message import NewMessage
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page, check_page_size
from holdfast.domain.permission import granted_rules
from holdfast.store.encoding import dump_json, load_json, load_optional_json, parse_cursor, to_page
from holdfast.store.inbox import put_inbox_item
from holdfast.store.messages import find_on_chain
from holdfast.store.run_rows import run_key_of, run_row
from holdfast.store.run_state import current_values
from holdfast.store.spaces import add_grants, space_key
from holdfast.store.transaction import Row, SqlPort, Transaction, find_row, reads, store_time, writes

_END_EVENT_TYPES = dump_json(["RUN_ERROR", "RUN_FINISHED"])


class SqlInterrupts(SqlPort):
    """Implements `Interrupts`."""

    @reads
    async def get(self, tx: Transaction, space: SpaceId, interrupt: InterruptId) -> Interrupt:
        """Return the interrupt."""
        return _to_interrupt(await _interrupt_row(tx, space, interrupt))

    @reads
    async def of_run(self, tx: Transaction, space: SpaceId, run: RunId, *, below: bool = False) -> list[Interrupt]:
        """Return the interrupts of a run, or of the tree it is the root of."""
        key = await run_key_of(tx, space, run)
        rows = await tx.all("interrupts_below" if below else "interrupts_of_run", run_key=key)
        return [_to_interrupt(row) for row in rows]

    @reads
    async def open_for_run(self, tx: Transaction, space: SpaceId, run: RunId) -> list[Interrupt]:
        """Return the open interrupts of a run, and those that it shows."""
        return await open_interrupts_shown_by_run(tx, await run_key_of(tx, space, run))

    @reads
    async def page(
        self,
        tx: Transaction,
        space: SpaceId,
        *,
        status: InterruptStatus | None = InterruptStatus.OPEN,
        where: InterruptFilter | None = None,
        oldest: bool = False,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Interrupt]:
        """Return the interrupts of a space."""
        check_page_size(limit)
        where = where or InterruptFilter()
        (place,) = parse_cursor(cursor, first_page=[-1 if oldest else 2**62])
        matching = {
            "space_key": await space_key(tx, space),
            "kind": where.kind and where.kind.value,
            "agent_type": where.agent_type,
            "thread_id": where.thread_id,
            "run_id": where.run_id,
            "limit": limit + 1,
        }
        if status is InterruptStatus.OPEN:
            rows = await tx.all("list_open_interrupts", place=place, oldest=int(oldest), **matching)
        elif oldest:
            raise Invalid("only open interrupts can be listed with the oldest first", field="oldest")
        else:
            rows = await tx.all("list_interrupts", before=place, status=status and status.value, **matching)
        return to_page(rows, limit, value=_to_interrupt, cursor=lambda row: str(row["interrupt_key"]))

    @reads
    async def count_open(self, tx: Transaction, space: SpaceId) -> int:
        """Return the number of open interrupts of a space."""
        row = await tx.one("count_open_interrupts", space_key=await space_key(tx, space))
        assert row is not None
        return int(row["open"])

    async def expire(self, *, limit: int = 100) -> list[InterruptId]:
        """Close the interrupts that expired without a response."""
        check_page_size(limit, maximum=1000)

        async def read_due(tx: Transaction) -> Sequence[Row]:
            return await tx.all("due_interrupts", now=await store_time(tx), limit=limit)

        due = await self._database.read(read_due)
        return [row["id"] for row in due if await self._expire(row)]

    @reads
    async def next_expiry(self, tx: Transaction) -> Instant | None:
        """Return when the next open interrupt expires."""
        row = await tx.one("next_expiry")
        return None if row is None else maybe_instant(row["expires_at"])

    @writes
    async def _expire(self, tx: Transaction, due: Row) -> bool:
        """Close an expired interrupt and return true, unless somebody responded first."""
        ancestors = await ancestor_run_keys(tx, due["run_key"])
        await tx.lock(runs=[due["run_key"], *ancestors])
        row = await tx.one("interrupt", space=due["space_id"], id=due["id"])
        if row is None or row["status"] != InterruptStatus.OPEN:
            return False
        interrupt = _to_interrupt(row)
        await tx.run("expire_interrupt", interrupt_key=row["interrupt_key"])
        data = dump_json({"interrupt_id": interrupt.id, "response": interrupt.default, "expired": True})
        await put_inbox_item(tx, row["run_key"], kind=InboxKind.RESPONSE, data=data)
        tx.hints.add(run=(due["space_id"], interrupt.run_id), queue=True)
        await notify_of_closed_interrupt(tx, ancestors, interrupt.id)
        return True

    @writes
    async def respond(
        self, tx: Transaction, space: SpaceId, interrupt: InterruptId, response: InterruptResponse
    ) -> Interrupt:
        """Settle the interrupt and wake its run."""
        run_key = (await _interrupt_row(tx, space, interrupt))["run_key"]
        ancestors = await ancestor_run_keys(tx, run_key)
        await tx.lock(runs=[run_key, *ancestors])
        await _settle(tx, space, await _interrupt_row(tx, space, interrupt), response, ancestors=ancestors)
        return _to_interrupt(await _interrupt_row(tx, space, interrupt))

    @writes
    async def respond_all(
        self,
        tx: Transaction,
        space: SpaceId,
        run: RunId,
        responses: Mapping[InterruptId, InterruptResponse],
        *,
        segment: RunId | None = None,
        messages: Sequence[NewMessage] = (),
    ) -> int:
        """Settle interrupts of a run and its descendants, name the next segment, and add messages to the inbox."""
        key = await run_key_of(tx, space, run)
        runs: dict[InterruptId, list[int]] = {}
        for interrupt in responses:
            run_key = (await _interrupt_row(tx, space, interrupt))["run_key"]
            runs[interrupt] = [run_key, *await ancestor_run_keys(tx, run_key)]
        await tx.lock(runs={key}.union(*runs.values()))
        await _check_message_ids(tx, space, run, responses.values())
        if segment is not None:
            check_client_id(segment, field="segment")
            if not await tx.many("add_run_ids", [(await space_key(tx, space), segment, key)]) and (
                (named_run := await tx.one("run_key", space=space, id=segment)) is None or named_run["run_key"] != key
            ):
                raise IdTaken(f"the run id `{segment}` was used before in this space: choose another", id=segment)
        named = None if segment is None else (key, segment)
        for interrupt, response in responses.items():
            if key not in runs[interrupt]:
                raise NotFound(f"run `{run}` has no interrupt `{interrupt}`", id=interrupt)
            row = await _interrupt_row(tx, space, interrupt)
            await _settle(tx, space, row, response, ancestors=runs[interrupt][1:], named=named)
        for message in messages:
            data, created_by = dump_json(message), message.created_by
            await put_inbox_item(tx, key, kind=InboxKind.MESSAGE, data=data, created_by=created_by)
        ends = await tx.all("events_of_types_after", run_key=key, seq=0, types=_END_EVENT_TYPES, limit=2**31)
        return ends[-1]["seq"] if ends else 0


async def open_interrupts_shown_by_run(tx: Transaction, run_key: int) -> list[Interrupt]:
    """Return the open interrupts of a run, and those of its children that it shows, oldest first."""
    of_children = child_interrupts(await current_values(tx, run_key)).values()
    shown = {interrupt.id for interrupts in of_children for interrupt in interrupts}
    rows = await tx.all("interrupts_below" if shown else "interrupts_of_run", run_key=run_key)
    return [
        _to_interrupt(row)
        for row in rows
        if (row["run_key"] == run_key or row["id"] in shown) and row["status"] == InterruptStatus.OPEN
    ]


async def open_interrupts_of_run(tx: Transaction, run_key: int) -> list[Interrupt]:
    """Return the open interrupts of a run, oldest first."""
    rows = await tx.all("interrupts_of_run", run_key=run_key)
    return [_to_interrupt(row) for row in rows if row["status"] == InterruptStatus.OPEN]


async def _settle(
    tx: Transaction,
    space: SpaceId,
    row: Row,
    response: InterruptResponse,
    *,
    ancestors: Sequence[int],
    named: tuple[int, RunId] | None = None,
) -> None:
    """Settle an interrupt whose run and ancestors are locked, and wake them; `named` is a run and its next segment."""
    interrupt, run_key, principal = _to_interrupt(row), row["run_key"], response.by
    check_response(interrupt, response, now=instant(await store_time(tx)))
    encoded = dump_json(response.response)
    await tx.run("answer_interrupt", interrupt_key=row["interrupt_key"], response=encoded, by=principal, now=tx.now)
    segment = {"segment": named[1]} if named is not None and named[0] == run_key else {}
    message = {} if response.message_id is None else {"message_id": response.message_id}
    granted = await _add_grants(tx, row["space_key"], interrupt, response)
    data = dump_json({"interrupt_id": interrupt.id, "response": response.response, **segment, **message, **granted})
    if await put_inbox_item(tx, run_key, kind=InboxKind.RESPONSE, data=data, created_by=principal) is None:
        raise Conflict(f"run `{interrupt.run_id}` has ended", run_id=interrupt.run_id)
    tx.hints.add(run=(space, interrupt.run_id), queue=True)
    await notify_of_closed_interrupt(tx, ancestors, interrupt.id, named=named)


async def _check_message_ids(
    tx: Transaction, space: SpaceId, run: RunId, responses: Iterable[InterruptResponse]
) -> None:
    """Raise unless the messages of these responses may have their ids on the chain of the run."""
    used: set[MessageId] = set()
    for id in (each.message_id for each in responses if each.message_id is not None):
        check_client_id(id, field="messages.id")
        if id in used or await find_on_chain(tx, await run_row(tx, space, run), id) is not None:
            raise IdTaken(f"there is a message `{id}` on this chain already: choose another id", id=id)
        used.add(id)


async def _add_grants(
    tx: Transaction, space_key: int, interrupt: Interrupt, response: InterruptResponse
) -> dict[str, Sequence[str]]:
    """Add the rules that a response grants, and return what the run is told about them."""
    if interrupt.kind is not InterruptKind.APPROVAL:
        return {}
    agents, rules = granted_rules(interrupt.metadata, response.response)
    run, by = interrupt.run_id, response.by
    await add_grants(tx, space_key, agents=agents, rules=rules, run=run, interrupt=interrupt.id, by=by)
    return {"granted": rules} if rules else {}


async def _interrupt_row(tx: Transaction, space: SpaceId, interrupt: InterruptId) -> Row:
    return await find_row(tx, "interrupt", "interrupt", space=space, id=interrupt)


def _to_interrupt(row: Row) -> Interrupt:
    return Interrupt(
        id=row["id"],
        run_id=row["run_id"],
        thread_id=row["thread_id"],
        title=row["title"],
        agent_type=row["agent_type"],
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


async def ancestor_run_keys(tx: Transaction, run_key: int) -> list[int]:
    """Return the keys of a run's ancestors, nearest first."""
    return [row["run_key"] for row in await tx.all("above", run_key=run_key)]


async def notify_parent_of_interrupts(tx: Transaction, parent_key: int, run: RunId, interrupts: Sequence[Json]) -> None:
    """Notify a locked parent of its child's open interrupts."""
    data = dump_json({"run_id": run, "interrupts": list(interrupts)})
    if await put_inbox_item(tx, parent_key, kind=InboxKind.CHILD_INTERRUPT, data=data) is not None:
        tx.hints.add(queue=True)


async def notify_of_closed_interrupt(
    tx: Transaction, ancestors: Iterable[int], interrupt: InterruptId, *, named: tuple[int, RunId] | None = None
) -> None:
    """Notify locked ancestors of a closed interrupt; `named` is a run and the name of its next segment."""
    for run_key in ancestors:
        segment = {"segment": named[1]} if named is not None and named[0] == run_key else {}
        data = dump_json({"interrupt_id": interrupt, **segment})
        if await put_inbox_item(tx, run_key, kind=InboxKind.RESPONSE, data=data) is not None:
            tx.hints.add(queue=True)
