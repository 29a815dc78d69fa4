"""Streaming of one model response into the log, and the assistant message built from its deltas.

    deltas ──► writer ──► the first is committed at once, the following once per commit interval

The stream ends with the whole message, or with an error that says whether to retry. A stalled stream is an error too.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from holdfast.agent.run_writer import RunWriter, commit_while
from holdfast.domain.content import Json
from holdfast.domain.errors import ModelUnavailable
from holdfast.domain.events import (
    ReasoningEnd,
    ReasoningMessageContent,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    ReasoningStart,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallStart,
)
from holdfast.domain.ids import MessageId, ToolCallId
from holdfast.domain.message import NewMessage, Role, ToolCall
from holdfast.ports.model import (
    Model,
    ModelDelta,
    ModelFinished,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallStarted,
)

MAX_ARGUMENT_DEPTH: Final = 64
"""Levels of a call's arguments. What is deeper is nonsense, and no provider would read it back."""


class ResponseAccumulator:
    """An assistant message on its way."""

    def __init__(
        self, log: RunWriter, message_id: MessageId, *, name_call: Callable[[ToolCallId, int], ToolCallId]
    ) -> None:
        self._log = log
        self._name_call = name_call
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._names: dict[ToolCallId, ToolCallId] = {}
        self._calls: dict[ToolCallId, tuple[str, list[str]]] = {}
        self._thinking = False
        self._speaking = False
        self.message_id = message_id
        self.finished: ModelFinished | None = None

    @property
    def _thought_id(self) -> MessageId:
        return MessageId(f"{self.message_id}-thought")

    def take(self, delta: ModelDelta) -> None:
        """Say a delta."""
        match delta:
            case TextDelta(text=text):
                self._say(text)
            case ReasoningDelta(text=text):
                self._think(text)
            case ToolCallStarted():
                self._start_call(delta)
            case ToolArgumentsDelta():
                self._continue_call(delta)
            case ModelFinished():
                self._end_words()
                if self._calls:
                    self._log.say(*(ToolCallEnd(tool_call_id=name) for name in self._calls))
                self.finished = delta

    def streamed(self) -> str:
        """Return all that came, for counting what a call cost that was cut off."""
        arguments = ("".join(parts) for _, parts in self._calls.values())
        return "".join([*self._thoughts, *self._texts, *arguments])

    def message(self) -> tuple[NewMessage, dict[ToolCallId, str]]:
        """Return the message, and for calls whose arguments cannot be read, why."""
        unreadable: dict[ToolCallId, str] = {}
        calls = []
        for call_id, (name, parts) in self._calls.items():
            arguments, why = _parse_arguments("".join(parts))
            if why is not None:
                unreadable[call_id] = why
            calls.append(ToolCall(id=call_id, name=name, arguments=arguments))
        metadata: dict[str, Json] = {}
        if self._thoughts:
            metadata["thinking"] = "".join(self._thoughts)
        if self.finished is not None and self.finished.keep:
            metadata["provider"] = self.finished.keep
        if unreadable:
            metadata["unreadable"] = unreadable
        content = "".join(self._texts)
        return NewMessage(
            id=self.message_id, role=Role.ASSISTANT, content=content, tool_calls=calls, metadata=metadata
        ), unreadable

    def _say(self, text: str) -> None:
        if not text:
            return
        if self._thinking:
            self._end_thought()
        if not self._speaking:
            self._speaking = True
            self._log.say(TextMessageStart(message_id=self.message_id, role="assistant"))
        self._texts.append(text)
        self._log.say_more(TextMessageContent, self.message_id, text)

    def _think(self, text: str) -> None:
        if not text:
            return
        if not self._thinking:
            self._thinking = True
            self._log.say(
                ReasoningStart(message_id=self._thought_id),
                ReasoningMessageStart(message_id=self._thought_id, role="reasoning"),
            )
        self._thoughts.append(text)
        self._log.say_more(ReasoningMessageContent, self._thought_id, text)

    def _start_call(self, delta: ToolCallStarted) -> None:
        self._end_words()
        name = self._name_call(delta.id, len(self._calls))
        self._names[delta.id] = name
        self._calls[name] = (delta.name, [])
        self._log.say(
            ToolCallStart(tool_call_id=name, tool_call_name=delta.name, parent_message_id=self.message_id),
        )

    def _continue_call(self, delta: ToolArgumentsDelta) -> None:
        name = self._names[delta.id]
        self._calls[name][1].append(delta.arguments)
        self._log.say_more(ToolCallArgs, name, delta.arguments)

    def _end_words(self) -> None:
        """End what is thought, and what is said."""
        if self._thinking:
            self._end_thought()
        if self._speaking:
            self._speaking = False
            self._log.say(TextMessageEnd(message_id=self.message_id))

    def _end_thought(self) -> None:
        self._thinking = False
        self._log.say(ReasoningMessageEnd(message_id=self._thought_id), ReasoningEnd(message_id=self._thought_id))


def _parse_arguments(text: str) -> tuple[dict[str, Json], str | None]:
    """Return the arguments of a call, or none and what is wrong with them."""
    try:
        found = msgspec.json.decode(text) if text.strip() else {}
    except msgspec.DecodeError as exc:
        return {}, f"the arguments are not JSON: {exc}"
    except RecursionError:
        return {}, _TOO_DEEP
    if not isinstance(found, dict):
        return {}, "the arguments are not a JSON object"
    return ({}, _TOO_DEEP) if _is_deeper(found, MAX_ARGUMENT_DEPTH) else (found, None)


_TOO_DEEP: Final = f"the arguments are nested too deeply: {MAX_ARGUMENT_DEPTH} levels are the most"


def _is_deeper(value: Json, most: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    return most == 0 or any(_is_deeper(each, most - 1) for each in (value.values() if type(value) is dict else value))


DEFAULT_COMMIT_INTERVAL_SECONDS: Final = 0.025
"""Seconds in which deltas gather."""


class CommitInterval(msgspec.Struct, frozen=True, kw_only=True):
    """How often deltas are committed, and how long a model may be silent. In seconds."""

    window: float = DEFAULT_COMMIT_INTERVAL_SECONDS
    stall: float | None = None
    """If not as long as the model itself says."""

    def patience(self, model: Model) -> float:
        """Return the seconds after which a model that says nothing counts as gone."""
        return model.patience if self.stall is None else self.stall


async def stream_response(
    model: Model, request: ModelRequest, answer: ResponseAccumulator, log: RunWriter, pace: CommitInterval
) -> ModelFinished:
    """Make the call and say what comes; return how it finished."""
    await commit_while(log, _consume_with_timeout(model, request, answer, pace.patience(model)), window=pace.window)
    if answer.finished is None:
        raise ModelUnavailable(f"`{model.name}` stopped in the middle of its answer")
    return answer.finished


async def _consume_with_timeout(model: Model, request: ModelRequest, answer: ResponseAccumulator, stall: float) -> None:
    silence = _IdleTimeout(stall)
    try:
        await silence.limit(_consume_stream(model, request, answer, silence))
    except TimeoutError as exc:
        raise ModelUnavailable(f"`{model.name}` said nothing for {stall:g} seconds") from exc


async def _consume_stream(
    model: Model, request: ModelRequest, answer: ResponseAccumulator, silence: "_IdleTimeout"
) -> None:
    now = asyncio.get_running_loop().time
    async with model.stream(request) as deltas:
        async for delta in deltas:
            answer.take(delta)
            silence.since = now()


class _IdleTimeout:
    """Ends work that has said nothing for too long. To say something costs next to nothing."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.Handle
        self.since = self._loop.time()
        """The time of the event loop when something was last said."""

    async def limit(self, work: Awaitable[None]) -> None:
        """Raise `TimeoutError` in `work` once it has been silent for too long."""
        async with asyncio.timeout(None) as patience:
            # What is over before anything else could run needs no timer.
            self._next = self._loop.call_soon(self._watch, patience)
            try:
                await work
            finally:
                self._next.cancel()

    def _watch(self, patience: asyncio.Timeout) -> None:
        left = self.since + self._longest - self._loop.time()
        if left > 0:
            self._next = self._loop.call_later(left, self._watch, patience)
        else:
            patience.reschedule(self._loop.time())
