"""Search over everything of a space: ids as they are, titles, names, messages and memories."""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from holdfast.control.recall import RecallControl, SearchTarget
from holdfast.control.recall import SearchHit as RecallSearchHit
from holdfast.domain.artifact import MAX_TITLE_CHARS, Artifact
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import ArtifactId, InterruptId, MemoryId, RunId, SpaceId, ThreadId, is_client_id
from holdfast.domain.instant import Instant
from holdfast.domain.interrupt import Interrupt
from holdfast.domain.memory import Memory
from holdfast.domain.recall import RecallMode, RecallQuery, check_recall_query
from holdfast.domain.run import Run
from holdfast.domain.task_ids import run_id_of
from holdfast.domain.thread import Thread, ThreadFilter, ThreadStatus
from holdfast.memory.excerpts import Excerpt, excerpt
from holdfast.ports.artifacts import Artifacts
from holdfast.ports.memory import Memories
from holdfast.ports.queue import Interrupts
from holdfast.ports.runs import Runs, Threads
from holdfast.ports.spaces import Spaces
from holdfast.ports.workspace import Agents

MAX_SHOWN_CHARS: Final = 120
"""Characters of a memory without a title that stand for it."""
_Found = TypeVar("_Found")


class FoundKind(StrEnum):
    """Kind of a thing that was found."""

    RUN = "run"
    THREAD = "thread"
    ARTIFACT = "artifact"
    MEMORY = "memory"
    INTERRUPT = "interrupt"
    AGENT = "agent"
    MESSAGE = "message"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was found, and where it is."""

    kind: FoundKind
    id: str
    """The name of an agent."""
    title: str
    """Its own, or else that of its thread."""
    excerpt: Excerpt | None = None
    """The words that match, if they are not in the title."""
    thread_id: ThreadId | None = None
    run_id: RunId | None = None
    sequence: int | None = None
    """Of a message."""
    at: Instant | None = None


class FoundList(msgspec.Struct, frozen=True, kw_only=True):
    """What was found: a thing of that id first, then by kind, the best or newest of a kind first."""

    items: list[Found]


class SearchControl:
    """Queries over everything of a space."""

    def __init__(
        self,
        *,
        recall: RecallControl,
        spaces: Spaces,
        threads: Threads,
        runs: Runs,
        artifacts: Artifacts,
        memories: Memories,
        interrupts: Interrupts,
        agents: Agents,
    ) -> None:
        self._recall = recall
        self._spaces = spaces
        self._threads = threads
        self._runs = runs
        self._artifacts = artifacts
        self._memories = memories
        self._interrupts = interrupts
        self._agents = agents

    async def find(self, space: SpaceId, text: str, *, kinds: frozenset[FoundKind], limit: int) -> FoundList:
        """Return what has this id, title or name, or says these words; at most `limit` of each kind."""
        query = RecallQuery(text=text.strip(), mode=RecallMode.KEYWORD, limit=limit)
        check_recall_query(query)
        await self._spaces.get(space)
        found = await self._by_id(space, query.text, kinds) if is_client_id(query.text) else []
        part = query.text[:MAX_TITLE_CHARS]
        if FoundKind.THREAD in kinds:
            threads = await self._threads.page(space, where=ThreadFilter(title=part), limit=limit)
            found += filter(None, map(_of_thread, threads.items))
        if FoundKind.AGENT in kinds:
            found += (await self._agents_with(space, part))[:limit]
        if FoundKind.ARTIFACT in kinds:
            artifacts = await self._artifacts.page(space, title=part, limit=limit)
            found += map(_of_artifact, artifacts.items)
        if FoundKind.MESSAGE in kinds:
            found += await self._messages(space, query)
        if FoundKind.MEMORY in kinds:
            hits = await self._recall.memories(space, query, target=SearchTarget.ABSTRACT)
            found += [_of_memory(hit.memory, hit.excerpt) for hit in hits.results if hit.memory is not None]
        return FoundList(items=list({(each.kind, each.id): each for each in reversed(found)}.values())[::-1])

    async def _by_id(self, space: SpaceId, name: str, kinds: frozenset[FoundKind]) -> list[Found]:
        """Return the things of this id, which a client may have chosen, so that it tells no kind."""
        look: dict[FoundKind, Callable[[], Awaitable[Found | None]]] = {
            FoundKind.RUN: lambda: _maybe(self._runs.get(space, run_id_of(name)), _of_run),
            FoundKind.THREAD: lambda: _maybe(self._threads.get(space, ThreadId(name)), _of_thread),
            FoundKind.ARTIFACT: lambda: _maybe(self._artifacts.get(space, ArtifactId(name)), _of_artifact),
            FoundKind.MEMORY: lambda: _maybe(self._memories.get(space, MemoryId(name)), _of_memory),
            FoundKind.INTERRUPT: lambda: _maybe(self._interrupts.get(space, InterruptId(name)), _of_interrupt),
        }
        found = [await find() for kind, find in look.items() if kind in kinds]
        return [each for each in found if each is not None]

    async def _agents_with(self, space: SpaceId, part: str) -> list[Found]:
        word = part.casefold()
        return [
            Found(
                kind=FoundKind.AGENT,
                id=agent.name,
                title=agent.name,
                excerpt=excerpt(agent.description, part) if word not in agent.name.casefold() else None,
            )
            for agent in await self._agents.all_of_space(space)
            if word in agent.name.casefold() or word in agent.description.casefold()
        ]

    async def _messages(self, space: SpaceId, query: RecallQuery) -> list[Found]:
        hits = await self._recall.memories(space, query, target=SearchTarget.RAW)
        titles = {
            name: (await self._threads.get(space, name)).title or name
            for name in dict.fromkeys(hit.thread_id for hit in hits.results)
            if name is not None
        }
        return [_of_message(hit, titles[hit.thread_id]) for hit in hits.results if hit.thread_id is not None]


async def _maybe(found: Awaitable[_Found], view: Callable[[_Found], Found | None]) -> Found | None:
    try:
        return view(await found)
    except NotFound:
        return None


def _of_thread(thread: Thread) -> Found | None:
    if thread.status is ThreadStatus.DELETED:
        return None
    return Found(
        kind=FoundKind.THREAD,
        id=thread.id,
        title=thread.title or thread.id,
        thread_id=thread.id,
        at=thread.last_run_at or thread.created_at,
    )


def _of_run(run: Run) -> Found:
    return Found(kind=FoundKind.RUN, id=run.id, title=run.id, thread_id=run.thread_id, run_id=run.id, at=run.created_at)


def _of_artifact(artifact: Artifact) -> Found:
    return Found(
        kind=FoundKind.ARTIFACT, id=artifact.id, title=artifact.title, run_id=artifact.run_id, at=artifact.created_at
    )


def _of_memory(memory: Memory, matched: Excerpt | None = None) -> Found:
    return Found(
        kind=FoundKind.MEMORY,
        id=memory.id,
        title=memory.title or memory.text[:MAX_SHOWN_CHARS],
        excerpt=matched,
        at=memory.created_at,
    )


def _of_interrupt(interrupt: Interrupt) -> Found:
    return Found(
        kind=FoundKind.INTERRUPT,
        id=interrupt.id,
        title=interrupt.title or interrupt.thread_id,
        thread_id=interrupt.thread_id,
        run_id=interrupt.run_id,
        at=interrupt.created_at,
    )


def _of_message(hit: RecallSearchHit, title: str) -> Found:
    return Found(
        kind=FoundKind.MESSAGE,
        id=hit.id,
        title=title,
        excerpt=hit.excerpt,
        thread_id=hit.thread_id,
        run_id=hit.run_id,
        sequence=hit.sequence,
        at=hit.at,
    )
