"""A worker is killed in the middle of a call of a model provider, on each lane: another one makes the call again."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.domain.message import Role
from holdfast.domain.run import RunStatus
from holdfast.domain.step import Lane, StepState
from holdfast.testing.openai_server import StubOpenAIServer, StubReply
from tests.scenario.agents.agent_workspace import SPACE, STAND_IN, AgentWorkspace
from tests.scenario.agents.killed_process import RUN, KilledWorkspace, kill_and_resume
from tests.support.fork_server import ForkServer

ANSWER = StubReply(text="an answer that takes its time", chunks=4, delay_ms=10)


@pytest.fixture(scope="module")
async def victims() -> AsyncIterator[ForkServer]:
    async with ForkServer("tests.scenario.agents.provider_process:work") as server:
        yield server


@pytest.mark.parametrize(
    ("lane", "kills"),
    [(Lane.DIRECT, 3), *(pytest.param(lane, None, marks=pytest.mark.slow) for lane in Lane)],
)
async def test_a_call_of_a_killed_worker_is_made_again(
    victims: ForkServer, tmp_path: Path, shared_memory: Path, lane: Lane, kills: int | None
) -> None:
    async with StubOpenAIServer(default_reply=ANSWER) as provider:
        calls: list[int] = []

        def new_killed_workspace(name: str) -> KilledWorkspace:
            workspace = AgentWorkspace(tmp_path / name, shared_memory / f"{lane}_{name}.db")
            workspace.provider(provider, lane=lane)
            workspace.agent(model=STAND_IN)
            return KilledWorkspace(workspace, workspace.folder / "effects")

        async def check(killed_workspace: KilledWorkspace) -> None:
            async with killed_workspace.workspace.open(workers=0) as runtime:
                run = await runtime.store.runs.get(SPACE, RUN)
                (step,) = await runtime.steps(run)
                messages = await runtime.messages(run)
                await runtime.check_abandoned(run)
            assert (run.status, run.output) == (RunStatus.COMPLETED, ANSWER.text)
            assert (step.state, step.lane) == (StepState.DONE, lane)
            assert [message.role for message in messages] == [Role.USER, Role.ASSISTANT]
            calls.append(len(provider.requests) - sum(calls))

        await kill_and_resume(victims, new_killed_workspace, check, kills=kills)
        assert (calls[0], set(calls)) == (1, {1, 2})  # a call is made twice only if a kill cut it
        await provider.wait_until(lambda provider: provider.open_connections == 0)
