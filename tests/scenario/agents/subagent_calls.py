"""Tool calls between agents, and their results."""

from typing import Final

from holdfast.domain.content import Json
from holdfast.domain.idempotency import derived_id, step_key
from holdfast.domain.ids import RunId
from holdfast.domain.run import Run
from holdfast.ports.runs import RunFilter
from tests.scenario.agents.agent_workspace import SPACE, AgentRuntime, call

ASK: Final = call("ask_user", question="may I?")
LONG: Final = call("sleep", seconds=3600)
TOOLS: Final[list[Json]] = [
    *("agent_message", "agent_send", "agent_spawn", "ask_user", "sleep"),
    *("task_create", "task_spawn", "task_status", "task_subscribe"),
]
ROOT: Final = RunId("root")
"""A run with a fixed id, so that the ids of its children are known."""


def derived_from_step(prefix: str, step: int = 2) -> str:
    """Return the id that a call of the root derives; its first tool call is step 2."""
    return derived_id(prefix, key=step_key(ROOT, step))


def message(text: str, *, to: str = "kid", **more: Json) -> dict[str, Json]:
    """Return a call that waits for a reply."""
    return call("agent_message", agent=to, message=text, **more)


def send(text: str, *, to: str = "kid", **more: Json) -> dict[str, Json]:
    """Return a call that does not wait."""
    return call("agent_send", agent=to, message=text, **more)


def subscribe(task: str, **more: Json) -> dict[str, Json]:
    """Return a call that subscribes to the end of a task."""
    return call("task_subscribe", task_id=task, **more)


def spawn(agent: str = "kid", **more: Json) -> dict[str, Json]:
    """Return a call that spawns an agent."""
    return call("agent_spawn", agent=agent, input="help", **more)


async def runs_of(runtime: AgentRuntime, agent: str) -> list[Run]:
    """Return the runs of an agent, oldest first."""
    page = await runtime.store.runs.page(SPACE, where=RunFilter(agent_type=agent), limit=100)
    return page.items[::-1]


async def results(runtime: AgentRuntime, run: Run) -> list[str]:
    """Return the results of the calls of a run."""
    return [text.removeprefix("tool: ") for text in await runtime.texts(run) if text.startswith("tool: ")]
