"""Rate limits of keys."""

import pytest
from msgspec.structs import replace

from holdfast.api.auth.rate_limit import RequestRateLimiter
from holdfast.control.errors import RateLimited
from holdfast.control.principal import LOCAL_PRINCIPAL
from holdfast.domain.errors import Invalid
from tests.api.auth.conftest import ACME, AuthSite, check_status


@pytest.mark.parametrize("path", ["/api/threads", "/v1/models", "/tasks"])
async def test_a_key_above_its_rate_limit_gets_429_and_retry_after(auth_site: AuthSite, path: str) -> None:
    key = await auth_site.key("read", ACME, rate_limit="2/day")
    for _ in range(2):
        await auth_site.get(key["secret"], path)
    response = await auth_site.request(key["secret"], "GET", path)
    error = check_status(response, 429)["error"]
    assert error["code"] == "RATE_LIMITED"
    assert 1 <= int(response.headers["retry-after"]) <= 2 * 86400
    assert "x-should-retry" not in response.headers


async def test_each_key_is_counted_separately(auth_site: AuthSite, acme_key: str) -> None:
    first, second = [await auth_site.key("read", ACME, rate_limit="1/day") for _ in range(2)]
    await auth_site.get(first["secret"], "/api/threads")
    assert (await auth_site.request(first["secret"], "GET", "/api/threads")).status_code == 429
    await auth_site.get(second["secret"], "/api/threads")
    await auth_site.get(acme_key, "/api/threads")


async def test_public_routes_are_not_counted(auth_site: AuthSite) -> None:
    key = await auth_site.key("read", ACME, rate_limit="1/day")
    for _ in range(3):
        assert (await auth_site.request(key["secret"], "GET", "/health")).status_code == 200
    await auth_site.get(key["secret"], "/api/threads")


async def test_the_default_rate_applies_to_keys_without_their_own() -> None:
    limiter, ann = RequestRateLimiter("2/day"), replace(LOCAL_PRINCIPAL, name="key_ann")
    for _ in range(2):
        await limiter.hit(ann)
    with pytest.raises(RateLimited, match="2 requests per day"):
        await limiter.hit(ann)
    await limiter.hit(replace(LOCAL_PRINCIPAL, name="key_bob"))
    for _ in range(3):
        await limiter.hit(replace(LOCAL_PRINCIPAL, name="key_cat", rate_limit="3/day"))


async def test_nothing_is_counted_without_a_limit_or_for_the_local_principal() -> None:
    for limiter, principal in (
        (RequestRateLimiter(), replace(LOCAL_PRINCIPAL, name="key_ann")),
        (RequestRateLimiter("1/day"), LOCAL_PRINCIPAL),
    ):
        for _ in range(10):
            await limiter.hit(principal)
        assert limiter._limiter is None


def test_an_invalid_default_rate_is_refused() -> None:
    with pytest.raises(Invalid, match="is not a rate"):
        RequestRateLimiter("fast")
