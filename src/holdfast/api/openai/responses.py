"""OpenAI responses: completion bodies, errors in that API's shape, and the stream of chunks."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.types import ExceptionHandlersMap
from msgspec import UNSET, UnsetType

from holdfast.agent.structured_output import OUTPUT_INVALID
from holdfast.api.errors import EXCEPTION_HANDLERS, ErrorEnvelope, Problem, headers_of, status_of
from holdfast.api.openai.completions import (
    ClientToolCall,
    Completion,
    CompletionControl,
    ModelNotFound,
    RunStopped,
    StartedCompletion,
)
from holdfast.api.streams.text_stream import TextStream
from holdfast.control.errors import TooMany
from holdfast.control.streams.broadcast import EventBatch, Subscriber
from holdfast.domain.errors import (
    BudgetExceeded,
    ContextOverflow,
    DeadlineExceeded,
    HoldfastError,
    IterationLimit,
    ModelRefused,
    ModelUnavailable,
    ScriptError,
)
from holdfast.domain.instant import millis
from holdfast.domain.limits import Usage

CompletionFinishReason = Literal["stop", "tool_calls"]


class ListedModel(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as a model. Its creation time is unknown."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "holdfast"


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """All agents that accept chats."""

    object: Literal["list"] = "list"
    data: list[ListedModel]


class CompletionFunctionCall(msgspec.Struct, frozen=True, kw_only=True):
    """The function of a tool call, with its arguments as JSON in a string."""

    name: str
    arguments: str


class CompletionToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that the client must run."""

    id: str
    type: Literal["function"] = "function"
    function: CompletionFunctionCall


class CompletionToolCallDelta(CompletionToolCall, frozen=True, kw_only=True):
    """A whole tool call in a stream."""

    index: int


class CompletionMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The reply of the agent."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: str | None = None
    tool_calls: list[CompletionToolCall] | UnsetType = UNSET


class CompletionChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The only choice of a completion."""

    index: int = 0
    message: CompletionMessage
    logprobs: None = None
    finish_reason: CompletionFinishReason


class CachedTokens(msgspec.Struct, frozen=True, kw_only=True):
    """Prompt tokens read from a cache."""

    cached_tokens: int


class CompletionUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of all model calls of the completion."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens


class ChatCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """A completion."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: CompletionUsage


class CompletionDelta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The next piece of the reply."""

    role: str | UnsetType = UNSET
    content: str | UnsetType = UNSET
    tool_calls: list[CompletionToolCallDelta] | UnsetType = UNSET


class ChunkChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The only choice of a chunk."""

    index: int = 0
    delta: CompletionDelta
    logprobs: None = None
    finish_reason: CompletionFinishReason | None = None


class CompletionChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a completion."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: CompletionUsage | None | UnsetType = UNSET


def completion_headers(started: StartedCompletion) -> dict[str, str]:
    """Return the headers of a response: the thread of the chat, the id of the run, and whether it was replayed."""
    headers = {"X-Holdfast-Thread": started.run.thread_id, "X-Run-Id": started.run.id}
    return {**headers, "Idempotency-Replayed": "true"} if started.replayed else headers


def to_chat_completion(started: StartedCompletion, completion: Completion) -> ChatCompletion:
    """Return a completion as a response body."""
    calls = [CompletionToolCall(id=each.id, function=_to_function_call(each)) for each in completion.calls]
    message = CompletionMessage(content=completion.text or (None if calls else ""), tool_calls=calls or UNSET)
    return ChatCompletion(
        id=_completion_id(started),
        created=_created_seconds(started),
        model=started.run.agent_type,
        choices=[CompletionChoice(message=message, finish_reason=_finish_reason(completion))],
        usage=_to_completion_usage(completion.usage),
    )


def _completion_id(started: StartedCompletion) -> str:
    return f"chatcmpl-{started.segment_id}"


def _created_seconds(started: StartedCompletion) -> int:
    return millis(started.run.created_at) // 1000


def _finish_reason(completion: Completion) -> CompletionFinishReason:
    return "tool_calls" if completion.calls else "stop"


def _to_completion_usage(usage: Usage) -> CompletionUsage:
    return CompletionUsage(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        prompt_tokens_details=CachedTokens(cached_tokens=usage.cached_input_tokens),
    )


def _to_function_call(call: ClientToolCall) -> CompletionFunctionCall:
    return CompletionFunctionCall(name=call.name, arguments=msgspec.json.encode(call.arguments).decode())


_NO_RETRY_HEADERS: Final = {"x-should-retry": "false"}
"""The official clients retry some errors; a retry would start a second run."""

OPENAI_ERROR_CODES: Final[Mapping[str, str]] = {
    ModelNotFound.code: "model_not_found",
    ContextOverflow.code: "context_length_exceeded",
}
"""Error codes of OpenAI's API; all other codes are Holdfast's."""

RUN_STOPPED_STATUS: Final[Mapping[str, int]] = {
    **dict.fromkeys((ModelRefused.code, ContextOverflow.code, ScriptError.code), 400),
    **dict.fromkeys((IterationLimit.code, DeadlineExceeded.code, BudgetExceeded.code, "CANCELLED"), 409),
    OUTPUT_INVALID: 502,
    ModelUnavailable.code: 503,
}
"""The status of a response whose run stopped, by the run's error code; any other is 500."""


class CompletionError(msgspec.Struct, frozen=True, kw_only=True):
    """An error; `param` is the field that caused it."""

    message: str
    code: str
    type: str = "invalid_request_error"
    param: str | None = None


class CompletionErrorEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an error response."""

    error: CompletionError


def _status_and_error(error: HoldfastError) -> tuple[int, CompletionErrorEnvelope]:
    code, status = error.code, status_of(error)
    if isinstance(error, RunStopped):
        code = error.details["reason"]
        status = RUN_STOPPED_STATUS.get(code, 500)
    return status, _to_envelope(Problem(code=code, message=error.message, details=error.details), status)


def completion_error(error: HoldfastError) -> CompletionError:
    """Return an error in the shape of OpenAI's API."""
    return _status_and_error(error)[1].error


def _to_envelope(problem: Problem, status: int) -> CompletionErrorEnvelope:
    field = problem.details.get("field")
    return CompletionErrorEnvelope(
        error=CompletionError(
            message=problem.message,
            type="server_error" if status >= 500 else "invalid_request_error",
            param=field if isinstance(field, str) else None,
            code=OPENAI_ERROR_CODES.get(problem.code, problem.code),
        )
    )


def _error_response(status: int, body: CompletionErrorEnvelope, headers: Mapping[str, str]) -> Response[bytes]:
    return Response(msgspec.json.encode(body), status_code=status, media_type="application/json", headers=dict(headers))


def _handle_holdfast_error(_: Request[Any, Any, Any], error: HoldfastError) -> Response[bytes]:
    no_retry = {} if isinstance(error, TooMany) else _NO_RETRY_HEADERS  # `TooMany` started no run: a retry is safe
    return _error_response(*_status_and_error(error), {**no_retry, **headers_of(error)})


def _handle_other_error(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Convert the response of the common handler to the shape of OpenAI's API."""
    kind = HTTPException if isinstance(error, HTTPException) else Exception
    response: Response[Any] = EXCEPTION_HANDLERS[kind](request, error)
    problem, status = msgspec.json.decode(response.content, type=ErrorEnvelope).error, response.status_code or 500
    return _error_response(status, _to_envelope(problem, status), _NO_RETRY_HEADERS)


OPENAI_ERROR_HANDLERS: Final[ExceptionHandlersMap] = {
    HoldfastError: _handle_holdfast_error,
    HTTPException: _handle_other_error,
    Exception: _handle_other_error,
}

DONE_FRAME: Final = b"data: [DONE]\n\n"


class CompletionStream(TextStream):
    """An ASGI app that sends a completion in chunks."""

    def __init__(
        self, completions: CompletionControl, started: StartedCompletion, subscriber: Subscriber, *, include_usage: bool
    ) -> None:
        """Send a completion; `subscriber` starts where the completion starts."""
        headers = [(name.lower().encode(), value.encode()) for name, value in completion_headers(started).items()]
        super().__init__(subscriber, headers=headers)
        self._completions = completions
        self._started = started
        self._include_usage = include_usage
        self._structured = started.structured

    def _opening_frame(self) -> bytes:
        return self._frame([ChunkChoice(delta=CompletionDelta(role="assistant", content=""))])

    def _text_frame(self, text: str) -> bytes:
        return self._frame([ChunkChoice(delta=CompletionDelta(content=text))])

    def _reset_frame(self, text: str) -> bytes:
        """Return nothing: chunks cannot be withdrawn."""
        return b""

    def _text_frames(self, batch: EventBatch) -> Iterator[bytes]:
        frames = super()._text_frames(batch)
        return (b"" for _ in frames) if self._structured else frames  # whether an answer is valid is known at its end

    async def _final_frames(self) -> bytes:
        """Return the frames of interrupts, tool calls, finish reason and usage, and of a structured output."""
        completion = await self._completions.read(self._started)
        frames = []
        if self._structured:
            frames.append(self._text_frame(completion.text))
        elif completion.interrupt_text:
            frames.append(self._text_frame(self._as_next_paragraph(completion.interrupt_text)))
        if completion.calls:
            calls = [
                CompletionToolCallDelta(index=index, id=call.id, function=_to_function_call(call))
                for index, call in enumerate(completion.calls)
            ]
            frames.append(self._frame([ChunkChoice(delta=CompletionDelta(tool_calls=calls))]))
        frames.append(self._frame([ChunkChoice(delta=CompletionDelta(), finish_reason=_finish_reason(completion))]))
        if self._include_usage:
            frames.append(self._frame([], usage=_to_completion_usage(completion.usage)))
        return b"".join([*frames, DONE_FRAME])

    def _error_frame(self, error: HoldfastError) -> bytes:
        _, body = _status_and_error(error)
        return b"data: %b\n\n" % msgspec.json.encode(body)

    def _frame(self, choices: list[ChunkChoice], usage: CompletionUsage | None = None) -> bytes:
        chunk = CompletionChunk(
            id=_completion_id(self._started),
            created=_created_seconds(self._started),
            model=self._started.run.agent_type,
            choices=choices,
            usage=usage if self._include_usage else UNSET,
        )
        return b"data: %b\n\n" % msgspec.json.encode(chunk)
