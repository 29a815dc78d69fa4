"""Schemathesis over the whole OpenAPI document: no 5xx, and no response that the document does not describe.

The hooks in `tests/api/schemathesis_hooks.py` give it existing ids and valid values, and its report is checked for
coverage: with generated values alone nearly every request is refused, and no failure is found.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.api.openapi import openapi_document
from tests.api.example_data import serve_with_key
from tests.api.schemathesis_process import (
    ENDLESS_STREAMS,
    LONG_RUN_OPTIONS,
    UNTYPED_CONTENT,
    check_no_failures,
    start_schemathesis,
)
from tests.api.schemathesis_report import SchemathesisReport
from tests.api.server_process import Server
from tests.architecture.project import ROOT

CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)
NAMED_SPACE: Final = "_in_space$"
"""Operations that exist a second time, in a named space."""

REJECTION_SETTINGS: Final = """
[checks]
negative_data_rejection.expected-statuses = ["4xx"]
"""
"""Values that are too long are refused with 413, which schemathesis does not expect by default."""
ALL_OPERATIONS: Final = f"""{REJECTION_SETTINGS}
[phases.examples]
enabled = false
[phases.coverage]
generation.mode = "positive"
[phases.fuzzing]
generation.max-examples = 2
generation.mode = "negative"
[phases.stateful]
enabled = false
"""
LINKS_ONLY: Final = """
[phases.examples]
enabled = false
[phases.coverage]
enabled = false
[phases.fuzzing]
enabled = false
[phases.stateful]
max-steps = 20
inference.algorithms = []
generation.max-examples = 20
generation.mode = "positive"
"""
THOROUGH: Final = f"""{REJECTION_SETTINGS}
[phases.fuzzing]
generation.max-examples = 20
[phases.stateful]
max-steps = 20
inference.algorithms = []
"""


@pytest.mark.timeout(900)  # it takes 40 seconds of CPU
def test_schemathesis_finds_no_failure(tmp_path: Path) -> None:
    without = f"{ENDLESS_STREAMS}|{UNTYPED_CONTENT}|{NAMED_SPACE}"
    with serve_with_key(tmp_path) as (server, key):
        reports = [
            run_schemathesis(tmp_path, server, key, ALL_OPERATIONS, without=without, phase="Fuzzing", seconds=400),
            run_schemathesis(
                tmp_path, server, key, LINKS_ONLY, "--seed", "1", without=without, phase="Stateful", seconds=400
            ),
        ]
    check_coverage(SchemathesisReport(*reports), without=without)


@pytest.mark.slow
def test_a_thorough_schemathesis_run_finds_no_failure(tmp_path: Path) -> None:
    without = f"{ENDLESS_STREAMS}|{UNTYPED_CONTENT}"
    with serve_with_key(tmp_path) as (server, key):
        report = run_schemathesis(
            tmp_path, server, key, THOROUGH, *LONG_RUN_OPTIONS, without=without, phase="Stateful", seconds=3000
        )
    check_coverage(SchemathesisReport(report), without=without)


def run_schemathesis(
    folder: Path, server: Server, key: str, settings: str, *options: str, without: str, phase: str, seconds: int
) -> Path:
    """Run schemathesis against a server, and return the path of its report."""
    report = folder / f"{phase}.ndjson"
    process = start_schemathesis(
        folder,
        server.url,
        *("--header", f"Authorization: Bearer {key}", "--report-ndjson-path", str(report), *options),
        settings=settings,
        checks=CHECKS,
        without=without,
        environment={
            "SCHEMATHESIS_HOOKS": "tests.api.schemathesis_hooks",
            "PYTHONPATH": str(ROOT),
            "URL": server.url,
            "KEY": key,
        },
    )
    check_no_failures(process, phase=phase, seconds=seconds)
    return report


def check_coverage(report: SchemathesisReport, *, without: str) -> None:
    """Fail unless every operation succeeded once, most links were followed, and invalid requests were sent."""
    selected = {label: operation for label, operation in _operations() if not _matches(without, operation)}
    assert report.never_succeeded(set(selected)) == set()
    assert [each for each, statuses in report.statuses.items() if None in statuses] == []
    links = [link for operation in selected.values() for link in _links(operation) if not _matches(without, link)]
    assert len(report.links) > len(links) / 2
    assert report.negative > len(selected)


def _operations() -> Iterator[tuple[str, Any]]:
    for path, item in openapi_document()["paths"].items():
        for method, operation in item.items():
            yield f"{method.upper()} {path}", operation


def _links(operation: Any) -> Iterator[Any]:
    for response in operation["responses"].values():
        yield from response.get("links", {}).values()


def _matches(pattern: str, operation: Any) -> bool:
    return re.search(pattern, operation["operationId"]) is not None
