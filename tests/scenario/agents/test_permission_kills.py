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
from tests.scenario.agents.fake_tools import answers
from tests.scenario.agents.killed_process import DEATHS, RUN, Place, die_in_turn
from tests.support.fork_server import ForkServer


@pytest.fixture(scope="module")
async def approvers() -> AsyncIterator[ForkServer]:
    async with ForkServer("tests.scenario.agents.approval_process:work") as server:
        yield server


def a_place(tmp_path: Path, shared_memory: Path, name: str) -> Place:
    """Make a workspace with an agent that makes two calls which are asked for."""
    workspace = AgentWorkspace(tmp_path / name, shared_memory / f"{name}.db")
    workspace.agent(calling(call("bash", command=GOOD), call("bash", command=BAD)), say("done"), tools=["bash"])
    ran = workspace.folder / "ran"
    ran.touch()
    return Place(workspace, ran)


async def check(place: Place) -> None:
    """See that nothing was done twice, and nothing that was refused."""
    ran = place.done.read_text().splitlines()
    async with place.workspace.open(answers("bash", "no"), workers=0) as runtime:
        run = await runtime.store.runs.get(SPACE, RUN)
        asked = [
            one for one in await runtime.custom_events(run, PermissionDecided) if one.decision is PermissionAction.ASK
        ]
        questions = await runtime.store.interrupts.of_run(SPACE, RUN)
        said = await runtime.texts(run)
    assert (run.status, len(asked), len(questions)) == (RunStatus.COMPLETED, 2, 2)
    assert "tool: refused: a person said no" in said
    assert ran == [GOOD] or (ran == [] and any(line.startswith("tool: unknown") for line in said))


@pytest.mark.parametrize("deaths", [DEATHS, pytest.param(None, marks=pytest.mark.slow, id="everywhere")])
async def test_an_approved_call_runs_once_wherever_its_worker_is_killed(
    approvers: ForkServer, tmp_path: Path, shared_memory: Path, deaths: int | None
) -> None:
    await die_in_turn(approvers, partial(a_place, tmp_path, shared_memory), check, deaths=deaths)
