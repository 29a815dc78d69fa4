"""Webhooks in SQL: deliveries are rows, added in the transaction that numbers the notification."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec
from msgspec import UNSET

from holdfast.domain.errors import Conflict, IdTaken, LeaseLost
from holdfast.domain.ids import DeliveryId, SpaceId, WebhookId
from holdfast.domain.instant import Instant, Millis, instant, maybe_instant
from holdfast.domain.notification import NotificationKind
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page, check_page_size
from holdfast.domain.webhook import (
    GONE,
    MAX_ERROR_CHARS,
    MAX_WEBHOOKS_PER_SPACE,
    AttemptResult,
    Delivery,
    DeliveryClaim,
    DeliveryState,
    NewWebhook,
    Webhook,
    WebhookPatch,
    WebhookState,
    check_webhook,
    retry_at,
    wants_event,
)
from holdfast.store.encoding import dump_json, load_json, load_optional_json, parse_cursor, to_page
from holdfast.store.spaces import lock_space_shared, space_key
from holdfast.store.transaction import Row, SqlPort, Transaction, find_row, reads, store_time, writes

_events_decoder: Final = msgspec.json.Decoder(list[str])


class SqlWebhooks(SqlPort):
    """Implements `Webhooks`."""

    @writes
    async def create(self, tx: Transaction, space: SpaceId, new: NewWebhook) -> Webhook:
        """Create a webhook."""
        key = await lock_space_shared(tx, space)
        check_webhook(url=new.url, events=new.events, description=new.description, id=new.id)
        counted = await tx.one("count_webhooks", space_key=key)
        assert counted is not None
        if counted["webhooks"] >= MAX_WEBHOOKS_PER_SPACE:
            raise Conflict(f"a space has at most {MAX_WEBHOOKS_PER_SPACE} webhooks: delete one first")
        webhook_id = new.id or WebhookId(tx.new_id("whk"))
        row = await tx.one(
            "add_webhook",
            space_key=key,
            id=webhook_id,
            url=new.url,
            events=dump_json(new.events),
            description=new.description,
            secret=new.secret,
            created_by=new.created_by,
            now=tx.now,
        )
        if row is None:
            raise IdTaken(f"there is a webhook `{webhook_id}` already: choose another id", id=webhook_id)
        return _to_webhook(await find_row(tx, "webhook", "webhook", space=space, id=webhook_id))

    @reads
    async def get(self, tx: Transaction, space: SpaceId, webhook: WebhookId) -> Webhook:
        """Return the webhook."""
        return _to_webhook(await find_row(tx, "webhook", "webhook", space=space, id=webhook))

    @reads
    async def page(
        self, tx: Transaction, space: SpaceId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[Webhook]:
        """Return webhooks, newest first."""
        check_page_size(limit)
        (before,) = parse_cursor(cursor, first_page=[2**62])
        rows = await tx.all("list_webhooks", space_key=await space_key(tx, space), before=before, limit=limit + 1)
        return to_page(rows, limit, value=_to_webhook, cursor=lambda row: str(row["webhook_key"]))

    @writes
    async def update(
        self, tx: Transaction, space: SpaceId, webhook: WebhookId, patch: WebhookPatch, *, by: str | None = None
    ) -> Webhook:
        """Change the fields that `patch` sets."""
        row = await find_row(tx, "lock_webhook", "webhook", space=space, id=webhook)
        found = _to_webhook(row)
        url = found.url if patch.url is UNSET else patch.url
        events = found.events if patch.events is UNSET else patch.events
        description = found.description if patch.description is UNSET else patch.description
        check_webhook(url=url, events=events, description=description)
        state, reason = found.state, found.state_reason
        if patch.enabled is True:
            state, reason = WebhookState.ACTIVE, None
        elif patch.enabled is False and state is WebhookState.ACTIVE:
            state, reason = WebhookState.DISABLED, "by request" if by is None else f"by `{by}`"
        await tx.run(
            "update_webhook",
            webhook_key=row["webhook_key"],
            url=url,
            events=dump_json(events),
            description=description,
            secret=row["secret"] if patch.secret is UNSET else patch.secret,
            state=state.value,
            state_reason=reason,
            now=tx.now,
        )
        if state is WebhookState.ACTIVE and found.state is WebhookState.DISABLED:
            await tx.run("revive_deliveries", webhook_key=row["webhook_key"], now=await store_time(tx))
            tx.hints.add(deliveries=True)
        elif state is WebhookState.DISABLED and found.state is WebhookState.ACTIVE:
            await tx.run("park_deliveries", webhook_key=row["webhook_key"])
        return _to_webhook(await find_row(tx, "webhook", "webhook", space=space, id=webhook))

    @writes
    async def delete(self, tx: Transaction, space: SpaceId, webhook: WebhookId) -> None:
        """Delete a webhook with its deliveries."""
        row = await find_row(tx, "lock_webhook", "webhook", space=space, id=webhook)
        for statement in ("drop_deliveries", "drop_webhook"):
            await tx.run(statement, webhook_key=row["webhook_key"])

    @reads
    async def deliveries(
        self,
        tx: Transaction,
        space: SpaceId,
        webhook: WebhookId,
        *,
        state: DeliveryState | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Delivery]:
        """Return deliveries, newest first."""
        check_page_size(limit)
        (before,) = parse_cursor(cursor, first_page=[2**62])
        key = (await find_row(tx, "webhook", "webhook", space=space, id=webhook))["webhook_key"]
        rows = await tx.all(
            "list_deliveries", webhook_key=key, before=before, state=state and state.value, limit=limit + 1
        )
        return to_page(rows, limit, value=_to_delivery, cursor=lambda row: str(row["delivery_key"]))

    @writes
    async def resend(self, tx: Transaction, space: SpaceId, webhook: WebhookId, delivery: DeliveryId) -> Delivery:
        """Make a delivery pending and due now."""
        hook = await find_row(tx, "lock_webhook", "webhook", space=space, id=webhook)
        row = await find_row(tx, "delivery", "delivery", webhook_key=hook["webhook_key"], id=delivery)
        if hook["state"] != WebhookState.ACTIVE:
            raise Conflict(f"webhook `{webhook}` is disabled: enable it first", id=webhook)
        await tx.run("resend_delivery", delivery_key=row["delivery_key"], now=await store_time(tx))
        tx.hints.add(deliveries=True)
        return _to_delivery(await find_row(tx, "delivery", "delivery", webhook_key=hook["webhook_key"], id=delivery))

    @writes
    async def claim(
        self, tx: Transaction, *, lease: timedelta, limit: int, busy: Collection[int] = ()
    ) -> list[DeliveryClaim]:
        """Claim due deliveries, earliest first."""
        check_page_size(limit, maximum=1000)
        lease_ms = lease // timedelta(milliseconds=1)
        claims = []
        for claimed in await tx.all(
            "claim_deliveries", now=tx.lease_now, lease=lease_ms, busy=dump_json(sorted(busy)), limit=limit
        ):
            row = await tx.one("claimed_delivery", delivery_key=claimed["delivery_key"])
            assert row is not None
            claims.append(
                DeliveryClaim(
                    key=row["delivery_key"],
                    number=claimed["claim_number"],
                    webhook_key=row["webhook_key"],
                    id=row["id"],
                    url=row["url"],
                    secret=row["secret"],
                    body=row["payload"],
                )
            )
        return sorted(claims, key=lambda claim: claim.key)

    @writes
    async def settle(self, tx: Transaction, claim: DeliveryClaim, result: AttemptResult) -> Delivery:
        """Record an attempt."""
        row = await tx.one("claimed_delivery", delivery_key=claim.key)
        if row is None:
            raise LeaseLost(f"delivery `{claim.id}` was deleted", id=claim.id)
        now = await store_time(tx)
        first = Millis(row["first_attempt_at"] or now)
        due = (
            None
            if result.delivered
            else retry_at(
                attempts=row["attempts"] + 1, first=first, now=now, retry_after_seconds=result.retry_after_seconds
            )
        )
        if result.status == GONE:
            due = None
        state = DeliveryState.DELIVERED if result.delivered else DeliveryState.PENDING
        if not result.delivered and due is None:
            state = DeliveryState.FAILED
        settled = await tx.one(
            "settle_delivery",
            delivery_key=claim.key,
            number=claim.number,
            state=state.value,
            due_at=due,
            last_status=result.status,
            last_error=None if result.error is None else result.error[:MAX_ERROR_CHARS],
            delivered_at=now if result.delivered else None,
            now=now,
        )
        if settled is None:
            raise LeaseLost(f"delivery `{claim.id}` was taken over", id=claim.id)
        if state is DeliveryState.FAILED:
            await _disable(tx, row, result)
        tx.hints.add(deliveries=True)
        return _to_delivery(await find_row(tx, "delivery", "delivery", webhook_key=row["webhook_key"], id=claim.id))

    @writes
    async def prune(self, tx: Transaction, *, keep: timedelta, limit: int) -> int:
        """Delete settled deliveries that are older than `keep`."""
        check_page_size(limit, maximum=10_000)
        before = await store_time(tx) - keep // timedelta(milliseconds=1)
        return len(await tx.all("prune_deliveries", before=before, limit=limit))

    @reads
    async def next_due(self, tx: Transaction) -> Instant | None:
        """Return when the next delivery is due."""
        row = await tx.one("next_delivery_due", now=tx.lease_now)
        return None if row is None else maybe_instant(row["due_at"])


async def _disable(tx: Transaction, row: Row, result: AttemptResult) -> None:
    """Disable the webhook of a delivery that failed for good, with a notification."""
    answer = f"it answered {result.status}" if result.error is None else result.error
    gone = result.status == GONE
    reason = "the receiver is gone (410)" if gone else f"a delivery was not accepted for 24 h: {answer}"
    if await tx.one("disable_webhook", webhook_key=row["webhook_key"], reason=reason, now=tx.now) is not None:
        await tx.run("park_deliveries", webhook_key=row["webhook_key"])
        data = dump_json({"webhook_id": row["webhook_id"], "url": row["url"], "reason": reason})
        kind = NotificationKind.WEBHOOK_DISABLED.value
        await tx.many("add_to_outbox", [(row["space_key"], kind, None, None, data, tx.now)])
        tx.hints.add(news=True)


async def add_deliveries(tx: Transaction, numbered: Sequence[tuple[Any, ...]], spaces: Mapping[int, SpaceId]) -> None:
    """Add a delivery for each new notification and webhook that wants it; `numbered` are rows of notifications."""
    hooks: dict[int, list[tuple[int, list[str]]]] = {}
    for row in await tx.many("webhooks_of_spaces", [(key,) for key in sorted(spaces)]):
        hooks.setdefault(row["space_key"], []).append((row["webhook_key"], _events_decoder.decode(row["events"])))
    if not hooks:
        return
    due, rows = await store_time(tx), []
    for space, number, kind, run_id, thread_id, data, created_at in numbered:
        for webhook_key, events in hooks.get(space, ()):
            if wants_event(events, kind):
                about = {"space_id": spaces[space], "number": number, "run_id": run_id, "thread_id": thread_id}
                payload = {
                    "type": kind,
                    "timestamp": instant(created_at),
                    "data": {**about, **(load_optional_json(data) or {})},
                }
                delivery = tx.new_id("msg")
                subject = run_id or delivery
                rows.append((webhook_key, delivery, kind, run_id, subject, dump_json(payload), due, tx.now))
    await tx.many("add_deliveries", rows)
    tx.hints.add(deliveries=bool(rows))


def _to_webhook(row: Row) -> Webhook:
    return Webhook(
        id=row["id"],
        space_id=row["space_id"],
        url=row["url"],
        events=_events_decoder.decode(row["events"]),
        description=row["description"],
        state=WebhookState(row["state"]),
        state_reason=row["state_reason"],
        created_by=row["created_by"],
        created_at=instant(row["created_at"]),
        updated_at=instant(row["updated_at"]),
    )


def _to_delivery(row: Row) -> Delivery:
    return Delivery(
        id=row["id"],
        webhook_id=row["webhook_id"],
        event=row["event"],
        run_id=row["run_id"],
        state=DeliveryState(row["state"]),
        attempts=row["attempts"],
        last_status=row["last_status"],
        last_error=row["last_error"],
        next_attempt_at=maybe_instant(row["due_at"]) if row["state"] == DeliveryState.PENDING else None,
        payload=load_json(row["payload"]),
        created_at=instant(row["created_at"]),
        delivered_at=maybe_instant(row["delivered_at"]),
    )
