"""The tool interface: what a tool receives, what it returns, and how middleware wraps it.

    run ──► ToolResult ─────────────────────────────► settled with its effects, in one commit
      └───► ToolResult with a `wait` ··· ResumeCause ──► resume ──► ToolResult

A tool never writes to the store. It returns the effects it wants (values, events, artifacts, memories, children), and
they are applied in the commit that settles the call, or not at all. Ids of created objects derive from the key of the
call, so nothing is created twice.

Middleware sees every call before the tool runs and every result after it, including calls resumed after a wait. A
wrapped resumable tool stays resumable.
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
from holdfast.domain.ids import ArtifactId, MessageId, RunId, TimerId, ToolCallId
from holdfast.domain.instant import Instant
from holdfast.domain.interrupt import NewInterrupt
from holdfast.domain.memory import NewMemory
from holdfast.domain.new_run import NewRun
from holdfast.domain.plan import Boundary
from holdfast.domain.run import Run, RunError, RunStatus
from holdfast.domain.tool import ToolSpec
from holdfast.domain.working_folder import working_folder


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call: its run, its agent, its place in the conversation, and its idempotency key."""

    id: ToolCallId
    key: str
    """The idempotency key of the call: the same for every attempt."""
    lease: Lease
    """The lease of the run, which authorizes the requests of the tool."""
    agent: Agent
    message_id: MessageId
    """The assistant message with the call."""
    at: Boundary
    """The position of the call in the conversation."""
    now: Instant
    values: Mapping[str, Json]
    """The current values of the run."""
    next_task_id: Callable[[], Awaitable[int]]
    """Reserves the next plan item number of the thread."""
    tool_names: Callable[[], frozenset[str]] = frozenset
    """Returns the names of the tools that the agent may use."""
    skill_folders: Sequence[str] = ()
    """Folders of active skills, which commands may read."""
    pending_children: int = 0
    """Children that other calls add in the next commit."""
    pending_artifacts: Sequence[ArtifactId | None] = ()
    """Ids of the artifacts that other calls add in the next commit."""
    pending_memories: Sequence[NewMemory] = ()
    """Memories that other calls add in the next commit."""
    user_message_id: MessageId | None = None
    """The latest message of the user."""
    emit_activity: Callable[[ActivityEvent], None] = lambda event: None
    """Shows progress to people while the call runs; for a transactional tool, when it settles."""

    @property
    def run(self) -> Run:
        """The run as it was claimed."""
        return self.lease.run

    @property
    def working_folder(self) -> str:
        """The working folder of the run."""
        return working_folder(self.run, self.agent, self.values)


class InterruptWait(msgspec.Struct, frozen=True, kw_only=True):
    """The run waits for a person."""

    interrupt: NewInterrupt
    """Its id derives from the key of the call."""


class ChildWait(msgspec.Struct, frozen=True, kw_only=True):
    """The run waits for a child, which is in `children` of the result or was started by the call."""

    run_id: RunId


class TaskWait(msgspec.Struct, frozen=True, kw_only=True):
    """The run waits for a task, whose end is reported under the key of the call."""

    run_id: RunId


class TimerWait(msgspec.Struct, frozen=True, kw_only=True):
    """The run waits until a point in time."""

    timer_id: TimerId
    until: Instant


ToolWait: TypeAlias = InterruptWait | ChildWait | TaskWait | TimerWait


class InterruptResolved(msgspec.Struct, frozen=True, kw_only=True):
    """A person responded; if `expired`, nobody did in time and the response is the default."""

    response: Json
    by: str | None = None
    expired: bool = False
    message_id: MessageId | None = None
    """The id that a client gave the message of its result."""
    granted: Sequence[str] = ()
    """The rules that the response granted."""


class ChildEnded(msgspec.Struct, frozen=True, kw_only=True):
    """The child ended."""

    run_id: RunId
    status: RunStatus
    output: Json = None
    error: RunError | None = None
    taint: Sequence[str] = ()
    """The sources of untrusted text that the child had read."""


class TaskEnded(ChildEnded, frozen=True, kw_only=True):
    """A task that the run subscribed to ended."""


class TimerFired(msgspec.Struct, frozen=True, kw_only=True):
    """The timer fired."""


class Preempted(msgspec.Struct, frozen=True, kw_only=True):
    """Something more urgent arrived: the call settles now, before its wait is over."""

    because: str = "a person said something"


ResumeCause: TypeAlias = InterruptResolved | ChildEnded | TaskEnded | TimerFired | Preempted


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a call, and the effects to apply in the commit that settles it.

    Only a transactional tool may start `children` or wait; with a `wait` the call stays open. Any tool may return
    values, events and artifacts. An interrupted call has no result until it runs again; an interrupted call of an
    effectful tool settles as `unknown`.
    """

    content: Json = None
    """The result for the model: text as it is, anything else as JSON."""
    failed: bool = False
    unknown: bool = False
    """It is not known whether the effect happened: only for a `failed` call of an effectful tool."""
    untrusted: str | None = None
    """The source of the content if others wrote it, such as `web:example.com`; it taints the run."""
    taint: Sequence[str] = ()
    """Untrusted sources behind the content, beside `untrusted`: what a memory's author had read taints its reader."""
    values: Mapping[str, Json] = {}
    """New values of the run, each replaced as a whole: `plan`, `todo`, `tools`."""
    revisions: Mapping[str, Callable[[Json], Json]] = {}
    """Functions that compute a value from its current one when the call settles, since calls may run in parallel."""
    artifacts: Sequence[NewArtifact] = ()
    memories: Sequence[NewMemory] = ()
    events: Sequence[HoldfastEvent] = ()
    children: Sequence[NewRun] = ()
    wait: ToolWait | None = None


class Tool(Protocol):
    """A tool that an agent can call."""

    @property
    def spec(self) -> ToolSpec:
        """Its name, schema and promises."""

    async def run(self, call: ToolContext, arguments: dict[str, Json]) -> ToolResult:
        """Run a call. The arguments match the schema. A `HoldfastError` becomes a failed result for the model."""


@runtime_checkable
class ResumableTool(Protocol):
    """A tool whose calls may wait."""

    async def resume(self, call: ToolContext, arguments: dict[str, Json], cause: ResumeCause) -> ToolResult:
        """Continue a call after its wait."""


CallNext: TypeAlias = Callable[[], Awaitable[ToolResult]]
"""Calls the next middleware, or the tool itself."""
ToolMiddleware: TypeAlias = Callable[[ToolSpec, ToolContext, dict[str, Json], CallNext], Awaitable[ToolResult]]


def wrap_tool(tool: Tool, middleware: ToolMiddleware) -> Tool:
    """Return `tool` with `middleware` around each of its calls."""
    # `isinstance` with a protocol would be the slowest part of this function, which runs for every run.
    resume: _Resume | None = getattr(tool, "resume", None)
    return _WrappedTool(tool, middleware) if resume is None else _WrappedResumableTool(tool, resume, middleware)


async def passthrough(spec: ToolSpec, call: ToolContext, arguments: dict[str, Json], call_next: CallNext) -> ToolResult:
    """Middleware that does nothing."""
    return await call_next()


def compose(outer: ToolMiddleware, inner: ToolMiddleware) -> ToolMiddleware:
    """Return `outer` around `inner` as one middleware."""

    async def middleware(
        spec: ToolSpec, call: ToolContext, arguments: dict[str, Json], call_next: CallNext
    ) -> ToolResult:
        return await outer(spec, call, arguments, lambda: inner(spec, call, arguments, call_next))

    return middleware


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
    """Return the current value `name`, or `default` if the run has none."""
    value = call.values.get(name)
    if value is None:
        return default
    try:
        return msgspec.convert(value, type(default))
    except msgspec.ValidationError as exc:
        raise Invalid(f"the `{name}` of this run cannot be read: {exc}", value=name) from exc


def encode_value(value: msgspec.Struct) -> Json:
    """Return a value in its stored form."""
    return msgspec.json.decode(msgspec.json.encode(value))
