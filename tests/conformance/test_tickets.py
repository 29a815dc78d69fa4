"""Tickets for streams: stored by the hash of their secret, and removed once they have expired."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.domain.errors import NotFound
from holdfast.domain.ids import ApiKeyId
from holdfast.domain.instant import Instant
from holdfast.domain.space import Ticket
from holdfast.store.store import Store
from tests.conformance.tables import rows_of

FIRST, SECOND = b"1" * 32, b"2" * 32
NOON, LATER = Instant("2026-01-31T12:00:00.000Z"), Instant("2026-01-31T12:10:00.000Z")
TICKET = Ticket(path="/ws", api_key_id=ApiKeyId("key_1"), principal={"name": "key_1"}, expires_at=LATER)


async def test_a_ticket_is_found_by_its_hash_in_every_process(stores: list[Store]) -> None:
    of_token = replace(TICKET, api_key_id=None)
    await stores[0].tickets.create(FIRST, TICKET, now=NOON)
    await stores[0].tickets.create(SECOND, of_token, now=NOON)
    assert [await stores[-1].tickets.find(each) for each in (FIRST, SECOND)] == [TICKET, of_token]


async def test_an_unknown_ticket_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        await store.tickets.find(FIRST)


async def test_a_new_ticket_removes_those_that_have_expired(store: Store, where: str | Path) -> None:
    await store.tickets.create(FIRST, TICKET, now=NOON)
    await store.tickets.create(SECOND, replace(TICKET, expires_at=Instant("2026-01-31T12:20:00.000Z")), now=LATER)
    assert len((await rows_of(where))["tickets"]) == 2  # the first one expires now
    await store.tickets.create(b"3" * 32, TICKET, now=Instant("2026-01-31T12:10:00.001Z"))
    assert await store.tickets.find(SECOND)
    with pytest.raises(NotFound):
        await store.tickets.find(FIRST)
