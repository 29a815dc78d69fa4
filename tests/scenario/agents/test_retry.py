"""Retry of a stopped run: after its last settled step, or from the start."""

import pytest

from holdfast.domain.content import Json
from holdfast.domain.run import RunStatus
from tests.scenario.agents.fake_tools import BlockingTool, answers
from tests.scenario.agents.workshop import SPACE, Workshop, call, calling, say

LOOK = [calling(call("look", n=number), usage={"input_tokens": 60, "output_tokens": 0}) for number in range(4)]


@pytest.mark.parametrize(
    ("limits", "code"), [({"max_iterations": 3}, "ITERATION_LIMIT"), ({"token_budget": 150}, "BUDGET_EXCEEDED")]
)
async def test_a_retry_after_a_limit_has_the_whole_limit_again(
    anywhere: Workshop, limits: dict[str, Json], code: str
) -> None:
    tool = answers("look", "seen")
    anywhere.agent(*LOOK, say("done"), tools=["look"], limits=limits)
    async with anywhere.open(tool) as floor:
        stopped = await floor.play()
        assert stopped.error is not None and stopped.error.code == code
        again = await floor.ended((await floor.runs.retry(SPACE, stopped.id)).run)
        said = await floor.said(again)
        told = await floor.context(again, 0)
    assert again.output == "done"
    assert said == ["assistant: ", "tool: seen", "assistant: done"]
    assert len(tool.calls) == 4
    assert len(told.messages) == 7


async def test_a_retry_after_a_refusal_continues_once_it_is_fixed(workshop: Workshop) -> None:
    tool = answers("look", "seen")
    workshop.agent(LOOK[0], say("no", error={"code": "REFUSED"}), tools=["look"])
    async with workshop.open(tool) as floor:
        stopped = await floor.play()
        workshop.script(LOOK[0], say("yes: {$last_tool}"))
        again = await floor.ended((await floor.runs.retry(SPACE, stopped.id)).run)
    assert stopped.error is not None and stopped.error.code == "MODEL_REFUSED"
    assert again.output == "yes: seen"
    assert len(tool.calls) == 1


async def test_a_call_interrupted_by_a_cancel_is_not_repeated(anywhere: Workshop) -> None:
    gate = BlockingTool()
    anywhere.agent(calling(call("gate")), say("{$last_tool}"), tools=["gate"])
    async with anywhere.open(gate) as floor:
        run = await floor.start()
        await gate.begun.acquire()
        await floor.runs.cancel(SPACE, run.id)
        again = await floor.ended((await floor.runs.retry(SPACE, run.id)).run)
    assert gate.times == 1
    assert again.output == "not answered: the run ended as cancelled before this call finished"


async def test_a_retry_from_the_start_repeats_everything(anywhere: Workshop) -> None:
    tool = answers("look", "seen")
    anywhere.agent(LOOK[0], say("no", error={"code": "REFUSED"}), tools=["look"])
    async with anywhere.open(tool) as floor:
        stopped = await floor.play("look here")
        anywhere.script(LOOK[0], say("I looked: {$last_user}"))
        again = await floor.ended((await floor.runs.retry(SPACE, stopped.id, from_start=True)).run)
        said = await floor.said(again)
    assert (again.status, again.base_run_id) == (RunStatus.COMPLETED, None)
    assert said == ["user: look here", "assistant: ", "tool: seen", "assistant: I looked: look here"]
    assert len(tool.calls) == 2


async def test_a_retry_can_be_retried(workshop: Workshop) -> None:
    workshop.agent(*LOOK, say("done"), tools=["look"], limits={"max_iterations": 2})
    async with workshop.open(answers("look", "seen")) as floor:
        run = await floor.play()
        for _ in range(2):
            run = await floor.ended((await floor.runs.retry(SPACE, run.id)).run)
    assert run.output == "done"
