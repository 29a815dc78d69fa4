"""Races between parents and children: the end of a child always reaches its parent."""

import asyncio
from collections import Counter
from random import Random

import pytest

from holdfast.domain.run import RunStatus
from holdfast.domain.step import StepState
from holdfast.domain.tool import ToolClass
from tests.scenario.agents.agent_workspace import SPACE, AgentRuntime, AgentWorkspace, call, calling, say
from tests.scenario.agents.fake_tools import BlockingTool

CHILDREN = 4
ENDS = 1000
ENDS_ON_POSTGRES = 80
SEED = 20_260_131
TOOLS = ["agent_spawn", "ask_user", "sleep"]


def write_family(workspace: AgentWorkspace, *, kids: int) -> None:
    """Write a parent that waits for several children at once, which take different times."""
    spawning = [call("agent_spawn", agent=f"kid{number % kids}", input=f"{number}") for number in range(CHILDREN)]
    workspace.agent(calling(*spawning), say("done"), tools=TOOLS)
    for number in range(kids):
        workspace.agent(say("I {$last_user}", chunks=3, delay_ms=number), name=f"kid{number}")


async def race_child_ends(runtime: AgentRuntime, ends: int) -> None:
    """End so many children while their parents are being suspended."""
    runs = await asyncio.gather(*(runtime.start() for _ in range(ends // CHILDREN)))
    ended_runs = await asyncio.gather(*(runtime.wait_until_ended(run) for run in runs))
    assert Counter(run.output for run in ended_runs) == {"done": len(runs)}
    for run in Random(SEED).sample(ended_runs, 10):
        assert [message[:6] for message in await runtime.texts(run)][2:-1] == ["tool: "] * CHILDREN
        assert {step.state for step in await runtime.steps(run)} == {StepState.DONE}
        await runtime.events(run)


async def test_a_thousand_children_end_while_their_parents_are_being_suspended(workspace: AgentWorkspace) -> None:
    write_family(workspace, kids=3)
    async with workspace.open(workers=16) as runtime:
        await race_child_ends(runtime, ENDS)


async def test_children_end_in_one_process_while_their_parents_are_suspended_in_another(
    postgres_workspace: AgentWorkspace,
) -> None:
    write_family(postgres_workspace, kids=3)
    async with postgres_workspace.open(workers=8) as runtime, postgres_workspace.open(workers=8):
        await race_child_ends(runtime, ENDS_ON_POSTGRES)


@pytest.mark.parametrize("last", ["ask_user", "sleep", "agent_spawn"])
async def test_the_end_of_a_child_just_before_its_parent_waits_is_not_lost(
    any_workspace: AgentWorkspace, last: str
) -> None:
    """The gate opens, and the parent waits, only when the end of the child is in its inbox."""
    gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
    waits = {
        "ask_user": call("ask_user", question="?"),
        "sleep": call("sleep", seconds=0.01),
        "agent_spawn": call("agent_spawn", agent="kid", input="two"),
    }
    detach = call("agent_spawn", agent="kid", input="one", wait=False)
    any_workspace.agent(calling(detach, call("gate"), waits[last]), say("{$last_user}"), tools=[*TOOLS, "gate"])
    any_workspace.agent(say("I {$last_user}"), name="kid")
    async with any_workspace.open(gate) as runtime:
        run = await runtime.start()
        await gate.started.acquire()
        await runtime.wait_for_event(run, lambda event: "holdfast.child" in str(event))
        child = await runtime.wait_until_ended(await runtime.child(run))
        gate.open.set()
        if last == "ask_user":
            await runtime.wait_for_interrupts(run)
            await runtime.runs.respond(SPACE, run.id, "yes")
        ended_run = await runtime.wait_until_ended(run)
        texts = await runtime.texts(run)
    report = f"Run `{child.id}`, which you started in the background, has completed: I one"
    assert ended_run.output == report
    assert texts.count(f"user: {report}") == 1


async def test_a_parent_continues_when_its_children_are_cancelled(workspace: AgentWorkspace) -> None:
    question_turn = calling(call("ask_user", question="?"))
    workspace.agent(calling(*[call("agent_spawn", agent="kid", input="x")] * 2), say("{$last_tool}"), tools=TOOLS)
    workspace.agent(question_turn, say("I did"), name="kid", tools=TOOLS)
    async with workspace.open() as runtime:
        run = await runtime.start()
        await runtime.wait_for_interrupts(run, 2)
        for index in (0, 1):
            await runtime.runs.cancel(SPACE, (await runtime.child(run, index)).id)
        ended_run = await runtime.wait_until_ended(run)
    assert (ended_run.status, ended_run.output) == (RunStatus.COMPLETED, "agent `kid` was cancelled")
