"""Chunks: what is written at once, cut so that it is never much."""

from collections.abc import Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from holdfast.control.streams.broadcast import EventBatch, split_batches


class Item(msgspec.Struct, frozen=True):
    """Something with a number."""

    seq: int
    data: bytes
    type: str = "X"


@given(sizes=st.lists(st.integers(0, 30)), most=st.integers(1, 50))
def test_items_are_cut_into_chunks_of_at_most_so_many_bytes_or_one_item(sizes: list[int], most: int) -> None:
    items = [Item(seq, b"x" * size) for seq, size in enumerate(sizes, start=1)]
    chunks = list(split_batches(items, max_bytes=most))
    assert [item for chunk in chunks for item in chunk.items] == items
    assert all(chunk.size <= most or len(chunk.items) == 1 for chunk in chunks)


@given(first=st.integers(1, 5), length=st.integers(1, 9), data=st.data())
def test_what_is_above_a_position_is_cut_out_of_a_chunk(first: int, length: int, data: st.DataObject) -> None:
    chunk = EventBatch([Item(seq, b"x") for seq in range(first, first + length)])
    position = data.draw(st.integers(0, chunk.last - 1))
    rest = chunk.after(position)
    assert [item.seq for item in rest.items] == [seq for seq in range(first, first + length) if seq > position]


def test_what_is_made_of_a_chunk_is_made_once() -> None:
    made: list[int] = []

    def render(items: Sequence[Item]) -> int:
        made.append(len(items))
        return len(made)

    chunk = EventBatch([Item(1, b"x")])
    assert [chunk.rendered(render) for _ in range(3)] == [1, 1, 1]
