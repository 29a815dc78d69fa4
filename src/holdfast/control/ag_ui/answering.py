"""Requests that answer a run which waits: its next segment is what the client follows."""

from collections.abc import Iterable
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.control.ag_ui.answers import answered_calls, answers_of, results_of
from holdfast.control.ag_ui.messages import Spoken
from holdfast.control.ag_ui.request import last_results, news_of_state
from holdfast.control.ag_ui.segment import Segment, Streamed
from holdfast.control.ag_ui.snapshots import Snapshots
from holdfast.control.conversations import run_of_thread
from holdfast.control.feeds.feeds import Feeds
from holdfast.domain.errors import Invalid
from holdfast.domain.events import messages as wire
from holdfast.domain.events.messages import RunAgentInput
from holdfast.domain.ids import InterruptId, RunId, SpaceId, ThreadId
from holdfast.domain.interrupt import InterruptResponse
from holdfast.domain.run import Run
from holdfast.ports.log import EventLog, Messages, Values
from holdfast.ports.queue import Interrupts
from holdfast.ports.runs import Runs

MOST_SEGMENTS: Final = 10_000


class Answering:
    """Answers runs."""

    def __init__(
        self,
        *,
        runs: Runs,
        messages: Messages,
        events: EventLog,
        interrupts: Interrupts,
        values: Values,
        feeds: Feeds,
        snapshots: Snapshots,
        by: str | None,
    ) -> None:
        self._by = by
        self._runs = runs
        self._messages = messages
        self._events = events
        self._interrupts = interrupts
        self._values = values
        self._feeds = feeds
        self._snapshots = snapshots

    async def answer(self, space: SpaceId, asked: RunAgentInput) -> Streamed | None:
        """Answer a run that waits, if that is what the client does."""
        if asked.resume is not UNSET and asked.resume:
            return await self._resume(space, asked)
        sent = last_results(asked.messages)
        run = await self._caller(space, asked) if sent else None
        if run is None or run.status.terminal:
            return None
        answers = results_of(await self._interrupts.asked_by(space, run.id), sent)
        if answers and isinstance(asked.messages[-1], Spoken):
            await self._interrupts.answer_all(space, run.id, self._signed(answers))  # what is said is for the next run
            return None
        return await self._go_on(space, run, asked, answers) if answers else None

    async def _resume(self, space: SpaceId, asked: RunAgentInput) -> Streamed:
        assert asked.resume is not UNSET
        run = await self._asking(space, asked.thread_id, asked.resume[0].interrupt_id)
        await self._check_nothing_else(space, asked)
        answers = answers_of(run.id, await self._interrupts.asked_by(space, run.id), asked.resume)
        return await self._go_on(space, run, asked, answers)

    async def _asking(self, space: SpaceId, thread: ThreadId, interrupt: InterruptId) -> Run:
        """Return the run of a thread that asks a question, or shows what one below it asks."""
        run = await self._runs.get(space, (await self._interrupts.get(space, interrupt)).run_id)
        while run.thread_id != thread and run.parent_run_id is not None:
            run = await self._runs.get(space, run.parent_run_id)
        return await run_of_thread(self._runs, space, thread, run.id)

    async def _check_nothing_else(self, space: SpaceId, asked: RunAgentInput) -> None:
        last = asked.messages[-1] if asked.messages else None
        if isinstance(last, Spoken) and not await self._messages.named(space, asked.thread_id, last.id):
            raise Invalid("a `resume` answers, and says nothing else: send the message in the next run", field="resume")

    async def _caller(self, space: SpaceId, asked: RunAgentInput) -> Run | None:
        """Return the run of the last assistant message that a client has, whose calls it may answer."""
        spoken = [each for each in asked.messages if isinstance(each, wire.AssistantMessage)]
        found = await self._messages.named(space, asked.thread_id, spoken[-1].id) if spoken else []
        return await self._runs.get(space, found[0].run_id) if found else None

    async def _go_on(
        self, space: SpaceId, run: Run, asked: RunAgentInput, answers: dict[InterruptId, InterruptResponse]
    ) -> Streamed:
        asking = await self._first_end(space, run.id, answers)
        last = await self._interrupts.answer_all(space, run.id, self._signed(answers), segment=asked.run_id)
        state = news_of_state(asked, await self._values.of_run(space, run.id))
        answered = answered_calls(asked.messages)
        # Whatever it said between its question and the answer, the client may not have heard.
        segment = Segment(self._snapshots, space, run.id, state=state, answered=answered, joined=asking < last)
        return Streamed(run, await self._feeds.run(space, run.id, after=last), segment)

    def _signed(self, answers: dict[InterruptId, InterruptResponse]) -> dict[InterruptId, InterruptResponse]:
        return {name: replace(answer, by=self._by) for name, answer in answers.items()}

    async def _first_end(self, space: SpaceId, run: RunId, answers: Iterable[InterruptId]) -> int:
        """Return the number of the event that ended the first segment with one of these questions."""
        calls = {each.tool_call_id for each in await self._interrupts.asked_by(space, run) if each.id in set(answers)}
        names = [name.encode() for name in {*answers, *calls} if name is not None]
        ends = await self._events.after(space, run, types=["RUN_FINISHED"], limit=MOST_SEGMENTS)
        return next((each.seq for each in ends if any(name in each.data for name in names)), 0)
