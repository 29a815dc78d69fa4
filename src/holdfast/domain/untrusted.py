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

from holdfast.domain.content import Content, Json, TextPart
from holdfast.domain.errors import Invalid
from holdfast.domain.message import Message, Role

SOURCE_METADATA_KEY: Final = "source"
"""Where in its metadata a message says that its content is somebody else's, such as `agent:researcher`."""
HUMAN_RESPONSE_TOOLS: Final = frozenset({"ask_user", "task_respond"})
"""Tools whose results are what a person said: as good as a message of theirs."""

_TAG: Final = "untrusted"
_MARKED: Final = re.compile(rf'<({_TAG}-[0-9a-f]{{8}})(?: source="[^"]*")?>\n(.*)\n</\1>', re.DOTALL)
_UNSAFE_NAME_CHARS: Final = re.compile(r"[^A-Za-z0-9_.:/-]+")
_MAX_NAME_CHARS: Final = 80


def fence_text(text: str, *, tag: str, seed: str = "", source: str | None = None) -> str:
    """Return `text` between tags that nothing in it can close; the same text and seed give the same tags."""
    opening, closing = _fence_tags(text, tag=tag, seed=seed, source=source)
    return f"{opening}\n{text}\n{closing}"


def safe_name(text: str) -> str:
    """Return `text` as a name that can stand in a tag or in a sentence of ours, and does nothing else there."""
    return _UNSAFE_NAME_CHARS.sub("_", text)[:_MAX_NAME_CHARS]


def untrusted_source(message: Message, *, tool: str | None = None) -> str | None:
    """Return whose words a message has, unless a person or the model itself said them. `tool` is what it answers."""
    if message.role is Role.TOOL:
        return None if tool in HUMAN_RESPONSE_TOOLS else f"tool:{tool or 'unknown'}"
    source = message.metadata.get(SOURCE_METADATA_KEY)
    return source if isinstance(source, str) and source else None


def mark_untrusted(message: Message, *, tool: str | None = None) -> Message:
    """Return the message as a model reads it: marked, if its content is data."""
    source = untrusted_source(message, tool=tool)
    if source is None:
        return message
    return replace(message, content=_mark_content(message.content, seed=message.id, source=source))


def unmark(text: str) -> str:
    """Return what was marked, or the text as it is if nothing was."""
    found = _MARKED.fullmatch(text)
    return text if found is None else found[2]


def _mark_content(content: Content, *, seed: str, source: str) -> Content:
    if isinstance(content, str):
        return fence_text(content, tag=_TAG, seed=seed, source=source)
    # Parts are read one after the other, so together they may not spell the tag either.
    text = "".join(part.text for part in content if isinstance(part, TextPart))
    opening, closing = _fence_tags(text, tag=_TAG, seed=seed, source=source)
    return [TextPart(text=f"{opening}\n"), *content, TextPart(text=f"\n{closing}")]


def _fence_tags(text: str, *, tag: str, seed: str, source: str | None) -> tuple[str, str]:
    name = f"{tag}-{_absent_digits(text, seed=seed)}"
    return f"<{name}{_source_attribute(source)}>", f"</{name}>"


def _absent_digits(text: str, *, seed: str) -> str:
    """Return eight hexadecimal digits that do not occur in `text`."""
    digest = sha256(f"{seed}\n{text}".encode("utf-8", "surrogatepass"))
    while (digits := digest.hexdigest()[:8]) in text:
        digest.update(b"again")
    return digits


def _source_attribute(source: str | None) -> str:
    return "" if source is None else f' source="{safe_name(source)}"'


TAINT_VALUE: Final = "taint"
"""The value of a run that says what it has read of others."""
MAX_TAINT_SOURCES: Final = 20
"""Sources that are kept; one is enough to be tainted."""


class TaintSource(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody whose words are in the conversation."""

    name: str
    """Such as `web:example.com`, or `tool:` and its name."""
    at: int | None = None
    """The sequence of the message that asked for them; null if they came in otherwise, or before the run began."""


class Taint(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has read of others, the first first."""

    sources: tuple[TaintSource, ...] = ()

    def names(self, *, before: int | None = None) -> list[str]:
        """Return what was read before the message of a sequence was written, or all of it."""
        return [one.name for one in self.sources if before is None or one.at is None or one.at < before]

    def with_source(self, name: str, *, at: int | None = None) -> "Taint":
        """Return it with one more source; with one that is known, or too many, it stays as it is."""
        if len(self.sources) >= MAX_TAINT_SOURCES or name in self.names():
            return self
        return Taint(sources=(*self.sources, TaintSource(name=name, at=at)))


def taint_source_name(kind: str, name: str) -> str:
    """Return the name of a source, in which nothing that others wrote can do harm."""
    return f"{kind}:{safe_name(name)}"


def read_taint(values: Mapping[str, Json]) -> Taint:
    """Return the taint of a run; what cannot be read is no reason to have none."""
    written = values.get(TAINT_VALUE)
    try:
        return Taint() if written is None else msgspec.convert(written, Taint)
    except msgspec.ValidationError as exc:
        raise Invalid(f"the taint of this run cannot be read: {exc}", value=TAINT_VALUE) from exc


def inherited_taint(names: Iterable[str]) -> dict[str, Json]:
    """Return the values of a run that begins with what others have read."""
    sources = tuple(TaintSource(name=name) for name in names)
    return {TAINT_VALUE: msgspec.to_builtins(Taint(sources=sources))} if sources else {}
