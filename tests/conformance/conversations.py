"""Builders for runs on a thread, and a check that a refused operation changed nothing."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.domain.commit import Commit, Lease
from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.interrupt import InterruptKind, NewInterrupt
from holdfast.domain.message import Message
from holdfast.domain.new_run import NewRun, RunBase
from holdfast.domain.run import Move, Run, RunStatus, WaitsFor
from holdfast.domain.thread import Thread, ThreadFilter, ThreadStatus
from holdfast.store.store import Store
from tests.builders import FIRST, MINUTE, assistant, new_thread, user
from tests.conformance.conftest import SPACE


async def create_run(store: Store, thread: ThreadId, *said: str, **fields: Any) -> Run:
    """Create a run with these user messages as input."""
    messages = [user(text) for text in said]
    return (await store.runs.create(SPACE, NewRun(thread=thread, messages=messages, **fields))).run


def base_on(run: Run, sequence: int | None = None) -> RunBase:
    """Return the base of a run that continues another, at its end or after one of its messages."""
    return RunBase(run_id=run.id, sequence=sequence)


async def ended_run(store: Store, thread: ThreadId, *said: str, **fields: Any) -> Run:
    """Create a run and end it without messages of its own."""
    run = await create_run(store, thread, *said, **fields)
    (run,) = await store.runs.end(SPACE, run.id)
    return run


async def claim_run(store: Store, run: Run) -> Lease:
    """Claim a run, and release all other runs that were claimed with it."""
    leases = await store.leases.claim(FIRST, lease=MINUTE, limit=100)
    for lease in leases:
        if lease.run_id != run.id:
            await store.leases.release(lease)
    (wanted,) = [lease for lease in leases if lease.run_id == run.id]
    return wanted


async def complete(store: Store, lease: Lease, *said: str, **values: Json) -> Run:
    """Commit assistant messages and complete the run."""
    move = Move(to=RunStatus.COMPLETED)
    messages = [assistant(text) for text in said]
    await store.journal.commit(Commit(lease=lease, messages=messages, values=values, move=move))
    return await store.runs.get(lease.space_id, lease.run_id)


async def completed_run(store: Store, thread: ThreadId, asked: str, *replies: str, **fields: Any) -> Run:
    """Create a run and complete it with these replies."""
    return await complete(store, await claim_run(store, await create_run(store, thread, asked, **fields)), *replies)


async def active_run(store: Store, state: RunStatus) -> Run:
    """Return a run in an active status."""
    run = await create_run(store, await new_thread(store, SPACE), "hello")
    if state is RunStatus.PENDING:
        run = await create_run(store, run.thread_id, "and")
    elif state is RunStatus.RUNNING:
        await claim_run(store, run)
    elif state is RunStatus.WAITING:
        await wait_for_person(store, run, "really?")
    found = await store.runs.get(SPACE, run.id)
    assert found.status is state
    return found


async def wait_for_person(store: Store, run: Run, *questions: str) -> Run:
    """Make a queued run wait for a person."""
    interrupts = [NewInterrupt(kind=InterruptKind.INPUT, message=question) for question in questions]
    move = Move(to=RunStatus.WAITING, reason=WaitsFor.PERSON)
    await store.journal.commit(Commit(lease=await claim_run(store, run), interrupts=interrupts, move=move))
    return await store.runs.get(SPACE, run.id)


async def status(store: Store, run: Run) -> RunStatus:
    """Return the current status of a run."""
    return (await store.runs.get(SPACE, run.id)).status


async def history_texts(store: Store, run: Run, *, limit: int = 1000, before: int | None = None) -> list[Any]:
    """Return the history of a run as texts."""
    return texts(await store.messages.history(SPACE, run.id, limit=limit, before=before))


def texts(messages: Sequence[Message]) -> list[Any]:
    """Return the contents of messages."""
    return [message.content for message in messages]


def sequences(messages: Sequence[Message]) -> list[int | None]:
    """Return the sequences of messages."""
    return [message.sequence for message in messages]


@asynccontextmanager
async def expect_refusal(
    store: Store, *kinds: type[HoldfastError]
) -> AsyncIterator[pytest.ExceptionInfo[HoldfastError]]:
    """Expect an error of one of these kinds, and no change of the store."""
    before = await read_everything(store)
    with pytest.raises(kinds) as info:
        yield info
    assert await read_everything(store) == before


async def read_everything(store: Store) -> dict[str, Any]:
    """Return everything that can be read from the store."""
    spaces = (await store.spaces.page(limit=200)).items
    return {"spaces": spaces} | {space.id: await _contents(store, space.id) for space in spaces}


async def _contents(store: Store, space: SpaceId) -> dict[str, Any]:
    runs = (await store.runs.page(space, limit=200)).items
    return {
        "threads": [await _threads(store, space, status) for status in ThreadStatus],
        "runs": runs,
        "logs": {run.id: await _log(store, space, run.id) for run in runs},
    }


async def _threads(store: Store, space: SpaceId, status: ThreadStatus) -> list[Thread]:
    return (await store.threads.page(space, where=ThreadFilter(status=status), limit=200)).items


async def _log(store: Store, space: SpaceId, run: RunId) -> tuple[Any, ...]:
    return (
        await store.messages.of_run(space, run),
        await store.events.after(space, run),
        await store.values.of_run(space, run),
        await store.interrupts.of_run(space, run),
    )
