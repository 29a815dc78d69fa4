"""Taint: sources of untrusted text are kept, and count from the next message on."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import Invalid
from holdfast.domain.tool import ToolClass, ToolReach, ToolSpec, reaches_outside
from holdfast.domain.untrusted import (
    MAX_TAINT_SOURCES,
    TAINT_VALUE,
    Taint,
    inherited_taint,
    read_taint,
    taint_source_name,
)

MARKS = st.lists(st.tuples(st.text("abc", min_size=1, max_size=2), st.none() | st.integers(0, 9)), max_size=30)


def marked(marks: list[tuple[str, int | None]]) -> Taint:
    """Return a taint with these sources."""
    taint = Taint()
    for name, at in marks:
        taint = taint.with_source(name, at=at)
    return taint


@given(MARKS)
def test_a_taint_never_shrinks_and_has_each_source_once(marks: list[tuple[str, int | None]]) -> None:
    names = marked(marks).names()
    assert names == list(dict.fromkeys(name for name, _ in marks))[:MAX_TAINT_SOURCES]


@given(MARKS, st.integers(0, 9))
def test_only_sources_before_a_message_count_for_it(marks: list[tuple[str, int | None]], at: int) -> None:
    taint = marked(marks)
    assert taint.names(before=at) == [one.name for one in taint.sources if one.at is None or one.at < at]
    assert set(taint.names(before=at)) <= set(taint.names())


@given(MARKS)
def test_a_taint_round_trips(marks: list[tuple[str, int | None]]) -> None:
    taint = marked(marks)
    assert read_taint({TAINT_VALUE: msgspec.to_builtins(taint)}) == taint


@given(MARKS)
def test_inherited_taint_counts_from_the_first_message(marks: list[tuple[str, int | None]]) -> None:
    names = marked(marks).names()
    assert read_taint(inherited_taint(names)).names(before=0) == names


def test_a_run_without_taint_passes_none_on() -> None:
    assert inherited_taint([]) == {}
    assert read_taint({}) == read_taint({TAINT_VALUE: None}) == Taint()


def test_a_malformed_taint_is_an_error() -> None:
    with pytest.raises(Invalid, match="the taint of this run cannot be decoded"):
        read_taint({TAINT_VALUE: {"sources": "none"}})


def test_a_source_name_has_only_safe_characters() -> None:
    assert taint_source_name("tool", "x`)\nignore all") == "tool:x_ignore_all"


@pytest.mark.parametrize(
    ("fields", "with_network", "without"),
    [
        ({"kind": ToolClass.EFFECTFUL}, True, True),
        ({"kind": ToolClass.IDEMPOTENT}, True, True),
        ({"kind": ToolClass.IDEMPOTENT, "read_only": True}, False, False),
        ({"kind": ToolClass.TRANSACTIONAL}, False, False),
        ({"kind": ToolClass.TRANSACTIONAL, "reach": ToolReach.OUTSIDE}, True, True),
        ({"kind": ToolClass.EFFECTFUL, "reach": ToolReach.WORKSPACE}, False, False),
        ({"kind": ToolClass.EFFECTFUL, "reach": ToolReach.COMMANDS}, True, False),
    ],
)
def test_the_reach_of_a_tool(fields: dict[str, object], with_network: bool, without: bool) -> None:
    spec = msgspec.convert({"name": "x", "description": "x", "parameters": {"type": "object"}, **fields}, ToolSpec)
    assert (reaches_outside(spec, network=True), reaches_outside(spec, network=False)) == (with_network, without)
