"""The example `workbench.py` works."""

import subprocess
import sys

import pytest

from tests.architecture.project import ROOT
from tests.unit.sandbox.confined import need_sandbox

TIMEOUT_SECONDS = 120.0


@pytest.mark.parametrize(
    ("answer", "report"),
    [
        ("deny", "Deleting old_notes.txt: refused: a person said no"),
        ("approve", "Deleting old_notes.txt: [exit code 0]"),
    ],
)
async def test_it_fixes_asks_and_reports(answer: str, report: str) -> None:
    await need_sandbox()
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / "workbench.py"), "--answer", answer]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)  # noqa: ASYNC221  nothing else runs
    assert done.returncode == 0, done.stderr
    assert "?  the agent asks: {'command': 'rm old_notes.txt'} (rule: bash(rm *))" in done.stdout
    before, after = done.stdout.split("→  edit_file")
    assert "***Test Failed***" in before
    assert "all tests pass\n" in after.partition("create_artifact")[0]
    assert "cat: .env: Permission denied" in done.stdout
    assert "open-sesame" not in done.stdout
    assert done.stdout.split("What was mended")[-1].strip().endswith(report)
