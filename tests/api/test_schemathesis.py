"""Schemathesis over the whole OpenAPI document: no 5xx, nothing that the document does not say.

It knows what is on the server and what is taken (tests/api/acquainted.py), and its report is asked how far it came:
an explorer that guesses is refused nearly everywhere, and finds nothing wrong.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.api.openapi import openapi_document
from tests.api.explored import Explored
from tests.api.exploring import AS_SENT, AT_LENGTH, ENDLESS, check_nothing_found, explorer
from tests.api.furnished import furnished
from tests.api.serving import Server
from tests.architecture.project import ROOT

CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)
AGAIN: Final = "_in_space$"
"""The same routes once more, in a named space."""

REFUSING: Final = """
[checks]
negative_data_rejection.expected-statuses = ["4xx"]
"""
"""What is too long is refused with 413, which the explorer would take for an answer."""
EVERYWHERE: Final = f"""{REFUSING}
[phases.examples]
enabled = false
[phases.coverage]
generation.mode = "positive"
[phases.fuzzing]
generation.max-examples = 5
generation.mode = "negative"
[phases.stateful]
enabled = false
"""
ALONG_LINKS: Final = """
[phases.examples]
enabled = false
[phases.coverage]
enabled = false
[phases.fuzzing]
enabled = false
[phases.stateful]
max-steps = 20
inference.algorithms = []
generation.max-examples = 100
generation.mode = "positive"
"""
FOR_A_WHILE: Final = ("--seed", "1", "--max-time", "20")
THOROUGH: Final = f"""{REFUSING}
[phases.fuzzing]
generation.max-examples = 20
[phases.stateful]
max-steps = 20
inference.algorithms = []
"""


def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    without = f"{ENDLESS}|{AS_SENT}|{AGAIN}"
    with furnished(tmp_path) as (server, key):
        reports = [
            explore(tmp_path, server, key, EVERYWHERE, without=without, phase="Fuzzing", seconds=280),
            explore(tmp_path, server, key, ALONG_LINKS, *FOR_A_WHILE, without=without, phase="Stateful", seconds=280),
        ]
    check_it_came_far(Explored(*reports), without=without)


@pytest.mark.slow
def test_schemathesis_finds_nothing_wherever_it_looks(tmp_path: Path) -> None:
    without = f"{ENDLESS}|{AS_SENT}"
    with furnished(tmp_path) as (server, key):
        report = explore(tmp_path, server, key, THOROUGH, *AT_LENGTH, without=without, phase="Stateful", seconds=3000)
    check_it_came_far(Explored(report), without=without)


def explore(
    folder: Path, server: Server, key: str, settings: str, *options: str, without: str, phase: str, seconds: int
) -> Path:
    """Explore a server, and return the report."""
    report = folder / f"{phase}.ndjson"
    exploring = explorer(
        folder,
        server.url,
        *("--header", f"Authorization: Bearer {key}", "--report-ndjson-path", str(report), *options),
        settings=settings,
        checks=CHECKS,
        without=without,
        surroundings={
            "SCHEMATHESIS_HOOKS": "tests.api.acquainted",
            "PYTHONPATH": str(ROOT),
            "URL": server.url,
            "KEY": key,
        },
    )
    check_nothing_found(exploring, phase=phase, seconds=seconds)
    return report


def check_it_came_far(explored: Explored, *, without: str) -> None:
    """Raise unless every operation was done at least once, and most links were gone along; it must be wrong, too."""
    selected = {named: operation for named, operation in _operations() if not _fits(without, operation)}
    assert explored.never_done(set(selected)) == set()
    assert [each for each, statuses in explored.statuses.items() if None in statuses] == []
    links = [link for operation in selected.values() for link in _links(operation) if not _fits(without, link)]
    assert len(explored.links) > len(links) / 2
    assert explored.negative > len(selected)


def _operations() -> Iterator[tuple[str, Any]]:
    for path, item in openapi_document()["paths"].items():
        for method, operation in item.items():
            yield f"{method.upper()} {path}", operation


def _links(operation: Any) -> Iterator[Any]:
    for response in operation["responses"].values():
        yield from response.get("links", {}).values()


def _fits(pattern: str, operation: Any) -> bool:
    return re.search(pattern, operation["operationId"]) is not None
