"""The watchdog reports a loop that works for too long, and no other."""

import asyncio
import time
from collections.abc import Callable

import pytest

from holdfast.bootstrap.loop_watchdog import CHECK_INTERVAL_SECONDS, MAX_BUSY_CPU_SECONDS, watch_event_loop
from holdfast.metrics.instruments import Number


def compute(seconds: float) -> None:
    """Use CPU time in Python."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def compute_in_one_call(seconds: float) -> None:
    """Use CPU time in one call that holds the interpreter."""
    start = time.thread_time()
    sum(range(1_000_000))
    sum(range(round(2_000_000 * seconds / (time.thread_time() - start))))


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(CHECK_INTERVAL_SECONDS)


@pytest.mark.parametrize("work", [compute, compute_in_one_call])
async def test_a_busy_loop_is_counted_and_logged_with_the_place(
    work: Callable[[float], None], caplog: pytest.LogCaptureFixture
) -> None:
    stalls = Number()
    with watch_event_loop(stalls):
        await turns(5)
        work((4 if work is compute else 1.5) * MAX_BUSY_CPU_SECONDS)
        while not stalls.value:
            await turns(1)
    assert "the event loop was busy for" in caplog.text
    if work is compute:
        assert "compute (test_loop_watchdog.py:" in caplog.text


async def test_a_loop_that_waits_or_works_in_short_turns_is_not_reported() -> None:
    stalls = Number()
    with watch_event_loop(stalls):
        await turns(5)
        time.sleep(4 * MAX_BUSY_CPU_SECONDS)  # noqa: ASYNC251  it blocks the loop without CPU time
        for _ in range(20):
            compute(MAX_BUSY_CPU_SECONDS / 10)
            await asyncio.sleep(0)
        await turns(5)
    assert stalls.value == 0
