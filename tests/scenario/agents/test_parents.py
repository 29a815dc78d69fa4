"""Races between parents and children: the end of a child always reaches its parent."""

import asyncio
from collections import Counter
from random import Random

import pytest

from holdfast.domain.run import RunStatus
from holdfast.domain.step import StepState
from holdfast.domain.tool import ToolClass
from tests.scenario.agents.fake_tools import BlockingTool
from tests.scenario.agents.workshop import SPACE, Floor, Workshop, call, calling, say

CHILDREN = 4
ENDS = 1000
ENDS_ON_POSTGRES = 80
SEED = 20_260_131
TOOLS = ["agent_spawn", "ask_user", "sleep"]


def family(workshop: Workshop, *, kids: int) -> None:
    """Write a parent that waits for several children at once, of which some take a little longer than others."""
    spawning = [call("agent_spawn", agent=f"kid{number % kids}", input=f"{number}") for number in range(CHILDREN)]
    workshop.agent(calling(*spawning), say("done"), tools=TOOLS)
    for number in range(kids):
        workshop.agent(say("I {$last_user}", chunks=3, delay_ms=number), name=f"kid{number}")


async def race(floor: Floor, ends: int) -> None:
    """Have so many children end while their parents go to wait."""
    runs = await asyncio.gather(*(floor.start() for _ in range(ends // CHILDREN)))
    ended = await asyncio.gather(*(floor.ended(run) for run in runs))
    assert Counter(run.output for run in ended) == {"done": len(runs)}
    for run in Random(SEED).sample(ended, 10):
        assert [message[:6] for message in await floor.said(run)][2:-1] == ["tool: "] * CHILDREN
        assert {step.state for step in await floor.steps(run)} == {StepState.DONE}
        await floor.events(run)


async def test_a_thousand_children_end_while_their_parents_are_being_suspended(workshop: Workshop) -> None:
    family(workshop, kids=3)
    async with workshop.open(workers=16) as floor:
        await race(floor, ENDS)


async def test_children_end_in_one_process_while_their_parents_are_suspended_in_another(on_postgres: Workshop) -> None:
    family(on_postgres, kids=3)
    async with on_postgres.open(workers=8) as floor, on_postgres.open(workers=8):
        await race(floor, ENDS_ON_POSTGRES)


@pytest.mark.parametrize("last", ["ask_user", "sleep", "agent_spawn"])
async def test_the_end_of_a_child_just_before_its_parent_waits_is_not_lost(anywhere: Workshop, last: str) -> None:
    """The gate lets the parent go to wait only when the end of the child is in its inbox."""
    gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
    waits = {
        "ask_user": call("ask_user", question="?"),
        "sleep": call("sleep", seconds=0.01),
        "agent_spawn": call("agent_spawn", agent="kid", input="two"),
    }
    detach = call("agent_spawn", agent="kid", input="one", wait=False)
    anywhere.agent(calling(detach, call("gate"), waits[last]), say("{$last_user}"), tools=[*TOOLS, "gate"])
    anywhere.agent(say("I {$last_user}"), name="kid")
    async with anywhere.open(gate) as floor:
        run = await floor.start()
        await gate.begun.acquire()
        await floor.until(run, lambda event: "holdfast.child" in str(event))
        child = await floor.ended(await floor.child(run))
        gate.open.set()
        if last == "ask_user":
            await floor.asks(run)
            await floor.runs.respond(SPACE, run.id, "yes")
        ended = await floor.ended(run)
        said = await floor.said(run)
    told = f"Run `{child.id}`, which you started in the background, has completed: I one"
    assert ended.output == told
    assert said.count(f"user: {told}") == 1


async def test_a_parent_continues_when_its_children_are_cancelled(workshop: Workshop) -> None:
    asking = calling(call("ask_user", question="?"))
    workshop.agent(calling(*[call("agent_spawn", agent="kid", input="x")] * 2), say("{$last_tool}"), tools=TOOLS)
    workshop.agent(asking, say("I did"), name="kid", tools=TOOLS)
    async with workshop.open() as floor:
        run = await floor.start()
        await floor.asks(run, 2)
        for index in (0, 1):
            await floor.runs.cancel(SPACE, (await floor.child(run, index)).id)
        ended = await floor.ended(run)
    assert (ended.status, ended.output) == (RunStatus.COMPLETED, "agent `kid` was cancelled")
