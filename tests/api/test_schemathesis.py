"""Schemathesis over the whole OpenAPI document: no 5xx, nothing that the document does not say."""

from pathlib import Path
from typing import Final

import pytest

from tests.api.exploring import AS_SENT, AT_LENGTH, ENDLESS, check_nothing_found, explorer
from tests.api.serving import serving

CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)
LOCKING: Final = "create_key"
"""Once there is a key, every request needs one: tests/api/auth goes through the rest with keys."""
AGAIN: Final = "_in_space$"
"""The same routes once more, in a named space."""

QUICK: Final = """
[phases.examples]
enabled = false
[phases.fuzzing]
enabled = false
[phases.coverage]
generation.mode = "positive"
[phases.stateful]
max-steps = 6
inference.algorithms = []
generation.max-examples = 12
generation.mode = "positive"
"""
THOROUGH: Final = """
[phases.fuzzing]
generation.max-examples = 20
[phases.stateful]
max-steps = 12
inference.algorithms = []
"""


def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    explore(tmp_path, QUICK, without=f"{ENDLESS}|{AS_SENT}|{LOCKING}|{AGAIN}", seconds=280)


@pytest.mark.slow
def test_schemathesis_finds_nothing_wherever_it_looks(tmp_path: Path) -> None:
    explore(tmp_path, THOROUGH, *AT_LENGTH, without=f"{ENDLESS}|{AS_SENT}|{LOCKING}", seconds=3000)


def explore(folder: Path, settings: str, *options: str, without: str, seconds: int) -> None:
    """Explore a server of its own."""
    with serving(folder, "--quiet") as server:
        exploring = explorer(folder, server.url, *options, settings=settings, checks=CHECKS, without=without)
        check_nothing_found(exploring, seconds=seconds)
