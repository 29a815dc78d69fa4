import asyncio
from threading import Event, current_thread, main_thread

import pytest

from holdfast.domain.errors import Invalid
from holdfast.tools.thread_pool import CancelFlag, run_in_thread


async def test_work_is_done_in_another_thread() -> None:
    assert await run_in_thread(lambda _: current_thread()) is not main_thread()


async def test_an_exception_of_the_work_reaches_the_caller() -> None:
    def fail(_: CancelFlag) -> None:
        raise Invalid("no")

    with pytest.raises(Invalid, match="no"):
        await run_in_thread(fail)


async def test_cancellation_sets_the_flag_and_waits_for_the_work() -> None:
    started, flags = Event(), []

    def work(cancelled: CancelFlag) -> None:
        started.set()
        flags.append(cancelled.wait(60))
        raise Invalid("not reported")

    async with asyncio.TaskGroup() as group:
        task = group.create_task(run_in_thread(work))
        await asyncio.to_thread(started.wait, 60)
        task.cancel()
        await asyncio.wait([task])
        assert flags == [True]
        assert task.cancelled()
