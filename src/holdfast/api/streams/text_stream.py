"""The text of an agent's reply as an SSE stream, until the segment ends.

The chat and OpenAI protocols subclass it to define the format of the frames.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import UNSET

from holdfast.api.streams.sse import KEEPALIVE, EventStream, StreamBody
from holdfast.control.streams.broadcast import EventBatch, StreamEnd, Subscriber
from holdfast.domain.errors import HoldfastError, NotFound, Unavailable
from holdfast.domain.events import Custom, RunErrorEvent, RunFinished, TextMessageContent, decode_event
from holdfast.domain.events.custom import MessagesAbandoned, from_custom
from holdfast.domain.ids import MessageId
from holdfast.ports.log import LoggedEvent

TEXT_SEPARATOR: Final = "\n\n"
"""Text between two messages of an agent in one reply."""
_EVENT_TYPES: Final = frozenset({"TEXT_MESSAGE_CONTENT", "CUSTOM", "RUN_FINISHED", "RUN_ERROR"})


class TextStream(EventStream):
    """An ASGI app that streams the text of one segment of a run; subclasses define the frames."""

    _finished: bool = False

    def __init__(self, subscriber: Subscriber, *, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        """Send the text of a reply; `subscriber` starts where the reply starts."""
        super().__init__(subscriber, headers=headers)
        self._texts: dict[MessageId, str] = {}
        """The text of each message so far, in order."""
        self._has_text = False
        """Whether the client has text of an earlier message."""

    @abstractmethod
    def _opening_frame(self) -> bytes:
        """Return the first frame."""

    @abstractmethod
    def _text_frame(self, text: str) -> bytes:
        """Return the frame of a piece of text."""

    @abstractmethod
    def _reset_frame(self, text: str) -> bytes:
        """Return the frame that replaces the text so far, or nothing if the protocol cannot withdraw text.

        A model call was interrupted and is made again.
        """

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
        return TEXT_SEPARATOR + text if self._has_text else text

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
            if not self._finished and event.type in _EVENT_TYPES and (frame := self._frame_of(event)):
                yield frame

    def _frame_of(self, event: LoggedEvent) -> bytes:
        """Return the frame of an event; each message after the first starts a paragraph."""
        match decode_event(event.data):
            case TextMessageContent(message_id=message, delta=delta, subagent_run_id=subagent) if subagent is UNSET:
                text = delta if message in self._texts else self._as_next_paragraph(delta)
                self._texts[message] = self._texts.get(message, "") + delta
                self._has_text = True
                return self._text_frame(text)
            case Custom() as custom:
                return self._withdraw(custom)
            case RunFinished() | RunErrorEvent():
                self._finished = True
                return b""
            case _:
                return b""

    def _withdraw(self, custom: Custom) -> bytes:
        """Remove the messages that an event declares void, and return the frame that replaces the text."""
        abandoned = from_custom(custom)
        void = abandoned.message_ids if isinstance(abandoned, MessagesAbandoned) else ()
        if self._texts.keys().isdisjoint(void):
            return b""
        self._texts = {message: text for message, text in self._texts.items() if message not in void}
        if frame := self._reset_frame(TEXT_SEPARATOR.join(self._texts.values())):
            self._has_text = bool(self._texts)
        return frame
