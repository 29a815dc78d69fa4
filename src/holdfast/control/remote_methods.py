"""Remote methods: tools that connected clients offer and agents call.

    client ── offer ──► RemoteMethods ◄── list, call ── worker
       ▲                     │
       └──── call, cancel ───┘      the first result counts, and only while the call is open

A method `deploy` is the tool `remote__deploy`. Nothing is stored: a client that reconnects offers its methods again.

HoldfastError (domain)
├── NotFound
│   ├── MethodNotOffered   no connected client offers it
│   └── CallNotOpen        it was answered, cancelled or timed out, or belongs to another client
└── Unavailable
    ├── ClientGone         the client disconnected during a call
    ├── ClientBusy         the client has the maximum number of open calls
    ├── MethodTimedOut     the client did not respond in time
    └── BadMethodResult    the client sent an invalid result
"""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError, Invalid, NotFound, TooLarge, Unavailable
from holdfast.domain.ids import SpaceId, ThreadId
from holdfast.domain.task_ids import task_id_of
from holdfast.domain.tool import REMOTE_METHOD_PREFIX, ToolClass, ToolInterrupt, ToolReply, ToolSpec, check_tool_spec
from holdfast.ports.log import Journal
from holdfast.ports.runtime import ToolListing
from holdfast.tools.arguments import check_arguments, check_parameters


class MethodNotOffered(NotFound):
    """No connected client offers the method."""

    code = "METHOD_NOT_OFFERED"


class CallNotOpen(NotFound):
    """The call was answered, cancelled or timed out, or was never sent to this client."""

    code = "CALL_NOT_OPEN"


class ClientGone(Unavailable):
    """The client that offers the method disconnected."""

    code = "CLIENT_GONE"


class ClientBusy(Unavailable):
    """The client has the maximum number of open calls."""

    code = "CLIENT_BUSY"


class MethodTimedOut(Unavailable):
    """The client did not respond in time."""

    code = "METHOD_TIMED_OUT"


class BadMethodResult(Unavailable):
    """The client sent an invalid result."""

    code = "BAD_ANSWER"


METHOD_CALL_ERRORS = (MethodNotOffered, ClientGone, ClientBusy, MethodTimedOut, BadMethodResult)
"""Errors that a model may read in place of a result."""

DEFAULT_TIMEOUT_SECONDS: Final = 60.0
MAX_TIMEOUT_SECONDS: Final = 3_600
MAX_METHODS: Final = 128
MAX_PARAMETERS_BYTES: Final = 64 * 1024
"""Bytes of the JSON Schema of a method's parameters."""
MAX_OPEN_CALLS: Final = 64
"""Open calls per client."""
WORKER_TIMEOUT_MARGIN_SECONDS: Final = 60.0
"""Seconds by which a worker's timeout exceeds that of the control plane, which can tell why a result is late."""
RECONNECT_WAIT_SECONDS: Final = 30.0
"""Seconds that a call waits for a client to reconnect: after a restart, runs resume before clients are back."""


class RemoteMethod(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A method that a client offers."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,56}\Z")]
    description: Annotated[str, Meta(min_length=1, max_length=2_000)]
    """Tells the model what the method does and when to use it."""
    parameters: dict[str, Json] = msgspec.field(default_factory=lambda: {"type": "object"})
    """JSON Schema of the arguments object."""
    class_: Literal["idempotent", "effectful"] = msgspec.field(name="class", default="effectful")
    """After an interrupted call: `idempotent` is called again under the same key, `effectful` settles as unknown."""
    read_only: bool = False
    """The method changes nothing: calls may run in parallel, and again after a crash."""
    timeout_seconds: Annotated[float, Meta(gt=0, le=MAX_TIMEOUT_SECONDS)] = DEFAULT_TIMEOUT_SECONDS
    """Timeout of a call."""

    @property
    def tool(self) -> str:
        """The tool name for agents and permission rules."""
        return REMOTE_METHOD_PREFIX + self.name


def method_spec(method: RemoteMethod) -> ToolSpec:
    """Return the tool spec of a method."""
    return ToolSpec(
        name=method.tool,
        description=method.description,
        parameters=method.parameters,
        kind=ToolClass.IDEMPOTENT if method.read_only else ToolClass(method.class_),
        read_only=method.read_only,
        timeout=method.timeout_seconds + WORKER_TIMEOUT_MARGIN_SECONDS,
    )


async def check_methods(methods: Sequence[RemoteMethod]) -> None:
    """Raise `Invalid` unless a client may offer these methods together."""
    if len(methods) > MAX_METHODS:
        raise TooLarge(f"a client may offer at most {MAX_METHODS} methods", field="methods", limit=MAX_METHODS)
    names: set[str] = set()
    for method in methods:
        if method.name in names:
            raise Invalid(f"two methods are called `{method.name}`: rename one", field="methods")
        names.add(method.name)
        if len(msgspec.json.encode(method.parameters)) > MAX_PARAMETERS_BYTES:
            message = f"the parameters of `{method.name}` may have at most {MAX_PARAMETERS_BYTES} bytes"
            raise TooLarge(message, field="methods", limit=MAX_PARAMETERS_BYTES)
        try:
            check_parameters(check_tool_spec(method_spec(method)))
        except Invalid as exc:
            raise Invalid(exc.message, field="methods") from exc
        await asyncio.sleep(0)  # a schema may take milliseconds to compile


class OfferedMethod(msgspec.Struct, frozen=True, kw_only=True):
    """An offered method; `active` if calls go to this client, which they do for the newest offer."""

    name: str
    tool: str
    active: bool


class MethodsOfferedFrame(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="offered", omit_defaults=True
):
    """The methods that a client offers: sent in response to an offer, and when another client's offer changes them."""

    id: str | None = None
    """The id of the offer."""
    methods: Sequence[OfferedMethod]


class MethodCallFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="call"):
    """An agent calls a method."""

    call_id: str
    """Identifies the call in the result; a repeated call has a new one."""
    key: str
    """Idempotency key: the same each time the call is repeated."""
    method: str
    arguments: dict[str, Json]
    timeout_seconds: float
    agent: str
    task_id: str
    session_id: ThreadId


class CallCancelledFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="cancel"):
    """The result of a call is no longer needed."""

    call_id: str


MethodFrame: TypeAlias = MethodsOfferedFrame | MethodCallFrame | CallCancelledFrame


class _OpenCall:
    """A call that waits for its result."""

    def __init__(self, method: RemoteMethod) -> None:
        self.method = method
        self.sent = False
        self.reply: asyncio.Future[ToolReply] = asyncio.get_running_loop().create_future()

    def error_reply(self, error: HoldfastError) -> ToolReply:
        """Return the reply of a call without a result; the outcome of a sent, effectful call is unknown."""
        unknown = self.sent and method_spec(self.method).kind is ToolClass.EFFECTFUL
        note = ": it is not known whether it took effect, so verify before you call it again" if unknown else ""
        return ToolReply(content=f"{error.code}: {error.message}{note}", failed=True, unknown=unknown)


class MethodClient:
    """A connected client of a space."""

    def __init__(self, space: SpaceId, *, send: Callable[[MethodFrame], None]) -> None:
        """Connect a client; `send` must queue a frame without blocking."""
        self.space = space
        self.send = send
        self.methods: Mapping[str, RemoteMethod] = {}
        """By tool name."""
        self._open: dict[str, _OpenCall] = {}

    async def call(self, lease: Lease, tool: str, arguments: dict[str, Json], *, key: str) -> ToolReply:
        """Send a call to the client and wait for its result."""
        method = self.methods[tool]
        call_id, call = f"call_{secrets.token_hex(8)}", _OpenCall(method)
        try:
            await check_arguments(method_spec(method), arguments)
        except Invalid as error:
            return call.error_reply(error)
        if len(self._open) >= MAX_OPEN_CALLS:
            return call.error_reply(
                ClientBusy(f"the client of `{tool}` has {MAX_OPEN_CALLS} open calls: call it again later")
            )
        self._open[call_id] = call
        self.send(
            MethodCallFrame(
                call_id=call_id,
                key=key,
                method=method.name,
                arguments=arguments,
                timeout_seconds=method.timeout_seconds,
                agent=lease.run.agent_type,
                task_id=task_id_of(lease.run_id),
                session_id=lease.thread_id,
            )
        )
        try:
            await asyncio.wait([call.reply], timeout=method.timeout_seconds)
            if call.reply.done():
                return call.reply.result()
            timed_out = MethodTimedOut(f"`{tool}` did not respond within {method.timeout_seconds:g} seconds")
            return call.error_reply(timed_out)
        finally:
            if self._open.pop(call_id, None) is not None and call.sent:
                self.send(CallCancelledFrame(call_id=call_id))

    def mark_sent(self, call_id: str) -> bool:
        """Record that a call is about to be sent; return whether it is still open."""
        call = self._open.get(call_id)
        if call is not None:
            call.sent = True
        return call is not None

    def resolve(self, call_id: str, reply: ToolReply) -> None:
        """Settle a call with its result; only the first result counts."""
        call = self._open.pop(call_id, None)
        if call is None:
            name = call_id[:64]
            raise CallNotOpen(f"the call `{name}` is not open: its result is no longer needed", call_id=name)
        call.reply.set_result(reply)

    def reject_result(self, call_id: str, why: str) -> None:
        """Settle an open call as failed because its result is invalid."""
        call = self._open.pop(call_id, None)
        if call is not None:
            call.reply.set_result(call.error_reply(BadMethodResult(f"the client sent an invalid result: {why}")))

    def disconnect(self) -> None:
        """Settle all open calls as failed."""
        calls, self._open = self._open, {}
        for call in calls.values():
            gone = ClientGone(f"the client that offers `{call.method.tool}` disconnected")
            call.reply.set_result(call.error_reply(gone))


class RemoteMethods:
    """`RemoteTools` of the connected clients. Of several offers of one method, the newest counts."""

    def __init__(self, journal: Journal, *, reconnect_wait: float = RECONNECT_WAIT_SECONDS) -> None:
        self._journal = journal
        self._reconnect_wait = reconnect_wait
        self._clients: dict[MethodClient, None] = {}
        """In the order of their newest offers."""
        self._changed = asyncio.Event()

    @contextmanager
    def connected(self, space: SpaceId, *, send: Callable[[MethodFrame], None]) -> Iterator[MethodClient]:
        """Register a client while the block runs."""
        client = MethodClient(space, send=send)
        try:
            yield client
        finally:
            self._clients.pop(client, None)
            client.disconnect()
            self._notify_others(client, client.methods)

    async def offer(self, client: MethodClient, methods: Sequence[RemoteMethod], *, id: str | None = None) -> None:
        """Replace the methods that a client offers."""
        await check_methods(methods)
        changed_tools = {*client.methods, *(method.tool for method in methods)}
        client.methods = {method.tool: method for method in methods}
        self._clients.pop(client, None)
        if methods:
            self._clients[client] = None
        client.send(self._offered_frame(client, id=id))
        self._notify_others(client, changed_tools)
        self._changed.set()
        self._changed = asyncio.Event()

    async def list(self, lease: Lease) -> ToolListing:
        """Return the methods offered in the run's space."""
        return ToolListing(tools=self.of_space(lease.space_id))

    def of_space(self, space: SpaceId) -> Sequence[ToolSpec]:
        """Return the methods that clients offer in a space."""
        found: dict[str, RemoteMethod] = {}
        for client in self._clients:
            if client.space == space:
                found |= client.methods
        return [method_spec(method) for _, method in sorted(found.items())]

    async def call(self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str) -> ToolReply:
        """Call a method; while no client offers it, wait a moment for one to reconnect."""
        await self._journal.inbox(lease)  # raises `LeaseLost`
        client = self._newest(lease.space_id, name)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._reconnect_wait):
                while client is None:
                    await self._changed.wait()
                    client = self._newest(lease.space_id, name)

        if client is None:
            raise MethodNotOffered(f"no connected client offers `{name}`: try again later", name=name)
        return await client.call(lease, name, arguments, key=key)

    async def resume(
        self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str, interrupt: ToolInterrupt, response: Json
    ) -> ToolReply:
        """Raise `NotFound`: methods never interrupt a call."""
        raise NotFound(f"the method `{name}` has no open interrupt", name=name)

    async def trust(self, lease: Lease, name: str, digest: str) -> None:
        """Raise `NotFound`: methods are trusted as they are offered."""
        raise NotFound(f"the method `{name}` has not changed", name=name)

    def _newest(self, space: SpaceId, tool: str) -> MethodClient | None:
        clients = (each for each in reversed(self._clients) if each.space == space and tool in each.methods)
        return next(clients, None)

    def _notify_others(self, client: MethodClient, tools: Iterable[str]) -> None:
        """Send the current offer to other clients that offer one of `tools`: their `active` may have changed."""
        for other in [each for each in self._clients if each is not client and each.space == client.space]:
            if not other.methods.keys().isdisjoint(tools):
                other.send(self._offered_frame(other))

    def _offered_frame(self, client: MethodClient, *, id: str | None = None) -> MethodsOfferedFrame:
        methods = [
            OfferedMethod(name=method.name, tool=tool, active=self._newest(client.space, tool) is client)
            for tool, method in client.methods.items()
        ]
        return MethodsOfferedFrame(id=id, methods=methods)
