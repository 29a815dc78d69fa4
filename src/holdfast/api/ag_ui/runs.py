"""Runs of AG-UI clients: start, continue, fork, resume and join.

    RunAgentInput ──► responses to a waiting run ──► its next segment
                └───► the point in the thread's tree that its messages match ──► a run that continues or forks there

A client sends its whole conversation each time. The known part says where the run begins; the rest is its input.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.api.ag_ui.messages import AgUiInputMessage, BranchPoint, find_branch_point, read_chain
from holdfast.api.ag_ui.requests import (
    answered_call_ids,
    changed_state,
    check_client_ids,
    client_tool_responses,
    may_create_thread,
    requested_base,
    resume_responses,
    to_new_run,
    trailing_tool_messages,
)
from holdfast.api.ag_ui.segments import SegmentProjection, SegmentSubscription, Snapshots
from holdfast.control.run_starts import RunStartControl
from holdfast.control.runs import RunControl
from holdfast.control.streams.live_streams import LiveStreams
from holdfast.control.threads import newest_run, run_of_thread
from holdfast.domain.errors import IdTaken, IllegalMove, Invalid, NotFound, Waiting
from holdfast.domain.events import RunStarted, decode_event
from holdfast.domain.events import messages as wire
from holdfast.domain.events.messages import RunAgentInput
from holdfast.domain.ids import InterruptId, RunId, SpaceId, ThreadId
from holdfast.domain.interrupt import InterruptKind, InterruptResponse
from holdfast.domain.new_run import NewRun, RunBase, check_new_run
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.task_ids import run_id_of
from holdfast.domain.thread import NewThread
from holdfast.ports.log import EventLog, Messages, Values
from holdfast.ports.queue import Interrupts
from holdfast.ports.runs import Runs, Threads

MAX_SEGMENTS: Final = 10_000


class AgUiResumption:
    """Answers runs."""

    def __init__(
        self,
        *,
        runs: Runs,
        messages: Messages,
        events: EventLog,
        interrupts: Interrupts,
        values: Values,
        feeds: LiveStreams,
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

    async def resume_waiting_run(self, space: SpaceId, request: RunAgentInput) -> SegmentSubscription | None:
        """Answer a run that waits, if that is what the client does."""
        if request.resume is not UNSET and request.resume:
            return await self._resume(space, request)
        sent = trailing_tool_messages(request.messages)
        run = await self._caller(space, request) if sent else None
        if run is None or run.status.terminal:
            return None
        answers = client_tool_responses(await self._interrupts.open_for_run(space, run.id), sent)
        if answers and isinstance(request.messages[-1], AgUiInputMessage):
            await self._interrupts.respond_all(space, run.id, self._signed(answers))  # what is said is for the next run
            return None
        return await self._go_on(space, run, request, answers) if answers else None

    async def _resume(self, space: SpaceId, asked: RunAgentInput) -> SegmentSubscription:
        assert asked.resume is not UNSET
        run = await self._asking(space, asked.thread_id, asked.resume[0].interrupt_id)
        await self._check_nothing_else(space, asked)
        answers = resume_responses(run.id, await self._interrupts.open_for_run(space, run.id), asked.resume)
        return await self._go_on(space, run, asked, answers)

    async def _asking(self, space: SpaceId, thread: ThreadId, interrupt: InterruptId) -> Run:
        """Return the run of a thread that asks a question, or shows what one below it asks."""
        run = await self._runs.get(space, (await self._interrupts.get(space, interrupt)).run_id)
        while run.thread_id != thread and run.parent_run_id is not None:
            run = await self._runs.get(space, run.parent_run_id)
        return await run_of_thread(self._runs, space, thread, run.id)

    async def _check_nothing_else(self, space: SpaceId, asked: RunAgentInput) -> None:
        last = asked.messages[-1] if asked.messages else None
        if isinstance(last, AgUiInputMessage) and not await self._messages.find_in_thread(
            space, asked.thread_id, last.id
        ):
            raise Invalid("a `resume` answers, and says nothing else: send the message in the next run", field="resume")

    async def _caller(self, space: SpaceId, asked: RunAgentInput) -> Run | None:
        """Return the run of the last assistant message that a client has, whose calls it may answer."""
        spoken = [each for each in asked.messages if isinstance(each, wire.AssistantMessage)]
        found = await self._messages.find_in_thread(space, asked.thread_id, spoken[-1].id) if spoken else []
        return await self._runs.get(space, found[0].run_id) if found else None

    async def _go_on(
        self, space: SpaceId, run: Run, asked: RunAgentInput, answers: dict[InterruptId, InterruptResponse]
    ) -> SegmentSubscription:
        asking = await self._first_end(space, run.id, answers)
        last = await self._interrupts.respond_all(space, run.id, self._signed(answers), segment=asked.run_id)
        state = changed_state(asked, await self._values.of_run(space, run.id))
        answered = answered_call_ids(asked.messages)
        # Whatever it said between its question and the answer, the client may not have heard.
        segment = SegmentProjection(
            self._snapshots, space, run.id, state=state, answered=answered, joined=asking < last
        )
        return SegmentSubscription(run, await self._feeds.subscribe_run(space, run.id, after=last), segment)

    def _signed(self, answers: dict[InterruptId, InterruptResponse]) -> dict[InterruptId, InterruptResponse]:
        return {name: replace(answer, by=self._by) for name, answer in answers.items()}

    async def _first_end(self, space: SpaceId, run: RunId, answers: Iterable[InterruptId]) -> int:
        """Return the number of the event that ended the first segment with one of these questions."""
        calls = {
            each.tool_call_id for each in await self._interrupts.open_for_run(space, run) if each.id in set(answers)
        }
        names = [name.encode() for name in {*answers, *calls} if name is not None]
        ends = await self._events.after(space, run, types=["RUN_FINISHED"], limit=MAX_SEGMENTS)
        return next((each.seq for each in ends if any(name in each.data for name in names)), 0)


CLIENT_MOVED_ON_REASON: Final = "the client went on without its tools"
"""Why a run ends whose client says something else instead of what its tools returned."""
_SEGMENT_BOUNDARY_TYPES: Final = ("RUN_STARTED", "RUN_FINISHED", "RUN_ERROR")


class AgUiControl:
    """What clients of the protocol can do."""

    def __init__(
        self,
        *,
        starts: RunStartControl,
        control: RunControl,
        runs: Runs,
        threads: Threads,
        messages: Messages,
        events: EventLog,
        interrupts: Interrupts,
        values: Values,
        feeds: LiveStreams,
        by: str | None = None,
    ) -> None:
        self.starts = starts
        """How runs begin that are asked for in other words."""
        self._control = control
        self._runs = runs
        self._threads = threads
        self._messages = messages
        self._events = events
        self._interrupts = interrupts
        self._values = values
        self._feeds = feeds
        self._snapshots = Snapshots(messages=messages, events=events)
        self._answering = AgUiResumption(
            runs=runs,
            messages=messages,
            events=events,
            interrupts=interrupts,
            values=values,
            feeds=feeds,
            snapshots=self._snapshots,
            by=by,
        )

    async def run_agent(
        self, space: SpaceId, agent: str, request: RunAgentInput, *, base: RunId | None = None
    ) -> SegmentSubscription:
        """Run an agent on the thread that the client names, which is made on first use."""
        check_client_ids(request)
        try:
            await self._threads.get(space, request.thread_id)
        except NotFound:
            if base is not None or not may_create_thread(request):
                raise
            try:
                return await self._first(space, agent, request)
            except IdTaken as taken:  # of the thread: somebody else was faster, and it is there now
                if taken.details.get("id") != request.thread_id:
                    raise
        return await self.run(space, request, agent=agent, base=base)

    async def run(
        self, space: SpaceId, request: RunAgentInput, *, agent: str | None = None, base: RunId | None = None
    ) -> SegmentSubscription:
        """Do what a client asks of a thread: answer a run that waits, or start one where the client stands."""
        check_client_ids(request)
        await self._threads.get(space, request.thread_id)
        self._feeds.check_capacity()
        return await self._answering.resume_waiting_run(space, request) or await self._start(
            space, request, agent=agent, base=base
        )

    async def join(self, space: SpaceId, name: RunId) -> SegmentSubscription:
        """Follow a segment from its beginning, or by the id of its run the latest one."""
        run = await self._runs.get(space, name)
        after = await self._beginning(space, run, None if name == run.id else name) - 1
        state = (await self._values.of_run(space, run.id)).get("state") or UNSET
        segment = SegmentProjection(self._snapshots, space, run.id, state=state, joined=True)
        return SegmentSubscription(run, await self._feeds.subscribe_run(space, run.id, after=after), segment)

    async def _first(self, space: SpaceId, agent: str, asked: RunAgentInput) -> SegmentSubscription:
        thread = NewThread(id=asked.thread_id, agent_type=agent)
        place = BranchPoint(run_id=None, sequence=None, new_messages=asked.messages, revised_ids=frozenset())
        return await self._begin(space, asked, to_new_run(asked, place, thread, agent=agent, base=UNSET))

    async def _start(
        self, space: SpaceId, asked: RunAgentInput, *, agent: str | None, base: RunId | None
    ) -> SegmentSubscription:
        named = base or requested_base(asked)
        if named is not None:
            place = await self._place_on(space, asked, named)
        else:
            place = await find_branch_point(self._messages, space, asked.thread_id, asked.messages)
        found: RunBase | None | UnsetType = None if place.revised_ids else UNSET
        if place.run_id is not None:
            found = RunBase(run_id=place.run_id, sequence=place.sequence)
        new = to_new_run(asked, place, asked.thread_id, agent=agent, base=found)
        await self._settle_base(space, asked.thread_id, new)
        return await self._begin(space, asked, new)

    async def _place_on(self, space: SpaceId, asked: RunAgentInput, base: RunId) -> BranchPoint:
        """Return the end of a run that a client names; what the chain has is not said again."""
        run = await run_of_thread(self._runs, space, asked.thread_id, run_id_of(base))
        known = {message.id for message in await read_chain(self._messages, space, run.id)}
        after = next((index for index in range(len(asked.messages), 0, -1) if asked.messages[index - 1].id in known), 0)
        return BranchPoint(run_id=run.id, sequence=None, new_messages=asked.messages[after:], revised_ids=frozenset())

    async def _settle_base(self, space: SpaceId, thread: ThreadId, new: NewRun) -> None:
        """Let a run that waits for its client's tools end; one that waits for a person is no base (`Waiting`)."""
        run = await self._base(space, thread, new.base)
        if run is None or run.status is not RunStatus.WAITING:
            return
        questions = await self._interrupts.open_for_run(space, run.id)
        people = [each.id for each in questions if each.kind is not InterruptKind.CLIENT_TOOL]
        if people:
            raise Waiting(f"run `{run.id}` waits for a person: answer its interrupts", run_id=run.id, interrupts=people)
        if questions:
            await self._check_new(space, new)  # a request that is refused ends nothing
            with suppress(IllegalMove):  # it has ended meanwhile
                await self._control.cancel(space, run.id, reason=CLIENT_MOVED_ON_REASON)

    async def _base(self, space: SpaceId, thread: ThreadId, base: RunBase | None | UnsetType) -> Run | None:
        if base is UNSET:
            return await newest_run(self._threads, self._runs, space, thread)
        return None if base is None else await self._runs.get(space, base.run_id)

    async def _check_new(self, space: SpaceId, new: NewRun) -> None:
        assert new.id is not None
        check_new_run(new)
        with suppress(NotFound):
            await self._runs.get(space, new.id)
            raise IdTaken(f"the run id `{new.id}` was used before in this space", id=new.id)

    async def _begin(self, space: SpaceId, asked: RunAgentInput, new: NewRun) -> SegmentSubscription:
        self._feeds.check_capacity()
        run = (await self.starts.start(space, new)).run
        state = changed_state(asked, new.values if "state" in new.values else await self._values.of_run(space, run.id))
        return SegmentSubscription(
            run, self._feeds.subscribe_new_run(run), SegmentProjection(self._snapshots, space, run.id, state=state)
        )

    async def _beginning(self, space: SpaceId, run: Run, name: RunId | None) -> int:
        """Return the number of the event that begins a segment."""
        page = await self._events.after(space, run.id, types=_SEGMENT_BOUNDARY_TYPES, limit=MAX_SEGMENTS)
        begins = [event for event in page if event.type == "RUN_STARTED"]
        for event in begins:
            started = decode_event(event.data)
            if isinstance(started, RunStarted) and started.run_id == name:
                return event.seq
        if name is None or run.status.terminal or page[-1].type == "RUN_STARTED":
            return begins[-1].seq  # the run was at work when it was answered: that is the one
        return page[-1].seq + 1  # nobody has taken up the answer yet
