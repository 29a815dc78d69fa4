"""Routes for outgoing webhooks and their deliveries."""

from typing import Annotated

import msgspec
from litestar import delete, get, patch, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, JSONBody, QueryParameter
from msgspec import UNSET, Meta, UnsetType

from holdfast.api.bodies import Id
from holdfast.api.parameters import Cursor, Limit, PortDependency, space_paths
from holdfast.control.webhooks import MadeWebhook, WebhookControl
from holdfast.domain.ids import DeliveryId, SpaceId, WebhookId
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.web_url import MAX_URL_CHARS
from holdfast.domain.webhook import MAX_DESCRIPTION_CHARS, Delivery, DeliveryState, Webhook
from holdfast.ports.webhooks import Webhooks

_TAGS = ["webhooks"]
_ONE = space_paths("/webhooks/{webhook_id:str}")
_Url = Annotated[str, Meta(max_length=MAX_URL_CHARS)]
_Events = Annotated[list[Annotated[str, Meta(max_length=64)]], Meta(min_length=1, max_length=20)]
_Description = Annotated[str, Meta(extra_json_schema={"maxLength": MAX_DESCRIPTION_CHARS})]
_State = Annotated[DeliveryState | None, QueryParameter(name="state", description="Only in this state.")]
"""`state` is a reserved name of the framework."""


class WebhookBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new webhook."""

    url: _Url
    events: _Events
    """Names of events, such as `run.completed`; `run.*` and `*` stand for several."""
    description: _Description | None = None
    id: Annotated[WebhookId, Id] | None = None


class WebhookChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of a webhook; an absent field stays as it is."""

    url: _Url | UnsetType = UNSET
    events: _Events | UnsetType = UNSET
    description: _Description | None | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    new_secret: bool = False
    """Whether to replace the secret; the new one is in the response, once."""


@get(space_paths("/webhooks"), summary="List webhooks", tags=_TAGS)
async def list_webhooks(
    webhook_store: PortDependency[Webhooks],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Webhook]:
    """Return webhooks, newest first."""
    return await webhook_store.page(space_id, limit=limit, cursor=cursor)


@post(space_paths("/webhooks"), summary="Create a webhook", tags=_TAGS)
async def create_webhook(
    webhooks: NamedDependency[WebhookControl],
    data: JSONBody[WebhookBody],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> MadeWebhook:
    """Create a webhook. Its secret is in the response, once."""
    return await webhooks.create(space_id, url=data.url, events=data.events, description=data.description, id=data.id)


@get(_ONE, summary="Read a webhook", tags=_TAGS)
async def read_webhook(
    webhook_store: PortDependency[Webhooks],
    webhook_id: FromPath[WebhookId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> Webhook:
    """Return a webhook, without its secret."""
    return await webhook_store.get(space_id, webhook_id)


@patch(_ONE, summary="Change a webhook", tags=_TAGS)
async def update_webhook(
    webhooks: NamedDependency[WebhookControl],
    webhook_id: FromPath[WebhookId],
    data: JSONBody[WebhookChanges],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> MadeWebhook:
    """Change the given fields; one that is enabled again sends what is still pending."""
    return await webhooks.update(
        space_id,
        webhook_id,
        url=data.url,
        events=data.events,
        description=data.description,
        enabled=data.enabled,
        new_secret=data.new_secret,
    )


@delete(_ONE, summary="Delete a webhook", tags=_TAGS)
async def delete_webhook(
    webhook_store: PortDependency[Webhooks],
    webhook_id: FromPath[WebhookId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> None:
    """Delete a webhook with its deliveries."""
    await webhook_store.delete(space_id, webhook_id)


@get(space_paths("/webhooks/{webhook_id:str}/deliveries"), summary="List the deliveries of a webhook", tags=_TAGS)
async def list_deliveries(
    webhook_store: PortDependency[Webhooks],
    webhook_id: FromPath[WebhookId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    only_state: _State = None,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Delivery]:
    """Return deliveries, newest first, with the result of their last attempt."""
    return await webhook_store.deliveries(space_id, webhook_id, state=only_state, limit=limit, cursor=cursor)


@post(
    space_paths("/webhooks/{webhook_id:str}/deliveries/{delivery_id:str}/resend"),
    summary="Send a delivery again",
    tags=_TAGS,
    status_code=202,
)
async def resend_delivery(
    webhook_store: PortDependency[Webhooks],
    webhook_id: FromPath[WebhookId],
    delivery_id: FromPath[DeliveryId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> Delivery:
    """Send a delivery again, under the same `webhook-id`."""
    return await webhook_store.resend(space_id, webhook_id, delivery_id)


ROUTES: list[HTTPRouteHandler] = [
    list_webhooks,
    create_webhook,
    read_webhook,
    update_webhook,
    delete_webhook,
    list_deliveries,
    resend_delivery,
]
