"""Webhooks: each event is delivered at least once, in order per run, with retries for a day."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.errors import Conflict, HoldfastError, IdTaken, LeaseLost, NotFound
from holdfast.domain.ids import DeliveryId, RunId, WebhookId
from holdfast.domain.instant import Millis, instant, millis
from holdfast.domain.notification import NotificationKind
from holdfast.domain.webhook import (
    KEEP_DELIVERIES,
    MAX_WEBHOOKS_PER_SPACE,
    AttemptResult,
    Delivery,
    DeliveryState,
    NewWebhook,
    Webhook,
    WebhookPatch,
    WebhookState,
)
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import MINUTE
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.run_builders import COMPLETED, FAILED, WAITING_FOR_PERSON, commit, new_interrupt, running
from tests.conformance.tables import rows_of

OK = AttemptResult(status=200)
DOWN = AttemptResult(error="it is down")


async def hook(store: Store, *events: str, **fields: Any) -> Webhook:
    new = NewWebhook(**{"url": "https://example.com/hook", "events": list(events) or ["*"], "secret": "s", **fields})
    return await store.webhooks.create(SPACE, new)


async def finish(store: Store, move: Any = COMPLETED) -> RunId:
    lease = await running(store)
    await commit(store, lease, move=move)
    await store.notifications.dispatch()
    return lease.run_id


async def deliveries(store: Store, webhook: Webhook) -> list[Delivery]:
    return (await store.webhooks.deliveries(SPACE, webhook.id)).items


async def test_an_event_becomes_a_delivery_of_each_webhook_that_wants_it(store: Store) -> None:
    every, completed = await hook(store), await hook(store, "run.completed")
    others = [await hook(store, "reminder.*"), await hook(store, "run.failed")]
    await store.webhooks.create(OTHER, NewWebhook(url="https://example.com", events=["*"], secret="s"))
    run = await finish(store)
    for webhook in (every, completed):
        (delivery,) = await deliveries(store, webhook)
        assert (delivery.event, delivery.run_id, delivery.state) == ("run.completed", run, DeliveryState.PENDING)
        assert (delivery.payload["type"], delivery.payload["data"]["run_id"]) == ("run.completed", run)
    assert [await deliveries(store, each) for each in others] == [[], []]
    claims = await store.webhooks.claim(lease=MINUTE, limit=10)
    assert len(claims) == 2 and await store.webhooks.claim(lease=MINUTE, limit=10) == []
    settled = await store.webhooks.settle(claims[0], OK)
    assert (settled.state, settled.attempts, settled.last_status) == (DeliveryState.DELIVERED, 1, 200)
    with pytest.raises(LeaseLost):
        await store.webhooks.settle(claims[0], OK)


async def test_deliveries_of_a_run_are_sent_in_order_and_others_do_not_wait(store: Store, clock: HeldClock) -> None:
    webhook = await hook(store)
    lease = await running(store)
    await commit(store, lease, interrupts=[new_interrupt("ask")], move=WAITING_FOR_PERSON)
    await store.runs.end(SPACE, lease.run_id, to=FAILED.to, reason="enough")
    await store.notifications.dispatch()
    other = await finish(store)
    first, second = await store.webhooks.claim(lease=MINUTE, limit=10)
    by_id = {each.id: each for each in await deliveries(store, webhook)}
    assert (by_id[first.id].event, by_id[second.id].run_id) == ("run.waiting", other)
    failed = await store.webhooks.settle(first, DOWN)
    assert failed.next_attempt_at == instant(Millis(clock.now() + 5_000))
    await store.webhooks.settle(second, OK)
    assert await store.webhooks.claim(lease=MINUTE, limit=10) == []  # `run.failed` waits for `run.waiting`
    clock.tick(timedelta(seconds=5))
    (again,) = await store.webhooks.claim(lease=MINUTE, limit=10)
    assert again.id == first.id
    await store.webhooks.settle(again, OK)
    (last,) = await store.webhooks.claim(lease=MINUTE, limit=10)
    assert by_id[last.id].event == "run.failed"


async def test_a_delivery_whose_process_died_is_sent_again(store: Store, clock: HeldClock) -> None:
    await hook(store)
    await finish(store)
    (stale,) = await store.webhooks.claim(lease=MINUTE, limit=10)
    clock.tick(2 * MINUTE)
    (fresh,) = await store.webhooks.claim(lease=MINUTE, limit=10)
    assert (fresh.id, fresh.body) == (stale.id, stale.body)
    with pytest.raises(LeaseLost):
        await store.webhooks.settle(stale, OK)
    await store.webhooks.settle(fresh, OK)


async def test_after_a_day_of_failures_the_webhook_is_disabled_with_a_notification(
    store: Store, clock: HeldClock
) -> None:
    webhook = await hook(store, "run.*")
    await finish(store)
    started, attempts = clock.now(), 0
    while True:
        (claim,) = await store.webhooks.claim(lease=MINUTE, limit=10)
        settled = await store.webhooks.settle(claim, DOWN)
        attempts += 1
        if settled.next_attempt_at is None:
            break
        due = await store.webhooks.next_due()
        assert due == settled.next_attempt_at
        clock.tick(timedelta(milliseconds=_millis(settled) - clock.now()))
    assert (settled.state, clock.now() - started, attempts) == (DeliveryState.FAILED, 86_400_000, settled.attempts)
    assert 8 <= attempts <= 15
    disabled = await store.webhooks.get(SPACE, webhook.id)
    assert disabled.state is WebhookState.DISABLED and "for 24 h: it is down" in (disabled.state_reason or "")
    await store.notifications.dispatch()
    assert (await store.notifications.latest(SPACE))[0].kind is NotificationKind.WEBHOOK_DISABLED
    await finish(store)
    assert len(await deliveries(store, webhook)) == 1  # a disabled webhook gets nothing new
    with pytest.raises(Conflict, match="disabled"):
        await store.webhooks.resend(SPACE, webhook.id, settled.id)
    await store.webhooks.update(SPACE, webhook.id, WebhookPatch(enabled=True))
    again = await store.webhooks.resend(SPACE, webhook.id, settled.id)
    assert again.state is DeliveryState.PENDING
    (claim,) = await store.webhooks.claim(lease=MINUTE, limit=10)
    assert (await store.webhooks.settle(claim, OK)).state is DeliveryState.DELIVERED


def _millis(delivery: Delivery) -> int:
    assert delivery.next_attempt_at is not None
    return millis(delivery.next_attempt_at)


async def test_a_receiver_that_is_gone_is_not_asked_again(store: Store) -> None:
    webhook = await hook(store)
    await finish(store)
    (claim,) = await store.webhooks.claim(lease=MINUTE, limit=10)
    assert (await store.webhooks.settle(claim, AttemptResult(status=410))).state is DeliveryState.FAILED
    assert (await store.webhooks.get(SPACE, webhook.id)).state is WebhookState.DISABLED


async def test_what_is_pending_is_sent_when_a_webhook_is_enabled_again(store: Store, clock: HeldClock) -> None:
    webhook = await hook(store)
    await finish(store)
    await store.webhooks.update(SPACE, webhook.id, WebhookPatch(enabled=False), by="ada")
    assert (await store.webhooks.get(SPACE, webhook.id)).state_reason == "by `ada`"
    assert await store.webhooks.claim(lease=MINUTE, limit=10) == []
    assert await store.webhooks.next_due() is None
    await store.webhooks.update(SPACE, webhook.id, WebhookPatch(enabled=True, secret="other"))
    (claim,) = await store.webhooks.claim(lease=MINUTE, limit=10)
    assert claim.secret == "other"


async def test_a_receiver_may_ask_for_more_time(store: Store, clock: HeldClock) -> None:
    await hook(store)
    await finish(store)
    (claim,) = await store.webhooks.claim(lease=MINUTE, limit=10)
    settled = await store.webhooks.settle(claim, AttemptResult(status=503, retry_after_seconds=600))
    assert settled.next_attempt_at == instant(Millis(clock.now() + 600_000))


async def test_a_clock_that_is_set_back_delays_no_attempt(store: Store, clock: HeldClock) -> None:
    webhook = await hook(store)
    await finish(store)
    await store.timers.follow_clock()
    (claim,) = await store.webhooks.claim(lease=MINUTE, limit=10)
    await store.webhooks.settle(claim, DOWN)
    await finish(store)
    (dead,) = await store.webhooks.claim(lease=MINUTE, limit=10)
    await store.timers.follow_clock()
    clock.step_back(timedelta(hours=1))
    await store.timers.follow_clock()
    clock.tick(timedelta(seconds=5))
    assert [each.id for each in await store.webhooks.claim(lease=MINUTE, limit=10)] == [claim.id]
    clock.tick(MINUTE)
    assert dead.id in [each.id for each in await store.webhooks.claim(lease=MINUTE, limit=10)]
    assert len(await deliveries(store, webhook)) == 2


async def test_busy_webhooks_are_left_out(store: Store) -> None:
    await hook(store)
    await finish(store)
    (claim,) = await store.webhooks.claim(lease=MINUTE, limit=10)
    await finish(store)
    assert await store.webhooks.claim(lease=MINUTE, limit=10, busy=[claim.webhook_key]) == []
    assert len(await store.webhooks.claim(lease=MINUTE, limit=10, busy=[claim.webhook_key + 1])) == 1


async def test_processes_that_claim_at_once_share_the_deliveries(stores: list[Store]) -> None:
    await hook(stores[0])
    await hook(stores[0])
    for _ in range(10):
        await finish(stores[0])
    claimed: list[str] = []
    while found := await asyncio.gather(
        *(store.webhooks.claim(lease=MINUTE, limit=3) for store in stores for _ in range(3))
    ):
        if not any(found):
            break
        claimed += [claim.id for claims in found for claim in claims]
    assert len(claimed) == len({*claimed}) == 20


async def test_deliveries_are_kept_for_a_time(store: Store, clock: HeldClock) -> None:
    webhook, stopped = await hook(store, "run.completed"), await hook(store, "run.failed")
    for move in (COMPLETED, COMPLETED, FAILED):
        await finish(store, move)
    sent, unsent, parked = await store.webhooks.claim(lease=MINUTE, limit=10)
    await store.webhooks.settle(sent, OK)
    await store.webhooks.settle(unsent, DOWN)
    await store.webhooks.settle(parked, DOWN)
    await store.webhooks.update(SPACE, stopped.id, WebhookPatch(enabled=False))
    clock.tick(KEEP_DELIVERIES)
    assert await store.webhooks.prune(keep=KEEP_DELIVERIES, limit=10) == 0
    clock.tick(MINUTE)
    assert await store.webhooks.prune(keep=KEEP_DELIVERIES, limit=1) == 1
    assert await store.webhooks.prune(keep=KEEP_DELIVERIES, limit=10) == 1
    assert [each.id for each in await deliveries(store, webhook)] == [unsent.id]  # it is still to be sent
    assert await deliveries(store, stopped) == []
    (late,) = await store.webhooks.claim(lease=MINUTE, limit=10)
    await store.webhooks.settle(late, OK)
    assert await store.webhooks.prune(keep=KEEP_DELIVERIES, limit=10) == 0  # counted from when it was delivered


async def test_a_deleted_webhook_leaves_nothing(store: Store, where: str | Path) -> None:
    await finish(store)
    before = await rows_of(where)
    webhook = await hook(store)
    await store.webhooks.delete(SPACE, webhook.id)
    assert await rows_of(where) == before
    with pytest.raises(NotFound):
        await store.webhooks.get(SPACE, webhook.id)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"url": "ftp://example.com"}, "http"),
        ({"url": "https://user@example.com"}, "user or password"),
        ({"url": "https://exa mple.com"}, "spaces"),
        ({"events": []}, "is empty"),
        ({"events": ["run.exploded"]}, "is not an event"),
        ({"events": ["ru*"]}, "is not an event"),
        ({"id": WebhookId("a b")}, "letters"),
        ({"description": "a\x00"}, "description"),
    ],
)
async def test_a_wrong_webhook_is_refused(store: Store, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(HoldfastError, match=message):
        await store.webhooks.create(
            SPACE, NewWebhook(**{"url": "https://example.com", "events": ["*"], "secret": "s", **fields})
        )
    assert (await store.webhooks.page(SPACE)).items == []


async def test_ids_and_the_number_of_webhooks_are_limited(store: Store) -> None:
    await hook(store, id=WebhookId("mine"))
    with pytest.raises(IdTaken):
        await hook(store, id=WebhookId("mine"))
    for _ in range(MAX_WEBHOOKS_PER_SPACE - 1):
        await hook(store)
    with pytest.raises(Conflict, match="at most"):
        await hook(store)
    with pytest.raises(NotFound):
        await store.webhooks.resend(SPACE, WebhookId("mine"), DeliveryId("msg_none"))
