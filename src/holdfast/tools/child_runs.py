"""Child runs: how tools create runs of other agents, and what a call returns when such a run has ended.

Each run is created once, under ids that derive from the key of the call, with at most the rights of the run that
creates it.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from holdfast.domain.agent import Agent, check_mode
from holdfast.domain.commit import Lease
from holdfast.domain.errors import NotFound
from holdfast.domain.events.custom import ChildChanged
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import RunId, ThreadId
from holdfast.domain.limits import check_depth, child_limits
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Mode, Priority, Run, RunStatus
from holdfast.domain.thread import NewThread, derive_title
from holdfast.domain.tool import ToolSpec
from holdfast.domain.validation import check_text
from holdfast.tools.content import did_you_mean
from holdfast.tools.permissions.policy import inherited_rights, values_for_child
from holdfast.tools.tool import ChildEnded, Preempted, ResumeCause, ToolContext, ToolResult
from holdfast.tools.typed_tool import unexpected_resume

MAX_CHILD_INPUT_CHARS: Final = 100_000
"""Characters that another agent can be told."""


class Spawner(Protocol):
    """Knows which agents a run may have work for it, and what their runs are like."""

    async def child(self, call: ToolContext, *, agent: str, input: str, mode: Mode, priority: Priority) -> NewRun:
        """Return the run that `call` wants to make, with ids that derive from its key.

        An agent that does not exist, or that the run may not spawn, raises `NotFound`; one that is not enabled for
        that mode, `Conflict`; one that would stand too deep below others, `SpawnLimit`.
        """


class WorkspaceSpawner:
    """`Spawner` over the agents of the workspace: a run has its agent's first model and its limits."""

    def __init__(self, agents: Callable[[Lease], Awaitable[Sequence[Agent]]]) -> None:
        self._agents = agents

    async def child(self, call: ToolContext, *, agent: str, input: str, mode: Mode, priority: Priority) -> NewRun:
        """Return the run to make."""
        check_depth(call.run.limits, len(inherited_rights(call.values)))
        found = _find_agent(agent, await self._agents(call.lease))
        check_mode(found, mode)
        text = check_text(input, field="input", max_chars=MAX_CHILD_INPUT_CHARS)
        return NewRun(
            id=child_run_id(call),
            thread=NewThread(id=child_thread_id(call), title=derive_title(text), agent_type=found.name),
            messages=[NewMessage(role=Role.USER, content=text)],
            input=text,
            mode=mode,
            agent_type=found.name,
            model=found.models[0] if found.models else None,
            parent_run_id=call.run.id,
            priority=priority,
            limits=child_limits(call.run.limits, found.limits),
            values=values_for_child(call.agent, call.values),
            created_by=call.run.created_by,
        )


def child_mode(call: ToolContext) -> Mode:
    """Return the mode of what a run gives away: a daemon is woken by its schedule, what it gives away is a task."""
    return Mode.TASK if call.run.mode is Mode.DAEMON else call.run.mode


def child_run_id(call: ToolContext) -> RunId:
    """Return the id of the run that `call` makes."""
    return RunId(derived_id("run", key=call.key))


def child_thread_id(call: ToolContext) -> ThreadId:
    """Return the id of the thread of that run."""
    return ThreadId(derived_id("thr", key=call.key))


def child_started_event(call: ToolContext, *, agent: str, thread: ThreadId | None = None) -> ChildChanged:
    """Return the event of a child that nobody waits for."""
    return ChildChanged(
        run_id=child_run_id(call),
        thread_id=thread or child_thread_id(call),
        status=RunStatus.QUEUED,
        agent_type=agent,
        tool_call_id=call.id,
    )


def _find_agent(name: str, agents: Sequence[Agent]) -> Agent:
    for agent in agents:
        if agent.name == name:
            return agent
    hint = did_you_mean(name, [agent.name for agent in agents])
    raise NotFound(f"there is no agent `{name}` that this run may spawn{hint}", agent=name)


def ended_run_result(spec: ToolSpec, subject: str, cause: ResumeCause, *, if_preempted: dict[str, str]) -> ToolResult:
    """Return the output of a run, or why it has none; where the run goes on without the call, say so with `goes_on`."""
    match cause:
        case ChildEnded(status=RunStatus.COMPLETED, output=output):
            return ToolResult(content=output)
        case ChildEnded(status=status, error=error):
            why = "" if error is None else f": {error.code}: {error.message}"
            end = "was cancelled" if status is RunStatus.CANCELLED else "failed"
            return ToolResult(content=f"{subject} {end}{why}", failed=True)
        case Preempted(because=because):
            return ToolResult(content={**if_preempted, "note": f"it goes on in the background: {because} meanwhile"})
        case _:
            raise unexpected_resume(spec, cause)


def child_ended(run: Run) -> ChildEnded:
    """Return how a run ended that has ended already."""
    return ChildEnded(run_id=run.id, status=run.status, output=run.output, error=run.error)
