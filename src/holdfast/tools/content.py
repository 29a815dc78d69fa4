"""What a tool answers, as the text that a model reads."""

import re
from typing import Final

import msgspec

from holdfast.domain.content import Json

# No database takes a NUL and no encoder half of a surrogate pair.
_UNREADABLE: Final = re.compile(r"[\x00\ud800-\udfff]")


def as_text(content: Json) -> str:
    """Return a text as it is, and anything else as JSON."""
    return content if isinstance(content, str) else msgspec.json.encode(content).decode()


def readable(content: Json) -> Json:
    """Return `content` as it can be stored and sent: what is no character becomes `�`."""
    match content:
        case str():
            return _UNREADABLE.sub("�", content)
        case dict():
            return {readable(name): readable(part) for name, part in content.items()}
        case list() | tuple():
            return [readable(part) for part in content]
        case _:
            return content
