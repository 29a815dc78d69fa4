"""A worker is killed around what others wrote, and around a tool that was activated: neither is ever forgotten."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pytest

from holdfast.domain.events.custom import Tainted
from holdfast.domain.run import RunStatus
from holdfast.testing.kills import Death, ForkServer
from tests.scenario.agents.obedient import RUN, Task, tools
from tests.scenario.agents.workshop import SPACE, Workshop, call, calling, say

WORK: Final = "tests.scenario.agents.obedient:work"
DEATHS: Final = 5


@pytest.fixture(scope="module")
async def victims() -> AsyncIterator[ForkServer]:
    async with ForkServer(WORK) as server:
        yield server


class Place(NamedTuple):
    """A workspace in which victims work."""

    workshop: Workshop
    charged: Path

    async def send(self, victims: ForkServer, *, fatal: int | None = None) -> Death:
        """Have a victim go on with the run."""
        folder, database = str(self.workshop.folder), str(self.workshop.where)
        task = Task(folder=folder, database=database, charged=str(self.charged), fatal=fatal)
        return await victims.send(msgspec.to_builtins(task))

    async def check(self) -> None:
        """See that a person was asked once, that nothing was done, and which tools the model was shown."""
        async with self.workshop.open(*tools(self.charged), workers=0) as floor:
            run = await floor.store.runs.get(SPACE, RUN)
            told, questions = await floor.told(run, Tainted), await floor.store.interrupts.of_run(SPACE, RUN)
            shown = [tool["name"] for tool in (await floor.context(run)).tools]
        assert (run.status, [one.source for one in told], len(questions)) == (
            RunStatus.COMPLETED,
            ["tool:read_mail"],
            1,
        )
        assert not self.charged.exists()
        assert sorted(shown) == ["charge", "read_mail", "tool_activate", "tool_search"]


def a_place(tmp_path: Path, shared_memory: Path, name: str) -> Place:
    """Make a workspace with an agent that has more tools than are shown, and activates what it needs."""
    workshop = Workshop(tmp_path / name, shared_memory / f"{name}.db")
    workshop.agent(
        calling(*({"name": "tool_activate", "arguments": {"name": name}} for name in ("read_mail", "charge"))),
        calling(call("read_mail")),
        calling(call("charge")),
        say("done"),
        tools=["read_mail", "charge", "log_write"],
        tools_shown=2,
    )
    return Place(workshop, workshop.folder / "charged")


@pytest.mark.parametrize("deaths", [DEATHS, pytest.param(None, marks=pytest.mark.slow, id="everywhere")])
async def test_taint_and_activation_outlive_their_worker_wherever_it_dies(
    victims: ForkServer, tmp_path: Path, shared_memory: Path, deaths: int | None
) -> None:
    whole = a_place(tmp_path, shared_memory, "whole")
    (points,) = (await whole.send(victims)).said
    await whole.check()
    killed = 0
    for fatal in range(2, points, 1 if deaths is None else points // deaths):
        place = a_place(tmp_path, shared_memory, f"at_{fatal}")
        killed += (await place.send(victims, fatal=fatal)).killed
        await place.send(victims)
        await place.check()
    assert killed > 0
