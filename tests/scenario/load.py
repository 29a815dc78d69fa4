"""Leased runs, and a check that each of their commits is complete or absent."""

import os
from collections.abc import Collection
from datetime import timedelta
from typing import Final

from holdfast.domain.commit import Commit, Lease
from holdfast.domain.events import TextMessageContent, decode_event
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.message import Role
from holdfast.domain.new_run import NewRun
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store
from tests.builders import FIRST, assistant, text_events, user

SPACE: Final = SpaceId("acme")
HOUR: Final = timedelta(hours=1)
HANG_TIMEOUT_SECONDS: Final = 60.0
"""Seconds after which a call counts as hung."""


async def create_leased_runs(store: Store, runs: int) -> list[Lease]:
    """Create and lease runs, each on its own thread."""
    await store.spaces.create(SPACE, name="Acme")
    for number in range(runs):
        new = NewRun(id=RunId(f"run-{number}"), thread=NewThread(id=ThreadId(f"thr-{number}")), messages=[user("go")])
        await store.runs.create(SPACE, new)
    return await store.leases.claim(FIRST, lease=HOUR, limit=runs)


def numbered_commit(lease: Lease, number: int, *, padding: int = 0) -> Commit:
    """Return a commit whose every part contains `number`, plus incompressible characters."""
    text = f"{number} {os.urandom(padding // 2).hex()}"
    return Commit(
        lease=lease,
        messages=[assistant(text, id=f"a{number}")],
        events=text_events(text, id=f"a{number}"),
        values={"state": {"last": number}},
    )


async def check_commits(
    store: Store, lease: Lease, *, acknowledged: Collection[int], attempted: Collection[int]
) -> set[int]:
    """Return the committed numbers of a run; assert that each is complete and unique, and no acknowledged one lost."""
    messages = await store.messages.of_run(SPACE, lease.run_id)
    stored = [_number(str(message.content)) for message in messages if message.role is Role.ASSISTANT]
    logged = [decode_event(event.data) for event in await store.events.after(SPACE, lease.run_id, limit=10_000)]
    streamed = [_number(event.delta) for event in logged if isinstance(event, TextMessageContent)]
    assert stored == streamed, "a commit is incomplete"
    assert len(stored) == len(set(stored)), "a commit is duplicated"
    assert set(acknowledged) <= set(stored), "an acknowledged commit is missing"
    assert set(stored) <= set(attempted), "a refused commit is present"
    state = (await store.values.of_run(SPACE, lease.run_id)).get("state")
    assert state == ({"last": stored[-1]} if stored else None)
    return set(stored)


def _number(text: str) -> int:
    return int(text.split()[0])
