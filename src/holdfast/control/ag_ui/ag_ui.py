"""The runs of AG-UI clients: started, continued, forked, answered and joined."""

from contextlib import suppress
from typing import Final

from msgspec import UNSET, UnsetType

from holdfast.control.ag_ui.answering import MOST_SEGMENTS, Answering
from holdfast.control.ag_ui.matching import Place, chain_of, find_place
from holdfast.control.ag_ui.request import begins, check_names, named_base, new_run, news_of_state
from holdfast.control.ag_ui.segment import Segment, Streamed
from holdfast.control.ag_ui.snapshots import Snapshots
from holdfast.control.conversations import newest_run, run_of_thread
from holdfast.control.feeds.feeds import Feeds
from holdfast.control.runs import RunControl
from holdfast.control.starting import RunStarts
from holdfast.control.task_contract.ids import run_id_of
from holdfast.domain.errors import IdTaken, IllegalMove, NotFound, Waiting
from holdfast.domain.events import RunStarted, decode_event
from holdfast.domain.events.messages import RunAgentInput
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.interrupt import InterruptKind
from holdfast.domain.new_run import NewRun, RunBase, check_new_run
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.thread import NewThread
from holdfast.ports.log import EventLog, Messages, Values
from holdfast.ports.queue import Interrupts
from holdfast.ports.runs import Runs, Threads

NOT_ANSWERED: Final = "the client went on without its tools"
"""Why a run ends whose client says something else instead of what its tools returned."""
_BORDERS: Final = ("RUN_STARTED", "RUN_FINISHED", "RUN_ERROR")


class AgUiControl:
    """What clients of the protocol can do."""

    def __init__(
        self,
        *,
        starts: RunStarts,
        control: RunControl,
        runs: Runs,
        threads: Threads,
        messages: Messages,
        events: EventLog,
        interrupts: Interrupts,
        values: Values,
        feeds: Feeds,
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
        self._answering = Answering(
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
        self, space: SpaceId, agent: str, asked: RunAgentInput, *, base: RunId | None = None
    ) -> Streamed:
        """Run an agent on the thread that the client names, which is made on first use."""
        check_names(asked)
        try:
            await self._threads.get(space, asked.thread_id)
        except NotFound:
            if base is not None or not begins(asked):
                raise
            try:
                return await self._first(space, agent, asked)
            except IdTaken as taken:  # of the thread: somebody else was faster, and it is there now
                if taken.details.get("id") != asked.thread_id:
                    raise
        return await self.run(space, asked, agent=agent, base=base)

    async def run(
        self, space: SpaceId, asked: RunAgentInput, *, agent: str | None = None, base: RunId | None = None
    ) -> Streamed:
        """Do what a client asks of a thread: answer a run that waits, or start one where the client stands."""
        check_names(asked)
        await self._threads.get(space, asked.thread_id)
        self._feeds.check_room()
        return await self._answering.answer(space, asked) or await self._start(space, asked, agent=agent, base=base)

    async def join(self, space: SpaceId, name: RunId) -> Streamed:
        """Follow a segment from its beginning, or by the id of its run the latest one."""
        run = await self._runs.get(space, name)
        after = await self._beginning(space, run, None if name == run.id else name) - 1
        state = (await self._values.of_run(space, run.id)).get("state") or UNSET
        segment = Segment(self._snapshots, space, run.id, state=state, joined=True)
        return Streamed(run, await self._feeds.run(space, run.id, after=after), segment)

    async def _first(self, space: SpaceId, agent: str, asked: RunAgentInput) -> Streamed:
        thread = NewThread(id=asked.thread_id, agent_type=agent)
        place = Place(run_id=None, sequence=None, said=asked.messages, known=frozenset())
        return await self._begin(space, asked, new_run(asked, place, thread, agent=agent, base=UNSET))

    async def _start(self, space: SpaceId, asked: RunAgentInput, *, agent: str | None, base: RunId | None) -> Streamed:
        named = base or named_base(asked)
        if named is not None:
            place = await self._place_on(space, asked, named)
        else:
            place = await find_place(self._messages, space, asked.thread_id, asked.messages)
        found: RunBase | None | UnsetType = None if place.known else UNSET
        if place.run_id is not None:
            found = RunBase(run_id=place.run_id, sequence=place.sequence)
        new = new_run(asked, place, asked.thread_id, agent=agent, base=found)
        await self._settle_base(space, asked.thread_id, new)
        return await self._begin(space, asked, new)

    async def _place_on(self, space: SpaceId, asked: RunAgentInput, base: RunId) -> Place:
        """Return the end of a run that a client names; what the chain has is not said again."""
        run = await run_of_thread(self._runs, space, asked.thread_id, run_id_of(base))
        known = {message.id for message in await chain_of(self._messages, space, run.id)}
        after = next((index for index in range(len(asked.messages), 0, -1) if asked.messages[index - 1].id in known), 0)
        return Place(run_id=run.id, sequence=None, said=asked.messages[after:], known=frozenset())

    async def _settle_base(self, space: SpaceId, thread: ThreadId, new: NewRun) -> None:
        """Let a run that waits for its client's tools end; one that waits for a person is no base (`Waiting`)."""
        run = await self._base(space, thread, new.base)
        if run is None or run.status is not RunStatus.WAITING:
            return
        questions = await self._interrupts.asked_by(space, run.id)
        people = [each.id for each in questions if each.kind is not InterruptKind.CLIENT_TOOL]
        if people:
            raise Waiting(f"run `{run.id}` waits for a person: answer its interrupts", run_id=run.id, interrupts=people)
        if questions:
            await self._check_new(space, new)  # a request that is refused ends nothing
            with suppress(IllegalMove):  # it has ended meanwhile
                await self._control.cancel(space, run.id, reason=NOT_ANSWERED)

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

    async def _begin(self, space: SpaceId, asked: RunAgentInput, new: NewRun) -> Streamed:
        self._feeds.check_room()
        run = (await self.starts.start(space, new)).run
        state = news_of_state(asked, new.values if "state" in new.values else await self._values.of_run(space, run.id))
        return Streamed(run, self._feeds.new_run(run), Segment(self._snapshots, space, run.id, state=state))

    async def _beginning(self, space: SpaceId, run: Run, name: RunId | None) -> int:
        """Return the number of the event that begins a segment."""
        page = await self._events.after(space, run.id, types=_BORDERS, limit=MOST_SEGMENTS)
        begins = [event for event in page if event.type == "RUN_STARTED"]
        for event in begins:
            started = decode_event(event.data)
            if isinstance(started, RunStarted) and started.run_id == name:
                return event.seq
        if name is None or run.status.terminal or page[-1].type == "RUN_STARTED":
            return begins[-1].seq  # the run was at work when it was answered: that is the one
        return page[-1].seq + 1  # nobody has taken up the answer yet
