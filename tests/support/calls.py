"""Builders of runs, leases and tool calls, and scripted tools."""

from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Final

from holdfast.domain.agent import Agent
from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.ids import MessageId, OwnerId, RunId, ThreadId, ToolCallId
from holdfast.domain.instant import Instant
from holdfast.domain.limits import Limits, Usage
from holdfast.domain.plan import Boundary
from holdfast.domain.run import Mode, Priority, Run, RunStatus
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.tool import ToolClass, ToolSpec
from holdfast.tools.tool import ResumeCause, ToolContext, ToolResult

NOW: Final = Instant("2026-01-31T12:00:00.000Z")
HERE: Final = Boundary(message_sequence_num=3, content_sequence_num=1)
KEY: Final = "run_1.4"


def a_run(*, id: str = "run_1", mode: Mode = Mode.CHAT, priority: Priority = Priority.NORMAL) -> Run:
    """Return a running run."""
    return Run(
        id=RunId(id),
        thread_id=ThreadId("thr_1"),
        space_id=DEFAULT_SPACE,
        mode=mode,
        agent_type="writer",
        model="scripted:writer.json",
        model_used=None,
        status=RunStatus.RUNNING,
        status_reason=None,
        base_run_id=None,
        base_sequence=None,
        parent_run_id=None,
        root_run_id=RunId(id),
        root_thread_id=ThreadId("thr_1"),
        child_thread_id=None,
        session_id=None,
        input=None,
        output=None,
        error=None,
        usage=Usage(cost_usd=0.0),
        priority=priority,
        tags=[],
        limits=Limits(),
        output_schema=None,
        agent_version=None,
        iterations=1,
        attempt=1,
        wait_until=None,
        idempotency_key=None,
        last_event_seq=7,
        created_by="ada",
        cancelled_by=None,
        created_at=NOW,
        queued_at=NOW,
        started_at=NOW,
        completed_at=None,
    )


def an_agent(name: str = "writer", **fields: Json) -> Agent:
    """Return an agent with a model."""
    return Agent(**{"description": name, "models": [f"scripted:{name}.json"], "instructions": "", **fields}, name=name)


def a_lease(run: Run | None = None) -> Lease:
    """Return the lease of a run."""
    run = run or a_run()
    return Lease(
        space_id=run.space_id,
        run_id=run.id,
        thread_id=run.thread_id,
        owner=OwnerId("first"),
        number=7,
        expires_at=NOW,
        space_key=1,
        run_key=1,
        thread_key=1,
        parent_key=None,
        run=run,
    )


def a_call(
    *,
    key: str = KEY,
    run: Run | None = None,
    values: Mapping[str, Json] | None = None,
    at: Boundary = HERE,
    next_task_id: Callable[[], Awaitable[int]] | None = None,
) -> ToolContext:
    """Return a call of a tool by a model."""
    return ToolContext(
        id=ToolCallId("call_1"),
        key=key,
        lease=a_lease(run),
        agent=an_agent(),
        message_id=MessageId("msg_1"),
        at=at,
        now=NOW,
        values=values or {},
        next_task_id=next_task_id or numbers(),
    )


def numbers() -> Callable[[], Awaitable[int]]:
    """Return a counter of a thread."""
    counter = count(1)

    async def following() -> int:
        return next(counter)

    return following


def a_spec(name: str = "look", *, parameters: dict[str, Json] | None = None, **fields: Json) -> ToolSpec:
    """Return the spec of a tool, by default with any arguments."""
    return ToolSpec(name=name, description=f"{name} at it", parameters=parameters or {"type": "object"}, **fields)


class Recorder:
    """A tool that returns a fixed result, and records its calls."""

    def __init__(self, outcome: ToolResult | None = None, *, spec: ToolSpec | None = None) -> None:
        self.spec = spec or a_spec(kind=ToolClass.IDEMPOTENT)
        self.arguments: list[dict[str, Json]] = []
        self._outcome = outcome or ToolResult(content="seen")

    async def run(self, call: ToolContext, arguments: dict[str, Json]) -> ToolResult:
        """Record the call, and return the result."""
        self.arguments.append(arguments)
        return self._outcome


class ResumableRecorder(Recorder):
    """A `Recorder` whose calls can wait and resume."""

    async def resume(self, call: ToolContext, arguments: dict[str, Json], arrival: ResumeCause) -> ToolResult:
        """Record the call, and return the result."""
        return await self.run(call, arguments)


class Raiser:
    """A tool that raises."""

    def __init__(self, error: Exception, *, kind: ToolClass = ToolClass.IDEMPOTENT) -> None:
        self.spec = a_spec(kind=kind)
        self._error = error

    async def run(self, call: ToolContext, arguments: dict[str, Json]) -> ToolResult:
        """Raise the error."""
        raise self._error
