import asyncio
from threading import Event, current_thread, main_thread

import pytest

from holdfast.domain.errors import Invalid
from holdfast.tools.thread_pool import CancelFlag, run_in_thread


async def test_work_is_done_in_another_thread() -> None:
    assert await run_in_thread(lambda _: current_thread()) is not main_thread()


async def test_an_error_of_the_work_is_the_callers() -> None:
    def fail(_: CancelFlag) -> None:
        raise Invalid("no")

    with pytest.raises(Invalid, match="no"):
        await run_in_thread(fail)


async def test_whoever_is_cancelled_tells_the_work_and_waits_for_it() -> None:
    begun, told = Event(), []

    def work(halt: CancelFlag) -> None:
        begun.set()
        told.append(halt.wait(60))
        raise Invalid("nobody hears this")

    async with asyncio.TaskGroup() as group:
        task = group.create_task(run_in_thread(work))
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        await asyncio.wait([task])
        assert told == [True]
        assert task.cancelled()
