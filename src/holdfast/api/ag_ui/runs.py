"""Runs of AG-UI clients: start, continue, fork, resume and join.

    RunAgentInput ──► responses to a waiting run ──► its next segment
                └───► the point in the thread's tree that its messages match ──► a run that continues or forks there

A client sends its whole conversation each time. The known part says where the run begins; the rest is its input.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.api.ag_ui.messages import AgUiInputMessage, BranchPoint, find_branch_point, read_chain
from holdfast.api.ag_ui.requests import (
    changed_state,
    check_client_ids,
    check_same_responses,
    client_tool_responses,
    requested_base,
    resume_responses,
    to_new_run,
    trailing_tool_messages,
)
from holdfast.api.ag_ui.segments import (
    LogSubscription,
    RunProjection,
    SegmentProjection,
    SegmentSubscription,
    Snapshots,
)
from holdfast.control.run_starts import RunStartControl
from holdfast.control.runs import RunControl
from holdfast.control.streams.live_streams import LiveStreams
from holdfast.control.threads import newest_run, run_of_thread
from holdfast.domain.errors import AlreadyAnswered, IdTaken, IllegalMove, Invalid, NotFound, Waiting
from holdfast.domain.events import RunStarted, decode_event
from holdfast.domain.events import messages as wire
from holdfast.domain.events.messages import ResumeEntry, RunAgentInput
from holdfast.domain.ids import InterruptId, RunId, SpaceId, ThreadId
from holdfast.domain.interrupt import Interrupt, InterruptKind, InterruptResponse, InterruptStatus
from holdfast.domain.new_run import NewRun, RunBase, check_new_run
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.task_ids import run_id_of
from holdfast.domain.thread import NewThread
from holdfast.ports.log import EventLog, LoggedEvent, Messages, Values
from holdfast.ports.queue import Interrupts
from holdfast.ports.runs import Runs, Threads

MAX_SEGMENTS: Final = 10_000
"""Segment boundaries of a run that are read at most."""
CLIENT_MOVED_ON_REASON: Final = "the client went on without its tools"
"""Status reason of a run whose client sent a new message instead of its tool results."""
_SEGMENT_BOUNDARY_TYPES: Final = ("RUN_STARTED", "RUN_FINISHED", "RUN_ERROR")

_Responses: TypeAlias = Mapping[InterruptId, InterruptResponse]


class AgUiControl:
    """The use cases of AG-UI clients."""

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
        streams: LiveStreams,
        principal_name: str | None = None,
    ) -> None:
        self.starts = starts
        """Starts runs of the native API, whose route also accepts AG-UI requests."""
        self._control = control
        self._runs = runs
        self._threads = threads
        self._messages = messages
        self._events = events
        self._interrupts = interrupts
        self._values = values
        self._streams = streams
        self._principal_name = principal_name
        self._snapshots = Snapshots(messages=messages, events=events, values=values)

    async def run_agent(
        self, space: SpaceId, agent: str, request: RunAgentInput, *, base: RunId | None = None
    ) -> SegmentSubscription:
        """Run an agent on the thread that the request names, which is created on first use."""
        check_client_ids(request)
        try:
            await self._threads.get(space, request.thread_id)
        except NotFound:
            if base or requested_base(request) or (request.resume is not UNSET and request.resume):
                raise  # the request continues or resumes a run, which only an existing thread can have
            thread = NewThread(id=request.thread_id, agent_type=agent)
            root = BranchPoint(run_id=None, sequence=None, new_messages=request.messages, revised_ids=frozenset())
            try:
                new = to_new_run(request, root, thread, agent=agent, base=UNSET)
                return await self._start_run(space, request, new)
            except IdTaken as taken:  # if it is the thread's id, a concurrent request created the thread
                if taken.details.get("id") != request.thread_id:
                    raise
        return await self.run(space, request, agent=agent, base=base)

    async def run(
        self, space: SpaceId, request: RunAgentInput, *, agent: str | None = None, base: RunId | None = None
    ) -> SegmentSubscription:
        """Resume the waiting run that a request responds to, or start a run at the client's branch point."""
        check_client_ids(request)
        await self._threads.get(space, request.thread_id)
        self._streams.check_capacity()
        if request.resume is not UNSET and request.resume:
            return await self._resume_interrupts(space, request, request.resume)
        resumed = await self._resume_client_tools(space, request)
        return resumed or await self._start_at_branch_point(space, request, agent=agent, base=base)

    async def join(self, space: SpaceId, name: RunId) -> SegmentSubscription:
        """Follow a segment from its start; the id of a run stands for its latest segment."""
        run = await self._runs.get(space, name)
        start = await self._segment_start(space, run, name)
        state = await self._snapshots.state(run)
        waited = await self._waited_for_base(space, run)
        segment = SegmentProjection(self._snapshots, run, state=state, joined=True, waited_for_base=waited)
        subscriber = await self._streams.subscribe_run(space, run.id, after=start - 1)
        return SegmentSubscription(run, subscriber, segment)

    async def _waited_for_base(self, space: SpaceId, run: Run) -> bool:
        """Return whether a run was created before its base had ended, and waits no more."""
        if run.base_run_id is None or run.status is RunStatus.PENDING:
            return False
        ended_at = (await self._runs.get(space, run.base_run_id)).completed_at
        return ended_at is not None and run.created_at < ended_at

    def project_new_log(self, run: Run) -> RunProjection:
        """Return the log of a run that the native API created, as its client applies it."""
        return RunProjection(self._snapshots, run, has_state=run.base_run_id is not None)

    async def follow_log(self, space: SpaceId, name: RunId, *, after: int) -> LogSubscription:
        """Follow the log of a run with snapshots, beginning with those of the event `after`, which may be missing."""
        run = await self._runs.get(space, name)
        projection = RunProjection(self._snapshots, run)
        last = await self._events.after(space, run.id, seq=after - 1, limit=1) if after else []
        missed = [snapshot for event in last for snapshot in await projection.snapshots_after(event)]
        subscriber = await self._streams.subscribe_run(space, run.id, after=after)
        return LogSubscription(subscriber, projection, missed)

    async def _resume_interrupts(
        self, space: SpaceId, request: RunAgentInput, entries: Sequence[ResumeEntry]
    ) -> SegmentSubscription:
        run = await self._runs.get(space, (await self._interrupts.get(space, entries[0].interrupt_id)).run_id)
        while run.thread_id != request.thread_id and run.parent_run_id is not None:
            run = await self._runs.get(space, run.parent_run_id)  # a run shows the interrupts of its children
        run = await run_of_thread(self._runs, space, request.thread_id, run.id)
        last = request.messages[-1] if request.messages else None
        if isinstance(last, AgUiInputMessage) and not await self._messages.find_in_thread(
            space, request.thread_id, last.id
        ):
            raise Invalid("a `resume` takes no new message: send the message in the next run", field="resume")
        interrupts = await self._interrupts.open_for_run(space, run.id)
        try:
            responses = await resume_responses(run.id, interrupts, entries)
            return await self._resume(space, run, request, interrupts, responses)
        except (NotFound, AlreadyAnswered):
            if not await self._names_segment(space, request.run_id, run):
                raise
            answered = [(await self._interrupts.get(space, each.interrupt_id), each) for each in entries]
            if any(interrupt.status is not InterruptStatus.ANSWERED for interrupt, _ in answered):
                raise
        await check_same_responses(answered)
        return await self.join(space, request.run_id)

    async def _resume_client_tools(self, space: SpaceId, request: RunAgentInput) -> SegmentSubscription | None:
        """Respond to the run that waits for the client's tools, and follow it unless a new message follows."""
        results = trailing_tool_messages(request.messages)
        replies = [each.id for each in request.messages if isinstance(each, wire.AssistantMessage)]
        if not results or not replies:
            return None
        calling = await self._messages.find_in_thread(space, request.thread_id, replies[-1])
        if not calling:
            return None
        run = await self._runs.get(space, calling[0].run_id)
        interrupts = [] if run.status.terminal else await self._interrupts.open_for_run(space, run.id)
        responses = client_tool_responses(interrupts, results)
        if isinstance(request.messages[-1], AgUiInputMessage):
            if responses:
                await self._interrupts.respond_all(space, run.id, self._signed(responses))
            return None  # the new message is the input of the next run
        if responses:
            with suppress(AlreadyAnswered):
                return await self._resume(space, run, request, interrupts, responses)
        repeated = await self._names_segment(space, request.run_id, run)
        return await self.join(space, request.run_id) if repeated else None

    async def _names_segment(self, space: SpaceId, name: RunId, run: Run) -> bool:
        """Return whether an id is one of a run or of its segments."""
        with suppress(NotFound):
            return (await self._runs.get(space, name)).id == run.id
        return False

    async def _resume(
        self,
        space: SpaceId,
        run: Run,
        request: RunAgentInput,
        interrupts: Sequence[Interrupt],
        responses: _Responses,
    ) -> SegmentSubscription:
        answered = [each for each in interrupts if each.id in responses]
        interrupted_at = await self._interrupted_at(space, run.id, answered)
        last = await self._interrupts.respond_all(space, run.id, self._signed(responses), segment=request.run_id)
        state = changed_state(request, await self._values.of_run(space, run.id))
        results = {each.tool_call_id for each in request.messages if isinstance(each, wire.ToolMessage)}
        # The client may lack the events between the interrupt and its response. Some clients also add a result of their
        # own to a call that was only approved, or denied.
        decided = {each.tool_call_id for each in answered if each.kind is not InterruptKind.CLIENT_TOOL}
        joined = interrupted_at < last or not decided.isdisjoint(results)
        segment = SegmentProjection(
            self._snapshots,
            run,
            state=state,
            answered=frozenset() if joined else frozenset(results),
            joined=joined,
            before_1_0=request.protocol_version is UNSET,
        )
        return SegmentSubscription(run, await self._streams.subscribe_run(space, run.id, after=last), segment)

    def _signed(self, responses: _Responses) -> dict[InterruptId, InterruptResponse]:
        return {id: replace(response, by=self._principal_name) for id, response in responses.items()}

    async def _interrupted_at(self, space: SpaceId, run: RunId, interrupts: Sequence[Interrupt]) -> int:
        """Return the number of the event that ended the first segment with one of these interrupts."""
        ids = [id.encode() for each in interrupts for id in (each.id, each.tool_call_id) if id is not None]
        ends = await self._events.after(space, run, types=["RUN_FINISHED"], limit=MAX_SEGMENTS)
        return next((each.seq for each in ends if any(id in each.data for id in ids)), 0)

    async def _start_at_branch_point(
        self, space: SpaceId, request: RunAgentInput, *, agent: str | None, base: RunId | None
    ) -> SegmentSubscription:
        base = base or requested_base(request)
        if base is None:
            point = await find_branch_point(self._messages, self._events, space, request.thread_id, request.messages)
        else:
            point = await self._end_of_base(space, request, base)
        run_base: RunBase | None | UnsetType = None if point.revised_ids else UNSET
        if point.run_id is not None:
            run_base = RunBase(run_id=point.run_id, sequence=point.sequence)
        new = to_new_run(request, point, request.thread_id, agent=agent, base=run_base)
        await self._release_base(space, request.thread_id, new)
        return await self._start_run(space, request, new)

    async def _end_of_base(self, space: SpaceId, request: RunAgentInput, base: RunId) -> BranchPoint:
        """Return the end of a run that the client names; messages that its chain has are not new."""
        run = await run_of_thread(self._runs, space, request.thread_id, run_id_of(base))
        chain_ids = {message.id for message in await read_chain(self._messages, space, run.id)}
        messages = request.messages
        after = next((index for index in range(len(messages), 0, -1) if messages[index - 1].id in chain_ids), 0)
        return BranchPoint(run_id=run.id, sequence=None, new_messages=messages[after:], revised_ids=frozenset())

    async def _release_base(self, space: SpaceId, thread: ThreadId, new: NewRun) -> None:
        """Cancel a base that waits for its client's tools; raise `Waiting` for a base that waits for a person."""
        if new.base is UNSET:
            run = await newest_run(self._threads, self._runs, space, thread)
        else:
            run = None if new.base is None else await self._runs.get(space, new.base.run_id)
        if run is None or run.status is not RunStatus.WAITING:
            return
        interrupts = await self._interrupts.open_for_run(space, run.id)
        for_person = [each.id for each in interrupts if each.kind is not InterruptKind.CLIENT_TOOL]
        if for_person:
            raise Waiting(
                f"run `{run.id}` waits for a person: respond to its interrupts", run_id=run.id, interrupts=for_person
            )
        if interrupts:
            assert new.id is not None
            check_new_run(new)  # before the cancellation: a rejected request must not end the base
            with suppress(NotFound):
                await self._runs.get(space, new.id)
                raise IdTaken(f"the run id `{new.id}` was used before in this space: choose another", id=new.id)
            with suppress(IllegalMove):  # it ended in the meantime
                await self._control.cancel(space, run.id, reason=CLIENT_MOVED_ON_REASON)

    async def _start_run(self, space: SpaceId, request: RunAgentInput, new: NewRun) -> SegmentSubscription:
        self._streams.check_capacity()
        run = (await self.starts.start(space, new)).run
        values = new.values if "state" in new.values else await self._values.of_run(space, run.id)
        segment = SegmentProjection(
            self._snapshots,
            run,
            state=changed_state(request, values),
            before_1_0=request.protocol_version is UNSET,
        )
        return SegmentSubscription(run, self._streams.subscribe_new_run(run), segment)

    async def _segment_start(self, space: SpaceId, run: Run, name: RunId) -> int:
        """Return the number of the event that starts the newest segment with a name; the run's id names its latest."""
        page = await self._events.after(space, run.id, types=_SEGMENT_BOUNDARY_TYPES, limit=MAX_SEGMENTS)
        starts = [event for event in page if event.type == "RUN_STARTED"]
        named = [] if name == run.id else [each for each in starts if _segment_name(each) == name]
        if named and named[-1] is not starts[-1]:
            return named[-1].seq
        if page[-1].type != "RUN_STARTED" and not run.status.terminal:
            # The status is read after the events: an active run starts its next segment right after them.
            status = (await self._runs.get(space, run.id)).status
            if status in (RunStatus.QUEUED, RunStatus.RUNNING):
                return page[-1].seq + 1
        return starts[-1].seq


def _segment_name(event: LoggedEvent) -> RunId | None:
    started = decode_event(event.data)
    return started.run_id if isinstance(started, RunStarted) else None
