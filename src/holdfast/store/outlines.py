"""Outlines of threads in SQL."""

from collections.abc import Sequence
from typing import Final

from holdfast.domain.distillation import is_distiller
from holdfast.domain.ids import SpaceId
from holdfast.domain.limits import Usage
from holdfast.domain.message import Role
from holdfast.domain.outline import SaidText, ThreadOutline, ThreadToOutline
from holdfast.domain.thread import Thread, casefold_title, derive_title
from holdfast.domain.usage import day_of
from holdfast.ports.outlines import MAX_WORDS
from holdfast.ports.recall import RecallSource
from holdfast.store.commit_rows import usage_values
from holdfast.store.encoding import dump_json, load_json
from holdfast.store.recall_sources import message_source
from holdfast.store.spaces import space_key
from holdfast.store.threads import to_thread
from holdfast.store.transaction import Row, SqlPort, Transaction, reads, writes

OUTLINE_AGENT: Final = "_outline"
"""Agent under which the ledger counts the model calls for outlines."""
FIRST_MESSAGES: Final = 20
"""Messages at the start of a thread among which the first of a person is looked for."""
LAST_MESSAGES: Final = 40
LATEST_THREADS: Final = 5_000
"""Threads whose outlines are searched."""
_NO_WORD: Final = "\n\n"
"""What no search text holds."""
_SPOKEN: Final = (Role.USER, Role.ASSISTANT)


class SqlThreadOutlines(SqlPort):
    """Implements `ThreadOutlines`."""

    @reads
    async def pending(self, tx: Transaction, *, limit: int, messages: int) -> list[ThreadToOutline]:
        """Return threads whose outline is behind."""
        return [await _read(tx, row, messages) for row in await tx.all("threads_to_outline", limit=limit)]

    @writes
    async def put(
        self,
        tx: Transaction,
        thread: ThreadToOutline,
        outline: ThreadOutline,
        *,
        model: str | None = None,
        usage: Usage | None = None,
    ) -> bool:
        """Store the outline of a thread, and move its cursor."""
        changed = await tx.one(
            "put_outline",
            thread_key=thread.thread_key,
            version=thread.version,
            through=thread.through,
            old_title=thread.outline.title,
            title=outline.title,
            folded_title=casefold_title(outline.title),
            summary=outline.summary,
            key_points=dump_json(outline.key_points),
            retrieval_index=outline.retrieval_index,
        )
        if model is not None and usage is not None:
            *tokens, cost = usage_values(usage)
            name = (await space_key(tx, thread.space_id), day_of(tx.now), OUTLINE_AGENT, model, "")
            await tx.many("add_to_usage_ledger", [(*name, 1, int(cost is None), *tokens, cost or 0)])
        return changed is not None

    @reads
    async def with_words(
        self, tx: Transaction, space: SpaceId, words: Sequence[str], *, least: int, limit: int
    ) -> list[tuple[Thread, int]]:
        """Return the threads whose outline holds most of the words."""
        key = await space_key(tx, space)
        wanted = [*words[:MAX_WORDS], *[_NO_WORD] * (MAX_WORDS - len(words))]
        rows = await tx.all(
            "threads_with_words",
            space_key=key,
            least=max(least, 1),
            latest=LATEST_THREADS,
            limit=limit,
            **{f"word_{letter}": word for letter, word in zip("abcdef", wanted, strict=True)},
        )
        return [(to_thread(row, space), int(row["words"])) for row in rows]


async def _read(tx: Transaction, row: Row, messages: int) -> ThreadToOutline:
    """Return a thread with what was said on it since its outline."""
    key, after, end = row["thread_key"], row["outlined_sequence"], row["next_sequence"] - 1
    distils = is_distiller(row["agent_type"])
    said, through = await _said(tx, key, after=after, before=end + 1, limit=0 if distils else messages)
    through = end if distils or through is None else through
    start, _ = await _said(tx, key, after=-1, before=end + 1, limit=FIRST_MESSAGES)
    last, _ = await _said(tx, key, after=through - LAST_MESSAGES, before=through + 1, limit=LAST_MESSAGES)
    first = next((each.text for each in start if each.role is Role.USER), None)
    title = row["title"]
    return ThreadToOutline(
        space_id=SpaceId(row["space_id"]),
        thread_id=row["id"],
        thread_key=key,
        version=row["outline_version"],
        through=through,
        more=through < end,
        outline=ThreadOutline(
            title=title,
            summary=row["summary"],
            key_points=load_json(row["key_points"]),
            retrieval_index=row["retrieval_index"],
        ),
        titled=title is not None and (first is None or title != derive_title(first)),
        first=first,
        said=said,
        last=last,
    )


async def _said(
    tx: Transaction, thread_key: int, *, after: int, before: int, limit: int
) -> tuple[list[SaidText], int | None]:
    """Return what was said in a range, and the last sequence that was read, or null if that is the whole range."""
    names = {"thread_key": thread_key, "after": after, "before": before, "limit": limit}
    rows = await tx.all("messages_to_index", **names) if limit else []
    sources = [source for row in rows if (source := await message_source(tx, row)) is not None]
    revised = {key for source in sources for key in source.revises}
    said = [_to_said(source) for source in sources if source.role in _SPOKEN and source.key not in revised]
    return [each for each in said if each.text.strip()], rows[-1]["sequence"] if limit and len(rows) == limit else None


def _to_said(source: RecallSource) -> SaidText:
    assert source.role is not None
    return SaidText(role=source.role, text=source.text, at=source.at)
