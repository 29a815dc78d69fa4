"""How often a key may ask."""

import pytest
from msgspec.structs import replace

from holdfast.api.auth.rate_limit import RequestRateLimiter
from holdfast.control.errors import RateLimited
from holdfast.control.principal import LOCAL_PRINCIPAL
from holdfast.domain.errors import Invalid
from tests.api.auth.conftest import ACME, AuthSite, check_status


@pytest.mark.parametrize("path", ["/api/threads", "/v1/models", "/tasks"])
async def test_a_key_that_asks_too_often_is_told_when_to_come_back(auth_site: AuthSite, path: str) -> None:
    key = await auth_site.key("read", ACME, rate_limit="2/day")
    for _ in range(2):
        await auth_site.get(key["secret"], path)
    response = await auth_site.request(key["secret"], "GET", path)
    error = check_status(response, 429)["error"]
    assert error["code"] == "RATE_LIMITED"
    assert 1 <= int(response.headers["retry-after"]) <= 2 * 86400
    assert "x-should-retry" not in response.headers


async def test_each_key_is_counted_for_itself(auth_site: AuthSite, acme_key: str) -> None:
    one, two = [await auth_site.key("read", ACME, rate_limit="1/day") for _ in range(2)]
    await auth_site.get(one["secret"], "/api/threads")
    assert (await auth_site.request(one["secret"], "GET", "/api/threads")).status_code == 429
    await auth_site.get(two["secret"], "/api/threads")
    await auth_site.get(acme_key, "/api/threads")


async def test_what_needs_no_key_is_not_counted(auth_site: AuthSite) -> None:
    key = await auth_site.key("read", ACME, rate_limit="1/day")
    for _ in range(3):
        assert (await auth_site.request(key["secret"], "GET", "/health")).status_code == 200
    await auth_site.get(key["secret"], "/api/threads")


async def test_a_server_limits_those_whose_key_does_not_say_how_much() -> None:
    rates, ann = RequestRateLimiter("2/day"), replace(LOCAL_PRINCIPAL, name="key_ann")
    for _ in range(2):
        await rates.hit(ann)
    with pytest.raises(RateLimited, match="2 requests per day"):
        await rates.hit(ann)
    await rates.hit(replace(LOCAL_PRINCIPAL, name="key_bob"))
    for _ in range(3):
        await rates.hit(replace(LOCAL_PRINCIPAL, name="key_cat", rate_limit="3/day"))


async def test_where_no_limit_is_set_and_where_no_key_is_needed_nothing_is_counted() -> None:
    for rates, asker in (
        (RequestRateLimiter(), replace(LOCAL_PRINCIPAL, name="key_ann")),
        (RequestRateLimiter("1/day"), LOCAL_PRINCIPAL),
    ):
        for _ in range(10):
            await rates.hit(asker)
        assert rates._limiter is None


def test_a_default_that_is_no_rate_is_refused() -> None:
    with pytest.raises(Invalid, match="is not a rate"):
        RequestRateLimiter("fast")
