"""The example `memory/remember.py` works."""

import subprocess
import sys

from tests.architecture.project import ROOT

TIMEOUT_SECONDS = 120


def test_an_agent_remembers_over_a_restart_says_why_and_forgets() -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / "memory" / "remember.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert "The person is allergic to peanuts" in done.stdout
    assert '"text":"By the way, I am allergic to peanuts."' in done.stdout
    assert done.stdout.rstrip().endswith('agent: I looked into my memory: {"memories":[]}')
