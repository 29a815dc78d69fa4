"""Two spaces, a key of each, and schemathesis with both at once: nothing of the other is ever visible."""

import subprocess
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.api.auth.tenant import Known, Tenant
from tests.api.exploring import AS_SENT, AT_LENGTH, ENDLESS, check_nothing_found, explorer
from tests.api.serving import serving
from tests.architecture.project import ROOT

CHECKS: Final = ("not_a_server_error", "status_code_conformance", "nothing_foreign")
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
inference.algorithms = []
"""


def test_nothing_of_another_space_is_visible(tmp_path: Path) -> None:
    explore(tmp_path, QUICK, seconds=280)


@pytest.mark.slow
def test_nothing_of_another_space_is_visible_wherever_one_looks(tmp_path: Path) -> None:
    explore(tmp_path, THOROUGH, *AT_LENGTH, seconds=3000)


def explore(folder: Path, settings: str, *options: str, seconds: int) -> None:
    """Explore one server with two keys at once."""
    with serving(folder, "--quiet") as server:
        first = server.ask("/api/keys", {"name": "root", "scope": "admin", "every_space": True})
        one, other = [Tenant(server, first["secret"], space) for space in ("acme", "globex")]
        both = ((one, other), (other, one))
        for each in [_explorer(folder, settings, *options, tenant=mine, other=theirs) for mine, theirs in both]:
            check_nothing_found(each, seconds=seconds)


def _explorer(folder: Path, settings: str, *options: str, tenant: Tenant, other: Tenant) -> subprocess.Popen[str]:
    known = folder / f"{tenant.space}.json"
    known.write_bytes(msgspec.json.encode(Known(own=tenant.has, foreign=other.has)))
    return explorer(
        folder,
        tenant.server.url,
        *("--header", f"Authorization: Bearer {tenant.secret}", *options),
        settings=settings,
        checks=CHECKS,
        without=f"{ENDLESS}|{AS_SENT}|{ENDING}",
        surroundings={"SCHEMATHESIS_HOOKS": "tests.api.auth.foreign", "PYTHONPATH": str(ROOT), "KNOWN": str(known)},
    )
