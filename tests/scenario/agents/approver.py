"""A process that runs an agent and answers its questions, and dies on the way: one call is approved, one is not."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

import holdfast.store.sqlite.database  # noqa: F401 - imported on use otherwise, by each victim again
from holdfast.bootstrap.workspace import Holdfast, Options
from holdfast.bootstrap.workspace import open as open_workspace
from holdfast.domain.content import Json
from holdfast.domain.errors import AlreadyAnswered, Conflict, IdTaken
from holdfast.domain.ids import RunId
from holdfast.domain.interrupt import InterruptStatus
from holdfast.domain.new_run import NewRun
from holdfast.domain.thread import NewThread
from holdfast.testing.commit_points import CommitPoints
from holdfast.testing.kills import Say
from holdfast.tools.permissions.shell.parse import parse
from holdfast.tools.tool import Outcome
from tests.builders import user
from tests.scenario.agents.handwork import Handmade
from tests.scenario.agents.workshop import SPACE

RUN: Final = RunId("run_of_the_killed")
GOOD: Final = "touch good"
BAD: Final = "touch bad"

parse(GOOD)  # the parser is there before the first victim is


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Where to work, and at which commit point to die, if at one."""

    folder: str
    database: str
    ran: str
    fatal: int | None = None


def work(raw: Any, say: Say) -> None:
    """Do a `Task`, and say how many points there were."""
    asyncio.run(_work(msgspec.convert(raw, Task), say))


async def _work(task: Task, say: Say) -> None:
    points = CommitPoints(fatal=task.fatal)
    points.number_sqlite()
    options = Options(tools=[_recording(Path(task.ran))])
    async with open_workspace(task.folder, database=task.database, options=options) as holdfast:
        points.start()
        with suppress(IdTaken):
            new = NewRun(id=RUN, thread=NewThread(agent_type="bot"), messages=[user("go")])
            await holdfast.runs.start(SPACE, new)
        await _answer_all(holdfast)
        say(len(points.names))


async def _answer_all(holdfast: Holdfast) -> None:
    while not (await holdfast.store.runs.get(SPACE, RUN)).status.terminal:
        for asked in await holdfast.store.interrupts.of_run(SPACE, RUN):
            if asked.status is InterruptStatus.OPEN:
                decision = "approve" if asked.arguments == {"command": GOOD} else "deny"
                with suppress(AlreadyAnswered, Conflict):
                    await holdfast.runs.respond(
                        SPACE, RUN, {"decision": decision}, interrupt=asked.id, digest=asked.digest
                    )
        await asyncio.sleep(0.002)


def _recording(ran: Path) -> Handmade:
    async def do(arguments: dict[str, Json]) -> Outcome:
        with ran.open("a") as opened:
            opened.write(f"{arguments['command']}\n")
        return Outcome(content="done")

    return Handmade("bash", do)
