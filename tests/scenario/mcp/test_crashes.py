"""A worker is killed during an MCP call: the server dies with it, and the call is recovered."""

import shutil
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from holdfast.bootstrap.store import open_store
from holdfast.domain.ids import RunId
from holdfast.domain.run import RunStatus
from holdfast.domain.step import StepKind, StepState
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace, say
from tests.scenario.mcp.declaring import PLAIN, effects, program, tool_turn
from tests.scenario.mcp.victim import WORKER, Task
from tests.support.database_probe import open_probe
from tests.support.fork_server import ForkServer
from tests.support.log_check import check_log
from tests.unit.sandbox.commands import died_out, new_mark

NAMES: Final = ("once", "again")


@pytest.fixture(scope="module")
async def workers() -> AsyncIterator[ForkServer]:
    async with ForkServer(WORKER) as server:
        yield server


@pytest.fixture
def mark() -> str:
    """Return a mark that only the command lines of this test's servers contain."""
    return f"0.5{new_mark().partition('.')[2]}"


@pytest.fixture
def workspace(shared_memory: Path, mark: str) -> AgentWorkspace:
    """Return a workspace whose agent calls an effectful tool and an idempotent one; both take half a second."""
    new_workspace = AgentWorkspace(shared_memory / "workspace", shared_memory / "holdfast.db")
    new_workspace.write(mark, "Turns.")
    slow = program(PLAIN, str(new_workspace.folder / mark), env={"SLOWLY": mark})
    servers = {"once": slow, "again": {**slow, "classes": {"slowly": "idempotent"}}}
    rules = {"allow": ["mcp__once__*", "mcp__again__*"]}
    turns = [tool_turn("slowly", name, server=name) for name in NAMES]
    new_workspace.agent(*turns, say("Done."), mcp_servers=servers, permissions=rules, tainted="allow")
    return new_workspace


@pytest.mark.parametrize("fatal", NAMES)
async def test_a_kill_in_the_middle_of_a_call(
    workers: ForkServer, workspace: AgentWorkspace, mark: str, fatal: str
) -> None:
    shutil.rmtree(workspace.folder / "files", ignore_errors=True)
    task = Task(
        database=str(workspace.database), workspace=str(workspace.folder), run=RunId(f"run-{fatal}"), fatal=fatal
    )
    await workers.send(msgspec.to_builtins(task), seconds=None)
    assert await died_out(mark)
    await workers.send(msgspec.to_builtins(msgspec.structs.replace(task, fatal=None)), seconds=None)
    assert await died_out(mark)
    assert Counter(effects(workspace)) == ({"once": 1, "again": 1} if fatal == "once" else {"once": 1, "again": 2})
    async with open_store(workspace.database) as store:
        assert (await store.runs.get(SPACE, task.run)).status is RunStatus.COMPLETED
        steps = [step.state for step in await store.steps.of_run(SPACE, task.run) if step.kind is StepKind.TOOL]
    assert steps == [StepState.UNKNOWN if fatal == "once" else StepState.DONE, StepState.DONE]
    async with open_probe(workspace.database) as probe:
        await check_log(probe)
