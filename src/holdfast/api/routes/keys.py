"""API keys."""

from typing import Annotated, Final

import msgspec
from litestar import delete, get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, JSONBody
from msgspec import Meta

from holdfast.control.keys.keys import AskedKey, KeyControl, MadeKey
from holdfast.domain.ids import ApiKeyId, SpaceId
from holdfast.domain.instant import Instant
from holdfast.domain.space import ApiKey, Scope

_TAGS: Final = ["keys"]
_SpaceName = Annotated[SpaceId, Meta(extra_json_schema={"pattern": "^[A-Za-z0-9_-]{1,128}$"})]


class KeyBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to be made."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    scope: Scope = Scope.RUN
    space_ids: Annotated[list[_SpaceName], Meta(max_length=1000)] = []
    """Where it opens something; the space that is meant where none is named, unless given."""
    every_space: bool = False
    """It opens all spaces, also those that are made later; then `space_ids` stays empty."""
    rate_limit: Annotated[str, Meta(examples=["600/minute"])] | None = None
    expires_at: Annotated[Instant, Meta(extra_json_schema={"format": "date-time"})] | None = None

    def asked(self) -> AskedKey:
        """Return it as the use cases know it."""
        return AskedKey(**msgspec.structs.asdict(self))


class KeyList(msgspec.Struct, frozen=True, kw_only=True):
    """Keys without their secrets, the oldest first."""

    items: list[ApiKey]


@get("/api/keys", summary="List keys", tags=_TAGS)
async def list_keys(keys: NamedDependency[KeyControl]) -> KeyList:
    """Return the keys that open nothing but what is yours, the revoked ones too. Secrets are not kept."""
    return KeyList(items=await keys.all())


@post("/api/keys", summary="Make a key", tags=_TAGS)
async def create_key(keys: NamedDependency[KeyControl], data: JSONBody[KeyBody]) -> MadeKey:
    """Make a key that may do no more than yours. Its `secret` is in this answer, and never shown again.

    Once there is a key, every request needs one.
    """
    return await keys.create(data.asked())


@delete("/api/keys/{key_id:str}", summary="Revoke a key", tags=_TAGS, status_code=200)
async def revoke_key(keys: NamedDependency[KeyControl], key_id: FromPath[ApiKeyId]) -> ApiKey:
    """Let a key open nothing any more, within a second and for good. What it has open is cut off."""
    return await keys.revoke(key_id)


ROUTES: Final[tuple[HTTPRouteHandler, ...]] = (list_keys, create_key, revoke_key)
