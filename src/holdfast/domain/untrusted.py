"""Text that is data and never an instruction, marked as such where a model reads it.

    <untrusted-3f9c2a71 source="tool:grep">
    what the tool answered
    </untrusted-3f9c2a71>

The number in the tag derives from the text and occurs nowhere in it, so whatever the text says, it cannot end the mark.
What is stored stays as it was said: a message is marked when it is sent.
"""

import re
from hashlib import sha256
from typing import Final

from msgspec.structs import replace

from holdfast.domain.content import Content, TextPart
from holdfast.domain.message import Message, Role

SOURCE: Final = "source"
"""Where in its metadata a message says that its content is somebody else's, such as `agent:researcher`."""
ANSWERED_BY_PEOPLE: Final = frozenset({"ask_user", "task_respond"})
"""Tools whose results are what a person said: as good as a message of theirs."""

_TAG: Final = "untrusted"
_MARKED: Final = re.compile(rf'<({_TAG}-[0-9a-f]{{8}})(?: source="[^"]*")?>\n(.*)\n</\1>', re.DOTALL)
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_.:/-]+")
_LONGEST_NAME: Final = 80


def fenced(text: str, *, tag: str, seed: str = "", source: str | None = None) -> str:
    """Return `text` between tags that nothing in it can close; the same text and seed give the same tags."""
    opening, closing = _fence(text, tag=tag, seed=seed, source=source)
    return f"{opening}\n{text}\n{closing}"


def as_name(text: str) -> str:
    """Return `text` as a name that can stand in a tag or in a sentence of ours, and does nothing else there."""
    return _NO_NAME.sub("_", text)[:_LONGEST_NAME]


def source_of(message: Message, *, tool: str | None = None) -> str | None:
    """Return whose words a message has, unless a person or the model itself said them. `tool` is what it answers."""
    if message.role is Role.TOOL:
        return None if tool in ANSWERED_BY_PEOPLE else f"tool:{tool or 'unknown'}"
    source = message.metadata.get(SOURCE)
    return source if isinstance(source, str) and source else None


def as_sent(message: Message, *, tool: str | None = None) -> Message:
    """Return the message as a model reads it: marked, if its content is data."""
    source = source_of(message, tool=tool)
    if source is None:
        return message
    return replace(message, content=_marked(message.content, seed=message.id, source=source))


def unmarked(text: str) -> str:
    """Return what was marked, or the text as it is if nothing was."""
    found = _MARKED.fullmatch(text)
    return text if found is None else found[2]


def _marked(content: Content, *, seed: str, source: str) -> Content:
    if isinstance(content, str):
        return fenced(content, tag=_TAG, seed=seed, source=source)
    # Parts are read one after the other, so together they may not spell the tag either.
    text = "".join(part.text for part in content if isinstance(part, TextPart))
    opening, closing = _fence(text, tag=_TAG, seed=seed, source=source)
    return [TextPart(text=f"{opening}\n"), *content, TextPart(text=f"\n{closing}")]


def _fence(text: str, *, tag: str, seed: str, source: str | None) -> tuple[str, str]:
    name = f"{tag}-{_absent(text, seed=seed)}"
    return f"<{name}{_attribute(source)}>", f"</{name}>"


def _absent(text: str, *, seed: str) -> str:
    """Return eight hexadecimal digits that do not occur in `text`."""
    digest = sha256(f"{seed}\n{text}".encode("utf-8", "surrogatepass"))
    while (digits := digest.hexdigest()[:8]) in text:
        digest.update(b"again")
    return digits


def _attribute(source: str | None) -> str:
    return "" if source is None else f' source="{as_name(source)}"'
