"""A process that stops in the middle of a run: the run is requeued, and another process completes it."""

from datetime import timedelta

import pytest

from holdfast.domain.content import Json
from holdfast.domain.events.custom import MessagesAbandoned
from holdfast.domain.message import Role
from holdfast.domain.run import RunStatus
from holdfast.domain.step import StepState
from holdfast.domain.tool import ToolClass
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace, call, calling, say
from tests.scenario.agents.fake_tools import READ_ONLY, BlockingTool

NOW = timedelta()
LATER = timedelta(seconds=60)


async def test_an_interrupted_model_call_is_repeated(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(say("one moment", stall=True))
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        await runtime.wait_for_event(run, lambda event: "one moment" in str(event))
        runtime.holdfast.engine.drain(NOW)
    any_workspace.script(say("here it is"))
    async with any_workspace.open() as runtime:
        ended_run = await runtime.wait_until_ended(run)
        void = await runtime.custom_events(run, MessagesAbandoned)
        texts = await runtime.texts(run)
    assert (ended_run.status, ended_run.output) == (RunStatus.COMPLETED, "here it is")
    assert texts == ["user: go", "assistant: here it is"]
    assert len(void) == 1


@pytest.mark.parametrize("fields", [READ_ONLY, {"kind": ToolClass.IDEMPOTENT}, {}], ids=["reads", "repeats", "acts"])
async def test_an_interrupted_idempotent_tool_is_run_again(
    any_workspace: AgentWorkspace, fields: dict[str, Json]
) -> None:
    gate = BlockingTool(**fields)
    any_workspace.agent(calling(call("gate")), say("{$last_tool}"), tools=["gate"])
    async with any_workspace.open(gate) as runtime:
        run = await runtime.start()
        await gate.started.acquire()
        runtime.holdfast.engine.drain(NOW)
    gate.open.set()
    async with any_workspace.open(gate) as runtime:
        ended_run = await runtime.wait_until_ended(run)
        (step,) = [step for step in await runtime.steps(run) if step.name == "gate"]
    assert gate.cancellations == 1
    if fields:
        assert (gate.call_count, step.state, ended_run.output) == (2, StepState.DONE, "open")
    else:
        assert (gate.call_count, step.state) == (1, StepState.UNKNOWN)
        assert "nobody knows whether it happened" in str(ended_run.output)


@pytest.mark.parametrize("fields", [READ_ONLY, {"kind": ToolClass.IDEMPOTENT}, {}], ids=["reads", "repeats", "acts"])
async def test_a_tool_that_ends_within_the_drain_timeout_is_not_cancelled(
    any_workspace: AgentWorkspace, fields: dict[str, Json]
) -> None:
    gate = BlockingTool(**fields)
    any_workspace.agent(calling(call("gate")), say("{$last_tool}"), tools=["gate"])
    async with any_workspace.open(gate) as runtime:
        run = await runtime.start()
        await gate.started.acquire()
        runtime.holdfast.engine.drain(LATER)
        gate.open.set()
    async with any_workspace.open(gate) as runtime:
        ended_run = await runtime.wait_until_ended(run)
        states = [step.state for step in await runtime.steps(run)]
        results = [message for message in await runtime.messages(run) if message.role is Role.TOOL]
    assert (gate.call_count, gate.cancellations) == (1, 0)
    assert states == [StepState.DONE] * 3
    assert (ended_run.output, len(results)) == ("open", 1)


async def test_messages_that_arrive_without_a_worker_are_read_later(any_workspace: AgentWorkspace) -> None:
    gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
    any_workspace.agent(calling(call("gate")), say("{$last_user}"), tools=["gate"])
    async with any_workspace.open(gate) as runtime:
        run = await runtime.start()
        await gate.started.acquire()
        runtime.holdfast.engine.drain(NOW)
    gate.open.set()
    async with any_workspace.open(gate, workers=0) as runtime:
        await runtime.runs.steer(SPACE, run.id, "are you there?")
    async with any_workspace.open(gate) as runtime:
        assert (await runtime.wait_until_ended(run)).output == "are you there?"


async def test_a_closed_process_releases_all_its_runs(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(
        calling(call("log_write", message="x"), say="hm", chunks=3, delay_ms=5), say("done"), tools=["log_write"]
    )
    async with any_workspace.open(workers=8, drain=NOW) as runtime:
        runs = [await runtime.start() for _ in range(12)]
        await runtime.wait_for_event(runs[0], lambda event: "hm" in str(event) or "log_write" in str(event))
    async with any_workspace.open(workers=8) as runtime:
        ended_runs = [await runtime.wait_until_ended(run) for run in runs]
        for run in ended_runs:
            await runtime.events(run)
    assert {run.output for run in ended_runs} == {"done"}
