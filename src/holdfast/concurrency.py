"""Task groups, background tasks and cancellation, for every layer."""

import asyncio
from collections.abc import Coroutine, Iterable
from types import TracebackType
from typing import Any, Final, TypeVar

T = TypeVar("T")


class FirstErrorTaskGroup(asyncio.TaskGroup):
    """A task group that raises its first error itself, not an exception group."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await super().__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            first: BaseException = group
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            raise first from None


def start_background(coroutine: Coroutine[Any, Any, T], *, name: str, ended_by: str) -> asyncio.Task[T]:
    """Start a task that outlives this call, outside of any task group; `ended_by` cancels or awaits it.

    A task group around a `yield` would wrap the caller's own exceptions in a group. The task's name includes its owner,
    so that asyncio's warning about a task that was never ended names it.
    """
    return asyncio.get_running_loop().create_task(coroutine, name=f"{name} (ended by {ended_by})")


CANCEL_RETRY_SECONDS: Final = 2.0
"""How long a task may take to clean up before it is cancelled again."""


async def cancel_and_wait(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended.

    The cancellation is repeated: one that arrives together with the result that a task awaits can be lost, in a driver
    or in the standard library, and a loop that lost it would never end.
    """
    running = set(tasks)
    while running := {task for task in running if not task.done()}:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=CANCEL_RETRY_SECONDS)
