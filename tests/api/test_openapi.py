"""The OpenAPI document and the reference describe every route, and nothing else."""

import json
from typing import Final

import jsonschema_rs

from holdfast.api.errors import HTTP_ERRORS, STATUS_BY_ERROR, status_of
from holdfast.api.events_schema import events_schema_json
from holdfast.api.openapi import CREATED_IDS, openapi_document, openapi_json
from holdfast.api.router import ROUTES
from holdfast.api.streams.websocket import WebSocketCloseCode
from holdfast.api.tasks.errors import TASK_ERRORS
from holdfast.control.errors import KEY_ERRORS, BadCursor, TooManyStreams
from holdfast.domain.errors import HoldfastError
from tests.api.site import Site
from tests.architecture.markdown import rows
from tests.architecture.project import ROOT

REFERENCE: Final = ROOT / "docs" / "reference"


def test_the_document_in_the_docs_is_current() -> None:
    documented = (REFERENCE / "openapi.json").read_bytes()
    assert documented == openapi_json(), "run `holdfast openapi > docs/reference/openapi.json`"


def test_the_schema_of_events_in_the_docs_is_current_and_takes_recorded_logs() -> None:
    documented = (REFERENCE / "events.schema.json").read_bytes()
    assert documented == events_schema_json(), "run `holdfast openapi --events > docs/reference/events.schema.json`"
    validator = jsonschema_rs.validator_for(json.loads(documented))
    logs = sorted((ROOT / "console" / "tests" / "logs").glob("*.json"))
    events = [event["data"] for log in logs for event in json.loads(log.read_text())]
    assert len(events) > 50
    assert [event for event in events if not validator.is_valid(event)] == []
    step = next(event for event in events if event.get("name") == "holdfast.step")
    for wrong in ({**step, "value": {}}, {**step, "type": "NEW"}, {"type": "CUSTOM", "name": "holdfast.new"}):
        assert not validator.is_valid(wrong), wrong


async def test_the_server_serves_the_document(site: Site) -> None:
    response = await site.request("GET", "/openapi.json")
    assert (response.headers["content-type"], response.content) == ("application/json", openapi_json())


def test_every_route_parameter_body_response_and_error_is_described() -> None:
    document = openapi_document()
    names = [operation["operationId"] for item in document["paths"].values() for operation in item.values()]
    assert len(names) == len(set(names)) == sum(len(route.paths) for route in ROUTES)
    for path, item in document["paths"].items():
        for method, operation in item.items():
            operation_label = f"{method} {path}"
            assert operation["summary"] and operation["description"] and operation["tags"], operation_label
            assert {"400", "403", "500", "503"} <= set(operation["responses"]), operation_label
            assert any(status.startswith("2") for status in operation["responses"]), operation_label
            if method != "get":
                assert "409" in operation["responses"], operation_label
            if "requestBody" in operation:
                assert {"413", "415"} <= set(operation["responses"]), operation_label
            in_path = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
            assert in_path == {part[1:-1] for part in path.split("/") if part.startswith("{")}, operation_label


def test_bodies_refuse_unknown_fields_except_in_the_tasks_contract() -> None:
    schemas = openapi_document()["components"]["schemas"]
    for name, schema in schemas.items():
        if name.endswith(("Body", "Changes", "Patch")) and name not in ("TaskBody", "TaskRespondBody"):
            assert schema["additionalProperties"] is False, name


def test_every_reference_resolves() -> None:
    document = openapi_document()
    for target in {part.split('"')[0] for part in json.dumps(document).split('"$ref": "#/')[1:]}:
        found = document
        for step in target.split("/"):
            found = found[step]
        assert found


def test_the_reference_has_the_routes_and_no_others() -> None:
    documented = dict(rows(REFERENCE / "api.md", "route", "what it does"))
    assert documented == {
        f"`{method.upper()} {path}`": operation["summary"]
        for path, item in openapi_document()["paths"].items()
        for method, operation in item.items()
        if not operation["operationId"].endswith("_in_space")  # these exist a second time, in a named space
    }


def test_the_reference_has_the_errors_of_a_request_and_no_others() -> None:
    documented = rows(REFERENCE / "api.md", "code", "status", "meaning")
    assert sorted(documented) == sorted(
        [f"`{error.code}`", str(status_of(error(""))), (error.__doc__ or "").splitlines()[0]]
        for error in (*HTTP_ERRORS, BadCursor, TooManyStreams, *TASK_ERRORS, *KEY_ERRORS)
    )


def test_the_reference_has_the_status_of_each_error_class() -> None:
    documented = {
        name: int(status)
        for names, status in rows(REFERENCE / "api.md", "class", "status")
        for name in names.split(", ")
    }
    classes = {
        error: status for error, status in STATUS_BY_ERROR.items() if error.__module__ == HoldfastError.__module__
    }
    other = classes.pop(HoldfastError)
    assert documented == {f"`{error.__name__}`": status for error, status in classes.items()} | {"anything else": other}


def test_the_reference_has_the_close_codes_and_no_others() -> None:
    documented = [int(code) for code, _ in rows(REFERENCE / "api.md", "close code", "meaning")]
    assert documented == sorted(WebSocketCloseCode)


def test_operations_that_create_something_link_to_operations_on_it() -> None:
    document = openapi_document()
    names = {operation["operationId"] for item in document["paths"].values() for operation in item.values()}
    linked = {
        operation["operationId"]: response["links"]
        for item in document["paths"].values()
        for operation in item.values()
        for response in operation["responses"].values()
        if "links" in response
    }
    assert set(linked) == set(CREATED_IDS)
    assert {link["operationId"] for links in linked.values() for link in links.values()} <= names
    assert linked["create_run"]["read_thread_run"]["parameters"] == {
        "run_id": "$response.body#/id",
        "thread_id": "$request.path.thread_id",
    }


def test_the_response_to_a_new_run_has_its_headers() -> None:
    responses = openapi_document()["paths"]["/api/threads/{thread_id}/runs"]["post"]["responses"]
    assert set(responses["201"]["headers"]) == {"Idempotency-Replayed"}
    assert set(responses["200"]["headers"]) == {"Idempotency-Replayed", "X-Run-Id", "Content-Location"}


def test_length_limits_are_in_the_schemas() -> None:
    schemas = openapi_document()["components"]["schemas"]

    def limit(body: str, field: str, keyword: str) -> int:
        found = schemas[body]["properties"][field]
        return next(each[keyword] for each in (found, *found.get("anyOf", ())) if keyword in each)  # type: ignore[no-any-return]

    assert [limit(body, "title", "maxLength") for body in ("ThreadBody", "ThreadChanges", "ArtifactBody")] == [500] * 3
    assert [limit(body, "name", "maxLength") for body in ("SpaceBody", "SpacePatch")] == [200, 200]
    assert (limit("RunBody", "tags", "maxItems"), limit("RunBody", "messages", "maxItems")) == (50, 1000)
    assert schemas["RunBody"]["properties"]["tags"]["items"]["maxLength"] == 128
    parameters = openapi_document()["paths"]["/api/threads/{thread_id}/runs"]["post"]["parameters"]
    (key,) = [each["schema"] for each in parameters if each["name"] == "Idempotency-Key"]
    assert (key["minLength"], key["maxLength"]) == (1, 255)
