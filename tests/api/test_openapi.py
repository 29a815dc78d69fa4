"""The OpenAPI document tells all there is, and nothing else."""

import json
from typing import Final

from holdfast.api.errors import HTTP_ERRORS, STATUS_BY_ERROR, status_of
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
    written = (REFERENCE / "openapi.json").read_bytes()
    assert written == openapi_json(), "run `holdfast openapi > docs/reference/openapi.json`"


async def test_the_server_serves_it(site: Site) -> None:
    response = await site.request("GET", "/openapi.json")
    assert (response.headers["content-type"], response.content) == ("application/json", openapi_json())


def test_every_route_parameter_body_answer_and_error_is_described() -> None:
    whole = openapi_document()
    names = [operation["operationId"] for item in whole["paths"].values() for operation in item.values()]
    assert len(names) == len(set(names)) == sum(len(route.paths) for route in ROUTES)
    for path, item in whole["paths"].items():
        for method, operation in item.items():
            where = f"{method} {path}"
            assert operation["summary"] and operation["description"] and operation["tags"], where
            assert {"400", "403", "500", "503"} <= set(operation["responses"]), where
            assert any(status.startswith("2") for status in operation["responses"]), where
            if method != "get":
                assert "409" in operation["responses"], where
            if "requestBody" in operation:
                assert {"413", "415"} <= set(operation["responses"]), where
            named = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
            assert named == {part[1:-1] for part in path.split("/") if part.startswith("{")}, where


def test_bodies_refuse_what_they_do_not_know() -> None:
    schemas = openapi_document()["components"]["schemas"]
    for name, schema in schemas.items():
        if name.endswith(("Body", "Changes", "Patch")):
            assert schema["additionalProperties"] is False, name


def test_every_reference_leads_somewhere() -> None:
    whole = openapi_document()
    for target in {part.split('"')[0] for part in json.dumps(whole).split('"$ref": "#/')[1:]}:
        found = whole
        for step in target.split("/"):
            found = found[step]
        assert found


def test_the_reference_has_the_routes_and_no_others() -> None:
    written = dict(rows(REFERENCE / "api.md", "route", "what it does"))
    assert written == {
        f"`{method.upper()} {path}`": operation["summary"]
        for path, item in openapi_document()["paths"].items()
        for method, operation in item.items()
        if not operation["operationId"].endswith("_in_space")  # the same again, in a named space
    }


def test_the_reference_has_the_errors_of_a_request_and_no_others() -> None:
    written = rows(REFERENCE / "api.md", "code", "status", "meaning")
    assert sorted(written) == sorted(
        [f"`{error.code}`", str(status_of(error(""))), (error.__doc__ or "").splitlines()[0]]
        for error in (*HTTP_ERRORS, BadCursor, TooManyStreams, *TASK_ERRORS, *KEY_ERRORS)
    )


def test_the_reference_has_the_status_of_each_class_of_the_platform() -> None:
    written = {
        name: int(status)
        for names, status in rows(REFERENCE / "api.md", "class", "status")
        for name in names.split(", ")
    }
    classes = {
        error: status for error, status in STATUS_BY_ERROR.items() if error.__module__ == HoldfastError.__module__
    }
    other = classes.pop(HoldfastError)
    assert written == {f"`{error.__name__}`": status for error, status in classes.items()} | {"anything else": other}


def test_the_reference_has_the_ways_a_socket_is_closed_and_no_others() -> None:
    written = [int(code) for code, _ in rows(REFERENCE / "api.md", "close code", "meaning")]
    assert written == sorted(WebSocketCloseCode)


def test_what_is_made_is_linked_to_what_goes_on_with_it() -> None:
    whole = openapi_document()
    names = {operation["operationId"] for item in whole["paths"].values() for operation in item.values()}
    linked = {
        operation["operationId"]: response["links"]
        for item in whole["paths"].values()
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


def test_the_answer_to_a_new_run_has_its_headers() -> None:
    responses = openapi_document()["paths"]["/api/threads/{thread_id}/runs"]["post"]["responses"]
    assert set(responses["201"]["headers"]) == {"Idempotency-Replayed"}
    assert set(responses["200"]["headers"]) == {"Idempotency-Replayed", "X-Run-Id", "Content-Location"}


def test_what_is_too_long_is_said_beforehand() -> None:
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
