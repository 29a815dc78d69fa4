"""A snapshot of the context: what a model was told in one call, small enough to keep for each.

Messages are named by their sequences and texts by their digests, so what stays the same is kept once. Read back, it is
what was sent, to the letter.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Final, TypeAlias, assert_never

import msgspec
from msgspec.structs import replace

from holdfast.domain.content import Content, Json
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import MessageId, ToolCallId
from holdfast.domain.message import Message, NewMessage, Role, ToolCall
from holdfast.domain.untrusted import as_sent

SEPARATOR: Final = "\n\n"
"""What stands between the segments of a system prompt."""


class SentSegment(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the system prompt."""

    name: str
    digest: str
    tokens: int


class SentRange(msgspec.Struct, frozen=True, kw_only=True, tag="messages"):
    """All messages of the chain from one sequence to another, and how many those were."""

    first: int
    last: int
    count: int


class SentText(msgspec.Struct, frozen=True, kw_only=True, tag="text"):
    """A message that is not in the log as it was sent: a note of the runtime, or one that was shortened."""

    digest: str


Sent: TypeAlias = SentRange | SentText


class ContextSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What was sent in the step of that number."""

    step: int
    model: str
    segments: tuple[SentSegment, ...]
    conversation: tuple[Sent, ...]
    reminders: tuple[str, ...]
    tools: str
    """The digest of the tools' definitions."""
    tokens: dict[str, int]
    """Estimated, by what they are for."""
    first_sequence: int | None
    last_sequence: int | None
    compaction_through: int | None
    texts: dict[str, str] = {}
    """What the digests name. Texts are kept apart from snapshots, each once."""


class ReadSegment(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the system prompt, with what it said."""

    name: str
    text: str
    tokens: int


class ReadMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it was sent; what the runtime said has no sequence."""

    role: Role
    content: Content
    id: MessageId | None
    sequence: int | None
    tool_calls: list[ToolCall]
    tool_call_id: ToolCallId | None


class ReadContext(msgspec.Struct, frozen=True, kw_only=True):
    """A context as people read it. It is not `complete` if messages of it were deleted since."""

    step: int
    model: str
    system: str
    segments: tuple[ReadSegment, ...]
    messages: tuple[ReadMessage, ...]
    tools: Json
    tokens: dict[str, int]
    first_sequence: int | None
    last_sequence: int | None
    compaction_through: int | None
    complete: bool


@lru_cache(maxsize=1024)  # most texts of a context are the same from call to call
def digest(text: str) -> str:
    """Return the name of a text: the same text has the same everywhere."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def without_texts(snapshot: ContextSnapshot) -> ContextSnapshot:
    """Return the snapshot as it is kept beside its texts."""
    return replace(snapshot, texts={})


def read_back(snapshot: ContextSnapshot, texts: Mapping[str, str], messages: Sequence[Message]) -> ReadContext:
    """Return what was sent: `texts` are those that the snapshot names, `messages` those of the chain in its ranges.

    A text that is no longer kept raises `NotFound`.
    """
    segments = tuple(
        ReadSegment(name=part.name, text=_text(texts, part.digest), tokens=part.tokens) for part in snapshot.segments
    )
    told = tuple(_messages(snapshot, texts, messages))
    expected = sum(sent.count if isinstance(sent, SentRange) else 1 for sent in snapshot.conversation)
    return ReadContext(
        step=snapshot.step,
        model=snapshot.model,
        system=SEPARATOR.join(segment.text for segment in segments),
        segments=segments,
        messages=told,
        tools=msgspec.json.decode(_text(texts, snapshot.tools)),
        tokens=snapshot.tokens,
        first_sequence=snapshot.first_sequence,
        last_sequence=snapshot.last_sequence,
        compaction_through=snapshot.compaction_through,
        complete=len(told) == expected + len(snapshot.reminders),
    )


def text_names(snapshot: ContextSnapshot) -> list[str]:
    """Return the digests of all texts that are needed to read `snapshot` back."""
    sent = [part.digest for part in snapshot.conversation if isinstance(part, SentText)]
    return list(dict.fromkeys([*(part.digest for part in snapshot.segments), *sent, snapshot.tools]))


def read_message(message: Message | NewMessage) -> ReadMessage:
    """Return a message that is sent, as people read it."""
    return ReadMessage(
        role=message.role,
        content=message.content,
        id=message.id,
        sequence=message.sequence if isinstance(message, Message) else None,
        tool_calls=message.tool_calls,
        tool_call_id=message.tool_call_id,
    )


def _messages(
    snapshot: ContextSnapshot, texts: Mapping[str, str], messages: Sequence[Message]
) -> Iterator[ReadMessage]:
    tools = {call.id: call.name for message in messages for call in message.tool_calls}
    for sent in snapshot.conversation:
        match sent:
            case SentText(digest=name):
                yield read_message(_written.decode(_text(texts, name)))
            case SentRange(first=first, last=last):
                yield from (_as_sent(message, tools) for message in messages if _within(message, first, last))
            case _:
                assert_never(sent)
    for reminder in snapshot.reminders:
        yield read_message(NewMessage(role=Role.SYSTEM, content=reminder))


def _within(message: Message, first: int, last: int) -> bool:
    return message.sequence is not None and first <= message.sequence <= last


def _as_sent(message: Message, tools: Mapping[ToolCallId, str]) -> ReadMessage:
    tool = None if message.tool_call_id is None else tools.get(message.tool_call_id)
    return read_message(as_sent(message, tool=tool))


def _text(texts: Mapping[str, str], name: str) -> str:
    if name not in texts:
        raise NotFound(f"the text `{name}` of this context is no longer kept", digest=name)
    return texts[name]


_written: Final = msgspec.json.Decoder(NewMessage)
