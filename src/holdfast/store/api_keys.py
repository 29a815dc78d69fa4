"""API keys in SQL."""

from holdfast.domain.api_key import ApiKey, KeptKey, NewApiKey, Scope, check_new_key
from holdfast.domain.errors import IdTaken, NotFound
from holdfast.domain.ids import ApiKeyId, SpaceId
from holdfast.domain.instant import instant, maybe_instant, millis
from holdfast.store.spaces import hold_space, space_key
from holdfast.store.transaction import Database, Row, Transaction


class SqlApiKeys:
    """`ApiKeys`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, spaces: list[SpaceId], new: NewApiKey) -> ApiKey:
        """Keep a key bound to spaces."""
        check_new_key(new, spaces)

        async def add(tx: Transaction) -> ApiKey:
            row = await tx.one(
                "add_api_key",
                id=tx.new_id("key"),
                name=new.name,
                scope=new.scope.value,
                secret_hash=new.secret_hash,
                every_space=int(new.every_space),
                rate_limit=new.rate_limit,
                created_by=new.created_by,
                expires_at=None if new.expires_at is None else millis(new.expires_at),
                now=tx.now,
            )
            if row is None:
                raise IdTaken("this secret is in use: make another one")
            for space in dict.fromkeys(spaces):
                await tx.run("bind_api_key", api_key=row["api_key"], space_key=await hold_space(tx, space))
            return await _key(tx, row)

        return await self._database.write(add)

    async def find(self, key: ApiKeyId) -> KeptKey:
        """Return a key with the hash of its secret."""

        async def look(tx: Transaction) -> KeptKey:
            row = await _row(tx, key)
            return KeptKey(await _key(tx, row), bytes(row["secret_hash"]))

        return await self._database.read(look)

    async def any(self) -> bool:
        """Say whether there is a key."""

        async def look(tx: Transaction) -> bool:
            return await tx.one("any_api_key") is not None

        return await self._database.read(look)

    async def all(self) -> list[ApiKey]:
        """Return all keys."""

        async def look(tx: Transaction) -> list[ApiKey]:
            return [await _key(tx, row) for row in await tx.all("api_keys")]

        return await self._database.read(look)

    async def of_space(self, space: SpaceId) -> list[ApiKey]:
        """Return the keys bound to a space."""

        async def look(tx: Transaction) -> list[ApiKey]:
            await space_key(tx, space)
            return [await _key(tx, row) for row in await tx.all("api_keys_of_space", space=space)]

        return await self._database.read(look)

    async def revoke(self, key: ApiKeyId) -> ApiKey:
        """Revoke a key."""

        async def stop(tx: Transaction) -> ApiKey:
            row = await _row(tx, key)
            return await _key(tx, await tx.one("revoke_api_key", api_key=row["api_key"], now=tx.now) or row)

        return await self._database.write(stop)


async def _row(tx: Transaction, key: ApiKeyId) -> Row:
    row = await tx.one("api_key", id=key)
    if row is None:
        raise NotFound(f"there is no key `{key}`", id=key)
    return row


async def _key(tx: Transaction, row: Row) -> ApiKey:
    spaces = await tx.all("spaces_of_api_key", api_key=row["api_key"])
    return ApiKey(
        id=row["id"],
        name=row["name"],
        scope=Scope(row["scope"]),
        space_ids=[space["id"] for space in spaces],
        every_space=bool(row["every_space"]),
        rate_limit=row["rate_limit"],
        created_by=row["created_by"],
        created_at=instant(row["created_at"]),
        expires_at=maybe_instant(row["expires_at"]),
        revoked_at=maybe_instant(row["revoked_at"]),
    )
