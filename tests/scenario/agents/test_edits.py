"""Agents that are edited while they run: a run keeps the version that it was created with."""

import shutil
from typing import Final

import pytest

from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.run import RunStatus
from holdfast.domain.tool import ToolClass
from tests.scenario.agents.agent_workspace import SPACE, AgentRuntime, AgentWorkspace, call, calling, say
from tests.scenario.agents.fake_tools import BlockingTool

ASK: Final = calling(call("ask_user", question="?"))


def reload_agents(runtime: AgentRuntime) -> None:
    """Reload the edited agents of the workspace."""
    runtime.holdfast.agents.refresh()


@pytest.mark.parametrize("broken", ["{", '{"model": 7}', '{"model": "scripted:script.json", "toolz": []}'])
async def test_a_broken_edit_leaves_the_run_with_the_last_good_version(
    any_workspace: AgentWorkspace, broken: str
) -> None:
    any_workspace.agent(ASK, ASK, say("done"), tools=["ask_user"])
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        await runtime.wait_for_interrupts(run)
        any_workspace.write("agents/bot/agent.json", broken)
        reload_agents(runtime)
        assert [each.name for each in runtime.holdfast.agents.broken()] == ["bot"]
        await runtime.runs.respond(SPACE, run.id, "on")
        await runtime.wait_for_interrupts(run)
        await runtime.runs.respond(SPACE, run.id, "and on")
        assert (await runtime.wait_until_ended(run)).output == "done"
        assert (await runtime.start()).status is RunStatus.QUEUED


async def test_a_run_keeps_the_model_that_it_started_with(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(ASK, say("as before"), tools=["ask_user"])
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        await runtime.wait_for_interrupts(run)
        any_workspace.write("agents/bot/other.json", {"turns": [say("another")]})
        any_workspace.configure(model="scripted:other.json", tools=["ask_user"])
        reload_agents(runtime)
        await runtime.runs.respond(SPACE, run.id, "yes")
        assert (await runtime.wait_until_ended(run)).output == "as before"
        assert (await runtime.run_to_end()).output == "another"


async def test_new_instructions_apply_to_new_runs_only(workspace: AgentWorkspace) -> None:
    gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
    workspace.agent(calling(call("gate")), ASK, say("done"), tools=["gate", "ask_user"])
    async with workspace.open(gate) as runtime:
        run = await runtime.start()
        await gate.started.acquire()
        workspace.write("agents/bot/AGENT.md", "Do as you like.")
        reload_agents(runtime)
        gate.open.set()
        await runtime.wait_for_interrupts(run)
        await runtime.runs.respond(SPACE, run.id, "yes")
        await runtime.wait_until_ended(run)
        contexts = [(await runtime.context(run, number)).system for number in range(3)]
        after = await runtime.start()
        await runtime.wait_for_interrupts(after)
        new = (await runtime.context(after)).system
    assert ["Do as you like." in system for system in (*contexts, new)] == [False, False, False, True]
    assert after.agent_version not in (None, run.agent_version)


async def test_a_tool_that_is_removed_stays_with_the_runs_that_had_it(workspace: AgentWorkspace) -> None:
    workspace.agent(ASK, say("{$last_tool}"), tools=["ask_user"])
    async with workspace.open() as runtime:
        run = await runtime.start()
        await runtime.wait_for_interrupts(run)
        workspace.configure(tools=[])
        reload_agents(runtime)
        await runtime.runs.respond(SPACE, run.id, "yes")
        ended_run = await runtime.wait_until_ended(run)
    assert (ended_run.status, ended_run.output) == (RunStatus.COMPLETED, "yes")


async def test_the_runs_of_a_removed_agent_go_on_and_there_are_no_new_ones(workspace: AgentWorkspace) -> None:
    workspace.agent(ASK, say("done"), tools=["ask_user"])
    async with workspace.open() as runtime:
        run = await runtime.start()
        await runtime.wait_for_interrupts(run)
        shutil.rmtree(workspace.folder / "agents/bot")
        reload_agents(runtime)
        await runtime.runs.respond(SPACE, run.id, "yes")
        ended_run = await runtime.wait_until_ended(run)
        with pytest.raises(NotFound):
            await runtime.start()
    assert (ended_run.status, ended_run.output) == (RunStatus.COMPLETED, "done")


async def test_an_unknown_tool_in_the_agent_file_fails_the_run_with_its_name(workspace: AgentWorkspace) -> None:
    workspace.agent(say("done"), tools=["log_wirte"])
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
    assert run.error is not None and run.error.code == Invalid.code
    assert "`log_wirte`" in run.error.message
    assert "`log_write`" in run.error.message
