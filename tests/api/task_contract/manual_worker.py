"""A worker that a test controls step by step."""

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
from tests.api.task_contract.task_client import TaskClient
from tests.builders import assistant

STARTED: Final = StepState.STARTED


class ManualWorker:
    """Works on a task, one commit at a time."""

    def __init__(self, client: TaskClient, task: str, lease: Lease, random: Random) -> None:
        self.task = task
        self.tool_calls = 0
        self._desk = client
        self._lease = lease
        self._random = random

    async def start_model_call(self) -> None:
        """Start a model call."""
        await self.append(to_custom(StepChanged(number=1, kind=StepKind.MODEL, state=STARTED, key="k", attempt=1)))

    async def call_tools(self, count: int = 1, *, input: str = "") -> None:
        """Write a text and call a tool, `count` times, in commits of random sizes."""
        events = [event for _ in range(count) for event in self._tool_call_events(input)]
        while events:
            size = self._random.randint(1, 9)
            await self.append(*events[:size])
            del events[:size]

    async def append(self, *events: Event) -> None:
        """Append events to the log."""
        await self._desk.site.store.journal.commit(Commit(lease=self._lease, events=events))

    async def finish(self) -> None:
        """Complete the task."""
        end = RunFinished(thread_id=self._lease.thread_id, run_id=self._lease.run_id)
        move = Move(to=RunStatus.COMPLETED, output="done")
        done = Commit(lease=self._lease, events=[end], messages=[assistant("done")], move=move)
        await self._desk.site.store.journal.commit(done)

    def _tool_call_events(self, input: str) -> list[Event]:
        self.tool_calls += 1
        text_id, result_id = MessageId(f"say-{self.tool_calls}"), MessageId(f"result-{self.tool_calls}")
        call = ToolCallId(f"call-{self.tool_calls}")
        step = {"number": self.tool_calls + 1, "kind": StepKind.TOOL, "key": "k", "attempt": 1, "tool_call_id": call}
        outcome = self._random.choice((StepState.DONE, StepState.FAILED))
        return [
            TextMessageStart(message_id=text_id, role="assistant"),
            *(TextMessageContent(message_id=text_id, delta=word) for word in ["and", "now", "ü\n"]),
            TextMessageEnd(message_id=text_id),
            ToolCallStart(tool_call_id=call, tool_call_name=f"tool_{self.tool_calls}"),
            ToolCallArgs(tool_call_id=call, delta=f'{{"input":"{input}"}}'),
            ToolCallEnd(tool_call_id=call),
            to_custom(StepChanged(state=STARTED, **step)),  # type: ignore[arg-type]
            ToolCallResult(message_id=result_id, tool_call_id=call, content="seen"),
            to_custom(StepChanged(state=outcome, **step)),  # type: ignore[arg-type]
        ]


async def claim_new_task(client: TaskClient, seed: int = 4) -> ManualWorker:
    """Create a task and claim its run; the server must have no workers."""
    task = await client.create()
    worker = ManualWorker(client, task, await client.claim(task), Random(seed))
    await worker.start_model_call()
    return worker
