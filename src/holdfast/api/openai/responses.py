"""OpenAI responses: completion bodies, errors in that API's shape, and the stream of chunks."""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.types import ExceptionHandlersMap
from msgspec import UNSET, UnsetType

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
from holdfast.control.streams.broadcast import Subscriber
from holdfast.domain.agent import Agent
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
    """An agent. Nobody knows when it was made."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "holdfast"


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """All agents that chat."""

    object: Literal["list"] = "list"
    data: list[ListedModel]


class CompletionFunctionCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of the caller, with its arguments as JSON in a string."""

    name: str
    arguments: str


class CompletionToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller is asked to run."""

    id: str
    type: Literal["function"] = "function"
    function: CompletionFunctionCall


class CompletionToolCallDelta(CompletionToolCall, frozen=True, kw_only=True):
    """The same in a stream, all at once."""

    index: int


class CompletionMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent said."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: str | None = None
    tool_calls: list[CompletionToolCall] | UnsetType = UNSET


class CompletionChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The one answer there is."""

    index: int = 0
    message: CompletionMessage
    logprobs: None = None
    finish_reason: CompletionFinishReason


class CachedTokens(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens that came from a cache."""

    cached_tokens: int


class CompletionUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What all model calls of the completion used."""

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
    """What comes next."""

    role: str | UnsetType = UNSET
    content: str | UnsetType = UNSET
    tool_calls: list[CompletionToolCallDelta] | UnsetType = UNSET


class ChunkChoice(msgspec.Struct, frozen=True, kw_only=True):
    """What comes next of the one answer there is."""

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


def to_listed_model(agent: Agent) -> ListedModel:
    """Return an agent as a model."""
    return ListedModel(id=agent.name)


def completion_id(begun: StartedCompletion) -> str:
    """Return the id of a completion."""
    return f"chatcmpl-{begun.segment_id}"


def created_seconds(begun: StartedCompletion) -> int:
    """Return the second in which the run was made."""
    return millis(begun.run.created_at) // 1000


def completion_headers(begun: StartedCompletion) -> Mapping[str, str]:
    """Return what an answer tells besides: where the chat goes on, and how the run is known elsewhere."""
    told = {"X-Holdfast-Thread": begun.run.thread_id, "X-Run-Id": begun.run.id}
    return {**told, "Idempotency-Replayed": "true"} if begun.replayed else told


def finish_reason(completion: Completion) -> CompletionFinishReason:
    """Return why a completion ends."""
    return "tool_calls" if completion.calls else "stop"


def to_chat_completion(begun: StartedCompletion, completion: Completion) -> ChatCompletion:
    """Return a completion as that API tells it."""
    calls = [CompletionToolCall(id=each.id, function=_to_function_call(each)) for each in completion.calls]
    said = CompletionMessage(content=completion.text or (None if calls else ""), tool_calls=calls or UNSET)
    return ChatCompletion(
        id=completion_id(begun),
        created=created_seconds(begun),
        model=begun.run.agent_type,
        choices=[CompletionChoice(message=said, finish_reason=finish_reason(completion))],
        usage=to_completion_usage(completion.usage),
    )


def tool_call_deltas(completion: Completion) -> list[CompletionToolCallDelta]:
    """Return what the caller is asked to run."""
    return [
        CompletionToolCallDelta(index=index, id=call.id, function=_to_function_call(call))
        for index, call in enumerate(completion.calls)
    ]


def to_completion_usage(usage: Usage) -> CompletionUsage:
    """Return tokens by the names of that API."""
    return CompletionUsage(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        prompt_tokens_details=CachedTokens(cached_tokens=usage.cached_input_tokens),
    )


def _to_function_call(call: ClientToolCall) -> CompletionFunctionCall:
    return CompletionFunctionCall(name=call.name, arguments=msgspec.json.encode(call.arguments).decode())


_NO_RETRY_HEADERS: Final = {"x-should-retry": "false"}
"""The official clients try again by themselves after some errors; a second try would be a second run."""

OPENAI_ERROR_CODES: Final[Mapping[str, str]] = {
    ModelNotFound.code: "model_not_found",
    ContextOverflow.code: "context_length_exceeded",
}
"""Codes that clients of that API know; all others are ours."""

RUN_STOPPED_STATUS: Final[Mapping[str, int]] = {
    **dict.fromkeys((ModelRefused.code, ContextOverflow.code, ScriptError.code), 400),
    **dict.fromkeys((IterationLimit.code, DeadlineExceeded.code, BudgetExceeded.code, "CANCELLED"), 409),
    ModelUnavailable.code: 503,
}
"""The status of an answer whose run was stopped, by the reason; any other is 500."""


class CompletionError(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong; `param` is the field that it is about."""

    message: str
    code: str
    type: str = "invalid_request_error"
    param: str | None = None


class CompletionErrorEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an answer of this API that is an error."""

    error: CompletionError


def status_and_error(error: HoldfastError) -> tuple[int, CompletionErrorEnvelope]:
    """Return how an error is told."""
    code, status = error.code, status_of(error)
    if isinstance(error, RunStopped):
        code = error.details["reason"]
        status = RUN_STOPPED_STATUS.get(code, 500)
    return status, _to_envelope(Problem(code=code, message=error.message, details=error.details), status)


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


def _error_response(
    status: int, refusal: CompletionErrorEnvelope, headers: Mapping[str, str] = _NO_RETRY_HEADERS
) -> Response[bytes]:
    return Response(
        msgspec.json.encode(refusal), status_code=status, media_type="application/json", headers=dict(headers)
    )


def _handle_error(_: Request[Any, Any, Any], error: HoldfastError) -> Response[bytes]:
    if isinstance(error, TooMany):  # nothing was begun, so a later try is welcome
        return _error_response(*status_and_error(error), headers_of(error))
    return _error_response(*status_and_error(error), {**_NO_RETRY_HEADERS, **headers_of(error)})


def _handle_other(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Say what all routes say, in the shape of this one."""
    kind = HTTPException if isinstance(error, HTTPException) else Exception
    answer: Response[Any] = EXCEPTION_HANDLERS[kind](request, error)
    problem, status = msgspec.json.decode(answer.content, type=ErrorEnvelope).error, answer.status_code or 500
    return _error_response(status, _to_envelope(problem, status))


OPENAI_ERROR_HANDLERS: Final[ExceptionHandlersMap] = {
    HoldfastError: _handle_error,
    HTTPException: _handle_other,
    Exception: _handle_other,
}

DONE_FRAME: Final = b"data: [DONE]\n\n"


class CompletionStream(TextStream):
    """An ASGI app that sends a completion."""

    def __init__(
        self, completions: CompletionControl, started: StartedCompletion, follower: Subscriber, *, include_usage: bool
    ) -> None:
        """Send what comes; `follower` begins where the completion does."""
        named = [(name.lower().encode(), value.encode()) for name, value in completion_headers(started).items()]
        super().__init__(follower, headers=named)
        self._completions = completions
        self._begun = started
        self._include_usage = include_usage

    def _opening_frame(self) -> bytes:
        return self._frame(CompletionDelta(role="assistant", content=""))

    def _text_frame(self, text: str) -> bytes:
        return self._frame(CompletionDelta(content=text))

    async def _final_frames(self) -> bytes:
        """Return a question or calls, why it ends, and what it used."""
        completion = await self._completions.read(self._begun)
        frames = []
        if completion.interrupt_text:
            frames.append(self._text_frame(self._as_next_paragraph(completion.interrupt_text)))
        if completion.calls:
            frames.append(self._frame(CompletionDelta(tool_calls=tool_call_deltas(completion))))
        frames.append(
            _data_frame(self._chunk([ChunkChoice(delta=CompletionDelta(), finish_reason=finish_reason(completion))]))
        )
        if self._include_usage:
            frames.append(
                _data_frame(msgspec.structs.replace(self._chunk([]), usage=to_completion_usage(completion.usage)))
            )
        return b"".join([*frames, DONE_FRAME])

    def _error_frame(self, error: HoldfastError) -> bytes:
        _, refusal = status_and_error(error)
        return b"data: %b\n\n" % msgspec.json.encode(refusal)

    def _frame(self, delta: CompletionDelta) -> bytes:
        return _data_frame(self._chunk([ChunkChoice(delta=delta)]))

    def _chunk(self, choices: list[ChunkChoice]) -> CompletionChunk:
        return CompletionChunk(
            id=completion_id(self._begun),
            created=created_seconds(self._begun),
            model=self._begun.run.agent_type,
            choices=choices,
            usage=None if self._include_usage else UNSET,
        )


def _data_frame(chunk: CompletionChunk) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(chunk)
