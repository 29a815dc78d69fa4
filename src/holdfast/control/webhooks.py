"""Webhooks: commands of people and clients."""

import base64
import secrets

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from holdfast.domain.errors import Unavailable
from holdfast.domain.ids import SpaceId, WebhookId
from holdfast.domain.web_url import parse_web_url
from holdfast.domain.webhook import SECRET_BYTES, SECRET_PREFIX, NewWebhook, Webhook, WebhookPatch, check_webhook
from holdfast.ports.webhooks import Webhooks
from holdfast.tools.web.client import GuardedResolver


class MadeWebhook(Webhook, frozen=True, kw_only=True):
    """A webhook with its secret, which is shown once."""

    secret: str | None = None


class WebhookControl:
    """Commands for webhooks."""

    def __init__(self, *, webhooks: Webhooks, addresses: GuardedResolver, principal: str | None = None) -> None:
        """Check URLs with `addresses`, and record `principal` as the author of new webhooks."""
        self._webhooks = webhooks
        self._addresses = addresses
        self._principal = principal

    async def create(
        self,
        space: SpaceId,
        *,
        url: str,
        events: list[str],
        description: str | None = None,
        id: WebhookId | None = None,
    ) -> MadeWebhook:
        """Create a webhook. A host that may not be reached is refused; every attempt checks it again."""
        check_webhook(url=url, events=events, description=description, id=id)
        await self._check_host(url)
        secret = _new_secret()
        new = NewWebhook(
            url=url, events=events, secret=secret, description=description, id=id, created_by=self._principal
        )
        return MadeWebhook(**asdict(await self._webhooks.create(space, new)), secret=secret)

    async def update(
        self,
        space: SpaceId,
        webhook: WebhookId,
        *,
        url: str | UnsetType = UNSET,
        events: list[str] | UnsetType = UNSET,
        description: str | None | UnsetType = UNSET,
        enabled: bool | UnsetType = UNSET,
        new_secret: bool = False,
    ) -> MadeWebhook:
        """Change a webhook; with `new_secret` it gets another secret, which is shown once."""
        await self._webhooks.get(space, webhook)
        if url is not UNSET:
            parse_web_url(url)
            await self._check_host(url)
        secret = _new_secret() if new_secret else None
        patch = WebhookPatch(
            url=url,
            events=events,
            description=description,
            enabled=enabled,
            secret=UNSET if secret is None else secret,
        )
        changed = await self._webhooks.update(space, webhook, patch, by=self._principal)
        return MadeWebhook(**asdict(changed), secret=secret)

    async def _check_host(self, url: str) -> None:
        try:
            await self._addresses.resolve(parse_web_url(url))
        except Unavailable:
            return  # the name may exist later


def _new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
