"""Plain text of messages, and a deterministic summary made without a model."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.domain.content import Content, TextPart
from holdfast.domain.message import Message, NewMessage, Role
from holdfast.domain.untrusted import unmark

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def replace_surrogates(text: str) -> str:
    """Return `text` as it can be stored and sent: half of a surrogate pair becomes `�`."""
    return text if text.isascii() else _SURROGATE.sub("�", text)


def plain_text(content: Content) -> str:
    """Return the text of `content`; what is no text is left out."""
    if isinstance(content, str):
        return content
    return "".join(part.text for part in content if isinstance(part, TextPart))


def last_text(messages: Iterable[Message | NewMessage], role: Role) -> str | None:
    """Return the text of the last message of `role` as it was said, if there is one."""
    for message in reversed(list(messages)):
        if message.role is role:
            return unmark(plain_text(message.content))
    return None


MAX_SUMMARY_CHARS: Final = 4_000
MAX_EXTRACT_CHARS: Final = 200
MIN_EXTRACT_CHARS: Final = 20

_SENTENCE: Final = re.compile(r".*?(?:[.!?…](?=\s|$)|[。！？]|$)", re.DOTALL)


def summarise(messages: Sequence[Message | NewMessage], *, max_chars: int = MAX_SUMMARY_CHARS) -> str:
    """Return the first sentence of what users and the assistant said, oldest first, in at most `most` characters."""
    said = [(message.role, text) for message in messages if (text := _message_text(message))]
    share = max(MIN_EXTRACT_CHARS, min(MAX_EXTRACT_CHARS, max_chars // max(1, len(said)) - len("assistant: \n")))
    lines = [f"{role}: {_first_sentence(text)[:share]}" for role, text in said]
    return ("\n".join(lines) or "nothing was said")[:max_chars]


def _message_text(message: Message | NewMessage) -> str:
    return plain_text(message.content).strip() if message.role in (Role.USER, Role.ASSISTANT) else ""


def _first_sentence(text: str) -> str:
    found = _SENTENCE.match(text)
    return " ".join((found[0] if found else text).split())
