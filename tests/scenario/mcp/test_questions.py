"""An elicitation of a server becomes an interrupt of the run, which waits and is answered once."""

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
    """Wait for the only interrupt of a run."""
    (question,) = await floor.asks(run)
    return question


async def respond(floor: Floor, question: Interrupt, response: Json) -> None:
    """Respond to an interrupt."""
    await floor.runs.respond(SPACE, question.run_id, response, interrupt=question.id)


async def test_an_elicitation_makes_the_run_wait_and_its_answer_reaches_the_server(workshop: Workshop) -> None:
    agent(workshop, asks("ask", "who"))
    async with workshop.open() as floor:
        run = await floor.start()
        question = await asked(floor, run)
        assert (await floor.comes_to(run, RunStatus.WAITING)).status is RunStatus.WAITING
        assert question.kind is InterruptKind.INPUT
        assert question.message == "The MCP server `plain` asks: who 1?"
        with pytest.raises(Invalid, match="does not match"):
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


async def test_an_elicitation_without_an_answer_in_time_is_cancelled(workshop: Workshop, clock: HeldClock) -> None:
    agent(workshop, asks("ask", "who"))
    async with workshop.open(clock=clock) as floor:
        run = await floor.start()
        await asked(floor, run)
        await floor.comes_to(run, RunStatus.WAITING)
        await floor.later(timedelta(days=8))
        (said,) = await answers(floor, run)
        assert msgspec.json.decode(said) == {"action": "cancel"}


async def test_cancelling_a_run_whose_server_waits_for_an_answer_cancels_the_call(
    workshop: Workshop,
) -> None:
    agent(workshop, asks("ask", "who"))
    async with workshop.open() as floor:
        run = await floor.start()
        await asked(floor, run)
        await floor.comes_to(run, RunStatus.WAITING)
        await floor.runs.cancel(SPACE, run.id)
        await written(workshop, "cancelled")


async def test_an_effectful_call_whose_server_died_while_waiting_for_an_answer_is_unknown(workshop: Workshop) -> None:
    agent(workshop, asks("ask", "who"))
    async with workshop.open() as floor:
        run = await floor.start()
        question = await asked(floor, run)
        await floor.comes_to(run, RunStatus.WAITING)
    async with workshop.open() as floor:
        await respond(floor, question, ADA)
        (said,) = await answers(floor, run)
        assert said.startswith("MCP_SERVER_FAILED: the MCP server `plain` ended while it waited for the answer")
        assert (await floor.steps(run))[1].state is StepState.UNKNOWN
    assert effects(workshop).count("asked 1") == 1


async def test_an_idempotent_call_whose_server_died_is_repeated_with_the_known_answer(
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
