"""A stream of what an agent says, as it says it, until it has no more to say or needs something."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Final

from msgspec import UNSET

from holdfast.api.streams.body import Body
from holdfast.api.streams.frames import KEEPALIVE
from holdfast.api.streams.sse import EventStream
from holdfast.control.feeds.chunk import Chunk
from holdfast.control.feeds.feed import Ending
from holdfast.control.openai.completion import BETWEEN
from holdfast.domain.errors import HoldfastError, NotFound, Unavailable
from holdfast.domain.events import RunErrorEvent, RunFinished, TextMessageContent, decode_event
from holdfast.domain.ids import MessageId
from holdfast.ports.log import LoggedEvent

_TYPES: Final = frozenset({"TEXT_MESSAGE_CONTENT", "RUN_FINISHED", "RUN_ERROR"})


class SpeechStream(EventStream):
    """An ASGI app that sends one segment of a run; how it is written is for those below it to say."""

    _speaking: MessageId | None = None
    _finished: bool = False

    @abstractmethod
    def _first(self) -> bytes:
        """Return what is written before anything is said."""

    @abstractmethod
    def _piece(self, text: str) -> bytes:
        """Return how some words are written."""

    @abstractmethod
    async def _last(self) -> bytes:
        """Return what is written once the segment is over."""

    @abstractmethod
    def _refusal(self, error: HoldfastError) -> bytes:
        """Return how it is written that there is no more because something went wrong."""

    def _last_words(self, ending: Ending) -> bytes:
        """Return nothing: how it ended was said."""
        return b""

    def _after_speech(self, text: str) -> str:
        """Return words that follow what was said, if anything was."""
        return text if self._speaking is None else BETWEEN + text

    async def _write_all(self, body: Body) -> Ending:
        while not self._finished:
            found = await body.next()
            match found:
                case Chunk():
                    if frames := b"".join(self._pieces(found)):
                        body.write(frames)
                case None:
                    body.write(KEEPALIVE)
                case Ending.GONE:
                    raise NotFound("the run was deleted")
                case Ending.CLOSING | Ending.BEHIND:
                    raise Unavailable("the stream was cut off: the run goes on")
                case Ending.ENDED:
                    break
        body.write(await self._last())
        return Ending.ENDED

    def _pieces(self, chunk: Chunk) -> Iterator[bytes]:
        for logged in chunk.items:
            if not self._finished and logged.type in _TYPES and (text := self._said(logged)):
                yield self._piece(text)

    def _said(self, logged: LoggedEvent) -> str:
        """Return the words that an event adds; a message that is not the first begins a paragraph."""
        match decode_event(logged.data):
            case TextMessageContent(message_id=message, delta=delta, subagent_run_id=subagent) if subagent is UNSET:
                text = delta if self._speaking == message else self._after_speech(delta)
                self._speaking = message
                return text
            case RunFinished() | RunErrorEvent():
                self._finished = True
                return ""
            case _:
                return ""
