"""Custom tools: a folder with a command. A broken one affects only its callers."""

from typing import Any

import pytest

from holdfast.domain.content import Json
from holdfast.domain.run import RunStatus
from holdfast.domain.step import StepState
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say
from tests.unit.sandbox.confined import need_sandbox

ECHO = 'read -r text; printf \'{"got": %s, "key": "%s"}\' "$text" "$HOLDFAST_CALL_KEY"'


@pytest.fixture(scope="module", autouse=True)
async def sandboxed() -> None:
    await need_sandbox()


def tool(workspace: AgentWorkspace, script: str, folder: str = "weigh", **fields: Json) -> None:
    """Write a tool that is a shell script."""
    manifest: dict[str, Json] = {
        "name": folder,
        "description": "Weigh it.",
        "parameters": {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]},
        "command": ["sh", "./run.sh"],
        **fields,
    }
    workspace.write(f"tools/{folder}/run.sh", script)
    workspace.write(f"tools/{folder}/tool.json", manifest)


def agent(workspace: AgentWorkspace, *calls: Any, **settings: Json) -> None:
    """Write an agent that calls the tool."""
    tool_calls = calls or (call("weigh", what="tea"),)
    workspace.agent(calling(*tool_calls), say("{$last_tool}"), **{"tools": ["weigh"], **settings})


async def run_weigh(workspace: AgentWorkspace) -> str:
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        assert run.status is RunStatus.COMPLETED, run.error
        return str(run.output)


async def test_a_command_reads_its_arguments_and_writes_its_result(workspace: AgentWorkspace) -> None:
    tool(workspace, ECHO)
    agent(workspace)
    text = await run_weigh(workspace)
    assert text.startswith('{"got":{"what":"tea"},"key":"run_')


async def test_arguments_of_a_custom_tool_are_checked_before_it_runs(workspace: AgentWorkspace) -> None:
    tool(workspace, ECHO)
    agent(workspace, call("weigh", what=3))
    assert "`what`: it must be string" in await run_weigh(workspace)


async def test_a_custom_tool_runs_in_the_folder_of_the_agent_and_cannot_change_its_own(
    workspace: AgentWorkspace,
) -> None:
    tool(workspace, 'echo x >made; echo x >"$HOLDFAST_TOOL_FOLDER/run.sh" || echo \'"kept"\'')
    agent(workspace)
    assert await run_weigh(workspace) == "kept"
    assert (workspace.folder / "files" / "made").exists()


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo nonsense", "`weigh` did not write JSON"),
        ("echo too heavy >&2; exit 3", "`weigh` failed (exit code 3): too heavy"),
        ("kill -9 $$", "`weigh` failed (exit code 137)"),
        ("", "`weigh` did not write JSON"),
    ],
)
async def test_a_command_that_fails_is_a_result_for_the_model(
    workspace: AgentWorkspace, script: str, expected: str
) -> None:
    tool(workspace, script)
    agent(workspace)
    assert expected in await run_weigh(workspace)


async def test_a_custom_tool_that_times_out_is_killed_with_an_unknown_outcome(workspace: AgentWorkspace) -> None:
    tool(workspace, "sleep 1000", timeout_seconds=1)
    agent(workspace)
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        assert "it was killed after 1 seconds" in str(run.output)
        assert (await runtime.steps(run))[1].state is StepState.UNKNOWN


async def test_an_edit_is_used_by_the_next_run(workspace: AgentWorkspace) -> None:
    tool(workspace, "echo 1")
    agent(workspace)
    async with workspace.open() as runtime:
        assert (await runtime.run_to_end()).output == "1"
        tool(workspace, "echo 2", description="Weigh it better.")
        runtime.holdfast.agents.refresh()
        assert (await runtime.run_to_end()).output == "2"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"name": "other"}, "give them the same name"),
        ({"command": []}, "command"),
        ({"parameters": {"type": "array"}}, "must be a JSON Schema of an object"),
        ({"parameters": {"type": "object", "properties": 3}}, "are not a JSON Schema"),
        ({"class": "transactional"}, "idempotent"),
        ({"colour": "red"}, "colour"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
    ],
)
async def test_a_broken_custom_tool_affects_only_its_callers(
    workspace: AgentWorkspace, fields: dict[str, Json], expected: str
) -> None:
    tool(workspace, "echo 1", **fields)
    agent(workspace)
    text = await run_weigh(workspace)
    assert "this tool cannot be used now: tools/weigh/tool.json" in text
    assert expected in text


async def test_a_custom_tool_with_a_broken_edit_keeps_its_last_good_version(workspace: AgentWorkspace) -> None:
    tool(workspace, "echo 1")
    agent(workspace)
    async with workspace.open() as runtime:
        assert (await runtime.run_to_end()).output == "1"
        workspace.write("tools/weigh/tool.json", "{")
        assert (await runtime.run_to_end()).output == "1"


async def test_a_built_in_tool_cannot_be_replaced(workspace: AgentWorkspace) -> None:
    tool(workspace, "echo 1", folder="bash")
    workspace.agent(say("hello"), tools=["*"])
    async with workspace.open() as runtime:
        assert (await runtime.run_to_end()).output == "hello"


async def test_permission_rules_apply_to_custom_tools(workspace: AgentWorkspace) -> None:
    tool(workspace, "echo 1")
    agent(workspace, permissions={"deny": ["weigh"]})
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        assert "`weigh`" in str(run.output)
        assert run.output != "1"
