"""Detection of a working sandbox, and the sandboxes used when there is none.

A sandbox is tried once, before the first command, instead of trusted.
"""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from holdfast.domain.errors import Unavailable
from holdfast.ports.sandbox import Command, Processes, ProcessResult, Sandbox, SandboxCommand
from holdfast.sandbox.bubblewrap import BubblewrapSandbox
from holdfast.sandbox.launch import command_environment, with_resource_limits


class UnconfinedSandbox:
    """`Sandbox` that is none: a command has limits and no environment of ours, but all rights of its worker.

    What is hidden or kept is not, and the network is there.
    """

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    async def run(self, command: SandboxCommand, *, on_output: Callable[[bytes], None] | None = None) -> ProcessResult:
        """Run a command to its end."""
        return await self._processes.run(
            Command(
                argv=with_resource_limits(command.argv, command.limits),
                folder=command.folder,
                environment=command_environment(os.environ, command.environment),
                input=command.input,
                stream_stderr=command.stream_stderr,
                timeout=command.timeout,
                output_limit=command.output_limit,
                max_processes=command.limits.processes,
            ),
            on_output=on_output,
        )


class RefusingSandbox:
    """`Sandbox` that runs nothing, and says why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    async def run(self, command: SandboxCommand, *, on_output: Callable[[bytes], None] | None = None) -> ProcessResult:
        """Refuse."""
        raise Unavailable(self.reason, started=False)


REMEDY: Final = (
    'or let an operator say `"sandbox": "off"` in settings.json: commands then have all rights of the server'
)
NOT_LINUX: Final = f"commands are refused, because there is no sandbox on this system: use Linux, {REMEDY}"
NOT_INSTALLED: Final = (
    "commands are refused, because bubblewrap is not installed: install it (`apt-get install bubblewrap`, "
    f"`dnf install bubblewrap`), {REMEDY}"
)
NOT_WORKING: Final = (
    "commands are refused, because bubblewrap does not work here ({}): allow user namespaces to the user of the server "
    f"(`sysctl kernel.unprivileged_userns_clone=1`, an AppArmor profile for bwrap, or a container that may), {REMEDY}"
)
NOT_CONFINED: Final = "it does not keep a command in its bounds"
PROBE_TIMEOUT_SECONDS: Final = 60.0

_PREFIX: Final = "holdfast-probe-"
# It can write where it should, cannot see what it should not nor turn a switch of the machine, and is nobody.
_PROBE_SCRIPT: Final = (
    'test -w . && test ! -e "$1" && test ! -w /proc/sys/kernel/core_pattern && test "$(id -u)" = 1000 && echo held'
)


class DetectedSandbox:
    """`Sandbox` that is looked for when it is first needed. What was found then stays."""

    def __init__(self, processes: Processes, *, readable: tuple[Path, ...] = ()) -> None:
        self._processes = processes
        self._readable = readable
        self._lock = asyncio.Lock()
        self._found: Sandbox | None = None

    async def run(self, command: SandboxCommand, *, on_output: Callable[[bytes], None] | None = None) -> ProcessResult:
        """Run a command to its end."""
        return await (await self.sandbox()).run(command, on_output=on_output)

    async def sandbox(self) -> Sandbox:
        """Return the sandbox that there is, or what refuses every command."""
        async with self._lock:
            if self._found is None:
                self._found = await detect_sandbox(self._processes, readable=self._readable)
            return self._found


async def detect_sandbox(processes: Processes, *, readable: tuple[Path, ...] = (), path: str | None = None) -> Sandbox:
    """Return a sandbox that was tried, or one that says why there is none; `path` is where programs are."""
    if sys.platform != "linux":
        return RefusingSandbox(NOT_LINUX)
    program = await asyncio.to_thread(shutil.which, "bwrap", path=path)
    if program is None:
        return RefusingSandbox(NOT_INSTALLED)
    sandbox = BubblewrapSandbox(processes, program=program, readable=readable)
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as inside, tempfile.NamedTemporaryFile(prefix=_PREFIX) as outside:
        ended = await sandbox.run(_probe_command(inside, outside.name))
    return (
        sandbox
        if ended.exit_code == 0 and ended.output == b"held\n"
        else RefusingSandbox(NOT_WORKING.format(_first_error_line(ended)))
    )


def _probe_command(inside: str, outside: str) -> SandboxCommand:
    folder = Path(inside).resolve()
    return SandboxCommand(
        argv=["/bin/sh", "-c", _PROBE_SCRIPT, "sh", outside], root=folder, folder=folder, timeout=PROBE_TIMEOUT_SECONDS
    )


def _first_error_line(ended: ProcessResult) -> str:
    lines = ended.errors.decode(errors="replace").strip().splitlines()
    return lines[0][:200] if lines else NOT_CONFINED
