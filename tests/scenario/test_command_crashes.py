"""A worker is killed while its agent runs commands: none is silently repeated, and none survives."""

import shutil
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Final

import msgspec
import pytest

from holdfast.bootstrap.store import open_store
from holdfast.domain.ids import RunId
from holdfast.domain.message import Role
from holdfast.domain.run import RunStatus
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.step import StepKind, StepState
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say
from tests.scenario.command_victim import WORKER, Task
from tests.support.database_probe import open_probe
from tests.support.fork_server import ForkServer
from tests.support.log_check import check_log
from tests.unit.sandbox.commands import died_out, new_mark
from tests.unit.sandbox.confined import need_sandbox

SEED: Final = 20_261_116
KILLS: Final = 6
MAX_KILL_SECONDS: Final = 2.0
"""Maximum seconds until a worker is killed, if it is not killed at a line."""
NAMES: Final = ("bash", "once", "again")


@pytest.fixture(scope="module")
async def workers() -> AsyncIterator[ForkServer]:
    await need_sandbox()
    async with ForkServer(WORKER) as server:
        yield server


@pytest.fixture
def workspace(shared_memory: Path) -> AgentWorkspace:
    """Return a workspace whose agent runs three commands: of a shell, of an effectful tool, of an idempotent one."""
    new_workspace = AgentWorkspace(shared_memory / "workspace", shared_memory / "holdfast.db")
    mark = f"0.1{new_mark().partition('.')[2]}"
    new_workspace.write("mark", mark)
    for name, kind in (("once", "effectful"), ("again", "idempotent")):
        script = f'echo "{name} $HOLDFAST_CALL_KEY" >>ran; (setsid sleep {mark} &); sleep {mark}; echo "{{}}"'
        new_workspace.write(f"tools/{name}/run.sh", script)
        manifest = {"name": name, "description": name, "parameters": {"type": "object"}, "command": ["sh", "./run.sh"]}
        new_workspace.write(f"tools/{name}/tool.json", {**manifest, "class": kind})
    command = f"echo bash >>ran; (setsid sleep {mark} &); sleep {mark}"
    turns = [calling(call("bash", command=command)), calling(call("once")), calling(call("again")), say("Done.")]
    new_workspace.agent(*turns, tools=list(NAMES), permissions={"allow": ["bash"]})
    return new_workspace


async def test_a_kill_in_the_middle_of_a_command(workers: ForkServer, workspace: AgentWorkspace) -> None:
    for name in NAMES:
        found = await _killed(workers, workspace, f"run-{name}", fatal=name)
        assert found[name] == (2 if name == "again" else 1)  # the idempotent one is repeated


async def test_a_kill_at_any_time(workers: ForkServer, workspace: AgentWorkspace) -> None:
    random = Random(SEED)
    for number in range(KILLS):
        await _killed(workers, workspace, f"run-{number}", seconds=random.uniform(0, MAX_KILL_SECONDS))
    async with open_probe(workspace.database) as probe:
        await check_log(probe)


async def _killed(
    workers: ForkServer, workspace: AgentWorkspace, name: str, *, fatal: str | None = None, seconds: float | None = None
) -> Counter[str]:
    """Kill a worker and let another finish its run; return how often each command was started."""
    files = workspace.folder / "files"
    shutil.rmtree(files, ignore_errors=True)
    task = Task(database=str(workspace.database), workspace=str(workspace.folder), run=RunId(name), fatal=fatal)
    await workers.send(msgspec.to_builtins(task), seconds=seconds)
    assert await died_out((workspace.folder / "mark").read_text())
    await workers.send(msgspec.to_builtins(msgspec.structs.replace(task, fatal=None)))
    lines = [line.split() for line in (files / "ran").read_text().splitlines()]
    starts = Counter(line[0] for line in lines)
    assert len({line[1] for line in lines if line[0] == "again"}) == 1  # the same call, by its key
    await _check(workspace, RunId(name), starts)
    return starts


async def _check(workspace: AgentWorkspace, run: RunId, starts: Counter[str]) -> None:
    async with open_store(workspace.database, read_only=True) as store:
        assert (await store.runs.get(DEFAULT_SPACE, run)).status is RunStatus.COMPLETED
        steps = await store.steps.of_run(DEFAULT_SPACE, run)
        messages = await store.messages.of_run(DEFAULT_SPACE, run)
    results = [message for message in messages if message.role is Role.TOOL]
    states = [step.state for step in steps if step.kind is StepKind.TOOL]
    assert len(results) == len(states) == len(NAMES)
    for name, state in zip(NAMES, states, strict=True):
        assert starts[name] == 1 or name == "again" or (starts[name] == 0 and state is StepState.UNKNOWN)
        assert state is StepState.DONE or (state is StepState.UNKNOWN and name != "again")
