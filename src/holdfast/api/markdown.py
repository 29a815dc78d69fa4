"""A conversation as people keep it: Markdown."""

from collections.abc import Iterator
from typing import assert_never

import msgspec

from holdfast.control.conversations import Conversation
from holdfast.domain.content import AudioPart, Content, DocumentPart, ImagePart, Part, TextPart, VideoPart
from holdfast.domain.message import Message


def as_markdown(whole: Conversation) -> str:
    """Return a conversation with a heading for each message."""
    thread = whole.thread
    head = [f"# {_line(thread.title or thread.id)}", "", f"- thread `{thread.id}`, agent `{thread.agent_type}`"]
    if whole.run is not None:
        head.append(f"- up to run `{whole.run.id}`, {whole.run.status}")
    return "\n".join([*head, "", *(line for message in whole.messages for line in _message(message))])


def _message(message: Message) -> Iterator[str]:
    yield f"## {message.role} · {message.created_at}"
    yield ""
    text = _content(message.content)
    if message.tool_call_id is not None:
        yield from (*_fenced(text), "")
    elif text:
        yield from (text, "")
    for call in message.tool_calls:
        yield f"Calls `{call.name}`:"
        yield ""
        yield from (*_fenced(msgspec.json.format(msgspec.json.encode(call.arguments)).decode()), "")


def _content(content: Content) -> str:
    if isinstance(content, str):
        return content
    return "\n\n".join(_part(part) for part in content)


def _part(part: Part) -> str:
    match part:
        case TextPart(text=text):
            return text
        case ImagePart() | AudioPart() | VideoPart() | DocumentPart():
            return f"[{type(part).__name__.removesuffix('Part').lower()}]"
        case _:
            assert_never(part)


def _fenced(text: str) -> list[str]:
    """Return a code block whose fence is longer than any in the text."""
    fence = "```"
    while fence in text:
        fence += "`"
    return [fence, text, fence]


def _line(text: str) -> str:
    return " ".join(text.split())
