"""No sandbox: because an operator turned it off, or because there is none to be had."""

import os
from collections.abc import Callable

from holdfast.domain.errors import Unavailable
from holdfast.ports.sandbox import Command, Processes, ProcessResult, SandboxCommand
from holdfast.sandbox.limited import limited
from holdfast.sandbox.surroundings import environment


class Unconfined:
    """`Sandbox` that is none: a command has limits and no environment of ours, but all rights of its worker.

    What is hidden or kept is not, and the network is there.
    """

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    async def run(self, command: SandboxCommand, *, on_output: Callable[[bytes], None] | None = None) -> ProcessResult:
        """Run a command to its end."""
        return await self._processes.run(
            Command(
                argv=limited(command.argv, command.limits),
                folder=command.folder,
                environment=environment(os.environ, command.environment),
                input=command.input,
                live_errors=command.live_errors,
                timeout=command.timeout,
                output_limit=command.output_limit,
                most_processes=command.limits.processes,
            ),
            on_output=on_output,
        )


class Refusing:
    """`Sandbox` that runs nothing, and says why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    async def run(self, command: SandboxCommand, *, on_output: Callable[[bytes], None] | None = None) -> ProcessResult:
        """Refuse."""
        raise Unavailable(self.reason, started=False)
