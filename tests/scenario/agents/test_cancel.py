"""Cancelling a run at any moment ends its whole tree, and leaves nothing open."""

import asyncio
import sys
from pathlib import Path
from typing import Final

import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, IllegalMove
from holdfast.domain.events import RunFinished
from holdfast.domain.events.messages import CancelledOutcome
from holdfast.domain.message import unanswered_calls
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.step import StepState
from holdfast.domain.tool import ToolClass
from holdfast.ports.sandbox import Command
from holdfast.sandbox.processes import open_processes
from holdfast.testing.openai_server import StubFault, StubOpenAIServer, StubReply
from holdfast.tools.tool import ToolResult
from tests.scenario.agents.fake_tools import READ_ONLY, BlockingTool, FakeTool
from tests.scenario.agents.random_cancels import cancel_randomly, check_ended
from tests.scenario.agents.workshop import SPACE, STAND_IN, Workshop, call, calling, say

SEED: Final = 20_260_131
CANCELS: Final = 200
CANCELS_ON_POSTGRES: Final = 40
AT_ONCE: Final = 20


def busy(workshop: Workshop) -> None:
    """Write agents that do a bit of everything."""
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
    workshop.agent(*turns, tools=["look", "act", "agent_spawn", "sleep", "ask_user"])
    workshop.script(*turns, after_last="repeat")
    workshop.agent(calling(act, say="hm", chunks=3, delay_ms=1), say("I did"), name="kid", tools=["act"])


async def test_two_hundred_cancels_at_random_moments_leave_nothing_behind(workshop: Workshop) -> None:
    busy(workshop)
    await cancel_randomly(workshop, cancels=CANCELS, at_once=AT_ONCE, stretch=2, seed=SEED)


async def test_cancels_at_random_moments_leave_nothing_behind_on_postgres(on_postgres: Workshop) -> None:
    busy(on_postgres)
    await cancel_randomly(on_postgres, cancels=CANCELS_ON_POSTGRES, at_once=AT_ONCE, stretch=2, seed=SEED)


async def test_a_cancelled_run_records_principal_and_reason(anywhere: Workshop) -> None:
    anywhere.agent(calling(call("sleep", seconds=3600)), say("done"), tools=["sleep"])
    async with anywhere.open() as floor:
        run = await floor.start()
        await floor.comes_to(run, RunStatus.WAITING)
        ended = await floor.runs.cancel(SPACE, run.id, by="ada", reason="enough")
        events = await floor.events(run)
        assert await floor.store.timers.next_due() is None
    assert (ended.status, ended.status_reason, ended.cancelled_by) == (RunStatus.CANCELLED, "enough", "ada")
    assert isinstance(events[-1], RunFinished)
    assert isinstance(events[-1].outcome, CancelledOutcome)


async def test_a_stalled_model_call_is_cancelled(anywhere: Workshop) -> None:
    anywhere.agent(say("one moment", stall=True))
    async with anywhere.open(workers=1) as floor:
        run = await floor.start()
        await floor.until(run, lambda event: "one moment" in str(event))
        ended = await floor.runs.cancel(SPACE, run.id)
        anywhere.script(say("free again"))
        assert (await floor.play()).output == "free again"  # by the only worker there is
        assert [step.state for step in await floor.steps(run)] == [StepState.FAILED]
        assert unanswered_calls(await floor.messages(run)) == []
    assert ended.status is RunStatus.CANCELLED


async def test_cancelling_closes_the_connection_to_the_provider(workshop: Workshop) -> None:
    async with StubOpenAIServer(StubReply(text="one moment", fault=StubFault.STALL)) as server:
        workshop.provider(server)
        workshop.agent(model=STAND_IN)
        async with workshop.open() as floor:
            run = await floor.start()
            await floor.until(run, lambda event: "one moment" in str(event))
            await floor.runs.cancel(SPACE, run.id)
            async with asyncio.timeout(10):
                await server.wait_until(lambda each: each.open_connections == 0)
            assert len(server.requests) == 1


@pytest.mark.parametrize("fields", [READ_ONLY, {"kind": ToolClass.IDEMPOTENT}, {}], ids=["reads", "repeats", "acts"])
async def test_cancelling_stops_a_tool(anywhere: Workshop, fields: dict[str, Json]) -> None:
    gate = BlockingTool(**fields)
    anywhere.agent(calling(call("gate"), call("gate")), say("done"), tools=["gate"])
    async with anywhere.open(gate, workers=1) as floor:
        run = await floor.start()
        await gate.begun.acquire()
        await floor.runs.cancel(SPACE, run.id)
        anywhere.script(say("free again"))
        assert (await floor.play()).output == "free again"
        steps = await floor.steps(run)
        await check_ended(floor, run)
    assert gate.cut == gate.times
    effectful = [step.state for step in steps if step.effectful]
    assert effectful == ([StepState.UNKNOWN] if fields == {} else [])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only the process group is killed")
async def test_cancelling_kills_the_process_of_a_tool(workshop: Workshop, tmp_path: Path) -> None:
    began, alive = asyncio.Event(), tmp_path / "alive"
    script = f"date > {alive}; echo up; while true; do date +%s%N > {alive}; sleep 0.01; done"

    async with open_processes() as processes:

        async def loop(arguments: dict[str, Json]) -> ToolResult:
            command = Command(argv=["sh", "-c", script], folder=tmp_path, timeout=60)
            await processes.run(command, on_output=lambda _: began.set())
            return ToolResult(content="over")

        workshop.agent(calling(call("loop")), say("done"), tools=["loop"])
        async with workshop.open(FakeTool("loop", loop), workers=1) as floor:
            run = await floor.start()
            async with asyncio.timeout(30):
                await began.wait()
            await floor.runs.cancel(SPACE, run.id)
            workshop.script(say("free again"))
            assert (await floor.play()).output == "free again"
            last = alive.read_text()
            await asyncio.sleep(0.1)
            assert alive.read_text() == last


async def test_a_run_is_cancelled_once(anywhere: Workshop) -> None:
    anywhere.agent(calling(call("ask_user", question="?")), say("done"), tools=["ask_user"])
    async with anywhere.open() as floor:
        run = await floor.start()
        (asked,) = await floor.asks(run)
        outcomes = await asyncio.gather(
            *(floor.runs.cancel(SPACE, run.id, by=f"p{number}") for number in range(10)), return_exceptions=True
        )
        (won,) = [outcome for outcome in outcomes if isinstance(outcome, Run)]
        assert sum(isinstance(outcome, IllegalMove) for outcome in outcomes) == 9
        with pytest.raises(Conflict):
            await floor.runs.respond(SPACE, run.id, "too late", interrupt=asked.id)
        assert (await floor.get(run)).cancelled_by == won.cancelled_by
