"""Whether there is a sandbox that holds: it is tried once, before the first command, and not believed."""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from holdfast.ports.sandbox import Processes, ProcessResult, Sandbox, SandboxCommand
from holdfast.sandbox.bubblewrap import Bubblewrap
from holdfast.sandbox.none import Refusing

REMEDY: Final = (
    'or let an operator say `"sandbox": "off"` in settings.json: commands then have all rights of the server'
)
NOT_LINUX: Final = f"commands are refused, because there is no sandbox on this system: use Linux, {REMEDY}"
NOT_INSTALLED: Final = (
    "commands are refused, because bubblewrap is not installed: install it (`apt-get install bubblewrap`, "
    f"`dnf install bubblewrap`), {REMEDY}"
)
BROKEN: Final = (
    "commands are refused, because bubblewrap does not work here ({}): allow user namespaces to the user of the server "
    f"(`sysctl kernel.unprivileged_userns_clone=1`, an AppArmor profile for bwrap, or a container that may), {REMEDY}"
)
LEAKY: Final = "it does not keep a command in its bounds"
TIMEOUT: Final = 60.0

_PREFIX: Final = "holdfast-probe-"
# It can write where it should, cannot see what it should not nor turn a switch of the machine, and is nobody.
_TRIAL: Final = (
    'test -w . && test ! -e "$1" && test ! -w /proc/sys/kernel/core_pattern && test "$(id -u)" = 1000 && echo held'
)


class Probed:
    """`Sandbox` that is looked for when it is first needed. What was found then stays."""

    def __init__(self, processes: Processes, *, readable: tuple[Path, ...] = ()) -> None:
        self._processes = processes
        self._readable = readable
        self._probing = asyncio.Lock()
        self._found: Sandbox | None = None

    async def run(self, command: SandboxCommand, *, on_output: Callable[[bytes], None] | None = None) -> ProcessResult:
        """Run a command to its end."""
        return await (await self.sandbox()).run(command, on_output=on_output)

    async def sandbox(self) -> Sandbox:
        """Return the sandbox that there is, or what refuses every command."""
        async with self._probing:
            if self._found is None:
                self._found = await find(self._processes, readable=self._readable)
            return self._found


async def find(processes: Processes, *, readable: tuple[Path, ...] = (), path: str | None = None) -> Sandbox:
    """Return a sandbox that was tried, or one that says why there is none; `path` is where programs are."""
    if sys.platform != "linux":
        return Refusing(NOT_LINUX)
    program = await asyncio.to_thread(shutil.which, "bwrap", path=path)
    if program is None:
        return Refusing(NOT_INSTALLED)
    sandbox = Bubblewrap(processes, program=program, readable=readable)
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as inside, tempfile.NamedTemporaryFile(prefix=_PREFIX) as outside:
        ended = await sandbox.run(_trial(inside, outside.name))
    return sandbox if ended.exit_code == 0 and ended.output == b"held\n" else Refusing(BROKEN.format(_said(ended)))


def _trial(inside: str, outside: str) -> SandboxCommand:
    folder = Path(inside).resolve()
    return SandboxCommand(argv=["/bin/sh", "-c", _TRIAL, "sh", outside], root=folder, folder=folder, timeout=TIMEOUT)


def _said(ended: ProcessResult) -> str:
    lines = ended.errors.decode(errors="replace").strip().splitlines()
    return lines[0][:200] if lines else LEAKY
