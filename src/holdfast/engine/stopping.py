"""How loops are stopped that would go on for ever."""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

AGAIN: Final = 2.0
"""Seconds that a task has to end, and to clean up, before it is told once more."""


async def stop(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended.

    They are told again and again: a cancellation that arrives together with what a task waits for can be lost, in a
    driver or in the standard library, and a loop that lost it would never end.
    """
    left = set(tasks)
    while left := {task for task in left if not task.done()}:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=AGAIN)
