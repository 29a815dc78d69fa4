"""Port of outgoing webhooks and their deliveries."""

from collections.abc import Collection
from datetime import timedelta
from typing import Protocol

from holdfast.domain.ids import DeliveryId, SpaceId, WebhookId
from holdfast.domain.instant import Instant
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.webhook import (
    AttemptResult,
    Delivery,
    DeliveryClaim,
    DeliveryState,
    NewWebhook,
    Webhook,
    WebhookPatch,
)


class Webhooks(Protocol):
    """Webhooks of a space. `Notifications.dispatch` adds a delivery for each event that an active one wants."""

    async def create(self, space: SpaceId, new: NewWebhook) -> Webhook:
        """Create a webhook; a taken id is refused (`IdTaken`), and so are too many of them (`Conflict`)."""

    async def get(self, space: SpaceId, webhook: WebhookId) -> Webhook:
        """Return the webhook, or raise `NotFound`."""

    async def page(self, space: SpaceId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None) -> Page[Webhook]:
        """Return webhooks, newest first."""

    async def update(
        self, space: SpaceId, webhook: WebhookId, patch: WebhookPatch, *, by: str | None = None
    ) -> Webhook:
        """Change only the fields that `patch` sets; one that is enabled again sends what is still pending."""

    async def delete(self, space: SpaceId, webhook: WebhookId) -> None:
        """Delete a webhook with its deliveries."""

    async def deliveries(
        self,
        space: SpaceId,
        webhook: WebhookId,
        *,
        state: DeliveryState | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Delivery]:
        """Return deliveries, newest first."""

    async def resend(self, space: SpaceId, webhook: WebhookId, delivery: DeliveryId) -> Delivery:
        """Make a delivery pending and due now; a webhook that is disabled refuses (`Conflict`)."""

    async def claim(self, *, lease: timedelta, limit: int, busy: Collection[int] = ()) -> list[DeliveryClaim]:
        """Claim due deliveries, earliest first, except those of the `busy` webhooks.

        Two processes never hold the same delivery. Of the pending deliveries of one run to one webhook only the oldest
        is claimed, so that the receiver gets them in order.
        """

    async def settle(self, claim: DeliveryClaim, result: AttemptResult) -> Delivery:
        """Record an attempt. A failed one is due again later; after 24 hours, or `410`, the webhook is disabled.

        That is a notification `webhook.disabled`. A claim that was taken over is refused (`LeaseLost`).
        """

    async def prune(self, *, keep: timedelta, limit: int) -> int:
        """Delete up to `limit` deliveries that are older than `keep`, and return how many.

        Those that a disabled webhook has never sent go too; what an active one still has to send stays.
        """

    async def next_due(self) -> Instant | None:
        """Return when the next delivery is due."""
