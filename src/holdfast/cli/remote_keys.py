"""The keys of a server that runs."""

from typing import Any, TypeVar
from urllib.parse import quote

import httpx2
import msgspec

from holdfast.cli.remote import Lost, Remote, connection_checked, refusal
from holdfast.control.keys.keys import AskedKey, MadeKey
from holdfast.domain.errors import Unavailable
from holdfast.domain.ids import ApiKeyId
from holdfast.domain.space import ApiKey

T = TypeVar("T")


class _Listed(msgspec.Struct, frozen=True, kw_only=True):
    items: list[ApiKey]


class RemoteKeys:
    """What a server lets its caller do with keys."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    async def create(self, asked: AskedKey) -> MadeKey:
        """Make a key."""
        return await self._ask("POST", "/api/keys", MadeKey, json=msgspec.to_builtins(asked))

    async def all(self) -> list[ApiKey]:
        """Return the keys."""
        return (await self._ask("GET", "/api/keys", _Listed)).items

    async def revoke(self, key: ApiKeyId) -> ApiKey:
        """Revoke a key."""
        return await self._ask("DELETE", f"/api/keys/{quote(key, safe='')}", ApiKey)

    async def _ask(self, method: str, path: str, kind: type[T], **options: Any) -> T:
        try:
            with connection_checked():
                answer = await self._remote.http.request(method, path, **options)
            if answer.status_code >= httpx2.codes.BAD_REQUEST:
                raise refusal(answer.status_code, answer.content)
        except Lost as exc:
            raise Unavailable(f"there is no server at {self._remote.url}: {exc}") from exc
        return msgspec.json.decode(answer.content, type=kind)
