"""`Grants`: rules that people granted in a space, written with the response that grants them."""

import asyncio
from typing import Any, Final

import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import AlreadyAnswered, Invalid, NotFound
from holdfast.domain.ids import GrantId, InterruptId, RunId, SpaceId
from holdfast.domain.interrupt import InterruptKind, InterruptResponse
from holdfast.domain.new_run import NewRun
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import MINUTE
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.conversations import claim_run
from tests.conformance.run_builders import WAITING_FOR_PERSON, commit, new_interrupt, seconds_from_now

NARROW: Final = ["bash(git push)"]
WIDE: Final = ["bash(git *)", "bash(ls)"]
ALWAYS: Final[Json] = {"decision": "always"}


async def asked(store: Store, name: str, *, space: SpaceId = SPACE, **interrupt: Any) -> RunId:
    """Create a run that waits for the approval `name`."""
    run = (await store.runs.create(space, NewRun(thread=NewThread(agent_type="bot")))).run
    metadata = {"tool": "bash", "asking": ["bot", "boss"], "offers": [NARROW, WIDE]}
    new = new_interrupt(name, **{"metadata": metadata, **interrupt})
    await commit(store, await claim_run(store, run), interrupts=[new], move=WAITING_FOR_PERSON)
    return run.id


async def answer(
    store: Store, name: str, response: Json = ALWAYS, *, space: SpaceId = SPACE, by: str | None = "ada"
) -> None:
    """Respond to the approval `name`."""
    await store.interrupts.respond(space, InterruptId(name), InterruptResponse(response=response, by=by))


async def test_a_response_grants_the_narrowest_offer_to_every_agent_that_asked(store: Store, clock: HeldClock) -> None:
    run = await asked(store, "may")
    clock.tick(MINUTE)
    await answer(store, "may")
    grants = (await store.grants.page(SPACE)).items
    assert [(grant.agent, grant.rule) for grant in grants] == [("boss", *NARROW), ("bot", *NARROW)]
    for grant in grants:
        assert (grant.run_id, grant.interrupt_id, grant.created_by) == (run, "may", "ada")
        assert (grant.created_at, grant.revoked_by, grant.revoked_at) == (seconds_from_now(clock, 0), None, None)
    assert await store.grants.in_force(SPACE) == {"bot": NARROW, "boss": NARROW}


async def test_a_response_grants_the_offer_that_it_names(store: Store) -> None:
    await asked(store, "may")
    await answer(store, "may", {"decision": "always", "rules": WIDE})
    assert await store.grants.in_force(SPACE) == {"bot": WIDE, "boss": WIDE}


@pytest.mark.parametrize(
    ("response", "interrupt"),
    [
        ({"decision": "approve"}, {}),
        ({"decision": "deny"}, {}),
        ({"decision": "approve", "rules": NARROW}, {}),
        ({"decision": "always", "rules": ["bash"]}, {}),
        ({"decision": "always", "rules": [*NARROW, *WIDE]}, {}),
        ({"decision": "always", "rules": None}, {}),
        ("always", {}),
        (None, {}),
        (ALWAYS, {"metadata": {}}),
        (ALWAYS, {"metadata": {"asking": ["bot"], "offers": []}}),
        (ALWAYS, {"kind": InterruptKind.INPUT}),
    ],
)
async def test_a_response_grants_nothing_that_was_not_offered(
    store: Store, response: Json, interrupt: dict[str, Any]
) -> None:
    await asked(store, "may", **interrupt)
    await answer(store, "may", response)
    assert (await store.grants.page(SPACE)).items == []
    assert await store.grants.in_force(SPACE) == {}


async def test_a_rule_in_force_is_not_granted_twice(store: Store) -> None:
    for name in ("one", "two"):
        await asked(store, name)
        await answer(store, name, by=name)
    grants = (await store.grants.page(SPACE)).items
    assert [(grant.agent, grant.created_by) for grant in grants] == [("boss", "one"), ("bot", "one")]


async def test_of_many_concurrent_responses_one_grants(stores: list[Store]) -> None:
    await asked(stores[0], "may")
    outcomes = await asyncio.gather(
        *(answer(store, "may", by=f"p{number}") for number in range(5) for store in stores), return_exceptions=True
    )
    assert sum(outcome is None for outcome in outcomes) == 1
    assert all(outcome is None or isinstance(outcome, AlreadyAnswered) for outcome in outcomes)
    assert len((await stores[0].grants.page(SPACE)).items) == 2


async def test_a_response_to_several_approvals_grants_all_or_none(store: Store) -> None:
    metadata = {"asking": ["bot"], "offers": [NARROW]}
    run = (await store.runs.create(SPACE, NewRun(thread=NewThread()))).run
    new = [new_interrupt(name, metadata=metadata) for name in ("a", "b")]
    await commit(store, await claim_run(store, run), interrupts=new, move=WAITING_FOR_PERSON)
    always, missing = InterruptResponse(response=ALWAYS), InterruptId("missing")
    with pytest.raises(NotFound):
        await store.interrupts.respond_all(SPACE, run.id, {InterruptId("a"): always, missing: always})
    assert await store.grants.in_force(SPACE) == {}
    await store.interrupts.respond_all(SPACE, run.id, {InterruptId("a"): always, InterruptId("b"): always})
    assert await store.grants.in_force(SPACE) == {"bot": NARROW}


async def test_a_revoked_grant_is_not_in_force_and_stays_listed(store: Store, clock: HeldClock) -> None:
    await asked(store, "may")
    await answer(store, "may")
    grant = (await store.grants.page(SPACE)).items[0]
    clock.tick(MINUTE)
    revoked = await store.grants.revoke(SPACE, grant.id, by="ben")
    assert (revoked.revoked_by, revoked.revoked_at) == ("ben", seconds_from_now(clock, 0))
    clock.tick(MINUTE)
    assert await store.grants.revoke(SPACE, grant.id, by="eve") == revoked
    assert await store.grants.in_force(SPACE) == {"bot": NARROW}
    assert (await store.grants.page(SPACE)).items[0] == revoked


async def test_a_revoked_rule_may_be_granted_again(store: Store) -> None:
    for name in ("one", "two"):
        await asked(store, name)
        await answer(store, name, by=name)
        for grant in (await store.grants.page(SPACE)).items:
            await store.grants.revoke(SPACE, grant.id)
    assert await store.grants.in_force(SPACE) == {}
    assert [grant.created_by for grant in (await store.grants.page(SPACE)).items] == ["two", "two", "one", "one"]


async def test_grants_are_kept_per_space_and_listed_page_by_page(store: Store) -> None:
    for space, name in ((SPACE, "one"), (OTHER, "two")):
        await asked(store, name, space=space)
        await answer(store, name, space=space, by=name)
    first = await store.grants.page(SPACE, limit=1)
    second = await store.grants.page(SPACE, limit=1, cursor=first.next_cursor)
    assert [grant.created_by for grant in (*first.items, *second.items)] == ["one", "one"]
    assert (first.items[0].id == second.items[0].id, second.next_cursor) == (False, None)
    with pytest.raises(NotFound):
        await store.grants.revoke(OTHER, first.items[0].id)
    with pytest.raises(NotFound):
        await store.grants.revoke(SPACE, GrantId("missing"))
    for limit in (0, 201):
        with pytest.raises(Invalid):
            await store.grants.page(SPACE, limit=limit)
    with pytest.raises(Invalid):
        await store.grants.page(SPACE, cursor="x")


async def test_grants_go_with_their_space_and_outlive_their_run(store: Store) -> None:
    again = SpaceId("again")
    await store.spaces.create(again, name="Again")
    run = await asked(store, "may", space=again)
    await answer(store, "may", space=again)
    await store.runs.end(again, run)
    await store.runs.delete(again, run)
    assert await store.grants.in_force(again) == {"bot": NARROW, "boss": NARROW}
    await store.spaces.delete(again)
    await store.spaces.create(again, name="Again")
    assert (await store.grants.page(again)).items == []
