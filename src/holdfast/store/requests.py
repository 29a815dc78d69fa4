"""Requests with an idempotency key in SQL."""

from collections.abc import Awaitable, Callable

import msgspec

from holdfast.domain.errors import IdempotencyMismatch
from holdfast.domain.idempotency import KeyedRequest, KeyedResult, check_idempotency_key
from holdfast.domain.ids import SpaceId
from holdfast.ports.requests import RequestPorts, T
from holdfast.store.encoding import dump_json
from holdfast.store.spaces import lock_space_shared, space_key
from holdfast.store.transaction import Database, JoinedDatabase, SqlPort, Transaction


class SqlKeyedRequests(SqlPort):
    """Implements `KeyedRequests`."""

    def __init__(self, database: Database, ports_of: Callable[[Database], RequestPorts]) -> None:
        super().__init__(database)
        self._ports_of = ports_of

    async def find(self, space: SpaceId, request: KeyedRequest | None, *, kind: type[T]) -> T | None:
        """Return the result of an earlier request with the same key."""
        if request is None:
            return None
        check_idempotency_key(request.key)

        async def read(tx: Transaction) -> T | None:
            return await _earlier_result(tx, await space_key(tx, space), request, kind)

        return await self._database.read(read)

    async def once(
        self,
        space: SpaceId,
        request: KeyedRequest | None,
        *,
        kind: type[T],
        create: Callable[[RequestPorts], Awaitable[T]],
    ) -> KeyedResult[T]:
        """Call `create` and store its result, or return the result of an earlier request."""
        if request is None:
            return KeyedResult(value=await create(self._ports_of(self._database)))
        check_idempotency_key(request.key)

        async def write(tx: Transaction) -> KeyedResult[T]:
            key = await lock_space_shared(tx, space)
            names = {"space_key": key, "operation": request.operation, "key": request.key}
            # The insert blocks concurrent requests with the same key until this transaction has ended.
            if await tx.one("take_request_key", **names, digest=request.digest, now=tx.now) is None:
                earlier = await _earlier_result(tx, key, request, kind)
                assert earlier is not None
                return KeyedResult(value=earlier, replayed=True)
            result = await create(self._ports_of(JoinedDatabase(tx)))
            await tx.run("settle_request_key", **names, result=dump_json(result))
            return KeyedResult(value=result)

        return await self._database.write(write)


async def _earlier_result(tx: Transaction, space: int, request: KeyedRequest, kind: type[T]) -> T | None:
    row = await tx.one("keyed_request", space_key=space, operation=request.operation, key=request.key)
    if row is None:
        return None
    if row["digest"] != request.digest:
        raise IdempotencyMismatch("this idempotency key was used with another body: choose another key")
    return msgspec.json.decode(row["result"], type=kind)
