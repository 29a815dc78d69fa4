"""The client of the control RPC: the ports of a worker that has no database.

A call whose response was lost is sent again where a repetition has no second effect. Commits carry a number, so that
one that was applied returns its result instead of being applied again.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from secrets import token_hex
from typing import Any, Final, NamedTuple, cast

import msgspec

import holdfast.control.errors  # noqa: F401  # defines error codes
from holdfast.domain.agent import Agent
from holdfast.domain.commit import Commit, Committed, Lease
from holdfast.domain.errors import Invalid, LeaseLost, OutcomeUnknown, Unavailable
from holdfast.domain.ids import ApiKeyId, OwnerId, RunId, SpaceId
from holdfast.domain.packages import install_command
from holdfast.domain.run import RunError
from holdfast.domain.worker import DEFAULT_CLAIM, ClaimFilter, NewWorker
from holdfast.ports.bus import Bus, WakeHint
from holdfast.ports.queue import QueueState
from holdfast.ports.runtime import RuntimePorts
from holdfast.rpc.protocol import (
    CALL_HEADER,
    COMMIT_HEADER,
    LEASE_HEADER,
    METHODS,
    PORTS,
    PROTOCOL_VERSION,
    RPC_PATH,
    VERSION_HEADER,
    WORKER_HEADER,
    ClaimBody,
    ClaimedLease,
    CommitBody,
    ErrorBody,
    FailBody,
    HintLine,
    LeaveBody,
    Method,
    PoolsBody,
    ReleaseBody,
    RenewBody,
    RenewedLease,
    TokensBody,
    to_error,
)

CONNECT_TIMEOUT_SECONDS: Final = 5.0
CALL_TIMEOUT_SECONDS: Final = 10.0
TOOL_TIMEOUT_SECONDS: Final = 3_600.0
"""A tool of the control plane has a timeout of its own, which is shorter."""
HINT_TIMEOUT_SECONDS: Final = 15.0
"""A hint stream that is silent for longer is lost: the server sends a line every few seconds."""
RETRY_DELAYS_SECONDS: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
RECONNECT_SECONDS: Final = 1.0
MAX_SENT_TEXTS: Final = 10_000
"""Digests of context texts that the control plane is known to have."""

_SENT_ONCE: Final = frozenset(
    {
        ("remote", "call"),
        ("remote", "resume"),
        ("memory", "change_file"),
        ("journal", "charge_ended"),
        ("leases", "claim"),
    }
)
"""Calls that are not repeated if they may have arrived: a second time would have a second effect."""


class ControlConnection:
    """The connection of a worker to a control plane. It belongs to one event loop."""

    def __init__(self, url: str, token: str | None) -> None:
        try:
            import aiohttp
        except ImportError as exc:
            raise Invalid(f"a worker needs a package: run `{install_command('worker')}`") from exc
        self._url = url.rstrip("/") + RPC_PATH
        headers = {VERSION_HEADER: PROTOCOL_VERSION}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        self._limits = {
            seconds: aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_SECONDS, sock_read=seconds)
            for seconds in (CALL_TIMEOUT_SECONDS, TOOL_TIMEOUT_SECONDS, HINT_TIMEOUT_SECONDS)
        }
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self._not_sent = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
        self._lost = (aiohttp.ClientError, asyncio.TimeoutError, OSError)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def call(
        self,
        port: str,
        name: str,
        body: Any,
        result: Any,
        *,
        token: str | None = None,
        commit: int | None = None,
    ) -> Any:
        """Call a method; `Unavailable` if the control plane cannot be reached, also after some retries."""
        headers = {}
        if token is not None:
            headers[LEASE_HEADER] = token
        if commit is not None:
            headers[COMMIT_HEADER] = str(commit)
        if (port, name) in _SENT_ONCE:
            headers[CALL_HEADER] = token_hex(16)
        content = msgspec.json.encode(body)
        for delay in (*RETRY_DELAYS_SECONDS, None):
            try:
                return await self._post(f"{port}/{name}", content, headers, result)
            except self._lost as exc:
                repeatable = isinstance(exc, self._not_sent) or (port, name) not in _SENT_ONCE
                if delay is None or not repeatable:
                    kind = OutcomeUnknown if commit is not None else Unavailable
                    raise kind(f"the control plane does not respond ({str(exc) or type(exc).__name__})") from exc
                await asyncio.sleep(delay)
        raise AssertionError("unreachable")

    async def _post(self, path: str, content: bytes, headers: dict[str, str], result: Any) -> Any:
        limits = self._limits[TOOL_TIMEOUT_SECONDS if path.startswith("remote/") else CALL_TIMEOUT_SECONDS]
        async with self._session.post(
            self._url + path, data=content, headers=headers, allow_redirects=False, timeout=limits
        ) as response:
            received = await response.read()
        try:
            if response.status == 200:
                return msgspec.json.decode(received, type=result)
            error = to_error(msgspec.json.decode(received, type=ErrorBody))
        except msgspec.DecodeError as exc:
            if response.status >= 500:
                raise Unavailable(f"the control plane responded with status {response.status}") from exc
            raise Invalid("the URL is not of a Holdfast server of this version", field="url") from exc
        raise error

    async def relay_hints(self, bus: Bus, *, worker: OwnerId) -> None:
        """Publish the hints of the control plane until cancelled, connecting again when the stream is lost.

        Each stream begins with a hint that everything may have changed, upon which a worker renews its leases.
        """
        limits, headers = self._limits[HINT_TIMEOUT_SECONDS], {WORKER_HEADER: worker}
        while True:
            try:
                async with self._session.get(f"{self._url}hints", headers=headers, timeout=limits) as response:
                    async for line in response.content if response.status == 200 else _nothing():
                        hint = msgspec.json.decode(line, type=HintLine)
                        bus.publish(
                            WakeHint(
                                queue=hint.queue,
                                delayed=hint.delayed,
                                ended=frozenset(map(tuple, hint.ended)),  # type: ignore[arg-type]
                                everything=hint.everything,
                            )
                        )
            except (*self._lost, msgspec.DecodeError):
                pass  # the watcher checks the queue without hints, too
            await asyncio.sleep(RECONNECT_SECONDS)


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


class _HeldLease:
    """The token of a lease, the number of its last commit, and the agent that came with the claim."""

    def __init__(self, token: str, agent: Agent | None) -> None:
        self.token = token
        self.agent = agent
        self.last_commit = 0
        self.committing = asyncio.Lock()


class LeaseTokens:
    """The tokens of the leases that a worker holds."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], _HeldLease] = {}

    def add(self, lease: Lease, token: str, *, agent: Agent | None = None) -> None:
        """Keep the token of a lease, and the agent of its run."""
        self._held[lease.run_key, lease.number] = _HeldLease(token, agent)

    def get(self, lease: Lease) -> _HeldLease:
        """Return what is kept of a lease, or raise `LeaseLost`."""
        held = self._held.get((lease.run_key, lease.number))
        if held is None:
            raise LeaseLost(f"lease {lease.number} of run `{lease.run_id}` is lost", run_id=lease.run_id)
        return held

    def of(self, leases: Sequence[Lease]) -> dict[str, Lease]:
        """Return the leases that are kept, by token."""
        kept = ((self._held.get((lease.run_key, lease.number)), lease) for lease in leases)
        return {held.token: lease for held, lease in kept if held is not None}

    def drop(self, lease: Lease) -> None:
        """Forget a lease that was given back."""
        self._held.pop((lease.run_key, lease.number), None)


class RpcLeases:
    """`Leases` and `WorkerBeats` over the control RPC."""

    def __init__(self, connection: ControlConnection, tokens: LeaseTokens) -> None:
        self._connection = connection
        self._tokens = tokens

    async def check_pools(self, pools: Sequence[str]) -> None:
        """Raise `Forbidden` unless the key of this worker may claim from `pools`."""
        await self._connection.call("leases", "check_pools", PoolsBody(pools=pools), None)

    async def claim(
        self, owner: OwnerId, *, lease: timedelta, limit: int = 1, where: ClaimFilter = DEFAULT_CLAIM
    ) -> list[Lease]:
        """Claim runs of the pools of `where`; the spaces are those of the worker's key."""
        body = ClaimBody(owner=owner, lease_seconds=lease.total_seconds(), limit=limit, pools=where.pools)
        claimed = await self._connection.call("leases", "claim", body, list[ClaimedLease])
        for each in claimed:
            self._tokens.add(each.lease, each.token, agent=each.agent)
        return [each.lease for each in claimed]

    async def renew(self, owner: OwnerId, leases: Sequence[Lease], *, lease: timedelta) -> list[Lease]:
        """Extend leases, and return those that are still held."""
        by_token = self._tokens.of(leases)
        body = RenewBody(owner=owner, tokens=list(by_token), lease_seconds=lease.total_seconds())
        renewed = await self._connection.call("leases", "renew", body, list[RenewedLease])
        return [msgspec.structs.replace(by_token[each.token], expires_at=each.expires_at) for each in renewed]

    async def release(self, lease: Lease, *, delay: timedelta = timedelta()) -> None:
        """Return a run to the queue."""
        token = self._tokens.get(lease).token
        body = ReleaseBody(delay_seconds=delay.total_seconds())
        try:
            await self._connection.call("leases", "release", body, None, token=token)
        finally:
            self._tokens.drop(lease)

    async def release_leftover(self, leases: Sequence[Lease]) -> None:
        """Release the leases of runs that are still running under them."""
        body = TokensBody(tokens=list(self._tokens.of(leases)))
        await self._connection.call("leases", "release_leftover", body, None)
        for lease in leases:
            self._tokens.drop(lease)

    async def fail(self, lease: Lease, error: RunError) -> None:
        """End a run as failed."""
        await self._connection.call("leases", "fail", FailBody(error=error), None, token=self._tokens.get(lease).token)

    async def expire(self, *, cap: int = 5, spare: Container[int] = ()) -> list[RunId]:
        """Leave the leases of dead workers to the control plane."""
        return []

    async def beat(self, worker: NewWorker, *, api_key: ApiKeyId | None = None) -> None:
        """Note that this worker lives; its key is that of the connection."""
        await self._connection.call("leases", "beat", worker, None)

    async def leave(self, worker: OwnerId, *, api_key: ApiKeyId | None = None) -> None:
        """Note that this worker stops."""
        await self._connection.call("leases", "leave", LeaveBody(owner=worker), None)

    async def queue_state(self) -> QueueState:
        """Return whether a run may be claimed now."""
        return cast(QueueState, await self._connection.call("leases", "queue_state", {}, QueueState))


class RpcCommits:
    """Numbers the commits of each lease, and sends one after the other."""

    def __init__(self, connection: ControlConnection, tokens: LeaseTokens) -> None:
        self._connection = connection
        self._tokens = tokens
        self._sent_texts: OrderedDict[tuple[SpaceId, str], None] = OrderedDict()

    async def commit(self, commit: Commit) -> Committed:
        """Send a commit, again if its result was lost, until it was applied or refused."""
        lease = commit.lease
        held = self._tokens.get(lease)
        async with held.committing:
            held.last_commit += 1
            committed = await self._connection.call(
                "journal", "commit", self._body(commit), Committed, token=held.token, commit=held.last_commit
            )
        for context in commit.contexts:
            self._sent_texts.update(dict.fromkeys((lease.space_id, digest) for digest in context.texts))
        while len(self._sent_texts) > MAX_SENT_TEXTS:
            self._sent_texts.popitem(last=False)
        return cast(Committed, committed)

    def _body(self, commit: Commit) -> msgspec.Struct:
        """Return a commit without its lease, and without the texts that were sent before."""
        parts = {field: getattr(commit, field) for field in CommitBody.__struct_fields__}
        space = commit.lease.space_id
        parts["contexts"] = [
            msgspec.structs.replace(
                context, texts={k: text for k, text in context.texts.items() if (space, k) not in self._sent_texts}
            )
            for context in commit.contexts
        ]
        return CommitBody(**parts)


class WorkerPorts(NamedTuple):
    """The ports of a worker over the control RPC."""

    connection: ControlConnection
    leases: RpcLeases
    runtime: RuntimePorts


@asynccontextmanager
async def open_ports(url: str, token: str | None, *, tokens: LeaseTokens | None = None) -> AsyncIterator[WorkerPorts]:
    """Yield the ports of a worker; `tokens` are shared with other connections of the same worker."""
    connection, tokens = ControlConnection(url, token), tokens or LeaseTokens()
    try:
        proxies = {port: _proxy(port, connection, tokens) for port in PORTS}
        yield WorkerPorts(connection, RpcLeases(connection, tokens), RuntimePorts(**proxies))
    finally:
        await connection.close()


def _proxy(port: str, connection: ControlConnection, tokens: LeaseTokens) -> Any:
    """Return an object with the methods of a port, each of which makes a call."""
    methods = {
        name: _caller(port, name, method, connection, tokens)
        for (of_port, name), method in METHODS.items()
        if of_port == port
    }
    if port == "journal":
        methods["commit"] = RpcCommits(connection, tokens).commit
    if port == "library":
        methods["agent"] = _claimed_agent(methods["agent"], tokens)
    return type(f"Rpc_{port}", (), {name: staticmethod(call) for name, call in methods.items()})()


def _claimed_agent(
    ask: Callable[[Lease], Awaitable[Agent]], tokens: LeaseTokens
) -> Callable[[Lease], Awaitable[Agent]]:
    """Return a method that takes the agent that came with the claim, once, and asks for it after that."""

    async def agent(lease: Lease) -> Agent:
        held = tokens.get(lease)
        claimed, held.agent = held.agent, None
        return claimed or await ask(lease)

    return agent


def _caller(port: str, name: str, method: Method, connection: ControlConnection, tokens: LeaseTokens) -> Any:
    async def call(lease: Lease, *positional: Any, **named: Any) -> Any:
        given = method.signature.bind(None, lease, *positional, **named).arguments
        body = method.arguments(
            **{field: given[field] for field in method.arguments.__struct_fields__ if field in given}
        )
        return await connection.call(port, name, body, method.result, token=tokens.get(lease).token)

    return call
