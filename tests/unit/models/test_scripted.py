import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.content import ImagePart, TextPart, UrlSource
from holdfast.domain.errors import ContextOverflow, HoldfastError, ModelRefused, ModelUnavailable, ScriptError
from holdfast.domain.ids import RunId
from holdfast.domain.limits import Usage
from holdfast.domain.message import NewMessage, Role
from holdfast.models.scripted import ScriptedModel
from holdfast.ports.model import (
    ModelCallPurpose,
    ModelDelta,
    ModelFinished,
    ReasoningDelta,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallStarted,
)
from tests.builders import assistant, call, result, user
from tests.unit.models.model_calls import calls, deltas, finished, model_request, scripted, text


async def test_a_turn_streams_reasoning_text_calls_and_the_end(tmp_path: Path) -> None:
    turn = {"think": "well", "say": "hello", "call": [{"name": "look", "arguments": {"at": 1}}]}
    output = await deltas(scripted(tmp_path, turn), model_request(tools=["look"]))
    assert [type(delta) for delta in output] == [
        ReasoningDelta,
        TextDelta,
        ToolCallStarted,
        ToolArgumentsDelta,
        ModelFinished,
    ]
    assert calls(output) == [("look", {"at": 1})]
    assert finished(output).reason == "tool_calls"


async def test_the_position_of_the_request_selects_the_turn(tmp_path: Path) -> None:
    model = scripted(tmp_path, {"say": "zero"}, {"say": "one"})
    assert text(await deltas(model, model_request(position=1))) == "one"
    assert text(await deltas(model, model_request(position=0))) == "zero"


async def test_after_the_last_turn_it_fails_with_script_run_and_turn(tmp_path: Path) -> None:
    with pytest.raises(ScriptError) as caught:
        await deltas(scripted(tmp_path, {"say": "zero"}), model_request(position=1))
    assert "script `script.json`, run `run_1`, turn 1" in caught.value.message
    assert caught.value.details == {"script": "script.json", "run_id": "run_1", "turn": 1}


async def test_after_the_last_turn_it_can_repeat_it(tmp_path: Path) -> None:
    model = scripted(tmp_path, {"say": "zero"}, {"say": "one"}, after_last="repeat")
    assert text(await deltas(model, model_request(position=7))) == "one"


@pytest.mark.parametrize(
    ("say", "chunks", "pieces"),
    [
        ("abcdefg", 3, ["ab", "cd", "efg"]),
        ("abc", 3, ["a", "b", "c"]),
        ("abc", 5, ["a", "b", "c"]),
        ("abc", 1, ["abc"]),
        ("", 3, []),
    ],
)
async def test_text_is_split_into_nearly_equal_pieces_none_of_them_empty(
    tmp_path: Path, say: str, chunks: int, pieces: list[str]
) -> None:
    *output, _ = await deltas(scripted(tmp_path, {"say": say, "chunks": chunks}))
    assert output == [TextDelta(piece) for piece in pieces]


async def test_a_delay_is_waited_for_before_each_chunk(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    model = scripted(tmp_path, {"think": "well", "say": "abc", "chunks": 3, "delay_ms": 10})
    started_at = loop.time()
    await deltas(model)
    assert loop.time() - started_at >= 0.03


async def test_call_ids_are_deterministic_and_unique_per_run_turn_and_call(tmp_path: Path) -> None:
    turn = {"call": [{"name": "look"}, {"name": "look"}]}
    model = scripted(tmp_path, turn, turn)
    requests = [model_request(tools=["look"], position=at, run_id=RunId(run)) for at in (0, 1) for run in ("a", "b")]
    first = [_ids(await deltas(model, request)) for request in requests]
    assert [_ids(await deltas(model, request)) for request in requests] == first
    assert len({id for ids in first for id in ids}) == 8


async def test_a_placeholder_is_replaced_by_the_last_message_of_its_role(tmp_path: Path) -> None:
    turn = {
        "say": "you: {$last_user}, it: {$last_tool}",
        "call": [{"name": "look", "arguments": {"{$last_user}": ["{$last_user}!", {"deep": "{$last_tool}", "n": 1}]}}],
    }
    picture = ImagePart(source=UrlSource(value="https://example.org/a.png"))
    request = model_request(
        user("first"),
        NewMessage(role=Role.USER, content=[TextPart(text="say "), picture, TextPart(text='"x"')]),
        assistant("", call("c1")),
        result("c1", "{$last_user} seen"),
        tools=["look"],
    )
    output = await deltas(scripted(tmp_path, turn), request)
    assert text(output) == 'you: say "x", it: {$last_user} seen'
    assert calls(output) == [("look", {"{$last_user}": ['say "x"!', {"deep": "{$last_user} seen", "n": 1}]})]


async def test_chunks_are_counted_after_placeholders_are_filled(tmp_path: Path) -> None:
    *output, _ = await deltas(scripted(tmp_path, {"say": "{$last_user}", "chunks": 2}), model_request(user("ab")))
    assert output == [TextDelta("a"), TextDelta("b")]


async def test_a_placeholder_without_a_message_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match=r"turn 0: it refers to `\{\$last_tool\}`"):
        await deltas(scripted(tmp_path, {"say": "{$last_tool}"}))


async def test_a_call_of_an_unknown_tool_is_refused_before_any_output(tmp_path: Path) -> None:
    model = scripted(tmp_path, {"say": "I will look", "call": [{"name": "look"}, {"name": "jump"}]})
    output: list[ModelDelta] = []
    with pytest.raises(ScriptError, match="turn 0: it calls `jump`, and the tools of this call are: `look`, `run`"):
        async with model.stream(model_request(tools=["run", "look"])) as stream:
            async for delta in stream:
                output.append(delta)
    assert output == []


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("RATE_LIMITED", ModelUnavailable),
        ("UNAVAILABLE", ModelUnavailable),
        ("OVERLOADED", ModelUnavailable),
        ("SERVER_ERROR", ModelUnavailable),
        ("CONTEXT_OVERFLOW", ContextOverflow),
        ("BAD_KEY", ModelRefused),
    ],
)
async def test_an_error_comes_after_the_text(tmp_path: Path, code: str, kind: type[HoldfastError]) -> None:
    model = scripted(tmp_path, {"say": "so far", "error": {"code": code, "message": "no more"}})
    output: list[ModelDelta] = []
    with pytest.raises(HoldfastError) as caught:
        async with model.stream(model_request()) as stream:
            async for delta in stream:
                output.append(delta)
    assert output == [TextDelta("so far")]
    assert (type(caught.value), caught.value.message, caught.value.details) == (kind, "no more", {"code": code})


async def test_a_stall_lasts_until_the_call_is_left(tmp_path: Path) -> None:
    model = scripted(tmp_path, {"say": "so far", "stall": True})
    async with model.stream(model_request()) as stream:
        assert await anext(stream) == TextDelta("so far")
        waiting = asyncio.ensure_future(anext(stream))
        done, _ = await asyncio.wait([waiting], timeout=0.05)
        assert not done
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_usage_comes_from_the_script_and_costs_nothing_unless_it_says_so(tmp_path: Path) -> None:
    priced = {"usage": {"input_tokens": 1, "cost_usd": 0.25}}
    model = scripted(tmp_path, {"usage": {"input_tokens": 7, "output_tokens": 2}}, {}, priced)
    assert finished(await deltas(model)).usage == Usage(input_tokens=7, output_tokens=2, cost_usd=0.0)
    assert finished(await deltas(model, model_request(position=1))).usage == Usage(cost_usd=0.0)
    assert finished(await deltas(model, model_request(position=2))).usage == Usage(input_tokens=1, cost_usd=0.25)
    assert model.price_known


async def test_a_summary_does_not_play_a_turn(tmp_path: Path) -> None:
    model = scripted(tmp_path, {"error": {"code": "BAD_KEY"}})
    request = model_request(
        user("Buy milk. And eggs."), assistant("I bought it!"), purpose=ModelCallPurpose.SUMMARY, position=9
    )
    output = await deltas(model, request)
    assert text(output) == "user: Buy milk.\nassistant: I bought it!"
    assert finished(output).reason == "stop"
    assert output == await deltas(model, request)


async def test_an_edited_script_takes_effect_at_the_next_call(tmp_path: Path) -> None:
    model = scripted(tmp_path, {"say": "old"})
    assert (text(await deltas(model)), model.context_window) == ("old", 128_000)
    scripted(tmp_path, {"say": "new"}, context_window=1_000)
    os.utime(tmp_path / "script.json", ns=(1, 1))
    assert (text(await deltas(model)), model.context_window) == ("new", 1_000)


def test_an_invalid_script_is_refused_when_the_model_is_created(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text('{"turns": [{"sya": "x"}]}')
    with pytest.raises(ScriptError, match=r"turns\[0\]\.sya"):
        ScriptedModel("scripted:script.json", tmp_path / "script.json")


def _ids(output: list[Any]) -> list[str]:
    return [delta.id for delta in output if isinstance(delta, ToolCallStarted)]
