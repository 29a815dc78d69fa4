"""`WakeEvent` wakes its task at once, but not more often than its minimum interval."""

import asyncio

from holdfast.engine.loops import WakeEvent


async def test_a_set_event_wakes_its_task_at_once() -> None:
    event = WakeEvent(min_interval=3600)
    event.set()
    assert await event.wait(seconds=0)


async def test_a_wait_ends_at_its_timeout() -> None:
    assert not await WakeEvent().wait(seconds=0.001)


async def test_sets_between_two_waits_wake_once() -> None:
    event = WakeEvent()
    event.set()
    event.set()
    assert await event.wait(seconds=0)
    assert not await event.wait(seconds=0)


async def test_a_set_within_the_minimum_interval_wakes_after_it() -> None:
    event, loop = WakeEvent(min_interval=0.05), asyncio.get_running_loop()
    wake_times = []
    for _ in range(4):
        event.set()
        assert await event.wait()
        wake_times.append(loop.time())
        event.set()
    assert all(later - earlier >= 0.05 for earlier, later in zip(wake_times, wake_times[1:], strict=False))


async def test_a_cancelled_wait_loses_no_wake_up() -> None:
    event = WakeEvent(min_interval=0.05)
    event.set()
    assert await event.wait()
    event.set()
    sleeper = asyncio.ensure_future(event.wait())  # it was woken, and waits for the minimum interval
    await asyncio.sleep(0)
    sleeper.cancel()
    await asyncio.wait([sleeper])
    assert await event.wait(seconds=0)
