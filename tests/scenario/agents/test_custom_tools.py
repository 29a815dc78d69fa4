"""Custom tools: a folder with a command. A broken one affects only its callers."""

from typing import Any

import pytest

from holdfast.domain.content import Json
from holdfast.domain.run import RunStatus
from holdfast.domain.step import StepState
from tests.scenario.agents.workshop import Workshop, call, calling, say
from tests.unit.sandbox.confined import need_sandbox

ECHO = 'read -r text; printf \'{"got": %s, "key": "%s"}\' "$text" "$HOLDFAST_CALL_KEY"'


@pytest.fixture(scope="module", autouse=True)
async def sandboxed() -> None:
    await need_sandbox()


def tool(workshop: Workshop, script: str, folder: str = "weigh", **fields: Json) -> None:
    """Write a tool that is a shell script."""
    said: dict[str, Json] = {
        "name": folder,
        "description": "Weigh it.",
        "parameters": {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]},
        "command": ["sh", "./run.sh"],
        **fields,
    }
    workshop.write(f"tools/{folder}/run.sh", script)
    workshop.write(f"tools/{folder}/tool.json", said)


def agent(workshop: Workshop, *calls: Any, **settings: Json) -> None:
    """Write an agent that calls the tool."""
    asked = calls or (call("weigh", what="tea"),)
    workshop.agent(calling(*asked), say("{$last_tool}"), **{"tools": ["weigh"], **settings})


async def weighed(workshop: Workshop) -> str:
    async with workshop.open() as floor:
        run = await floor.play()
        assert run.status is RunStatus.COMPLETED, run.error
        return str(run.output)


async def test_a_command_reads_its_arguments_and_writes_its_result(workshop: Workshop) -> None:
    tool(workshop, ECHO)
    agent(workshop)
    text = await weighed(workshop)
    assert text.startswith('{"got":{"what":"tea"},"key":"run_')


async def test_arguments_of_a_custom_tool_are_checked_before_it_runs(workshop: Workshop) -> None:
    tool(workshop, ECHO)
    agent(workshop, call("weigh", what=3))
    assert "`what`: it must be string" in await weighed(workshop)


async def test_a_custom_tool_runs_in_the_folder_of_the_agent_and_cannot_change_its_own(workshop: Workshop) -> None:
    tool(workshop, 'echo x >made; echo x >"$HOLDFAST_TOOL_FOLDER/run.sh" || echo \'"kept"\'')
    agent(workshop)
    assert await weighed(workshop) == "kept"
    assert (workshop.folder / "files" / "made").exists()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo nonsense", "`weigh` did not write JSON"),
        ("echo too heavy >&2; exit 3", "`weigh` failed (exit code 3): too heavy"),
        ("kill -9 $$", "`weigh` failed (exit code 137)"),
        ("", "`weigh` did not write JSON"),
    ],
)
async def test_a_command_that_fails_is_a_result_for_the_model(workshop: Workshop, script: str, said: str) -> None:
    tool(workshop, script)
    agent(workshop)
    assert said in await weighed(workshop)


async def test_a_custom_tool_that_times_out_is_killed_with_an_unknown_outcome(workshop: Workshop) -> None:
    tool(workshop, "sleep 1000", timeout_seconds=1)
    agent(workshop)
    async with workshop.open() as floor:
        run = await floor.play()
        assert "it was killed after 1 seconds" in str(run.output)
        assert (await floor.steps(run))[1].state is StepState.UNKNOWN


async def test_an_edit_is_used_by_the_next_run(workshop: Workshop) -> None:
    tool(workshop, "echo 1")
    agent(workshop)
    async with workshop.open() as floor:
        assert (await floor.play()).output == "1"
        tool(workshop, "echo 2", description="Weigh it better.")
        assert (await floor.play()).output == "2"


@pytest.mark.parametrize(
    ("fields", "said"),
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
    workshop: Workshop, fields: dict[str, Json], said: str
) -> None:
    tool(workshop, "echo 1", **fields)
    agent(workshop)
    text = await weighed(workshop)
    assert "this tool cannot be used now: tools/weigh/tool.json" in text
    assert said in text


async def test_a_custom_tool_with_a_broken_edit_keeps_its_last_good_version(workshop: Workshop) -> None:
    tool(workshop, "echo 1")
    agent(workshop)
    async with workshop.open() as floor:
        assert (await floor.play()).output == "1"
        workshop.write("tools/weigh/tool.json", "{")
        assert (await floor.play()).output == "1"


async def test_a_built_in_tool_cannot_be_replaced(workshop: Workshop) -> None:
    tool(workshop, "echo 1", folder="bash")
    workshop.agent(say("hello"), tools=["*"])
    async with workshop.open() as floor:
        assert (await floor.play()).output == "hello"


async def test_permission_rules_apply_to_custom_tools(workshop: Workshop) -> None:
    tool(workshop, "echo 1")
    agent(workshop, permissions={"deny": ["weigh"]})
    async with workshop.open() as floor:
        run = await floor.play()
        assert "`weigh`" in str(run.output)
        assert run.output != "1"
