"""Trees of runs that are cancelled at random moments, and checks of the result."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any, Final, NamedTuple, Self

from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, IllegalMove
from holdfast.domain.events import RunFinished, RunStarted
from holdfast.domain.ids import RunId
from holdfast.domain.instant import millis
from holdfast.domain.message import unanswered_calls
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.tool import ToolSpec
from holdfast.metrics.observed_calls import ObservedModel
from holdfast.ports.log import Journal
from holdfast.ports.model import Model, ModelDelta, ModelRequest
from holdfast.ports.runtime import Executor
from holdfast.tools.tool import ToolContext, ToolResult, passthrough
from tests.scenario.agents.agent_workspace import HANG_TIMEOUT_SECONDS, SPACE, AgentRuntime, AgentWorkspace
from tests.scenario.agents.fake_tools import ANYTHING, READ_ONLY

TICK_SECONDS: Final = 0.002
"""The shortest duration of a tick in seconds; on a busy machine it takes longer."""
SHORT_CALL_TICKS: Final = 5
"""Ticks of a short call."""
TICKS_PER_SECOND: Final = 500
"""Ticks that take at least a second; a cancelled call must end within fewer."""
LONG_CALL_TICKS: Final = 5 * TICKS_PER_SECOND
"""Ticks of a call that must be cancelled before its end."""
LONG_CALL_SHARE: Final = 0.2
"""The share of long calls."""


class TickingTool:
    """`Tool` that takes a while, and counts its ticks for each run."""

    def __init__(self, name: str, random: Random, **fields: Any) -> None:
        self.spec = ToolSpec(name=name, description=name, parameters=ANYTHING, **fields)
        self.ticks: Counter[RunId] = Counter()
        self.active_calls = 0
        self.long_calls_enabled = False
        self._random = random

    async def run(self, call: ToolContext, arguments: dict[str, Json]) -> ToolResult:
        """Tick for a while."""
        self.active_calls += 1
        try:
            for _ in range(
                LONG_CALL_TICKS
                if self.long_calls_enabled and self._random.random() < LONG_CALL_SHARE
                else SHORT_CALL_TICKS
            ):
                await asyncio.sleep(TICK_SECONDS)
                self.ticks[call.run.id] += 1
        finally:
            self.active_calls -= 1
        return ToolResult(content="ticked")


class CallCounter:
    """`Tracer` that counts the model calls of each run."""

    middleware = staticmethod(passthrough)

    def __init__(self) -> None:
        self.calls: Counter[RunId] = Counter()
        self.active_calls = 0

    def model(self, model: Model) -> Model:
        """Return a model whose calls are counted."""
        return ObservedModel(model, self._begin)

    def executor(self, executor: Executor) -> Executor:
        """Return the executor."""
        return executor

    def journal(self, journal: Journal) -> Journal:
        """Return the journal."""
        return journal

    def on_delta(self, delta: ModelDelta) -> None:
        """Ignore a delta."""

    def on_error(self, error: BaseException) -> None:
        """Ignore an error."""

    def on_end(self) -> None:
        """Count a call as ended."""
        self.active_calls -= 1

    def _begin(self, model: Model, request: ModelRequest) -> Self:
        self.calls[request.run_id] += 1
        self.active_calls += 1
        return self


class Cancelled(NamedTuple):
    """A cancelled run, with the ticks of each tool and the model calls of all runs until then."""

    run: Run
    ticks: Sequence[Counter[RunId]]
    calls: Counter[RunId]


async def cancel_randomly(workspace: AgentWorkspace, *, cancels: int, at_once: int, stretch: float, seed: int) -> None:
    """Cancel so many runs at random moments, up to `stretch` times the duration of a run after their start."""
    random = Random(seed)
    tools = (TickingTool("look", random, **READ_ONLY), TickingTool("act", random))
    models = CallCounter()
    outcomes: list[tuple[Cancelled, list[Run]]] = []
    async with workspace.open(*tools, workers=at_once, tracing=models) as runtime, asyncio.TaskGroup() as group:
        responder = group.create_task(answer_all(runtime))
        duration = await _duration(runtime)
        for tool in tools:
            tool.long_calls_enabled = True
        while len(outcomes) < cancels:
            delays = [random.uniform(0, stretch * duration) for _ in range(at_once)]
            cancelled = await asyncio.gather(*(_cancel_at(runtime, delay, tools, models) for delay in delays))
            outcomes += [(each, await tree(runtime, each.run)) for each in cancelled if each is not None]
        responder.cancel()
        await _wait_until_idle(*tools, models)
        for each, _ in outcomes:
            await check_ended(runtime, each.run)
    for each, runs in outcomes:
        for run in runs:
            late_ticks = [
                tool.ticks[run.id] - ticks_at_cancel[run.id]
                for tool, ticks_at_cancel in zip(tools, each.ticks, strict=True)
            ]
            assert max(late_ticks) < TICKS_PER_SECOND, (
                f"`{run.agent_type}` was running after it was cancelled: {late_ticks} ticks"
            )
            # One call may have been about to start, and was cancelled; before the next there is a commit.
            assert models.calls[run.id] - each.calls[run.id] <= 1


async def tree(runtime: AgentRuntime, run: Run) -> list[Run]:
    """Return a run and all its descendants."""
    subtrees = [await tree(runtime, child) for child in await runtime.store.runs.children(SPACE, run.id)]
    return [await runtime.get(run), *(each for part in subtrees for each in part)]


async def answer_all(runtime: AgentRuntime) -> None:
    """Answer every interrupt, until cancelled."""
    while True:
        for interrupt in (await runtime.store.interrupts.page(SPACE)).items:
            with suppress(Conflict):
                await runtime.runs.respond(SPACE, interrupt.run_id, "yes", interrupt=interrupt.id)
        await asyncio.sleep(0.005)


async def check_ended(runtime: AgentRuntime, run: Run) -> None:
    """Check that a cancelled run and its descendants ended with nothing open, and none later than the run."""
    root, *descendants = await tree(runtime, run)
    assert root.completed_at is not None
    for each in (root, *descendants):
        assert each.status.terminal
        assert each.completed_at is not None
        assert millis(each.completed_at) <= millis(root.completed_at)
        assert unanswered_calls(await runtime.messages(each)) == []
        events = await runtime.events(each)
        ends = sum(isinstance(event, RunFinished) for event in events)
        assert ends <= sum(isinstance(event, RunStarted) for event in events)
        assert all(step.state.settled for step in await runtime.steps(each))


async def _cancel_at(
    runtime: AgentRuntime, delay: float, tools: Sequence[TickingTool], models: CallCounter
) -> Cancelled | None:
    """Start a run and cancel it after `delay` seconds, unless it has ended before."""
    run = await runtime.start()
    await asyncio.sleep(delay)
    try:
        await runtime.runs.cancel(SPACE, run.id, by="ada", reason="enough")
    except IllegalMove:
        return None
    return Cancelled(run, [tool.ticks.copy() for tool in tools], models.calls.copy())


async def _wait_until_idle(*counters: TickingTool | CallCounter) -> None:
    """Wait until no call is running any more."""
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS):
        while any(each.active_calls for each in counters):  # noqa: ASYNC110  a cancelled call sends no event
            await asyncio.sleep(TICK_SECONDS)


async def _duration(runtime: AgentRuntime) -> float:
    """Return the duration of a run that is not cancelled."""
    started = asyncio.get_running_loop().time()
    assert (await runtime.run_to_end()).status is RunStatus.COMPLETED
    return asyncio.get_running_loop().time() - started
