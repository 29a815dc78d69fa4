"""HEAD and OPTIONS on every path."""

from itertools import groupby

import pytest

from holdfast.api.router import ROUTES
from tests.api.site import Site


@pytest.mark.parametrize(
    "path", ["/health", "/ready", "/openapi.json", "/api/threads", "/api/agents/bot", "/v1/models"]
)
async def test_head_returns_the_headers_of_get_without_a_body(site: Site, path: str) -> None:
    read, head = [await site.request(method, path) for method in ("GET", "HEAD")]
    assert (head.status_code, head.content) == (200, b"")
    own = {"date", "x-request-id"}
    assert {name: value for name, value in head.headers.items() if name not in own} == {
        name: value for name, value in read.headers.items() if name not in own
    }


async def test_the_head_of_a_file_has_its_size_and_digest(site: Site) -> None:
    file = (await site.request("POST", "/api/files", params={"name": "a.txt"}, content=b"hello")).json()
    head = await site.request("HEAD", f"/api/files/{file['id']}/content")
    assert (head.status_code, head.content) == (200, b"")
    assert (head.headers["content-length"], head.headers["etag"]) == ("5", f'"{file["digest"]}"')


async def test_head_of_a_missing_object_returns_404(site: Site) -> None:
    head = await site.request("HEAD", "/api/threads/none")
    assert (head.status_code, head.content) == (404, b"")


async def test_streams_do_not_accept_head(site: Site) -> None:
    for path in ("/api/runs/none/sse", "/api/notifications/sse", "/api/spaces/default/feed"):
        head = await site.request("HEAD", path)
        assert (head.status_code, set(head.headers["allow"].split(", "))) == (405, {"GET", "OPTIONS"})


async def test_the_connection_stays_open_after_head(site: Site) -> None:
    for method in ("HEAD", "GET", "HEAD", "GET"):
        assert (await site.request(method, "/health")).status_code == 200


async def test_options_lists_the_methods_of_each_path(site: Site) -> None:
    pairs = sorted((path, str(method)) for route in ROUTES for path in route.paths for method in route.http_methods)
    for path, group in groupby(pairs, key=lambda pair: pair[0]):
        concrete = "/".join("1" if part.startswith("{") else part for part in path.split("/"))
        response = await site.request("OPTIONS", concrete)
        allowed = set(response.headers["allow"].split(", "))
        assert (response.status_code, allowed - {"HEAD"}) == (204, {"OPTIONS", *(method for _, method in group)})
        refused = await site.request("TRACE", concrete)
        assert (refused.status_code, set(refused.headers["allow"].split(", "))) == (405, allowed)
    assert (await site.request("OPTIONS", "/api/threads")).headers["allow"] == "GET, HEAD, OPTIONS, POST"
