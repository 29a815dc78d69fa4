"""What tools of others were trusted as, in SQL."""

from collections.abc import Mapping

from holdfast.domain.ids import SpaceId
from holdfast.store.spaces import hold_space, space_key
from holdfast.store.transaction import Database, Transaction


class SqlToolTrust:
    """`ToolTrust`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def trusted(self, space: SpaceId, source: str, digests: Mapping[str, str]) -> dict[str, str]:
        """Return the digest that is trusted of each tool of a source."""

        async def look(tx: Transaction) -> dict[str, str]:
            await space_key(tx, space)
            rows = await tx.all("trusted_tools", space=space, source=source)
            return {row["tool"]: row["digest"] for row in rows if row["tool"] in digests}

        async def see(tx: Transaction) -> dict[str, str]:
            held = await hold_space(tx, space)
            for tool in sorted(set(digests) - set(await look(tx))):
                await tx.run(
                    "trust_new_tool", space_key=held, source=source, tool=tool, digest=digests[tool], now=tx.now
                )
            return await look(tx)

        found = await self._database.read(look)
        return found if len(found) == len(digests) else await self._database.write(see)

    async def trust(self, space: SpaceId, source: str, tool: str, digest: str) -> None:
        """Trust a tool as it is now."""

        async def see(tx: Transaction) -> None:
            held = await hold_space(tx, space)
            await tx.run("trust_tool", space_key=held, source=source, tool=tool, digest=digest, now=tx.now)

        await self._database.write(see)
