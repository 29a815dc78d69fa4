"""Sandbox detection: a sandbox is probed before use, and a refusal names the problem and the remedy."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from holdfast.domain.errors import Unavailable
from holdfast.ports.sandbox import SandboxCommand
from holdfast.sandbox.bubblewrap import BubblewrapSandbox
from holdfast.sandbox.detection import DetectedSandbox, RefusingSandbox, detect_sandbox
from holdfast.sandbox.processes import SupervisedProcesses
from tests.unit.sandbox.confined import real_sandbox


def program(folder: Path, text: str) -> str:
    """Write a `bwrap` script to a folder, and return the folder."""
    (folder / "bwrap").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "bwrap").chmod(0o755)
    return str(folder)


async def test_without_bubblewrap_the_reason_names_it(processes: SupervisedProcesses, tmp_path: Path) -> None:
    found = await detect_sandbox(processes, path=str(tmp_path))
    assert isinstance(found, RefusingSandbox)
    assert "bubblewrap is not installed: install it" in found.reason
    assert '`"sandbox": "off"`' in found.reason


async def test_the_error_of_a_failing_bubblewrap_is_quoted(processes: SupervisedProcesses, tmp_path: Path) -> None:
    path = program(tmp_path, "echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
    found = await detect_sandbox(processes, path=path)
    assert isinstance(found, RefusingSandbox)
    assert "bubblewrap does not work here (bwrap: No permissions to create new namespace)" in found.reason


async def test_a_bubblewrap_that_does_not_confine_is_not_used(processes: SupervisedProcesses, tmp_path: Path) -> None:
    path = program(tmp_path, 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"')
    found = await detect_sandbox(processes, path=path)
    assert isinstance(found, RefusingSandbox)
    assert "it does not confine a command" in found.reason


async def test_a_working_bubblewrap_is_used(processes: SupervisedProcesses) -> None:
    assert isinstance(await real_sandbox(processes), BubblewrapSandbox)


async def test_the_sandbox_is_detected_once(
    processes: SupervisedProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = program(tmp_path, f"echo tried >>{tmp_path}/tries; exit 1")
    monkeypatch.setenv("PATH", path)
    detected = DetectedSandbox(processes)
    for _ in range(2):
        with pytest.raises(Unavailable) as refused:
            await detected.run(SandboxCommand(argv=["true"], root=tmp_path, folder=tmp_path, timeout=60.0))
        assert refused.value.details == {"started": False}
    assert (tmp_path / "tries").read_text() == "tried\n"


# As on an old kernel: one system call is missing for this process and for all that it starts.
_WITHOUT_CALL: Final = """
import asyncio, ctypes, struct, sys
from holdfast.bootstrap.doctor.checks import diagnose_sandbox
from holdfast.workspace.settings import Settings

filter = b"".join(struct.pack("HBBI", *step) for step in (
    (0x20, 0, 0, 0), (0x15, 0, 1, int(sys.argv[1])), (0x06, 0, 0, 0x00050000 | 38), (0x06, 0, 0, 0x7FFF0000)
))
code = ctypes.create_string_buffer(filter)
program = ctypes.create_string_buffer(struct.pack("HP", 4, ctypes.addressof(code)))
prctl = ctypes.CDLL(None).prctl
prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
assert prctl(38, 1, 0, 0, 0) == 0 and prctl(22, 2, ctypes.addressof(program), 0, 0) == 0
finding = asyncio.run(diagnose_sandbox(Settings(), required=True))
print(finding.verdict, finding.about, finding.message, "|", finding.remedy)
"""


@pytest.mark.parametrize("call", [428, 429, 437, 442], ids=["open_tree", "move_mount", "openat2", "mount_setattr"])
async def test_without_the_calls_that_mount_by_handle_commands_are_refused(
    processes: SupervisedProcesses, call: int
) -> None:
    await real_sandbox(processes)
    argv = [sys.executable, "-c", _WITHOUT_CALL, str(call)]
    shown = subprocess.run(argv, capture_output=True, text=True, timeout=100).stdout  # noqa: ASYNC221
    assert shown.startswith("failed sandbox commands are refused, because this kernel or container lacks `openat2`")
    assert "| use Linux 5.12 or newer" in shown


# As a server that is not root, or root of a container: it may mount only in a user namespace of its own.
_WITHOUT_PRIVILEGE: Final = """
import asyncio, sys
from pathlib import Path
from holdfast.ports.sandbox import SandboxCommand
from holdfast.sandbox.detection import detect_sandbox
from holdfast.sandbox.processes import open_processes

async def main():
    root = Path(sys.argv[1])
    async with open_processes() as processes:
        sandbox = await detect_sandbox(processes)
        script = "cat sub/key || echo hidden; echo x >sub/kept || echo kept; mv sub other || echo pinned"
        hidden, kept = [root / "sub" / "key"], [root / "sub" / "kept"]
        command = SandboxCommand(
            argv=["/bin/sh", "-c", script], root=root, folder=root, hidden=hidden, read_only=kept, timeout=60.0
        )
        print((await sandbox.run(command)).output.decode())

asyncio.run(main())
"""


async def test_masks_hold_for_a_server_without_privileges(processes: SupervisedProcesses, tmp_path: Path) -> None:
    await real_sandbox(processes)
    (tmp_path / "sub").mkdir()
    for name in ("key", "kept"):
        (tmp_path / "sub" / name).write_text("secret")
    drop = ["setpriv", "--bounding-set", "-sys_admin"] if os.geteuid() == 0 else []
    argv = [*drop, sys.executable, "-c", _WITHOUT_PRIVILEGE, str(tmp_path)]
    shown = subprocess.run(argv, capture_output=True, text=True, timeout=100)  # noqa: ASYNC221
    assert shown.stdout.split() == ["hidden", "kept", "pinned"], shown.stderr
