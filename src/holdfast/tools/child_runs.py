"""Child runs: how tools create runs of other agents, and what a call returns when such a run has ended.

Each run is created once, under ids that derive from the key of the call, with at most the rights of the run that
creates it.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Final, TypeAlias

from msgspec import UNSET, Meta

from holdfast.domain.agent import Agent, check_mode
from holdfast.domain.commit import Lease
from holdfast.domain.errors import NotFound
from holdfast.domain.events.custom import ChildChanged
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import RunId, ThreadId
from holdfast.domain.limits import check_depth, child_limits
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import NewRun
from holdfast.domain.permission import inherited_rights
from holdfast.domain.run import Mode, Priority, RunStatus
from holdfast.domain.thread import NewThread, derive_title
from holdfast.domain.tool import ToolSpec
from holdfast.domain.validation import check_text
from holdfast.domain.working_folder import check_working_folder
from holdfast.tools.content import did_you_mean
from holdfast.tools.permissions.policy import values_for_child
from holdfast.tools.tool import ChildEnded, Preempted, ResumeCause, ToolContext, ToolResult
from holdfast.tools.typed_tool import unexpected_resume

MAX_CHILD_INPUT_CHARS: Final = 100_000
"""Characters of the input of a child run."""
AgentNameArgument: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128, description="The name of the agent.")]
ChildInputArgument: TypeAlias = Annotated[
    str,
    Meta(min_length=1, max_length=MAX_CHILD_INPUT_CHARS, description="What it shall do, and all that it must know."),
]


class WorkspaceSpawner:
    """Creates child runs of the agents of the workspace, each with the first model and the limits of its agent."""

    def __init__(self, agents: Callable[[Lease], Awaitable[Sequence[Agent]]]) -> None:
        self._agents = agents

    async def child(self, call: ToolContext, *, agent: str, input: str, mode: Mode, priority: Priority) -> NewRun:
        """Return the child run for `call`, with ids that derive from its key.

        An agent that does not exist, or that the run may not spawn, raises `NotFound`; one that is not enabled for that
        mode, or whose working folder the space may not use, `Conflict`; one that would be nested too deeply,
        `SpawnLimit`.
        """
        check_depth(call.run.limits, len(inherited_rights(call.values)))
        agents = await self._agents(call.lease)
        found = next((each for each in agents if each.name == agent), None)
        if found is None:
            hint = did_you_mean(agent, [each.name for each in agents])
            raise NotFound(f"there is no agent `{agent}` that this run may spawn{hint}", agent=agent)
        check_mode(found, mode)
        check_working_folder(found, call.run.space_id)
        text = check_text(input, field="input", max_chars=MAX_CHILD_INPUT_CHARS)
        return NewRun(
            id=child_run_id(call),
            thread=NewThread(id=child_thread_id(call), title=derive_title(text), agent_type=found.name),
            messages=[NewMessage(role=Role.USER, content=text)],
            input=text,
            mode=mode,
            agent_type=found.name,
            agent_version=UNSET if found.version is None else found.version,
            model=found.models[0] if found.models else None,
            parent_run_id=call.run.id,
            priority=priority,
            pool=found.pool,
            limits=child_limits(call.run.limits, found.limits),
            values=values_for_child(call.agent, call.values, folder=call.working_folder),
            created_by=call.run.created_by,
        )


def child_mode(call: ToolContext) -> Mode:
    """Return the mode of a child: that of its parent, but a task for a daemon, which only a schedule starts."""
    return Mode.TASK if call.run.mode is Mode.DAEMON else call.run.mode


def child_run_id(call: ToolContext) -> RunId:
    """Return the id of the child run of `call`."""
    return RunId(derived_id("run", key=call.key))


def child_thread_id(call: ToolContext) -> ThreadId:
    """Return the id of the thread of the child run of `call`."""
    return ThreadId(derived_id("thr", key=call.key))


def child_started_event(call: ToolContext, *, agent: str, thread: ThreadId | None = None) -> ChildChanged:
    """Return the event of a detached child."""
    return ChildChanged(
        run_id=child_run_id(call),
        thread_id=thread or child_thread_id(call),
        status=RunStatus.QUEUED,
        agent_type=agent,
        tool_call_id=call.id,
    )


def ended_run_result(spec: ToolSpec, subject: str, cause: ResumeCause, *, if_preempted: dict[str, str]) -> ToolResult:
    """Return the output of a run, or why it has none; `if_preempted` is the content if the run is still going."""
    match cause:
        case ChildEnded(status=RunStatus.COMPLETED, output=output):
            return ToolResult(content=output)
        case ChildEnded(status=status, error=error):
            reason = "" if error is None else f": {error.code}: {error.message}"
            verb = "was cancelled" if status is RunStatus.CANCELLED else "failed"
            return ToolResult(content=f"{subject} {verb}{reason}", failed=True)
        case Preempted(because=because):
            note = f"it goes on in the background: {because} meanwhile"
            return ToolResult(content={**if_preempted, "note": note})
        case _:
            raise unexpected_resume(spec, cause)
