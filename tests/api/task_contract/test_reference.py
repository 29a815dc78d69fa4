"""The tables of the reference page match the code."""

import re
from typing import Final

import msgspec
import pytest

from holdfast.api.errors import status_of
from holdfast.api.openapi import openapi_document
from holdfast.api.tasks.bodies import TaskBody, TaskStatus
from holdfast.api.tasks.errors import TASK_ERRORS
from holdfast.api.tasks.events import MAX_PREVIEW_CHARS, TaskEvent
from holdfast.api.tasks.routes import ROUTES
from holdfast.domain.new_run import MAX_TAGS
from tests.api.task_contract.task_client import TaskClient
from tests.architecture.project import ROOT

PAGE: Final = (ROOT / "docs" / "reference" / "tasks-contract.md").read_text()
CELL: Final = re.compile(r"`([^`]+)`")


def table(heading: str) -> list[list[str]]:
    """Return the rows of the first table under a heading."""
    rows = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0].split("\n|", 3)[3].split("\n\n")[0]
    return [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in rows.splitlines()]


def first_column(heading: str) -> list[str]:
    """Return the names in the first column of a table."""
    return [CELL.findall(row[0])[0] for row in table(heading)]


def test_every_route_is_documented_with_its_status() -> None:
    described = openapi_document(ROUTES)["paths"]
    routes = {
        f"{method.upper()} {path}": (operation["summary"], next(iter(operation["responses"])))
        for path, item in described.items()
        for method, operation in item.items()
    }
    written = {CELL.findall(row[0])[0]: (row[1], row[2][:3]) for row in table("Routes")}
    assert written == routes and len(written) == 9


def test_every_status_is_documented() -> None:
    assert first_column("Status") == [str(status) for status in TaskStatus]


def test_every_field_of_a_new_task_is_documented_with_its_default() -> None:
    fields = msgspec.json.schema_components([TaskBody])[1]["TaskBody"]["properties"]
    written = {CELL.findall(row[0])[0]: row[2].strip("`") for row in table("Creating")}
    assert set(written) == set(fields)
    for name, field in fields.items():
        default = msgspec.json.encode(field["default"]).decode().strip('"') if "default" in field else "needed"
        assert written[name] == default
    assert f"up to {MAX_TAGS} texts" in PAGE


def test_every_error_is_documented_with_its_status_and_meaning() -> None:
    codes = [[f"`{each.code}`", str(status_of(each(""))), (each.__doc__ or "").splitlines()[0]] for each in TASK_ERRORS]
    assert table("Errors") == codes


@pytest.mark.parametrize("agent", ["worker", "failing"])
async def test_every_event_type_is_documented_with_its_data(client: TaskClient, agent: str) -> None:
    written = {CELL.findall(row[0])[0]: set(CELL.findall(row[1])) for row in table("Events")}
    events = await client.events(await client.run_to_end(agent))
    for event in events:
        allowed = written[event["type"]]
        assert {name for name in allowed if not name.endswith("?")} <= set(event["data"])
        assert set(event["data"]) <= {name.rstrip("?") for name in allowed}
    assert agent != "worker" or {event["type"] for event in events} == set(written)
    assert f"up to {MAX_PREVIEW_CHARS} characters" in PAGE


def test_the_example_event_has_the_right_shape() -> None:
    example = re.search(r"```json\n(.+?)```", PAGE, re.DOTALL)
    assert example is not None
    event = msgspec.json.decode(example[1], type=TaskEvent)
    assert list(msgspec.json.decode(example[1])) == list(TaskEvent.__struct_fields__)
    assert event.event == {"type": event.type, **event.data}
