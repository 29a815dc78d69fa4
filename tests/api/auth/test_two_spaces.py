"""Schemathesis with the keys of two spaces at once: no response shows anything of the other space."""

import subprocess
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.api.auth.tenant import KnownContents, Tenant
from tests.api.schemathesis_process import (
    ENDLESS_STREAMS,
    LONG_RUN_OPTIONS,
    UNTYPED_CONTENT,
    check_no_failures,
    start_schemathesis,
)
from tests.api.server_process import run_server
from tests.architecture.project import ROOT

CHECKS: Final = ("not_a_server_error", "status_code_conformance", "nothing_foreign")
EXCLUDED: Final = "delete_space|revoke_key"
"""Operations that would delete the space or revoke the key in use."""

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
    run_schemathesis(tmp_path, QUICK, seconds=280)


@pytest.mark.slow
def test_nothing_of_another_space_is_visible_to_a_thorough_run(tmp_path: Path) -> None:
    run_schemathesis(tmp_path, THOROUGH, *LONG_RUN_OPTIONS, seconds=3000)


def run_schemathesis(folder: Path, settings: str, *options: str, seconds: int) -> None:
    """Run schemathesis against one server with two keys at once."""
    with run_server(folder, "--quiet") as server:
        first = server.request("/api/keys", {"name": "root", "scope": "admin", "every_space": True})
        acme, globex = [Tenant(server, first["secret"], space) for space in ("acme", "globex")]
        pairs = ((acme, globex), (globex, acme))
        for process in [
            _start_as_tenant(folder, settings, *options, tenant=tenant, other=other) for tenant, other in pairs
        ]:
            check_no_failures(process, seconds=seconds)


def _start_as_tenant(
    folder: Path, settings: str, *options: str, tenant: Tenant, other: Tenant
) -> subprocess.Popen[str]:
    contents_file = folder / f"{tenant.space}.json"
    contents_file.write_bytes(msgspec.json.encode(KnownContents(own=tenant.contents, foreign=other.contents)))
    return start_schemathesis(
        folder,
        tenant.server.url,
        *("--header", f"Authorization: Bearer {tenant.secret}", *options),
        settings=settings,
        checks=CHECKS,
        without=f"{ENDLESS_STREAMS}|{UNTYPED_CONTENT}|{EXCLUDED}",
        environment={
            "SCHEMATHESIS_HOOKS": "tests.api.auth.foreign_id_hooks",
            "PYTHONPATH": str(ROOT),
            "KNOWN": str(contents_file),
        },
    )
