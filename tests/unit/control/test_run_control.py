"""Responding to, steering and cancelling runs; a refused call changes nothing."""

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


def new_input_interrupt(name: str, **fields: Any) -> NewInterrupt:
    """Return an input interrupt that accepts any response."""
    return new_interrupt(name, **{"kind": InterruptKind.INPUT, **fields})


async def start_waiting_run(floor: AgentRuntime, *names: str, parent: Run | None = None, **fields: Any) -> Run:
    """Return a run that waits for the response of a person."""
    run = await floor.start(thread=NewThread(agent_type="bot"), parent_run_id=None if parent is None else parent.id)
    await commit(
        floor.store,
        await claim(floor.store),
        interrupts=[new_input_interrupt(name, **fields) for name in names],
        move=WAITING_FOR_PERSON,
    )
    return await floor.get(run)


async def test_a_single_interrupt_needs_no_id(floor: AgentRuntime) -> None:
    run = await start_waiting_run(floor, "one")
    interrupt = await floor.runs.respond(SPACE, run.id, {"any": "thing"}, by="ada")
    assert (interrupt.status, interrupt.response) == (InterruptStatus.ANSWERED, {"any": "thing"})
    assert (interrupt.answered_by, (await floor.get(run)).status) == ("ada", RunStatus.QUEUED)


async def test_the_digest_of_an_approval_is_optional(floor: AgentRuntime, workshop: AgentWorkspace) -> None:
    run = await start_waiting_run(floor, "one", "two", kind=InterruptKind.APPROVAL, digest="of these arguments")
    async with unchanged(floor, workshop):
        for other in ("of others", ""):
            with pytest.raises(Invalid, match="of other arguments"):
                await floor.runs.respond(SPACE, run.id, "yes", interrupt=InterruptId("one"), digest=other)
    await floor.runs.respond(SPACE, run.id, "yes", interrupt=InterruptId("one"))
    assert (await floor.runs.respond(SPACE, run.id, "yes")).status is InterruptStatus.ANSWERED


async def test_several_interrupts_need_an_id(floor: AgentRuntime, workshop: AgentWorkspace) -> None:
    run = await start_waiting_run(floor, "one", "two")
    async with unchanged(floor, workshop):
        with pytest.raises(Invalid, match="several open interrupts") as refused:
            await floor.runs.respond(SPACE, run.id, "yes")
    assert refused.value.details == {"field": "interrupt_id", "ids": ["one", "two"]}
    await floor.runs.respond(SPACE, run.id, "yes", interrupt=InterruptId("two"))
    assert (await floor.runs.respond(SPACE, run.id, "no")).id == "one"


async def test_an_interrupt_of_a_child_is_answered_at_the_root(floor: AgentRuntime) -> None:
    root = await start_waiting_run(floor, "own")
    child = await start_waiting_run(floor, "of child", parent=root)
    await floor.runs.respond(SPACE, root.id, "yes", interrupt=InterruptId("own"))
    interrupt = await floor.runs.respond(SPACE, root.id, "for the child")
    assert (interrupt.id, interrupt.run_id, interrupt.root_run_id) == ("of child", child.id, root.id)


async def test_an_interrupt_of_another_run_is_refused(floor: AgentRuntime, workshop: AgentWorkspace) -> None:
    run, other = await start_waiting_run(floor, "one"), await start_waiting_run(floor, "two")
    async with unchanged(floor, workshop):
        with pytest.raises(NotFound, match="has no interrupt `two`"):
            await floor.runs.respond(SPACE, run.id, "yes", interrupt=InterruptId("two"))
    assert (await floor.get(other)).status is RunStatus.WAITING


async def test_an_interrupt_is_answered_once(floor: AgentRuntime, workshop: AgentWorkspace) -> None:
    run = await start_waiting_run(floor, "one")
    await floor.runs.respond(SPACE, run.id, "yes")
    async with unchanged(floor, workshop):
        for interrupt_id in (None, InterruptId("one")):
            with pytest.raises(AlreadyAnswered):
                await floor.runs.respond(SPACE, run.id, "no", interrupt=interrupt_id)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"run": RunId("run_none")}, NotFound),
        ({"interrupt": InterruptId("int_none")}, NotFound),
        ({"response": object()}, Invalid),
        ({"response": "half \ud800 of a pair"}, Invalid),
        ({"digest": "of something else"}, Invalid),
    ],
)
async def test_an_invalid_response_changes_nothing(
    floor: AgentRuntime, workshop: AgentWorkspace, arguments: dict[str, Any], error: type[HoldfastError]
) -> None:
    run = await start_waiting_run(floor, "one")
    async with unchanged(floor, workshop):
        with pytest.raises(error):
            await floor.runs.respond(SPACE, **{"run": run.id, "response": "yes", **arguments})


@pytest.mark.parametrize("response", ["blue", 7, None, {"outcome": "red"}])
async def test_a_response_must_match_the_schema(floor: AgentRuntime, workshop: AgentWorkspace, response: Json) -> None:
    run = await start_waiting_run(floor, "one", response_schema=CHOICE)
    async with unchanged(floor, workshop):
        with pytest.raises(Invalid, match="does not match its schema") as refused:
            await floor.runs.respond(SPACE, run.id, response)
    assert refused.value.details["schema"] == CHOICE
    assert (await floor.runs.respond(SPACE, run.id, "red")).response == "red"


async def test_an_invalid_response_schema_is_ignored(floor: AgentRuntime) -> None:
    run = await start_waiting_run(floor, "one", response_schema={"type": "colour"})
    assert (await floor.runs.respond(SPACE, run.id, "red")).status is InterruptStatus.ANSWERED


async def test_a_run_with_an_open_interrupt_is_not_steered(floor: AgentRuntime, workshop: AgentWorkspace) -> None:
    run = await start_waiting_run(floor, "one")
    async with unchanged(floor, workshop):
        with pytest.raises(Waiting):
            await floor.runs.steer(SPACE, run.id, "psst")


async def test_a_run_whose_child_has_an_open_interrupt_can_be_steered(floor: AgentRuntime) -> None:
    root = await start_waiting_run(floor, "own")
    await start_waiting_run(floor, "of child", parent=root)
    await floor.runs.respond(SPACE, root.id, "yes", interrupt=InterruptId("own"))
    assert await floor.runs.steer(SPACE, root.id, "psst") == 2


async def test_cancelling_a_run_cancels_its_children(floor: AgentRuntime) -> None:
    root = await start_waiting_run(floor, "own")
    child = await start_waiting_run(floor, "of child", parent=root)
    ended = await floor.runs.cancel(SPACE, root.id, by="ada")
    assert (ended.id, ended.status, ended.cancelled_by) == (root.id, RunStatus.CANCELLED, "ada")
    assert (await floor.get(child)).status is RunStatus.CANCELLED
    assert await floor.open_interrupts(root) == []


async def test_an_ended_run_is_not_cancelled(floor: AgentRuntime, workshop: AgentWorkspace) -> None:
    cancelled, completed = await start_waiting_run(floor, "one"), await floor.start()
    await floor.runs.cancel(SPACE, cancelled.id)
    await finish(floor.store, await claim(floor.store))
    async with unchanged(floor, workshop):
        for run in (cancelled, completed):
            with pytest.raises(IllegalMove):
                await floor.runs.cancel(SPACE, run.id)
        with pytest.raises(NotFound):
            await floor.runs.cancel(SPACE, RunId("run_none"))
