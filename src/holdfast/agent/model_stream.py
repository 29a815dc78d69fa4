"""Streaming of one model response into the log, and the assistant message built from its deltas.

    deltas ──► writer ──► the first is committed at once, the following once per commit interval

The stream ends with the whole message, or with an error that says whether to retry. A stalled stream is an error too.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from holdfast.agent.run_writer import RunWriter, commit_while
from holdfast.domain.content import Json
from holdfast.domain.errors import ModelUnavailable, TooLarge
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
from holdfast.domain.instant import Instant
from holdfast.domain.message import NewMessage, Role, ToolCall
from holdfast.domain.validation import check_decode_cost
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
"""Nesting levels of a call's arguments. Providers refuse deeper ones when they are sent back."""


class ResponseAccumulator:
    """An assistant message that is built from deltas, and streamed into the log."""

    def __init__(
        self, writer: RunWriter, message_id: MessageId, *, assign_call_id: Callable[[ToolCallId, int], ToolCallId]
    ) -> None:
        self._writer = writer
        self._assign_call_id = assign_call_id
        self._texts: list[str] = []
        self._reasoning: list[str] = []
        self._call_ids: dict[ToolCallId, ToolCallId] = {}
        self._calls: dict[ToolCallId, tuple[str, list[str]]] = {}
        self._in_reasoning = False
        self._in_text = False
        self._reasoning_id = MessageId(f"{message_id}-thought")
        self.message_id = message_id
        self.finished: ModelFinished | None = None
        self.first_token_at: Instant | None = None

    def add(self, delta: ModelDelta) -> None:
        """Add a delta to the message, and emit it."""
        if self.first_token_at is None:
            self.first_token_at = self._writer.now()
        match delta:
            case TextDelta(text=text):
                if text:
                    self._add_text(text)
            case ReasoningDelta(text=text):
                if text:
                    self._add_reasoning(text)
            case ToolCallStarted():
                self._end_reasoning()
                self._end_text()
                call_id = self._assign_call_id(delta.id, len(self._calls))
                self._call_ids[delta.id] = call_id
                self._calls[call_id] = (delta.name, [])
                self._writer.emit(
                    ToolCallStart(tool_call_id=call_id, tool_call_name=delta.name, parent_message_id=self.message_id)
                )
            case ToolArgumentsDelta():
                call_id = self._call_ids[delta.id]
                self._calls[call_id][1].append(delta.arguments)
                self._writer.emit_delta(ToolCallArgs, call_id, delta.arguments)
            case ModelFinished():
                self._end_reasoning()
                self._end_text()
                if self._calls:
                    self._writer.emit(*(ToolCallEnd(tool_call_id=call_id) for call_id in self._calls))
                self.finished = delta

    def streamed_text(self) -> str:
        """Return all streamed text, to estimate the usage of an unfinished call."""
        arguments = ("".join(parts) for _, parts in self._calls.values())
        return "".join([*self._reasoning, *self._texts, *arguments])

    def build_message(self) -> tuple[NewMessage, dict[ToolCallId, str]]:
        """Return the message, and an error for each call whose arguments cannot be parsed."""
        unreadable: dict[ToolCallId, str] = {}
        calls = []
        for call_id, (name, parts) in self._calls.items():
            arguments, error = _parse_arguments("".join(parts))
            if error is not None:
                unreadable[call_id] = error
            calls.append(ToolCall(id=call_id, name=name, arguments=arguments))
        metadata: dict[str, Json] = {}
        if self._reasoning:
            metadata["thinking"] = "".join(self._reasoning)
        if self.finished is not None and self.finished.provider_data:
            metadata["provider"] = self.finished.provider_data
        if unreadable:
            metadata["unreadable"] = unreadable
        content = "".join(self._texts)
        return NewMessage(
            id=self.message_id, role=Role.ASSISTANT, content=content, tool_calls=calls, metadata=metadata
        ), unreadable

    def _add_text(self, text: str) -> None:
        if self._in_reasoning:
            self._end_reasoning()
        if not self._in_text:
            self._in_text = True
            self._writer.emit(TextMessageStart(message_id=self.message_id, role="assistant"))
        self._texts.append(text)
        self._writer.emit_delta(TextMessageContent, self.message_id, text)

    def _add_reasoning(self, text: str) -> None:
        if not self._in_reasoning:
            self._in_reasoning = True
            self._writer.emit(
                ReasoningStart(message_id=self._reasoning_id),
                ReasoningMessageStart(message_id=self._reasoning_id, role="reasoning"),
            )
        self._reasoning.append(text)
        self._writer.emit_delta(ReasoningMessageContent, self._reasoning_id, text)

    def _end_text(self) -> None:
        if self._in_text:
            self._in_text = False
            self._writer.emit(TextMessageEnd(message_id=self.message_id))

    def _end_reasoning(self) -> None:
        if self._in_reasoning:
            self._in_reasoning = False
            self._writer.emit(
                ReasoningMessageEnd(message_id=self._reasoning_id), ReasoningEnd(message_id=self._reasoning_id)
            )


_TOO_DEEP: Final = f"the arguments are nested too deeply: use at most {MAX_ARGUMENT_DEPTH} levels"


def _parse_arguments(text: str) -> tuple[dict[str, Json], str | None]:
    """Return the arguments of a call, or no arguments and an error."""
    try:
        check_decode_cost(text.encode(errors="surrogatepass"))
        arguments = msgspec.json.decode(text) if text.strip() else {}
    except TooLarge as exc:
        return {}, f"the arguments are too large: {exc.message}"
    except msgspec.DecodeError as exc:
        return {}, f"the arguments are not JSON: {exc}"
    except RecursionError:
        return {}, _TOO_DEEP
    if not isinstance(arguments, dict):
        return {}, "the arguments are not a JSON object"
    return ({}, _TOO_DEEP) if _is_deeper(arguments, MAX_ARGUMENT_DEPTH) else (arguments, None)


def _is_deeper(value: Json, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    items = value.values() if type(value) is dict else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in items)


DEFAULT_COMMIT_INTERVAL_SECONDS: Final = 0.025
DEFAULT_MAX_COMMIT_INTERVAL_SECONDS: Final = 0.1
MAX_RUNS_AT_SHORTEST_INTERVAL: Final = 16
"""With more, the interval grows in proportion, so that the commits per second do not."""


class StreamTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Timings of a streamed call: how often it is committed, and how long the model may send nothing."""

    commit_seconds: float = DEFAULT_COMMIT_INTERVAL_SECONDS
    """Seconds between two commits of streamed deltas while few runs are under way."""
    max_commit_seconds: float = DEFAULT_MAX_COMMIT_INTERVAL_SECONDS
    """Seconds while many are."""
    idle_timeout_seconds: float | None = None
    """Null means the model's own timeout."""

    def commit_interval(self, runs: int) -> float:
        """Return the seconds between two commits of a run's deltas while a process works on so many runs."""
        widened = self.commit_seconds * runs / MAX_RUNS_AT_SHORTEST_INTERVAL
        return max(self.commit_seconds, min(widened, self.max_commit_seconds))

    def idle_timeout_for(self, model: Model) -> float:
        """Return after how many seconds without a delta a model call has failed."""
        return model.idle_timeout_seconds if self.idle_timeout_seconds is None else self.idle_timeout_seconds


async def stream_response(
    model: Model,
    request: ModelRequest,
    response: ResponseAccumulator,
    writer: RunWriter,
    stream_timings: StreamTimings,
) -> ModelFinished:
    """Call the model, stream its response into the log, and return how it finished."""
    consuming = _consume_stream(model, request, response, stream_timings.idle_timeout_for(model))
    await commit_while(writer, consuming)
    if response.finished is None:
        raise ModelUnavailable(f"`{model.name}` stopped in the middle of its response")
    return response.finished


async def _consume_stream(
    model: Model, request: ModelRequest, response: ResponseAccumulator, idle_timeout: float
) -> None:
    """Add each delta to the response; raise `ModelUnavailable` if none arrives for `idle_timeout` seconds.

    Each delta only records its time: rescheduling a timer for each would cost far more.
    """
    loop = asyncio.get_running_loop()
    last_delta_at = loop.time()
    next_check: asyncio.Handle

    def check() -> None:
        nonlocal next_check
        remaining = last_delta_at + idle_timeout - loop.time()
        if remaining > 0:
            next_check = loop.call_later(remaining, check)
        else:
            timeout.reschedule(loop.time())

    try:
        async with asyncio.timeout(None) as timeout:
            # A stream that ends before the event loop runs anything else needs no timer.
            next_check = loop.call_soon(check)
            try:
                async with model.stream(request) as deltas:
                    async for delta in deltas:
                        response.add(delta)
                        last_delta_at = loop.time()
            finally:
                next_check.cancel()
    except TimeoutError as exc:
        raise ModelUnavailable(f"`{model.name}` sent no output for {idle_timeout:g} seconds") from exc
