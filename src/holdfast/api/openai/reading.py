"""How a request of that API becomes what is asked of an agent."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, assert_never

import msgspec

from holdfast.api.openai.bodies import (
    AssistantInput,
    Call,
    ChatInput,
    CompletionRequest,
    DeveloperInput,
    DocumentInput,
    ImageInput,
    OfferedTool,
    RefusalInput,
    SoundInput,
    SystemInput,
    TextInput,
    ToolInput,
    UserInput,
)
from holdfast.control.openai.asked import Asked
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
)
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import ThreadId, ToolCallId
from holdfast.domain.message import NewMessage, Role, ToolCall
from holdfast.domain.tool import ToolSpec
from holdfast.tools.client_tools import client_tool_spec

_DATA: Final = re.compile(r"data:(?P<type>[\w.+-]+/[\w.+-]+)(?:;[\w.+-]+=[^;,]*)*;base64,", re.ASCII)

UNSERVED: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
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


def asked_by(request: CompletionRequest, *, thread: str | None, key: str | None) -> Asked:
    """Return what a request asks for, or raise what is wrong with it."""
    for name, (fits, why) in UNSERVED.items():
        given = getattr(request, name)
        if given is not None and not fits(given):
            raise Invalid(f"`{name}`: {why}", field=name)
    offered = [] if request.tool_choice == "none" else request.tools or []
    return Asked(
        agent=request.model,
        messages=[_message(message, f"messages[{index}]") for index, message in enumerate(request.messages)],
        tools=[_tool(tool) for tool in offered],
        thread=None if thread is None else ThreadId(thread),
        key=key,
    )


def _tool(tool: OfferedTool) -> ToolSpec:
    described = tool.function
    return client_tool_spec(described.name, described.description or "", described.parameters)


def _message(message: ChatInput, place: str) -> NewMessage:
    match message:
        case SystemInput(content=content) | DeveloperInput(content=content):
            return NewMessage(role=Role.SYSTEM, content=_words(content))
        case UserInput(content=content):
            said = content if isinstance(content, str) else _parts(content, f"{place}.content")
            return NewMessage(role=Role.USER, content=said)
        case AssistantInput(content=content, refusal=refusal, tool_calls=calls):
            made = [_call(call, f"{place}.tool_calls[{index}]") for index, call in enumerate(calls or ())]
            return NewMessage(role=Role.ASSISTANT, content=_words(content or refusal or ""), tool_calls=made)
        case ToolInput(content=content, tool_call_id=call_id):
            return NewMessage(role=Role.TOOL, content=_words(content), tool_call_id=ToolCallId(call_id))
        case _:
            assert_never(message)


def _words(content: str | Sequence[TextInput | RefusalInput]) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.text if isinstance(part, TextInput) else part.refusal for part in content)


def _call(call: Call, place: str) -> ToolCall:
    try:
        arguments = msgspec.json.decode(call.function.arguments or "{}", type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as exc:
        field = f"{place}.function.arguments"
        raise Invalid(f"`{field}` must be a JSON object in a string", field=field) from exc
    return ToolCall(id=ToolCallId(call.id), name=call.function.name, arguments=arguments)


def _parts(parts: Sequence[TextInput | ImageInput | SoundInput | DocumentInput], place: str) -> Content:
    return [_part(part, f"{place}[{index}]") for index, part in enumerate(parts)]


def _part(part: TextInput | ImageInput | SoundInput | DocumentInput, place: str) -> Part:
    match part:
        case TextInput(text=text):
            return TextPart(text=text)
        case ImageInput(image_url=image):
            return ImagePart(source=_source(image.url, f"{place}.image_url.url"))
        case SoundInput(input_audio=sound):
            kind = {"wav": "audio/wav", "mp3": "audio/mpeg"}[sound.format]
            return AudioPart(source=DataSource(value=sound.data, mime_type=kind))
        case DocumentInput(file=document):
            if document.file_data is not None:
                return DocumentPart(source=_source(document.file_data, f"{place}.file.file_data"))
            if document.file_id is not None:
                return DocumentPart(source=FileSource(value=document.file_id))
            raise Invalid(f"`{place}.file` needs `file_data` or `file_id`", field=f"{place}.file")
        case _:
            assert_never(part)


def _source(address: str, place: str) -> DataSource | UrlSource:
    if address.startswith(("https://", "http://")):
        return UrlSource(value=address)
    found = _DATA.match(address)
    if found is None:
        raise Invalid(f"`{place}` must be `https://…` or `data:TYPE;base64,…`", field=place)
    return DataSource(value=address[found.end() :], mime_type=found["type"])
