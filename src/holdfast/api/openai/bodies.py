"""What a client of that API sends. What it may send and nothing here reads is passed over, as other servers do."""

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from holdfast.domain.content import Json


class TextInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """Words."""

    text: str


class ImageAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a picture is: at an `https:` address, or in a `data:` one."""

    url: str


class ImageInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="image_url"):
    """A picture."""

    image_url: ImageAddress


class Sound(msgspec.Struct, frozen=True, kw_only=True):
    """A sound in base64."""

    data: str
    format: Literal["wav", "mp3"]


class SoundInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="input_audio"):
    """A sound."""

    input_audio: Sound


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A document in a `data:` address, or one that was uploaded to this server."""

    file_data: str | None = None
    file_id: str | None = None


class DocumentInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="file"):
    """A document."""

    file: Document


class RefusalInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="refusal"):
    """Why an assistant said no."""

    refusal: str


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that was called, with its arguments as JSON in a string."""

    name: str
    arguments: str


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """What an assistant asked for."""

    id: str
    function: Function
    type: Literal["function"] = "function"


_Words: TypeAlias = str | list[TextInput]


class SystemInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="system"):
    """What the model is told to be."""

    content: _Words


class DeveloperInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="developer"):
    """The same, by its newer name."""

    content: _Words


class UserInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="user"):
    """What a person says."""

    content: str | list[TextInput | ImageInput | SoundInput | DocumentInput]


class AssistantInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="assistant"):
    """What the model said before."""

    content: str | list[TextInput | RefusalInput] | None = None
    refusal: str | None = None
    tool_calls: list[Call] | None = None


class ToolInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="tool"):
    """What came of a call."""

    content: _Words
    tool_call_id: str


ChatInput: TypeAlias = SystemInput | DeveloperInput | UserInput | AssistantInput | ToolInput


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
    messages: Annotated[list[ChatInput], Meta(min_length=1)]
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
