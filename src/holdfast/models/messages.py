"""Conversation messages converted to and from pydantic-ai's requests and responses.

All messages between two model responses form one request. Data that a provider needs back with a response (signed
reasoning, ids, the order of parts) is stored in the message's metadata, with a text as its length and a call as its
position. It is ignored if it no longer matches its message.
"""

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias, assert_never, cast, get_args

import msgspec
import pydantic
from msgspec import UNSET
from pydantic_ai import messages as ai
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
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
    plain_text,
)
from holdfast.domain.errors import ModelRefused
from holdfast.domain.ids import ToolCallId
from holdfast.domain.message import FAILED_METADATA_KEY, Message, NewMessage, Role
from holdfast.ports.model import ModelRequest

SENT_PARTS: Final = frozenset({ai.SystemPromptPart, ai.UserPromptPart, ai.ToolReturnPart})
"""The parts of a request that we send."""
UNSENT_PARTS: Final = frozenset(
    {
        ai.SpeechPart,  # speech-to-speech models are not supported
        ai.RetryPromptPart,  # from here on: state that pydantic-ai's own agent keeps in its history
        ai.RetryFeedbackPart,
        ai.ToolSearchReturnPart,
        ai.LoadCapabilityReturnPart,
        ai.ToolAvailabilityDeltaPart,
        ai.CapabilityLoadDeltaPart,
        ai.ModelSettingsDeltaPart,
        ai.InstructionDeltaPart,
        ai.InstructionBaselinePart,
        ai.CompactionPart,  # our own compaction produces ordinary messages
    }
)

_Media: TypeAlias = ImagePart | AudioPart | VideoPart | DocumentPart
_Item: TypeAlias = str | ai.MultiModalContent
_URLS: Final[dict[type[_Media], type[ai.FileUrl]]] = {
    ImagePart: ai.ImageUrl,
    AudioPart: ai.AudioUrl,
    VideoPart: ai.VideoUrl,
    DocumentPart: ai.DocumentUrl,
}
_FILE_PROVIDERS: Final = frozenset(get_args(ai.UploadedFileProviderName))


def to_history(messages: Sequence[Message | NewMessage]) -> list[ai.ModelMessage]:
    """Return `messages` as requests and responses; raise `ModelRefused` for content that no model accepts."""
    tools: dict[ToolCallId, str] = {}
    turns: list[ai.ModelMessage] = []
    for message in messages:
        if message.role is Role.ASSISTANT:
            tools.update((call.id, call.name) for call in message.tool_calls)
            turns += _response(message)
        else:
            part = _request_part(message, tools)
            if turns and isinstance(turns[-1], ai.ModelRequest):
                turns[-1].parts = [*turns[-1].parts, part]
            else:
                turns.append(ai.ModelRequest(parts=[part]))
    return turns


def to_request_parameters(request: ModelRequest, *, native_output: bool = False) -> ModelRequestParameters:
    """Return the instructions and tools of a request, and its output schema if the model can enforce one."""
    schema = request.output_schema if native_output else None
    return ModelRequestParameters(
        output_mode="text" if schema is None else "native",
        output_object=None if schema is None else OutputObjectDefinition(json_schema=schema, name="output"),
        instruction_parts=[ai.InstructionPart(content=request.system)] if request.system else [],
        function_tools=[
            ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.parameters)
            for tool in request.tools
        ],
    )


def _response(message: Message | NewMessage) -> list[ai.ModelMessage]:
    restored = restore_response(message)
    if restored is not None:
        return [restored]
    text = plain_text(message.content)
    parts: list[ai.ModelResponsePart] = [ai.TextPart(content=text)] if text else []
    parts += [
        ai.ToolCallPart(tool_name=call.name, args=call.arguments, tool_call_id=call.id) for call in message.tool_calls
    ]
    return [ai.ModelResponse(parts=parts)] if parts else []


def _request_part(message: Message | NewMessage, tools: dict[ToolCallId, str]) -> ai.ModelRequestPart:
    match message.role:
        case Role.USER:
            return ai.UserPromptPart(content=_content(message.content))
        case Role.SYSTEM:
            return ai.SystemPromptPart(content=plain_text(message.content))
        case Role.TOOL:
            if message.tool_call_id is None or message.tool_call_id not in tools:
                raise ModelRefused(f"the result of `{message.tool_call_id}` has no matching tool call")
            name = tools[message.tool_call_id]
            outcome: Literal["failed", "success"] = "failed" if FAILED_METADATA_KEY in message.metadata else "success"
            return ai.ToolReturnPart(name, _content(message.content), message.tool_call_id, outcome=outcome)
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
            try:
                return ai.BinaryContent(data=b64decode(value, validate=True), media_type=mime_type)
            except (NotBase64, ValueError) as exc:
                raise ModelRefused(f"the data of a part is not base64: {exc}") from exc
        case UrlSource(value=url, mime_type=mime_type):
            if not url.startswith(("https://", "http://")):
                raise ModelRefused("the URL of a part must begin with https:// or http://; send anything else as data")
            file_url = _URLS[type(part)](url, media_type=None if mime_type is UNSET else mime_type)
            return cast(ai.MultiModalContent, file_url)
        case FileSource() as source:
            return _uploaded_file(source)
        case _:
            assert_never(part.source)


def _uploaded_file(source: FileSource) -> ai.UploadedFile:
    if source.provider not in _FILE_PROVIDERS:
        raise ModelRefused(
            f"the file `{source.value}` is not in a provider's file store, so no model can read it: send it as data",
            file=source.value,
        )
    media_type = None if source.mime_type is UNSET else source.mime_type
    return ai.UploadedFile(source.value, cast(ai.UploadedFileProviderName, source.provider), media_type=media_type)


PROVIDER_METADATA_KEY: Final = "provider"
"""Key of the provider's data in the metadata of a message."""

_RESPONSE_FIELDS: Final = ("model_name", "provider_name", "provider_url", "canonical_system", "provider_response_id")
_parts_adapter: Final = pydantic.TypeAdapter(
    list[ai.ModelResponsePart], config=pydantic.ConfigDict(ser_json_bytes="base64")
)


def provider_metadata(response: ai.ModelResponse) -> dict[str, Json]:
    """Return the provider's data of a response to store; empty if its text and calls are all there is."""
    if not any(
        part.id or part.provider_details if isinstance(part, ai.TextPart | ai.ToolCallPart) else True
        for part in response.parts
    ):
        return {}
    dumped: list[dict[str, Any]] = _parts_adapter.dump_python(list(response.parts), mode="json", exclude_none=True)
    fields = {field: value for field in _RESPONSE_FIELDS if (value := getattr(response, field)) is not None}
    metadata = {**fields, "parts": [_strip_content(part) for part in dumped]}
    try:
        msgspec.json.encode(metadata)
    except UnicodeEncodeError:
        return {}  # half of a surrogate pair: replacing it would invalidate the signature of the reasoning
    return metadata


def restore_response(message: Message | NewMessage) -> ai.ModelResponse | None:
    """Return the provider's response for a message, if the stored data still matches it."""
    metadata = message.metadata.get(PROVIDER_METADATA_KEY)
    if not isinstance(metadata, dict) or not isinstance(metadata.get("parts"), list):
        return None
    try:
        parts = _parts_adapter.validate_python(list(_restore_content(metadata["parts"], message)))
    except (pydantic.ValidationError, _MetadataMismatch):
        return None
    fields = {field: metadata[field] for field in _RESPONSE_FIELDS if field in metadata}
    return ai.ModelResponse(parts=parts, **fields)


class _MetadataMismatch(Exception):
    """The stored data does not match the message."""


def _strip_content(part: dict[str, Any]) -> dict[str, Any]:
    match part["part_kind"]:
        case "text":
            # It has no content if pydantic-ai made it from a delta of a new type.
            return {**part, "content": len(part.get("content", ""))}
        case "tool-call":
            return {key: value for key, value in part.items() if key not in ("args", "tool_call_id")}
        case _:
            return part


def _restore_content(parts: Sequence[Any], message: Message | NewMessage) -> Iterator[dict[str, Any]]:
    """Yield the parts with the text and calls of the message, all of which must be used."""
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
