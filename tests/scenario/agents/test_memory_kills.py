"""A worker is killed while it recalls, remembers, supersedes, writes a memory file and distils: nothing is doubled."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from holdfast.domain.context import recalled_memory
from holdfast.domain.memory import MemoryStatus, MemoryType, NewMemory
from holdfast.domain.run import RunStatus
from holdfast.ports.runs import RunFilter
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace, call, calling, say
from tests.scenario.agents.killed_process import RUN, KilledWorkspace, kill_and_resume
from tests.scenario.agents.test_distillation import distils
from tests.support.fork_server import ForkServer

KILLS = 8
NOTE = "- the boat is called Juniper"


@pytest.fixture(scope="module")
async def victims() -> AsyncIterator[ForkServer]:
    async with ForkServer("tests.scenario.agents.memory_process:work") as server:
        yield server


def new_killed_workspace(tmp_path: Path, shared_memory: Path, name: str) -> KilledWorkspace:
    """Create a workspace with an agent that remembers two facts, writes a note, and is distilled."""
    workspace = AgentWorkspace(tmp_path / name, shared_memory / f"{name}.db")
    workspace.agent(
        calling(
            call("remember", text="Ada moored the boat in Bergen", type="episode"),
            call("remember", text="Ada prefers the outer berth", type="semantic"),
        ),
        calling(call("memory_write", text=NOTE)),
        calling(call("memory_write", text="Juniper", mode="edit", old="Juniper")),
        say("kept"),
        tools=["remember", "memory_write"],
        memory={"distil": {"model": "scripted:distil.json"}},
    )
    distils(workspace)
    return KilledWorkspace(workspace, workspace.folder / "effects")


async def check(killed: KilledWorkspace) -> None:
    """Check that each memory, each line and the distil run is there once."""
    async with killed.workspace.open() as runtime:
        run = await runtime.store.runs.get(SPACE, RUN)
        distilled = (await runtime.store.runs.page(SPACE, where=RunFilter(tags=["distillation"]))).items
        ended = [(await runtime.wait_until_ended(each)).status for each in distilled]
        kept = (await runtime.store.memories.page(SPACE)).items
        recalled = recalled_memory(await runtime.store.values.of_run(SPACE, RUN))
    assert run.status is RunStatus.COMPLETED
    assert ended == [RunStatus.COMPLETED]
    assert sorted(memory.text for memory in kept) == ["Ada moored the boat in Bergen", "Ada prefers the outer berth"]
    assert {memory.status for memory in kept} == {MemoryStatus.ACTIVE}
    assert (killed.workspace.folder / "memory/agents/bot/MEMORY.md").read_text() == f"{NOTE}\n"
    assert recalled.message_id is not None and recalled.undistilled == []


@pytest.mark.parametrize("kills", [KILLS, pytest.param(None, marks=pytest.mark.slow, id="everywhere")])
async def test_nothing_is_lost_or_doubled_by_a_killed_worker(
    victims: ForkServer, tmp_path: Path, shared_memory: Path, kills: int | None
) -> None:
    await kill_and_resume(victims, partial(new_killed_workspace, tmp_path, shared_memory), check, kills=kills)


async def test_what_was_recalled_is_sent_again_after_a_restart(workspace: AgentWorkspace) -> None:
    workspace.agent(calling(call("sleep", seconds=1)), say("awake"), tools=["sleep"], memory={})
    async with workspace.open() as runtime:
        fact = NewMemory(type=MemoryType.SEMANTIC, text="The lighthouse keeper is called Maren")
        await runtime.store.memories.put(SPACE, fact)
        run = await runtime.start("Who is the keeper of the lighthouse?")
        await runtime.wait_for_status(run, RunStatus.WAITING)
        later = NewMemory(type=MemoryType.SEMANTIC, text="The keeper of the lighthouse has a dog")
        await runtime.store.memories.put(SPACE, later)
    async with workspace.open() as runtime:
        await runtime.wait_until_ended(run)
        contexts = [
            await runtime.store.contexts.get(SPACE, run.id, step)
            for step in await runtime.store.contexts.steps(SPACE, run.id)
        ]
    shown = [[segment.text for segment in each.segments if segment.name == "memories"] for each in contexts]
    assert len(shown) == 2 and shown[0] == shown[1]
    assert "Maren" in shown[0][0] and "dog" not in shown[0][0]
    assert contexts[0].memory == contexts[1].memory != []
