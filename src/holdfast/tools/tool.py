"""The tool interface: what a tool receives, what it returns, and how middleware wraps it.

    run ──► ToolResult ─────────────────────────────► settled with its effects, in one commit
      └───► ToolResult with a `wait` ··· ResumeCause ──► resume ──► ToolResult

A tool never writes to the store. It returns the effects it wants (values, events, artifacts, children), and they are
applied in the commit that settles the call, or not at all. Ids of created objects derive from the key of the call, so
nothing is created twice.

Middleware sees every call before the tool runs and every result after it, also when the call was resumed after a
wait. A wrapped resumable tool stays resumable.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec

from holdfast.domain.agent import Agent
from holdfast.domain.artifact import NewArtifact
from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.events import ActivityEvent
from holdfast.domain.events.custom import HoldfastEvent
from holdfast.domain.ids import MessageId, RunId, TimerId, ToolCallId
from holdfast.domain.instant import Instant
from holdfast.domain.interrupt import NewInterrupt
from holdfast.domain.new_run import NewRun
from holdfast.domain.plan import Boundary
from holdfast.domain.run import Run, RunError, RunStatus
from holdfast.domain.tool import ToolSpec


def _discard_activity(event: ActivityEvent) -> None:
    pass


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool: who asks, where, and under which key."""

    id: ToolCallId
    key: str
    """The same however often the call is made: an idempotency key for whoever the tool talks to."""
    lease: Lease
    """In whose name whatever the tool asks for is asked."""
    agent: Agent
    message_id: MessageId
    """The assistant message that asked."""
    at: Boundary
    """Where in the conversation it asked."""
    now: Instant
    values: Mapping[str, Json]
    """The values of the run as they are now."""
    next_task_id: Callable[[], Awaitable[int]]
    """Take the next number of the thread for an item of its plan."""
    pending_children: int = 0
    """How many children there will be with the next commit, because of other calls."""
    emit_activity: Callable[[ActivityEvent], None] = _discard_activity
    """Show people how it goes while it goes on. What a transactional tool shows is seen when it settles."""

    @property
    def run(self) -> Run:
        """The run as it was claimed."""
        return self.lease.run


class InterruptWait(msgspec.Struct, frozen=True, kw_only=True):
    """The run waits for a person."""

    interrupt: NewInterrupt
    """With an id that derives from the call's key."""


class ChildWait(msgspec.Struct, frozen=True, kw_only=True):
    """The run waits for a child, which is among the outcome's `children` or was begun by the call."""

    run_id: RunId


class TaskWait(msgspec.Struct, frozen=True, kw_only=True):
    """The run waits for the end of a task, of which it is told under the call's key."""

    run_id: RunId


class TimerWait(msgspec.Struct, frozen=True, kw_only=True):
    """The run waits for a time."""

    timer_id: TimerId
    until: Instant


ToolWait: TypeAlias = InterruptWait | ChildWait | TaskWait | TimerWait


class InterruptResolved(msgspec.Struct, frozen=True, kw_only=True):
    """A person answered, or nobody did in time and this is the default outcome."""

    response: Json
    by: str | None = None
    expired: bool = False


class ChildEnded(msgspec.Struct, frozen=True, kw_only=True):
    """The child is over."""

    run_id: RunId
    status: RunStatus
    output: Json = None
    error: RunError | None = None
    taint: Sequence[str] = ()
    """What the child had read, if that was written by others."""


class TaskEnded(ChildEnded, frozen=True, kw_only=True):
    """The task is over that the run wanted to be told of."""


class TimerFired(msgspec.Struct, frozen=True, kw_only=True):
    """It is time."""


class Preempted(msgspec.Struct, frozen=True, kw_only=True):
    """Something else came that should not wait: the call is settled now, without what it waited for."""

    because: str = "a person said something"


ResumeCause: TypeAlias = InterruptResolved | ChildEnded | TaskEnded | TimerFired | Preempted


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool answers, and what is to be done in the commit that settles the call.

    Only a transactional tool may begin `children` or wait: with a `wait` the call stays open. Values, events and
    artifacts may come from any tool: they say what the call that settles has done or seen, in the same commit. A call
    that is cut off says nothing, until it is run again; that of an effectful tool is `unknown`, and never says more.
    """

    content: Json = None
    """What the model reads: text as it is, anything else as JSON."""
    failed: bool = False
    unknown: bool = False
    """Nobody knows whether it happened: only an effectful tool that has `failed` may say so."""
    untrusted: str | None = None
    """Whose words the content has, such as `web:example.com`, where others wrote them: the run is tainted then."""
    values: Mapping[str, Json] = {}
    """Values of the run that change, whole: `plan`, `todo`, `tools`."""
    revisions: Mapping[str, Callable[[Json], Json]] = {}
    """Values that change from whatever they are when the call settles: read-only calls run side by side."""
    artifacts: Sequence[NewArtifact] = ()
    events: Sequence[HoldfastEvent] = ()
    children: Sequence[NewRun] = ()
    wait: ToolWait | None = None


class Tool(Protocol):
    """Something that an agent can do."""

    @property
    def spec(self) -> ToolSpec:
        """What it promises."""

    async def run(self, call: ToolContext, arguments: dict[str, Json]) -> ToolResult:
        """Do it. The arguments fit the schema. An error that is a `HoldfastError` is a result for the model."""


@runtime_checkable
class ResumableTool(Protocol):
    """A tool whose calls may wait."""

    async def resume(self, call: ToolContext, arguments: dict[str, Json], cause: ResumeCause) -> ToolResult:
        """Return the outcome of a call that waited, now that something came."""


CallNext: TypeAlias = Callable[[], Awaitable[ToolResult]]
"""Goes on to the tool."""
ToolMiddleware: TypeAlias = Callable[[ToolSpec, ToolContext, dict[str, Json], CallNext], Awaitable[ToolResult]]


def wrap_tool(tool: Tool, middleware: ToolMiddleware) -> Tool:
    """Return `tool` with `around` done around each of its calls."""
    # Not `isinstance`, which takes longer for a protocol than all else here, and this is done for every run.
    resume: _Resume | None = getattr(tool, "resume", None)
    return _WrappedTool(tool, middleware) if resume is None else _WrappedResumableTool(tool, resume, middleware)


async def passthrough(spec: ToolSpec, call: ToolContext, arguments: dict[str, Json], call_next: CallNext) -> ToolResult:
    """Do nothing around a call."""
    return await call_next()


def compose(outer: ToolMiddleware, inner: ToolMiddleware) -> ToolMiddleware:
    """Return `inner` with `outer` done around it."""

    async def around(spec: ToolSpec, call: ToolContext, arguments: dict[str, Json], go: CallNext) -> ToolResult:
        return await outer(spec, call, arguments, lambda: inner(spec, call, arguments, go))

    return around


_Resume: TypeAlias = Callable[[ToolContext, dict[str, Json], ResumeCause], Awaitable[ToolResult]]


class _WrappedTool:
    def __init__(self, tool: Tool, middleware: ToolMiddleware) -> None:
        self.spec = tool.spec
        self._run = tool.run
        self._middleware = middleware

    async def run(self, call: ToolContext, arguments: dict[str, Json]) -> ToolResult:
        return await self._middleware(self.spec, call, arguments, lambda: self._run(call, arguments))


class _WrappedResumableTool(_WrappedTool):
    def __init__(self, tool: Tool, resume: _Resume, middleware: ToolMiddleware) -> None:
        super().__init__(tool, middleware)
        self._resume = resume

    async def resume(self, call: ToolContext, arguments: dict[str, Json], cause: ResumeCause) -> ToolResult:
        return await self._middleware(self.spec, call, arguments, lambda: self._resume(call, arguments, cause))


_ValueT = TypeVar("_ValueT", bound=msgspec.Struct)


def read_value(call: ToolContext, name: str, *, default: _ValueT) -> _ValueT:
    """Return the value as it is now, or `default` where the run has none."""
    value = call.values.get(name)
    if value is None:
        return default
    try:
        return msgspec.convert(value, type(default))
    except msgspec.ValidationError as exc:
        raise Invalid(f"the `{name}` of this run cannot be read: {exc}", value=name) from exc


def encode_value(value: msgspec.Struct) -> Json:
    """Return a value as it is kept."""
    return msgspec.json.decode(msgspec.json.encode(value))
