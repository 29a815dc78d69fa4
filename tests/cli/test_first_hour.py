"""A new user's first hour, from the wheel in an empty virtual environment, with every command of the quick start."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.architecture.markdown import python_blocks
from tests.architecture.project import ROOT
from tests.cli.test_quickstart import run_quick_start

TIMEOUT_SECONDS: Final = 1200
MAX_INSTALL_BYTES: Final = 230 * 1024 * 1024
OTHER_PYTHONS: Final = [f"python3.{minor}" for minor in (12, 13) if sys.version_info[1] != minor]

pytestmark = pytest.mark.timeout(TIMEOUT_SECONDS)


def run(*command: str | Path, cwd: Path | None = None, stdin: str = "") -> str:
    """Run a command to its end, and return what it printed."""
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    constraints = ROOT / "constraints.txt"
    run(sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--build-constraint", constraints, "-w", folder, ROOT)
    (built,) = folder.glob("holdfast_agents-*.whl")
    return built


def interpreter(name: str) -> str | None:
    """Return the first program of that name that starts: on the path, or among the versions of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    programs = [shutil.which(name), *map(str, sorted(pyenv.glob(f"versions/*/bin/{name}")))]
    working = (
        each
        for each in programs
        if each is not None and subprocess.run([each, "--version"], capture_output=True).returncode == 0
    )
    return next(working, None)


def disk_usage(folder: Path) -> int:
    """Return the disk space of a folder in bytes."""
    return sum(each.lstat().st_blocks * 512 for each in folder.rglob("*"))


@pytest.fixture(
    scope="module", params=[sys.executable, *(pytest.param(each, marks=pytest.mark.slow) for each in OTHER_PYTHONS)]
)
def empty(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty virtual environment."""
    program = interpreter(request.param)
    if program is None:
        pytest.skip(f"there is no {request.param} here")
    folder = tmp_path_factory.mktemp("venv")
    run(program, "-m", "venv", folder)
    return folder


@pytest.fixture(scope="module")
def added_bytes(empty: Path, wheel: Path) -> int:
    """The disk space that the wheel takes in an empty environment, with all that it depends on."""
    before = disk_usage(empty)
    run(empty / "bin" / "python", "-m", "pip", "install", "-qq", "-c", ROOT / "constraints.txt", wheel)
    return disk_usage(empty) - before


@pytest.fixture(scope="module")
def python(empty: Path, added_bytes: int) -> Path:
    """The Python of a virtual environment with the wheel, and with FastAPI for the guide that mounts Holdfast."""
    installed = empty / "bin" / "python"
    run(installed, "-m", "pip", "install", "-qq", "-c", ROOT / "constraints.txt", "fastapi")
    return installed


def test_the_base_install_is_small(added_bytes: int) -> None:
    assert added_bytes <= MAX_INSTALL_BYTES


def document(name: str, folder: Path) -> Path:
    """Write the Python of a guide as a program."""
    code = "\n".join(block.code for block in python_blocks(ROOT / "docs" / "guides" / name) if block.runs)
    program = folder / f"{name.removesuffix('.md')}_guide.py"
    program.write_text(code)
    return program


@contextmanager
def serving(python: Path, workspace: Path) -> Iterator[None]:
    """Serve a workspace on a free port; commands in its folder find the server."""
    command = [python.with_name("holdfast"), "serve", "--port", "0", "--json", "--quiet", "--workspace", workspace]
    with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert json.loads(server.stdout.readline())["workspace"] == str(workspace)
        try:
            yield
        finally:
            server.terminate()


def agent(holdfast: Path, workspace: Path, name: str, settings: dict[str, Any], turns: list[Any]) -> None:
    """Create an agent that follows a script."""
    run(holdfast, "agent", "new", name, "-w", workspace)
    (workspace / "agents" / name / "agent.json").write_text(json.dumps({"model": "scripted:s.json", **settings}))
    (workspace / "agents" / name / "s.json").write_text(json.dumps({"turns": turns, "after_last": "repeat"}))


def test_the_quick_start_works_as_printed(python: Path, tmp_path: Path) -> None:
    printed = run_quick_start(tmp_path, python)
    assert "Make an omelette of three eggs." in printed and "these functions load: price" in printed


@pytest.mark.parametrize("guide", ["python.md", "mount.md"])
def test_the_python_of_the_guides_works(python: Path, tmp_path: Path, guide: str) -> None:
    printed = run(python, document(guide, tmp_path), cwd=tmp_path)
    assert ("ACME 12.5" if guide == "python.md" else "Good morning, Ada.") in printed


def test_an_approval_a_structured_answer_a_fork_and_a_project(python: Path, tmp_path: Path) -> None:
    holdfast, workspace, project = python.with_name("holdfast"), tmp_path / "desk", tmp_path / "project"
    run(holdfast, "init", workspace)
    project.mkdir()
    (project / "notes.txt").write_text("buy tea")
    agents: dict[str, tuple[dict[str, Any], list[Any]]] = {
        "clerk": (
            {"tools": ["log_write"], "permissions": {"ask": ["log_write"]}},
            [{"call": [{"name": "log_write", "arguments": {"message": "at nine"}}]}, {"say": "{$last_tool}"}],
        ),
        "broker": ({}, [{"say": '{"symbol": "ACME", "value": 12.5}'}]),
        "reader": (
            {"tools": ["read_file"], "working_folder": str(project)},
            [{"call": [{"name": "read_file", "arguments": {"path": "notes.txt"}}]}, {"say": "{$last_tool}"}],
        ),
    }
    for name, (settings, turns) in agents.items():
        agent(holdfast, workspace, name, settings, turns)
    (workspace / "settings.json").write_text(json.dumps({"project_folders": {str(project): {"spaces": ["default"]}}}))
    (tmp_path / "quote.json").write_text('{"type": "object", "required": ["symbol", "value"]}')
    with serving(python, workspace):
        started = json.loads(run(holdfast, "run", "start", "clerk", "note it", "--json", cwd=workspace))
        waiting: list[dict[str, str]] = []
        while not waiting:
            waiting = json.loads(run(holdfast, "approvals", "--json", cwd=workspace))
        run(holdfast, "run", "respond", waiting[0]["root_run_id"], "--approve", cwd=workspace)
        assert "logged" in run(holdfast, "run", "follow", started["id"], cwd=workspace)
        asked = run(holdfast, "ask", "broker", "ACME?", "--schema", tmp_path / "quote.json", cwd=workspace)
        assert json.loads(asked) == {"symbol": "ACME", "value": 12.5}
        fork = ("thread", "fork", started["thread_id"], "again", "--agent", "broker", "--after", "0", "--json")
        assert json.loads(run(holdfast, *fork, cwd=workspace))["base_run_id"] == started["id"]
        assert "buy tea" in run(holdfast, "ask", "reader", "what is to do?", cwd=workspace)


@pytest.mark.skipif(shutil.which("npx") is None, reason="there is no npx here")
def test_an_mcp_server_from_npm_is_listed_with_its_tools_and_called(python: Path, tmp_path: Path) -> None:
    holdfast, workspace = python.with_name("holdfast"), tmp_path / "desk"
    run(holdfast, "init", workspace)
    server = {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-everything"], "sandbox": "off"}
    (workspace / "settings.json").write_text(json.dumps({"mcp_servers": {"everything": server}}))
    assert "`everything` answers, with" in run(holdfast, "mcp", "test", "everything", "-w", workspace)
    called = {"name": "mcp__everything__echo", "arguments": {"message": "from npm"}}
    agent(
        holdfast,
        workspace,
        "echo",
        {"tools": ["mcp__everything__*"], "permissions": {"allow": ["mcp__everything__echo"]}},
        [{"call": [called]}, {"say": "{$last_tool}"}],
    )
    with serving(python, workspace):
        assert "from npm" in run(holdfast, "ask", "echo", "go", cwd=workspace)


def test_a_conversation_goes_on_after_a_restart(python: Path, tmp_path: Path) -> None:
    holdfast, workspace = python.with_name("holdfast"), tmp_path / "desk"
    run(holdfast, "init", workspace)
    with serving(python, workspace):
        assert "You said: one" in run(holdfast, "chat", "hello", cwd=workspace, stdin="one\n")
        (thread,) = json.loads(run(holdfast, "thread", "list", "--json", cwd=workspace))
    with serving(python, workspace):
        resumed = run(holdfast, "chat", "--thread", thread["id"], cwd=workspace, stdin="two\n")
    assert resumed.index("You said: one") < resumed.index("You said: two")
