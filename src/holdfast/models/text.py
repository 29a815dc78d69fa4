"""The words of a message."""

import re
from collections.abc import Iterable
from typing import Final

from holdfast.domain.content import Content, TextPart
from holdfast.domain.message import Message, NewMessage, Role
from holdfast.domain.untrusted import unmark

_HALF: Final = re.compile("[\ud800-\udfff]")


def sayable(text: str) -> str:
    """Return `text` as it can be stored and sent: half of a surrogate pair becomes `�`."""
    return text if text.isascii() else _HALF.sub("�", text)


def words(content: Content) -> str:
    """Return the text of `content`; what is no text is left out."""
    if isinstance(content, str):
        return content
    return "".join(part.text for part in content if isinstance(part, TextPart))


def last_words(messages: Iterable[Message | NewMessage], role: Role) -> str | None:
    """Return the text of the last message of `role` as it was said, if there is one."""
    for message in reversed(list(messages)):
        if message.role is role:
            return unmark(words(message.content))
    return None
