"""Two spaces, a key of each, and schemathesis with both at once: nothing of the other is ever visible."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.api.auth.tenant import Foreign, Tenant
from tests.api.serving import serving
from tests.architecture.project import ROOT

CHECKS: Final = "not_a_server_error,status_code_conformance,nothing_foreign"
ENDLESS: Final = "follow_notifications|follow_space"
ENDING: Final = "delete_space|revoke_key"
"""What would end the exploration: the space, or the key, with which it is done."""

QUICK: Final = """
[phases.examples]
enabled = false
[phases.fuzzing]
enabled = false
[phases.coverage]
enabled = false
[phases.stateful]
max-steps = 8
inference.algorithms = []
generation.max-examples = 5
generation.mode = "positive"
"""
THOROUGH: Final = """
[phases.examples]
enabled = false
[phases.fuzzing]
generation.max-examples = 10
[phases.stateful]
max-steps = 12
generation.max-examples = 150
"""


def test_nothing_of_another_space_is_visible(tmp_path: Path) -> None:
    explore(tmp_path, QUICK, seconds=280)


@pytest.mark.slow
def test_nothing_of_another_space_is_visible_wherever_one_looks(tmp_path: Path) -> None:
    explore(tmp_path, THOROUGH, seconds=3000)


def explore(folder: Path, settings: str, *, seconds: int) -> None:
    """Let it loose on a server, with two keys at once."""
    (folder / "settings.toml").write_text(settings)
    with serving(folder, "--quiet") as server:
        first = server.ask("/api/keys", {"name": "root", "scope": "admin", "every_space": True})
        one, other = [Tenant(server, first["secret"], space) for space in ("acme", "globex")]
        exploring = [_explorer(folder, one, other.known), _explorer(folder, other, one.known)]
        for process in exploring:
            said, _ = process.communicate(timeout=seconds)
            assert process.returncode == 0, said[-8000:]
            assert "Stateful" in said


def _explorer(folder: Path, tenant: Tenant, foreign: Foreign) -> subprocess.Popen[str]:
    known = folder / f"{tenant.space}.json"
    known.write_bytes(msgspec.json.encode(foreign))
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", "settings.toml"),
        *("run", f"{tenant.server.url}/openapi.json", "--checks", CHECKS),
        *("--header", f"Authorization: Bearer {tenant.secret}"),
        *("--generation-deterministic", "--no-color", "--continue-on-failure", "--warnings", "off"),
        *("--exclude-operation-id-regex", f"{ENDLESS}|{ENDING}", "--request-timeout", "60"),
    ]
    surroundings = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    surroundings |= {"SCHEMATHESIS_HOOKS": "tests.api.auth.foreign", "PYTHONPATH": str(ROOT), "FOREIGN": str(known)}
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=surroundings
    )
