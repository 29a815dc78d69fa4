"""Bodies of the tasks contract: requests, responses, and the conversion of runs and model contexts."""

from enum import StrEnum
from typing import Annotated, Final, Literal

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.context import ReadMessage
from holdfast.domain.ids import ThreadId
from holdfast.domain.instant import Instant
from holdfast.domain.limits import MAX_SAFE_INTEGER
from holdfast.domain.message import Message
from holdfast.domain.new_run import MAX_TAGS
from holdfast.domain.run import Priority, Run, RunError, RunPhase, run_phase
from holdfast.domain.step import StepState
from holdfast.domain.task_ids import task_id_of
from holdfast.ports.log import Contexts, Steps


class TaskStatus(StrEnum):
    """The status of a task."""

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
    """A task with the number of its events."""

    event_count: int = msgspec.field(name="eventCount")


class TaskState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The status and the result of a task."""

    task_id: str
    status: TaskStatus
    output: str | None
    error: RunError | None


def task_status(run: Run) -> TaskStatus:
    """Return the status of a run as the contract names it."""
    return _STATUS_OF_PHASE[run_phase(run)]


def listed_task(run: Run) -> ListedTask:
    """Return a run as a task in a list."""
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


def task_state(run: Run) -> TaskState:
    """Return the status and the result of a run."""
    return TaskState(task_id=task_id_of(run.id), status=task_status(run), output=_as_text(run.output), error=run.error)


def _as_text(value: Json) -> str | None:
    """Return a JSON value of a run as text, which is what the contract has."""
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


class CalledFunction(msgspec.Struct, frozen=True, kw_only=True):
    """The function of a tool call, with its arguments as JSON in a string."""

    name: str
    arguments: str


class SentCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call of a model."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction


class SentMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message as it was sent to the model."""

    role: str
    content: str | list[dict[str, Json]] | None
    tool_calls: list[SentCall] = []
    tool_call_id: str | None = None


class TaskContext(msgspec.Struct, frozen=True, kw_only=True):
    """The model context of the most recent iteration."""

    messages: list[SentMessage]
    tools: list[str]
    iteration: int
    timestamp: Instant | None


async def newest_context(contexts: Contexts, steps: Steps, run: Run) -> TaskContext | None:
    """Return the model context of the newest iteration of a run; null before the first."""
    numbers = await contexts.steps(run.space_id, run.id)
    if not numbers:
        return None
    newest = max(numbers)
    calls = [step for step in await steps.of_run(run.space_id, run.id) if step.number in numbers]
    step = next((each for each in calls if each.number == newest), None)
    context = await contexts.get(run.space_id, run.id, newest)
    system = [SentMessage(role="system", content=context.system)] if context.system else []
    return TaskContext(
        messages=[*system, *map(to_sent_message, context.messages)],
        tools=[tool["name"] for tool in context.tools],
        iteration=1 + sum(each.state is StepState.DONE for each in calls if each.number < newest),
        timestamp=None if step is None else step.started_at,
    )


def to_sent_message(message: ReadMessage | Message) -> SentMessage:
    """Return a message in the shape of the contract."""
    content = message.content if isinstance(message.content, str) else msgspec.to_builtins(message.content)
    calls = [
        SentCall(
            id=call.id,
            function=CalledFunction(name=call.name, arguments=msgspec.json.encode(call.arguments).decode()),
        )
        for call in message.tool_calls
    ]
    return SentMessage(
        role=message.role,
        content=None if calls and not content else content,
        tool_calls=calls,
        tool_call_id=message.tool_call_id,
    )


_PositiveInt = Annotated[int, msgspec.Meta(gt=0, le=MAX_SAFE_INTEGER)]
_Tag = Annotated[str, msgspec.Meta(max_length=128)]


class TaskBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A new task for an agent; unknown fields are ignored."""

    input: str
    priority: Priority = Priority.NORMAL
    tags: Annotated[list[_Tag], msgspec.Meta(max_length=MAX_TAGS)] = []
    max_iterations: _PositiveInt | None = None
    max_duration_seconds: _PositiveInt | None = None
    token_budget: _PositiveInt | None = None
    output_schema: dict[str, Json] | None = None
    """The JSON Schema that the output must match; by default that of the agent."""


class TaskRespondBody(msgspec.Struct, frozen=True, kw_only=True):
    """A response to a waiting task; unknown fields are ignored."""

    message: str


class TaskStatusResponse(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A task and its status now."""

    task_id: str
    status: TaskStatus


class TaskDeleted(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A deleted task."""

    deleted: bool = True
    task_id: str


class TaskResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A task."""

    task: Task


class TaskPage(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks, newest first, with the cursor of the next page; null on the last page."""

    tasks: list[ListedTask]
    next_cursor: str | None


class TaskContextResponse(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The model context of the newest iteration; null before the first."""

    task_id: str
    context: TaskContext | None
