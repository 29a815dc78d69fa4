"""Versions of agents: a run keeps the one it was created with, over edits, kills and processes; denials do not wait."""

import asyncio
import shutil
import sys
from asyncio.subprocess import PIPE, create_subprocess_exec
from pathlib import Path
from typing import Final

import pytest

from holdfast import Agent
from holdfast.bootstrap.workspace import OpenWorkspace
from holdfast.domain.content import Json
from holdfast.domain.ids import RunId
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.tool import ToolClass
from tests.scenario.agents.agent_workspace import (
    HANG_TIMEOUT_SECONDS,
    SPACE,
    AgentRuntime,
    AgentWorkspace,
    call,
    calling,
    say,
)
from tests.scenario.agents.fake_tools import BlockingTool

ASK: Final = calling(call("ask_user", question="?"))
STAMP: Final[Json] = {
    "name": "stamp",
    "description": "Stamps.",
    "parameters": {"type": "object"},
    "command": ["./stamp.sh"],
    "read_only": True,
}
SKILL: Final = "---\nname: parcels\ndescription: Weigh parcels.\n---\n{}\n"
_VICTIM: Final = """
import asyncio, sys
from holdfast.bootstrap.workspace import open_workspace
from holdfast.domain.new_run import NewRun
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.thread import NewThread
from tests.builders import user

async def main(folder, database):
    async with open_workspace(folder, database=database) as holdfast:
        new = NewRun(thread=NewThread(agent_type="bot"), messages=[user("go")])
        print((await holdfast.runs.start(DEFAULT_SPACE, new)).run.id, flush=True)
        await asyncio.sleep(600)

asyncio.run(main(*sys.argv[1:]))
"""


def _tool(workspace: AgentWorkspace, name: str, script: str) -> None:
    workspace.write(f"tools/{name}/tool.json", {**STAMP, "name": name, "command": [f"./{name}.sh"]})
    workspace.write(f"tools/{name}/{name}.sh", f"#!/bin/sh\n{script}\n")
    (workspace.folder / f"tools/{name}/{name}.sh").chmod(0o755)


def _write_all(workspace: AgentWorkspace, mark: str) -> None:
    """Write everything that a version consists of."""
    workspace.write("agents/bot/AGENT.md", f"Instructions {mark}.")
    workspace.write("agents/bot/SOUL.md", f"Soul {mark}.")
    workspace.write("agents/bot/skills/parcels/SKILL.md", SKILL.format(f"Skill {mark}."))
    _tool(workspace, "stamp", f"echo '\"{mark}\"'")


def _reload(runtime: AgentRuntime) -> None:
    runtime.holdfast.agents.refresh()


async def _systems(runtime: AgentRuntime, run: Run) -> list[str]:
    steps = await runtime.store.contexts.steps(run.space_id, run.id)
    return [(await runtime.store.contexts.get(run.space_id, run.id, step)).system for step in steps]


async def _results(runtime: AgentRuntime, run: Run) -> list[str]:
    return [str(each.content) for each in await runtime.messages(run) if each.role == "tool"]


async def _start_and_kill(workspace: AgentWorkspace, started: Path) -> RunId:
    """Start a run in another process, which is killed as soon as a file exists."""
    process = await create_subprocess_exec(
        sys.executable, "-c", _VICTIM, str(workspace.folder), str(workspace.database), stdout=PIPE, cwd=Path.cwd()
    )
    try:
        assert process.stdout is not None
        run_id = RunId((await process.stdout.readline()).decode().strip())
        async with asyncio.timeout(HANG_TIMEOUT_SECONDS):
            while not started.exists():  # noqa: ASYNC110, ASYNC240 - another process makes it
                await asyncio.sleep(0.02)
    finally:
        process.kill()
        await process.wait()
    return run_id


async def test_a_killed_run_goes_on_from_its_version_after_every_file_was_edited(
    any_workspace: AgentWorkspace, tmp_path: Path
) -> None:
    workspace, gate = any_workspace, tmp_path / "gate"
    workspace.write("settings.json", {"sandbox": "off"})
    tools: Json = ["stamp", "wait"]
    turns = [calling(call("stamp")), calling(call("wait")), calling(call("stamp")), say("done")]
    workspace.agent(*turns, tools=tools, skills=["parcels"], tainted="allow")
    _write_all(workspace, "one")
    started = tmp_path / "started"
    _tool(workspace, "wait", f"touch {started}; until test -e {gate}; do sleep 0.05; done; echo 1")
    run_id = await _start_and_kill(workspace, started)
    _write_all(workspace, "two")
    workspace.configure(model="scripted:none.json", tools=[], temperature=0.5)
    shutil.rmtree(workspace.folder / "tools/wait")
    gate.touch()
    async with workspace.open() as runtime:
        run = await runtime.wait_until_ended(await runtime.store.runs.get(SPACE, run_id))
        assert (run.status, run.output) == (RunStatus.COMPLETED, "done"), run.error
        assert (await _results(runtime, run))[0::2] == ["one", "one"]
        systems = await _systems(runtime, run)
        _tool(workspace, "wait", "echo 1")
        workspace.configure(tools=["stamp", "wait"], skills=["parcels"], tainted="allow")
        _reload(runtime)
        new = await runtime.run_to_end()
        assert {new.agent_version, run.agent_version}.isdisjoint({None}) and new.agent_version != run.agent_version
        (system, *_) = await _systems(runtime, new)
    for text in ("Instructions one.", "Soul one.", "Skill one."):
        assert len(systems) == 4 and all(text in each and text.replace("one", "two") not in each for each in systems)
        assert text.replace("one", "two") in system


async def test_another_process_executes_a_version_that_its_folder_never_had(
    any_workspace: AgentWorkspace, tmp_path: Path
) -> None:
    any_workspace.agent(ASK, calling(call("stamp")), say("done"), tools=["ask_user", "stamp"])
    any_workspace.write("settings.json", {"sandbox": "off"})
    _write_all(any_workspace, "one")
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        await runtime.wait_for_interrupts(run)
    other = AgentWorkspace(tmp_path / "other", any_workspace.database)
    other.agent(model="scripted:another.json", tools=[])
    other.write("agents/bot/another.json", {"turns": [say("other")]})
    (other.folder / "agents/bot/script.json").unlink()
    other.write("settings.json", {"sandbox": "off"})
    async with other.open() as runtime:
        assert (await runtime.run_to_end()).output == "other"
        await runtime.runs.respond(SPACE, run.id, "on")
        ended = await runtime.wait_until_ended(run)
        assert (ended.status, ended.output) == (RunStatus.COMPLETED, "done"), ended.error
        assert (await _results(runtime, ended))[-1] == "one"
        assert all("Instructions one." in system for system in await _systems(runtime, ended))


@pytest.mark.parametrize("where", ["agents/bot/agent.json", "settings.json"])
async def test_a_rule_that_denies_holds_at_once_in_a_run_that_is_under_way(
    workspace: AgentWorkspace, where: str
) -> None:
    gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
    turns = [calling(call("log_write", message="1")), calling(call("gate")), calling(call("log_write", message="2"))]
    workspace.agent(*turns, say("done"), tools=["gate", "log_write"])
    async with workspace.open(gate) as runtime:
        run = await runtime.start()
        await gate.started.acquire()
        denied: Json = {"deny": ["log_write"]}
        if where == "settings.json":
            workspace.write("settings.json", {"permissions": denied})
        else:
            workspace.configure(tools=["gate", "log_write"], permissions=denied)
        await asyncio.sleep(0.3)  # longer than the files are read apart
        _reload(runtime)
        gate.open.set()
        ended = await runtime.wait_until_ended(run)
        results = await _results(runtime, ended)
    assert "refused" not in results[0] and "refused" in results[2], results
    assert ended.status is RunStatus.COMPLETED


async def test_a_rule_that_allows_holds_in_new_runs_only(workspace: AgentWorkspace) -> None:
    workspace.agent(ASK, calling(call("log_write", message="x")), say("done"), tools=["ask_user", "log_write"])
    workspace.configure(tools=["ask_user", "log_write"], permissions={"deny": ["log_write"]})
    async with workspace.open() as runtime:
        run = await runtime.start()
        await runtime.wait_for_interrupts(run)
        workspace.configure(tools=["ask_user", "log_write"])
        _reload(runtime)
        new = await runtime.start()
        await runtime.wait_for_interrupts(new)
        results = []
        for each in (run, new):
            await runtime.runs.respond(SPACE, each.id, "on")
            await runtime.wait_until_ended(each)
            results.append((await _results(runtime, each))[-1])
    assert "refused" in results[0] and "refused" not in results[1]


async def test_a_denial_for_a_parent_holds_in_its_running_children(workspace: AgentWorkspace) -> None:
    gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
    spawn = call("agent_spawn", agent="kid", input="go", wait=True)
    workspace.agent(calling(spawn), say("done"), tools=["agent_spawn", "log_write", "gate"])
    workspace.agent(
        calling(call("gate")),
        calling(call("log_write", message="x")),
        say("{$last_tool}"),
        name="kid",
        tools=["gate", "log_write"],
    )
    async with workspace.open(gate) as runtime:
        run = await runtime.start()
        await gate.started.acquire()
        workspace.configure(tools=["agent_spawn", "log_write", "gate"], permissions={"deny": ["log_write"]})
        _reload(runtime)
        gate.open.set()
        await runtime.wait_until_ended(run)
        child = await runtime.child(run)
        assert child.agent_version == runtime.holdfast.agents.get("kid").version
    assert "refused" in str(child.output) and "`bot`" in str(child.output), child.output


async def test_an_activated_version_is_for_new_runs_until_a_file_is_edited(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(say("done"))
    _write_all(any_workspace, "one")
    async with any_workspace.open() as runtime:
        first = (await runtime.run_to_end()).agent_version
        _write_all(any_workspace, "two")
        _reload(runtime)
        second = (await runtime.run_to_end()).agent_version
        versions = await _versions(runtime.holdfast)
        assert first is not None and versions == [second, first]
        await _activate(runtime.holdfast, first)
        rolled_back = await runtime.run_to_end()
        assert rolled_back.agent_version == first
        assert ["Instructions one." in each for each in await _systems(runtime, rolled_back)] == [True]
        assert runtime.holdfast.agents.get("bot").instructions == "Instructions one."
    async with any_workspace.open() as runtime:  # a restart is no edit
        assert (await runtime.run_to_end()).agent_version == first
        _write_all(any_workspace, "three")
        _reload(runtime)
        third = (await runtime.run_to_end()).agent_version
        assert third not in (first, second, None)
        assert await _versions(runtime.holdfast) == [third, second, first]


async def test_agents_in_code_have_versions_too(workspace: AgentWorkspace) -> None:
    workspace.agent(say("done"), name="other")
    workspace.write("script.json", {"turns": [ASK, say("done")]})

    def agent(instructions: str) -> Agent:
        return Agent("coded", instructions=instructions, model="scripted:script.json", tools=["ask_user"])

    async with workspace.open(agents=[agent("Say one.")]) as runtime:
        run = await runtime.start(agent="coded")
        await runtime.wait_for_interrupts(run)
        assert run.agent_version is not None
    async with workspace.open(agents=[agent("Say two.")]) as runtime:
        new = await runtime.start(agent="coded")
        await runtime.wait_for_interrupts(new)
        assert new.agent_version not in (None, run.agent_version)
        for each, text in ((run, "Say one."), (new, "Say two.")):
            await runtime.runs.respond(SPACE, each.id, "on")
            assert (await runtime.wait_until_ended(each)).output == "done"
            assert all(text in system for system in await _systems(runtime, each))


async def test_an_unchanged_agent_is_published_once(workspace: AgentWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace.agent(say("done"))
    async with workspace.open() as runtime:
        published = []
        publish = runtime.store.agent_versions.publish

        async def count(*args: object, **named: object) -> object:
            published.append(args)
            return await publish(*args, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(runtime.store.agent_versions, "publish", count)
        runs = [await runtime.run_to_end() for _ in range(20)]
        assert published == []
        workspace.write("agents/bot/AGENT.md", "Another.")
        _reload(runtime)
        new = [await runtime.run_to_end() for _ in range(3)]
    assert len(published) == 1
    assert len({run.agent_version for run in runs}) == len({run.agent_version for run in new}) == 1


async def test_a_damaged_bundle_is_read_from_the_store_again(workspace: AgentWorkspace) -> None:
    workspace.write("settings.json", {"sandbox": "off"})
    workspace.agent(ASK, calling(call("stamp")), say("done"), tools=["ask_user", "stamp"])
    _write_all(workspace, "one")
    async with workspace.open() as runtime:
        run = await runtime.start()
        await runtime.wait_for_interrupts(run)
    bundle = workspace.folder / ".holdfast/bundles" / str(run.agent_version)
    script = bundle / "tools/stamp/stamp.sh"
    script.chmod(0o755)
    script.write_text("#!/bin/sh\necho '\"forged\"'\n")
    async with workspace.open() as runtime:
        await runtime.runs.respond(SPACE, run.id, "on")
        ended = await runtime.wait_until_ended(run)
        assert (await _results(runtime, ended))[-1] == "one"


async def test_a_tool_with_a_link_is_left_out_and_used_as_it_is(workspace: AgentWorkspace, tmp_path: Path) -> None:
    workspace.write("settings.json", {"sandbox": "off"})
    workspace.agent(calling(call("stamp")), say("{$last_tool}"), tools=["stamp"])
    _write_all(workspace, "one")
    (tmp_path / "secret").write_text("x")
    (workspace.folder / "tools/stamp/link").symlink_to(tmp_path / "secret")
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        version = await runtime.store.agent_versions.get(None, "bot", str(run.agent_version))
    assert run.output == "one"
    assert [each.path for each in version.bundle.left_out] == ["tools/stamp"]
    assert not any(file.path.startswith("tools/") for file in version.bundle.files)


async def _versions(holdfast: OpenWorkspace) -> list[str]:
    return [each.digest for each in (await holdfast.store.agent_versions.page(None, "bot")).items]


async def _activate(holdfast: OpenWorkspace, digest: str) -> None:
    await holdfast.agents.follow(await holdfast.store.agent_versions.activate(None, "bot", digest))
