"""What a server asks in the middle of a call is a question of the run: it waits, and is answered once."""

from datetime import timedelta

import msgspec
import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import AlreadyAnswered, Invalid
from holdfast.domain.interrupt import Interrupt, InterruptKind
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.step import StepState
from holdfast.testing.clock import HeldClock
from tests.scenario.agents.workshop import SPACE, Floor, Workshop
from tests.scenario.mcp.declaring import PLAIN, agent, answers, asks, effects, program, written

ADA: dict[str, Json] = {"action": "accept", "content": {"name": "Ada"}}


async def asked(floor: Floor, run: Run) -> Interrupt:
    """Wait for the one question of a run."""
    (question,) = await floor.asks(run)
    return question


async def respond(floor: Floor, question: Interrupt, response: Json) -> None:
    """Answer a question."""
    await floor.runs.respond(SPACE, question.run_id, response, interrupt=question.id)


async def test_a_question_of_a_server_makes_the_run_wait_and_its_answer_reaches_the_server(workshop: Workshop) -> None:
    agent(workshop, asks("ask", "who"))
    async with workshop.open() as floor:
        run = await floor.start()
        question = await asked(floor, run)
        assert (await floor.comes_to(run, RunStatus.WAITING)).status is RunStatus.WAITING
        assert question.kind is InterruptKind.INPUT
        assert question.message == "The MCP server `plain` asks: who 1?"
        with pytest.raises(Invalid, match="does not fit"):
            await respond(floor, question, {"action": "accept"})
        await respond(floor, question, ADA)
        with pytest.raises(AlreadyAnswered):
            await respond(floor, question, ADA)
        (said,) = await answers(floor, run)
        assert msgspec.json.decode(said) == ADA
        assert (await floor.store.values.of_run(SPACE, run.id)).get("questions") is None
    assert effects(workshop).count("asked 1") == 1


async def test_a_server_may_ask_more_than_once(workshop: Workshop) -> None:
    agent(workshop, asks("ask_twice", "who"))
    async with workshop.open() as floor:
        run = await floor.start()
        first = await asked(floor, run)
        await respond(floor, first, ADA)
        second = await asked(floor, run)
        assert (second.message, second.id == first.id) == ("The MCP server `plain` asks: who 2?", False)
        await respond(floor, second, {"action": "decline"})
        (said,) = await answers(floor, run)
        assert msgspec.json.decode(said) == [ADA, {"action": "decline"}]


async def test_a_question_that_nobody_answers_in_time_is_called_off(workshop: Workshop, clock: HeldClock) -> None:
    agent(workshop, asks("ask", "who"))
    async with workshop.open(clock=clock) as floor:
        run = await floor.start()
        await asked(floor, run)
        await floor.comes_to(run, RunStatus.WAITING)
        await floor.later(timedelta(days=8))
        (said,) = await answers(floor, run)
        assert msgspec.json.decode(said) == {"action": "cancel"}


async def test_a_run_that_is_cancelled_while_its_server_waits_for_an_answer_calls_the_call_off(
    workshop: Workshop,
) -> None:
    agent(workshop, asks("ask", "who"))
    async with workshop.open() as floor:
        run = await floor.start()
        await asked(floor, run)
        await floor.comes_to(run, RunStatus.WAITING)
        await floor.runs.cancel(SPACE, run.id)
        await written(workshop, "cancelled")


async def test_an_effect_whose_server_was_lost_while_it_waited_for_an_answer_is_unknown(workshop: Workshop) -> None:
    agent(workshop, asks("ask", "who"))
    async with workshop.open() as floor:
        run = await floor.start()
        question = await asked(floor, run)
        await floor.comes_to(run, RunStatus.WAITING)
    async with workshop.open() as floor:
        await respond(floor, question, ADA)
        (said,) = await answers(floor, run)
        assert said.startswith("MCP_SERVER_FAILED: the MCP server `plain` has ended while it waited for the answer")
        assert (await floor.steps(run))[1].state is StepState.UNKNOWN
    assert effects(workshop).count("asked 1") == 1


async def test_an_idempotent_call_whose_server_was_lost_is_made_again_with_the_answer_that_is_known(
    workshop: Workshop,
) -> None:
    agent(workshop, asks("ask", "who"), mcp_servers={"plain": program(PLAIN, classes={"ask": "idempotent"})})
    async with workshop.open() as floor:
        run = await floor.start()
        question = await asked(floor, run)
        await floor.comes_to(run, RunStatus.WAITING)
    async with workshop.open() as floor:
        await respond(floor, question, ADA)
        (said,) = await answers(floor, run)
        assert msgspec.json.decode(said) == ADA
    assert effects(workshop).count("asked 1") == 2
