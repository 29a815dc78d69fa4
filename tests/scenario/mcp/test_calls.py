"""MCP tools are called like any other, and a failure of a server never ends a run."""

import msgspec
import pytest

from holdfast.domain.content import Json
from holdfast.domain.run import RunStatus
from holdfast.domain.step import StepState
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace, call, calling, say
from tests.scenario.mcp.declaring import PLAIN, agent, effects, program, tool_results, tool_turn, wait_for_effect


async def test_a_tool_of_a_server_is_called_under_the_key_of_its_step(workspace: AgentWorkspace) -> None:
    agent(workspace, tool_turn("echo", "hello"), tool_turn("key"))
    async with workspace.open() as runtime:
        run = await runtime.start()
        text, meta = await tool_results(runtime, run)
        assert text == "hello"
        assert msgspec.json.decode(meta) == {"io.holdfast/call-key": (await runtime.steps(run))[3].key}


async def test_a_server_that_dies_floods_or_sends_invalid_messages_fails_the_call_and_is_restarted(
    workspace: AgentWorkspace,
) -> None:
    bad = [("die", ""), ("notes", ""), ("nonsense", ""), ("shapeless", ""), ("huge", str(17 * 1024 * 1024))]
    turns = [turn for tool, text in bad for turn in (tool_turn(tool, text), tool_turn("echo", f"after {tool}"))]
    agent(workspace, *turns)
    async with workspace.open() as runtime:
        run = await runtime.start()
        results = await tool_results(runtime, run)
        states = [step.state for step in await runtime.steps(run) if step.name.startswith("mcp__")]
    assert results[1::2] == [f"after {tool}" for tool, _ in bad]
    assert all(text.startswith("MCP_SERVER_FAILED: the MCP server `plain` failed: ") for text in results[::2])
    assert all("Its outcome is unknown" in text for text in results[::2])
    assert "it ended (exit code 3): it hurts" in results[0]
    assert states == [StepState.UNKNOWN, StepState.DONE] * len(bad)


async def test_a_call_that_times_out_is_cancelled_on_the_server(workspace: AgentWorkspace) -> None:
    slow = program(PLAIN, timeout_seconds=2)
    agent(workspace, tool_turn("stall"), tool_turn("effect", "on we go"), mcp_servers={"plain": slow})
    async with workspace.open() as runtime:
        results = await tool_results(runtime, await runtime.start())
    assert "did not respond within 2 seconds" in results[0]
    assert results[1] == "done"
    assert effects(workspace) == ["stalls", "cancelled", "on we go"]


async def test_a_long_result_is_truncated_and_stored_in_full(workspace: AgentWorkspace) -> None:
    agent(workspace, tool_turn("huge", "100000"))
    async with workspace.open() as runtime:
        run = await runtime.start()
        (result,) = await tool_results(runtime, run)
        (artifact,) = (await runtime.store.artifacts.page(SPACE, run=run.id)).items
    assert len(result) < 40_000
    assert artifact.id in result


async def test_a_server_that_cannot_be_restarted_fails_the_call_and_is_retried_later(
    workspace: AgentWorkspace,
) -> None:
    script = workspace.folder / "tools" / "plain" / "server.py"
    script.parent.mkdir(parents=True)
    script.write_text(PLAIN.read_text().replace("os._exit(3)", "os.unlink(__file__) or os._exit(3)"))
    declared = {**program(PLAIN), "args": ["-I", "./tools/plain/server.py"]}
    agent(workspace, tool_turn("die"), tool_turn("echo"), tool_turn("echo"), mcp_servers={"plain": declared})
    async with workspace.open() as runtime:
        _, ended, paused = await tool_results(runtime, await runtime.start())
    assert "it ended (exit code 2)" in ended
    assert "it is retried in " in paused
    assert not any("Its outcome is unknown" in result for result in (ended, paused))


@pytest.mark.parametrize(
    "declared",
    [
        {"command": "no-such-program", "sandbox": "off"},
        {"command": "./agents", "sandbox": "off"},
        {"command": "./../elsewhere", "sandbox": "off"},
        {"command": "./.holdfast/holdfast.db", "sandbox": "off"},
        {"url": "http://127.0.0.1:9/mcp"},
        program(PLAIN, env={"TOKEN": "${NO_SUCH_VARIABLE}"}),
    ],
    ids=["program", "folder", "outside", "own", "address", "variable"],
)
async def test_a_server_that_cannot_be_reached_leaves_a_run_without_its_tools(
    workspace: AgentWorkspace, declared: dict[str, Json]
) -> None:
    agent(workspace, mcp_servers={"plain": declared}, tools=["mcp__plain__echo"])
    workspace.script(say("done"))
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        assert (run.status, run.output) == (RunStatus.COMPLETED, "done")
        assert [tool["name"] for tool in (await runtime.context(run)).tools] == []


async def test_only_the_tools_that_are_listed_may_be_used(workspace: AgentWorkspace) -> None:
    agent(workspace, tool_turn("echo", "hello"), mcp_servers={"plain": program(PLAIN, tools=["echo", "no such"])})
    async with workspace.open() as runtime:
        run = await runtime.start()
        assert await tool_results(runtime, run) == ["hello"]
        assert [tool["name"] for tool in (await runtime.context(run)).tools] == ["mcp__plain__echo"]


async def test_arguments_are_checked_before_they_reach_the_server(workspace: AgentWorkspace) -> None:
    agent(workspace, calling(call("mcp__plain__effect", text=7)))
    async with workspace.open() as runtime:
        (result,) = await tool_results(runtime, await runtime.start())
    assert "`text`: it must be string" in result
    assert effects(workspace) == []


async def test_new_tools_are_available_at_the_next_model_call(workspace: AgentWorkspace) -> None:
    agent(workspace, tool_turn("grow", "juggle"), tool_turn("juggle"))
    async with workspace.open() as runtime:
        assert await tool_results(runtime, await runtime.start()) == ["grown", "did juggle"]


async def test_a_failed_listing_of_new_tools_is_retried(workspace: AgentWorkspace) -> None:
    agent(workspace, tool_turn("grow_unseen", "juggle"), tool_turn("echo", "well?"), tool_turn("juggle"))
    async with workspace.open() as runtime:
        assert await tool_results(runtime, await runtime.start()) == ["grown", "well?", "did juggle"]


async def test_agents_of_a_space_share_a_server_and_one_of_the_settings_must_be_named(
    workspace: AgentWorkspace,
) -> None:
    workspace.write("settings.json", {"mcp_servers": {"plain": program(PLAIN)}})
    for name, tools in (("one", ["mcp__plain__*"]), ("two", ["mcp__plain__pid"])):
        agent(workspace, tool_turn("pid"), name=name, mcp_servers={}, tools=tools)
    workspace.agent(say("done"), name="none")
    async with workspace.open() as runtime:
        first, second = [await tool_results(runtime, await runtime.start(agent=name)) for name in ("one", "two")]
        last = await runtime.run_to_end(agent="none")
        assert first == second
        assert (await runtime.context(last)).tools == []


async def test_a_cancelled_run_cancels_the_call_on_the_server(workspace: AgentWorkspace) -> None:
    agent(workspace, tool_turn("stall"), tool_turn("effect"))
    async with workspace.open() as runtime:
        run = await runtime.start()
        await wait_for_effect(workspace, "stalls")
        await runtime.runs.cancel(SPACE, run.id)
        assert (await runtime.wait_until_ended(run)).status is RunStatus.CANCELLED
        await wait_for_effect(workspace, "cancelled")
    assert effects(workspace) == ["stalls", "cancelled"]
