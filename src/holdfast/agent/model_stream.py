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
        self.message_id = message_id
        self.finished: ModelFinished | None = None

    @property
    def _reasoning_id(self) -> MessageId:
        return MessageId(f"{self.message_id}-thought")

    def add(self, delta: ModelDelta) -> None:
        """Say a delta."""
        match delta:
            case TextDelta(text=text):
                self._add_text(text)
            case ReasoningDelta(text=text):
                self._add_reasoning(text)
            case ToolCallStarted():
                self._start_call(delta)
            case ToolArgumentsDelta():
                self._continue_call(delta)
            case ModelFinished():
                self._end_open_messages()
                if self._calls:
                    self._writer.emit(*(ToolCallEnd(tool_call_id=name) for name in self._calls))
                self.finished = delta

    def streamed_text(self) -> str:
        """Return all that came, for counting what a call cost that was cut off."""
        arguments = ("".join(parts) for _, parts in self._calls.values())
        return "".join([*self._reasoning, *self._texts, *arguments])

    def build_message(self) -> tuple[NewMessage, dict[ToolCallId, str]]:
        """Return the message, and for calls whose arguments cannot be read, why."""
        unreadable: dict[ToolCallId, str] = {}
        calls = []
        for call_id, (name, parts) in self._calls.items():
            arguments, why = _parse_arguments("".join(parts))
            if why is not None:
                unreadable[call_id] = why
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
        if not text:
            return
        if self._in_reasoning:
            self._end_reasoning()
        if not self._in_text:
            self._in_text = True
            self._writer.emit(TextMessageStart(message_id=self.message_id, role="assistant"))
        self._texts.append(text)
        self._writer.emit_delta(TextMessageContent, self.message_id, text)

    def _add_reasoning(self, text: str) -> None:
        if not text:
            return
        if not self._in_reasoning:
            self._in_reasoning = True
            self._writer.emit(
                ReasoningStart(message_id=self._reasoning_id),
                ReasoningMessageStart(message_id=self._reasoning_id, role="reasoning"),
            )
        self._reasoning.append(text)
        self._writer.emit_delta(ReasoningMessageContent, self._reasoning_id, text)

    def _start_call(self, delta: ToolCallStarted) -> None:
        self._end_open_messages()
        name = self._assign_call_id(delta.id, len(self._calls))
        self._call_ids[delta.id] = name
        self._calls[name] = (delta.name, [])
        self._writer.emit(
            ToolCallStart(tool_call_id=name, tool_call_name=delta.name, parent_message_id=self.message_id),
        )

    def _continue_call(self, delta: ToolArgumentsDelta) -> None:
        name = self._call_ids[delta.id]
        self._calls[name][1].append(delta.arguments)
        self._writer.emit_delta(ToolCallArgs, name, delta.arguments)

    def _end_open_messages(self) -> None:
        """End what is thought, and what is said."""
        if self._in_reasoning:
            self._end_reasoning()
        if self._in_text:
            self._in_text = False
            self._writer.emit(TextMessageEnd(message_id=self.message_id))

    def _end_reasoning(self) -> None:
        self._in_reasoning = False
        self._writer.emit(
            ReasoningMessageEnd(message_id=self._reasoning_id), ReasoningEnd(message_id=self._reasoning_id)
        )


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

    seconds: float = DEFAULT_COMMIT_INTERVAL_SECONDS
    idle_timeout_seconds: float | None = None
    """If not as long as the model itself says."""

    def idle_timeout_for(self, model: Model) -> float:
        """Return the seconds after which a model that says nothing counts as gone."""
        return model.idle_timeout_seconds if self.idle_timeout_seconds is None else self.idle_timeout_seconds


async def stream_response(
    model: Model,
    request: ModelRequest,
    response: ResponseAccumulator,
    writer: RunWriter,
    commit_interval: CommitInterval,
) -> ModelFinished:
    """Make the call and say what comes; return how it finished."""
    await commit_while(
        writer,
        _consume_with_timeout(model, request, response, commit_interval.idle_timeout_for(model)),
        interval=commit_interval.seconds,
    )
    if response.finished is None:
        raise ModelUnavailable(f"`{model.name}` stopped in the middle of its answer")
    return response.finished


async def _consume_with_timeout(
    model: Model, request: ModelRequest, response: ResponseAccumulator, stall: float
) -> None:
    silence = _IdleTimeout(stall)
    try:
        await silence.apply_to(_consume_stream(model, request, response, silence))
    except TimeoutError as exc:
        raise ModelUnavailable(f"`{model.name}` said nothing for {stall:g} seconds") from exc


async def _consume_stream(
    model: Model, request: ModelRequest, response: ResponseAccumulator, idle_timeout: "_IdleTimeout"
) -> None:
    now = asyncio.get_running_loop().time
    async with model.stream(request) as deltas:
        async for delta in deltas:
            response.add(delta)
            idle_timeout.last_delta_at = now()


class _IdleTimeout:
    """Ends work that has said nothing for too long. To say something costs next to nothing."""

    def __init__(self, max_seconds: float) -> None:
        self._max_seconds = max_seconds
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.Handle
        self.last_delta_at = self._loop.time()
        """The time of the event loop when something was last said."""

    async def apply_to(self, awaitable: Awaitable[None]) -> None:
        """Raise `TimeoutError` in `work` once it has been silent for too long."""
        async with asyncio.timeout(None) as patience:
            # What is over before anything else could run needs no timer.
            self._next = self._loop.call_soon(self._watch, patience)
            try:
                await awaitable
            finally:
                self._next.cancel()

    def _watch(self, patience: asyncio.Timeout) -> None:
        left = self.last_delta_at + self._max_seconds - self._loop.time()
        if left > 0:
            self._next = self._loop.call_later(left, self._watch, patience)
        else:
            patience.reschedule(self._loop.time())
