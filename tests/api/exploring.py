"""Schemathesis, let loose on a server from a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

ENDLESS: Final = "follow_notifications|follow_space"
"""Streams that go on until somebody leaves them."""
AS_SENT: Final = "read_file_content"
"""It answers with whatever type the file was said to have; the explorer would believe it, and stumble."""
AT_LENGTH: Final = ("--seed", "1", "--max-time", "900")
"""Go along links again and again for so many seconds: one pass stops where the server answers other than before."""


def explorer(
    folder: Path,
    url: str,
    *options: str,
    settings: str,
    checks: Iterable[str],
    without: str,
    surroundings: Mapping[str, str] | None = None,
) -> subprocess.Popen[str]:
    """Begin to explore a server, `without` the operations whose ids fit that; the `settings` say how far."""
    (folder / "settings.toml").write_text(settings)
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", "settings.toml"),
        *("run", f"{url}/openapi.json", "--checks", ",".join(checks)),
        *("--generation-deterministic", "--no-color", "--continue-on-failure", "--warnings", "off"),
        *("--exclude-operation-id-regex", without, "--request-timeout", "60", *options),
    ]
    direct = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    return subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**direct, **(surroundings or {})},
    )


def check_nothing_found(exploring: subprocess.Popen[str], *, phase: str = "Stateful", seconds: int) -> None:
    """Wait until an exploration is over; raise if it found something, or did not come to the end of its last phase."""
    said, _ = exploring.communicate(timeout=seconds)
    assert exploring.returncode == 0, said[-8000:]
    assert f"✅  {phase}" in said, said[-8000:]  # where its own thread dies, the explorer finds nothing wrong
