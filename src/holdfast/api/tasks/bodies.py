"""Bodies of the tasks contract: requests, responses, and a run or a model context shown as a task's."""

from enum import StrEnum
from typing import Annotated, Final, Literal

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.context import ReadContext, ReadMessage
from holdfast.domain.ids import ThreadId
from holdfast.domain.instant import Instant
from holdfast.domain.limits import MAX_SAFE_INTEGER, Limits
from holdfast.domain.message import Message, ToolCall
from holdfast.domain.new_run import MAX_TAGS
from holdfast.domain.run import Priority, Run, RunError, RunPhase, run_phase
from holdfast.domain.step import Step
from holdfast.domain.task_ids import task_id_of
from holdfast.ports.log import Contexts, Steps


class TaskStatus(StrEnum):
    """Where a task stands."""

    PENDING = "pending"
    PROCESSING = "processing"
    WAITING = "waiting"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELED = "canceled"


PHASE_OF_STATUS: Final = {
    TaskStatus.PENDING: RunPhase.PENDING,
    TaskStatus.PROCESSING: RunPhase.WORKING,
    TaskStatus.WAITING: RunPhase.ASKING,
    TaskStatus.FINISHED: RunPhase.COMPLETED,
    TaskStatus.FAILED: RunPhase.FAILED,
    TaskStatus.CANCELED: RunPhase.CANCELLED,
}
_STATUS_OF_PHASE: Final = {phase: status for status, phase in PHASE_OF_STATUS.items()}


class ListedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task in a list."""

    id: str
    agent_name: str
    session_id: ThreadId
    status: TaskStatus
    priority: Priority
    input: str
    output: str | None
    error: RunError | None
    iterations: int
    token_input: int
    token_output: int
    tags: list[str]
    parent_task_id: str | None
    created_at: Instant
    started_at: Instant | None
    finished_at: Instant | None


class Task(ListedTask, frozen=True, kw_only=True):
    """A task with all that is known of it."""

    event_count: int = msgspec.field(name="eventCount")


class TaskState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a task stands, and what came of it."""

    task_id: str
    status: TaskStatus
    output: str | None
    error: RunError | None


def task_status(run: Run) -> TaskStatus:
    """Return the status of a run in the words of the contract."""
    return _STATUS_OF_PHASE[run_phase(run)]


def listed_task(run: Run) -> ListedTask:
    """Return a run as a list shows it."""
    return ListedTask(
        id=task_id_of(run.id),
        agent_name=run.agent_type,
        session_id=run.thread_id,
        status=task_status(run),
        priority=run.priority,
        input=_as_text(run.input) or "",
        output=_as_text(run.output),
        error=run.error,
        iterations=run.iterations,
        token_input=run.usage.input_tokens,
        token_output=run.usage.output_tokens,
        tags=run.tags,
        parent_task_id=None if run.parent_run_id is None else task_id_of(run.parent_run_id),
        created_at=run.created_at,
        started_at=run.started_at,
        finished_at=run.completed_at,
    )


def task_with_event_count(run: Run, *, event_count: int) -> Task:
    """Return a run with all that the contract tells of it."""
    return Task(**msgspec.structs.asdict(listed_task(run)), event_count=event_count)


def task_state(run: Run) -> TaskState:
    """Return where a run stands."""
    return TaskState(task_id=task_id_of(run.id), status=task_status(run), output=_as_text(run.output), error=run.error)


def _as_text(value: Json) -> str | None:
    """Return what is text in the contract and any JSON in a run."""
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


class CalledFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A tool, with its arguments as JSON in a string."""

    name: str
    arguments: str


class SentCall(msgspec.Struct, frozen=True, kw_only=True):
    """What a model asked for."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction


class SentMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message as it was sent."""

    role: str
    content: str | list[dict[str, Json]] | None
    tool_calls: list[SentCall] = []
    tool_call_id: str | None = None


class TaskContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the model was told in the most recent iteration."""

    messages: list[SentMessage]
    tools: list[str]
    iteration: int
    timestamp: Instant | None


def build_context(read: ReadContext, *, iteration: int, step: Step | None) -> TaskContext:
    """Return what a model was told."""
    system = [SentMessage(role="system", content=read.system)] if read.system else []
    return TaskContext(
        messages=[*system, *map(to_sent_message, read.messages)],
        tools=[tool["name"] for tool in read.tools],
        iteration=iteration,
        timestamp=None if step is None else step.started_at,
    )


async def newest_context(contexts: Contexts, steps: Steps, run: Run) -> TaskContext | None:
    """Return what the model was told in the newest iteration of a run; nothing before the first."""
    told = await contexts.steps(run.space_id, run.id)
    if not told:
        return None
    newest = max(told)
    calls = [step for step in await steps.of_run(run.space_id, run.id) if step.number in told and step.number <= newest]
    iteration = sum(step.attempt for step in calls)  # one that a crash cut off was made again
    step = next((each for each in calls if each.number == newest), None)
    return build_context(await contexts.get(run.space_id, run.id, newest), iteration=iteration, step=step)


def to_sent_message(message: ReadMessage | Message) -> SentMessage:
    """Return a message in that shape."""
    content = message.content if isinstance(message.content, str) else msgspec.to_builtins(message.content)
    return SentMessage(
        role=message.role,
        content=None if message.tool_calls and not content else content,
        tool_calls=[_to_sent_call(call) for call in message.tool_calls],
        tool_call_id=message.tool_call_id,
    )


def _to_sent_call(call: ToolCall) -> SentCall:
    arguments = msgspec.json.encode(call.arguments).decode()
    return SentCall(id=call.id, function=CalledFunction(name=call.name, arguments=arguments))


_PositiveInt = Annotated[int, msgspec.Meta(gt=0, le=MAX_SAFE_INTEGER)]
_Tag = Annotated[str, msgspec.Meta(max_length=128)]


class TaskBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A task to be given to an agent."""

    input: str
    priority: Priority = Priority.NORMAL
    tags: Annotated[list[_Tag], msgspec.Meta(max_length=MAX_TAGS)] = []
    max_iterations: _PositiveInt | None = None
    max_duration_seconds: _PositiveInt | None = None
    token_budget: _PositiveInt | None = None

    def limits(self) -> Limits:
        """Return what the task may use."""
        return Limits(
            max_iterations=self.max_iterations,
            max_duration_seconds=self.max_duration_seconds,
            token_budget=self.token_budget,
        )


class TaskRespondBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer to a task that waits."""

    message: str


class TaskStatusResponse(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A task, and where it stands now."""

    task_id: str
    status: TaskStatus


class TaskDeleted(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A task that is no more."""

    deleted: bool = True
    task_id: str


class TaskResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A task."""

    task: Task


class TaskPage(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks, the newest first, and the cursor to ask for more with; no cursor, no more."""

    tasks: list[ListedTask]
    next_cursor: str | None


class TaskContextResponse(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the model was told in the newest iteration; null before the first."""

    task_id: str
    context: TaskContext | None
