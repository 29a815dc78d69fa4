"""The context of a model call: the compaction of older messages, and a snapshot of what was sent.

    0 ────────────── through │ ──── start ▓▓▓▓▓▓▓▓ end ──────── newest
      replaced by summary    │      completed plan item: replaced by its conclusion

A compaction is a value of the run, so it branches with the thread and outlives a crash; messages never change.

A snapshot names messages by sequence and texts by digest, so that repeated content is stored once. Restored, it is
byte for byte what was sent.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Final, TypeAlias, assert_never

import msgspec
from msgspec.structs import replace

from holdfast.domain.content import Content, Json
from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.ids import MessageId, ToolCallId
from holdfast.domain.message import Message, NewMessage, Role, ToolCall
from holdfast.domain.plan import Boundary
from holdfast.domain.untrusted import mark_untrusted

MAX_FAILED_COMPACTIONS: Final = 2
COMPACTION_RETRY_GROWTH: Final = 1.25
"""How much longer a conversation must have become before it is tried again."""


class CollapsedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A completed item of the plan whose work is told by its conclusion."""

    task_id: int
    title: str
    conclusion: str
    start: Boundary
    end: Boundary


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """What stands for older messages. The tokens are those of the conversation at the last try."""

    through: int | None = None
    """The summary tells of all messages up to this sequence."""
    summary: str = ""
    collapsed: tuple[CollapsedTask, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0
    failed_tries: int = 0
    """How often in a row a summary freed nothing."""


NO_COMPACTION: Final = Compaction()


def decode_compaction(value: Json) -> Compaction:
    """Return the compaction that is kept as `value`; a run without one has none."""
    if value is None:
        return NO_COMPACTION
    try:
        return msgspec.convert(value, Compaction)
    except msgspec.ValidationError as exc:
        raise Invalid(f"the `compaction` of this run cannot be read: {exc}", value="compaction") from exc


def compaction_on_chain(compaction: Compaction, messages: Sequence[Message]) -> Compaction:
    """Return what of `compaction` is about the chain whose last messages these are."""
    if compaction.through is None and not compaction.collapsed:
        return compaction
    sequences = [message.sequence for message in messages if message.sequence is not None]
    if compaction.through is not None and not _may_be_in(sequences, compaction.through):
        return NO_COMPACTION
    spans = tuple(span for span in compaction.collapsed if _span_may_be_in(sequences, span))
    return compaction if len(spans) == len(compaction.collapsed) else replace(compaction, collapsed=spans)


def record_failed_compaction(compaction: Compaction, *, before: int, after: int) -> Compaction:
    """Count a summary that freed nothing."""
    return replace(compaction, tokens_before=before, tokens_after=after, failed_tries=compaction.failed_tries + 1)


def compaction_exhausted(compaction: Compaction, *, tokens: int) -> bool:
    """Whether there is no use in another try while the conversation has no more than `tokens`."""
    return (
        compaction.failed_tries >= MAX_FAILED_COMPACTIONS and tokens < compaction.tokens_after * COMPACTION_RETRY_GROWTH
    )


def _span_may_be_in(sequences: Sequence[int], span: CollapsedTask) -> bool:
    return all(_may_be_in(sequences, end.message_sequence_num) for end in (span.start, span.end))


def _may_be_in(sequences: Sequence[int], sequence: int) -> bool:
    """Whether a message of that number is among these, or may be before them."""
    at = bisect_left(sequences, sequence)
    if at == len(sequences):
        return not sequences
    return sequences[at] == sequence or at == 0


SEGMENT_SEPARATOR: Final = "\n\n"
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


SentPart: TypeAlias = SentRange | SentText


class ContextSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What was sent in the step of that number."""

    step: int
    model: str
    segments: tuple[SentSegment, ...]
    conversation: tuple[SentPart, ...]
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
def text_digest(text: str) -> str:
    """Return the name of a text: the same text has the same everywhere."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def strip_texts(snapshot: ContextSnapshot) -> ContextSnapshot:
    """Return the snapshot as it is kept beside its texts."""
    return replace(snapshot, texts={})


def restore_context(snapshot: ContextSnapshot, texts: Mapping[str, str], messages: Sequence[Message]) -> ReadContext:
    """Return what was sent: `texts` are those that the snapshot names, `messages` those of the chain in its ranges.

    A text that is no longer kept raises `NotFound`.
    """
    segments = tuple(
        ReadSegment(name=part.name, text=_stored_text(texts, part.digest), tokens=part.tokens)
        for part in snapshot.segments
    )
    told = tuple(_restored_messages(snapshot, texts, messages))
    expected = sum(sent.count if isinstance(sent, SentRange) else 1 for sent in snapshot.conversation)
    return ReadContext(
        step=snapshot.step,
        model=snapshot.model,
        system=SEGMENT_SEPARATOR.join(segment.text for segment in segments),
        segments=segments,
        messages=told,
        tools=msgspec.json.decode(_stored_text(texts, snapshot.tools)),
        tokens=snapshot.tokens,
        first_sequence=snapshot.first_sequence,
        last_sequence=snapshot.last_sequence,
        compaction_through=snapshot.compaction_through,
        complete=len(told) == expected + len(snapshot.reminders),
    )


def text_digests(snapshot: ContextSnapshot) -> list[str]:
    """Return the digests of all texts that are needed to read `snapshot` back."""
    sent = [part.digest for part in snapshot.conversation if isinstance(part, SentText)]
    return list(dict.fromkeys([*(part.digest for part in snapshot.segments), *sent, snapshot.tools]))


def to_read_message(message: Message | NewMessage) -> ReadMessage:
    """Return a message that is sent, as people read it."""
    return ReadMessage(
        role=message.role,
        content=message.content,
        id=message.id,
        sequence=message.sequence if isinstance(message, Message) else None,
        tool_calls=message.tool_calls,
        tool_call_id=message.tool_call_id,
    )


def _restored_messages(
    snapshot: ContextSnapshot, texts: Mapping[str, str], messages: Sequence[Message]
) -> Iterator[ReadMessage]:
    tools = {call.id: call.name for message in messages for call in message.tool_calls}
    for sent in snapshot.conversation:
        match sent:
            case SentText(digest=name):
                yield to_read_message(_message_decoder.decode(_stored_text(texts, name)))
            case SentRange(first=first, last=last):
                yield from (
                    _restored_message(message, tools) for message in messages if _is_in_range(message, first, last)
                )
            case _:
                assert_never(sent)
    for reminder in snapshot.reminders:
        yield to_read_message(NewMessage(role=Role.SYSTEM, content=reminder))


def _is_in_range(message: Message, first: int, last: int) -> bool:
    return message.sequence is not None and first <= message.sequence <= last


def _restored_message(message: Message, tools: Mapping[ToolCallId, str]) -> ReadMessage:
    tool = None if message.tool_call_id is None else tools.get(message.tool_call_id)
    return to_read_message(mark_untrusted(message, tool=tool))


def _stored_text(texts: Mapping[str, str], name: str) -> str:
    if name not in texts:
        raise NotFound(f"the text `{name}` of this context is no longer kept", digest=name)
    return texts[name]


_message_decoder: Final = msgspec.json.Decoder(NewMessage)
