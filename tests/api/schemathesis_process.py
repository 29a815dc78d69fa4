"""Schemathesis in a separate process."""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

ENDLESS_STREAMS: Final = "follow_notifications|follow_space"
"""Streams that never end by themselves."""
UNTYPED_CONTENT: Final = "read_file_content"
"""The operation whose content type is that of the uploaded file: schemathesis would try to parse the content."""
LONG_RUN_OPTIONS: Final = ("--seed", "1", "--max-time", "900")
"""Follow links repeatedly for 900 seconds: a single pass stops when the server responds differently from before."""


def start_schemathesis(
    folder: Path,
    url: str,
    *options: str,
    settings: str,
    checks: Iterable[str],
    without: str,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[str]:
    """Start schemathesis with these settings, without the operations whose ids match `without`."""
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
        env={**direct, **(environment or {})},
    )


def check_no_failures(process: subprocess.Popen[str], *, phase: str = "Stateful", seconds: int) -> None:
    """Wait until schemathesis ends; fail if it reports a failure or did not finish its last phase."""
    try:
        output, _ = process.communicate(timeout=seconds)
    finally:
        process.kill()  # if it hangs
    assert process.returncode == 0, output[-8000:]
    assert f"✅  {phase}" in output, output[-8000:]  # schemathesis reports no failure if its own thread dies
