"""The example `orchestra.py` works."""

import subprocess
import sys
from subprocess import CompletedProcess
from typing import Final

from tests.architecture.project import ROOT

TIMEOUT_SECONDS: Final = 120.0


def play(answer: str) -> "CompletedProcess[str]":
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / "orchestra.py"), "--answer", answer]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)


def test_it_plans_spawns_asks_once_and_reports() -> None:
    done = play("the garden")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("?  Which hall shall we play in? ['the great hall', 'the garden']") == 1
    for section in ("strings", "winds"):
        assert f"\n{section}: Propose a piece for {section}, ten minutes at most.\n" in done.stdout
        assert f"# Parts for {section} (by {section})" in done.stdout
    assert "\nstrings: We play in the garden. Does the piece work there?\n" in done.stdout
    assert "# Programme (by conductor)" in done.stdout
    assert "The programme is written: two pieces, and everybody agrees." in done.stdout


def test_an_answer_that_is_none_of_the_options_is_refused() -> None:
    done = play("the moon")
    assert done.returncode != 0
    assert "does not match its schema" in done.stdout
