"""Agents work on an existing project outside the workspace, where the settings list it for their space."""

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, Invalid
from holdfast.domain.ids import SpaceId
from holdfast.domain.run import RunStatus
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say
from tests.scenario.agents.test_separate_spaces import ALLOW_BASH, results
from tests.unit.sandbox.confined import need_sandbox

PASTRY: Final = SpaceId("pastry")
BREAD: Final = SpaceId("bread")
GIT: Final[dict[str, Json]] = {"name": "Ada's agent", "email": "agent@example.org"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a git project with tests and a virtual environment whose interpreter is elsewhere."""
    folder = tmp_path.resolve() / "site"
    folder.mkdir()
    (folder / "site_map.py").write_text("def pages():\n    return 1\n")
    (folder / "test_site.py").write_text(
        "import unittest, site_map, base_only\n\n\n"
        "class Pages(unittest.TestCase):\n    def test_pages(self):\n        self.assertEqual(site_map.pages(), 2)\n"
    )
    (folder / ".gitignore").write_text(".venv\n__pycache__\n")
    run = {"cwd": folder, "check": True, "capture_output": True}
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", ".venv"], **run)  # type: ignore[call-overload]
    packages = next((folder / ".venv/lib").glob("python3*")) / "site-packages"
    (packages / "base_only.py").write_text("")  # a module that only the environment has
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    for arguments in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-qm", "Begin")):
        subprocess.run(["git", *arguments], **run)  # type: ignore[call-overload]
    return folder


def subjects(project: Path) -> list[str]:
    """Return the commits of a project, newest first."""
    log = subprocess.run(["git", "log", "--format=%s"], cwd=project, capture_output=True, text=True, check=True)
    return log.stdout.splitlines()


def configure(workspace: AgentWorkspace, project: Path, *spaces: str, **settings: Json) -> None:
    """List a project in the settings."""
    listed: dict[str, Json] = {str(project): {"spaces": list(spaces)}}
    workspace.write("settings.json", {"project_folders": listed, "git": GIT, **settings})


async def test_an_agent_runs_the_tests_of_a_project_and_commits(any_workspace: AgentWorkspace, project: Path) -> None:
    await need_sandbox()
    configure(any_workspace, project, "default")
    commands = [
        "python -m unittest -q 2>&1 | tail -1; command -v python; echo $VIRTUAL_ENV",
        "python -m unittest -q 2>&1 | tail -1; git commit -qam 'Count pages'; git log --format='%an <%ae> %cn: %s'",
    ]
    any_workspace.agent(
        calling(call("bash", command=commands[0])),
        calling(call("read_file", path="site_map.py")),
        # Of another size: Python would use the old bytecode of a file that changed within a second and kept its size.
        calling(call("edit_file", path="site_map.py", old="return 1", new="return 1 + 1")),
        calling(call("bash", command=commands[1])),
        say("done"),
        tools=["bash", "read_file", "edit_file"],
        permissions=ALLOW_BASH,
        working_folder=str(project),
    )
    async with any_workspace.open() as runtime:
        run = await runtime.run_to_end()
        first, _, _, last = await results(runtime, run)
    assert run.status is RunStatus.COMPLETED
    assert first == f"FAILED (failures=1)\n{project}/.venv/bin/python\n{project}/.venv\n[exit code 0]"
    assert last.splitlines()[:2] == ["OK", "Ada's agent <agent@example.org> Ada's agent: Count pages"]
    assert subjects(project) == ["Count pages", "Begin"]


async def test_a_project_is_refused_for_a_space_that_is_not_listed(workspace: AgentWorkspace, project: Path) -> None:
    configure(workspace, project, "pastry")
    tools: dict[str, Any] = {"tools": ["list_dir", "agent_spawn"]}
    workspace.agent(calling(call("list_dir")), say("{$last_tool}"), working_folder=str(project), **tools)
    workspace.agent(calling(call("agent_spawn", agent="bot", input="go")), say("{$last_tool}"), name="parent", **tools)
    async with workspace.open() as runtime:
        for space in (PASTRY, BREAD):
            await runtime.store.spaces.create(space, name=space)
        with pytest.raises(Conflict, match="space `bread` may not use"):
            await runtime.start(space=BREAD)
        assert (await runtime.store.runs.page(BREAD)).items == []
        parent = await runtime.run_to_end(agent="parent", space=BREAD)
        assert "space `bread` may not use" in str(parent.output)
        listed = await runtime.run_to_end(space=PASTRY)
        assert "site_map.py" in str(listed.output)


async def test_a_project_that_is_not_listed_breaks_its_agent(workspace: AgentWorkspace, project: Path) -> None:
    workspace.agent(say("done"), working_folder=str(project))
    async with workspace.open() as runtime:
        with pytest.raises(Invalid, match="list it there with the spaces that may use it"):
            await runtime.start()
        assert [broken.name for broken in runtime.holdfast.agents.broken()] == ["bot"]


async def test_a_sub_agent_works_in_the_project_of_its_root(workspace: AgentWorkspace, project: Path) -> None:
    configure(workspace, project, "default")
    spawn = calling(call("agent_spawn", agent="helper", input="go"))
    workspace.agent(spawn, say("{$last_tool}"), tools=["agent_spawn"], working_folder=str(project))
    workspace.agent(calling(call("list_dir")), say("{$last_tool}"), name="helper", tools=["list_dir"])
    async with workspace.open() as runtime:
        assert "site_map.py" in str((await runtime.run_to_end()).output)


async def test_a_run_whose_project_was_taken_from_its_space_fails(workspace: AgentWorkspace, project: Path) -> None:
    configure(workspace, project, "default")
    ask = calling(call("ask_user", question="which?"))
    workspace.agent(
        ask, calling(call("list_dir")), say("no"), tools=["ask_user", "list_dir"], working_folder=str(project)
    )
    async with workspace.open() as runtime:
        run = await runtime.start()
        await runtime.wait_for_interrupts(run)
        await runtime.wait_for_status(run, RunStatus.WAITING)
        configure(workspace, project, "pastry")
        runtime.holdfast.settings.read()  # reads the file at once
        await runtime.runs.respond(run.space_id, run.id, "the first")
        ended = await runtime.wait_until_ended(run)
    assert ended.status is RunStatus.FAILED
    assert ended.error is not None and "space `default` may not use" in ended.error.message


async def test_a_missing_project_is_an_error_for_the_model(workspace: AgentWorkspace, project: Path) -> None:
    gone = project.with_name("gone")
    configure(workspace, gone, "default")
    workspace.agent(calling(call("list_dir")), say("{$last_tool}"), tools=["list_dir"], working_folder=str(gone))
    async with workspace.open() as runtime:
        assert "does not exist: create it" in str((await runtime.run_to_end()).output)
    assert not gone.exists()
