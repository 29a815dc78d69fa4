"""Leases of workers without a database: bound to a token and a key, with commits that can be sent again."""

from typing import Any

import pytest
from msgspec.json import encode
from msgspec.structs import replace

from holdfast.domain.commit import Commit, CommitNumber, Committed, Lease, LeaseRef
from holdfast.domain.errors import Conflict, LeaseLost
from holdfast.domain.ids import ApiKeyId, OwnerId
from holdfast.domain.instant import millis
from holdfast.domain.run import Move, RunError, RunStatus
from holdfast.ports.queue import SeenLease, TokenBinding
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST as OWNER
from tests.builders import MINUTE, new_run, new_thread, text_events
from tests.builders import SECOND as SECOND_OWNER
from tests.conformance.conftest import OTHER, SPACE

TOKEN, OTHER_TOKEN = b"t" * 32, b"o" * 32
KEY, OTHER_KEY = ApiKeyId("key_1"), ApiKeyId("key_2")
FIRST, CHANGED = CommitNumber(number=1, digest=b"1" * 32), CommitNumber(number=1, digest=b"x" * 32)
SECOND = CommitNumber(number=2, digest=b"2" * 32)


async def issued(store: Store, *, api_key: ApiKeyId | None = KEY) -> Lease:
    await new_run(store, SPACE, await new_thread(store, SPACE), "go")
    return await claim_bound(store, TOKEN, api_key)


async def claim_bound(store: Store, token_hash: bytes, api_key: ApiKeyId | None = KEY) -> Lease:
    """Claim the only claimable run, bound to a token."""
    binding = TokenBinding(lambda _: token_hash, api_key)
    (lease,) = await store.worker_leases.claim(OWNER, lease=MINUTE, binding=binding)
    return lease


def ref(lease: Lease) -> LeaseRef:
    return LeaseRef(space_id=lease.space_id, run_id=lease.run_id, number=lease.number)


@pytest.mark.parametrize("api_key", [KEY, None])
async def test_a_lease_is_found_by_its_token_in_every_process(stores: list[Store], api_key: ApiKeyId | None) -> None:
    lease = await issued(stores[0], api_key=api_key)
    found = await stores[-1].worker_leases.find(ref(lease), token_hash=TOKEN, api_key=api_key)
    assert found == replace(lease, snapshot=None, run=found.run, reminders_due=True)
    assert found.run.id == lease.run.id


@pytest.mark.parametrize(
    ("wrong", "token", "key"),
    [
        ({}, OTHER_TOKEN, KEY),
        ({}, TOKEN, OTHER_KEY),
        ({}, TOKEN, None),
        ({"number": 2}, TOKEN, KEY),
        ({"run_id": "run_other"}, TOKEN, KEY),
        ({"space_id": OTHER}, TOKEN, KEY),
    ],
)
async def test_a_token_opens_only_its_lease_for_its_key(
    store: Store, wrong: dict[str, Any], token: bytes, key: ApiKeyId | None
) -> None:
    lease = await issued(store)
    name = replace(ref(lease), **wrong)
    with pytest.raises(LeaseLost):
        await store.worker_leases.find(name, token_hash=token, api_key=key)
    await store.journal.commit(Commit(lease=lease, number=FIRST, events=text_events("x")))
    with pytest.raises(LeaseLost):
        await store.worker_leases.repeated(name, FIRST, token_hash=token, api_key=key)


async def test_a_lease_that_was_given_back_is_not_found(store: Store) -> None:
    lease = await issued(store)
    await store.leases.release(lease)
    with pytest.raises(LeaseLost):
        await store.worker_leases.find(ref(lease), token_hash=TOKEN, api_key=KEY)


async def test_a_numbered_commit_that_is_sent_again_is_applied_once(stores: list[Store]) -> None:
    lease = await issued(stores[0])
    commit = Commit(lease=lease, number=FIRST, events=text_events("once"))
    first = await stores[0].journal.commit(commit)
    assert encode(await stores[-1].journal.commit(commit)) == encode(first)
    events = await stores[0].events.after(SPACE, lease.run_id)
    assert len(events) == first.last_event_seq


async def test_a_number_with_other_content_or_a_lower_one_is_refused(store: Store) -> None:
    lease = await issued(store)
    await store.journal.commit(Commit(lease=lease, number=FIRST, events=text_events("one")))
    two = await store.journal.commit(Commit(lease=lease, number=SECOND, events=text_events("two")))
    for late in (FIRST, CHANGED, replace(SECOND, digest=b"y" * 32)):
        with pytest.raises(Conflict):
            await store.journal.commit(Commit(lease=lease, number=late, events=text_events("late")))
    assert len(await store.events.after(SPACE, lease.run_id)) == two.last_event_seq


async def test_the_result_of_a_commit_that_ended_the_lease_can_be_read(stores: list[Store]) -> None:
    lease = await issued(stores[0])
    ending = Commit(lease=lease, number=FIRST, move=Move(to=RunStatus.COMPLETED))
    result = await stores[0].journal.commit(ending)
    assert encode(await stores[-1].journal.commit(ending)) == encode(result)
    find = stores[-1].worker_leases.repeated
    assert encode(await find(ref(lease), FIRST, token_hash=TOKEN, api_key=KEY)) == encode(result)
    assert await find(ref(lease), CHANGED, token_hash=TOKEN, api_key=KEY) is None
    with pytest.raises(LeaseLost):
        await stores[0].journal.commit(Commit(lease=lease, number=SECOND, events=text_events("late")))


async def test_a_commit_that_was_refused_can_be_sent_again(store: Store) -> None:
    lease = await issued(store)
    with pytest.raises(Conflict):
        await store.journal.commit(Commit(lease=replace(lease, number=7), number=FIRST, events=text_events("x")))
    assert isinstance(await store.journal.commit(Commit(lease=lease, number=FIRST, iterations=1)), Committed)


async def test_a_new_lease_numbers_its_commits_anew(store: Store) -> None:
    lease = await issued(store)
    await store.journal.commit(Commit(lease=lease, number=FIRST, events=text_events("x")))
    await store.leases.release(lease)
    again = await claim_bound(store, OTHER_TOKEN)
    first = await store.journal.commit(Commit(lease=again, number=FIRST, events=text_events("y")))
    assert len(await store.events.after(SPACE, lease.run_id)) == first.last_event_seq
    with pytest.raises(LeaseLost):
        await store.worker_leases.find(ref(lease), token_hash=TOKEN, api_key=KEY)


async def test_a_failed_run_ends_only_under_its_lease(store: Store) -> None:

    lease = await issued(store)
    await store.leases.fail(replace(lease, number=lease.number + 1), RunError(code="INTERNAL", message="no"))
    assert (await store.runs.get(SPACE, lease.run_id)).status is RunStatus.RUNNING
    await store.leases.fail(lease, RunError(code="INTERNAL", message="broken"))
    failed = await store.runs.get(SPACE, lease.run_id)
    assert (failed.status, failed.error and failed.error.message) == (RunStatus.FAILED, "broken")


async def test_leftover_leases_are_released_only_while_their_runs_are_running(store: Store) -> None:
    lease = await issued(store)
    await store.leases.release_leftover([replace(lease, number=lease.number + 1)])
    assert (await store.runs.get(SPACE, lease.run_id)).status is RunStatus.RUNNING
    await store.leases.release_leftover([lease])
    assert (await store.runs.get(SPACE, lease.run_id)).status is RunStatus.QUEUED
    await store.leases.release_leftover([lease])


async def test_a_lease_that_was_not_renewed_since_it_was_seen_is_taken_back(
    stores: list[Store], clock: HeldClock
) -> None:
    lease = await issued(stores[0])
    seen = await stores[-1].worker_leases.held_by(OWNER, api_key=KEY)
    assert seen == {SeenLease(lease.run_key, lease.number, millis(lease.expires_at))}
    clock.tick(MINUTE / 20)
    assert await stores[-1].worker_leases.take_back(OWNER, seen, api_key=KEY) == [lease.run_id]
    assert (await stores[0].runs.get(SPACE, lease.run_id)).status is RunStatus.QUEUED
    with pytest.raises(LeaseLost):
        await stores[0].journal.commit(Commit(lease=lease, number=FIRST, events=text_events("late")))
    assert await stores[0].worker_leases.take_back(OWNER, seen, api_key=KEY) == []


async def test_a_lease_that_was_renewed_claimed_anew_or_ended_is_not_taken_back(store: Store, clock: HeldClock) -> None:
    lease = await issued(store)
    seen = await store.worker_leases.held_by(OWNER, api_key=KEY)
    clock.tick(MINUTE / 20)
    assert len(await store.leases.renew(OWNER, [lease], lease=MINUTE)) == 1
    assert await store.worker_leases.take_back(OWNER, seen, api_key=KEY) == []
    await store.leases.release(lease)
    again = await claim_bound(store, OTHER_TOKEN)
    assert await store.worker_leases.take_back(OWNER, seen, api_key=KEY) == []
    seen = await store.worker_leases.held_by(OWNER, api_key=KEY)
    await store.journal.commit(Commit(lease=again, number=FIRST, move=Move(to=RunStatus.COMPLETED)))
    assert await store.worker_leases.take_back(OWNER, seen, api_key=KEY) == []
    assert await store.worker_leases.held_by(OWNER, api_key=KEY) == frozenset()


@pytest.mark.parametrize(("owner", "key"), [(SECOND_OWNER, KEY), (OWNER, OTHER_KEY), (OWNER, None)])
async def test_a_worker_holds_only_what_it_claimed_with_its_key(
    store: Store, owner: OwnerId, key: ApiKeyId | None
) -> None:
    await issued(store)
    seen = await store.worker_leases.held_by(OWNER, api_key=KEY)
    assert await store.worker_leases.held_by(owner, api_key=key) == frozenset()
    assert await store.worker_leases.take_back(owner, seen, api_key=key) == []


async def test_the_worker_of_an_ended_run_is_not_waited_for_once_it_is_gone(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    await new_run(store, SPACE, thread, "go")
    lease = await claim_bound(store, TOKEN)
    follower = await new_run(store, SPACE, thread, "and then")
    await store.runs.end(SPACE, lease.run_id, to=RunStatus.CANCELLED, reason="stop")
    seen = await store.worker_leases.held_by(OWNER, api_key=KEY)
    assert await store.worker_leases.take_back(OWNER, seen, api_key=KEY) == [lease.run_id]
    assert (await store.runs.get(SPACE, follower.id)).status is RunStatus.QUEUED
