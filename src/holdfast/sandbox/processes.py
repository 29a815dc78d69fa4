"""`Processes` through a supervisor: a program of its own between this worker and the commands of its tools."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from typing import Final

from holdfast.domain.errors import Unavailable
from holdfast.ports.sandbox import Command, ProcessResult
from holdfast.sandbox.conversation import Conversation
from holdfast.sandbox.supervision import PATIENCE, Supervision

AT_ONCE: Final = 32
"""Commands that are being started at the same time; any number may run."""
STARTING: Final = 30.0
"""Seconds after which a supervisor that has not started a command is taken for dead."""
HASTE: Final = 1.0
"""Seconds that somebody who was cancelled waits for the death of what it ran. It dies in any case."""


class SupervisedProcesses:
    """Runs commands for one event loop. Nothing of them outlives this process."""

    def __init__(self) -> None:
        self._supervision = Supervision()
        self._starting = asyncio.Semaphore(AT_ONCE)

    async def run(self, command: Command, *, on_output: Callable[[bytes], None] | None = None) -> ProcessResult:
        """Run a command to its end."""
        with closing(Conversation(command, on_output)) as conversation:
            try:
                await self._start(conversation)
                in_time = await conversation.ended(within=command.timeout)
                gone = await conversation.finish(within=PATIENCE)
            except BaseException:
                conversation.hush()
                await conversation.finish(within=HASTE)
                raise
            if not gone:
                raise Unavailable(
                    f"`{command.argv[0]}` was killed but does not die: a disk or a network may hold it", started=True
                )
            return conversation.result(timed_out=not in_time)

    async def close(self) -> None:
        """Kill all that runs, and start nothing any more."""
        await self._supervision.close()

    async def _start(self, conversation: Conversation) -> None:
        async with self._starting:
            if not await conversation.start(self._supervision, within=STARTING):
                self._supervision.end()
                raise Unavailable("the supervisor of processes hung, and was ended with all it kept", started=True)


@asynccontextmanager
async def open_processes() -> AsyncIterator[SupervisedProcesses]:
    """Run commands while the block runs; what still runs at its end is killed."""
    processes = SupervisedProcesses()
    try:
        yield processes
    finally:
        await processes.close()
