"""A worker is killed around an approval: nobody is asked twice, and what was refused never runs."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pytest

from holdfast.domain.events.custom import PermissionDecided
from holdfast.domain.permission import Verdict
from holdfast.domain.run import RunStatus
from holdfast.testing.kills import Death, ForkServer
from tests.scenario.agents.approver import BAD, GOOD, RUN, Task
from tests.scenario.agents.handwork import answers
from tests.scenario.agents.workshop import SPACE, Workshop, call, calling, say

WORK: Final = "tests.scenario.agents.approver:work"
DEATHS: Final = 5


@pytest.fixture(scope="module")
async def approvers() -> AsyncIterator[ForkServer]:
    async with ForkServer(WORK) as server:
        yield server


class Place(NamedTuple):
    """A workspace in which victims work."""

    workshop: Workshop
    ran: Path

    async def send(self, approvers: ForkServer, *, fatal: int | None = None) -> Death:
        """Have a victim go on with the run."""
        task = Task(folder=str(self.workshop.folder), database=str(self.workshop.where), ran=str(self.ran), fatal=fatal)
        return await approvers.send(msgspec.to_builtins(task))

    async def check(self) -> None:
        """See that nothing was done twice, and nothing that was refused."""
        ran = self.ran.read_text().splitlines()
        async with self.workshop.open(answers("bash", "no"), workers=0) as floor:
            run = await floor.store.runs.get(SPACE, RUN)
            asked = [one for one in await floor.told(run, PermissionDecided) if one.decision is Verdict.ASK]
            questions = await floor.store.interrupts.of_run(SPACE, RUN)
            said = await floor.said(run)
        assert (run.status, len(asked), len(questions)) == (RunStatus.COMPLETED, 2, 2)
        assert "tool: refused: a person said no" in said
        assert ran == [GOOD] or (ran == [] and any(line.startswith("tool: unknown") for line in said))


def a_place(tmp_path: Path, shared_memory: Path, name: str) -> Place:
    """Make a workspace with an agent that makes two calls which are asked for."""
    workshop = Workshop(tmp_path / name, shared_memory / f"{name}.db")
    workshop.agent(calling(call("bash", command=GOOD), call("bash", command=BAD)), say("done"), tools=["bash"])
    ran = workshop.folder / "ran"
    ran.touch()
    return Place(workshop, ran)


@pytest.mark.parametrize("deaths", [DEATHS, pytest.param(None, marks=pytest.mark.slow, id="everywhere")])
async def test_a_call_that_was_approved_runs_once_wherever_its_worker_dies(
    approvers: ForkServer, tmp_path: Path, shared_memory: Path, deaths: int | None
) -> None:
    whole = a_place(tmp_path, shared_memory, "whole")
    (points,) = (await whole.send(approvers)).said
    await whole.check()
    killed = 0
    for fatal in range(2, points, 1 if deaths is None else points // deaths):
        place = a_place(tmp_path, shared_memory, f"at_{fatal}")
        killed += (await place.send(approvers, fatal=fatal)).killed
        await place.send(approvers)
        await place.check()
    assert killed > 0
