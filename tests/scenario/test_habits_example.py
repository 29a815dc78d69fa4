"""The example of a reminder over a restart works."""

import subprocess
import sys
from typing import Final

from tests.architecture.project import ROOT

TIMEOUT_SECONDS: Final = 120.0


def test_a_reminder_that_was_due_while_nothing_ran_reaches_the_next_turn() -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / "habits" / "reminder.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stderr
    assert "opened again: triggered" in done.stdout
    assert "[normal, since" in done.stdout and "take the bread out of the oven\n</reminders-" in done.stdout
