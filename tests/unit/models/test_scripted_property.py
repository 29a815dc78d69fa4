"""Any valid script at any position gives a well-formed stream or one of our errors."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import HoldfastError, ScriptError
from holdfast.models.scripted import split_text
from holdfast.ports.model import (
    ModelCallPurpose,
    ModelDelta,
    ModelFinished,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallStarted,
)
from tests.builders import assistant, call, result, user
from tests.unit.models.model_calls import calls, finished, model_request, scripted, text

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
marked = st.lists(words | st.sampled_from(["{$last_user}", "{$last_tool}", "{$other}"]), max_size=4).map("".join)
arguments = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | marked,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
tools = st.sampled_from(["look", "jump"])
turns = st.fixed_dictionaries(
    {},
    optional={
        "say": marked,
        "chunks": st.integers(1, 50),
        "think": words,
        "call": st.lists(
            st.fixed_dictionaries(
                {"name": tools}, optional={"arguments": st.dictionaries(words, arguments, max_size=3)}
            ),
            max_size=3,
        ),
        "usage": st.fixed_dictionaries({"input_tokens": st.integers(0, 10**9), "output_tokens": st.integers(0, 10**9)}),
        "error": st.fixed_dictionaries({"code": st.sampled_from(["OVERLOADED", "CONTEXT_OVERFLOW", "OTHER"])}),
    },
)
scripts = st.tuples(st.lists(turns, min_size=1, max_size=4), st.sampled_from(["repeat", "fail"]))
conversations = st.sampled_from(
    [
        [user("hi")],
        [assistant("begun")],
        [user("{$last_tool}"), assistant("", call("c1")), result("c1", "seen {$last_user}")],
    ]
)


@given(script=scripts, position=st.integers(0, 6), messages=conversations, purpose=st.sampled_from(ModelCallPurpose))
async def test_a_stream_is_well_formed_and_the_same_each_time(
    script: tuple[list[dict[str, Any]], str], position: int, messages: list[Any], purpose: ModelCallPurpose
) -> None:
    played, after_last = script
    request = model_request(*messages, tools=["look", "jump"], position=position, purpose=purpose)
    with tempfile.TemporaryDirectory() as folder:
        model = scripted(Path(folder), *played, after_last=after_last)
        output, error = await _attempt(model, request)
        again, error_again = await _attempt(model, request)
    assert output == again
    assert repr(error) == repr(error_again)
    _check_order(output)
    if purpose is ModelCallPurpose.SUMMARY:
        assert error is None
    elif position >= len(played) and after_last == "fail":
        assert isinstance(error, ScriptError)
        assert output == []
    elif error is None:
        turn = played[min(position, len(played) - 1)]
        assert len([name for name, _ in calls(output)]) == len(turn.get("call", []))
        assert (finished(output).reason == "tool_calls") == bool(turn.get("call"))
        if "{$" not in turn.get("say", ""):
            assert text(output) == turn.get("say", "")


@given(st.text(max_size=40), st.integers(1, 60))
def test_pieces_are_the_whole_and_nearly_equal(output: str, count: int) -> None:
    parts = split_text(output, count)
    assert "".join(parts) == output
    assert len(parts) == min(count, len(output))
    assert max(map(len, parts), default=0) - min(map(len, parts), default=0) <= 1


async def _attempt(model: Any, request: ModelRequest) -> tuple[list[ModelDelta], HoldfastError | None]:
    output: list[ModelDelta] = []
    try:
        async with model.stream(request) as stream:
            async for delta in stream:
                output.append(delta)
    except HoldfastError as error:
        return output, error
    return output, None


def _check_order(output: list[ModelDelta]) -> None:
    """Check the order: reasoning, text, calls with their arguments, end; no delta is empty."""
    order = [ReasoningDelta, TextDelta, ToolCallStarted, ModelFinished]
    kinds = [ToolCallStarted if isinstance(delta, ToolArgumentsDelta) else type(delta) for delta in output]
    assert kinds == sorted(kinds, key=order.index)
    open_calls: set[str] = set()
    for delta in output:
        match delta:
            case TextDelta(text=more) | ReasoningDelta(text=more):
                assert more
            case ToolCallStarted(id=id):
                assert id not in open_calls
                open_calls.add(id)
            case ToolArgumentsDelta(id=id):
                assert id in open_calls
            case ModelFinished():
                assert delta is output[-1]
            case _:
                pytest.fail(f"unexpected delta: {delta}")
