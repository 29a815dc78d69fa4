"""Recall into the prompt: once per user message, within a token budget.

    standing instructions of people        always, trusted
    what this person asked for before      in that person's words: a quotation from the log, no instruction of the space
    MEMORY.md of the space and the agent   their first lines        ┐
    known: memories                        in order of time         │ fenced as untrusted
    said before: excerpts by thread        with their neighbours    ┘

What was recalled is a value of the run: it stays the same for every model call until the next user message, so that
providers can cache the prompt, and a worker that takes over sends the same. Text that a tainted run wrote is left out:
an agent that searches for it finds it, and is tainted then.
"""

from collections.abc import Container, Iterable, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from holdfast.agent.run_context import RunContext, mark_tainted
from holdfast.domain.agent import MemorySettings, RecallScope
from holdfast.domain.content import plain_text
from holdfast.domain.context import (
    InjectedItem,
    InjectionKind,
    RecalledMemory,
)
from holdfast.domain.ids import MemoryId
from holdfast.domain.instant import Instant
from holdfast.domain.memory import (
    Memory,
    MemoryOrigin,
    MemorySource,
    MemoryStatus,
    MemoryType,
    MessageNode,
    NewMemory,
    memory_digest,
)
from holdfast.domain.memory_file import MEMORY_FILE, memory_path
from holdfast.domain.message import Message, Role
from holdfast.domain.recall import (
    MAX_EXCERPT_CHARS,
    MAX_NEIGHBOUR_CHARS,
    MAX_QUERY_CHARS,
    RecallHit,
    RecallKind,
    RecallQuery,
    RecallResult,
    one_line,
)
from holdfast.domain.run import Mode
from holdfast.domain.untrusted import untrusted_source
from holdfast.memory.dates import find_dates, find_occurrence
from holdfast.memory.rules import StatementKind, find_entities, find_statements
from holdfast.ports.model import TokenCounter
from holdfast.tools.builtin.memory import taint_of

MAX_RECALL_HITS: Final = 30
"""Hits that are considered for a prompt."""
MIN_CONFIDENCE: Final = 0.15
MIN_COSINE: Final = 0.35
"""A hit is recalled if the query is covered by more than the first, or the meaning is nearer than the second."""
MAX_FILE_LINES: Final = 200
MAX_FILE_SHARE: Final = 0.25
"""Share of the budget that one memory file may take."""
MAX_NEIGHBOURED: Final = 8
"""Excerpts whose neighbours are added; the best."""

_RULE_MODES: Final = frozenset({Mode.CHAT, Mode.TASK})
_MEMORY_TYPES: Final = {
    StatementKind.STANDING: MemoryType.PROCEDURAL,
    StatementKind.PREFERENCE: MemoryType.SEMANTIC,
    StatementKind.EVENT: MemoryType.EPISODE,
}


async def refresh_memory(ctx: RunContext) -> None:
    """Recall for the latest user message, unless that was done, and keep what rules find in it."""
    settings, before = ctx.agent.memory, ctx.recalled
    message = _latest_user_message(ctx)
    if settings is None or message is None or message.id == before.message_id:
        return
    ctx.writer.draft.memories += await _statements(ctx, message)
    after = RecalledMemory(message_id=message.id, undistilled=before.undistilled)
    if settings.recall:
        after = await _Recollection(ctx, settings, message).collect(after)
    ctx.set_recalled(after)


def _latest_user_message(ctx: RunContext) -> Message | None:
    conversation = ctx.conversation
    of_user = (message for message in reversed(conversation.messages) if message.role is Role.USER)
    return next(of_user, conversation.goal)


async def _statements(ctx: RunContext, message: Message) -> list[NewMemory]:
    """Return what rules find in a person's message, to propose it; the words are that person's own."""
    if ctx.spawned or ctx.run.mode not in _RULE_MODES or untrusted_source(message) is not None:
        return []
    kept = []
    for number, found in enumerate(find_statements(plain_text(message.content), at=message.created_at)):
        if any(
            _covers(each, found.kind, by=message.created_by) for each in await ctx.memory.equal(ctx.lease, found.text)
        ):
            continue
        occurred_from, occurred_until = None, None
        if found.kind is StatementKind.EVENT:
            occurred_from, occurred_until = find_occurrence(found.text, at=message.created_at)
        source = MemorySource(message_id=message.id, thread_id=message.thread_id, start=found.start, end=found.end)
        kept.append(
            NewMemory(
                key=f"rule.{message.thread_id}.{message.id}.{number}",
                type=_MEMORY_TYPES[found.kind],
                text=found.text,
                category=str(found.kind),
                standing=found.kind is StatementKind.STANDING,
                occurred_from=occurred_from,
                occurred_until=occurred_until,
                origin=MemoryOrigin.PERSON,
                author=message.created_by,
                agent=ctx.agent.name,
                thread_id=message.thread_id,
                run_id=message.run_id,
                sources=[source],
                entities=find_entities(found.text),
                proposed=True,
            )
        )
    return kept


def _covers(known: Memory, kind: StatementKind, *, by: str | None) -> bool:
    """Return whether an equal memory makes a statement superfluous: the same words of two people are two statements."""
    return known.author == by or (kind is StatementKind.STANDING and known.status is MemoryStatus.ACTIVE)


class _Line(NamedTuple):
    """A line of the prompt, and what it shows."""

    text: str
    item: InjectedItem
    heading: str = ""
    sequence: int | None = None


class _Recollection:
    """Collects what fits into the budget of one user message."""

    def __init__(self, ctx: RunContext, settings: MemorySettings, message: Message) -> None:
        self._ctx = ctx
        self._settings = settings
        self._message = message
        self._budget = _Budget(ctx.tokens, settings.tokens)
        self._notice: str | None = None

    async def collect(self, after: RecalledMemory) -> RecalledMemory:
        """Return the recalled text of each part, with what it consists of."""
        standing = await self._ctx.memory.standing(self._ctx.lease)
        active = [each for each in standing if each.status is MemoryStatus.ACTIVE]
        people = self._standing_lines([each for each in active if each.origin is MemoryOrigin.PERSON])
        requests = self._request_lines([each for each in standing if each.status is MemoryStatus.PROPOSED])
        files = await self._file_lines()
        others = [each for each in active if each.origin is not MemoryOrigin.PERSON]
        known, said = await self._found(others)
        blocks = [
            *(line.text for line in files),
            _block("Known:", known),
            _block("Said before:", said),
        ]
        return replace(
            after,
            standing="\n".join(line.text for line in people),
            requests="\n".join(line.text for line in requests),
            recalled="\n\n".join(block for block in blocks if block),
            items=[line.item for line in (*people, *requests, *files, *known, *said)],
            notice=self._notice,
        )

    def _standing_lines(self, memories: Sequence[Memory]) -> list[_Line]:
        """Return the newest instructions that fit, oldest first."""
        lines = []
        for memory in memories:
            author = memory.author or "a person"
            text = f"- {one_line(memory.text)} ({memory.id} · {_when(memory)} · {author})"
            if (tokens := self._budget.take(text)) is not None:
                lines.append(_Line(text, _memory_item(memory, InjectionKind.STANDING, tokens)))
        return lines[::-1]

    def _request_lines(self, proposals: Sequence[Memory]) -> list[_Line]:
        """Return the newest sentences that rules proposed and that fit, as quotations of the messages, oldest first.

        A proposal is not recalled before a person accepts it. The message that it quotes is this person's own.
        """
        lines = []
        for proposal in proposals:
            source = proposal.sources[0]
            text = f"- {one_line(proposal.text)} ({source.message_id} · {_when(proposal)})"
            if (tokens := self._budget.take(text)) is not None:
                item = InjectedItem(
                    kind=InjectionKind.REQUEST, id=source.message_id, at=proposal.created_at, tokens=tokens
                )
                lines.append(_Line(text, replace(item, thread_id=source.thread_id)))
        return lines[::-1]

    async def _file_lines(self) -> list[_Line]:
        scopes, agent = self._settings.scopes, self._ctx.agent.name
        owners = [None] * (RecallScope.SPACE in scopes) + [agent] * (RecallScope.AGENT in scopes)
        paths = [memory_path(MEMORY_FILE, agent=owner) for owner in owners]
        lines = []
        for file in await self._ctx.memory.files(self._ctx.lease, paths):
            text = self._budget.cut(file.text.splitlines()[:MAX_FILE_LINES], share=MAX_FILE_SHARE)
            if text and (tokens := self._budget.take(text)) is not None:
                shown = f"{file.path}:\n{text}"
                lines.append(_Line(shown, InjectedItem(kind=InjectionKind.FILE, id=file.path, tokens=tokens)))
        return lines

    async def _found(self, standing: Sequence[Memory]) -> tuple[list[_Line], list[_Line]]:
        """Return the memories and the excerpts that the search found and that fit, each in order of time."""
        result = await self._search()
        hits = [hit for hit in result.hits if _above_floor(hit, result)]
        memories = await self._memories(hits)
        in_prompt = {message.id for message in self._ctx.conversation.messages} | {self._message.id}
        chosen: dict[str, _Line] = {}
        for each in standing:
            self._add(chosen, each.text, _memory_line(each), _memory_item(each, InjectionKind.STANDING, 0))
        for hit in hits:
            if hit.kind is RecallKind.MEMORY and (memory := memories.get(MemoryId(hit.id))) is not None:
                item = _memory_item(memory, InjectionKind.MEMORY, 0)
                self._add(chosen, memory.text, _memory_line(memory), _scored(item, hit))
            elif hit.kind is RecallKind.MESSAGE and self._may_quote(hit, in_prompt):
                item = InjectedItem(kind=InjectionKind.MESSAGE, id=hit.id, at=hit.at, thread_id=hit.thread_id)
                line = _said_line(hit, hit.text, speaker=hit.speaker if hit.role is Role.USER else None)
                heading = hit.thread_id or ""
                self._add(chosen, hit.text, line, _scored(item, hit), heading=heading, sequence=hit.sequence)
        await self._add_neighbours(chosen)
        lines = sorted(chosen.values(), key=lambda line: line.item.at or "")
        known = [line for line in lines if not line.heading]
        shown = {line.item.id for line in known}
        mark_tainted(self._ctx, taint_of(memory for memory in [*memories.values(), *standing] if memory.id in shown))
        said = [line for line in lines if line.heading]
        threads = list(dict.fromkeys(line.heading for line in said))
        return known, sorted(said, key=lambda line: threads.index(line.heading))

    def _add(
        self,
        chosen: dict[str, _Line],
        text: str,
        shown: str,
        item: InjectedItem,
        *,
        heading: str = "",
        sequence: int | None = None,
    ) -> None:
        """Add a line that fits; a text that is there already is counted."""
        digest = memory_digest(text)
        if (same := chosen.get(digest)) is not None:
            chosen[digest] = same._replace(item=replace(same.item, count=same.item.count + 1))
        elif (tokens := self._budget.take(shown)) is not None:
            chosen[digest] = _Line(shown, replace(item, tokens=tokens), heading, sequence)

    async def _add_neighbours(self, chosen: dict[str, _Line]) -> None:
        """Add what was said just before and after the best excerpts, if there is room after all that was found."""
        found = [line for line in chosen.values() if line.item.kind is InjectionKind.MESSAGE][:MAX_NEIGHBOURED]
        names = [
            (line.item.thread_id, line.sequence) for line in found if line.item.thread_id and line.sequence is not None
        ]
        shown = {line.item.id for line in chosen.values()} | {self._message.id}
        if self._ctx.lease.thread_id in {thread for thread, _ in names}:
            shown |= {message.id for message in self._ctx.conversation.messages}
        for node in await self._ctx.memory.neighbours(self._ctx.lease, names):
            if node.id in shown or node.taint or not node.text.strip():
                continue
            item = InjectedItem(kind=InjectionKind.NEIGHBOUR, id=node.id, at=node.at, thread_id=node.thread_id)
            text = node.text[:MAX_NEIGHBOUR_CHARS]
            if memory_digest(text) not in chosen:
                line = _said_line(node, text, speaker=node.speaker)
                self._add(chosen, text, line, item, heading=node.thread_id)

    async def _search(self) -> RecallResult:
        query = _query_text(plain_text(self._message.content))
        if not query:
            return RecallResult(hits=[])
        only_thread = set(self._settings.scopes) == {RecallScope.THREAD}
        result = await self._ctx.memory.recall(
            self._ctx.lease,
            RecallQuery(
                text=query,
                kinds=frozenset({RecallKind.MESSAGE, RecallKind.MEMORY}),
                limit=MAX_RECALL_HITS,
                author=self._message.created_by,
                thread=self._ctx.lease.thread_id if only_thread else None,
            ),
        )
        self._notice = result.notice
        return result

    async def _memories(self, hits: Sequence[RecallHit]) -> dict[MemoryId, Memory]:
        ids = [MemoryId(hit.id) for hit in hits if hit.kind is RecallKind.MEMORY]
        found = await self._ctx.memory.memories(self._ctx.lease, ids)
        return {memory.id: memory for memory in found if not memory.standing and self._in_scope(memory)}

    def _may_quote(self, hit: RecallHit, in_prompt: Container[str]) -> bool:
        """Return whether to quote a message: not one that the model sees anyway, nor one of a tainted run."""
        scopes, here = self._settings.scopes, hit.thread_id == self._ctx.lease.thread_id
        in_scope = RecallScope.SPACE in scopes or (RecallScope.THREAD in scopes and here)
        return in_scope and not hit.taint and not (here and hit.id in in_prompt)

    def _in_scope(self, memory: Memory) -> bool:
        scopes = self._settings.scopes
        return (
            RecallScope.SPACE in scopes
            or (RecallScope.AGENT in scopes and memory.agent == self._ctx.agent.name)
            or (RecallScope.THREAD in scopes and memory.thread_id == self._ctx.lease.thread_id)
        )


class _Budget:
    """Tokens that are left for memory."""

    def __init__(self, tokens: TokenCounter, limit: int) -> None:
        self._tokens = tokens
        self._limit = limit
        self._left = limit

    def take(self, text: str) -> int | None:
        """Return the tokens of `text` if it fits, and count them; what does not fit is skipped."""
        tokens = self._tokens.count(text)
        if tokens > self._left:
            return None
        self._left -= tokens
        return tokens

    def cut(self, lines: Sequence[str], *, share: float) -> str:
        """Return the first lines that fit into a share of the limit."""
        room, kept = min(self._limit * share, self._left), []
        for line in lines:
            room -= self._tokens.count(line) + 1
            if room < 0:
                break
            kept.append(line)
        return "\n".join(kept).strip()


def _above_floor(hit: RecallHit, result: RecallResult) -> bool:
    cosine = hit.parts.cosine
    return result.confidence >= MIN_CONFIDENCE or (cosine is not None and cosine >= MIN_COSINE)


def _query_text(text: str) -> str:
    """Return the text to search for: of a long message its beginning and its end."""
    clean = " ".join(text.encode("utf-8", "replace").decode().replace("\x00", " ").split())
    half = MAX_QUERY_CHARS // 2
    return clean if len(clean) <= MAX_QUERY_CHARS else f"{clean[: half - 1]} {clean[-half:]}"


def _memory_item(memory: Memory, kind: InjectionKind, tokens: int) -> InjectedItem:
    return InjectedItem(kind=kind, id=memory.id, at=memory.occurred_from or memory.created_at, tokens=tokens)


def _scored(item: InjectedItem, hit: RecallHit) -> InjectedItem:
    return replace(item, score=round(hit.score, 4), parts=hit.parts)


def _memory_line(memory: Memory) -> str:
    return f"- [{memory.id} · {_when(memory)} · {memory.author or memory.origin}] {one_line(memory.text)}"


def _said_line(said: RecallHit | MessageNode, text: str, *, speaker: str | None) -> str:
    superseded = f" (superseded by {', '.join(said.superseded_by)})" if said.superseded_by else ""
    about = f"{said.id} · {said.at[:10]} · {speaker or said.role}"
    return f"- [{about}] {one_line(text)}{_dates_note(text, at=said.at)}{superseded}"


def _dates_note(text: str, *, at: Instant) -> str:
    """Return what `yesterday` and the like meant when they were said."""
    notes = []
    for found in find_dates(text[:MAX_EXCERPT_CHARS], at=at)[:2]:
        words = text[found.start : found.end]
        last = "" if found.first == found.last else f" to {found.last}"
        if not any(char.isdigit() for char in words) or "ago" in words or "前" in words:
            notes.append(f"{words} = {found.first}{last}")
    return f" ({'; '.join(notes)})" if notes else ""


def _when(memory: Memory) -> str:
    return (memory.occurred_from or memory.created_at)[:10]


def _block(title: str, lines: Iterable[_Line]) -> str:
    """Return the lines below a title; those of a thread stand below its id."""
    shown, heading = [title], ""
    for line in lines:
        if line.heading and line.heading != heading:
            heading = line.heading
            shown.append(f"{heading}:")
        shown.append(line.text)
    return "\n".join(shown) if len(shown) > 1 else ""
