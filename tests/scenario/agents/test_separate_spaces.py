"""Runs of two spaces share neither files nor grants; runs of one space share what its threads and agents say."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import RunActive
from holdfast.domain.ids import SpaceId
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.space import DEFAULT_SPACE
from tests.scenario.agents.agent_workspace import (
    HANG_TIMEOUT_SECONDS,
    AgentRuntime,
    AgentWorkspace,
    Turn,
    call,
    calling,
    say,
)
from tests.scenario.mcp.declaring import PLAIN, READS, program
from tests.unit.sandbox.confined import need_sandbox

PASTRY: Final = SpaceId("pastry")
BREAD: Final = SpaceId("bread")
SECRET: Final = "butter is the secret"
FILE_TOOLS: Final[list[Json]] = ["read_file", "write_file", "list_dir", "glob", "grep", "bash"]
ALLOW_BASH: Final[dict[str, Json]] = {"allow": ["bash"]}


@asynccontextmanager
async def opened(workspace: AgentWorkspace) -> AsyncIterator[AgentRuntime]:
    """Open a workspace with two more spaces."""
    async with workspace.open() as runtime:
        for space in (PASTRY, BREAD):
            await runtime.store.spaces.create(space, name=space)
        yield runtime


async def results(runtime: AgentRuntime, run: Run) -> list[str]:
    """Return the tool results of a run."""
    return [str(message.content) for message in await runtime.messages(run) if message.role == "tool"]


def files_with(folder: Path, text: str) -> list[str]:
    """Return the files of a workspace that contain a text, without the database, the agents and their versions."""
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith("holdfast.db")
        if not {"agents", "bundles"} & set(path.parts)
        if text in path.read_text(errors="replace")
    )


WRITING: Final = calling(call("write_file", path="recipe.md", content=SECRET))
LOOKING: Final[list[Turn]] = [
    calling(call("read_file", path="recipe.md")),
    calling(call("list_dir")),
    calling(call("glob", pattern="**/*")),
    calling(call("grep", pattern="butter", ignored=True)),
    calling(call("bash", command="find / -name recipe.md 2>/dev/null; grep -rl butter . ..; cat recipe.md")),
]


@pytest.mark.parametrize("named", [None, "kitchen"])
async def test_a_run_reads_nothing_that_a_run_of_another_space_wrote(
    any_workspace: AgentWorkspace, named: str | None
) -> None:
    await need_sandbox()
    settings: dict[str, Any] = {"tools": FILE_TOOLS, "permissions": ALLOW_BASH, "working_folder": named}
    any_workspace.agent(WRITING, say("written"), name="writer", **settings)
    any_workspace.agent(*LOOKING, say("done"), name="reader", **settings)
    async with opened(any_workspace) as runtime:
        for space in (PASTRY, DEFAULT_SPACE):
            await runtime.run_to_end(agent="writer", space=space)
        run = await runtime.run_to_end(agent="reader", space=BREAD)
        seen = await results(runtime, run)
    assert run.status is RunStatus.COMPLETED
    assert len(seen) == len(LOOKING)
    assert not any(SECRET in text or "recipe" in text.replace("`recipe.md`", "") for text in seen[1:4]), seen
    assert SECRET not in "".join(seen)


async def test_the_default_space_keeps_its_places(workspace: AgentWorkspace) -> None:
    workspace.agent(WRITING, say("written"), tools=FILE_TOOLS)
    workspace.agent(WRITING, say("written"), name="named", tools=FILE_TOOLS, working_folder="projects/site")
    async with opened(workspace) as runtime:
        await runtime.run_to_end()
        await runtime.run_to_end(agent="named")
    assert files_with(workspace.folder, SECRET) == ["files/recipe.md", "projects/site/recipe.md"]


async def test_each_thread_of_another_space_has_a_folder_unless_its_agent_names_one(workspace: AgentWorkspace) -> None:
    workspace.agent(calling(call("write_file", path="a", content=SECRET)), say("done"), tools=FILE_TOOLS)
    workspace.agent(calling(call("list_dir")), say("{$last_tool}"), name="looker", tools=FILE_TOOLS)
    async with opened(workspace) as runtime:
        first = await runtime.run_to_end(space=PASTRY)
        second = await runtime.run_to_end(agent="looker", space=PASTRY)
        same_thread = await runtime.run_to_end(space=PASTRY, thread=first.thread_id, agent_type="looker")
        workspace.configure(tools=FILE_TOOLS, working_folder="kitchen")
        workspace.configure("looker", tools=FILE_TOOLS, working_folder="kitchen")
        await asyncio.sleep(0.25)  # the files of agents are polled
        await runtime.run_to_end(space=PASTRY)
        shared = await runtime.run_to_end(agent="looker", space=PASTRY)
    assert (second.output, same_thread.output) == ("[0 entries in `.`]", f"a {len(SECRET)}\n[1 entry in `.`]")
    assert shared.output == same_thread.output
    assert files_with(workspace.folder, SECRET) == [
        ".holdfast/spaces/pastry/folders/kitchen/a",
        f".holdfast/spaces/pastry/threads/{first.thread_id}/a",
    ]


@pytest.mark.parametrize("tool", ["agent_spawn", "agent_message", "task_create", "task_spawn"])
async def test_sub_agents_and_spawned_tasks_work_in_the_folder_of_their_root(
    workspace: AgentWorkspace, tool: str
) -> None:
    said = {"message" if tool == "agent_message" else "input": "go"}
    workspace.agent(WRITING, calling(call(tool, agent="helper", **said)), say("done"), tools=[tool, "write_file"])
    workspace.agent(
        calling(call("agent_spawn", agent="reader", input="go")),
        say("{$last_tool}"),
        name="helper",
        tools=["agent_spawn"],
        task={"enabled": True},
    )
    workspace.agent(
        calling(call("read_file", path="recipe.md")),
        say("{$last_tool}"),
        name="reader",
        tools=FILE_TOOLS,
        task={"enabled": True},
    )
    async with opened(workspace) as runtime:
        root = await runtime.run_to_end(space=PASTRY)
        async with asyncio.timeout(HANG_TIMEOUT_SECONDS):
            while not (found := [run for run in await _runs(runtime) if run.agent_type == "helper"]):  # noqa: ASYNC110
                await asyncio.sleep(0.01)  # the store sends no event about runs of others
        helper = await runtime.wait_until_ended(found[0])
    assert (root.status, helper.status) == (RunStatus.COMPLETED, RunStatus.COMPLETED)
    assert SECRET in str(helper.output)
    assert files_with(workspace.folder, SECRET) == [f".holdfast/spaces/pastry/threads/{root.thread_id}/recipe.md"]


async def _runs(runtime: AgentRuntime) -> list[Run]:
    return (await runtime.store.runs.page(PASTRY)).items


async def test_the_digest_of_a_file_is_known_in_the_folder_where_it_was_read(workspace: AgentWorkspace) -> None:
    workspace.agent(calling(call("write_file", path="a", content="1")), say("done"), tools=FILE_TOOLS)
    async with opened(workspace) as runtime:
        first = await runtime.run_to_end(space=PASTRY)
        kitchen = workspace.folder / ".holdfast/spaces/pastry/folders/kitchen"
        kitchen.mkdir(parents=True)
        (kitchen / "a").write_text("1")
        workspace.agent(
            calling(call("write_file", path="a", content="2")),
            say("{$last_tool}"),
            name="cook",
            tools=FILE_TOOLS,
            working_folder="kitchen",
        )
        await asyncio.sleep(0.25)  # the files of agents are polled
        second = await runtime.run_to_end(space=PASTRY, thread=first.thread_id, agent_type="cook")
    assert "you have not read it" in str(second.output)
    assert (kitchen / "a").read_text() == "1"


@pytest.mark.parametrize("space", [DEFAULT_SPACE, PASTRY])
async def test_a_child_in_a_nested_folder_does_not_escape_the_denies_of_its_parent(
    workspace: AgentWorkspace, space: SpaceId
) -> None:
    await need_sandbox()
    workspace.agent(
        calling(call("write_file", path="keys/open.txt", content="fine")),
        calling(call("agent_spawn", agent="kid", input="go")),
        say("{$last_tool}"),
        tools=["agent_spawn", "write_file"],
        working_folder="work",
        permissions={"deny": ["read_file(site/keys/**)", "read_file(private)"], "allow": ["bash"]},
    )
    looking = [
        calling(call("read_file", path="keys/a")),
        calling(call("grep", pattern="butter")),
        calling(call("bash", command="head -c 99 k*/* private/* </dev/null; ls keys")),
    ]
    settings: dict[str, Any] = {"tools": FILE_TOOLS, "permissions": ALLOW_BASH, "working_folder": "work/site"}
    workspace.agent(*looking, say("done"), name="kid", **settings)
    home = workspace.folder if space == DEFAULT_SPACE else workspace.folder / ".holdfast/spaces/pastry/folders"
    for name in ("keys/a", "private/b"):
        (home / "work/site" / name).parent.mkdir(parents=True)
        (home / "work/site" / name).write_text(SECRET)
    async with opened(workspace) as runtime:
        root = await runtime.run_to_end(space=space)
        (child,) = await runtime.store.runs.children(space, root.id)
        seen = await results(runtime, child)
    assert seen[0].startswith("refused: the rule `read_file(keys/**)` of agent `bot` denies this call")
    assert len(seen) == 3 and SECRET not in "".join(seen), seen
    assert (home / "work/keys/open.txt").read_text() == "fine"


@pytest.mark.parametrize("folder", [{}, {"cwd": None}])
async def test_an_mcp_server_of_another_space_has_its_own_folder(
    workspace: AgentWorkspace, folder: dict[str, Json]
) -> None:
    await need_sandbox()
    server = program(PLAIN, sandbox="on", reads=READS, **folder)
    workspace.agent(
        calling(call("mcp__plain__effect", text="butter")),
        calling(call("mcp__plain__surroundings", text="")),
        say("{$last_tool}"),
        mcp_servers={"plain": server},
        permissions={"allow": ["mcp__plain__*"]},
        tainted="allow",
    )
    async with opened(workspace) as runtime:
        places = [str((await runtime.run_to_end(space=space)).output) for space in (DEFAULT_SPACE, PASTRY, BREAD)]
    assert len(files_with(workspace.folder, "butter")) == 3
    assert len({place.split('"cwd"')[1] for place in places}) == 3
    named = [name for name in files_with(workspace.folder, "butter") if "/mcp/" not in name]
    expected = [".holdfast/spaces/bread/folders/files/ran", ".holdfast/spaces/pastry/folders/files/ran", "files/ran"]
    assert named == ([] if folder else expected)


async def test_a_space_made_again_has_no_mcp_server_of_the_deleted_one(workspace: AgentWorkspace) -> None:
    workspace.agent(
        calling(call("mcp__plain__pid", text="")),
        say("{$last_tool}"),
        mcp_servers={"plain": program(PLAIN)},
        permissions={"allow": ["mcp__plain__*"]},
        tainted="allow",
    )
    async with opened(workspace) as runtime:
        before = [(await runtime.run_to_end(space=PASTRY)).output for _ in range(2)]
        async with asyncio.timeout(HANG_TIMEOUT_SECONDS):
            while (await runtime.store.runs.page(PASTRY)).items:
                try:
                    await runtime.store.spaces.delete(PASTRY)
                    await runtime.store.spaces.create(PASTRY, name=PASTRY)
                except RunActive:  # the worker has not released the run yet
                    await asyncio.sleep(0.01)
        after = (await runtime.run_to_end(space=PASTRY)).output
    assert before[0] == before[1] != after


async def test_always_in_one_space_allows_nothing_in_another(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(
        calling(call("log_write", message="x")), say("done"), tools=["log_write"], permissions={"ask": ["log_write"]}
    )
    async with opened(any_workspace) as runtime:
        first = await runtime.start(space=PASTRY)
        (interrupt,) = await runtime.wait_for_interrupts(first)
        await runtime.runs.respond(PASTRY, first.id, {"decision": "always"}, by="ada")
        await runtime.wait_until_ended(first)
        assert (await runtime.run_to_end(space=PASTRY)).status is RunStatus.COMPLETED
        for space in (BREAD, DEFAULT_SPACE):
            other = await runtime.start(space=space)
            await runtime.wait_for_interrupts(other)
            await runtime.runs.cancel(space, other.id)
        (grant,) = (await runtime.store.grants.page(PASTRY)).items
        assert (grant.agent, grant.rule, grant.created_by) == ("bot", "log_write", "ada")
        assert (grant.run_id, grant.interrupt_id) == (first.id, interrupt.id)
        await runtime.store.grants.revoke(PASTRY, grant.id, by="ben")
        again = await runtime.start(space=PASTRY)
        await runtime.wait_for_interrupts(again)
        await runtime.runs.cancel(PASTRY, again.id)
    assert not (any_workspace.folder / "permissions.json").exists()


async def test_rules_of_the_operator_hold_in_every_space(workspace: AgentWorkspace) -> None:
    workspace.agent(
        calling(call("log_write", message="x")), say("done"), tools=["log_write"], permissions={"ask": ["log_write"]}
    )
    workspace.write("permissions.json", {"allow": {"bot": ["log_write"]}})
    async with opened(workspace) as runtime:
        for space in (DEFAULT_SPACE, PASTRY):
            assert (await runtime.run_to_end(space=space)).status is RunStatus.COMPLETED
