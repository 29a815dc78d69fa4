"""A task that a test works on by hand, as an engine would."""

from random import Random
from typing import Final

from holdfast.domain.commit import Commit, Lease
from holdfast.domain.events import (
    Event,
    RunFinished,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallResult,
    ToolCallStart,
)
from holdfast.domain.events.custom import StepChanged, to_custom
from holdfast.domain.ids import MessageId, ToolCallId
from holdfast.domain.run import Move, RunStatus
from holdfast.domain.step import StepKind, StepState
from tests.api.task_contract.desk import Desk
from tests.builders import assistant

STARTED: Final = StepState.STARTED


class TaskHand:
    """Works on a task, one commit at a time, as the test likes."""

    def __init__(self, desk: Desk, task: str, lease: Lease, random: Random) -> None:
        self.task = task
        self.deeds = 0
        self._desk = desk
        self._lease = lease
        self._random = random

    async def think(self) -> None:
        """Begin a model call."""
        await self.log(to_custom(StepChanged(number=1, kind=StepKind.MODEL, state=STARTED, key="k", attempt=1)))

    async def do(self, deeds: int = 1, *, input: str = "") -> None:
        """Say something and call a tool, so many times, in commits that end anywhere."""
        events = [event for _ in range(deeds) for event in self._deed(input)]
        while events:
            some = self._random.randint(1, 9)
            await self.log(*events[:some])
            del events[:some]

    async def log(self, *events: Event) -> None:
        """Add events to the log."""
        await self._desk.site.store.journal.commit(Commit(lease=self._lease, events=events))

    async def finish(self) -> None:
        """End the task well."""
        end = RunFinished(thread_id=self._lease.thread_id, run_id=self._lease.run_id)
        move = Move(to=RunStatus.COMPLETED, output="done")
        done = Commit(lease=self._lease, events=[end], messages=[assistant("done")], move=move)
        await self._desk.site.store.journal.commit(done)

    def _deed(self, input: str) -> list[Event]:
        self.deeds += 1
        said, answer = MessageId(f"say-{self.deeds}"), MessageId(f"result-{self.deeds}")
        call = ToolCallId(f"call-{self.deeds}")
        step = {"number": self.deeds + 1, "kind": StepKind.TOOL, "key": "k", "attempt": 1, "tool_call_id": call}
        well = self._random.choice((StepState.DONE, StepState.FAILED))
        return [
            TextMessageStart(message_id=said, role="assistant"),
            *(TextMessageContent(message_id=said, delta=word) for word in ["and", "now", "ü\n"]),
            TextMessageEnd(message_id=said),
            ToolCallStart(tool_call_id=call, tool_call_name=f"tool_{self.deeds}"),
            ToolCallArgs(tool_call_id=call, delta=f'{{"input":"{input}"}}'),
            ToolCallEnd(tool_call_id=call),
            to_custom(StepChanged(state=STARTED, **step)),  # type: ignore[arg-type]
            ToolCallResult(message_id=answer, tool_call_id=call, content="seen"),
            to_custom(StepChanged(state=well, **step)),  # type: ignore[arg-type]
        ]


async def taken(desk: Desk, seed: int = 4) -> TaskHand:
    """Make a task and take it in hand; the desk must have no workers."""
    task = await desk.create()
    hand = TaskHand(desk, task, await desk.claimed(task), Random(seed))
    await hand.think()
    return hand
