"""The text of an agent's reply as an SSE stream, until the segment ends.

The chat and OpenAI protocols subclass it to define the format of the frames.
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Final

from msgspec import UNSET

from holdfast.api.streams.sse import KEEPALIVE, EventStream, StreamBody
from holdfast.control.streams.broadcast import EventBatch, StreamEnd
from holdfast.domain.errors import HoldfastError, NotFound, Unavailable
from holdfast.domain.events import RunErrorEvent, RunFinished, TextMessageContent, decode_event
from holdfast.domain.ids import MessageId
from holdfast.ports.log import LoggedEvent

TEXT_SEPARATOR: Final = "\n\n"
"""Text between two messages of an agent in one reply."""
_EVENT_TYPES: Final = frozenset({"TEXT_MESSAGE_CONTENT", "RUN_FINISHED", "RUN_ERROR"})


class TextStream(EventStream):
    """An ASGI app that streams the text of one segment of a run; subclasses define the frames."""

    _current_message: MessageId | None = None
    _finished: bool = False

    @abstractmethod
    def _opening_frame(self) -> bytes:
        """Return the first frame."""

    @abstractmethod
    def _text_frame(self, text: str) -> bytes:
        """Return the frame of a piece of text."""

    @abstractmethod
    async def _final_frames(self) -> bytes:
        """Return the last frames of a segment that has ended."""

    @abstractmethod
    def _error_frame(self, error: HoldfastError) -> bytes:
        """Return the last frame after an error."""

    def _closing_frame(self, reason: StreamEnd) -> bytes:
        """Return nothing: `_final_frames` has ended the stream."""
        return b""

    def _as_next_paragraph(self, text: str) -> str:
        """Return `text`, separated from the previous message if there is one."""
        return text if self._current_message is None else TEXT_SEPARATOR + text

    async def _write_all(self, body: StreamBody) -> StreamEnd:
        while not self._finished:
            item = await body.next()
            match item:
                case EventBatch():
                    if frames := b"".join(self._text_frames(item)):
                        body.write(frames)
                case None:
                    body.write(KEEPALIVE)
                case StreamEnd.GONE:
                    raise NotFound("the run was deleted")
                case StreamEnd.CLOSING | StreamEnd.BEHIND:
                    raise Unavailable("the stream was interrupted: the run continues")
                case StreamEnd.ENDED:
                    break
        body.write(await self._final_frames())
        return StreamEnd.ENDED

    def _text_frames(self, batch: EventBatch) -> Iterator[bytes]:
        for event in batch.items:
            if not self._finished and event.type in _EVENT_TYPES and (text := self._new_text(event)):
                yield self._text_frame(text)

    def _new_text(self, event: LoggedEvent) -> str:
        """Return the text that an event adds; each message after the first starts a paragraph."""
        match decode_event(event.data):
            case TextMessageContent(message_id=message, delta=delta, subagent_run_id=subagent) if subagent is UNSET:
                text = delta if self._current_message == message else self._as_next_paragraph(delta)
                self._current_message = message
                return text
            case RunFinished() | RunErrorEvent():
                self._finished = True
                return ""
            case _:
                return ""
