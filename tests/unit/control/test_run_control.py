"""Answering, steering and cancelling: each is refused with a reason, and then nothing has changed."""

from typing import Any

import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import AlreadyAnswered, HoldfastError, IllegalMove, Invalid, NotFound, Waiting
from holdfast.domain.ids import InterruptId, RunId
from holdfast.domain.interrupt import InterruptKind, InterruptStatus, NewInterrupt
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.thread import NewThread
from tests.builders import claim, finish
from tests.conformance.run_builders import WAITING_FOR_PERSON, commit, new_interrupt
from tests.scenario.agents.agent_workspace import SPACE, AgentRuntime, AgentWorkspace
from tests.unit.control.unchanged import unchanged

CHOICE: dict[str, Json] = {"type": "string", "enum": ["red", "green"]}


def question(name: str, **more: Any) -> NewInterrupt:
    """Return a question that any answer is good enough for."""
    return new_interrupt(name, **{"kind": InterruptKind.INPUT, **more})


async def asking(floor: AgentRuntime, *names: str, parent: Run | None = None, **more: Any) -> Run:
    """Return a run that asks a person."""
    run = await floor.start(thread=NewThread(agent_type="bot"), parent_run_id=None if parent is None else parent.id)
    await commit(
        floor.store,
        await claim(floor.store),
        interrupts=[question(name, **more) for name in names],
        move=WAITING_FOR_PERSON,
    )
    return await floor.get(run)


async def test_the_only_question_needs_no_name(floor: AgentRuntime) -> None:
    run = await asking(floor, "one")
    answered = await floor.runs.respond(SPACE, run.id, {"any": "thing"}, by="ada")
    assert (answered.status, answered.response) == (InterruptStatus.ANSWERED, {"any": "thing"})
    assert (answered.answered_by, (await floor.get(run)).status) == ("ada", RunStatus.QUEUED)


async def test_an_approval_need_not_repeat_what_it_approves(floor: AgentRuntime, workshop: AgentWorkspace) -> None:
    run = await asking(floor, "one", "two", kind=InterruptKind.APPROVAL, digest="of these arguments")
    async with unchanged(floor, workshop):
        for other in ("of others", ""):
            with pytest.raises(Invalid, match="of other arguments"):
                await floor.runs.respond(SPACE, run.id, "yes", interrupt=InterruptId("one"), digest=other)
    await floor.runs.respond(SPACE, run.id, "yes", interrupt=InterruptId("one"))
    assert (await floor.runs.respond(SPACE, run.id, "yes")).status is InterruptStatus.ANSWERED


async def test_several_questions_need_a_name(floor: AgentRuntime, workshop: AgentWorkspace) -> None:
    run = await asking(floor, "one", "two")
    async with unchanged(floor, workshop):
        with pytest.raises(Invalid, match="several open interrupts") as refused:
            await floor.runs.respond(SPACE, run.id, "yes")
    assert refused.value.details == {"field": "interrupt_id", "ids": ["one", "two"]}
    await floor.runs.respond(SPACE, run.id, "yes", interrupt=InterruptId("two"))
    assert (await floor.runs.respond(SPACE, run.id, "no")).id == "one"


async def test_the_question_of_a_child_is_answered_at_the_root(floor: AgentRuntime) -> None:
    root = await asking(floor, "own")
    child = await asking(floor, "of child", parent=root)
    await floor.runs.respond(SPACE, root.id, "yes", interrupt=InterruptId("own"))
    answered = await floor.runs.respond(SPACE, root.id, "for the child")
    assert (answered.id, answered.run_id, answered.root_run_id) == ("of child", child.id, root.id)


async def test_the_question_of_somebody_else_is_not_answered_here(
    floor: AgentRuntime, workshop: AgentWorkspace
) -> None:
    run, other = await asking(floor, "one"), await asking(floor, "two")
    async with unchanged(floor, workshop):
        with pytest.raises(NotFound, match="has no interrupt"):
            await floor.runs.respond(SPACE, run.id, "yes", interrupt=InterruptId("two"))
    assert (await floor.get(other)).status is RunStatus.WAITING


async def test_a_question_is_answered_once(floor: AgentRuntime, workshop: AgentWorkspace) -> None:
    run = await asking(floor, "one")
    await floor.runs.respond(SPACE, run.id, "yes")
    async with unchanged(floor, workshop):
        for named in (None, InterruptId("one")):
            with pytest.raises(AlreadyAnswered):
                await floor.runs.respond(SPACE, run.id, "no", interrupt=named)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"run": RunId("run_none")}, NotFound),
        ({"interrupt": InterruptId("int_none")}, NotFound),
        ({"response": object()}, Invalid),
        ({"response": "half \ud800 of a pair"}, Invalid),
        ({"digest": "of something else"}, Invalid),
    ],
)
async def test_an_answer_that_is_none_changes_nothing(
    floor: AgentRuntime, workshop: AgentWorkspace, given: dict[str, Any], error: type[HoldfastError]
) -> None:
    run = await asking(floor, "one")
    async with unchanged(floor, workshop):
        with pytest.raises(error):
            await floor.runs.respond(SPACE, **{"run": run.id, "response": "yes", **given})


@pytest.mark.parametrize("response", ["blue", 7, None, {"outcome": "red"}])
async def test_where_there_is_a_choice_the_answer_is_one_of_it(
    floor: AgentRuntime, workshop: AgentWorkspace, response: Json
) -> None:
    run = await asking(floor, "one", response_schema=CHOICE)
    async with unchanged(floor, workshop):
        with pytest.raises(Invalid, match="does not match its schema") as refused:
            await floor.runs.respond(SPACE, run.id, response)
    assert refused.value.details["schema"] == CHOICE
    assert (await floor.runs.respond(SPACE, run.id, "red")).response == "red"


async def test_a_schema_that_is_none_does_not_keep_anybody_from_answering(floor: AgentRuntime) -> None:
    run = await asking(floor, "one", response_schema={"type": "colour"})
    assert (await floor.runs.respond(SPACE, run.id, "red")).status is InterruptStatus.ANSWERED


async def test_a_run_that_asks_is_not_steered(floor: AgentRuntime, workshop: AgentWorkspace) -> None:
    run = await asking(floor, "one")
    async with unchanged(floor, workshop):
        with pytest.raises(Waiting):
            await floor.runs.steer(SPACE, run.id, "psst")


async def test_a_run_whose_child_asks_may_be_steered(floor: AgentRuntime) -> None:
    root = await asking(floor, "own")
    await asking(floor, "of child", parent=root)
    await floor.runs.respond(SPACE, root.id, "yes", interrupt=InterruptId("own"))
    assert await floor.runs.steer(SPACE, root.id, "psst") == 2


async def test_cancelling_takes_the_children_along(floor: AgentRuntime) -> None:
    root = await asking(floor, "own")
    child = await asking(floor, "of child", parent=root)
    ended = await floor.runs.cancel(SPACE, root.id, by="ada")
    assert (ended.id, ended.status, ended.cancelled_by) == (root.id, RunStatus.CANCELLED, "ada")
    assert (await floor.get(child)).status is RunStatus.CANCELLED
    assert await floor.open_interrupts(root) == []


async def test_what_has_ended_is_not_cancelled(floor: AgentRuntime, workshop: AgentWorkspace) -> None:
    cancelled, completed = await asking(floor, "one"), await floor.start()
    await floor.runs.cancel(SPACE, cancelled.id)
    await finish(floor.store, await claim(floor.store))
    async with unchanged(floor, workshop):
        for run in (cancelled, completed):
            with pytest.raises(IllegalMove):
                await floor.runs.cancel(SPACE, run.id)
        with pytest.raises(NotFound):
            await floor.runs.cancel(SPACE, RunId("run_none"))
