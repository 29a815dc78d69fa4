"""Memories: statements that a space keeps, each with its sources, its trust and what replaced it.

    proposed ──► active ──► superseded
        └──────────┴──────► retracted

Nothing is overwritten: a change adds a version, and supersession is an explicit edge. What an agent or a distiller
states after it has read untrusted text, or states against a person, stays proposed until a person accepts it.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast.domain.errors import Conflict, Invalid
from holdfast.domain.ids import EntityId, MemoryId, MessageId, RunId, SpaceId, ThreadId, check_client_id
from holdfast.domain.instant import Instant, millis
from holdfast.domain.message import Role
from holdfast.domain.validation import check_text, normalize_text

MAX_MEMORY_CHARS: Final = 4_000
MAX_MEMORY_TITLE_CHARS: Final = 200
MAX_CATEGORY_CHARS: Final = 100
MAX_MEMORY_TAGS: Final = 20
MAX_TAG_CHARS: Final = 100
MAX_MEMORY_SOURCES: Final = 50
MAX_MEMORY_ENTITIES: Final = 50
MAX_MEMORY_RELATIONS: Final = 50
MAX_ENTITY_CHARS: Final = 200
MAX_PREDICATE_CHARS: Final = 100
MAX_TAINT_NAMES: Final = 50
DEFAULT_IMPORTANCE: Final = 0.5
SUPERSEDES_PREDICATE: Final = "supersedes"
MENTIONS_PREDICATE: Final = "mentions"


class MemoryType(StrEnum):
    """Kind of a memory."""

    EPISODE = "episode"
    """Something that happened."""
    SEMANTIC = "semantic"
    """A fact."""
    PROCEDURAL = "procedural"
    """How something is done, or should be."""


class MemoryStatus(StrEnum):
    """Status of a memory. Only an active one is recalled without being asked for."""

    PROPOSED = "proposed"
    ACTIVE = "active"
    SUPERSEDED = "superseded"
    RETRACTED = "retracted"


class MemoryOrigin(StrEnum):
    """Author of a memory's words."""

    PERSON = "person"
    AGENT = "agent"
    DISTILLED = "distilled"
    IMPORT = "import"
    FILE = "file"


class SourceKind(StrEnum):
    """Relation of a message to a memory that names it."""

    SUPPORTS = "supports"
    CONTRADICTS = "contradicts"


_Entity: TypeAlias = Annotated[str, Meta(extra_json_schema={"maxLength": MAX_ENTITY_CHARS})]


class MemorySource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message that a memory came from; `start` and `end` are the quoted range of its text."""

    message_id: MessageId
    thread_id: ThreadId
    sequence: int | None = None
    """Set by the store."""
    start: int | None = None
    end: int | None = None
    kind: SourceKind = SourceKind.SUPPORTS


class MemoryEntity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person, place, thing or name that a memory is about."""

    label: _Entity
    kind: Annotated[str, Meta(extra_json_schema={"maxLength": MAX_CATEGORY_CHARS})] = "thing"
    role: Annotated[str, Meta(extra_json_schema={"maxLength": MAX_PREDICATE_CHARS})] = MENTIONS_PREDICATE


class MemoryRelation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A statement about two entities, by their labels."""

    subject: _Entity
    predicate: Annotated[str, Meta(extra_json_schema={"maxLength": MAX_PREDICATE_CHARS})]
    object: _Entity
    weight: Annotated[float, Meta(ge=0, le=1)] = 1.0


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """One statement in its current version."""

    id: MemoryId
    space_id: SpaceId
    type: MemoryType
    text: str
    title: str | None
    category: str | None
    importance: float
    tags: list[str]
    status: MemoryStatus
    superseded_by: MemoryId | None
    supersedes: list[MemoryId]
    """The memories that this one replaces; while it is proposed, those that it would replace."""
    standing: bool
    """Whether it is always in the prompt while it is active."""
    occurred_from: Instant | None
    occurred_until: Instant | None
    valid_from: Instant | None
    valid_until: Instant | None
    expires_at: Instant | None
    origin: MemoryOrigin
    taint: list[str]
    """The untrusted sources that its author had read."""
    author: str | None
    agent: str | None
    thread_id: ThreadId | None
    run_id: RunId | None
    sources: list[MemorySource]
    entities: list[MemoryEntity]
    relations: list[MemoryRelation]
    version: int
    created_at: Instant
    updated_at: Instant


class NewMemory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A memory to keep. With a `key`, such as the key of a step, it is kept once however often it is sent."""

    type: MemoryType
    text: str
    id: MemoryId | None = None
    key: str | None = None
    title: str | None = None
    category: str | None = None
    importance: float = DEFAULT_IMPORTANCE
    tags: list[str] = []
    supersedes: list[MemoryId] = []
    standing: bool = False
    occurred_from: Instant | None = None
    occurred_until: Instant | None = None
    valid_from: Instant | None = None
    valid_until: Instant | None = None
    expires_at: Instant | None = None
    origin: MemoryOrigin = MemoryOrigin.PERSON
    taint: list[str] = []
    author: str | None = None
    agent: str | None = None
    thread_id: ThreadId | None = None
    run_id: RunId | None = None
    sources: list[MemorySource] = []
    entities: list[MemoryEntity] = []
    relations: list[MemoryRelation] = []
    proposed: bool = False
    """Whether it needs acceptance even if its author is trusted, as a guess does."""


class MemoryPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes to a memory; an absent field stays as it is."""

    text: str | UnsetType = UNSET
    type: MemoryType | UnsetType = UNSET
    title: str | None | UnsetType = UNSET
    category: str | None | UnsetType = UNSET
    importance: float | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    standing: bool | UnsetType = UNSET
    occurred_from: Instant | None | UnsetType = UNSET
    occurred_until: Instant | None | UnsetType = UNSET
    valid_from: Instant | None | UnsetType = UNSET
    valid_until: Instant | None | UnsetType = UNSET
    expires_at: Instant | None | UnsetType = UNSET


class MemoryVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a memory, with who made it and when; the last one is the memory as it is."""

    version: int
    memory: Memory
    changed_by: str | None
    changed_at: Instant


class MemoryRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A memory with its earlier versions, as it is exported and imported."""

    memory: Memory
    history: list[MemoryVersion] = []


class MemoryFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions of a list of memories; one that is left out matches everything."""

    type: MemoryType | None = None
    category: str | None = None
    tag: str | None = None
    status: MemoryStatus | None = None
    thread_id: ThreadId | None = None
    standing: bool | None = None


class MessageNode(msgspec.Struct, frozen=True, kw_only=True):
    """A message as memory tools show it; `start` and `end` are the range that a memory quotes."""

    id: MessageId
    thread_id: ThreadId
    run_id: RunId
    sequence: int | None
    role: Role
    speaker: str | None
    text: str
    at: Instant
    kind: SourceKind | UnsetType = UNSET
    start: int | None | UnsetType = UNSET
    end: int | None | UnsetType = UNSET
    taint: list[str] = []
    """The untrusted sources that its author had read."""
    superseded_by: list[MemoryId] = []
    """The memories that replaced everything that was taken from it."""


class NodeKind(StrEnum):
    """Kind of a node in the graph of memories."""

    MEMORY = "memory"
    MESSAGE = "message"
    ENTITY = "entity"


class GraphNode(msgspec.Struct, frozen=True, kw_only=True):
    """A memory, a message or an entity, as the graph shows it."""

    id: MemoryId | MessageId | EntityId
    kind: NodeKind
    text: str
    """The text of a memory or message, or the label of an entity."""
    at: Instant | None = None
    thread_id: ThreadId | None = None
    status: MemoryStatus | None = None
    taint: list[str] = []


class GraphHit(msgspec.Struct, frozen=True, kw_only=True):
    """A node that a walk over the graph reached, and the edge that led to it; the start has none."""

    node: GraphNode
    depth: int
    via_predicate: str | None


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """A memory with the messages it came from, and what it replaced or was replaced by."""

    memory: Memory
    messages: list[MessageNode]
    superseded_by: Memory | None
    supersedes: list[Memory]


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """What was said, and what memories say happened, in a span of time."""

    messages: list[MessageNode]
    memories: list[Memory]


class TimelineQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A span of time; both ends are included."""

    since: Instant | None = None
    until: Instant | None = None
    thread_id: ThreadId | None = None
    entity: str | None = None
    limit: int = 10
    descending: bool = False


def check_new_memory(new: NewMemory) -> None:
    """Raise if `new` is not a valid memory."""
    if new.id is not None:
        check_client_id(new.id, field="id")
    _check_words(new.text, new.title, new.category, new.tags)
    _check_importance(new.importance)
    _check_times(new.occurred_from, new.occurred_until, new.valid_from, new.valid_until, new.expires_at)
    if len(set(new.supersedes)) != len(new.supersedes) or len(new.supersedes) > MAX_MEMORY_SOURCES:
        raise Invalid(f"`supersedes` may name at most {MAX_MEMORY_SOURCES} memories, each once", field="supersedes")
    if new.id is not None and new.id in new.supersedes:
        raise Invalid("a memory cannot supersede itself", field="supersedes")
    _check_counts(new)
    for source in new.sources:
        if (source.start is None) != (source.end is None) or (source.start or 0) > (source.end or 0):
            raise Invalid("a quote needs a `start` and an `end` after it", field="sources")
    _check_graph(new)


def check_memory_patch(patch: MemoryPatch) -> dict[str, object]:
    """Return the changed fields of `patch`, or raise if it is not valid or changes nothing."""
    changes = {name: value for name, value in msgspec.structs.asdict(patch).items() if value is not UNSET}
    if not changes:
        raise Invalid("the patch changes nothing: name at least one field")
    _check_words(
        "-" if patch.text is UNSET else patch.text,
        patch.title or None,
        patch.category or None,
        patch.tags or [],
    )
    if patch.importance is not UNSET:
        _check_importance(patch.importance)
    return changes


def check_memory_times(memory: Memory) -> None:
    """Raise if a span of `memory` ends before it begins."""
    _check_times(memory.occurred_from, memory.occurred_until, memory.valid_from, memory.valid_until, memory.expires_at)


def initial_status(new: NewMemory, superseded: Sequence[Memory]) -> MemoryStatus:
    """Return the status of a new memory, which may depend on those that it would replace.

    A person's word is taken. An agent and a distiller may only propose once they have read untrusted text, and may
    only propose to replace what a person stated.
    """
    against_person = any(memory.origin is MemoryOrigin.PERSON for memory in superseded)
    trusted = new.origin is MemoryOrigin.PERSON
    if new.proposed or (not trusted and (new.taint or against_person)):
        return MemoryStatus.PROPOSED
    return MemoryStatus.ACTIVE


def deduplicates(new: NewMemory) -> bool:
    """Return whether an equal memory is returned in place of `new`; a person may say the same thing twice."""
    return new.origin in (MemoryOrigin.AGENT, MemoryOrigin.DISTILLED) and not new.supersedes


def check_supersedable(memory: Memory) -> None:
    """Raise `Conflict` if `memory` can no longer be superseded."""
    if memory.status in (MemoryStatus.SUPERSEDED, MemoryStatus.RETRACTED):
        by = f" by `{memory.superseded_by}`" if memory.superseded_by else ""
        raise Conflict(f"memory `{memory.id}` is {memory.status}{by}: name the current one", id=memory.id)


def is_current(memory: Memory, *, now: Instant) -> bool:
    """Return whether a memory is active and has not expired."""
    expired = memory.expires_at is not None and memory.expires_at <= now
    return memory.status is MemoryStatus.ACTIVE and not expired


_NOT_IN_WORDS: Final = re.compile(r"[\W_]+")


def memory_digest(text: str) -> str:
    """Return a digest that texts share if they differ only in case, width, spaces and punctuation.

    Numbers, dates and negations are words, so texts that differ in one are never equal.
    """
    folded = normalize_text(text).casefold()
    words = _NOT_IN_WORDS.sub(" ", folded).strip()
    return sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def fold_label(label: str) -> str:
    """Return the form by which labels of entities are compared."""
    return " ".join(normalize_text(label).casefold().split())


def _check_words(text: str, title: str | None, category: str | None, tags: Sequence[str]) -> None:
    if not check_text(text, field="text", max_chars=MAX_MEMORY_CHARS).strip():
        raise Invalid("`text` is empty: state what to remember", field="text")
    if title is not None:
        check_text(title, field="title", max_chars=MAX_MEMORY_TITLE_CHARS)
    if category is not None:
        check_text(category, field="category", max_chars=MAX_CATEGORY_CHARS)
    if len(tags) > MAX_MEMORY_TAGS:
        raise Invalid(f"a memory may have at most {MAX_MEMORY_TAGS} tags", field="tags")
    for tag in tags:
        if not check_text(tag, field="tags", max_chars=MAX_TAG_CHARS).strip():
            raise Invalid("a tag is empty", field="tags")


def _check_counts(new: NewMemory) -> None:
    for name, items, limit in (
        ("sources", new.sources, MAX_MEMORY_SOURCES),
        ("entities", new.entities, MAX_MEMORY_ENTITIES),
        ("relations", new.relations, MAX_MEMORY_RELATIONS),
        ("taint", new.taint, MAX_TAINT_NAMES),
    ):
        if len(items) > limit:
            raise Invalid(f"a memory may have at most {limit} {name}", field=name)


def _check_graph(new: NewMemory) -> None:
    labels = [entity.label for entity in new.entities]
    labels += [label for relation in new.relations for label in (relation.subject, relation.object)]
    for label in labels:
        if not fold_label(check_text(label, field="entities", max_chars=MAX_ENTITY_CHARS)):
            raise Invalid("the label of an entity is empty", field="entities")
    for predicate in [entity.role for entity in new.entities] + [relation.predicate for relation in new.relations]:
        if not check_text(predicate, field="relations", max_chars=MAX_PREDICATE_CHARS).strip():
            raise Invalid("a predicate is empty", field="relations")
    for entity in new.entities:
        check_text(entity.kind, field="entities", max_chars=MAX_CATEGORY_CHARS)
    for relation in new.relations:
        _check_importance(relation.weight, field="relations.weight")


def _check_importance(value: float, *, field: str = "importance") -> None:
    if not 0 <= value <= 1:
        raise Invalid(f"`{field}` must be between 0 and 1", field=field)


def _check_times(
    occurred_from: Instant | None,
    occurred_until: Instant | None,
    valid_from: Instant | None,
    valid_until: Instant | None,
    expires_at: Instant | None,
) -> None:
    for name, start, end in (("occurred", occurred_from, occurred_until), ("valid", valid_from, valid_until)):
        begin = None if start is None else millis(start, field=f"{name}_from")
        until = None if end is None else millis(end, field=f"{name}_until")
        if begin is not None and until is not None and until < begin:
            raise Invalid(f"`{name}_until` is before `{name}_from`", field=f"{name}_until")
    if expires_at is not None:
        millis(expires_at, field="expires_at")
