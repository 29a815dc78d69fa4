"""The example in `examples/skills.py` breaks the contract of an official skill first, and then keeps it."""

import subprocess
import sys
from pathlib import Path
from typing import Final

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "skills.py"


def test_the_example_keeps_the_contract_after_it_was_told() -> None:
    ended = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert [line.strip()[:12] for line in lines[:3]] == ["Sourdough st", "The contract", "The brief is"]
    assert lines[3].startswith("chosen: research-brief (called `research brief`")
    assert lines[4].startswith("contract of research-brief: kept, ['report artifact")
