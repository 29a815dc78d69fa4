"""Processes that run an agent, answer its interrupts and are killed on the way; and their workspaces."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

import holdfast.store.sqlite.database  # noqa: F401 - else each killed process would import it on first use
from holdfast.bootstrap.workspace import OpenWorkspace, Options, open_workspace
from holdfast.domain.errors import AlreadyAnswered, Conflict, IdTaken
from holdfast.domain.ids import RunId
from holdfast.domain.interrupt import Interrupt, InterruptStatus
from holdfast.domain.new_run import NewRun
from holdfast.domain.thread import NewThread
from holdfast.tools.tool import Tool
from tests.builders import user
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace
from tests.support.commit_points import CommitPoints
from tests.support.fork_server import Death, ForkServer, SendMessage

RUN: Final = RunId("run_of_the_killed")
KILLS: Final = 5
"""The number of kills if not every commit point is tried."""

Decide: TypeAlias = Callable[[Interrupt], str]


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The workspace, the file that tools append to, and the commit point at which the process is killed, if any."""

    folder: str
    database: str
    effects: str
    fatal: int | None = None


class KilledWorkspace(NamedTuple):
    """A workspace in which processes are killed."""

    workspace: AgentWorkspace
    effects: Path

    async def send(self, victims: ForkServer, *, fatal: int | None = None) -> Death:
        """Let a process continue the run."""
        folder, database = str(self.workspace.folder), str(self.workspace.database)
        task = Task(folder=folder, database=database, effects=str(self.effects), fatal=fatal)
        return await victims.send(msgspec.to_builtins(task))


def victim(tools: Callable[[Path], Sequence[Tool]], decide: Decide) -> Callable[[Any, SendMessage], None]:
    """Return a function that runs a `Task` and reports its commit points; `decide` answers the interrupts."""

    def work(raw: Any, send_message: SendMessage) -> None:
        asyncio.run(_work(msgspec.convert(raw, Task), send_message, tools, decide))

    return work


async def kill_and_resume(
    victims: ForkServer,
    new_workspace: Callable[[str], KilledWorkspace],
    check: Callable[[KilledWorkspace], Awaitable[None]],
    *,
    kills: int | None,
) -> None:
    """Kill processes at so many commit points, or at each, and let others continue: the result is the same."""
    undisturbed = new_workspace("whole")
    (points,) = (await undisturbed.send(victims)).messages
    await check(undisturbed)
    killed = 0
    for fatal in range(2, points, 1 if kills is None else points // kills):
        killed_workspace = new_workspace(f"at_{fatal}")
        killed += (await killed_workspace.send(victims, fatal=fatal)).killed
        await killed_workspace.send(victims)
        await check(killed_workspace)
    assert killed > 0


async def _work(task: Task, send_message: SendMessage, tools: Callable[[Path], Sequence[Tool]], decide: Decide) -> None:
    points = CommitPoints(fatal=task.fatal)
    points.number_sqlite()
    options = Options(tools=tools(Path(task.effects)))
    async with open_workspace(task.folder, database=task.database, options=options) as here:
        points.start()
        with suppress(IdTaken):
            await here.runs.start(SPACE, NewRun(id=RUN, thread=NewThread(agent_type="bot"), messages=[user("go")]))
        await _answer_all(here, decide)
        send_message(len(points.names))


async def _answer_all(here: OpenWorkspace, decide: Decide) -> None:
    while not (await here.store.runs.get(SPACE, RUN)).status.terminal:
        for interrupt in await here.store.interrupts.of_run(SPACE, RUN):
            if interrupt.status is InterruptStatus.OPEN:
                with suppress(AlreadyAnswered, Conflict):
                    response = {"decision": decide(interrupt)}
                    await here.runs.respond(SPACE, RUN, response, interrupt=interrupt.id, digest=interrupt.digest)
        await asyncio.sleep(0.002)
