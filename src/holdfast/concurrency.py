"""Task groups and cancellation that every layer shares."""

import asyncio
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final


class FirstErrorTaskGroup(asyncio.TaskGroup):
    """A task group whose first error comes out as itself, not as a group."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await super().__aexit__(kind, error, trace)
        except BaseExceptionGroup as errors:
            raise _first_error(errors) from None


def _first_error(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


CANCEL_RETRY_SECONDS: Final = 2.0
"""Seconds that a task has to end, and to clean up, before it is told once more."""


async def cancel_and_wait(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended.

    They are told again and again: a cancellation that arrives together with what a task waits for can be lost, in a
    driver or in the standard library, and a loop that lost it would never end.
    """
    left = set(tasks)
    while left := {task for task in left if not task.done()}:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=CANCEL_RETRY_SECONDS)
