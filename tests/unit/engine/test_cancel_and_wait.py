"""`cancel_and_wait` ends every task, even one that lost its first cancellation."""

import asyncio

import pytest

from holdfast import concurrency as stopping
from holdfast.concurrency import cancel_and_wait


async def _sleep_on(*, ignored_cancels: int) -> None:
    """Sleep for ever; the first `ignored_cancels` cancellations are lost."""
    for _ in range(ignored_cancels):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue
    await asyncio.Event().wait()


async def test_tasks_are_cancelled_until_they_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "CANCEL_RETRY_SECONDS", 0.01)
    tasks = [asyncio.ensure_future(_sleep_on(ignored_cancels=ignored_cancels)) for ignored_cancels in range(4)]
    await asyncio.sleep(0)
    await cancel_and_wait(tasks)
    assert all(task.cancelled() for task in tasks)


async def test_ended_tasks_are_not_cancelled() -> None:
    done = asyncio.ensure_future(asyncio.sleep(0, "done"))
    await done
    await cancel_and_wait([done])
    assert done.result() == "done"
