"""The methods of all clients that are connected, as tools of the runs of their space."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from holdfast.control.remote_methods.client import Client
from holdfast.control.remote_methods.errors import MethodNotOffered
from holdfast.control.remote_methods.method import Method, check_methods, spec_of
from holdfast.control.remote_methods.telling import MethodsOffered, Offered, Telling
from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import SpaceId
from holdfast.domain.tool import ToolInterrupt, ToolReply, ToolSpec
from holdfast.ports.log import Journal

PATIENCE: Final = 30.0
"""Seconds that a call waits for a client to come back: after a restart runs go on before anybody is connected."""


class RemoteMethods:
    """`RemoteTools` of the clients that are connected. Where several offer one method, the newest offer counts."""

    def __init__(self, journal: Journal, *, patience: float = PATIENCE) -> None:
        self._journal = journal
        self._patience = patience
        self._clients: dict[Client, None] = {}
        """In the order of their newest offers."""
        self._changed = asyncio.Event()

    @contextmanager
    def connected(self, space: SpaceId, *, tell: Callable[[Telling], None]) -> Iterator[Client]:
        """Have a client while the block runs."""
        client = Client(space, tell=tell)
        try:
            yield client
        finally:
            self._clients.pop(client, None)
            client.leave()
            self._tell_others(client, client.methods)

    def offer(self, client: Client, methods: Sequence[Method], *, id: str | None = None) -> None:
        """Let a client offer these methods, and no others that it offered before."""
        check_methods(methods)
        touched = {*client.methods, *(method.tool for method in methods)}
        client.methods = {method.tool: method for method in methods}
        self._clients.pop(client, None)
        if methods:
            self._clients[client] = None
        client.tell(self._offered(client, id=id))
        self._tell_others(client, touched)
        self._changed.set()
        self._changed = asyncio.Event()

    async def list(self, lease: Lease) -> list[ToolSpec]:
        """Return the methods that clients of the run's space offer."""
        found: dict[str, Method] = {}
        for client in self._clients:
            if client.space == lease.space_id:
                found |= client.methods
        return [spec_of(method) for _, method in sorted(found.items())]

    async def call(self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str) -> ToolReply:
        """Have the client that offers a method do it; one that is away may come back for a moment."""
        await self._journal.inbox(lease)  # refused if the lease is lost: nothing is done in its name any more
        client = await self._coming(lease.space_id, name)
        return await client.call(lease, name, arguments, key=key)

    async def answer(
        self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str, question: ToolInterrupt, response: Json
    ) -> ToolReply:
        """Refuse: no method asks anybody but its own client."""
        raise NotFound(f"the method `{name}` has not asked anything", name=name)

    async def trust(self, lease: Lease, name: str, digest: str) -> None:
        """Refuse: what a client offers is trusted as it is offered."""
        raise NotFound(f"the method `{name}` has not changed", name=name)

    async def _coming(self, space: SpaceId, tool: str) -> Client:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                while (client := self._newest(space, tool)) is None:
                    await self._changed.wait()
                return client
        raise MethodNotOffered(f"no client that is connected offers `{tool}`: try again later", name=tool)

    def _newest(self, space: SpaceId, tool: str) -> Client | None:
        offering = (each for each in reversed(self._clients) if each.space == space and tool in each.methods)
        return next(offering, None)

    def _tell_others(self, client: Client, tools: Iterable[str]) -> None:
        """Tell clients that offer one of these tools too, because calls go elsewhere now."""
        for other in [each for each in self._clients if each is not client and each.space == client.space]:
            if not other.methods.keys().isdisjoint(tools):
                other.tell(self._offered(other))

    def _offered(self, client: Client, *, id: str | None = None) -> MethodsOffered:
        return MethodsOffered(id=id, methods=[self._as_offered(client, tool) for tool in client.methods])

    def _as_offered(self, client: Client, tool: str) -> Offered:
        active = self._newest(client.space, tool) is client
        return Offered(name=client.methods[tool].name, tool=tool, active=active)
