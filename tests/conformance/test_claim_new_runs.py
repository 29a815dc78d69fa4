"""Claims of new runs: a lease that was not read back from the tables equals one that was."""

import asyncio
from collections.abc import Coroutine, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from holdfast.domain.commit import Lease
from holdfast.domain.content import TextPart
from holdfast.domain.errors import IdTaken
from holdfast.domain.ids import MessageId, RunId, ThreadId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.limits import Limits
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import CreatedRun, NewRun
from holdfast.domain.run import Mode, Priority
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, new_thread, user
from tests.conformance.conftest import SPACE
from tests.conformance.conversations import completed_run, texts

ANEW: Final[Mapping[str, dict[str, Any]]] = {
    "plain": {"base": None},
    "longer than its thread shows": {"base": None, "messages": [user(f"{number}") for number in range(9)]},
    "rich": {
        "base": None,
        "mode": Mode.TASK,
        "model": "scripted:x",
        "priority": Priority.HIGH,
        "tags": ["a", "b"],
        "limits": Limits(max_iterations=3, max_duration_seconds=60),
        "input": {"n": [1, 2.5, None, "ü"]},
        "created_by": "ann",
        "messages": [
            NewMessage(id=MessageId("mine"), role=Role.SYSTEM, content="be kind", metadata={"k": [1]}, created_by="bo"),
            NewMessage(role=Role.USER, content=[TextPart(text="see"), TextPart(text="this")]),
        ],
    },
    "with a budget": {"base": None, "limits": Limits(token_budget=10)},
    "on a new thread": {"thread": NewThread(title="t", context_window=2, locale="de", metadata={"k": 1})},
    "by a key": {"base": None, "idempotency_key": "once"},
}
NOT_ANEW: Final[Mapping[str, dict[str, Any]]] = {
    "on a base": {},
    "with values": {"base": None, "values": {"state": {"n": 1}}},
}


@pytest.fixture
async def thread(store: Store, clock: HeldClock) -> ThreadId:
    """Return a thread that has a completed run."""
    made = await store.threads.create(SPACE, NewThread(title="t", context_window=5))
    await completed_run(store, made.id, "before", "then")
    clock.tick(timedelta(seconds=1))
    return made.id


async def claim_at_birth(store: Store, *made: NewRun) -> tuple[list[CreatedRun | BaseException], list[Lease]]:
    """Create runs and claim them, in one transaction if the store can."""
    *created, leases = await asyncio.gather(
        *(store.runs.create(SPACE, new) for new in made),
        store.leases.claim(FIRST, lease=MINUTE, limit=100),
        return_exceptions=True,
    )
    assert isinstance(leases, list)
    return created, leases or await store.leases.claim(FIRST, lease=MINUTE, limit=100)  # type: ignore[return-value]


async def check_told(store: Store, lease: Lease) -> None:
    """Check that a lease holds the current run and, if it has one, the current snapshot."""
    assert lease.run == await store.runs.get(SPACE, lease.run_id)
    assert (lease.run_id, lease.thread_id, lease.space_id) == (lease.run.id, lease.run.thread_id, lease.run.space_id)
    assert lease.snapshot in (None, await store.journal.open(lease))
    await store.leases.release(lease)
    (again,) = await store.leases.claim(FIRST, lease=MINUTE)
    run = replace(lease.run, session_id=again.run.session_id, attempt=again.run.attempt)
    fresh = {"number": again.number, "expires_at": again.expires_at, "run": run, "snapshot": None}
    assert again == replace(lease, **fresh)


@pytest.mark.parametrize("kind", [*ANEW, *NOT_ANEW])
async def test_a_lease_shows_the_run_as_it_is(store: Store, where: str | Path, thread: ThreadId, kind: str) -> None:
    fields = ANEW[kind] if kind in ANEW else NOT_ANEW[kind]
    new = NewRun(**{"thread": thread, "messages": [user("hi")], **fields})
    _, (lease,) = await claim_at_birth(store, new)
    if isinstance(where, Path):  # it is made and claimed in one transaction
        assert (lease.snapshot is not None) == (kind in ANEW)
    await check_told(store, lease)


async def test_an_inbox_item_between_creation_and_claim_is_not_lost(
    store: Store, where: str | Path, thread: ThreadId
) -> None:
    run = RunId("run_1")
    steps: list[Coroutine[Any, Any, Any]] = [
        store.runs.create(SPACE, NewRun(thread=thread, base=None, id=run)),
        store.inbox.put(SPACE, run, kind=InboxKind.MESSAGE, data="wait"),
        store.leases.claim(FIRST, lease=MINUTE),
    ]
    if isinstance(where, Path):  # all of it is one transaction, in this order
        *_, (lease,) = await asyncio.gather(*steps)
    else:
        *_, (lease,) = [await step for step in steps]
    assert lease.snapshot is None
    assert [item.data for item in (await store.journal.open(lease)).inbox] == ["wait"]


async def test_a_failed_creation_does_not_affect_other_new_runs(store: Store, thread: ThreadId) -> None:
    """The first new run gets the row key of one that was rolled back."""
    used = NewRun(thread=thread, base=None, id=RunId("used"), messages=[user("used")])
    _, (earlier,) = await claim_at_birth(store, used)
    others = [await new_thread(store, SPACE) for _ in range(2)]
    runs = [NewRun(thread=other, base=None, messages=[user(other)]) for other in others]
    (first, refused, second), leases = await claim_at_birth(store, runs[0], used, runs[1])
    assert isinstance(refused, IdTaken)
    assert isinstance(first, CreatedRun)
    assert isinstance(second, CreatedRun)
    leases += await store.leases.claim(FIRST, lease=MINUTE, limit=100)
    assert {lease.run_id for lease in leases} == {first.run.id, second.run.id}
    for lease in leases:
        opening = lease.snapshot or await store.journal.open(lease)
        assert texts(opening.messages) == [lease.thread_id]
        assert lease.run == await store.runs.get(SPACE, lease.run_id)
    assert earlier.run_id == "used"
