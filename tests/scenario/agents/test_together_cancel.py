"""A tree of agents that is cancelled, at whatever moment: all of it ends, and nothing is left open or goes on."""

import asyncio
from random import Random
from typing import Final

from holdfast.domain.content import Json
from holdfast.domain.instant import millis
from holdfast.domain.run import Run, RunStatus
from tests.scenario.agents.handwork import READ_ONLY
from tests.scenario.agents.test_cancel import SOON, Ticking, answer_all, cancel_at, check_ended, tree
from tests.scenario.agents.workshop import Floor, Workshop, call, calling, say

SEED: Final = 20_261_117
CANCELS: Final = 60
CANCELS_ON_POSTGRES: Final = 6
AT_ONCE: Final = 6
TOOLS: Final[list[Json]] = [
    *("look", "act", "agent_spawn", "agent_message", "agent_send", "ask_user", "sleep"),
    *("task_create", "task_subscribe"),
]


def write_tree(workshop: Workshop) -> None:
    """Write agents three deep who wait for each other, talk and ask."""
    spawn = [call("agent_spawn", agent="mid", input=side) for side in ("left", "right")]
    talk = call("agent_message", agent="friend", message="well?")
    workshop.agent(
        calling(*spawn, talk),
        calling(call("agent_send", agent="friend", message="bye"), talk),
        say("done"),
        tools=TOOLS,
    )
    deeper = calling(call("agent_spawn", agent="leaf", input="{$last_user}"), call("ask_user", question="may I?"))
    workshop.agent(calling(call("act")), deeper, say("I did", chunks=4, delay_ms=1), name="mid", tools=TOOLS)
    ask = calling(call("ask_user", question="where?"), call("sleep", seconds=0.01))
    workshop.agent(ask, calling(call("look"), call("look")), say("there"), name="leaf", tools=TOOLS)
    workshop.agent(calling(call("look")), say("well"), name="friend", tools=TOOLS)


async def ends_of(floor: Floor, run: Run) -> list[int]:
    """Return when the runs of a tree ended, by the log; the run above all is the first."""
    return [millis(each.completed_at) for each in await tree(floor, run) if each.completed_at is not None]


async def hunt(workshop: Workshop, cancels: int) -> None:
    """Cancel so many trees at random moments."""
    random, tools = Random(SEED), (Ticking("look", **READ_ONLY), Ticking("act"))
    write_tree(workshop)
    async with workshop.open(*tools, workers=AT_ONCE) as floor, asyncio.TaskGroup() as group:
        answering = group.create_task(answer_all(floor))
        began = asyncio.get_running_loop().time()
        assert (await floor.play()).status is RunStatus.COMPLETED
        took = asyncio.get_running_loop().time() - began
        cancelled: list[tuple[Run, float]] = []
        for _ in range(cancels // AT_ONCE):
            moments = [random.uniform(0, 3 * took) for _ in range(AT_ONCE)]
            done = await asyncio.gather(*(cancel_at(floor, moment) for moment in moments))
            cancelled += [(run, at) for run, at in done if at is not None]
        answering.cancel()
        await asyncio.sleep(SOON)
        for run, at in cancelled:
            await check_ended(floor, run)
            assert max(await ends_of(floor, run)) == (await ends_of(floor, run))[0], "nothing below it ended later"
            for each in await tree(floor, run):
                assert all(tool.seen.get(each.id, 0.0) < at + SOON for tool in tools)
    assert len(cancelled) > cancels // 4


async def test_trees_that_are_cancelled_at_random_moments_leave_nothing_behind(workshop: Workshop) -> None:
    await hunt(workshop, CANCELS)


async def test_trees_that_are_cancelled_at_random_moments_leave_nothing_behind_on_postgres(
    on_postgres: Workshop,
) -> None:
    await hunt(on_postgres, CANCELS_ON_POSTGRES)
