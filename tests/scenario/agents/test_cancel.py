"""Cancelling a run: at whatever moment, all of its tree ends, nothing goes on, and nothing is left open."""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, IllegalMove
from holdfast.domain.events import RunFinished, RunStarted
from holdfast.domain.events.input import Cancelled
from holdfast.domain.ids import RunId
from holdfast.domain.message import open_calls
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.step import StepState
from holdfast.domain.tool import ToolClass, ToolSpec
from holdfast.ports.processes import Command
from holdfast.sandbox.processes import open_processes
from holdfast.testing.openai_server import Fault, OpenAIServer, Reply
from holdfast.tools.tool import Call, Outcome
from tests.scenario.agents.handwork import ANYTHING, READ_ONLY, Gate, Handmade
from tests.scenario.agents.workshop import SPACE, STAND_IN, Floor, Workshop, call, calling, say

SEED: Final = 20_260_131
CANCELS: Final = 200
CANCELS_ON_POSTGRES: Final = 40
AT_ONCE: Final = 20
SOON: Final = 1.0
"""Seconds after which nothing may go on."""


class Ticking:
    """`Tool` that takes a while, and notes when it was last seen at work for a run."""

    def __init__(self, name: str, **fields: Json) -> None:
        self.spec = ToolSpec(name=name, description=name, parameters=ANYTHING, **fields)
        self.seen: dict[RunId, float] = {}

    async def run(self, call: Call, arguments: dict[str, Json]) -> Outcome:
        """Tick for a while."""
        for _ in range(5):
            await asyncio.sleep(0.002)
            self.seen[call.run.id] = asyncio.get_running_loop().time()
        return Outcome(content="ticked")


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


async def tree(floor: Floor, run: Run) -> list[Run]:
    """Return a run and all below it."""
    below = [await tree(floor, child) for child in await floor.store.runs.children(SPACE, run.id)]
    return [await floor.get(run), *(each for part in below for each in part)]


async def answer_all(floor: Floor) -> None:
    """Answer every question, until cancelled."""
    while True:
        for asked in (await floor.store.interrupts.page(SPACE)).items:
            with suppress(Conflict):
                await floor.runs.respond(SPACE, asked.run_id, "yes", interrupt=asked.id)
        await asyncio.sleep(0.005)


async def cancel_at(floor: Floor, moment: float) -> tuple[Run, float | None]:
    """Start a run and cancel it after so many seconds; return when, unless it had ended before."""
    run = await floor.start()
    await asyncio.sleep(moment)
    try:
        await floor.runs.cancel(SPACE, run.id, by="ada", reason="enough")
    except IllegalMove:
        return run, None
    return run, asyncio.get_running_loop().time()


async def check_ended(floor: Floor, run: Run) -> None:
    """See that a run, which was cancelled, has left nothing open, and neither have those below it."""
    for each in await tree(floor, run):
        assert each.status.terminal
        assert open_calls(await floor.messages(each)) == []
        events = await floor.events(each)
        ends = sum(isinstance(event, RunFinished) for event in events)
        assert ends <= sum(isinstance(event, RunStarted) for event in events)
        assert all(step.state.settled for step in await floor.steps(each))


async def hunt(workshop: Workshop, cancels: int) -> None:
    """Cancel so many runs at random moments."""
    random, tools = Random(SEED), (Ticking("look", **READ_ONLY), Ticking("act"))
    busy(workshop)
    async with workshop.open(*tools, workers=AT_ONCE) as floor, asyncio.TaskGroup() as group:
        answering = group.create_task(answer_all(floor))
        took = await _time(floor)
        cancelled: list[tuple[Run, float]] = []
        for _ in range(cancels // AT_ONCE):
            moments = [random.uniform(0, 2 * took) for _ in range(AT_ONCE)]
            done = await asyncio.gather(*(cancel_at(floor, moment) for moment in moments))
            cancelled += [(run, at) for run, at in done if at is not None]
        answering.cancel()
        await asyncio.sleep(SOON)
        for run, at in cancelled:
            await check_ended(floor, run)
            for each in await tree(floor, run):
                assert all(tool.seen.get(each.id, 0.0) < at + SOON for tool in tools)
    assert len(cancelled) > cancels // 4


async def _time(floor: Floor) -> float:
    """Return how long runs take that nobody cancels."""
    began = asyncio.get_running_loop().time()
    assert (await floor.play()).status is RunStatus.COMPLETED
    return asyncio.get_running_loop().time() - began


async def test_two_hundred_cancels_at_random_moments_leave_nothing_behind(workshop: Workshop) -> None:
    await hunt(workshop, CANCELS)


async def test_cancels_at_random_moments_leave_nothing_behind_on_postgres(on_postgres: Workshop) -> None:
    await hunt(on_postgres, CANCELS_ON_POSTGRES)


async def test_a_cancelled_run_says_by_whom_and_why(anywhere: Workshop) -> None:
    anywhere.agent(calling(call("sleep", seconds=3600)), say("done"), tools=["sleep"])
    async with anywhere.open() as floor:
        run = await floor.start()
        await floor.comes_to(run, RunStatus.WAITING)
        ended = await floor.runs.cancel(SPACE, run.id, by="ada", reason="enough")
        events = await floor.events(run)
        assert await floor.store.timers.next_due() is None
    assert (ended.status, ended.status_reason, ended.cancelled_by) == (RunStatus.CANCELLED, "enough", "ada")
    assert isinstance(events[-1], RunFinished)
    assert isinstance(events[-1].outcome, Cancelled)


async def test_it_reaches_a_model_that_stands_still(anywhere: Workshop) -> None:
    anywhere.agent(say("one moment", stall=True))
    async with anywhere.open(workers=1) as floor:
        run = await floor.start()
        await floor.until(run, lambda event: "one moment" in str(event))
        ended = await floor.runs.cancel(SPACE, run.id)
        anywhere.script(say("free again"))
        assert (await floor.play()).output == "free again"  # by the only worker there is
        assert [step.state for step in await floor.steps(run)] == [StepState.FAILED]
        assert open_calls(await floor.messages(run)) == []
    assert ended.status is RunStatus.CANCELLED


async def test_it_closes_the_connection_to_the_provider(workshop: Workshop) -> None:
    async with OpenAIServer(Reply(text="one moment", fault=Fault.STALL)) as server:
        workshop.provider(server)
        workshop.agent(model=STAND_IN)
        async with workshop.open() as floor:
            run = await floor.start()
            await floor.until(run, lambda event: "one moment" in str(event))
            await floor.runs.cancel(SPACE, run.id)
            async with asyncio.timeout(10):
                await server.until(lambda each: each.open_connections == 0)
            assert len(server.requests) == 1


@pytest.mark.parametrize("fields", [READ_ONLY, {"kind": ToolClass.IDEMPOTENT}, {}], ids=["reads", "repeats", "acts"])
async def test_it_cuts_off_a_tool(anywhere: Workshop, fields: dict[str, Json]) -> None:
    gate = Gate(**fields)
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
async def test_it_kills_the_process_of_a_tool(workshop: Workshop, tmp_path: Path) -> None:
    began, alive = asyncio.Event(), tmp_path / "alive"
    script = f"echo up; while true; do date +%s%N > {alive}; sleep 0.01; done"

    async with open_processes() as processes:

        async def loop(arguments: dict[str, Json]) -> Outcome:
            command = Command(argv=["sh", "-c", script], folder=tmp_path, timeout=60)
            await processes.run(command, on_output=lambda _: began.set())
            return Outcome(content="over")

        workshop.agent(calling(call("loop")), say("done"), tools=["loop"])
        async with workshop.open(Handmade("loop", loop), workers=1) as floor:
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
