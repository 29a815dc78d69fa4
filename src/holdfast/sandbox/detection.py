"""Detection of a working sandbox, and the sandboxes used when there is none.

A sandbox is probed once, before the first command.
"""

import asyncio
import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from holdfast.domain.errors import Invalid, Unavailable
from holdfast.ports.sandbox import Command, Processes, ProcessResult, Sandbox, SandboxCommand
from holdfast.sandbox.bubblewrap import BubblewrapSandbox
from holdfast.sandbox.launch import command_environment, with_resource_limits


class UnconfinedSandbox:
    """`Sandbox` without confinement: resource limits and a clean environment, but all rights of the worker.

    Hidden and read-only paths are not enforced, and the network is reachable.
    """

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    async def run(self, command: SandboxCommand, *, on_output: Callable[[bytes], None] | None = None) -> ProcessResult:
        """Run a command to its end."""
        return await self._processes.run(
            Command(
                argv=with_resource_limits(command.argv, command.limits),
                folder=command.folder,
                environment=command_environment(os.environ, command),
                input=command.input,
                on_stderr=command.on_stderr,
                timeout=command.timeout,
                output_limit=command.output_limit,
                max_processes=command.limits.processes,
            ),
            on_output=on_output,
        )


class RefusingSandbox:
    """`Sandbox` that refuses every command with a reason."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    async def run(self, command: SandboxCommand, *, on_output: Callable[[bytes], None] | None = None) -> ProcessResult:
        """Raise `Unavailable` with the reason."""
        raise Unavailable(self.reason, started=False)


REMEDY: Final = (
    'or have an operator set `"sandbox": "off"` in settings.json: commands then have all rights of the server'
)
NOT_LINUX: Final = f"commands are refused, because there is no sandbox on this system: use Linux, {REMEDY}"
NOT_INSTALLED: Final = (
    "commands are refused, because bubblewrap is not installed: install it (`apt-get install bubblewrap`, "
    f"`dnf install bubblewrap`), {REMEDY}"
)
NOT_WORKING: Final = (
    "commands are refused, because bubblewrap does not work here ({}): allow user namespaces for the server's user "
    "(`sysctl kernel.unprivileged_userns_clone=1`, an AppArmor profile for bwrap and Python, or a container that may), "
    f"{REMEDY}"
)
OLD_KERNEL: Final = (
    "commands are refused, because this kernel or container lacks `openat2`, `open_tree`, `move_mount` or "
    "`mount_setattr`, without which folders cannot be mounted safely: use Linux 5.12 or newer and a container that "
    f"allows these calls, {REMEDY}"
)
NOT_CONFINED: Final = "it does not confine a command"
PROBE_TIMEOUT_SECONDS: Final = 60.0

_PREFIX: Final = "holdfast-probe-"
# The probe can write in its folder, cannot see a file outside or change a kernel setting, and is an ordinary user.
_PROBE_SCRIPT: Final = (
    'test -w . && test ! -e "$1" && test ! -w /proc/sys/kernel/core_pattern && test "$(id -u)" = 1000 && echo held'
)


class DetectedSandbox:
    """`Sandbox` that is detected on first use, once."""

    def __init__(self, processes: Processes, *, readable: tuple[Path, ...] = (), workspace: Path | None = None) -> None:
        self._processes = processes
        self._readable = readable
        self._workspace = workspace
        self._lock = asyncio.Lock()
        self._found: Sandbox | None = None

    async def run(self, command: SandboxCommand, *, on_output: Callable[[bytes], None] | None = None) -> ProcessResult:
        """Run a command to its end."""
        return await (await self.sandbox()).run(command, on_output=on_output)

    async def sandbox(self) -> Sandbox:
        """Return the working sandbox, or one that refuses every command."""
        async with self._lock:
            if self._found is None:
                self._found = await detect_sandbox(self._processes, readable=self._readable, workspace=self._workspace)
            return self._found


async def detect_sandbox(
    processes: Processes,
    *,
    readable: tuple[Path, ...] = (),
    workspace: Path | None = None,
    path: str | None = None,
) -> Sandbox:
    """Return a probed sandbox, or one that refuses with the reason; programs are searched in `path`."""
    if sys.platform != "linux":
        return RefusingSandbox(NOT_LINUX)
    program = await asyncio.to_thread(shutil.which, "bwrap", path=path)
    if program is None:
        return RefusingSandbox(NOT_INSTALLED)
    sandbox = BubblewrapSandbox(processes, program=program, readable=readable, workspace=workspace)
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as inside, tempfile.NamedTemporaryFile(prefix=_PREFIX) as outside:
        folder = await asyncio.to_thread(Path(inside).resolve)
        argv = ["/bin/sh", "-c", _PROBE_SCRIPT, "sh", outside.name]
        command = SandboxCommand(argv=argv, root=folder, folder=folder, timeout=PROBE_TIMEOUT_SECONDS)
        try:
            result = await sandbox.run(command)
        except (Unavailable, Invalid) as exc:
            reason = OLD_KERNEL if exc.details.get("errno") == errno.ENOSYS else NOT_WORKING.format(exc.message)
            return RefusingSandbox(reason)
    if result.exit_code == 0 and result.output == b"held\n":
        return sandbox
    error_lines = result.errors.decode(errors="replace").strip().splitlines()
    return RefusingSandbox(NOT_WORKING.format(error_lines[0][:200] if error_lines else NOT_CONFINED))
