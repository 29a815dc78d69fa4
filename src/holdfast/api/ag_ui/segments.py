"""The log of a run as a client applies it: its events, plus computed snapshots of messages and state.

A segment is the part of the log that one AG-UI request follows. Streams of the native API send the whole log.
"""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.api.ag_ui.messages import is_abandonment, read_chain, to_ag_ui_messages
from holdfast.api.streams.sse import KEEPALIVE, RETRY, EventStream, StreamBody, sse_frames_with_ids
from holdfast.control.streams.broadcast import StreamEnd, Subscriber
from holdfast.domain.content import Json
from holdfast.domain.events import (
    MessagesSnapshot,
    RunFinished,
    StateSnapshot,
    TextMessageStart,
    ToolCallResult,
    ToolCallStart,
    decode_event,
    encode_event,
)
from holdfast.domain.events.messages import AgUiMessage, InterruptOutcome, SuccessOutcome
from holdfast.domain.ids import MessageId, RunId, SpaceId, ToolCallId
from holdfast.domain.instant import millis
from holdfast.domain.message import Role
from holdfast.domain.run import Run, RunStatus
from holdfast.ports.log import EventLog, LoggedEvent, Messages, Values

_MESSAGE_ID_TYPES: Final = ("TEXT_MESSAGE_START", "TOOL_CALL_START", "TOOL_CALL_RESULT")
"""Events that carry the ids of the messages of a run."""
_EVENT_PAGE_SIZE: Final = 1000


class ComputedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that is not in the log: it is sent after the log event with the same number."""

    seq: int
    type: str
    data: bytes


class Snapshots:
    """Computes the conversation and the state of a run."""

    def __init__(self, *, messages: Messages, events: EventLog, values: Values) -> None:
        self._messages = messages
        self._events = events
        self._values = values

    async def state(self, run: Run) -> Json | UnsetType:
        """Return the state of a run; unset if it is empty."""
        return (await self._values.of_run(run.space_id, run.id)).get("state") or UNSET

    async def conversation(self, run: Run, *, at: LoggedEvent) -> list[AgUiMessage]:
        """Return the whole chain of a run as it was at an event of its log."""
        streamed_ids = await self._streamed_message_ids(run.space_id, run.id, through=at.seq)
        messages = takewhile(
            lambda each: each.run_id != run.id or each.role in (Role.USER, Role.SYSTEM) or each.id in streamed_ids,
            await read_chain(self._messages, run.space_id, run.id),
        )
        return to_ag_ui_messages(messages)

    async def conversation_before(self, run: Run) -> list[AgUiMessage]:
        """Return the chain of a run without its own messages."""
        chain = await read_chain(self._messages, run.space_id, run.id)
        return to_ag_ui_messages(takewhile(lambda each: each.run_id != run.id, chain))

    async def _streamed_message_ids(self, space: SpaceId, run: RunId, *, through: int) -> set[MessageId]:
        """Return the ids of the messages that a run had started up to an event."""
        ids: set[MessageId] = set()
        seq = 0
        while page := await self._events.after(space, run, seq=seq, limit=_EVENT_PAGE_SIZE, types=_MESSAGE_ID_TYPES):
            for event in page:
                if event.seq > through:
                    break
                match decode_event(event.data):
                    case TextMessageStart(message_id=id) | ToolCallResult(message_id=id):
                        ids.add(id)
                    case ToolCallStart(parent_message_id=str(id)):
                        ids.add(id)
                    case _:
                        pass
            seq = page[-1].seq
            if seq >= through:
                break
        return ids


def _messages_snapshot(messages: list[AgUiMessage], at: LoggedEvent) -> ComputedEvent:
    return _computed_event(MessagesSnapshot(timestamp=millis(at.created_at), messages=messages), at)


def _state_snapshot(state: Json, at: LoggedEvent) -> ComputedEvent:
    return _computed_event(StateSnapshot(timestamp=millis(at.created_at), snapshot=state), at)


def _computed_event(event: MessagesSnapshot | StateSnapshot, at: LoggedEvent) -> ComputedEvent:
    return ComputedEvent(seq=at.seq, type=str(event.__struct_config__.tag), data=msgspec.json.encode(event))


ProjectedEvent: TypeAlias = LoggedEvent | ComputedEvent

_END_TYPES: Final = frozenset({"RUN_FINISHED", "RUN_ERROR"})
_SPECIAL_TYPES: Final = _END_TYPES | {"RUN_STARTED", "TOOL_CALL_RESULT"}


class RunProjection:
    """The log of a run, with the snapshots without which a client would show what is void, or lack its state."""

    def __init__(self, snapshots: Snapshots, run: Run, *, has_state: bool = True) -> None:
        """Create the projection; the state of a run is read only if it may have one."""
        self._snapshots = snapshots
        self._run = run
        self._has_state = has_state
        self.ended = False
        """Whether the last event for this client was sent, although the log may continue."""

    async def project(self, events: Sequence[LoggedEvent]) -> Sequence[ProjectedEvent]:
        """Return the events to send for the next log events."""
        if not any(map(_is_special, events)):
            return events
        projected: list[ProjectedEvent] = []
        for event in events:
            projected += [event, *await self.snapshots_after(event)]
        return projected

    async def snapshots_after(self, event: LoggedEvent) -> list[ComputedEvent]:
        """Return the snapshots that follow an event."""
        snapshots = []
        if is_abandonment(event):
            snapshots.append(_messages_snapshot(await self._snapshots.conversation(self._run, at=event), event))
        if event.type == "RUN_STARTED" and (state := await self._state_at(event)) is not UNSET:
            snapshots.append(_state_snapshot(state, event))
        return snapshots

    async def _state_at(self, start: LoggedEvent) -> Json | UnsetType:
        """Return the state to send after the start of a segment: by default that of the run, after its first start."""
        return await self._snapshots.state(self._run) if self._has_state and start.seq == 1 else UNSET


class SegmentProjection(RunProjection):
    """The events of a segment that one client is sent, until its end."""

    def __init__(
        self,
        snapshots: Snapshots,
        run: Run,
        *,
        state: Json | UnsetType = UNSET,
        answered: frozenset[ToolCallId] = frozenset(),
        joined: bool = False,
        waited_for_base: bool = False,
        before_1_0: bool = False,
    ) -> None:
        """Send `state` at the start, and omit the results of the calls that the client has `answered` itself.

        A client that has `joined` is sent the conversation at the start: it may have a part of what follows. If the run
        `waited_for_base`, the client may lack the answer before its own message. The client of a run that still waits
        is sent the conversation again when the base has ended. A client of AG-UI `before_1_0` is sent no outcome that
        it would refuse.
        """
        super().__init__(snapshots, run)
        self._state = state
        self._answered = answered
        self._joined = joined
        self._waited_for_base = waited_for_base
        self._before_1_0 = before_1_0
        self._awaits_base = run.status is RunStatus.PENDING
        self._start: tuple[LoggedEvent, list[AgUiMessage]] | None = None
        """The start of a run that waits for its base, and the conversation at that time."""

    async def project(self, events: Sequence[LoggedEvent]) -> Sequence[ProjectedEvent]:
        """Return the events to send for the next log events."""
        if not self._awaits_base and not any(map(_is_special, events)):
            return events
        projected: list[ProjectedEvent] = []
        for event in events:
            if self._start is not None:
                projected += await self._snapshots_at_base_end(*self._start)
                self._start, self._awaits_base = None, False
            if self._before_1_0 and event.type == "RUN_FINISHED":
                event = _with_older_outcome(event)
            if not self._is_answered(event):
                projected += [event, *await self.snapshots_after(event)]
            if event.type in _END_TYPES:
                self.ended = True
                break
        return projected

    async def snapshots_after(self, event: LoggedEvent) -> list[ComputedEvent]:
        """Return the snapshots that follow an event."""
        snapshots = await super().snapshots_after(event)
        if event.type == "RUN_STARTED" and (self._joined or self._awaits_base):
            conversation = await self._snapshots.conversation(self._run, at=event)
            if self._joined:
                snapshots.insert(0, _messages_snapshot(conversation, event))
            if self._waited_for_base:  # a client appends the messages that it lacks, so the earlier ones come first
                snapshots.insert(0, _messages_snapshot(await self._snapshots.conversation_before(self._run), event))
            if self._awaits_base:
                self._start = event, conversation
        return snapshots

    async def _state_at(self, start: LoggedEvent) -> Json | UnsetType:
        return self._state

    async def _snapshots_at_base_end(self, start: LoggedEvent, before: list[AgUiMessage]) -> list[ComputedEvent]:
        """Return the conversation of a run whose base has ended.

        A client appends the messages that it lacks, so it is first sent the messages before the first of them.
        """
        after = await self._snapshots.conversation(self._run, at=start)
        if after == before:
            return []
        common = [now for now, then in takewhile(lambda pair: pair[0] == pair[1], zip(after, before, strict=False))]
        return [_messages_snapshot(common, start), _messages_snapshot(after, start)]

    def _is_answered(self, event: LoggedEvent) -> bool:
        if event.type != "TOOL_CALL_RESULT" or not self._answered:
            return False
        result = decode_event(event.data)
        return isinstance(result, ToolCallResult) and result.tool_call_id in self._answered


def _with_older_outcome(event: LoggedEvent) -> LoggedEvent:
    """Return the end of a segment without what AG-UI 1.0 added to its outcome: older clients refuse unknown keys."""
    finished = decode_event(event.data)
    if not isinstance(finished, RunFinished) or isinstance(finished.outcome, InterruptOutcome | UnsetType):
        return event
    outcome = SuccessOutcome() if isinstance(finished.outcome, SuccessOutcome) else UNSET
    return replace(event, data=encode_event(replace(finished, outcome=outcome)))


class LogSubscription(NamedTuple):
    """A log that a client follows, and the snapshots at its position, which it may have missed."""

    subscriber: Subscriber
    projection: RunProjection
    missed: Sequence[ComputedEvent]


class SegmentSubscription(NamedTuple):
    """A run, and the segment of it that a client follows."""

    run: Run
    subscriber: Subscriber
    segment: SegmentProjection


def _is_special(event: LoggedEvent) -> bool:
    return event.type in _SPECIAL_TYPES or is_abandonment(event)


class ProjectedStream(EventStream):
    """An ASGI app that sends a projection of a run's log, after the snapshots that the client may have missed."""

    def __init__(
        self,
        subscriber: Subscriber,
        projection: RunProjection,
        *,
        missed: Sequence[ComputedEvent] = (),
        headers: Mapping[str, str] = {},
    ) -> None:
        encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
        super().__init__(subscriber, prelude=RETRY + sse_frames_with_ids(missed), headers=encoded)
        self._projection = projection

    async def _write_all(self, body: StreamBody) -> StreamEnd:
        while not isinstance(batch := await body.next(), StreamEnd):
            if batch is None:
                body.write(KEEPALIVE)
                continue
            events: Sequence[Any] = await self._projection.project(batch.items)
            # unchanged events are rendered once for all subscribers
            shared = events is batch.items
            body.write(batch.rendered(sse_frames_with_ids) if shared else sse_frames_with_ids(events))
            if self._projection.ended:
                return StreamEnd.ENDED
        return batch


def run_headers(run: Run) -> dict[str, str]:
    """Return the headers with which a stream names its run."""
    return {"content-location": f"/api/spaces/{run.space_id}/runs/{run.id}", "x-run-id": run.id}
