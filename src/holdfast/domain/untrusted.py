"""Untrusted text: marked as data where a model reads it, and tracked as the taint of a run.

    <untrusted-3f9c2a71 source="tool:grep">
    the result of the tool
    </untrusted-3f9c2a71>

The number in the tag derives from the text and does not occur in it, so the text cannot close the mark. Stored
messages stay unmarked: a message is marked when it is sent.

Taint says that a run has read untrusted text. It is a value of the run: runs that continue it and its children inherit
it, a run that reads the result of a tainted run becomes tainted, and taint is never removed. A tool call is judged by
what the model had read when it requested the call.
"""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.content import Json, TextPart
from holdfast.domain.errors import Invalid
from holdfast.domain.message import Message, Role

SOURCE_METADATA_KEY: Final = "source"
"""Metadata key of the source of third-party content, such as `agent:researcher`."""
HUMAN_RESPONSE_TOOLS: Final = frozenset({"ask_user", "task_respond"})
"""Tools whose results are a person's words, and trusted like that person's messages."""

_TAG: Final = "untrusted"
_MARKED: Final = re.compile(rf'<({_TAG}-[0-9a-f]{{8}})(?: source="[^"]*")?>\n(.*)\n</\1>', re.DOTALL)
_UNSAFE_NAME_CHARS: Final = re.compile(r"[^A-Za-z0-9_.:/-]+")
_MAX_NAME_CHARS: Final = 80


def fence_text(text: str, *, tag: str, seed: str = "", source: str | None = None) -> str:
    """Return `text` between tags that it cannot close; the same text and seed give the same tags."""
    opening, closing = _fence_tags(text, tag=tag, seed=seed, source=source)
    return f"{opening}\n{text}\n{closing}"


def safe_name(text: str) -> str:
    """Return `text` reduced to characters that are safe in a tag or in a prompt."""
    return _UNSAFE_NAME_CHARS.sub("_", text)[:_MAX_NAME_CHARS]


def untrusted_source(message: Message, *, tool: str | None = None) -> str | None:
    """Return the source of a message that neither a person nor the model wrote; `tool` is the tool of a result."""
    if message.role is Role.TOOL:
        return None if tool in HUMAN_RESPONSE_TOOLS else f"tool:{tool or 'unknown'}"
    source = message.metadata.get(SOURCE_METADATA_KEY)
    return source if isinstance(source, str) and source else None


def mark_untrusted(message: Message, *, tool: str | None = None) -> Message:
    """Return the message for the model, with untrusted content marked."""
    source = untrusted_source(message, tool=tool)
    if source is None:
        return message
    content = message.content
    if isinstance(content, str):
        return replace(message, content=fence_text(content, tag=_TAG, seed=message.id, source=source))
    # The model reads the parts as one text, so their concatenation must not contain the tag.
    text = "".join(part.text for part in content if isinstance(part, TextPart))
    opening, closing = _fence_tags(text, tag=_TAG, seed=message.id, source=source)
    return replace(message, content=[TextPart(text=f"{opening}\n"), *content, TextPart(text=f"\n{closing}")])


def unmark(text: str) -> str:
    """Return `text` without its mark; unmarked text stays as it is."""
    found = _MARKED.fullmatch(text)
    return text if found is None else found[2]


def _fence_tags(text: str, *, tag: str, seed: str, source: str | None) -> tuple[str, str]:
    digest = sha256(f"{seed}\n{text}".encode("utf-8", "surrogatepass"))
    while (digits := digest.hexdigest()[:8]) in text:
        digest.update(b"again")
    attribute = "" if source is None else f' source="{safe_name(source)}"'
    return f"<{tag}-{digits}{attribute}>", f"</{tag}-{digits}>"


TAINT_VALUE: Final = "taint"
"""The run value that holds its taint."""
MAX_TAINT_SOURCES: Final = 20
"""Maximum number of stored sources; one is enough to be tainted."""


class TaintSource(msgspec.Struct, frozen=True, kw_only=True):
    """One source of untrusted text in the conversation."""

    name: str
    """Such as `web:example.com` or `tool:grep`."""
    at: int | None = None
    """The sequence of the message that requested the text; null if it arrived otherwise, or before the run started."""


class Taint(msgspec.Struct, frozen=True, kw_only=True):
    """Sources of untrusted text that a run has read, oldest first."""

    sources: tuple[TaintSource, ...] = ()

    def names(self, *, before: int | None = None) -> list[str]:
        """Return the sources read before the message with sequence `before`, or all."""
        return [one.name for one in self.sources if before is None or one.at is None or one.at < before]

    def with_source(self, name: str, *, at: int | None = None) -> "Taint":
        """Return the taint with one more source, unless it is already listed or the list is full."""
        if len(self.sources) >= MAX_TAINT_SOURCES or name in self.names():
            return self
        return Taint(sources=(*self.sources, TaintSource(name=name, at=at)))


def taint_source_name(kind: str, name: str) -> str:
    """Return the name of a source, reduced to safe characters."""
    return f"{kind}:{safe_name(name)}"


def read_taint(values: Mapping[str, Json]) -> Taint:
    """Decode the taint of a run; a malformed value raises `Invalid` and never counts as untainted."""
    value = values.get(TAINT_VALUE)
    try:
        return Taint() if value is None else msgspec.convert(value, Taint)
    except msgspec.ValidationError as exc:
        raise Invalid(f"the taint of this run cannot be decoded: {exc}", value=TAINT_VALUE) from exc


def inherited_taint(names: Iterable[str]) -> dict[str, Json]:
    """Return the initial values of a run that inherits taint from these sources."""
    sources = tuple(TaintSource(name=name) for name in names)
    return {TAINT_VALUE: msgspec.to_builtins(Taint(sources=sources))} if sources else {}
