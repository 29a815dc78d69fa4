"""Plain text of messages, and a deterministic summary made without a model."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.domain.content import plain_text
from holdfast.domain.message import Message, NewMessage, Role
from holdfast.domain.untrusted import unmark

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def replace_surrogates(text: str) -> str:
    """Return `text` with unpaired surrogates, which cannot be stored or sent, replaced by `�`."""
    return text if text.isascii() else _SURROGATE.sub("�", text)


def last_text(messages: Iterable[Message | NewMessage], role: Role) -> str | None:
    """Return the text of the last message of `role`, without untrusted marks, if there is one."""
    for message in reversed(list(messages)):
        if message.role is role:
            return unmark(plain_text(message.content))
    return None


MAX_SUMMARY_CHARS: Final = 4_000
MAX_EXTRACT_CHARS: Final = 200
MIN_EXTRACT_CHARS: Final = 20

_SENTENCE: Final = re.compile(r".*?(?:[.!?…](?=\s|$)|[。！？]|$)", re.DOTALL)


def summarise(messages: Sequence[Message | NewMessage], *, max_chars: int = MAX_SUMMARY_CHARS) -> str:
    """Return the first sentence of each user and assistant message, oldest first, in at most `max_chars`."""
    spoken = [message for message in messages if message.role in (Role.USER, Role.ASSISTANT)]
    texts = [(message.role, text) for message in spoken if (text := plain_text(message.content).strip())]
    share = max(MIN_EXTRACT_CHARS, min(MAX_EXTRACT_CHARS, max_chars // max(1, len(texts)) - len("assistant: \n")))
    lines = [f"{role}: {_first_sentence(text)[:share]}" for role, text in texts]
    return ("\n".join(lines) or "no messages")[:max_chars]


def _first_sentence(text: str) -> str:
    match = _SENTENCE.match(text)
    return " ".join((match[0] if match else text).split())
