"""Outgoing webhooks: events of a space, posted to a URL as the Standard Webhooks specification describes.

    pending ──► delivered          the receiver answered 2xx
       └──────► failed             nothing helped for 24 hours: the webhook is disabled

A delivery is sent at least once, under the same `webhook-id` each time, and deliveries of one run in their order.
"""

import base64
import binascii
import hmac
from collections.abc import Iterable
from datetime import timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import DeliveryId, RunId, SpaceId, WebhookId, check_client_id
from holdfast.domain.instant import Instant, Millis
from holdfast.domain.notification import NotificationKind
from holdfast.domain.validation import check_text
from holdfast.domain.web_url import MAX_URL_CHARS, parse_web_url

SECRET_PREFIX: Final = "whsec_"
SECRET_BYTES: Final = 32
MAX_DESCRIPTION_CHARS: Final = 1_000
MAX_WEBHOOKS_PER_SPACE: Final = 100
RETRY_FOR_MS: Final = 24 * 3_600_000
"""How long a delivery is retried before its webhook is disabled."""
KEEP_DELIVERIES: Final = timedelta(days=30)
FIRST_RETRY_MS: Final = 5_000
RETRY_FACTOR: Final = 4
MAX_RETRY_MS: Final = 4 * 3_600_000
GONE: Final = 410
"""The status with which a receiver says that it wants no more."""
MAX_ERROR_CHARS: Final = 500

WEBHOOK_EVENTS: Final = frozenset(kind.value for kind in NotificationKind)


class WebhookState(StrEnum):
    """State of a webhook."""

    ACTIVE = "active"
    DISABLED = "disabled"


class DeliveryState(StrEnum):
    """State of a delivery."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook. Its secret is shown once, when it is made."""

    id: WebhookId
    space_id: SpaceId
    url: str
    events: list[str]
    """Names of events, or `run.*`, `reminder.*` … or `*`."""
    description: str | None
    state: WebhookState
    state_reason: str | None
    created_by: str | None
    created_at: Instant
    updated_at: Instant


class NewWebhook(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook to create."""

    url: str
    events: list[str]
    secret: str
    description: str | None = None
    id: WebhookId | None = None
    created_by: str | None = None


class WebhookPatch(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a webhook; absent fields stay."""

    url: str | UnsetType = UNSET
    events: list[str] | UnsetType = UNSET
    description: str | None | UnsetType = UNSET
    secret: str | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One event for one webhook, and what came of it. Its id is the `webhook-id` of every attempt."""

    id: DeliveryId
    webhook_id: WebhookId
    event: str
    run_id: RunId | None
    state: DeliveryState
    attempts: int
    last_status: int | None
    """The HTTP status of the last response; null if there was none."""
    last_error: str | None
    next_attempt_at: Instant | None
    payload: Json
    created_at: Instant
    delivered_at: Instant | None


class DeliveryClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that one process sends now."""

    key: int
    number: int
    webhook_key: int
    id: DeliveryId
    url: str
    secret: str
    body: str


class AttemptResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an attempt: the HTTP status, or the reason why there was none."""

    status: int | None = None
    error: str | None = None
    retry_after_seconds: int = 0

    @property
    def delivered(self) -> bool:
        """Whether the receiver accepted it."""
        return self.error is None and self.status is not None and 200 <= self.status < 300


def check_webhook(*, url: str, events: Iterable[str], description: str | None, id: str | None = None) -> None:
    """Raise if the parts of a webhook are not valid."""
    if len(url) > MAX_URL_CHARS:
        raise Invalid(f"the URL has more than {MAX_URL_CHARS} characters", field="url")
    parse_web_url(url)
    names = list(events)
    if not names:
        raise Invalid("`events` is empty: name events, such as `run.completed`, or `*`", field="events")
    for name in names:
        prefix = name.removesuffix("*")
        if name not in WEBHOOK_EVENTS and not (
            name.endswith("*") and (prefix == "" or (prefix.endswith(".") and _any_starts_with(prefix)))
        ):
            known = ", ".join(f"`{each}`" for each in sorted(WEBHOOK_EVENTS))
            raise Invalid(f"`{name[:64]}` is not an event: known are {known}, `run.*` and `*`", field="events")
    if description is not None:
        check_text(description, field="description", max_chars=MAX_DESCRIPTION_CHARS)
    if id is not None:
        check_client_id(id, field="id")


def _any_starts_with(prefix: str) -> bool:
    return any(event.startswith(prefix) for event in WEBHOOK_EVENTS)


def wants_event(events: Iterable[str], event: str) -> bool:
    """Return whether a webhook with these event names gets an event."""
    return any(name == event or (name.endswith("*") and event.startswith(name[:-1])) for name in events)


def retry_at(*, attempts: int, first: Millis, now: Millis, retry_after_seconds: int = 0) -> Millis | None:
    """Return when to try again after so many attempts, the first at `first`; `None` if it is time to give up."""
    if now - first >= RETRY_FOR_MS:
        return None
    delay = min(FIRST_RETRY_MS * RETRY_FACTOR ** min(attempts - 1, 10), MAX_RETRY_MS)
    delay = max(delay, min(retry_after_seconds * 1000, MAX_RETRY_MS))
    return Millis(min(now + delay, first + RETRY_FOR_MS))


def signature_headers(claim: DeliveryClaim, *, now: Millis) -> dict[str, str]:
    """Return the headers of an attempt, signed as the Standard Webhooks specification describes."""
    timestamp = str(now // 1000)
    try:
        key = base64.b64decode(claim.secret.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error as exc:
        raise Invalid("the secret of the webhook cannot be decoded: make a new one", field="secret") from exc
    signed = f"{claim.id}.{timestamp}.{claim.body}".encode()
    digest = base64.b64encode(hmac.new(key, signed, sha256).digest()).decode()
    return {"webhook-id": claim.id, "webhook-timestamp": timestamp, "webhook-signature": f"v1,{digest}"}
