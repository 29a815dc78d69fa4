"""Routes for search: memories, threads, the messages of a thread, and everything."""

from typing import Annotated

from litestar import get
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, QueryParameter

from holdfast.api.parameters import space_paths
from holdfast.control.recall import RecallControl, SearchResults, SearchTarget, ThreadResults
from holdfast.control.search import FoundKind, FoundList, SearchControl
from holdfast.domain.ids import SpaceId, ThreadId
from holdfast.domain.memory import MemoryType
from holdfast.domain.recall import DEFAULT_HITS, MAX_HITS, MAX_QUERY_CHARS, RecallMode, RecallQuery
from holdfast.domain.space import DEFAULT_SPACE

_Text = Annotated[str, QueryParameter(name="q", description=f"What to search for, up to {MAX_QUERY_CHARS} characters.")]
_Mode = Annotated[
    RecallMode, QueryParameter(name="type", description="By words (`keyword`), by meaning (`semantic`), or by both.")
]
_Limit = Annotated[int, QueryParameter(ge=1, le=MAX_HITS, description="The maximum number of results.")]
_Offset = Annotated[int, QueryParameter(ge=0, le=MAX_HITS - 1, description="How many results to skip.")]
_Explain = Annotated[bool, QueryParameter(description="Whether each result has the parts of its score.")]


@get(space_paths("/memories/search"), summary="Search memories and messages", tags=["memories"])
async def search_memories(
    recall: NamedDependency[RecallControl],
    text: _Text,
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    memory_type: Annotated[
        MemoryType | None, QueryParameter(name="type", description="Only memories of this type.")
    ] = None,
    target: FromQuery[SearchTarget] = SearchTarget.BOTH,
    inactive: Annotated[
        bool, QueryParameter(description="Whether proposed, superseded, retracted and expired memories are found too.")
    ] = False,
    limit: _Limit = DEFAULT_HITS,
    offset: _Offset = 0,
    explain: _Explain = False,
) -> SearchResults:
    """Return what the space has said and kept about something, best first.

    `target` is `raw` for messages, `abstract` for memories, or `both`, with memory files. Highlights are pairs of start
    and end in the text of an excerpt.
    """
    query = RecallQuery(text=text, limit=limit, inactive=inactive)
    return await recall.memories(space_id, query, target=target, type=memory_type, offset=offset, explain=explain)


@get(space_paths("/threads/search"), summary="Search threads", tags=["threads"])
async def search_threads(
    recall: NamedDependency[RecallControl],
    text: _Text,
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    mode: _Mode = RecallMode.ALL,
    limit: _Limit = DEFAULT_HITS,
    offset: _Offset = 0,
) -> ThreadResults:
    """Return threads by what was said in them, by their titles and by their outlines, best first.

    Each has an excerpt of its title, summary and key points, and its best messages.
    """
    return await recall.threads(space_id, RecallQuery(text=text, mode=mode, limit=limit), offset=offset)


@get(
    space_paths("/threads/{thread_id:str}/messages/search"), summary="Search the messages of a thread", tags=["threads"]
)
async def search_messages(
    recall: NamedDependency[RecallControl],
    thread_id: FromPath[ThreadId],
    text: _Text,
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    mode: _Mode = RecallMode.ALL,
    limit: _Limit = DEFAULT_HITS,
    offset: _Offset = 0,
    explain: _Explain = False,
) -> SearchResults:
    """Return messages of one thread, on any of its branches, best first."""
    query = RecallQuery(text=text, mode=mode, limit=limit)
    return await recall.messages(space_id, thread_id, query, offset=offset, explain=explain)


@get(space_paths("/search"), summary="Search everything", tags=["search"])
async def search_everything(
    search: NamedDependency[SearchControl],
    text: _Text,
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    kind: Annotated[
        list[FoundKind] | None, QueryParameter(description="Only things of this kind; repeat it for several kinds.")
    ] = None,
    limit: Annotated[int, QueryParameter(ge=1, le=MAX_HITS, description="The maximum number of each kind.")] = 10,
) -> FoundList:
    """Return what has this id, has these words in its title or name, or says them.

    Titles are of threads and artifacts, names and descriptions of agents, and the words of messages and memories.
    """
    return await search.find(space_id, text, kinds=frozenset(kind or FoundKind), limit=limit)


ROUTES = [search_memories, search_threads, search_messages, search_everything]
