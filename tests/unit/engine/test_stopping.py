"""A loop that is to be stopped ends, also one that lost the first cancellation."""

import asyncio

import pytest

from holdfast.engine import stopping
from holdfast.engine.stopping import stop


async def _sleep_on(*, deaf: int) -> None:
    """Sleep for ever; the first `deaf` cancellations are lost."""
    for _ in range(deaf):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue
    await asyncio.Event().wait()


async def test_tasks_are_told_until_they_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "AGAIN", 0.01)
    tasks = [asyncio.ensure_future(_sleep_on(deaf=deaf)) for deaf in range(4)]
    await asyncio.sleep(0)
    await stop(tasks)
    assert all(task.cancelled() for task in tasks)


async def test_what_has_ended_is_left_alone() -> None:
    done = asyncio.ensure_future(asyncio.sleep(0, "done"))
    await done
    await stop([done])
    assert done.result() == "done"
