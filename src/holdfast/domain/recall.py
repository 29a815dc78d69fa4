"""Recall: a query over what a space has said, and hits that say why they were found."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.domain.errors import Invalid
from holdfast.domain.ids import MemoryId, MessageId, RunId, ThreadId
from holdfast.domain.instant import Instant
from holdfast.domain.message import Role
from holdfast.domain.validation import check_text

MAX_QUERY_CHARS: Final = 1000
MAX_HITS: Final = 100
DEFAULT_HITS: Final = 10
BM25_K: Final = 1.2
BM25_B: Final = 0.5
"""How much the length of a passage counts in BM25; messages are short, so less than the usual 0.75."""
MAX_EXCERPT_CHARS: Final = 1_000
"""Characters of a text that a prompt quotes."""
MAX_NEIGHBOUR_CHARS: Final = 300
"""Characters that a prompt quotes of a message before or after one that was found."""
MEMORY_TOOL_NAMES: Final = frozenset(
    [
        "semantic_search_memory",
        "graph_search_memory",
        "provenance_lookup",
        "timeline_search",
        "memory_read",
        "memory_write",
        "memory_search",
        "remember",
        "recall",
    ]
)
"""Tools whose results are not indexed: what was recalled must not be recalled as if it had been said again."""


class RecallKind(StrEnum):
    """Origin of an item of the index."""

    MESSAGE = "message"
    MEMORY = "memory"
    FILE = "file"


class RecallMode(StrEnum):
    """Channels that a search may use."""

    ALL = "all"
    KEYWORD = "keyword"
    SEMANTIC = "semantic"


class RecallQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A search in one space. Filters narrow it; a filter that is left out matches everything."""

    text: str
    mode: RecallMode = RecallMode.ALL
    kinds: frozenset[RecallKind] = frozenset(RecallKind)
    limit: int = DEFAULT_HITS
    author: str | None = None
    """Author who asks: `I` and `my` in the query mean this author's messages."""
    thread: ThreadId | None = None
    roles: frozenset[Role] | None = None
    since: Instant | None = None
    until: Instant | None = None
    revised: bool = False
    """Whether messages that a later one revises are found too."""
    inactive: bool = False
    """Whether memories that are proposed, superseded, retracted or expired are found too."""


class ScoreParts(msgspec.Struct, frozen=True, kw_only=True):
    """Parts that add up to the score of a hit."""

    lexical: float = 0.0
    """Weighted BM25, relative to the best of the query."""
    vector: float = 0.0
    """Weighted cosine, relative to the best of the query."""
    tokens: float = 0.0
    """Weighted best match of each query token with a token of the text (MaxSim)."""
    neighbours: float = 0.0
    """Share of the scores of the messages before and after it."""
    speaker: float = 0.0
    """Bonus for the speaker whom the query names."""
    memory: float = 0.0
    """Share of the scores of memories that came from this message, or the weight of a memory's importance."""
    cosine: float | None = None
    """Cosine with the query before scaling; `None` without vectors."""


class RecallHit(msgspec.Struct, frozen=True, kw_only=True):
    """One item that was found, with its best passage."""

    kind: RecallKind
    id: str
    """Id of the message or memory, or the path of the file."""
    thread_id: ThreadId | None
    run_id: RunId | None = None
    sequence: int | None
    """Sequence of the message in its thread; line of a file."""
    role: Role | None
    speaker: str | None
    text: str
    """The passage that matched best."""
    start: int = 0
    """Offset of the passage in the text of the item."""
    at: Instant
    score: float
    parts: ScoreParts
    status: str | None = None
    """Status of a memory."""
    taint: Sequence[str] = ()
    """Untrusted sources that the author of a message had read."""
    superseded_by: Sequence[MemoryId] = ()
    """The memories that replaced all that a message stated."""


class RecallResult(msgspec.Struct, frozen=True, kw_only=True):
    """Hits, best first, and what the search could use."""

    hits: list[RecallHit]
    confidence: float = 0.0
    """Share of the query that the best lexical hit covers, from 0 to 1."""
    embedder: str | None = None
    """Embedder whose vectors were compared; `None` if the search was lexical."""
    notice: str | None = None
    """Why the search was lexical, if it was meant to use vectors."""


class RecallStatus(msgspec.Struct, frozen=True, kw_only=True):
    """State of the index of a space."""

    items: int
    """Passages in the index."""
    pending: int
    """Messages that are read from the log because they are not in the index yet."""
    analyser: str
    embedder: str | None
    rebuild: float | None = None
    """Share of a rebuild that is done, from 0 to 1; `None` if there is none."""
    notice: str | None = None


class RecallDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A memory or memory file to index, with what ranking needs to know about it."""

    kind: RecallKind
    id: str
    text: str
    at: Instant
    thread_id: ThreadId | None = None
    sources: list[tuple[ThreadId, MessageId]] = []
    """Messages it came from, which it lifts."""
    speaker: str | None = None
    importance: float = 0.5
    status: str = "active"


def check_recall_query(query: RecallQuery) -> None:
    """Raise if `query` can never find anything."""
    check_text(query.text, field="q", max_chars=MAX_QUERY_CHARS)
    if not query.text.strip():
        raise Invalid("`q` is empty: name what to search for", field="q")
    if not 1 <= query.limit <= MAX_HITS:
        raise Invalid(f"`limit` must be between 1 and {MAX_HITS}", field="limit")


def one_line(text: str) -> str:
    """Return a text as a line of a prompt quotes it."""
    words = " ".join(text.split())
    return words if len(words) <= MAX_EXCERPT_CHARS else f"{words[: MAX_EXCERPT_CHARS - 1]}…"
