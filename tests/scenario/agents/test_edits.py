"""Agents that are edited while they run: a run keeps its model, and survives a broken edit."""

from typing import Final

import pytest

from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.run import RunStatus
from holdfast.domain.tool import ToolClass
from holdfast.workspace.agents import FolderAgents
from tests.scenario.agents.fake_tools import BlockingTool
from tests.scenario.agents.workshop import SPACE, Floor, Workshop, call, calling, say

ASK: Final = calling(call("ask_user", question="?"))


def look(floor: Floor) -> None:
    """Have the workspace see what was edited."""
    assert isinstance(floor.holdfast.agents, FolderAgents)
    floor.holdfast.agents.refresh()


@pytest.mark.parametrize("broken", ["{", '{"model": 7}', '{"model": "scripted:script.json", "toolz": []}'])
async def test_a_broken_edit_leaves_the_run_with_the_last_good_version(anywhere: Workshop, broken: str) -> None:
    anywhere.agent(ASK, ASK, say("done"), tools=["ask_user"])
    async with anywhere.open() as floor:
        run = await floor.start()
        await floor.asks(run)
        anywhere.write("agents/bot/agent.json", broken)
        look(floor)
        assert [each.name for each in floor.holdfast.agents.broken()] == ["bot"]
        await floor.runs.respond(SPACE, run.id, "on")
        await floor.asks(run)
        await floor.runs.respond(SPACE, run.id, "and on")
        assert (await floor.ended(run)).output == "done"
        assert (await floor.start()).status is RunStatus.QUEUED


async def test_a_run_keeps_the_model_that_it_started_with(anywhere: Workshop) -> None:
    anywhere.agent(ASK, say("as before"), tools=["ask_user"])
    async with anywhere.open() as floor:
        run = await floor.start()
        await floor.asks(run)
        anywhere.write("agents/bot/other.json", {"turns": [say("another")]})
        anywhere.configure(model="scripted:other.json", tools=["ask_user"])
        look(floor)
        await floor.runs.respond(SPACE, run.id, "yes")
        assert (await floor.ended(run)).output == "as before"
        assert (await floor.play()).output == "another"


async def test_new_instructions_apply_when_the_run_is_claimed_again(workshop: Workshop) -> None:
    gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
    workshop.agent(calling(call("gate")), ASK, say("done"), tools=["gate", "ask_user"])
    async with workshop.open(gate) as floor:
        run = await floor.start()
        await gate.begun.acquire()
        workshop.write("agents/bot/AGENT.md", "Do as you like.")
        look(floor)
        gate.open.set()
        await floor.asks(run)
        await floor.runs.respond(SPACE, run.id, "yes")
        await floor.ended(run)
        told = [(await floor.context(run, number)).system for number in range(3)]
    assert ["Do as you like." in system for system in told] == [False, False, True]


async def test_a_tool_removed_while_its_call_waits_is_a_result_for_the_model(workshop: Workshop) -> None:
    workshop.agent(ASK, say("{$last_tool}"), tools=["ask_user"])
    async with workshop.open() as floor:
        run = await floor.start()
        await floor.asks(run)
        workshop.configure(tools=[])
        look(floor)
        await floor.runs.respond(SPACE, run.id, "yes")
        ended = await floor.ended(run)
    assert (ended.status, ended.output) == (RunStatus.COMPLETED, "the tool `ask_user` is no longer available")


async def test_the_runs_of_a_removed_agent_fail_with_no_open_call(workshop: Workshop) -> None:
    workshop.agent(ASK, say("done"), tools=["ask_user"])
    async with workshop.open() as floor:
        run = await floor.start()
        await floor.asks(run)
        for name in ("agent.json", "AGENT.md"):
            (workshop.folder / "agents/bot" / name).unlink()
        look(floor)
        await floor.runs.respond(SPACE, run.id, "yes")
        ended = await floor.ended(run)
        await floor.events(run)
        with pytest.raises(NotFound):
            await floor.start()
    assert ended.error is not None and ended.error.code == "NOT_FOUND"


async def test_an_unknown_tool_in_the_agent_file_fails_the_run_with_its_name(workshop: Workshop) -> None:
    workshop.agent(say("done"), tools=["log_wirte"])
    async with workshop.open() as floor:
        run = await floor.play()
    assert run.error is not None and run.error.code == Invalid.code
    assert "`log_wirte`" in run.error.message
    assert "`log_write`" in run.error.message
