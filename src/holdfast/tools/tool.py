"""What a tool is to the loop that calls it.

    run ──► Outcome ─────────────────────────► settled with its effects, in one commit
      └───► Outcome with a `wait` ··· arrival ──► resume ──► Outcome

A tool never writes to the store. What it wants done there it returns, and it happens in the commit that settles the
call, or not at all. Ids of what it makes derive from the key of the call, so nothing is made twice.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec

from holdfast.domain.agent import Agent
from holdfast.domain.artifact import NewArtifact
from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.events.ag_ui import ActivityEvent
from holdfast.domain.events.custom import HoldfastEvent
from holdfast.domain.ids import MessageId, RunId, TimerId, ToolCallId
from holdfast.domain.instant import Instant
from holdfast.domain.interrupt import NewInterrupt
from holdfast.domain.new_run import NewRun
from holdfast.domain.plan import Boundary
from holdfast.domain.run import Run, RunError, RunStatus
from holdfast.domain.tool import ToolSpec


def _show_nobody(event: ActivityEvent) -> None:
    pass


class Call(msgspec.Struct, frozen=True, kw_only=True):
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
    unborn: int = 0
    """How many children there will be with the next commit, because of other calls."""
    show: Callable[[ActivityEvent], None] = _show_nobody
    """Show people how it goes while it goes on. What a transactional tool shows is seen when it settles."""

    @property
    def run(self) -> Run:
        """The run as it was claimed."""
        return self.lease.run


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The run waits for a person."""

    interrupt: NewInterrupt
    """With an id that derives from the call's key."""


class Spawned(msgspec.Struct, frozen=True, kw_only=True):
    """The run waits for a child, which is among the outcome's `children` or was begun by the call."""

    run_id: RunId


class Subscribed(msgspec.Struct, frozen=True, kw_only=True):
    """The run waits for the end of a task, of which it is told under the call's key."""

    run_id: RunId


class Slept(msgspec.Struct, frozen=True, kw_only=True):
    """The run waits for a time."""

    timer_id: TimerId
    until: Instant


Wait: TypeAlias = Asked | Spawned | Subscribed | Slept


class Answered(msgspec.Struct, frozen=True, kw_only=True):
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


class TimeCame(msgspec.Struct, frozen=True, kw_only=True):
    """It is time."""


class Disturbed(msgspec.Struct, frozen=True, kw_only=True):
    """Something else came that should not wait: the call is settled now, without what it waited for."""

    because: str = "a person said something"


Arrival: TypeAlias = Answered | ChildEnded | TaskEnded | TimeCame | Disturbed


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
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
    wait: Wait | None = None


class Tool(Protocol):
    """Something that an agent can do."""

    @property
    def spec(self) -> ToolSpec:
        """What it promises."""

    async def run(self, call: Call, arguments: dict[str, Json]) -> Outcome:
        """Do it. The arguments fit the schema. An error that is a `HoldfastError` is a result for the model."""


@runtime_checkable
class Resumable(Protocol):
    """A tool whose calls may wait."""

    async def resume(self, call: Call, arguments: dict[str, Json], arrival: Arrival) -> Outcome:
        """Return the outcome of a call that waited, now that something came."""
