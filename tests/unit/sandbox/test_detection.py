"""Sandbox detection: a sandbox is probed before use, and a refusal names the problem and the remedy."""

from pathlib import Path

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
