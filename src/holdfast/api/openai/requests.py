"""OpenAI request bodies, and their conversion to a new completion.

Parameters that nothing here reads are ignored, as other servers do; those that would change the answer are refused.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias, assert_never

import msgspec
from msgspec import Meta

from holdfast.api.openai.completions import NewCompletion
from holdfast.domain.content import (
    AudioPart,
    Content,
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
from holdfast.domain.message import NewMessage, Role, ToolCall
from holdfast.domain.tool import ToolSpec
from holdfast.tools.client_tools import client_tool_spec


class TextPartInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """Words."""

    text: str


class ImageUrl(msgspec.Struct, frozen=True, kw_only=True):
    """Where a picture is: at an `https:` address, or in a `data:` one."""

    url: str


class ImagePartInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="image_url"):
    """A picture."""

    image_url: ImageUrl


class AudioData(msgspec.Struct, frozen=True, kw_only=True):
    """A sound in base64."""

    data: str
    format: Literal["wav", "mp3"]


class AudioPartInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="input_audio"):
    """A sound."""

    input_audio: AudioData


class DocumentFile(msgspec.Struct, frozen=True, kw_only=True):
    """A document in a `data:` address, or one that was uploaded to this server."""

    file_data: str | None = None
    file_id: str | None = None


class DocumentPartInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="file"):
    """A document."""

    file: DocumentFile


class RefusalPartInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="refusal"):
    """Why an assistant said no."""

    refusal: str


class AssistantFunctionCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that was called, with its arguments as JSON in a string."""

    name: str
    arguments: str


class AssistantToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """What an assistant asked for."""

    id: str
    function: AssistantFunctionCall
    type: Literal["function"] = "function"


_TextContent: TypeAlias = str | list[TextPartInput]


class SystemMessageInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="system"):
    """What the model is told to be."""

    content: _TextContent


class DeveloperMessageInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="developer"):
    """The same, by its newer name."""

    content: _TextContent


class UserMessageInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="user"):
    """What a person says."""

    content: str | list[TextPartInput | ImagePartInput | AudioPartInput | DocumentPartInput]


class AssistantMessageInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="assistant"):
    """What the model said before."""

    content: str | list[TextPartInput | RefusalPartInput] | None = None
    refusal: str | None = None
    tool_calls: list[AssistantToolCall] | None = None


class ToolMessageInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="tool"):
    """What came of a call."""

    content: _TextContent
    tool_call_id: str


ChatMessageInput: TypeAlias = (
    SystemMessageInput | DeveloperMessageInput | UserMessageInput | AssistantMessageInput | ToolMessageInput
)


class OfferedFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of the caller; `parameters` is a JSON Schema."""

    name: str
    description: str | None = None
    parameters: dict[str, Json] | None = None


class OfferedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the caller runs."""

    function: OfferedFunction
    type: Literal["function"] = "function"


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a stream is sent."""

    include_usage: bool | None = None


class ResponseFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The form of an answer."""

    type: str


class CompletionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A chat to be completed. `model` is the name of an agent."""

    model: str
    messages: Annotated[list[ChatMessageInput], Meta(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    tools: list[OfferedTool] | None = None
    tool_choice: Json = None
    """`auto`, or `none`: the tools are not offered then."""
    n: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    response_format: ResponseFormat | None = None
    modalities: list[str] | None = None
    audio: Json = None
    parallel_tool_calls: bool | None = None
    functions: Json = None
    function_call: Json = None


_DATA_URL: Final = re.compile(r"data:(?P<type>[\w.+-]+/[\w.+-]+)(?:;[\w.+-]+=[^;,]*)*;base64,", re.ASCII)

UNSUPPORTED_PARAMETERS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "n": (lambda n: n == 1, "an agent gives one answer"),
    "logprobs": (lambda wanted: not wanted, "an agent does not tell how likely its words were"),
    "top_logprobs": (lambda count: count == 0, "an agent does not tell how likely its words were"),
    "response_format": (lambda form: form.type == "text", "an agent answers in words"),
    "modalities": (lambda kinds: kinds == ["text"], "an agent answers in words"),
    "audio": (lambda _: False, "an agent answers in words"),
    "tool_choice": (lambda choice: choice in ("auto", "none"), "an agent chooses its tools: send `auto` or `none`"),
    "parallel_tool_calls": (lambda allowed: allowed, "an agent may ask for several tools at once"),
    "functions": (lambda _: False, "send `tools`, which replaced it"),
    "function_call": (lambda _: False, "send `tool_choice`, which replaced it"),
}
"""What would change the answer and cannot be had: which values are taken all the same, and why no other is."""


def to_new_completion(request: CompletionRequest, *, thread: str | None, key: str | None) -> NewCompletion:
    """Return what a request asks for, or raise what is wrong with it."""
    for name, (fits, why) in UNSUPPORTED_PARAMETERS.items():
        given = getattr(request, name)
        if given is not None and not fits(given):
            raise Invalid(f"`{name}`: {why}", field=name)
    offered = [] if request.tool_choice == "none" else request.tools or []
    return NewCompletion(
        agent=request.model,
        messages=[_to_new_message(message, f"messages[{index}]") for index, message in enumerate(request.messages)],
        tools=[_to_tool_spec(tool) for tool in offered],
        thread=None if thread is None else ThreadId(thread),
        key=key,
    )


def _to_tool_spec(tool: OfferedTool) -> ToolSpec:
    described = tool.function
    return client_tool_spec(described.name, described.description or "", described.parameters)


def _to_new_message(message: ChatMessageInput, place: str) -> NewMessage:
    match message:
        case SystemMessageInput(content=content) | DeveloperMessageInput(content=content):
            return NewMessage(role=Role.SYSTEM, content=_join_text(content))
        case UserMessageInput(content=content):
            said = content if isinstance(content, str) else _to_parts(content, f"{place}.content")
            return NewMessage(role=Role.USER, content=said)
        case AssistantMessageInput(content=content, refusal=refusal, tool_calls=calls):
            made = [_to_tool_call(call, f"{place}.tool_calls[{index}]") for index, call in enumerate(calls or ())]
            return NewMessage(role=Role.ASSISTANT, content=_join_text(content or refusal or ""), tool_calls=made)
        case ToolMessageInput(content=content, tool_call_id=call_id):
            return NewMessage(role=Role.TOOL, content=_join_text(content), tool_call_id=ToolCallId(call_id))
        case _:
            assert_never(message)


def _join_text(content: str | Sequence[TextPartInput | RefusalPartInput]) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.text if isinstance(part, TextPartInput) else part.refusal for part in content)


def _to_tool_call(call: AssistantToolCall, place: str) -> ToolCall:
    try:
        arguments = msgspec.json.decode(call.function.arguments or "{}", type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as exc:
        field = f"{place}.function.arguments"
        raise Invalid(f"`{field}` must be a JSON object in a string", field=field) from exc
    return ToolCall(id=ToolCallId(call.id), name=call.function.name, arguments=arguments)


def _to_parts(
    parts: Sequence[TextPartInput | ImagePartInput | AudioPartInput | DocumentPartInput], place: str
) -> Content:
    return [_to_part(part, f"{place}[{index}]") for index, part in enumerate(parts)]


def _to_part(part: TextPartInput | ImagePartInput | AudioPartInput | DocumentPartInput, place: str) -> Part:
    match part:
        case TextPartInput(text=text):
            return TextPart(text=text)
        case ImagePartInput(image_url=image):
            return ImagePart(source=_to_source(image.url, f"{place}.image_url.url"))
        case AudioPartInput(input_audio=sound):
            kind = {"wav": "audio/wav", "mp3": "audio/mpeg"}[sound.format]
            return AudioPart(source=DataSource(value=sound.data, mime_type=kind))
        case DocumentPartInput(file=document):
            if document.file_data is not None:
                return DocumentPart(source=_to_source(document.file_data, f"{place}.file.file_data"))
            if document.file_id is not None:
                return DocumentPart(source=FileSource(value=document.file_id))
            raise Invalid(f"`{place}.file` needs `file_data` or `file_id`", field=f"{place}.file")
        case _:
            assert_never(part)


def _to_source(address: str, place: str) -> DataSource | UrlSource:
    if address.startswith(("https://", "http://")):
        return UrlSource(value=address)
    found = _DATA_URL.match(address)
    if found is None:
        raise Invalid(f"`{place}` must be `https://…` or `data:TYPE;base64,…`", field=place)
    return DataSource(value=address[found.end() :], mime_type=found["type"])
