from typing import Final

import msgspec
import pytest

from holdfast.domain.errors import Invalid
from holdfast.domain.ids import ApiKeyId, SpaceId
from holdfast.domain.instant import Instant
from holdfast.domain.space import ApiKey, NewApiKey, Scope, check_new_api_key, is_valid

BEFORE: Final = Instant("2026-01-01T11:59:59.999Z")
NOW: Final = Instant("2026-01-01T12:00:00.000Z")
AFTER: Final = Instant("2026-01-01T12:00:00.001Z")
KEY: Final = ApiKey(
    id=ApiKeyId("key_1"),
    name="laptop",
    scope=Scope.RUN,
    space_ids=[SpaceId("acme")],
    every_space=False,
    pools=[],
    rate_limit=None,
    created_by=None,
    created_at=BEFORE,
    expires_at=None,
    revoked_at=None,
)
NEW: Final = NewApiKey(name="laptop", scope=Scope.RUN, secret_hash=bytes(32))


@pytest.mark.parametrize(("expires_at", "opens"), [(None, True), (AFTER, True), (NOW, False), (BEFORE, False)])
def test_a_key_is_valid_until_it_expires(expires_at: Instant | None, opens: bool) -> None:
    assert is_valid(msgspec.structs.replace(KEY, expires_at=expires_at), now=NOW) is opens


@pytest.mark.parametrize("expires_at", [None, AFTER])
@pytest.mark.parametrize("revoked_at", [BEFORE, NOW])
def test_a_revoked_key_is_not_valid(expires_at: Instant | None, revoked_at: Instant) -> None:
    assert not is_valid(msgspec.structs.replace(KEY, expires_at=expires_at, revoked_at=revoked_at), now=NOW)


def test_a_key_is_bound_to_at_least_one_space_or_to_every_space() -> None:
    everywhere = msgspec.structs.replace(NEW, every_space=True)
    check_new_api_key(NEW, [SpaceId("acme")])
    check_new_api_key(everywhere, [])
    with pytest.raises(Invalid, match="at least one space"):
        check_new_api_key(NEW, [])
    with pytest.raises(Invalid, match="takes no `space_ids`"):
        check_new_api_key(everywhere, [SpaceId("acme")])


def test_each_scope_includes_the_ones_before_it_and_admin_all() -> None:
    assert [[one.includes(other) for other in Scope] for one in Scope] == [
        [True, False, False, False],
        [True, True, False, False],
        [True, True, True, True],
        [False, False, False, True],
    ]


@pytest.mark.parametrize("rate", ["1/second", "600/minute", "9999999/hour", "10/day"])
def test_a_rate_is_a_number_of_requests_per_unit_of_time(rate: str) -> None:
    check_new_api_key(msgspec.structs.replace(NEW, rate_limit=rate), [SpaceId("acme")])


@pytest.mark.parametrize("rate", ["", "0/minute", "600", "600/fortnight", "-1/hour", "600 / minute", "1/minute\n"])
def test_a_malformed_rate_is_rejected(rate: str) -> None:
    with pytest.raises(Invalid, match="is not a rate"):
        check_new_api_key(msgspec.structs.replace(NEW, rate_limit=rate), [SpaceId("acme")])


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_secret_must_be_given_as_a_hash(size: int) -> None:
    with pytest.raises(Invalid, match="SHA-256"):
        check_new_api_key(msgspec.structs.replace(NEW, secret_hash=bytes(size)), [SpaceId("acme")])


@pytest.mark.parametrize("name", ["x" * 201, "a\x00b"])
def test_a_name_that_a_database_cannot_store_is_rejected(name: str) -> None:
    with pytest.raises(Invalid, match="`name`"):
        check_new_api_key(msgspec.structs.replace(NEW, name=name), [SpaceId("acme")])
