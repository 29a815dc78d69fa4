"""Cancelling a run at any moment ends its whole tree, and leaves nothing open."""

import asyncio
import sys
from pathlib import Path
from typing import Final

import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, IllegalMove
from holdfast.domain.events import RunFinished
from holdfast.domain.events.custom import StepChanged
from holdfast.domain.events.messages import CancelledOutcome
from holdfast.domain.message import unanswered_calls
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.step import Lane, StepState
from holdfast.domain.tool import ToolClass
from holdfast.ports.sandbox import Command
from holdfast.sandbox.processes import open_processes
from holdfast.testing.openai_server import StubFault, StubOpenAIServer, StubReply
from holdfast.tools.tool import ToolResult
from tests.scenario.agents.agent_workspace import SPACE, STAND_IN, AgentWorkspace, call, calling, say
from tests.scenario.agents.fake_tools import READ_ONLY, BlockingTool, FakeTool
from tests.scenario.agents.random_cancels import cancel_randomly, check_ended
from tests.scenario.load import HANG_TIMEOUT_SECONDS

SEED: Final = 20_260_131
CANCELS: Final = 200
CANCELS_ON_POSTGRES: Final = 40
CONCURRENCY: Final = 20


def write_agents(workspace: AgentWorkspace) -> None:
    """Write agents that use every kind of call."""
    look, act = call("look"), call("act")
    spawn = call("agent_spawn", agent="kid", input="help")
    turns = [
        calling(look, look, say="let me see", chunks=4, delay_ms=1),
        calling(act, call("agent_spawn", agent="kid", input="help", wait=False)),
        calling(spawn, call("sleep", seconds=0.01), spawn),
        calling(call("ask_user", question="may I?"), spawn),
        calling(act, look),
        say("that is all", chunks=5, delay_ms=2),
    ]
    workspace.agent(*turns, tools=["look", "act", "agent_spawn", "sleep", "ask_user"])
    workspace.script(*turns, after_last="repeat")
    workspace.agent(calling(act, say="hm", chunks=3, delay_ms=1), say("I did"), name="kid", tools=["act"])


async def test_two_hundred_cancels_at_random_moments_leave_nothing_behind(workspace: AgentWorkspace) -> None:
    write_agents(workspace)
    await cancel_randomly(workspace, cancels=CANCELS, at_once=CONCURRENCY, stretch=2, seed=SEED)


async def test_cancels_at_random_moments_leave_nothing_behind_on_postgres(postgres_workspace: AgentWorkspace) -> None:
    write_agents(postgres_workspace)
    await cancel_randomly(postgres_workspace, cancels=CANCELS_ON_POSTGRES, at_once=CONCURRENCY, stretch=2, seed=SEED)


@pytest.mark.parametrize("streaming", [False, True], ids=["stalled", "streaming"])
async def test_a_model_call_that_a_cancel_cut_off_is_settled_and_charged(
    any_workspace: AgentWorkspace, streaming: bool
) -> None:
    """The worker learns of the cancel from its heartbeat, or from the next commit of streamed text."""
    more: dict[str, Json] = {"chunks": 200, "delay_ms": 30} if streaming else {"stall": True}
    any_workspace.agent(say("one moment " * 100, **more))
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        await runtime.wait_for_event(run, lambda event: "one" in str(event) and "TextMessageContent" in str(event))
        await runtime.runs.cancel(SPACE, run.id)
        async with asyncio.timeout(HANG_TIMEOUT_SECONDS):
            while not (cancelled := await runtime.get(run)).usage.total_tokens:  # noqa: ASYNC110 - the worker stops
                await asyncio.sleep(0.01)
        steps = await runtime.custom_events(run, StepChanged)
    assert cancelled.status is RunStatus.CANCELLED and cancelled.iterations == 0
    assert cancelled.usage.input_tokens > 0 and cancelled.usage.output_tokens > 0
    assert [step.state for step in steps] == [StepState.STARTED, StepState.FAILED]


async def test_a_cancelled_run_records_principal_and_reason(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(calling(call("sleep", seconds=3600)), say("done"), tools=["sleep"])
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        await runtime.wait_for_status(run, RunStatus.WAITING)
        ended_run = await runtime.runs.cancel(SPACE, run.id, by="ada", reason="enough")
        events = await runtime.events(run)
        assert await runtime.store.timers.next_due() is None
    assert (ended_run.status, ended_run.status_reason, ended_run.cancelled_by) == (RunStatus.CANCELLED, "enough", "ada")
    assert isinstance(events[-1], RunFinished)
    assert isinstance(events[-1].outcome, CancelledOutcome)


async def test_a_stalled_model_call_is_cancelled(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(say("one moment", stall=True))
    async with any_workspace.open(workers=1) as runtime:
        run = await runtime.start()
        await runtime.wait_for_event(run, lambda event: "one moment" in str(event))
        ended_run = await runtime.runs.cancel(SPACE, run.id)
        any_workspace.script(say("free again"))
        assert (await runtime.run_to_end()).output == "free again"  # by the only worker
        assert [step.state for step in await runtime.steps(run)] == [StepState.FAILED]
        assert unanswered_calls(await runtime.messages(run)) == []
    assert ended_run.status is RunStatus.CANCELLED


@pytest.mark.parametrize("lane", list(Lane))
async def test_cancelling_closes_the_connection_to_the_provider(workspace: AgentWorkspace, lane: Lane) -> None:
    async with StubOpenAIServer(StubReply(text="one moment", fault=StubFault.STALL)) as server:
        workspace.provider(server, lane=lane)
        workspace.agent(model=STAND_IN)
        async with workspace.open() as runtime:
            run = await runtime.start()
            await runtime.wait_for_event(run, lambda event: "one moment" in str(event))
            await runtime.runs.cancel(SPACE, run.id)
            async with asyncio.timeout(60):
                await server.wait_until(lambda each: each.open_connections == 0)
            assert len(server.requests) == 1


@pytest.mark.parametrize("fields", [READ_ONLY, {"kind": ToolClass.IDEMPOTENT}, {}], ids=["reads", "repeats", "acts"])
async def test_cancelling_stops_a_tool(any_workspace: AgentWorkspace, fields: dict[str, Json]) -> None:
    gate = BlockingTool(**fields)
    any_workspace.agent(calling(call("gate"), call("gate")), say("done"), tools=["gate"])
    async with any_workspace.open(gate, workers=1) as runtime:
        run = await runtime.start()
        await gate.started.acquire()
        await runtime.runs.cancel(SPACE, run.id)
        any_workspace.script(say("free again"))
        assert (await runtime.run_to_end()).output == "free again"
        steps = await runtime.steps(run)
        await check_ended(runtime, run)
    assert gate.cancellations == gate.call_count
    effectful = [step.state for step in steps if step.effectful]
    assert effectful == ([StepState.UNKNOWN] if fields == {} else [])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only the process group is killed")
async def test_cancelling_kills_the_process_of_a_tool(workspace: AgentWorkspace, tmp_path: Path) -> None:
    began, heartbeat_file = asyncio.Event(), tmp_path / "alive"
    script = f"date > {heartbeat_file}; echo up; while true; do date +%s%N > {heartbeat_file}; sleep 0.01; done"

    async with open_processes() as processes:

        async def loop(arguments: dict[str, Json]) -> ToolResult:
            command = Command(argv=["sh", "-c", script], folder=tmp_path, timeout=60)
            await processes.run(command, on_output=lambda _: began.set())
            return ToolResult(content="over")

        workspace.agent(calling(call("loop")), say("done"), tools=["loop"])
        async with workspace.open(FakeTool("loop", loop), workers=1) as runtime:
            run = await runtime.start()
            async with asyncio.timeout(30):
                await began.wait()
            await runtime.runs.cancel(SPACE, run.id)
            workspace.script(say("free again"))
            assert (await runtime.run_to_end()).output == "free again"
            last = heartbeat_file.read_text()
            await asyncio.sleep(0.1)
            assert heartbeat_file.read_text() == last


async def test_a_run_is_cancelled_once(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(calling(call("ask_user", question="?")), say("done"), tools=["ask_user"])
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        (interrupt,) = await runtime.wait_for_interrupts(run)
        outcomes = await asyncio.gather(
            *(runtime.runs.cancel(SPACE, run.id, by=f"p{number}") for number in range(10)), return_exceptions=True
        )
        (won,) = [outcome for outcome in outcomes if isinstance(outcome, Run)]
        assert sum(isinstance(outcome, IllegalMove) for outcome in outcomes) == 9
        with pytest.raises(Conflict):
            await runtime.runs.respond(SPACE, run.id, "too late", interrupt=interrupt.id)
        assert (await runtime.get(run)).cancelled_by == won.cancelled_by
