"""A worker is killed around untrusted content and an activated tool: taint and activation survive."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from holdfast.domain.events.custom import RunTainted
from holdfast.domain.run import RunStatus
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace, call, calling, say
from tests.scenario.agents.injection_process import tools
from tests.scenario.agents.killed_process import KILLS, RUN, KilledWorkspace, kill_and_resume
from tests.support.fork_server import ForkServer


@pytest.fixture(scope="module")
async def victims() -> AsyncIterator[ForkServer]:
    async with ForkServer("tests.scenario.agents.injection_process:work") as server:
        yield server


def new_killed_workspace(tmp_path: Path, shared_memory: Path, name: str) -> KilledWorkspace:
    """Create a workspace with an agent that has more tools than are shown, and activates those it needs."""
    workspace = AgentWorkspace(tmp_path / name, shared_memory / f"{name}.db")
    workspace.agent(
        calling(*({"name": "tool_activate", "arguments": {"name": name}} for name in ("read_mail", "charge"))),
        calling(call("read_mail")),
        calling(call("charge")),
        say("done"),
        tools=["read_mail", "charge", "log_write"],
        tools_shown=2,
    )
    return KilledWorkspace(workspace, workspace.folder / "charged")


async def check(killed_workspace: KilledWorkspace) -> None:
    """Check that one interrupt was opened, that nothing was charged, and which tools the model was shown."""
    async with killed_workspace.workspace.open(*tools(killed_workspace.effects), workers=0) as runtime:
        run = await runtime.store.runs.get(SPACE, RUN)
        events, interrupts = (
            await runtime.custom_events(run, RunTainted),
            await runtime.store.interrupts.of_run(SPACE, RUN),
        )
        shown = [tool["name"] for tool in (await runtime.context(run)).tools]
    assert (run.status, [one.source for one in events], len(interrupts)) == (RunStatus.COMPLETED, ["tool:read_mail"], 1)
    assert not killed_workspace.effects.exists()
    assert sorted(shown) == ["charge", "read_mail", "tool_activate", "tool_search"]


@pytest.mark.parametrize("deaths", [KILLS, pytest.param(None, marks=pytest.mark.slow, id="everywhere")])
async def test_taint_and_activation_survive_a_killed_worker(
    victims: ForkServer, tmp_path: Path, shared_memory: Path, deaths: int | None
) -> None:
    await kill_and_resume(victims, partial(new_killed_workspace, tmp_path, shared_memory), check, kills=deaths)
