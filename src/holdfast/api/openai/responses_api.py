"""OpenAI's Responses API: an agent as a model, with conversations that the server keeps.

`previous_response_id` names the run that a response came from, and the next run has it as its base: used twice, the
conversation branches. The id of a response is `resp_` and that of its run or segment.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast.api.openai.completions import Completion, CompletionControl, NewCompletion, StartedCompletion
from holdfast.api.openai.requests import to_tool_call
from holdfast.api.openai.responses import completion_error, completion_headers
from holdfast.api.streams.text_stream import TextStream
from holdfast.control.streams.broadcast import EventBatch, Subscriber
from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError, Invalid
from holdfast.domain.ids import RunId, ToolCallId
from holdfast.domain.instant import millis
from holdfast.domain.message import NewMessage, Role
from holdfast.tools.client_tools import client_tool_spec

RESPONSE_PREFIX: Final = "resp_"


class InputTextPart(msgspec.Struct, frozen=True, kw_only=True):
    """A text part of a message."""

    type: Literal["input_text", "output_text", "text"]
    text: str


class ResponseMessageInput(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the conversation."""

    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[InputTextPart]
    type: Literal["message"] = "message"


class FunctionCallInput(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier function call, with its arguments as JSON in a string."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str


class FunctionOutputInput(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a function call that the client ran."""

    type: Literal["function_call_output"]
    call_id: str
    output: str | list[InputTextPart]


class ResponseTool(msgspec.Struct, frozen=True, kw_only=True):
    """A function that the client runs; the tools of the agent are its own."""

    type: Literal["function"]
    name: str
    description: str | None = None
    parameters: dict[str, Json] | None = None


class ResponseTextFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The format of the answer."""

    type: Literal["text", "json_object", "json_schema"]
    schema: dict[str, Json] | None = None
    name: str = "output"


class ResponseText(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the text of the answer."""

    format: ResponseTextFormat | None = None


ResponseInputItem: TypeAlias = dict[str, Json]
"""A message, a function call, or its output; a message need not name its type."""


class ResponseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A response to create. `model` is the name of an agent."""

    model: str
    input: str | Annotated[list[ResponseInputItem], Meta(min_length=1)]
    instructions: str | None = None
    previous_response_id: Annotated[str, Meta(max_length=200)] | None = None
    stream: bool | None = None
    tools: list[ResponseTool] | None = None
    tool_choice: Json = None
    """`auto`, or `none` to offer no tools."""
    text: ResponseText | None = None
    background: bool | None = None
    conversation: Json = None


class OutputTextPart(msgspec.Struct, frozen=True, kw_only=True):
    """The text of an answer."""

    type: Literal["output_text"] = "output_text"
    text: str
    annotations: list[dict[str, Json]] = []


class ResponseOutputMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="message"):
    """The answer of the agent."""

    id: str
    status: Literal["in_progress", "completed"] = "completed"
    role: Literal["assistant"] = "assistant"
    content: list[OutputTextPart]


class ResponseFunctionCall(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="function_call"):
    """A function call that the client must run."""

    id: str
    status: Literal["completed"] = "completed"
    call_id: str
    name: str
    arguments: str


class InputTokenDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Input tokens read from a cache."""

    cached_tokens: int


class OutputTokenDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Reasoning tokens; they are not counted separately."""

    reasoning_tokens: int = 0


class ResponseUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of all model calls of the response."""

    input_tokens: int
    input_tokens_details: InputTokenDetails
    output_tokens: int
    output_tokens_details: OutputTokenDetails
    total_tokens: int


class ModelResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A response."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    status: Literal["in_progress", "completed"]
    model: str
    output: list[ResponseOutputMessage | ResponseFunctionCall]
    usage: ResponseUsage | None = None
    previous_response_id: str | None = None
    instructions: str | None = None
    error: None = None
    incomplete_details: None = None
    metadata: dict[str, str] = {}
    parallel_tool_calls: bool = True
    temperature: float | None = None
    top_p: float | None = None
    tool_choice: str = "auto"
    tools: list[ResponseTool] = []


def to_new_response(request: ResponseRequest, *, key: str | None) -> NewCompletion:
    """Return the completion that a request describes, or raise `Invalid`."""
    if request.background:
        raise Invalid("`background`: start a task instead, with `POST /agents/{name}/task`", field="background")
    if request.tool_choice not in (None, "auto", "none"):
        raise Invalid("`tool_choice`: an agent chooses its tools: send `auto` or `none`", field="tool_choice")
    items: Sequence[Json] = (
        [{"role": "user", "content": request.input}] if isinstance(request.input, str) else request.input
    )
    if request.conversation is not None:
        remedy = "continue one with `previous_response_id`"
        raise Invalid(f"`conversation`: the conversations of this server are threads: {remedy}", field="conversation")
    messages: list[NewMessage] = []
    for index, item in enumerate(items):
        _append(messages, _to_message(item, f"input[{index}]"))
    if request.instructions:
        messages.insert(0, NewMessage(role=Role.SYSTEM, content=request.instructions))
    offered = [] if request.tool_choice == "none" else request.tools or []
    return NewCompletion(
        agent=request.model,
        messages=messages,
        tools=[client_tool_spec(each.name, each.description or "", each.parameters) for each in offered],
        output_schema=_output_schema(request.text),
        base=_run_id(request.previous_response_id),
        key=key,
    )


def _run_id(response_id: str | None) -> RunId | None:
    if response_id is None:
        return None
    run = response_id.removeprefix(RESPONSE_PREFIX)
    if run == response_id or not run.replace("_", "").replace("-", "").isalnum() or not run.isascii():
        raise Invalid(
            f"`{response_id}` is not the id of a response: send one that `POST /v1/responses` returned",
            field="previous_response_id",
        )
    return RunId(run)


def _to_message(item: Json, place: str) -> NewMessage:
    try:
        if item.get("type") == "function_call_output":
            result = msgspec.convert(item, FunctionOutputInput)
            return NewMessage(
                role=Role.TOOL, content=_join_text(result.output), tool_call_id=ToolCallId(result.call_id)
            )
        if item.get("type") == "function_call":
            called = msgspec.convert(item, FunctionCallInput)
            call = to_tool_call(called.call_id, called.name, called.arguments, place)
            return NewMessage(role=Role.ASSISTANT, content="", tool_calls=[call])
        message = msgspec.convert(item, ResponseMessageInput)
    except msgspec.ValidationError as exc:
        raise Invalid(f"`{place}` is not a message, a function call or its output: {exc}", field=place) from exc
    role = {"developer": Role.SYSTEM, "system": Role.SYSTEM, "assistant": Role.ASSISTANT}.get(message.role, Role.USER)
    return NewMessage(role=role, content=_join_text(message.content))


def _append(messages: list[NewMessage], message: NewMessage) -> None:
    """Append a message; the calls of one reply are items of their own here, and one message for the model."""
    if message.tool_calls and messages and messages[-1].role is Role.ASSISTANT:
        reply = messages.pop()
        message = msgspec.structs.replace(reply, tool_calls=[*reply.tool_calls, *message.tool_calls])
    messages.append(message)


def _join_text(content: str | list[InputTextPart]) -> str:
    return content if isinstance(content, str) else "".join(part.text for part in content)


def _output_schema(text: ResponseText | None) -> dict[str, Json] | UnsetType:
    form = None if text is None else text.format
    if form is None or form.type == "text":
        return UNSET
    if form.type == "json_object":
        return {"type": "object"}
    if form.schema is None:
        raise Invalid("`text.format` of type `json_schema` needs `schema`", field="text")
    return form.schema


def to_model_response(
    request: ResponseRequest, started: StartedCompletion, completion: Completion | None = None
) -> ModelResponse:
    """Return a response: in progress, or with the completion that it has become."""
    base = ModelResponse(
        id=f"{RESPONSE_PREFIX}{started.segment_id}",
        created_at=millis(started.run.created_at) // 1000,
        status="in_progress",
        model=started.run.agent_type,
        output=[],
        previous_response_id=request.previous_response_id,
        instructions=request.instructions,
        tools=request.tools or [],
    )
    if completion is None:
        return base
    output: list[ResponseOutputMessage | ResponseFunctionCall] = []
    if completion.text or not completion.calls:
        content = [OutputTextPart(text=completion.text)]
        output.append(ResponseOutputMessage(id=_message_id(started), content=content))
    for call in completion.calls:
        arguments = msgspec.json.encode(call.arguments).decode()
        output.append(ResponseFunctionCall(id=f"fc_{call.id}", call_id=call.id, name=call.name, arguments=arguments))
    used = completion.usage
    usage = ResponseUsage(
        input_tokens=used.input_tokens,
        input_tokens_details=InputTokenDetails(cached_tokens=used.cached_input_tokens),
        output_tokens=used.output_tokens,
        output_tokens_details=OutputTokenDetails(),
        total_tokens=used.total_tokens,
    )
    return msgspec.structs.replace(base, status="completed", output=output, usage=usage)


def _message_id(started: StartedCompletion) -> str:
    return f"msg_{started.segment_id}"


class ResponsesStream(TextStream):
    """An ASGI app that sends a response as the events of the Responses API."""

    def __init__(
        self,
        completions: CompletionControl,
        request: ResponseRequest,
        started: StartedCompletion,
        subscriber: Subscriber,
    ) -> None:
        """Send a response; `subscriber` starts where it starts."""
        headers = [(name.lower().encode(), value.encode()) for name, value in completion_headers(started).items()]
        super().__init__(subscriber, headers=headers)
        self._completions = completions
        self._request = request
        self._started = started
        self._structured = started.structured
        self._sent = 0
        self._text = ""

    def _opening_frame(self) -> bytes:
        response = to_model_response(self._request, self._started)
        created = self._event("response.created", response=response)
        return created + self._event("response.in_progress", response=response)

    def _text_frame(self, text: str) -> bytes:
        opening = b"" if self._text else self._open_message()
        self._text += text
        return opening + self._event("response.output_text.delta", **self._place(), delta=text, logprobs=[])

    def _open_message(self) -> bytes:
        message = ResponseOutputMessage(id=_message_id(self._started), status="in_progress", content=[])
        added = self._event("response.output_item.added", output_index=0, item=message)
        return added + self._event("response.content_part.added", **self._place(), part=OutputTextPart(text=""))

    def _reset_frame(self, text: str) -> bytes:
        """Return nothing: deltas cannot be withdrawn; `response.completed` has the text as it is."""
        return b""

    def _text_frames(self, batch: EventBatch) -> Iterator[bytes]:
        frames = super()._text_frames(batch)
        return (b"" for _ in frames) if self._structured else frames  # whether an answer is valid is known at its end

    async def _final_frames(self) -> bytes:
        completion = await self._completions.read(self._started)
        response = to_model_response(self._request, self._started, completion)
        if self._structured and not completion.calls:
            self._text = ""
        rest = completion.text.removeprefix(self._text) if completion.text.startswith(self._text) else ""
        frames = [self._text_frame(rest)] if rest else []
        for index, item in enumerate(response.output):
            if isinstance(item, ResponseOutputMessage):
                frames += [b"" if self._text else self._open_message(), self._close_message(item, index)]
            else:
                frames += self._call_frames(item, index)
        frames.append(self._event("response.completed", response=response))
        return b"".join(frames)

    def _close_message(self, item: ResponseOutputMessage, index: int) -> bytes:
        (part,) = item.content
        done = self._event("response.output_text.done", **self._place(), text=part.text, logprobs=[])
        done += self._event("response.content_part.done", **self._place(), part=part)
        return done + self._event("response.output_item.done", output_index=index, item=item)

    def _call_frames(self, item: ResponseFunctionCall, index: int) -> list[bytes]:
        place: dict[str, Json] = {"item_id": item.id, "output_index": index}
        return [
            self._event("response.output_item.added", output_index=index, item=item),
            self._event("response.function_call_arguments.delta", **place, delta=item.arguments),
            self._event("response.function_call_arguments.done", **place, name=item.name, arguments=item.arguments),
            self._event("response.output_item.done", output_index=index, item=item),
        ]

    def _error_frame(self, error: HoldfastError) -> bytes:
        problem = completion_error(error)
        return self._event("error", code=problem.code, message=problem.message, param=problem.param)

    def _place(self) -> dict[str, Json]:
        return {"item_id": _message_id(self._started), "output_index": 0, "content_index": 0}

    def _event(self, kind: str, **fields: Json) -> bytes:
        body = msgspec.json.encode({"type": kind, "sequence_number": self._sent, **fields})
        self._sent += 1
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), body)
