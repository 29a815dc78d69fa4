"""A segment on its way to a client: the events of the log up to its end, with what the client needs beside them."""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from msgspec import UNSET, UnsetType

from holdfast.control.ag_ui.snapshots import Computed, Snapshots
from holdfast.control.feeds.follower import Follower
from holdfast.domain.content import Json
from holdfast.domain.events import ToolCallResult, decode_event
from holdfast.domain.ids import RunId, SpaceId, ToolCallId
from holdfast.domain.run import Run
from holdfast.ports.log import LoggedEvent

Sent: TypeAlias = LoggedEvent | Computed

_ENDS: Final = frozenset({"RUN_FINISHED", "RUN_ERROR"})
_SPECIAL: Final = _ENDS | {"RUN_STARTED", "TOOL_CALL_RESULT"}
_ABANDONED: Final = b'"holdfast.abandoned"'


class Segment:
    """What one client is sent of a run."""

    def __init__(
        self,
        snapshots: Snapshots,
        space: SpaceId,
        run: RunId,
        *,
        state: Json | UnsetType = UNSET,
        answered: frozenset[ToolCallId] = frozenset(),
        joined: bool = False,
    ) -> None:
        """Send the `state` at the beginning, and no result of the calls that the client has `answered` itself.

        A client that has `joined` is sent the conversation at the beginning: it may have a part of what follows.
        """
        self._snapshots = snapshots
        self._space = space
        self._run = run
        self._state = state
        self._answered = answered
        self._joined = joined
        self.over = False
        """Whether its end was among what was sent."""

    async def sent(self, events: Sequence[LoggedEvent]) -> Sequence[Sent]:
        """Return what to send for some events that follow those before."""
        if not any(map(_is_special, events)):
            return events
        sent: list[Sent] = []
        for event in events:
            if not self._has(event):
                sent += [event, *await self._beside(event)]
            if event.type in _ENDS:
                self.over = True
                break
        return sent

    async def _beside(self, event: LoggedEvent) -> list[Computed]:
        match event.type:
            case "RUN_STARTED":
                return await self._beginning(event)
            case "CUSTOM" if _ABANDONED in event.data:
                return [await self._snapshots.conversation(self._space, self._run, at=event)]
            case _:
                return []

    async def _beginning(self, event: LoggedEvent) -> list[Computed]:
        state = [] if self._state is UNSET else [self._snapshots.state(self._state, at=event)]
        if not self._joined:
            return state
        return [await self._snapshots.conversation(self._space, self._run, at=event), *state]

    def _has(self, event: LoggedEvent) -> bool:
        if event.type != "TOOL_CALL_RESULT" or not self._answered:
            return False
        result = decode_event(event.data)
        return isinstance(result, ToolCallResult) and result.tool_call_id in self._answered


class Streamed(NamedTuple):
    """A run, and the segment of it that the client follows."""

    run: Run
    follower: Follower
    segment: Segment


def _is_special(event: LoggedEvent) -> bool:
    return event.type in _SPECIAL or (event.type == "CUSTOM" and _ABANDONED in event.data)
