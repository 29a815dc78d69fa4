"""Batches of a channel: bounded in size, and rendered once for all subscribers."""

from collections.abc import Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from holdfast.control.streams.broadcast import EventBatch, split_batches


class Item(msgspec.Struct, frozen=True):
    """An item of a log."""

    seq: int
    data: bytes
    type: str = "X"


@given(sizes=st.lists(st.integers(0, 30)), max_bytes=st.integers(1, 50))
def test_a_batch_has_at_most_max_bytes_or_one_item(sizes: list[int], max_bytes: int) -> None:
    items = [Item(seq, b"x" * size) for seq, size in enumerate(sizes, start=1)]
    batches = list(split_batches(items, max_bytes=max_bytes))
    assert [item for batch in batches for item in batch.items] == items
    assert all(batch.size <= max_bytes or len(batch.items) == 1 for batch in batches)


@given(first=st.integers(1, 5), length=st.integers(1, 9), data=st.data())
def test_the_rest_of_a_batch_starts_after_a_position(first: int, length: int, data: st.DataObject) -> None:
    batch = EventBatch([Item(seq, b"x") for seq in range(first, first + length)])
    position = data.draw(st.integers(0, batch.last - 1))
    rest = batch.after(position)
    assert [item.seq for item in rest.items] == [seq for seq in range(first, first + length) if seq > position]


def test_a_batch_is_rendered_once() -> None:
    renders: list[int] = []

    def render(items: Sequence[Item]) -> int:
        renders.append(len(items))
        return len(renders)

    batch = EventBatch([Item(1, b"x")])
    assert [batch.rendered(render) for _ in range(3)] == [1, 1, 1]
