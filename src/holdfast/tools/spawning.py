"""How tools make runs of other agents: children, messages to them, and tasks on their own.

Each is made once, under ids that derive from the key of the call, and has at most the rights of the run that makes it.
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
from holdfast.domain.run import Mode, Priority, RunStatus
from holdfast.domain.thread import NewThread, derive_title
from holdfast.domain.validation import check_text
from holdfast.tools.permissions.chain import inherited, passed_on
from holdfast.tools.suggestion import did_you_mean
from holdfast.tools.tool import Call

MAX_INPUT: Final = 100_000
"""Characters that another agent can be told."""


class Spawner(Protocol):
    """Knows which agents a run may have work for it, and what their runs are like."""

    async def child(self, call: Call, *, agent: str, input: str, mode: Mode, priority: Priority) -> NewRun:
        """Return the run that `call` wants to make, with ids that derive from its key.

        An agent that does not exist, or that the run may not spawn, raises `NotFound`; one that is not enabled for
        that mode, `Conflict`; one that would stand too deep below others, `SpawnLimit`.
        """


class LibrarySpawner:
    """`Spawner` over the agents of the workspace: a run has its agent's first model and its limits."""

    def __init__(self, agents: Callable[[Lease], Awaitable[Sequence[Agent]]]) -> None:
        self._agents = agents

    async def child(self, call: Call, *, agent: str, input: str, mode: Mode, priority: Priority) -> NewRun:
        """Return the run to make."""
        check_depth(call.run.limits, len(inherited(call.values)))
        found = _named(agent, await self._agents(call.lease))
        check_mode(found, mode)
        text = check_text(input, field="input", most=MAX_INPUT)
        return NewRun(
            id=child_run(call),
            thread=NewThread(id=child_thread(call), title=derive_title(text), agent_type=found.name),
            messages=[NewMessage(role=Role.USER, content=text)],
            input=text,
            mode=mode,
            agent_type=found.name,
            model=found.models[0] if found.models else None,
            parent_run_id=call.run.id,
            priority=priority,
            limits=child_limits(call.run.limits, found.limits),
            values=passed_on(call.agent, call.values),
            created_by=call.run.created_by,
        )


def mode_below(call: Call) -> Mode:
    """Return the mode of what a run gives away: a daemon is woken by its schedule, what it gives away is a task."""
    return Mode.TASK if call.run.mode is Mode.DAEMON else call.run.mode


def child_run(call: Call) -> RunId:
    """Return the id of the run that `call` makes."""
    return RunId(derived_id("run", key=call.key))


def child_thread(call: Call) -> ThreadId:
    """Return the id of the thread of that run."""
    return ThreadId(derived_id("thr", key=call.key))


def began(call: Call, *, agent: str, thread: ThreadId | None = None) -> ChildChanged:
    """Return the event of a child that nobody waits for."""
    return ChildChanged(
        run_id=child_run(call),
        thread_id=thread or child_thread(call),
        status=RunStatus.QUEUED,
        agent_type=agent,
        tool_call_id=call.id,
    )


def _named(name: str, agents: Sequence[Agent]) -> Agent:
    for agent in agents:
        if agent.name == name:
            return agent
    hint = did_you_mean(name, [agent.name for agent in agents])
    raise NotFound(f"there is no agent `{name}` that this run may spawn{hint}", agent=name)
