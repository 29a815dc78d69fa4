"""Our conversation as pydantic-ai tells it.

What a person, a tool or the system says between two answers is one request; each answer is one response.
"""

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, assert_never, cast, get_args

from msgspec import UNSET, UnsetType
from pydantic_ai import messages as told
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from holdfast.domain.content import (
    AudioPart,
    Content,
    DataSource,
    DocumentPart,
    FileSource,
    ImagePart,
    Part,
    TextPart,
    UrlSource,
    VideoPart,
)
from holdfast.domain.errors import ModelRefused
from holdfast.domain.ids import ToolCallId
from holdfast.domain.message import FAILED_METADATA_KEY, Message, NewMessage, Role
from holdfast.models.kept import restored
from holdfast.models.text import words
from holdfast.ports.model import ModelRequest

SENT: Final = frozenset({told.SystemPromptPart, told.UserPromptPart, told.ToolReturnPart})
"""The parts of a request that we make."""
NEVER_SENT: Final = frozenset(
    {
        told.SpeechPart,  # a live conversation by voice, which is another kind of model
        told.RetryPromptPart,  # the next ones are how pydantic-ai's own agent keeps its state in its history
        told.RetryFeedbackPart,
        told.ToolSearchReturnPart,
        told.LoadCapabilityReturnPart,
        told.ToolAvailabilityDeltaPart,
        told.CapabilityLoadDeltaPart,
        told.ModelSettingsDeltaPart,
        told.InstructionDeltaPart,
        told.InstructionBaselinePart,
        told.CompactionPart,  # we compact before, and what is left are messages
    }
)

_Media: TypeAlias = ImagePart | AudioPart | VideoPart | DocumentPart
_Item: TypeAlias = str | told.MultiModalContent
_URLS: Final[dict[type[_Media], type[told.FileUrl]]] = {
    ImagePart: told.ImageUrl,
    AudioPart: told.AudioUrl,
    VideoPart: told.VideoUrl,
    DocumentPart: told.DocumentUrl,
}
_STORES: Final = frozenset(get_args(told.UploadedFileProviderName))


def history(messages: Sequence[Message | NewMessage]) -> list[told.ModelMessage]:
    """Return `messages` as requests and responses; what cannot be told to a model is refused (`ModelRefused`)."""
    tools: dict[ToolCallId, str] = {}
    turns: list[told.ModelMessage] = []
    for message in messages:
        if message.role is Role.ASSISTANT:
            tools.update((call.id, call.name) for call in message.tool_calls)
            turns += _response(message)
        else:
            part = _request_part(message, tools)
            if turns and isinstance(turns[-1], told.ModelRequest):
                turns[-1].parts = [*turns[-1].parts, part]
            else:
                turns.append(told.ModelRequest(parts=[part]))
    return turns


def parameters(request: ModelRequest) -> ModelRequestParameters:
    """Return what a request says beside its messages: instructions and tools."""
    return ModelRequestParameters(
        instruction_parts=[told.InstructionPart(content=request.system)] if request.system else [],
        function_tools=[
            ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.parameters)
            for tool in request.tools
        ],
    )


def _response(message: Message | NewMessage) -> list[told.ModelMessage]:
    kept = restored(message)
    if kept is not None:
        return [kept]
    text = words(message.content)
    parts: list[told.ModelResponsePart] = [told.TextPart(content=text)] if text else []
    parts += [
        told.ToolCallPart(tool_name=call.name, args=call.arguments, tool_call_id=call.id) for call in message.tool_calls
    ]
    return [told.ModelResponse(parts=parts)] if parts else []


def _request_part(message: Message | NewMessage, tools: dict[ToolCallId, str]) -> told.ModelRequestPart:
    match message.role:
        case Role.USER:
            return told.UserPromptPart(content=_content(message.content))
        case Role.SYSTEM:
            return told.SystemPromptPart(content=words(message.content))
        case Role.TOOL:
            if message.tool_call_id is None or message.tool_call_id not in tools:
                raise ModelRefused(f"the result of `{message.tool_call_id}` follows no call of that id")
            name = tools[message.tool_call_id]
            outcome: Literal["failed", "success"] = "failed" if FAILED_METADATA_KEY in message.metadata else "success"
            return told.ToolReturnPart(name, _content(message.content), message.tool_call_id, outcome=outcome)
        case Role.ASSISTANT:
            raise AssertionError("an assistant's message is a response")
        case _:
            assert_never(message.role)


def _content(content: Content) -> str | list[_Item]:
    if isinstance(content, str):
        return content
    if all(isinstance(part, TextPart) for part in content):
        return words(content)
    return [_item(part) for part in content]


def _item(part: Part) -> _Item:
    if isinstance(part, TextPart):
        return part.text
    match part.source:
        case DataSource(value=value, mime_type=mime_type):
            return told.BinaryContent(data=_bytes(value), media_type=mime_type)
        case UrlSource(value=value, mime_type=mime_type):
            return _address(part, value, mime_type)
        case FileSource() as source:
            return _uploaded(source)
        case _:
            assert_never(part.source)


def _bytes(value: str) -> bytes:
    try:
        return b64decode(value, validate=True)
    except (NotBase64, ValueError) as exc:
        raise ModelRefused(f"the data of a part is not base64: {exc}") from exc


def _address(part: _Media, url: str, mime_type: str | UnsetType) -> told.MultiModalContent:
    if not url.startswith(("https://", "http://")):
        raise ModelRefused("the address of a part must begin with https:// or http://; send anything else as data")
    made: told.MultiModalContent = _URLS[type(part)](url, media_type=None if mime_type is UNSET else mime_type)  # type: ignore[assignment]
    return made


def _uploaded(source: FileSource) -> told.UploadedFile:
    if source.provider not in _STORES:
        raise ModelRefused(
            f"the file `{source.value}` is not in a provider's store, so no model can read it there: send it as data",
            file=source.value,
        )
    media_type = None if source.mime_type is UNSET else source.mime_type
    return told.UploadedFile(source.value, cast(told.UploadedFileProviderName, source.provider), media_type=media_type)
