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
    """An ASGI app that sends one segment of a run; how it is written is for those below it to say."""

    _current_message: MessageId | None = None
    _finished: bool = False

    @abstractmethod
    def _opening_frame(self) -> bytes:
        """Return what is written before anything is said."""

    @abstractmethod
    def _text_frame(self, text: str) -> bytes:
        """Return how some words are written."""

    @abstractmethod
    async def _final_frames(self) -> bytes:
        """Return what is written once the segment is over."""

    @abstractmethod
    def _error_frame(self, error: HoldfastError) -> bytes:
        """Return how it is written that there is no more because something went wrong."""

    def _closing_frame(self, ending: StreamEnd) -> bytes:
        """Return nothing: how it ended was said."""
        return b""

    def _as_next_paragraph(self, text: str) -> str:
        """Return words that follow what was said, if anything was."""
        return text if self._current_message is None else TEXT_SEPARATOR + text

    async def _write_all(self, body: StreamBody) -> StreamEnd:
        while not self._finished:
            found = await body.next()
            match found:
                case EventBatch():
                    if frames := b"".join(self._text_frames(found)):
                        body.write(frames)
                case None:
                    body.write(KEEPALIVE)
                case StreamEnd.GONE:
                    raise NotFound("the run was deleted")
                case StreamEnd.CLOSING | StreamEnd.BEHIND:
                    raise Unavailable("the stream was cut off: the run goes on")
                case StreamEnd.ENDED:
                    break
        body.write(await self._final_frames())
        return StreamEnd.ENDED

    def _text_frames(self, chunk: EventBatch) -> Iterator[bytes]:
        for logged in chunk.items:
            if not self._finished and logged.type in _EVENT_TYPES and (text := self._new_text(logged)):
                yield self._text_frame(text)

    def _new_text(self, logged: LoggedEvent) -> str:
        """Return the words that an event adds; a message that is not the first begins a paragraph."""
        match decode_event(logged.data):
            case TextMessageContent(message_id=message, delta=delta, subagent_run_id=subagent) if subagent is UNSET:
                text = delta if self._current_message == message else self._as_next_paragraph(delta)
                self._current_message = message
                return text
            case RunFinished() | RunErrorEvent():
                self._finished = True
                return ""
            case _:
                return ""
