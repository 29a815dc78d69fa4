"""Items of the recall index in SQL: a passage with its postings, added and removed together.

Adding and removing lock the row of the index first, then threads: two processes that index the same thread cannot both
move its cursor, and nothing that was read before a removal is added after it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.domain.recall import RecallKind
from holdfast.ports.recall import Passage
from holdfast.store.encoding import dump_json
from holdfast.store.transaction import Row, Transaction


async def lock_indexes(tx: Transaction, space_key: int) -> None:
    """Lock the indexes of a space; to be called before threads and runs are locked."""
    await tx.run("lock_indexes", space_key=space_key)


async def remove_source(tx: Transaction, space_key: int, kind: RecallKind, key: int) -> None:
    """Remove the items of a memory or document from all indexes of its space, which are locked."""
    await remove_items(tx, await tx.all("items_of_source", source_key=key, kind=kind.value, space_key=space_key))
    await tx.run("drop_built_cursor", kind=kind.value, source_key=key)


async def remove_run(tx: Transaction, run_key: int) -> None:
    """Remove the items of a run's messages before the messages go; the indexes of its space are locked."""
    await remove_items(tx, await tx.all("items_of_run", run_key=run_key))


async def remove_thread(tx: Transaction, thread_key: int, *, again: bool) -> None:
    """Remove the items of a thread from the locked indexes; with `again` its messages are indexed from the start."""
    await remove_items(tx, await tx.all("items_of_thread", thread_key=thread_key))
    await tx.run("drop_built_cursor", kind=RecallKind.MESSAGE.value, source_key=thread_key)
    await tx.run("rewind_thread_cursor" if again else "finish_thread_cursor", thread_key=thread_key)
    if again:
        await tx.run("drop_outline", thread_key=thread_key)


async def remove_items(tx: Transaction, rows: Iterable[Row]) -> None:
    """Remove items with their postings, and the terms that no other item holds."""
    by_index: dict[int, list[Row]] = {}
    for row in rows:
        by_index.setdefault(row["index_key"], []).append(row)
    for index_key, items in by_index.items():
        terms = {row["seq"]: unpack_keys(row["terms"]) for row in items}
        await tx.many("drop_postings", [(term, seq) for seq, keys in terms.items() for term in keys])
        fewer = Counter(term for keys in terms.values() for term in keys)
        await tx.many("count_terms_down", sorted(fewer.items()))
        await tx.many("drop_unused_terms", [(term,) for term in sorted(fewer)])
        for row in items:
            await tx.run("drop_item", index_key=index_key, seq=row["seq"])
        length = sum(row["length"] for row in items)
        await tx.run("count_items", index_key=index_key, added=0, items=-len(items), length=-length)


async def add_passages(tx: Transaction, index: Row, passages: Sequence[Passage]) -> None:
    """Store passages with the next numbers of a locked index."""
    if not passages:
        return
    key, first = index["index_key"], index["next_seq"]
    counts = Counter(term for passage in passages for term in passage.counts)
    added = await tx.many("add_terms", [(key, term, count) for term, count in sorted(counts.items())])
    keys = {row["term"]: row["term_key"] for row in added}
    items: list[tuple[Any, ...]] = []
    postings: list[tuple[Any, ...]] = []
    for seq, passage in enumerate(passages, start=first):
        length = sum(passage.counts.values())
        own = {keys[term]: tf for term, tf in passage.counts.items()}
        postings += [(term_key, seq, tf, length) for term_key, tf in own.items()]
        items.append((key, seq, *_item_values(passage), length, pack_keys(own), passage.tokens, passage.vector))
    await tx.many("add_items", items)
    await tx.many("add_postings", sorted(postings))
    length = sum(sum(passage.counts.values()) for passage in passages)
    await tx.run("count_items", index_key=key, added=len(passages), items=len(passages), length=length)


def _item_values(passage: Passage) -> tuple[Any, ...]:
    source = passage.source
    return (
        source.kind.value,
        source.key,
        source.position,
        source.thread_key,
        passage.number,
        passage.start,
        passage.chars,
        None if source.role is None else source.role.value,
        source.speaker,
        source.at,
        source.status,
        source.importance,
        source.expires_at,
        dump_json(source.revises) if source.revises else None,
    )


def pack_keys(keys: Iterable[int]) -> bytes:
    """Encode keys as the differences of their order, seven bits to a byte."""
    packed = bytearray()
    last = 0
    for key in sorted(keys):
        step, last = key - last, key
        while step > 0x7F:
            packed.append(step & 0x7F | 0x80)
            step >>= 7
        packed.append(step)
    return bytes(packed)


def unpack_keys(packed: bytes) -> list[int]:
    """Decode what `pack_keys` encoded."""
    keys: list[int] = []
    last = step = shift = 0
    for byte in packed:
        step |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            last += step
            keys.append(last)
            step = shift = 0
    return keys
