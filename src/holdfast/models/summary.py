"""A summary without a model: how each message begins, within a bound. The same messages give the same summary."""

import re
from collections.abc import Sequence
from typing import Final

from holdfast.domain.message import Message, NewMessage, Role
from holdfast.models.text import words

MOST_CHARACTERS: Final = 4_000
LONGEST_EXTRACT: Final = 200
SHORTEST_EXTRACT: Final = 20

_SENTENCE: Final = re.compile(r".*?(?:[.!?…](?=\s|$)|[。！？]|$)", re.DOTALL)


def summarise(messages: Sequence[Message | NewMessage], *, most: int = MOST_CHARACTERS) -> str:
    """Return the first sentence of what users and the assistant said, oldest first, in at most `most` characters."""
    said = [(message.role, text) for message in messages if (text := _told(message))]
    share = max(SHORTEST_EXTRACT, min(LONGEST_EXTRACT, most // max(1, len(said)) - len("assistant: \n")))
    lines = [f"{role}: {_first_sentence(text)[:share]}" for role, text in said]
    return ("\n".join(lines) or "nothing was said")[:most]


def _told(message: Message | NewMessage) -> str:
    return words(message.content).strip() if message.role in (Role.USER, Role.ASSISTANT) else ""


def _first_sentence(text: str) -> str:
    found = _SENTENCE.match(text)
    return " ".join((found[0] if found else text).split())
