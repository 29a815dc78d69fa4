"""Tasks that every layer starts and ends the same way: groups, background tasks and cancellation."""

import asyncio
from collections.abc import Coroutine, Iterable
from types import TracebackType
from typing import Any, Final, TypeVar

T = TypeVar("T")


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


def start_background(coroutine: Coroutine[Any, Any, T], *, name: str, ended_by: str) -> asyncio.Task[T]:
    """Start a task that outlives this call, outside of any task group; `ended_by` cancels or awaits it.

    A task group around a `yield` would wrap the caller's own exceptions in a group. Its owner is part of the task's
    name, so that asyncio's message about a task that was never ended says who forgot it.
    """
    return asyncio.get_running_loop().create_task(coroutine, name=f"{name} (ended by {ended_by})")


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
