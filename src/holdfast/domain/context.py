"""The context of a model call: the compaction of older messages, and a snapshot of the sent context.

    0 ────────────── through │ ──── start ▓▓▓▓▓▓▓▓ end ──────── newest
      replaced by summary    │      completed plan item: replaced by its conclusion

A compaction is a value of the run, so it branches with the thread and survives a crash; messages never change.

A snapshot refers to messages by sequence and to texts by digest, so that repeated content is stored once. A restored
snapshot is byte for byte the context that was sent.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import Final, TypeAlias, assert_never

import msgspec
from msgspec.structs import replace

from holdfast.domain.content import Content, Json
from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.ids import MessageId, RunId, ThreadId, ToolCallId
from holdfast.domain.instant import Instant
from holdfast.domain.message import Message, NewMessage, Role, ToolCall
from holdfast.domain.plan import Boundary
from holdfast.domain.recall import ScoreParts
from holdfast.domain.untrusted import mark_untrusted

MAX_FAILED_COMPACTIONS: Final = 2
COMPACTION_RETRY_GROWTH: Final = 1.25
"""Growth of the conversation after which an exhausted compaction is tried again."""


class CollapsedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A completed plan item whose messages are replaced by its conclusion."""

    task_id: int
    title: str
    conclusion: str
    start: Boundary
    end: Boundary


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """The replacement of older messages. The token counts are those of the conversation at the last attempt."""

    through: int | None = None
    """The summary covers all messages up to this sequence."""
    summary: str = ""
    collapsed: tuple[CollapsedTask, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0
    failed_tries: int = 0
    """Consecutive attempts whose summary freed nothing."""
    gap: bool = False
    """Whether messages before the summarised ones were too many to be read for the summary."""


NO_COMPACTION: Final = Compaction()


def decode_compaction(value: Json) -> Compaction:
    """Decode the stored compaction of a run; null is no compaction."""
    if value is None:
        return NO_COMPACTION
    try:
        return msgspec.convert(value, Compaction)
    except msgspec.ValidationError as exc:
        raise Invalid(f"the `compaction` of this run cannot be decoded: {exc}", value="compaction") from exc


def compaction_on_chain(compaction: Compaction, messages: Sequence[Message]) -> Compaction:
    """Return the parts of `compaction` that belong to the chain whose last messages are `messages`."""
    if compaction.through is None and not compaction.collapsed:
        return compaction
    sequences = [message.sequence for message in messages if message.sequence is not None]
    if compaction.through is not None and not _may_be_in(sequences, compaction.through):
        return NO_COMPACTION
    tasks = tuple(
        task
        for task in compaction.collapsed
        if all(_may_be_in(sequences, end.message_sequence_num) for end in (task.start, task.end))
    )
    return compaction if len(tasks) == len(compaction.collapsed) else replace(compaction, collapsed=tasks)


def record_failed_compaction(compaction: Compaction, *, before: int, after: int) -> Compaction:
    """Count an attempt whose summary freed nothing."""
    return replace(compaction, tokens_before=before, tokens_after=after, failed_tries=compaction.failed_tries + 1)


def compaction_exhausted(compaction: Compaction, *, tokens: int) -> bool:
    """Return whether another attempt is useless for a conversation of `tokens` tokens."""
    return (
        compaction.failed_tries >= MAX_FAILED_COMPACTIONS and tokens < compaction.tokens_after * COMPACTION_RETRY_GROWTH
    )


def _may_be_in(sequences: Sequence[int], sequence: int) -> bool:
    """Return whether `sequence` is among `sequences`, or may come before them."""
    index = bisect_left(sequences, sequence)
    if index == len(sequences):
        return not sequences
    return sequences[index] == sequence or index == 0


SEGMENT_SEPARATOR: Final = "\n\n"


class SentSegment(msgspec.Struct, frozen=True, kw_only=True):
    """One segment of the system prompt."""

    name: str
    digest: str
    tokens: int


class SentRange(msgspec.Struct, frozen=True, kw_only=True, tag="messages"):
    """All `count` messages of the chain from sequence `first` to `last`."""

    first: int
    last: int
    count: int


class SentText(msgspec.Struct, frozen=True, kw_only=True, tag="text"):
    """A message that is not in the log as it was sent: a runtime note, or a shortened message."""

    digest: str


SentPart: TypeAlias = SentRange | SentText


class InjectionKind(StrEnum):
    """Kind of what was recalled into a prompt."""

    STANDING = "standing"
    REQUEST = "request"
    """A message in which the author of the run asked for something for later, and that nobody has accepted."""
    FILE = "file"
    MEMORY = "memory"
    MESSAGE = "message"
    NEIGHBOUR = "neighbour"
    """A message before or after one that was found."""


class InjectedItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that was recalled into a prompt: a standing memory, a memory file, a memory or an excerpt."""

    kind: InjectionKind
    id: str
    """The id of a memory or message, or the path of a file."""
    at: Instant | None = None
    thread_id: ThreadId | None = None
    score: float | None = None
    """Of what a search found; what is always in the prompt has none."""
    parts: ScoreParts | None = None
    tokens: int = 0
    count: int = 1
    """How many nearly equal texts it stands for."""


class RecalledMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A run value: what was recalled for a user message. It stays the same for every call until the next message."""

    message_id: MessageId | None = None
    standing: str = ""
    """Standing instructions of people."""
    requests: str = ""
    """What the author of the run asked for before, quoted."""
    recalled: str = ""
    """All other memory, as untrusted text."""
    items: list[InjectedItem] = []
    notice: str | None = None
    """Why the search was limited, if it was."""
    undistilled: list[RunId] = []
    """Ended runs of the chain that have not been distilled yet."""


RECALL_VALUE: Final = "recall"
NO_MEMORY: Final = RecalledMemory()


def recalled_memory(values: Mapping[str, Json]) -> RecalledMemory:
    """Return what was recalled for the run."""
    value = values.get(RECALL_VALUE)
    return NO_MEMORY if value is None else msgspec.convert(value, RecalledMemory)


def recalled_memory_ids(values: Mapping[str, Json]) -> list[str]:
    """Return the memories that were recalled for the run; nothing else of what was recalled is decoded."""
    match values.get(RECALL_VALUE):
        case {"items": [*items]}:
            return [name for item in items if (name := _memory_id(item)) is not None]
        case _:
            return []


def _memory_id(item: Json) -> str | None:
    match item:
        case {"kind": InjectionKind.STANDING | InjectionKind.MEMORY, "id": str(name)}:
            return name
        case _:
            return None


class ContextSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The context that was sent in one step."""

    step: int
    model: str
    segments: tuple[SentSegment, ...]
    conversation: tuple[SentPart, ...]
    reminders: tuple[str, ...]
    tools: str
    tokens: dict[str, int]
    """Estimated tokens by part."""
    first_sequence: int | None
    last_sequence: int | None
    compaction_through: int | None
    memory: str | None = None
    """The digest of the list of what was recalled into the prompt, and why."""
    texts: dict[str, str] = {}
    """Texts by digest. They are stored apart from snapshots, each once."""


class ContextReason(msgspec.Struct, frozen=True, kw_only=True):
    """Why something is in a prompt."""

    kind: str
    """`memory`, `message`, `file`, `skill`, `request`, or `rule`: a standing instruction."""
    name: str
    """The id of a memory or message, the path of a file, or the name of a skill."""
    reason: str


class ReadSegment(msgspec.Struct, frozen=True, kw_only=True):
    """One segment of the system prompt, with its text."""

    name: str
    text: str
    tokens: int
    digest: str
    reasons: list[ContextReason] = []
    """Why each memory, skill and standing instruction is in it."""


class ReadMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it was sent; a message of the runtime has no sequence."""

    role: Role
    content: Content
    id: MessageId | None
    sequence: int | None
    tool_calls: list[ToolCall]
    tool_call_id: ToolCallId | None
    digest: str
    """Of the message as it was sent: equal messages of two calls share it."""


class ReadContext(msgspec.Struct, frozen=True, kw_only=True):
    """A restored context. It is not `complete` if messages of it were deleted later."""

    step: int
    model: str
    system: str
    segments: tuple[ReadSegment, ...]
    messages: tuple[ReadMessage, ...]
    tools: Json
    tools_digest: str
    tokens: dict[str, int]
    first_sequence: int | None
    last_sequence: int | None
    compaction_through: int | None
    complete: bool
    memory: list[InjectedItem] = []
    """What was recalled into the prompt, in its order, with the parts of each score."""


@lru_cache(maxsize=1024)  # most texts of a context are the same from call to call
def text_digest(text: str) -> str:
    """Return the digest under which a text is stored."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def strip_texts(snapshot: ContextSnapshot) -> ContextSnapshot:
    """Return the snapshot without its texts, which are stored separately."""
    return replace(snapshot, texts={})


def restore_context(snapshot: ContextSnapshot, texts: Mapping[str, str], messages: Sequence[Message]) -> ReadContext:
    """Return the context that was sent, from the `texts` and the chain's `messages` that the snapshot refers to.

    Raises:
        NotFound: a text is no longer stored.

    """
    segments = tuple(
        ReadSegment(name=part.name, text=_stored_text(texts, part.digest), tokens=part.tokens, digest=part.digest)
        for part in snapshot.segments
    )
    restored = tuple(_restored_messages(snapshot, texts, messages))
    expected = sum(sent.count if isinstance(sent, SentRange) else 1 for sent in snapshot.conversation)
    return ReadContext(
        step=snapshot.step,
        model=snapshot.model,
        system=SEGMENT_SEPARATOR.join(segment.text for segment in segments),
        segments=segments,
        messages=restored,
        tools=msgspec.json.decode(_stored_text(texts, snapshot.tools)),
        tools_digest=snapshot.tools,
        tokens=snapshot.tokens,
        first_sequence=snapshot.first_sequence,
        last_sequence=snapshot.last_sequence,
        compaction_through=snapshot.compaction_through,
        complete=len(restored) == expected + len(snapshot.reminders),
        memory=[] if snapshot.memory is None else _items_decoder.decode(_stored_text(texts, snapshot.memory)),
    )


def text_digests(snapshot: ContextSnapshot) -> list[str]:
    """Return the digests of all texts that `snapshot` refers to."""
    sent = [part.digest for part in snapshot.conversation if isinstance(part, SentText)]
    memory = [] if snapshot.memory is None else [snapshot.memory]
    return list(dict.fromkeys([*(part.digest for part in snapshot.segments), *sent, snapshot.tools, *memory]))


def to_read_message(message: Message | NewMessage) -> ReadMessage:
    """Convert a sent message to its restored form."""
    sent = [message.role, message.content, message.tool_calls, message.tool_call_id]
    return ReadMessage(
        role=message.role,
        content=message.content,
        id=message.id,
        sequence=message.sequence if isinstance(message, Message) else None,
        tool_calls=message.tool_calls,
        tool_call_id=message.tool_call_id,
        digest=sha256(msgspec.json.encode(sent)).hexdigest()[:32],
    )


def _restored_messages(
    snapshot: ContextSnapshot, texts: Mapping[str, str], messages: Sequence[Message]
) -> Iterator[ReadMessage]:
    tools = {call.id: call.name for message in messages for call in message.tool_calls}
    for sent in snapshot.conversation:
        match sent:
            case SentText(digest=digest):
                yield to_read_message(_message_decoder.decode(_stored_text(texts, digest)))
            case SentRange(first=first, last=last):
                for message in messages:
                    if message.sequence is not None and first <= message.sequence <= last:
                        tool = None if message.tool_call_id is None else tools.get(message.tool_call_id)
                        yield to_read_message(mark_untrusted(message, tool=tool))
            case _:
                assert_never(sent)
    for reminder in snapshot.reminders:
        yield to_read_message(NewMessage(role=Role.SYSTEM, content=reminder))


def _stored_text(texts: Mapping[str, str], digest: str) -> str:
    if digest not in texts:
        raise NotFound(f"the text `{digest}` of this context is no longer stored", digest=digest)
    return texts[digest]


_message_decoder: Final = msgspec.json.Decoder(NewMessage)
_items_decoder: Final = msgspec.json.Decoder(list[InjectedItem])
