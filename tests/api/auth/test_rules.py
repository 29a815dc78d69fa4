"""Every route has a rule, and refuses keys with less."""

import json
from typing import Final

import pytest
from litestar.handlers import HTTPRouteHandler

from holdfast.api.app import create_routes, with_head_and_options
from holdfast.api.auth.rules import PUBLIC_ROUTES, ROUTE_RULES
from holdfast.api.openapi import read_openapi
from holdfast.api.router import ROUTES, SOCKETS
from holdfast.domain.ids import SpaceId
from holdfast.domain.space import Scope
from tests.api.auth.conftest import ACME, GLOBEX, AuthSite, bearer, check_status

ALL_ROUTES: Final = (*ROUTES, *SOCKETS, read_openapi)
REQUESTS: Final = sorted(
    (route.handler_name, str(method), path)
    for route in ROUTES
    if route.handler_name not in PUBLIC_ROUTES
    for method in route.http_methods
    for path in route.paths
)
WITH_SPACE: Final = [request for request in REQUESTS if "{space_id" in request[2]]


def test_every_route_has_a_rule_and_every_rule_a_route() -> None:
    assert {route.handler_name for route in (*with_head_and_options(ROUTES), *ALL_ROUTES)} == {
        *ROUTE_RULES,
        *PUBLIC_ROUTES,
    }


def test_no_two_routes_share_a_name() -> None:
    names = [route.handler_name for route in ALL_ROUTES]
    assert len(names) == len(set(names))


def test_routes_that_change_something_need_more_than_read() -> None:
    for route in ROUTES:
        if (
            isinstance(route, HTTPRouteHandler)
            and route.http_methods != {"GET"}
            and route.handler_name
            not in (
                "create_ticket",
                "start_browser_session",
                "end_browser_session",
                "deliver_hook",
            )  # the last has its own token
        ):
            assert ROUTE_RULES[route.handler_name].scope.includes(Scope.RUN), route.handler_name


def test_a_space_id_comes_only_from_the_path() -> None:
    """The auth middleware checks the path parameter `space_id` and nothing else."""
    for route in ALL_ROUTES:
        for name, field in route.parsed_fn_signature.parameters.items():
            assert (field.annotation is SpaceId) == (name == "space_id"), route.handler_name


def test_the_app_has_exactly_the_routes_of_the_rules() -> None:
    names = {handler.handler_name for handler in create_routes().asgi_router.route_handler_index.values()}
    assert names - {"options_handler"} == {
        *ROUTE_RULES,
        *PUBLIC_ROUTES,
    }  # the handler of the framework needs full access


@pytest.mark.parametrize(("name", "method", "path"), REQUESTS, ids=lambda value: str(value))
async def test_a_route_refuses_keys_with_a_smaller_scope(
    auth_site: AuthSite, name: str, method: str, path: str
) -> None:
    rule = ROUTE_RULES[name]
    assert (await auth_site.request(None, method, _with_space(path, ACME))).status_code == 401
    for scope in Scope:
        status, code = await _status_and_code(
            auth_site, auth_site.keys[f"{ACME} {scope}"], method, _with_space(path, "missing")
        )
        if rule.everywhere or not scope.includes(rule.scope):
            assert (status, code) == (403, "FORBIDDEN")
        else:
            assert status not in (401, 403)


@pytest.mark.parametrize(("name", "method", "path"), WITH_SPACE, ids=lambda value: str(value))
async def test_a_foreign_space_looks_like_a_missing_one(auth_site: AuthSite, name: str, method: str, path: str) -> None:
    foreign = await auth_site.request(auth_site.keys[f"{ACME} admin"], method, _with_space(path, GLOBEX))
    missing = await auth_site.request(auth_site.keys[f"{ACME} admin"], method, _with_space(path, "missing"))
    if ROUTE_RULES[name].everywhere:  # refused before the space is looked at
        assert (foreign.status_code, foreign.content) == (403, missing.content)
        return
    assert check_status(foreign, 404)["error"]["message"] == f"there is no space `{GLOBEX}`"
    assert foreign.content.replace(GLOBEX.encode(), b"missing") == missing.content


async def _status_and_code(auth_site: AuthSite, secret: str, method: str, path: str) -> tuple[int, str | None]:
    """Return the status and the error code of a response; do not read the body of a stream."""
    async with auth_site.site.client.stream(method, path, headers=bearer(secret)) as response:
        if response.status_code < 400:
            return response.status_code, None
        return response.status_code, json.loads(await response.aread())["error"]["code"]


def _with_space(path: str, space: str) -> str:
    parts = path.split("/")
    replacements = {"{space_id:str}": space}
    return "/".join(
        replacements.get(part, "1" if part.endswith(":int}") else "x" if part[:1] == "{" else part) for part in parts
    )
