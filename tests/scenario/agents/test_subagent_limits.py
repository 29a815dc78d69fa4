"""Limits of subagents: no cycles of waits, limited depth and number, and a shared budget."""

import asyncio
import shutil

import pytest

from holdfast.domain.content import Json
from holdfast.domain.events import RunFinished
from holdfast.domain.ids import RunId
from holdfast.domain.limits import Limits
from holdfast.domain.run import RunStatus
from holdfast.domain.tool import ToolClass
from holdfast.workspace.agents import FolderAgents
from tests.scenario.agents.fake_tools import BlockingTool
from tests.scenario.agents.subagent_calls import (
    ASK,
    TOOLS,
    message,
    results,
    runs_of,
    send,
    spawn,
    subscribe,
)
from tests.scenario.agents.workshop import SPACE, Workshop, call, calling, say


class TestCircles:
    """Nobody waits for somebody who waits for him."""

    async def test_a_message_to_a_run_that_waits_for_the_sender_is_refused(self, anywhere: Workshop) -> None:
        """`mid` waits for `leaf`, which writes to the thread of `mid`: the name of that is in its task."""
        anywhere.agent(calling(call("agent_spawn", agent="mid", input="go")), say("{$last_tool}"), tools=TOOLS)
        anywhere.agent(calling(spawn("leaf")), say("{$last_tool}"), name="mid", tools=TOOLS)
        gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
        anywhere.agent(calling(call("gate")), say("later"), name="leaf", tools=[*TOOLS, "gate"])
        async with anywhere.open(gate) as floor:
            run = await floor.start()
            await gate.begun.acquire()
            (mid,) = await runs_of(floor, "mid")
            await floor.comes_to(mid, RunStatus.WAITING)
            anywhere.script(
                calling(call("gate")),
                calling(message("hm?", to="mid", thread_id=mid.thread_id)),
                say("{$last_tool}"),
                agent="leaf",
            )
            gate.open.set()
            ended = await floor.ended(run)
            assert len(await runs_of(floor, "mid")) == 1, "nothing was begun"
        assert str(ended.output).startswith("WOULD_DEADLOCK: run `")

    async def test_a_wait_for_a_task_that_waits_for_the_waiter_is_refused(self, workshop: Workshop) -> None:
        workshop.agent(calling(spawn()), say("{$last_tool}"), tools=TOOLS)
        workshop.agent(calling(subscribe("root-run", wait=True)), say("{$last_tool}"), name="kid", tools=TOOLS)
        async with workshop.open() as floor:
            run = await floor.start(id=RunId("root-run"))
            ended = await floor.ended(run)
        assert str(ended.output).startswith("WOULD_DEADLOCK: run `root-run` already waits for run `")

    async def test_a_run_does_not_wait_for_its_own_end(self, workshop: Workshop) -> None:
        workshop.agent(calling(subscribe("own", wait=True)), say("{$last_tool}"), tools=TOOLS)
        async with workshop.open() as floor:
            ended = await floor.play(id=RunId("own"))
        assert str(ended.output).startswith("WOULD_DEADLOCK")

    async def test_one_of_two_simultaneous_mutual_waits_is_refused(self, anywhere: Workshop) -> None:
        gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
        for one, other in (("left", "right"), ("right", "left")):
            anywhere.agent(calling(call("gate")), calling(subscribe(other, wait=True)), say("{$last_tool}"), name=one)
            anywhere.configure(one, tools=[*TOOLS, "gate"])
        async with anywhere.open(gate) as floor:
            runs = [await floor.start(agent=name, id=RunId(name)) for name in ("left", "right")]
            gate.open.set()
            ended = await asyncio.gather(*map(floor.ended, runs))
        outputs = [str(run.output) for run in ended]
        assert sum(output.startswith("WOULD_DEADLOCK: ") for output in outputs) >= 1
        assert {run.status for run in ended} == {RunStatus.COMPLETED}


class TestLimits:
    """Depth, and how many may work for one run."""

    @pytest.mark.parametrize("make", [spawn(), message("x", to="bot")], ids=["agent_spawn", "agent_message"])
    async def test_the_nesting_depth_of_agents_is_limited(self, workshop: Workshop, make: dict[str, Json]) -> None:
        again = {**make, "arguments": {**make["arguments"], "agent": "bot"}}
        workshop.agent(calling(again), say("{$last_tool}"), tools=TOOLS, limits={"max_depth": 2})
        async with workshop.open() as floor:
            run = await floor.play()
            assert len(await runs_of(floor, "bot")) == 3
        told = "SPAWN_LIMIT: `max_depth` is 2, and this agent is nested that deeply: do the work yourself"
        assert run.output == told

    async def test_a_child_cannot_raise_the_depth_limit(self, workshop: Workshop) -> None:
        workshop.agent(calling(spawn()), say("{$last_tool}"), tools=TOOLS)
        workshop.agent(calling(spawn()), say("{$last_tool}"), name="kid", tools=TOOLS, limits={"max_depth": 8})
        async with workshop.open() as floor:
            run = await floor.play(limits=Limits(max_depth=1))
        assert str(run.output).startswith("SPAWN_LIMIT: `max_depth` is 1")

    async def test_the_depth_has_a_default_limit(self, workshop: Workshop) -> None:
        workshop.agent(calling(spawn("bot")), say("{$last_tool}"), tools=TOOLS)
        async with workshop.open() as floor:
            run = await floor.play()
            assert len(await runs_of(floor, "bot")) == 9
        assert str(run.output).startswith("SPAWN_LIMIT: `max_depth` is 8")

    async def test_the_number_of_active_children_is_limited(self, workshop: Workshop) -> None:
        calls = [spawn(wait=False), send("x", to="other"), spawn(), call("task_create", agent="kid", input="x")]
        workshop.agent(calling(*calls), say("done"), tools=TOOLS, limits={"max_children": 2})
        for name in ("kid", "other"):
            workshop.agent(calling(call("gate")), say("I did"), name=name, tools=["gate"])
        gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
        async with workshop.open(gate) as floor:
            run = await floor.play()
            assert len(await floor.store.runs.children(SPACE, run.id)) == 2
            told = await results(floor, run)
            gate.open.set()
            for child in await floor.store.runs.children(SPACE, run.id):
                await floor.ended(child)
        limit = "SPAWN_LIMIT: `max_children` is 2, and this run has that many active children: wait until one has ended"
        assert told[2:] == [limit, limit]

    async def test_ended_children_do_not_count(self, workshop: Workshop) -> None:
        turns = [calling(spawn()) for _ in range(3)]
        workshop.agent(*turns, say("{$last_tool}"), tools=TOOLS, limits={"max_children": 1})
        workshop.agent(say("I did"), name="kid")
        async with workshop.open() as floor:
            assert (await floor.play()).output == "I did"

    async def test_the_number_of_independent_tasks_of_a_run_is_limited(self, workshop: Workshop) -> None:
        task = call("task_spawn", agent="kid", input="x")
        workshop.agent(calling(task), calling(task, task), say("{$last_tool}"), tools=TOOLS, limits={"max_children": 2})
        workshop.agent(say("I did"), name="kid")
        async with workshop.open() as floor:
            run = await floor.play()
            assert len(await runs_of(floor, "kid")) == 2
            again = await floor.play(thread=run.thread_id)
        assert str(run.output).startswith("SPAWN_LIMIT: `max_children` is 2, and this run has started that many")
        assert str(again.output).startswith("SPAWN_LIMIT"), "the next run counts from zero, to the same end"

    @pytest.mark.parametrize("make", [spawn(), message("x")], ids=["agent_spawn", "agent_message"])
    async def test_the_budget_of_the_root_is_shared_by_its_tree(
        self, workshop: Workshop, make: dict[str, Json]
    ) -> None:
        spent = {"input_tokens": 50, "output_tokens": 10}
        workshop.agent(calling(make, usage=spent), say("never", usage=spent), tools=TOOLS)
        workshop.agent(say("I did", usage=spent), name="kid")
        async with workshop.open() as floor:
            run = await floor.play(limits=Limits(token_budget=100))
            child = await floor.child(run)
        assert child.status is RunStatus.COMPLETED
        assert run.error is not None and run.error.code == "BUDGET_EXCEEDED"


class TestEnds:
    """What becomes of children when the run ends that waits for them."""

    @pytest.mark.parametrize("make", [spawn(), message("x")], ids=["agent_spawn", "agent_message"])
    async def test_a_failed_run_ends_the_children_that_it_waits_for(
        self, workshop: Workshop, make: dict[str, Json]
    ) -> None:
        detached = call("agent_spawn", agent="other", input="x", wait=False)
        workshop.agent(calling(detached, make), say("never"), tools=TOOLS)
        for name in ("kid", "other"):
            workshop.agent(calling(ASK), say("I did"), name=name, tools=TOOLS)
        async with workshop.open() as floor:
            run = await floor.start()
            await floor.asks(run, 2)
            await floor.until(run, lambda event: isinstance(event, RunFinished))
            shutil.rmtree(workshop.folder / "agents" / "bot")
            assert isinstance(floor.holdfast.agents, FolderAgents)
            floor.holdfast.agents.refresh()
            await floor.runs.steer(SPACE, run.id, "go on")
            ended = await floor.ended(run)
            kid, other = (await runs_of(floor, "kid"))[0], (await runs_of(floor, "other"))[0]
        assert ended.status is RunStatus.FAILED
        assert (kid.status, other.status) == (RunStatus.CANCELLED, RunStatus.WAITING)
