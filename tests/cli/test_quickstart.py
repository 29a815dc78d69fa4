"""The commands of the quick start work as printed, in order, and print what the guide shows."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.architecture.project import ROOT

GUIDE: Final = (ROOT / "docs" / "guides" / "quickstart.md").read_text()
TIMEOUT_SECONDS: Final = 120
WAIT_FOR_SERVER: Final = (
    'SERVER=$!; trap "kill $SERVER; wait $SERVER" EXIT; for _ in $(seq 300); do '
    "test -e .holdfast/server.json && break; sleep 0.1; done"
)


def blocks(language: str) -> list[str]:
    """Return the code blocks of the guide."""
    return re.findall(rf"^```{language}\n(.+?)^```", GUIDE, re.MULTILINE | re.DOTALL)


def quick_start_script() -> str:
    """Return the commands of the guide as one script; the server runs beside the others, on a free port."""
    commands = "\n".join(blocks("sh"))
    served = f"holdfast serve --port 0 --quiet >&2 &\n{WAIT_FOR_SERVER}"
    assert commands.count("\nholdfast serve\n") == 1
    return "set -eu\n" + commands.replace("holdfast serve\n", f"{served}\n")


def run_quick_start(folder: Path, program: Path) -> str:
    """Play the guide in a folder with the commands beside `program`, and return what it printed."""
    environment = {"PATH": f"{program.parent}:/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8"}
    done = subprocess.run(
        ["bash", "-c", quick_start_script()],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return re.sub(r"_[0-9a-f]{32}", "_…", done.stdout)


def test_the_quick_start_works_as_printed(tmp_path: Path) -> None:
    printed = run_quick_start(tmp_path, Path(sys.executable))
    missing = [block for block in blocks("text") if block not in printed]
    assert missing == [], printed
    assert "these functions load: price" in printed
