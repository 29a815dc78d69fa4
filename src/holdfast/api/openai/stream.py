"""The stream of a completion: pieces of what the agent says, why it ends, and at last `[DONE]`."""

from typing import Final

import msgspec
from msgspec import UNSET

from holdfast.api.openai.answers import (
    ChoiceDelta,
    CompletionChunk,
    Delta,
    calls_in_stream,
    created_at,
    finish_of,
    headers_of,
    id_of,
    usage_of,
)
from holdfast.api.openai.refusals import status_and_refusal
from holdfast.api.streams.speech import SpeechStream
from holdfast.control.feeds.follower import Follower
from holdfast.control.openai.completion import Begun
from holdfast.control.openai.completions import CompletionControl
from holdfast.domain.errors import HoldfastError

DONE: Final = b"data: [DONE]\n\n"


class CompletionStream(SpeechStream):
    """An ASGI app that sends a completion."""

    def __init__(
        self, completions: CompletionControl, begun: Begun, follower: Follower, *, include_usage: bool
    ) -> None:
        """Send what comes; `follower` begins where the completion does."""
        named = [(name.lower().encode(), value.encode()) for name, value in headers_of(begun).items()]
        super().__init__(follower, headers=named)
        self._completions = completions
        self._begun = begun
        self._include_usage = include_usage

    def _first(self) -> bytes:
        return self._frame(Delta(role="assistant", content=""))

    def _piece(self, text: str) -> bytes:
        return self._frame(Delta(content=text))

    async def _last(self) -> bytes:
        """Return a question or calls, why it ends, and what it used."""
        completion = await self._completions.completion(self._begun)
        frames = []
        if completion.question:
            frames.append(self._piece(self._after_speech(completion.question)))
        if completion.calls:
            frames.append(self._frame(Delta(tool_calls=calls_in_stream(completion))))
        frames.append(_data(self._chunk([ChoiceDelta(delta=Delta(), finish_reason=finish_of(completion))])))
        if self._include_usage:
            frames.append(_data(msgspec.structs.replace(self._chunk([]), usage=usage_of(completion.usage))))
        return b"".join([*frames, DONE])

    def _refusal(self, error: HoldfastError) -> bytes:
        _, refusal = status_and_refusal(error)
        return b"data: %b\n\n" % msgspec.json.encode(refusal)

    def _frame(self, delta: Delta) -> bytes:
        return _data(self._chunk([ChoiceDelta(delta=delta)]))

    def _chunk(self, choices: list[ChoiceDelta]) -> CompletionChunk:
        return CompletionChunk(
            id=id_of(self._begun),
            created=created_at(self._begun),
            model=self._begun.run.agent_type,
            choices=choices,
            usage=None if self._include_usage else UNSET,
        )


def _data(chunk: CompletionChunk) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(chunk)
