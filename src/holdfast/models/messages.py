"""Conversation messages converted to and from pydantic-ai's requests and responses.

Everything said between two model responses is one request. What a provider wants back with a response (signed
thoughts, ids, the order of parts) is kept in the message's metadata: a text as its length, a call as its position.
It is dropped if it no longer fits its message.
"""

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias, assert_never, cast, get_args

import msgspec
import pydantic
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
    Json,
    Part,
    TextPart,
    UrlSource,
    VideoPart,
)
from holdfast.domain.errors import ModelRefused
from holdfast.domain.ids import ToolCallId
from holdfast.domain.message import FAILED_METADATA_KEY, Message, NewMessage, Role
from holdfast.models.text import plain_text
from holdfast.ports.model import ModelRequest

SENT_PARTS: Final = frozenset({told.SystemPromptPart, told.UserPromptPart, told.ToolReturnPart})
"""The parts of a request that we make."""
UNSENT_PARTS: Final = frozenset(
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
_FILE_PROVIDERS: Final = frozenset(get_args(told.UploadedFileProviderName))


def to_history(messages: Sequence[Message | NewMessage]) -> list[told.ModelMessage]:
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


def to_request_parameters(request: ModelRequest) -> ModelRequestParameters:
    """Return what a request says beside its messages: instructions and tools."""
    return ModelRequestParameters(
        instruction_parts=[told.InstructionPart(content=request.system)] if request.system else [],
        function_tools=[
            ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.parameters)
            for tool in request.tools
        ],
    )


def _response(message: Message | NewMessage) -> list[told.ModelMessage]:
    kept = restore_response(message)
    if kept is not None:
        return [kept]
    text = plain_text(message.content)
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
            return told.SystemPromptPart(content=plain_text(message.content))
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
        return plain_text(content)
    return [_item(part) for part in content]


def _item(part: Part) -> _Item:
    if isinstance(part, TextPart):
        return part.text
    match part.source:
        case DataSource(value=value, mime_type=mime_type):
            return told.BinaryContent(data=_decode_base64(value), media_type=mime_type)
        case UrlSource(value=value, mime_type=mime_type):
            return _file_url(part, value, mime_type)
        case FileSource() as source:
            return _uploaded(source)
        case _:
            assert_never(part.source)


def _decode_base64(value: str) -> bytes:
    try:
        return b64decode(value, validate=True)
    except (NotBase64, ValueError) as exc:
        raise ModelRefused(f"the data of a part is not base64: {exc}") from exc


def _file_url(part: _Media, url: str, mime_type: str | UnsetType) -> told.MultiModalContent:
    if not url.startswith(("https://", "http://")):
        raise ModelRefused("the address of a part must begin with https:// or http://; send anything else as data")
    made: told.MultiModalContent = _URLS[type(part)](url, media_type=None if mime_type is UNSET else mime_type)  # type: ignore[assignment]
    return made


def _uploaded(source: FileSource) -> told.UploadedFile:
    if source.provider not in _FILE_PROVIDERS:
        raise ModelRefused(
            f"the file `{source.value}` is not in a provider's store, so no model can read it there: send it as data",
            file=source.value,
        )
    media_type = None if source.mime_type is UNSET else source.mime_type
    return told.UploadedFile(source.value, cast(told.UploadedFileProviderName, source.provider), media_type=media_type)


PROVIDER_METADATA_KEY: Final = "provider"
"""Where in the metadata of a message it is kept."""

_RESPONSE_FIELDS: Final = ("model_name", "provider_name", "provider_url", "canonical_system", "provider_response_id")
_parts_adapter: Final = pydantic.TypeAdapter(
    list[told.ModelResponsePart], config=pydantic.ConfigDict(ser_json_bytes="base64")
)


def provider_metadata(response: told.ModelResponse) -> dict[str, Json]:
    """Return what to keep of an answer: nothing if its words and calls say it all."""
    if not any(_has_metadata(part) for part in response.parts):
        return {}
    dumped: list[dict[str, Any]] = _parts_adapter.dump_python(list(response.parts), mode="json", exclude_none=True)
    about = {field: value for field in _RESPONSE_FIELDS if (value := getattr(response, field)) is not None}
    kept = {**about, "parts": [_strip_content(part) for part in dumped]}
    return kept if _is_storable(kept) else {}


def restore_response(message: Message | NewMessage) -> told.ModelResponse | None:
    """Return the answer that a message was, if what was kept of it still fits."""
    kept = message.metadata.get(PROVIDER_METADATA_KEY)
    if not isinstance(kept, dict) or not isinstance(kept.get("parts"), list):
        return None
    try:
        parts = _parts_adapter.validate_python(list(_restore_content(kept["parts"], message)))
    except (pydantic.ValidationError, _MetadataMismatch):
        return None
    return told.ModelResponse(parts=parts, **{field: kept[field] for field in _RESPONSE_FIELDS if field in kept})


def _is_storable(kept: dict[str, Json]) -> bool:
    try:
        msgspec.json.encode(kept)
    except UnicodeEncodeError:
        return False  # half of a surrogate pair: changed thoughts would no longer be the ones that were signed
    return True


class _MetadataMismatch(Exception):
    """What was kept belongs to another message."""


def _has_metadata(part: told.ModelResponsePart) -> bool:
    if isinstance(part, told.TextPart | told.ToolCallPart):
        return bool(part.id or part.provider_details)
    return True


def _strip_content(part: dict[str, Any]) -> dict[str, Any]:
    match part["part_kind"]:
        case "text":
            return {**part, "content": len(part["content"])}
        case "tool-call":
            return {key: value for key, value in part.items() if key not in ("args", "tool_call_id")}
        case _:
            return part


def _restore_content(parts: Sequence[Any], message: Message | NewMessage) -> Iterator[dict[str, Any]]:
    """Yield the parts with the words and the calls of the message, of which nothing may be left over."""
    text, calls = plain_text(message.content), iter(message.tool_calls)
    for part in parts:
        match part:
            case {"part_kind": "text", "content": int(length)} if length <= len(text):
                yield {**part, "content": text[:length]}
                text = text[length:]
            case {"part_kind": "tool-call", "tool_name": name}:
                call = next(calls, None)
                if call is None or call.name != name:
                    raise _MetadataMismatch
                yield {**part, "args": call.arguments, "tool_call_id": call.id}
            case {"part_kind": "text" | "tool-call"}:
                raise _MetadataMismatch
            case {"part_kind": str()}:
                yield part
            case _:
                raise _MetadataMismatch
    if text or next(calls, None) is not None:
        raise _MetadataMismatch
