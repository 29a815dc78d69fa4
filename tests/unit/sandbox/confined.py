"""The sandbox of this machine for tests, and commands to run in it."""

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.ports.sandbox import Processes, ProcessResult, Sandbox, SandboxCommand
from holdfast.sandbox.detection import NOT_CONFINED, RefusingSandbox, detect_sandbox
from holdfast.sandbox.processes import open_processes


async def real_sandbox(processes: Processes, **options: Any) -> Sandbox:
    """Return the sandbox of this machine; a test that needs it is skipped, with the reason, where there is none."""
    found = await detect_sandbox(processes, **options)
    if isinstance(found, RefusingSandbox):
        assert NOT_CONFINED not in found.reason, "a sandbox that does not confine is worse than none"
        pytest.skip(found.reason)
    return found


async def need_sandbox() -> None:
    """Skip the test, with the reason, where there is no sandbox."""
    async with open_processes() as processes:
        await real_sandbox(processes)


class SandboxedFolder:
    """A folder, and scripts that run in a sandbox around it."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self.folder = folder
        self._sandbox = sandbox

    async def run(
        self, script: str, *, on_output: Callable[[bytes], None] | None = None, **bounds: Any
    ) -> ProcessResult:
        """Run a shell script in the sandbox."""
        options = {"root": self.folder, "folder": self.folder, "timeout": 60.0, **bounds}
        return await self._sandbox.run(SandboxCommand(argv=["/bin/bash", "-c", script], **options), on_output=on_output)

    async def python(self, code: str, **bounds: Any) -> ProcessResult:
        """Run Python code in the sandbox."""
        return await self.run(f"{shlex.quote(PYTHON)} -I -S -c {shlex.quote(code)}", **bounds)


PYTHON = next((path for path in ("/usr/bin/python3", "/usr/local/bin/python3") if Path(path).exists()), sys.executable)
"""A Python interpreter that exists inside the sandbox."""
