"""OpenAI request bodies, and their conversion to a new completion.

Unknown parameters are ignored, as other servers do; unsupported ones that would change the reply are rejected.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias, assert_never

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast.api.openai.completions import NewCompletion
from holdfast.domain.content import (
    AudioPart,
    DataSource,
    DocumentPart,
    FileSource,
    ImagePart,
    Json,
    Part,
    TextPart,
    UrlSource,
)
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import ThreadId, ToolCallId
from holdfast.domain.linear_regex import LinearRegex
from holdfast.domain.message import NewMessage, Role, ToolCall
from holdfast.tools.client_tools import client_tool_spec


class TextPartInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """A text part."""

    text: str


class ImageUrl(msgspec.Struct, frozen=True, kw_only=True):
    """An image as an `https:` or `data:` URL."""

    url: str


class ImagePartInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="image_url"):
    """An image part."""

    image_url: ImageUrl


class AudioData(msgspec.Struct, frozen=True, kw_only=True):
    """Audio data in base64."""

    data: str
    format: Literal["wav", "mp3"]


class AudioPartInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="input_audio"):
    """An audio part."""

    input_audio: AudioData


class DocumentFile(msgspec.Struct, frozen=True, kw_only=True):
    """A document in a `data:` URL, or a file uploaded to this server."""

    file_data: str | None = None
    file_id: str | None = None


class DocumentPartInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="file"):
    """A document part."""

    file: DocumentFile


class RefusalPartInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="refusal"):
    """A refusal of the assistant."""

    refusal: str


class AssistantFunctionCall(msgspec.Struct, frozen=True, kw_only=True):
    """The function of a tool call, with its arguments as JSON in a string."""

    name: str
    arguments: str


class AssistantToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call of the assistant."""

    id: str
    function: AssistantFunctionCall
    type: Literal["function"] = "function"


_TextContent: TypeAlias = str | list[TextPartInput]


class SystemMessageInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="system"):
    """A system message."""

    content: _TextContent


class DeveloperMessageInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="developer"):
    """A system message by its newer role name."""

    content: _TextContent


class UserMessageInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="user"):
    """A user message."""

    content: str | list[TextPartInput | ImagePartInput | AudioPartInput | DocumentPartInput]


class AssistantMessageInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="assistant"):
    """An earlier reply of the model."""

    content: str | list[TextPartInput | RefusalPartInput] | None = None
    refusal: str | None = None
    tool_calls: list[AssistantToolCall] | None = None


class ToolMessageInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="tool"):
    """The result of a tool call."""

    content: _TextContent
    tool_call_id: str


ChatMessageInput: TypeAlias = (
    SystemMessageInput | DeveloperMessageInput | UserMessageInput | AssistantMessageInput | ToolMessageInput
)


class OfferedFunction(msgspec.Struct, frozen=True, kw_only=True):
    """The function of a client tool; `parameters` is a JSON Schema."""

    name: str
    description: str | None = None
    parameters: dict[str, Json] | None = None


class OfferedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the client runs."""

    function: OfferedFunction
    type: Literal["function"] = "function"


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a streamed response."""

    include_usage: bool | None = None


class ResponseSchema(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON Schema of the reply."""

    schema: dict[str, Json]
    name: str = "output"


class ResponseFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The format of the reply: text, any JSON object, or JSON that matches a schema."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: ResponseSchema | None = None


class CompletionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A chat to complete. `model` is the name of an agent."""

    model: str
    messages: Annotated[list[ChatMessageInput], Meta(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    tools: list[OfferedTool] | None = None
    tool_choice: Json = None
    """`auto`, or `none` to offer no tools."""
    n: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    response_format: ResponseFormat | None = None
    modalities: list[str] | None = None
    audio: Json = None
    parallel_tool_calls: bool | None = None
    functions: Json = None
    function_call: Json = None


_DATA_URL: Final = LinearRegex(r"^data:(?P<type>[\w.+-]+/[\w.+-]+)(?:;[\w.+-]+=[^;,]*)*;base64,")

UNSUPPORTED_PARAMETERS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "n": (lambda n: n == 1, "an agent returns one choice"),
    "logprobs": (lambda enabled: not enabled, "an agent returns no log probabilities"),
    "top_logprobs": (lambda count: count == 0, "an agent returns no log probabilities"),
    "modalities": (lambda kinds: kinds == ["text"], "an agent replies with text"),
    "audio": (lambda _: False, "an agent replies with text"),
    "tool_choice": (lambda choice: choice in ("auto", "none"), "an agent chooses its tools: send `auto` or `none`"),
    "parallel_tool_calls": (lambda allowed: allowed, "an agent may call several tools at once"),
    "functions": (lambda _: False, "send `tools`, which replaced it"),
    "function_call": (lambda _: False, "send `tool_choice`, which replaced it"),
}
"""Unsupported parameters: which of their values are accepted, and why others are rejected."""


def to_new_completion(request: CompletionRequest, *, thread: str | None, key: str | None) -> NewCompletion:
    """Return the completion that a request describes, or raise `Invalid`."""
    for name, (fits, why) in UNSUPPORTED_PARAMETERS.items():
        value = getattr(request, name)
        if value is not None and not fits(value):
            raise Invalid(f"`{name}`: {why}", field=name)
    functions = [] if request.tool_choice == "none" else [tool.function for tool in request.tools or ()]
    return NewCompletion(
        agent=request.model,
        messages=[_to_new_message(message, f"messages[{index}]") for index, message in enumerate(request.messages)],
        tools=[client_tool_spec(each.name, each.description or "", each.parameters) for each in functions],
        thread=None if thread is None else ThreadId(thread),
        output_schema=_output_schema(request.response_format),
        key=key,
    )


def _output_schema(form: ResponseFormat | None) -> dict[str, Json] | UnsetType:
    if form is None or form.type == "text":
        return UNSET
    if form.type == "json_object":
        return {"type": "object"}
    if form.json_schema is None:
        raise Invalid("`response_format` of type `json_schema` needs `json_schema.schema`", field="response_format")
    return form.json_schema.schema


def _to_new_message(message: ChatMessageInput, place: str) -> NewMessage:
    match message:
        case SystemMessageInput(content=content) | DeveloperMessageInput(content=content):
            return NewMessage(role=Role.SYSTEM, content=_join_text(content))
        case UserMessageInput(content=content):
            if not isinstance(content, str):
                parts = [_to_part(part, f"{place}.content[{index}]") for index, part in enumerate(content)]
                return NewMessage(role=Role.USER, content=parts)
            return NewMessage(role=Role.USER, content=content)
        case AssistantMessageInput(content=content, refusal=refusal, tool_calls=calls):
            tool_calls = [
                to_tool_call(
                    call.id, call.function.name, call.function.arguments, f"{place}.tool_calls[{index}].function"
                )
                for index, call in enumerate(calls or ())
            ]
            return NewMessage(role=Role.ASSISTANT, content=_join_text(content or refusal or ""), tool_calls=tool_calls)
        case ToolMessageInput(content=content, tool_call_id=call_id):
            return NewMessage(role=Role.TOOL, content=_join_text(content), tool_call_id=ToolCallId(call_id))
        case _:
            assert_never(message)


def _join_text(content: str | Sequence[TextPartInput | RefusalPartInput]) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.text if isinstance(part, TextPartInput) else part.refusal for part in content)


def to_tool_call(id: str, name: str, arguments: str, place: str) -> ToolCall:
    """Return an earlier tool call; `place` is that of its function in the request."""
    try:
        decoded = msgspec.json.decode(arguments or "{}", type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as exc:
        field = f"{place}.arguments"
        raise Invalid(f"`{field}` must be a JSON object in a string", field=field) from exc
    return ToolCall(id=ToolCallId(id), name=name, arguments=decoded)


def _to_part(part: TextPartInput | ImagePartInput | AudioPartInput | DocumentPartInput, place: str) -> Part:
    match part:
        case TextPartInput(text=text):
            return TextPart(text=text)
        case ImagePartInput(image_url=image):
            return ImagePart(source=_to_source(image.url, f"{place}.image_url.url"))
        case AudioPartInput(input_audio=audio):
            mime_type = {"wav": "audio/wav", "mp3": "audio/mpeg"}[audio.format]
            return AudioPart(source=DataSource(value=audio.data, mime_type=mime_type))
        case DocumentPartInput(file=document):
            if document.file_data is not None:
                return DocumentPart(source=_to_source(document.file_data, f"{place}.file.file_data"))
            if document.file_id is not None:
                return DocumentPart(source=FileSource(value=document.file_id))
            raise Invalid(f"`{place}.file` needs `file_data` or `file_id`", field=f"{place}.file")
        case _:
            assert_never(part)


def _to_source(url: str, place: str) -> DataSource | UrlSource:
    if url.startswith(("https://", "http://")):
        return UrlSource(value=url)
    match = _DATA_URL.search(url)
    if match is None:
        raise Invalid(f"`{place}` must be `https://…` or `data:TYPE;base64,…`", field=place)
    return DataSource(value=url[match.end() :], mime_type=match["type"])
