"""Limits of subagents: no cycles of waits, limited depth and number, and a shared budget."""

import asyncio
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict
from holdfast.domain.events import RunFinished
from holdfast.domain.ids import RunId
from holdfast.domain.limits import Limits
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.tool import ToolClass
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace, call, calling, say
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


def _lose_version(database: str | Path, run: Run) -> bool:
    """Name a version that does not exist as that of a run, if the run waits; return whether it did."""
    with closing(sqlite3.connect(database)) as connection, connection:
        waiting = "SELECT run_key FROM run_heads WHERE status = 'waiting'"
        change = f"UPDATE runs SET agent_version = 'lost' WHERE id = ? AND run_key IN ({waiting})"
        return connection.execute(change, [run.id]).rowcount == 1


class TestCircles:
    """Cycles of waits are refused."""

    async def test_a_message_to_a_run_that_waits_for_the_sender_is_refused(self, any_workspace: AgentWorkspace) -> None:
        """`mid` waits for `leaf`, which sends a message to the thread of `mid`, named in its task."""
        any_workspace.agent(calling(call("agent_spawn", agent="mid", input="go")), say("{$last_tool}"), tools=TOOLS)
        any_workspace.agent(calling(spawn("leaf")), say("{$last_tool}"), name="mid", tools=TOOLS)
        gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
        any_workspace.agent(calling(call("gate")), say("later"), name="leaf", tools=[*TOOLS, "gate"])
        async with any_workspace.open(gate) as runtime:
            run = await runtime.start()
            await gate.started.acquire()
            (mid,) = await runs_of(runtime, "mid")
            await runtime.wait_for_status(mid, RunStatus.WAITING)
            any_workspace.script(
                calling(call("gate")),
                calling(message("hm?", to="mid", thread_id=mid.thread_id)),
                say("{$last_tool}"),
                agent="leaf",
            )
            gate.open.set()
            ended_run = await runtime.wait_until_ended(run)
            assert len(await runs_of(runtime, "mid")) == 1, "nothing was begun"
        assert str(ended_run.output).startswith("WOULD_DEADLOCK: run `")

    async def test_a_wait_for_a_task_that_waits_for_the_waiter_is_refused(self, workspace: AgentWorkspace) -> None:
        workspace.agent(calling(spawn()), say("{$last_tool}"), tools=TOOLS)
        workspace.agent(calling(subscribe("root-run", wait=True)), say("{$last_tool}"), name="kid", tools=TOOLS)
        async with workspace.open() as runtime:
            run = await runtime.start(id=RunId("root-run"))
            ended_run = await runtime.wait_until_ended(run)
        assert str(ended_run.output).startswith("WOULD_DEADLOCK: run `root-run` already waits for run `")

    async def test_a_run_does_not_wait_for_its_own_end(self, workspace: AgentWorkspace) -> None:
        workspace.agent(calling(subscribe("own", wait=True)), say("{$last_tool}"), tools=TOOLS)
        async with workspace.open() as runtime:
            ended_run = await runtime.run_to_end(id=RunId("own"))
        assert str(ended_run.output).startswith("WOULD_DEADLOCK")

    async def test_one_of_two_simultaneous_mutual_waits_is_refused(self, any_workspace: AgentWorkspace) -> None:
        gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
        for one, other in (("left", "right"), ("right", "left")):
            any_workspace.agent(
                calling(call("gate")), calling(subscribe(other, wait=True)), say("{$last_tool}"), name=one
            )
            any_workspace.configure(one, tools=[*TOOLS, "gate"])
        async with any_workspace.open(gate) as runtime:
            runs = [await runtime.start(agent=name, id=RunId(name)) for name in ("left", "right")]
            gate.open.set()
            ended_runs = await asyncio.gather(*map(runtime.wait_until_ended, runs))
        outputs = [str(run.output) for run in ended_runs]
        assert sum(output.startswith("WOULD_DEADLOCK: ") for output in outputs) >= 1
        assert {run.status for run in ended_runs} == {RunStatus.COMPLETED}


class TestLimits:
    """Limits of depth and of the number of children."""

    @pytest.mark.parametrize("make", [spawn(), message("x", to="bot")], ids=["agent_spawn", "agent_message"])
    async def test_the_nesting_depth_of_agents_is_limited(
        self, workspace: AgentWorkspace, make: dict[str, Json]
    ) -> None:
        nested_call = {**make, "arguments": {**make["arguments"], "agent": "bot"}}
        workspace.agent(calling(nested_call), say("{$last_tool}"), tools=TOOLS, limits={"max_depth": 2})
        async with workspace.open() as runtime:
            run = await runtime.run_to_end()
            assert len(await runs_of(runtime, "bot")) == 3
        refusal = "SPAWN_LIMIT: `max_depth` is 2, and this agent is nested that deeply: do the work yourself"
        assert run.output == refusal

    async def test_a_child_cannot_raise_the_depth_limit(self, workspace: AgentWorkspace) -> None:
        workspace.agent(calling(spawn()), say("{$last_tool}"), tools=TOOLS)
        workspace.agent(calling(spawn()), say("{$last_tool}"), name="kid", tools=TOOLS, limits={"max_depth": 8})
        async with workspace.open() as runtime:
            run = await runtime.run_to_end(limits=Limits(max_depth=1))
        assert str(run.output).startswith("SPAWN_LIMIT: `max_depth` is 1")

    async def test_the_depth_has_a_default_limit(self, workspace: AgentWorkspace) -> None:
        workspace.agent(calling(spawn("bot")), say("{$last_tool}"), tools=TOOLS)
        async with workspace.open() as runtime:
            run = await runtime.run_to_end()
            assert len(await runs_of(runtime, "bot")) == 9
        assert str(run.output).startswith("SPAWN_LIMIT: `max_depth` is 8")

    async def test_the_number_of_active_children_is_limited(self, workspace: AgentWorkspace) -> None:
        calls = [spawn(wait=False), send("x", to="other"), spawn(), call("task_create", agent="kid", input="x")]
        workspace.agent(calling(*calls), say("done"), tools=TOOLS, limits={"max_children": 2})
        for name in ("kid", "other"):
            workspace.agent(calling(call("gate")), say("I did"), name=name, tools=["gate"])
        gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
        async with workspace.open(gate) as runtime:
            run = await runtime.run_to_end()
            assert len(await runtime.store.runs.children(SPACE, run.id)) == 2
            tool_results = await results(runtime, run)
            gate.open.set()
            for child in await runtime.store.runs.children(SPACE, run.id):
                await runtime.wait_until_ended(child)
        limit = "SPAWN_LIMIT: `max_children` is 2, and this run has that many active children: wait until one has ended"
        assert tool_results[2:] == [limit, limit]

    async def test_ended_children_do_not_count(self, workspace: AgentWorkspace) -> None:
        turns = [calling(spawn()) for _ in range(3)]
        workspace.agent(*turns, say("{$last_tool}"), tools=TOOLS, limits={"max_children": 1})
        workspace.agent(say("I did"), name="kid")
        async with workspace.open() as runtime:
            assert (await runtime.run_to_end()).output == "I did"

    async def test_the_number_of_independent_tasks_of_a_run_is_limited(self, workspace: AgentWorkspace) -> None:
        task = call("task_spawn", agent="kid", input="x")
        workspace.agent(
            calling(task), calling(task, task), say("{$last_tool}"), tools=TOOLS, limits={"max_children": 2}
        )
        workspace.agent(say("I did"), name="kid")
        async with workspace.open() as runtime:
            run = await runtime.run_to_end()
            assert len(await runs_of(runtime, "kid")) == 2
            next_run = await runtime.run_to_end(thread=run.thread_id)
        assert str(run.output).startswith("SPAWN_LIMIT: `max_children` is 2, and this run has started that many")
        assert str(next_run.output).startswith("SPAWN_LIMIT"), "the next run counts from zero, to the same end"

    @pytest.mark.parametrize("make", [spawn(), message("x")], ids=["agent_spawn", "agent_message"])
    async def test_the_budget_of_the_root_is_shared_by_its_tree(
        self, workspace: AgentWorkspace, make: dict[str, Json]
    ) -> None:
        spent = {"input_tokens": 50, "output_tokens": 10}
        workspace.agent(calling(make, usage=spent), say("never", usage=spent), tools=TOOLS)
        workspace.agent(say("I did", usage=spent), name="kid")
        async with workspace.open() as runtime:
            run = await runtime.run_to_end(limits=Limits(token_budget=100))
            child = await runtime.child(run)
        assert child.status is RunStatus.COMPLETED
        assert run.error is not None and run.error.code == "BUDGET_EXCEEDED"


class TestEnds:
    """The end of a run also ends the children that it waits for."""

    @pytest.mark.parametrize("make", [spawn(), message("x")], ids=["agent_spawn", "agent_message"])
    async def test_a_failed_run_ends_the_children_that_it_waits_for(
        self, workspace: AgentWorkspace, make: dict[str, Json]
    ) -> None:
        detached = call("agent_spawn", agent="other", input="x", wait=False)
        workspace.agent(calling(detached, make), say("never"), tools=TOOLS)
        for name in ("kid", "other"):
            workspace.agent(calling(ASK), say("I did"), name=name, tools=TOOLS)
        async with workspace.open() as runtime:
            run = await runtime.start()
            await runtime.wait_for_interrupts(run, 2)
            await runtime.wait_for_event(run, lambda event: isinstance(event, RunFinished))
            while not _lose_version(workspace.database, run):  # a child that asks may have woken it once more
                await runtime.wait_for_status(run, RunStatus.WAITING)
            with suppress(Conflict):
                await runtime.runs.steer(SPACE, run.id, "go on")
            ended_run = await runtime.wait_until_ended(run)
            kid, other = (await runs_of(runtime, "kid"))[0], (await runs_of(runtime, "other"))[0]
        assert ended_run.status is RunStatus.FAILED
        assert (kid.status, other.status) == (RunStatus.CANCELLED, RunStatus.WAITING)
