"""The server of the control RPC: an ASGI middleware in front of the API.

A worker key may claim; every other call needs the token of its lease, and acts as that lease. Tokens are checked
against the store, so any process can serve any call.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.concurrency import cancel_and_wait, start_background
from holdfast.control.api_keys import hash_secret, new_secret
from holdfast.control.errors import Forbidden, Unauthenticated
from holdfast.control.principal import LOCAL_PRINCIPAL, Principal
from holdfast.domain.commit import Commit, CommitNumber, Committed, Lease
from holdfast.domain.distillation import DISTILLER_PREFIX, is_distiller
from holdfast.domain.errors import Conflict, HoldfastError, Invalid, LeaseLost, NotFound, TooLarge, Unavailable
from holdfast.domain.ids import ApiKeyId, OwnerId
from holdfast.domain.new_run import NewRun
from holdfast.domain.space import Scope
from holdfast.domain.thread import NewThread
from holdfast.domain.validation import describe_error
from holdfast.domain.worker import DEFAULT_POOL, ClaimFilter, NewWorker, check_pools
from holdfast.engine.loops import WakeEvent
from holdfast.ports.bus import RunWatcher, WakeHint
from holdfast.ports.queue import Leases, TokenBinding, WorkerBeats, WorkerLeases
from holdfast.ports.runtime import RuntimePorts
from holdfast.rpc.authority import check_arguments, check_commit_parts
from holdfast.rpc.protocol import (
    CALL_HEADER,
    COMMIT_HEADER,
    LEASE_HEADER,
    MAX_BODY_BYTES,
    METHODS,
    PROTOCOL_VERSION,
    RECONNECT_GRACE_SECONDS,
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
    PoolsBody,
    ReleaseBody,
    RenewBody,
    RenewedLease,
    TokensBody,
    lease_ref,
    make_lease_token,
    parse_lease_token,
)

AsgiApp: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
T = TypeVar("T")

HINT_KEEPALIVE_SECONDS: Final = 5.0
"""A worker that reads nothing for longer has lost the connection."""
MAX_CACHED_LEASES: Final = 10_000
MAX_SHARED_CALLS: Final = 256
"""Ended calls whose results are kept for a while."""
MAX_OPENED: Final = 32
"""Runs of a claim that are sent with their state; of more, the last ones would wait for the first ones."""
_STATUS: Final[tuple[tuple[type[HoldfastError], int], ...]] = (
    (Unauthenticated, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (TooLarge, 413),
    (Invalid, 400),
    (Conflict, 409),
    (Unavailable, 503),
)
_log: Final = logging.getLogger("holdfast.rpc")


class KeyAuthenticator(Protocol):
    """Authenticates the keys of workers."""

    async def key_required(self) -> bool:
        """Return whether every request needs a key."""

    async def authenticate(self, token: str) -> Principal:
        """Return the principal of a key, or raise `Unauthenticated`."""


class ControlRpc:
    """Serves `/rpc/`, and passes every other request on."""

    def __init__(
        self,
        app: AsgiApp,
        *,
        leases: Leases,
        worker_leases: WorkerLeases,
        workers: WorkerBeats,
        ports: RuntimePorts,
        keys: KeyAuthenticator,
        watcher: RunWatcher,
        require_key: bool = False,
    ) -> None:
        self._app = app
        self._leases = leases
        self._worker_leases = worker_leases
        self._workers = workers
        self._ports = ports
        self._keys = keys
        self._watcher = watcher
        self._require_key = require_key
        self._held: OrderedDict[tuple[str, ApiKeyId | None], Lease] = OrderedDict()
        """Leases whose token was checked; the journal itself refuses a lease that was lost since."""
        self._closing = False
        self._hint_streams: set[WakeEvent] = set()
        self._calls: OrderedDict[tuple[object, ...], _SharedCall] = OrderedDict()
        self._taking_back: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """End the streams of hints, because the server shuts down: their workers connect again."""
        self._closing = True
        for wake in self._hint_streams:
            wake.set()
        for task in self._taking_back:
            task.cancel()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request."""
        if scope["type"] != "http" or not scope["path"].startswith(RPC_PATH):
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            caller = await self._authorize(headers)
            if scope["path"] == f"{RPC_PATH}hints" and scope["method"] == "GET":
                await self._send_hints(headers, caller, receive, send)
                return
            if scope["method"] != "POST":
                raise NotFound("the RPC has no such route: methods are called with POST")
            body = await _read_body(receive)
            path = scope["path"].removeprefix(RPC_PATH)
            call = self._once(path, headers, body, caller)
            # A worker that gives up a tool call disconnects; any other call is finished.
            result = await (_until_disconnected(receive, call) if path.startswith("remote/") else call)
            await _respond(send, 200, msgspec.json.encode(result))
        except HoldfastError as error:
            await _respond_error(send, error)
        except Exception:  # noqa: BLE001 - around a request
            _log.exception("the call %s failed", scope["path"])
            await _respond_error(send, HoldfastError("an internal error occurred: the log of the server has it"))

    async def _authorize(self, headers: Mapping[str, str]) -> Principal:
        """Return the principal of a worker that may call."""
        version = headers.get(VERSION_HEADER.lower())
        if version != PROTOCOL_VERSION:
            raise Invalid(
                f"this server speaks version {PROTOCOL_VERSION} of the worker protocol, and the worker"
                f" {version or 'none'}: install the same version of Holdfast on both"
            )
        principal = LOCAL_PRINCIPAL
        if self._require_key or await self._keys.key_required():
            kind, _, token = headers.get("authorization", "").partition(" ")
            if kind.lower() != "bearer" or not token:
                raise Unauthenticated("a worker needs a key with the scope `worker`: `holdfast worker --token KEY`")
            principal = await self._keys.authenticate(token.strip())
        if not principal.scope.includes(Scope.WORKER):
            raise Forbidden(f"a worker needs a key with the scope `worker`: this one has `{principal.scope}`")
        return principal

    async def _once(self, path: str, headers: Mapping[str, str], body: bytes, caller: Principal) -> Any:
        """Make a call, or wait for the result of the same one, which something on the way has sent twice."""
        if (call_id := headers.get(CALL_HEADER.lower())) is None:
            return await self._call(path, headers, body, caller)
        name = (_key_of(caller), headers.get(LEASE_HEADER.lower()), path, call_id, sha256(body).digest())
        call = self._calls.get(name)
        if call is None:
            call = self._calls[name] = _SharedCall(self._call(path, headers, body, caller))
            while len(self._calls) > MAX_SHARED_CALLS and self._calls[next(iter(self._calls))].task.done():
                self._calls.popitem(last=False)
        return await call.result()

    async def _call(self, path: str, headers: Mapping[str, str], body: bytes, caller: Principal) -> Any:
        port, _, name = path.partition("/")
        token, key = headers.get(LEASE_HEADER.lower(), ""), _key_of(caller)
        if port == "leases":
            return await self._call_leases(name, token, body, caller)
        if (port, name) == ("journal", "commit"):
            return await self._commit(token, headers.get(COMMIT_HEADER.lower(), ""), body, key)
        method = METHODS.get((port, name))
        if method is None:
            raise NotFound(f"the RPC has no method `{path}`")
        # A journal refuses a lost lease itself; the other ports would not notice.
        lease = await (self._cached_lease(token, key) if port == "journal" else self._find(token, key))
        arguments = _decode(body, method.arguments)
        check_arguments(lease, port, name, arguments)
        named = {
            field: await self._of_own_agent(lease, getattr(arguments, field))
            for field in method.arguments.__struct_fields__
        }
        return await getattr(getattr(self._ports, port), name)(lease, **named)

    async def _of_own_agent(self, lease: Lease, argument: Any) -> Any:
        """Return a new run with the pool and version of its agent, not the worker's; any other argument as it is."""
        if not isinstance(argument, NewRun):
            return argument
        thread_agent = argument.thread.agent_type if isinstance(argument.thread, NewThread) else None
        type_ = argument.agent_type or thread_agent or lease.run.agent_type
        agents = {each.name: each for each in await self._ports.library.agents(lease)}
        agent = agents.get(type_.removeprefix(DISTILLER_PREFIX))
        version = None if agent is None else agent.version
        if is_distiller(type_):
            version = lease.run.agent_version
        return replace(
            argument,
            pool=DEFAULT_POOL if agent is None else agent.pool,
            agent_version=UNSET if version is None else version,
        )

    async def _call_leases(self, name: str, token: str, body: bytes, caller: Principal) -> Any:
        key = _key_of(caller)
        match name:
            case "claim":
                return await self._claim(_decode(body, ClaimBody), caller)
            case "check_pools":
                _check_pools(caller, _decode(body, PoolsBody).pools)
                return None
            case "renew":
                return await self._renew(_decode(body, RenewBody), key)
            case "release":
                delay = timedelta(seconds=_decode(body, ReleaseBody).delay_seconds)
                return await self._leases.release(await self._cached_lease(token, key), delay=delay)
            case "release_leftover":
                tokens = _decode(body, TokensBody).tokens
                known = [lease for each in tokens if (lease := await self._known_lease(each, key)) is not None]
                return await self._leases.release_leftover(known)  # it leaves out those that are not held any more
            case "fail":
                return await self._leases.fail(await self._find(token, key), _decode(body, FailBody).error)
            case "queue_state":
                return await self._leases.queue_state()
            case "beat":
                worker = _decode(body, NewWorker)
                _check_pools(caller, worker.pools)
                return await self._workers.beat(worker, api_key=key)
            case "leave":
                return await self._workers.leave(_decode(body, LeaveBody).owner, api_key=key)
            case _:
                raise NotFound(f"the RPC has no method `leases/{name}`")

    async def _claim(self, body: ClaimBody, caller: Principal) -> list[ClaimedLease]:
        """Claim runs of the pools and spaces of a key, and of no others."""
        key, where = _key_of(caller), ClaimFilter(pools=_check_pools(caller, body.pools), spaces=caller.space_ids)
        duration, secret = timedelta(seconds=body.lease_seconds), new_secret()
        binding = TokenBinding(lambda ref: hash_secret(make_lease_token(ref, secret)), key)
        leases = await self._worker_leases.claim(
            body.owner, lease=duration, limit=body.limit, where=where, binding=binding
        )
        tokens = [make_lease_token(lease_ref(lease), secret) for lease in leases]
        for lease, token in zip(leases, tokens, strict=True):
            self._remember(token, key, lease)
        return [
            await self._opened(lease, token) if index < MAX_OPENED else ClaimedLease(lease=lease, token=token)
            for index, (lease, token) in enumerate(zip(leases, tokens, strict=True))
        ]

    async def _opened(self, lease: Lease, token: str) -> ClaimedLease:
        """Return a claimed lease with what its worker reads first, which saves it two requests."""
        agent = None
        with suppress(HoldfastError):  # a worker that asks again gets the error, and handles it
            lease = replace(lease, snapshot=lease.snapshot or await self._ports.journal.open(lease))
            agent = await self._ports.library.agent(lease)
        return ClaimedLease(lease=lease, token=token, agent=agent)

    async def _renew(self, body: RenewBody, key: ApiKeyId | None) -> list[RenewedLease]:
        """Renew leases and return those that are still held."""
        known = [(each, lease) for each in body.tokens if (lease := await self._known_lease(each, key)) is not None]
        found = {(lease.run_key, lease.number): token for token, lease in known}
        leases = [lease for _, lease in known]
        renewed = await self._leases.renew(body.owner, leases, lease=timedelta(seconds=body.lease_seconds))
        return [
            RenewedLease(token=found[lease.run_key, lease.number], expires_at=lease.expires_at) for lease in renewed
        ]

    async def _commit(self, token: str, number: str, body: bytes, key: ApiKeyId | None) -> Committed:
        if not (number.isascii() and number.isdigit()) or len(number) > 18:
            raise Invalid(f"the header `{COMMIT_HEADER}` needs the number of the commit")
        numbered = CommitNumber(number=int(number), digest=sha256(body).digest())
        decoded = _decode(body, CommitBody)
        parts = {field: getattr(decoded, field) for field in CommitBody.__struct_fields__}
        try:
            lease = await self._cached_lease(token, key)
            await check_commit_parts(lease, parts, self._ports)
            for field in ("children", "follow_ups"):
                parts[field] = [await self._of_own_agent(lease, new) for new in parts[field]]
            return await self._ports.journal.commit(Commit(lease=lease, number=numbered, **parts))
        except (LeaseLost, Invalid):
            # The commit may have ended its own lease, or consumed what it names, and only its result was lost.
            result = await self._worker_leases.repeated(
                parse_lease_token(token), numbered, token_hash=hash_secret(token), api_key=key
            )
            if result is None:
                raise
            return result

    async def _cached_lease(self, token: str, key: ApiKeyId | None) -> Lease:
        """Return the lease of a token that was checked before; it may have been lost since."""
        lease = self._held.get((token, key))
        if lease is not None:
            self._held.move_to_end((token, key))
            return lease
        return await self._find(token, key)

    async def _find(self, token: str, key: ApiKeyId | None) -> Lease:
        """Return the lease of a token that is held now."""
        ref = parse_lease_token(token)
        lease = await self._worker_leases.find(ref, token_hash=hash_secret(token), api_key=key)
        self._remember(token, key, lease)
        return lease

    async def _known_lease(self, token: str, key: ApiKeyId | None) -> Lease | None:
        try:
            return await self._cached_lease(token, key)
        except LeaseLost:
            return None

    def _remember(self, token: str, key: ApiKeyId | None, lease: Lease) -> None:
        self._held[token, key] = replace(lease, snapshot=None)
        if len(self._held) > MAX_CACHED_LEASES:
            self._held.popitem(last=False)

    async def _send_hints(self, headers: Mapping[str, str], caller: Principal, receive: Any, send: Any) -> None:
        """Stream the hints that concern workers and name no run of another space, until the worker disconnects."""
        pending, wake = WakeHint(everything=True), WakeEvent()

        def on_hint(hint: WakeHint) -> None:
            nonlocal pending
            if hint.queue or hint.delayed or hint.ended or hint.everything:
                ended = frozenset(name for name in hint.ended if caller.can_access(name[0]))
                pending |= replace(hint, runs=frozenset(), grown=(), ended=ended)
                wake.set()

        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/jsonl")]})
        gone = start_background(_disconnected(receive), name="holdfast-worker-gone", ended_by="ControlRpc._send_hints")
        gone.add_done_callback(lambda _: wake.set())
        self._hint_streams.add(wake)
        try:
            with self._watcher.listen(on_hint):
                while not (gone.done() or self._closing):
                    hint, pending = pending, WakeHint()
                    line = HintLine(
                        queue=hint.queue, delayed=hint.delayed, ended=sorted(hint.ended), everything=hint.everything
                    )
                    body = msgspec.json.encode(line) + b"\n"
                    await send({"type": "http.response.body", "body": body, "more_body": True})
                    await wake.wait(seconds=HINT_KEEPALIVE_SECONDS)
                    with suppress(Unavailable):
                        await self._authorize(headers)  # the key may have been revoked
            await send({"type": "http.response.body", "body": b""})
        except HoldfastError:
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._hint_streams.discard(wake)
            await cancel_and_wait([gone])
            if (worker := headers.get(WORKER_HEADER.lower())) and not self._closing:
                taking = self._take_back(OwnerId(worker), _key_of(caller))
                task = start_background(taking, name="holdfast-take-back", ended_by="ControlRpc.close")
                self._taking_back.add(task)
                task.add_done_callback(self._taking_back.discard)

    async def _take_back(self, worker: OwnerId, key: ApiKeyId | None) -> None:
        """Take back the runs of a worker whose hint stream has ended, unless it renews its leases soon.

        It does so at once when it has connected again, to any process.
        """
        try:
            held = await self._worker_leases.held_by(worker, api_key=key)
            if not held:
                return
            await asyncio.sleep(RECONNECT_GRACE_SECONDS)
            runs = await self._worker_leases.take_back(worker, held, api_key=key)
        except HoldfastError as error:
            _log.warning("the runs of worker %s wait until their leases expire: %s", worker, error)
            return
        if runs:
            _log.warning("worker %s has disconnected: others continue its runs: %s", worker, ", ".join(runs))


def _key_of(caller: Principal) -> ApiKeyId | None:
    return None if caller.name is None else ApiKeyId(caller.name)


def _check_pools(caller: Principal, pools: Sequence[str]) -> tuple[str, ...]:
    """Return pools that a worker may claim from, or raise `Forbidden`."""
    names = check_pools(pools)
    if not names:
        raise Invalid("a worker claims from at least one pool", field="pools")
    foreign = [name for name in names if caller.pools is not None and name not in caller.pools]
    if foreign:
        raise Forbidden(
            f"this key may not claim from the pool `{foreign[0]}`: it is bound to {', '.join(caller.pools or ())}"
        )
    return names


class _SharedCall:
    """A call that several requests wait for. It is cancelled when none does any more."""

    def __init__(self, call: Coroutine[Any, Any, Any]) -> None:
        self.task = start_background(call, name="holdfast-shared-call", ended_by="_SharedCall.result")
        self._waiting = 0

    async def result(self) -> Any:
        """Return the result."""
        self._waiting += 1
        try:
            return await asyncio.shield(self.task)
        finally:
            self._waiting -= 1
            if not self._waiting and not self.task.done():
                await cancel_and_wait([self.task])


async def _disconnected(receive: Any) -> None:
    """Wait until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _until_disconnected(receive: Any, call: Coroutine[Any, Any, T]) -> T:
    """Return the result of a call, which is cancelled if its client disconnects first."""
    gone = start_background(_disconnected(receive), name="holdfast-worker-gone", ended_by="_until_disconnected")
    calling = start_background(call, name="holdfast-worker-call", ended_by="_until_disconnected")
    try:
        await asyncio.wait([gone, calling], return_when=asyncio.FIRST_COMPLETED)
        if calling.done():
            return calling.result()
        raise Unavailable("the worker disconnected")
    finally:
        await cancel_and_wait([gone, calling])


async def _read_body(receive: Any) -> bytes:
    chunks, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Invalid("the body is incomplete: the client disconnected")
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > MAX_BODY_BYTES:
            raise TooLarge(f"the body may have at most {MAX_BODY_BYTES} bytes")
        more = message.get("more_body", False)
    return b"".join(chunks)


def _decode(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.DecodeError as exc:
        raise Invalid(f"the body is not valid: {describe_error(str(exc), kind)}") from exc


async def _respond_error(send: Any, error: HoldfastError) -> None:
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    body = ErrorBody(code=error.code, message=error.message, details=error.details)
    await _respond(send, status, msgspec.json.encode(body, enc_hook=str))


async def _respond(send: Any, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
