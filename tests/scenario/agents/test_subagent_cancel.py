"""Cancelling a tree of agents at any moment ends all of it, and leaves nothing open."""

import asyncio
from datetime import timedelta
from typing import Final

from holdfast.domain.content import Json
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace, call, calling, say
from tests.scenario.agents.fake_tools import BlockingTool
from tests.scenario.agents.random_cancels import cancel_randomly, check_ended, tree

SEED: Final = 20_261_117
CANCELS: Final = 60
CANCELS_ON_POSTGRES: Final = 6
CONCURRENCY: Final = 6
LEVELS: Final = 3
FOREVER: Final = timedelta(hours=1)
TOOLS: Final[list[Json]] = [
    *("look", "act", "agent_spawn", "agent_message", "agent_send", "ask_user", "sleep"),
    *("task_create", "task_subscribe"),
]


def write_tree(workspace: AgentWorkspace) -> None:
    """Write three levels of agents that wait for each other, stream text and open interrupts."""
    spawn = [call("agent_spawn", agent="mid", input=side) for side in ("left", "right")]
    talk = call("agent_message", agent="friend", message="well?")
    workspace.agent(
        calling(*spawn, talk),
        calling(call("agent_send", agent="friend", message="bye"), talk),
        say("done"),
        tools=TOOLS,
    )
    deeper = calling(call("agent_spawn", agent="leaf", input="{$last_user}"), call("ask_user", question="may I?"))
    workspace.agent(calling(call("act")), deeper, say("I did", chunks=4, delay_ms=1), name="mid", tools=TOOLS)
    ask = calling(call("ask_user", question="where?"), call("sleep", seconds=0.01))
    workspace.agent(ask, calling(call("look"), call("look")), say("there"), name="leaf", tools=TOOLS)
    workspace.agent(calling(call("look")), say("well"), name="friend", tools=TOOLS)


async def test_trees_that_are_cancelled_at_random_moments_leave_nothing_behind(workspace: AgentWorkspace) -> None:
    write_tree(workspace)
    await cancel_randomly(workspace, cancels=CANCELS, at_once=CONCURRENCY, stretch=3, seed=SEED)


async def test_trees_that_are_cancelled_at_random_moments_leave_nothing_behind_on_postgres(
    postgres_workspace: AgentWorkspace,
) -> None:
    write_tree(postgres_workspace)
    await cancel_randomly(postgres_workspace, cancels=CANCELS_ON_POSTGRES, at_once=CONCURRENCY, stretch=3, seed=SEED)


async def test_cancelling_stops_three_levels_of_runs_at_once(any_workspace: AgentWorkspace) -> None:
    gate = BlockingTool()
    for name, below in (("bot", "mid"), ("mid", "leaf"), ("leaf", None)):
        spawn = [] if below is None else [call("agent_spawn", agent=below, input="go", wait=False)]
        any_workspace.agent(calling(*spawn, call("gate")), say("done"), name=name, tools=["agent_spawn", "gate"])
    async with any_workspace.open(
        gate, workers=LEVELS, lease=2 * FOREVER, heartbeat=FOREVER
    ) as runtime:  # no heartbeat runs
        run = await runtime.start()
        for _ in range(LEVELS):
            await gate.started.acquire()
        await runtime.runs.cancel(SPACE, run.id)
        any_workspace.script(say("free again"))
        others = await asyncio.gather(*(runtime.run_to_end() for _ in range(LEVELS)))  # by the only workers
        assert [other.output for other in others] == ["free again"] * LEVELS
        assert len(await tree(runtime, run)) == LEVELS
        await check_ended(runtime, run)
    assert gate.cancellations == gate.call_count == LEVELS
