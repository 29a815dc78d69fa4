"""`ToolTrust`: trusted definitions of third-party tools."""

import asyncio

import pytest

from holdfast.domain.errors import NotFound
from holdfast.domain.ids import SpaceId
from holdfast.store.store import Store
from tests.conformance.conftest import OTHER, SPACE

SOURCE = "server"


async def test_a_tool_is_trusted_as_first_seen(store: Store) -> None:
    trust = store.tool_trust
    assert await trust.trusted(SPACE, SOURCE, {"a": "1"}) == {"a": "1"}
    assert await trust.trusted(SPACE, SOURCE, {"a": "2", "b": "1"}) == {"a": "1", "b": "1"}
    assert await trust.trusted(SPACE, SOURCE, {"b": "1"}) == {"b": "1"}
    assert await trust.trusted(SPACE, SOURCE, {}) == {}


async def test_an_explicit_trust_replaces_the_digest(store: Store) -> None:
    trust = store.tool_trust
    await trust.trusted(SPACE, SOURCE, {"a": "1", "b": "1"})
    await trust.trust(SPACE, SOURCE, "a", "2")
    await trust.trust(SPACE, SOURCE, "new", "1")
    assert await trust.trusted(SPACE, SOURCE, {"a": "1", "b": "2", "new": "2"}) == {"a": "2", "b": "1", "new": "1"}


async def test_trust_is_kept_per_source_and_space(store: Store) -> None:
    trust = store.tool_trust
    await trust.trusted(SPACE, SOURCE, {"a": "1"})
    assert await trust.trusted(SPACE, "another", {"a": "2"}) == {"a": "2"}
    assert await trust.trusted(OTHER, SOURCE, {"a": "3"}) == {"a": "3"}
    assert await trust.trusted(SPACE, SOURCE, {"a": "4"}) == {"a": "1"}


async def test_concurrent_first_sightings_agree_on_one_digest(stores: list[Store]) -> None:
    seen = await asyncio.gather(
        *(store.tool_trust.trusted(SPACE, SOURCE, {"a": str(number)}) for number in range(5) for store in stores)
    )
    assert len({each["a"] for each in seen}) == 1


async def test_a_space_that_does_not_exist_trusts_nothing(store: Store) -> None:
    with pytest.raises(NotFound):
        await store.tool_trust.trust(SpaceId("none"), SOURCE, "a", "1")
