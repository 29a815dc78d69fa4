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
from holdfast.tools.arguments import check_arguments, check_parameters


class MethodNotOffered(NotFound):
    """No client that is connected offers the method."""

    code = "METHOD_NOT_OFFERED"


class CallNotOpen(NotFound):
    """The call was answered, cancelled or given up, or it was never sent to this client."""

    code = "CALL_NOT_OPEN"


class ClientGone(Unavailable):
    """The client that offers the method went away."""

    code = "CLIENT_GONE"


class ClientBusy(Unavailable):
    """The client has as many open calls as it may."""

    code = "CLIENT_BUSY"


class MethodTimedOut(Unavailable):
    """The client did not answer in time."""

    code = "METHOD_TIMED_OUT"


class BadMethodResult(Unavailable):
    """The client answered with something that is no answer."""

    code = "BAD_ANSWER"


METHOD_CALL_ERRORS = (MethodNotOffered, ClientGone, ClientBusy, MethodTimedOut, BadMethodResult)
"""What a model may read instead of an answer."""

DEFAULT_TIMEOUT_SECONDS: Final = 60.0
MAX_TIMEOUT_SECONDS: Final = 3_600
MAX_METHODS: Final = 128
MAX_PARAMETERS_BYTES: Final = 64 * 1024
"""Bytes of a JSON Schema."""
WORKER_TIMEOUT_MARGIN_SECONDS: Final = 60.0
"""Seconds by which a worker waits longer than the control plane, which knows better what a late answer means."""


class RemoteMethod(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client offers."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,56}\Z")]
    description: Annotated[str, Meta(min_length=1, max_length=2_000)]
    """What the model is told that it does, and when to use it."""
    parameters: dict[str, Json] = msgspec.field(default_factory=lambda: {"type": "object"})
    """A JSON Schema of an object: what it takes."""
    class_: Literal["idempotent", "effectful"] = msgspec.field(name="class", default="effectful")
    """What it means that a call was cut off: it may be made again under the same key, or nobody knows what it did."""
    read_only: bool = False
    """It changes nothing anywhere: calls run side by side, and again after a crash."""
    timeout_seconds: Annotated[float, Meta(gt=0, le=MAX_TIMEOUT_SECONDS)] = DEFAULT_TIMEOUT_SECONDS
    """How long a call may take."""

    @property
    def tool(self) -> str:
        """The name that agents and rules know it by."""
        return REMOTE_METHOD_PREFIX + self.name


def method_spec(method: RemoteMethod) -> ToolSpec:
    """Return the tool that a method is."""
    return ToolSpec(
        name=method.tool,
        description=method.description,
        parameters=method.parameters,
        kind=ToolClass.IDEMPOTENT if method.read_only else ToolClass(method.class_),
        read_only=method.read_only,
        timeout=method.timeout_seconds + WORKER_TIMEOUT_MARGIN_SECONDS,
    )


def check_methods(methods: Sequence[RemoteMethod]) -> None:
    """Raise `Invalid` unless a client may offer these together."""
    if len(methods) > MAX_METHODS:
        raise TooLarge(f"a client may offer at most {MAX_METHODS} methods", field="methods", limit=MAX_METHODS)
    names: set[str] = set()
    for method in methods:
        if method.name in names:
            raise Invalid(f"two methods are called `{method.name}`: rename one", field="methods")
        names.add(method.name)
        _check_method_parameters(method)


def _check_method_parameters(method: RemoteMethod) -> None:
    if len(msgspec.json.encode(method.parameters)) > MAX_PARAMETERS_BYTES:
        what = f"the parameters of `{method.name}` may have at most {MAX_PARAMETERS_BYTES} bytes"
        raise TooLarge(what, field="methods", limit=MAX_PARAMETERS_BYTES)
    try:
        check_parameters(check_tool_spec(method_spec(method)))
    except Invalid as exc:
        raise Invalid(exc.message, field="methods") from exc


class OfferedMethod(msgspec.Struct, frozen=True, kw_only=True):
    """A method that a client offers, and whether calls of it go to that client: of several, they go to the newest."""

    name: str
    tool: str
    active: bool


class MethodsOfferedFrame(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="offered", omit_defaults=True
):
    """What a client offers now: the answer to an offer, and told again when another client changes it."""

    id: str | None = None
    """That of the offer which it answers."""
    methods: Sequence[OfferedMethod]


class MethodCallFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="call"):
    """An agent calls a method."""

    call_id: str
    """To answer with; another one each time that the call is made."""
    key: str
    """The same however often the call is made: an idempotency key."""
    method: str
    arguments: dict[str, Json]
    timeout_seconds: float
    agent: str
    task_id: str
    session_id: ThreadId


class CallCancelledFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="cancel"):
    """Nobody waits for the answer any more."""

    call_id: str


MethodFrame: TypeAlias = MethodsOfferedFrame | MethodCallFrame | CallCancelledFrame

MAX_OPEN_CALLS: Final = 64
"""Calls of one client that may be open at once."""


class _OpenCall:
    """A call that nobody has answered."""

    def __init__(self, method: RemoteMethod) -> None:
        self.method = method
        self.sent = False
        self.answer: asyncio.Future[ToolReply] = asyncio.get_running_loop().create_future()

    def lost(self, error: HoldfastError) -> ToolReply:
        """Return what the model reads in place of an answer; of what was sent nobody knows whether it happened."""
        unknown = self.sent and method_spec(self.method).kind is ToolClass.EFFECTFUL
        so = ": nobody knows whether it took effect, so verify before you call it again" if unknown else ""
        return ToolReply(content=f"{error.code}: {error.message}{so}", failed=True, unknown=unknown)


class MethodClient:
    """A client of a space, while it is connected."""

    def __init__(self, space: SpaceId, *, send: Callable[[MethodFrame], None]) -> None:
        """Connect a client; `tell` has something sent to it, and does not wait for that."""
        self.space = space
        self.send = send
        self.methods: Mapping[str, RemoteMethod] = {}
        """By the names of the tools that they are."""
        self._open: dict[str, _OpenCall] = {}

    async def call(self, lease: Lease, tool: str, arguments: dict[str, Json], *, key: str) -> ToolReply:
        """Have a method called, and wait for the answer."""
        method = self.methods[tool]
        try:
            check_arguments(method_spec(method), arguments)
        except Invalid as error:
            return _error_reply(error)
        if len(self._open) >= MAX_OPEN_CALLS:
            return _error_reply(
                ClientBusy(f"the client of `{tool}` has {MAX_OPEN_CALLS} open calls: call it again later")
            )
        call_id, call = f"call_{secrets.token_hex(8)}", _OpenCall(method)
        self._open[call_id] = call
        self.send(_call_frame(call_id, method, lease, arguments, key=key))
        try:
            return await _wait_for_reply(call)
        finally:
            if self._open.pop(call_id, None) is not None and call.sent:
                self.send(CallCancelledFrame(call_id=call_id))

    def mark_sent(self, call_id: str) -> bool:
        """Note that a call is about to be sent, and say whether it still should be."""
        call = self._open.get(call_id)
        if call is not None:
            call.sent = True
        return call is not None

    def resolve(self, call_id: str, reply: ToolReply) -> None:
        """Take the answer of a call; the first one counts."""
        call = self._open.pop(call_id, None)
        if call is None:
            name = call_id[:64]
            raise CallNotOpen(f"the call `{name}` is not open: nobody waits for this answer", call_id=name)
        call.answer.set_result(reply)

    def reject_result(self, call_id: str, why: str) -> None:
        """Take what is no answer for the end of a call, if it is open."""
        call = self._open.pop(call_id, None)
        if call is not None:
            call.answer.set_result(call.lost(BadMethodResult(f"the client answered with what is no answer: {why}")))

    def disconnect(self) -> None:
        """Settle what is open: nobody will answer."""
        left, self._open = self._open, {}
        for call in left.values():
            call.answer.set_result(call.lost(ClientGone(f"the client that offers `{call.method.tool}` went away")))


async def _wait_for_reply(call: _OpenCall) -> ToolReply:
    seconds = call.method.timeout_seconds
    await asyncio.wait([call.answer], timeout=seconds)
    if call.answer.done():
        return call.answer.result()
    return call.lost(MethodTimedOut(f"`{call.method.tool}` was not answered within {seconds:g} seconds"))


def _error_reply(error: HoldfastError) -> ToolReply:
    return ToolReply(content=f"{error.code}: {error.message}", failed=True)


def _call_frame(
    call_id: str, method: RemoteMethod, lease: Lease, arguments: dict[str, Json], *, key: str
) -> MethodCallFrame:
    return MethodCallFrame(
        call_id=call_id,
        key=key,
        method=method.name,
        arguments=arguments,
        timeout_seconds=method.timeout_seconds,
        agent=lease.run.agent_type,
        task_id=task_id_of(lease.run_id),
        session_id=lease.thread_id,
    )


RECONNECT_WAIT_SECONDS: Final = 30.0
"""Seconds that a call waits for a client to come back: after a restart runs go on before anybody is connected."""


class RemoteMethods:
    """`RemoteTools` of the clients that are connected. Where several offer one method, the newest offer counts."""

    def __init__(self, journal: Journal, *, reconnect_wait: float = RECONNECT_WAIT_SECONDS) -> None:
        self._journal = journal
        self._patience = reconnect_wait
        self._clients: dict[MethodClient, None] = {}
        """In the order of their newest offers."""
        self._changed = asyncio.Event()

    @contextmanager
    def connected(self, space: SpaceId, *, send: Callable[[MethodFrame], None]) -> Iterator[MethodClient]:
        """Have a client while the block runs."""
        client = MethodClient(space, send=send)
        try:
            yield client
        finally:
            self._clients.pop(client, None)
            client.disconnect()
            self._tell_others(client, client.methods)

    def offer(self, client: MethodClient, methods: Sequence[RemoteMethod], *, id: str | None = None) -> None:
        """Let a client offer these methods, and no others that it offered before."""
        check_methods(methods)
        touched = {*client.methods, *(method.tool for method in methods)}
        client.methods = {method.tool: method for method in methods}
        self._clients.pop(client, None)
        if methods:
            self._clients[client] = None
        client.send(self._offered(client, id=id))
        self._tell_others(client, touched)
        self._changed.set()
        self._changed = asyncio.Event()

    async def list(self, lease: Lease) -> list[ToolSpec]:
        """Return the methods that clients of the run's space offer."""
        found: dict[str, RemoteMethod] = {}
        for client in self._clients:
            if client.space == lease.space_id:
                found |= client.methods
        return [method_spec(method) for _, method in sorted(found.items())]

    async def call(self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str) -> ToolReply:
        """Have the client that offers a method do it; one that is away may come back for a moment."""
        await self._journal.inbox(lease)  # refused if the lease is lost: nothing is done in its name any more
        client = await self._coming(lease.space_id, name)
        return await client.call(lease, name, arguments, key=key)

    async def resume(
        self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str, interrupt: ToolInterrupt, response: Json
    ) -> ToolReply:
        """Refuse: no method asks anybody but its own client."""
        raise NotFound(f"the method `{name}` has not asked anything", name=name)

    async def trust(self, lease: Lease, name: str, digest: str) -> None:
        """Refuse: what a client offers is trusted as it is offered."""
        raise NotFound(f"the method `{name}` has not changed", name=name)

    async def _coming(self, space: SpaceId, tool: str) -> MethodClient:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                while (client := self._newest(space, tool)) is None:
                    await self._changed.wait()
                return client
        raise MethodNotOffered(f"no client that is connected offers `{tool}`: try again later", name=tool)

    def _newest(self, space: SpaceId, tool: str) -> MethodClient | None:
        offering = (each for each in reversed(self._clients) if each.space == space and tool in each.methods)
        return next(offering, None)

    def _tell_others(self, client: MethodClient, tools: Iterable[str]) -> None:
        """Tell clients that offer one of these tools too, because calls go elsewhere now."""
        for other in [each for each in self._clients if each is not client and each.space == client.space]:
            if not other.methods.keys().isdisjoint(tools):
                other.send(self._offered(other))

    def _offered(self, client: MethodClient, *, id: str | None = None) -> MethodsOfferedFrame:
        return MethodsOfferedFrame(id=id, methods=[self._as_offered(client, tool) for tool in client.methods])

    def _as_offered(self, client: MethodClient, tool: str) -> OfferedMethod:
        active = self._newest(client.space, tool) is client
        return OfferedMethod(name=client.methods[tool].name, tool=tool, active=active)
