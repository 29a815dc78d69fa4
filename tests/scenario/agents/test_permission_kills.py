"""A worker is killed around an approval: no interrupt opens twice, and a denied call never runs."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from holdfast.domain.events.custom import PermissionDecided
from holdfast.domain.permission import PermissionAction
from holdfast.domain.run import RunStatus
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace, call, calling, say
from tests.scenario.agents.approval_process import BAD, GOOD
from tests.scenario.agents.fake_tools import fixed_tool
from tests.scenario.agents.killed_process import KILLS, RUN, KilledWorkspace, kill_and_resume
from tests.support.fork_server import ForkServer


@pytest.fixture(scope="module")
async def approvers() -> AsyncIterator[ForkServer]:
    async with ForkServer("tests.scenario.agents.approval_process:work") as server:
        yield server


def new_killed_workspace(tmp_path: Path, shared_memory: Path, name: str) -> KilledWorkspace:
    """Create a workspace with an agent that makes two calls which require approval."""
    workspace = AgentWorkspace(tmp_path / name, shared_memory / f"{name}.db")
    workspace.agent(calling(call("bash", command=GOOD), call("bash", command=BAD)), say("done"), tools=["bash"])
    ran = workspace.folder / "ran"
    ran.touch()
    return KilledWorkspace(workspace, ran)


async def check(killed_workspace: KilledWorkspace) -> None:
    """Check that no call ran twice, and no denied call ran."""
    ran = killed_workspace.effects.read_text().splitlines()
    async with killed_workspace.workspace.open(fixed_tool("bash", "no"), workers=0) as runtime:
        run = await runtime.store.runs.get(SPACE, RUN)
        events = [
            one for one in await runtime.custom_events(run, PermissionDecided) if one.decision is PermissionAction.ASK
        ]
        interrupts = await runtime.store.interrupts.of_run(SPACE, RUN)
        texts = await runtime.texts(run)
    assert (run.status, len(events), len(interrupts)) == (RunStatus.COMPLETED, 2, 2)
    assert "tool: refused: a person said no" in texts
    assert ran == [GOOD] or (ran == [] and any(line.startswith("tool: unknown") for line in texts))


@pytest.mark.parametrize("deaths", [KILLS, pytest.param(None, marks=pytest.mark.slow, id="everywhere")])
async def test_an_approved_call_runs_once_wherever_its_worker_is_killed(
    approvers: ForkServer, tmp_path: Path, shared_memory: Path, deaths: int | None
) -> None:
    await kill_and_resume(approvers, partial(new_killed_workspace, tmp_path, shared_memory), check, kills=deaths)
