"""Answers of the three wires, as events, for tests of both lanes."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec


def chat(*deltas: Any, finish: str | None = "stop", usage: Any = None, done: bool = True) -> list[Any]:
    events = [{"id": "c1", "model": "m", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    if finish is not None:
        events.append({"id": "c1", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if usage is not None:
        events.append({"id": "c1", "choices": [], "usage": usage})
    return [*events, *(["[DONE]"] if done else [])]


def call(index: Any, **fields: Any) -> dict[str, Any]:
    function = {name: fields.pop(name) for name in ("name", "arguments") if name in fields}
    return {"tool_calls": [{"index": index, "type": "function", "function": function, **fields}]}


USAGE: Final = {"prompt_tokens": 20, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 3}}
CHAT: Final[dict[str, list[Any]]] = {
    "text": chat({"role": "assistant", "content": ""}, {"content": "hel"}, {"content": "lo"}, usage=USAGE),
    "no usage": chat({"content": "hello"}),
    "usage twice": [*chat({"content": "a"}, usage=USAGE, done=False), *chat(finish=None, usage=USAGE)],
    "negative usage": chat({"content": "a"}, usage={"prompt_tokens": -5, "completion_tokens": -1}),
    "choices null": [{"id": "c1", "choices": None}, *chat({"content": "a"})],
    "content parts": chat({"content": [{"type": "text", "text": "a"}, "b", {"type": "reference"}]}),
    "content number": chat({"content": 7}, {"content": "a"}),
    "reasoning": chat({"reasoning": "hm"}, {"content": "so"}, {"reasoning": "again"}, {"content": "then"}),
    "reasoning_content": chat({"reasoning_content": "hm"}, {"content": "so"}, usage=USAGE),
    "think tags": chat({"content": "<think>"}, {"content": "hm"}, {"content": "</think>"}, {"content": "so"}),
    "tags in text": chat({"content": "a <think>"}, {"content": "b"}),
    "surrogate": ['{"choices": [{"delta": {"content": "a\\ud83d b"}, "finish_reason": "stop"}]}', "[DONE]"],
    "surrogate in reasoning": [
        '{"choices": [{"delta": {"reasoning": "a\\ud83d b"}}]}',
        *chat({"content": "so"}),
    ],
    "calls": chat(
        {"content": "I"},
        call(0, id="call_12345678", name="look", arguments=""),
        call(0, arguments='{"at"'),
        call(1, id="call_87654321", name="jump", arguments="{}"),
        call(0, arguments=": 1}"),
        finish="tool_calls",
    ),
    "calls without index": chat(
        call(None, id="call_12345678", name="look", arguments='{"a"'),
        call(None, arguments=": 1}"),
        call(None, id="call_87654321", name="jump", arguments=""),
        finish="tool_calls",
    ),
    "index in quotes": chat(call("0", id="call_12345678", name="look", arguments='{"a"'), call(0, arguments=": 1}")),
    "name later": chat(call(0, id="call_12345678", arguments=""), call(0, name="look", arguments="{}")),
    "name after an empty one": chat(
        call(0, id="call_12345678", arguments="{}"), call(0, name=""), {"content": "a"}, call(0, name="look")
    ),
    "name in pieces": chat(call(0, id="call_12345678", name="lo"), call(0, name="ok"), call(0, arguments="{}")),
    "name after start": chat(call(0, id="call_12345678", name="lo", arguments="{}"), call(0, name="ok")),
    "no arguments": chat(call(0, id="call_12345678", name="look"), call(1, id="call_87654321", name="jump")),
    "arguments object": chat(call(0, id="call_12345678", name="look", arguments={"at": 1})),
    "signed call": chat(call(0, id="call_12345678", name="look", arguments="{}", extra_content={"g": {"s": "x"}})),
    "refusal": chat({"refusal": "I will "}, {"refusal": "not"}),
    "refusal after text": chat({"content": "well"}, {"refusal": "no"}),
    **{f"finish {reason}": chat({"content": "a"}, finish=reason) for reason in ("length", "content_filter", "eos")},
    "no finish": chat({"content": "a"}, finish=None),
    "no done": chat({"content": "a"}, done=False),
    "delta null": [{"choices": [{"delta": None, "finish_reason": "stop"}]}, "[DONE]"],
    "error first": [{"error": {"message": "slow down", "code": "rate_limit_exceeded"}}],
    "error later": [
        *chat({"content": "a"}, finish=None, done=False),
        {"error": {"message": "x", "type": "server_error"}},
    ],
    "too long": [{"error": {"message": "too long", "code": "context_length_exceeded"}}],
    "error without code": [*chat({"content": "a"}, finish=None, done=False), {"error": {"message": "x"}}],
    "garbage": ["{this is not JSON"],
    "other shape": [[{"choices": 7}]],
    "empty": [],
}


def responses(*events: Any, end: str = "completed", **fields: Any) -> list[Any]:
    head = {"id": "resp_1", "model": "gpt-5", "created_at": 1, "output": [], "object": "response", "tools": []}
    usage: dict[str, Any] = {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25}
    usage |= {"input_tokens_details": {"cached_tokens": 3}, "output_tokens_details": {"reasoning_tokens": 2}}
    ended = {**head, "status": end, "usage": usage, **fields}
    numbered = [
        {"type": "response.created", "response": {**head, "status": "in_progress"}},
        {"type": "response.in_progress", "response": {**head, "status": "in_progress"}},
        *events,
        *([{"type": f"response.{end}", "response": ended}] if end else []),
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(numbered)]


def item(state: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.output_item.{state}", "output_index": 0, "item": fields}


def message(*texts: str, id: str = "msg_1", **fields: Any) -> list[Any]:
    where = {"item_id": id, "output_index": 0, "content_index": 0}
    about = {"type": "message", "id": id, "role": "assistant", "content": [], "status": "in_progress", **fields}
    return [
        item("added", **about),
        *({"type": "response.output_text.delta", **where, "delta": text, "logprobs": []} for text in texts),
        {"type": "response.output_text.done", **where, "text": "".join(texts), "logprobs": []},
        item("done", **about),
    ]


def function(state: str, arguments: str = "", *, id: str = "fc_1") -> dict[str, Any]:
    return item(state, type="function_call", id=id, call_id=f"call_1234{id}", name="look", arguments=arguments)


def arguments(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.function_call_arguments.{kind}", "item_id": "fc_1", "output_index": 0, **fields}


DELTA: Final = {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "content_index": 0}
SEALED: Final = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"}
SUMMARY: Final = {"item_id": "rs_1", "output_index": 0}
RESPONSES: Final[dict[str, list[Any]]] = {
    "text": responses(*message("hel", "lo")),
    "phase": responses(*message("first", phase="commentary"), *message("then", id="msg_2", phase="final_answer")),
    "text is a number": responses(item("added", type="message", id="m"), {**DELTA, "delta": 7}),
    "call": responses(
        function("added"),
        arguments("delta", delta='{"a"'),
        arguments("delta", delta=": 1}"),
        function("done", '{"a": 1}'),
    ),
    "arguments in done": responses(
        function("added"), arguments("done", arguments='{"a": 1}', name="look"), function("done", '{"a": 1}')
    ),
    "call only in done": responses(function("done", '{"a": 1}')),
    "no arguments": responses(function("added"), function("added", id="fc_2")),
    "sealed reasoning": responses(item("added", **SEALED), item("done", **SEALED), *message("so")),
    "summary": responses(
        item("added", **SEALED),
        {
            "type": "response.reasoning_summary_part.added",
            **SUMMARY,
            "summary_index": 0,
            "part": {"type": "summary_text", "text": ""},
        },
        {"type": "response.reasoning_summary_text.delta", **SUMMARY, "summary_index": 0, "delta": "hm"},
        {"type": "response.reasoning_summary_text.delta", **SUMMARY, "summary_index": 1, "delta": "ah"},
        item("done", **SEALED),
        *message("so"),
    ),
    "raw reasoning": responses(
        {"type": "response.reasoning_text.delta", **SUMMARY, "content_index": 0, "delta": "raw"}, *message("so")
    ),
    "refusal": responses(
        {"type": "response.refusal.delta", "item_id": "m", "output_index": 0, "content_index": 0, "delta": "no"},
        {"type": "response.refusal.done", "item_id": "m", "output_index": 0, "content_index": 0, "refusal": "no!"},
    ),
    "incomplete": responses(*message("a"), end="incomplete", incomplete_details={"reason": "max_output_tokens"}),
    "filtered": responses(*message("a"), end="incomplete", incomplete_details={"reason": "content_filter"}),
    "failed": responses(*message("a"), end="failed", error={"code": "server_error", "message": "x"}),
    "failed without error": responses(*message("a"), end="failed"),
    "failed and incomplete": responses(*message("a"), end="failed", incomplete_details={"reason": "max_output_tokens"}),
    "error event": responses(
        *message("a"), {"type": "error", "code": "rate_limit_exceeded", "message": "slow"}, end=""
    ),
    "error first": [{"type": "error", "code": "server_error", "message": "x", "param": None, "sequence_number": 0}],
    "no end": responses(*message("a"), end=""),
    "empty": [],
}


def anthropic(*blocks: tuple[dict[str, Any], list[Any]], stop: str | None = "end_turn", **delta: Any) -> list[Any]:
    usage: dict[str, Any] = {
        "input_tokens": 100,
        "output_tokens": 1,
        "cache_read_input_tokens": 50,
        "cache_creation_input_tokens": 8,
    }
    usage |= {"cache_creation": {"ephemeral_1h_input_tokens": 8, "ephemeral_5m_input_tokens": 0}}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5", "content": []}
    events: list[Any] = [{"type": "message_start", "message": {**head, "usage": usage}}, {"type": "ping"}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": each} for each in deltas]
        events.append({"type": "content_block_stop", "index": index})
    if stop is not None:
        events.append(
            {"type": "message_delta", "delta": {"stop_reason": stop, **delta}, "usage": {"output_tokens": 20}}
        )
        events.append({"type": "message_stop"})
    return events


TEXT: Final = (
    {"type": "text", "text": ""},
    [{"type": "text_delta", "text": "hel"}, {"type": "text_delta", "text": "lo"}],
)
TOOL: Final = (
    {"type": "tool_use", "id": "toolu_12345678", "name": "look", "input": {}},
    [{"type": "input_json_delta", "partial_json": '{"a"'}, {"type": "input_json_delta", "partial_json": ": 1}"}],
)
ANTHROPIC: Final[dict[str, list[Any]]] = {
    "text": anthropic(TEXT),
    "calls": anthropic(TEXT, TOOL, ({**TOOL[0], "id": "toolu_87654321"}, []), stop="tool_use"),
    "thinking": anthropic(
        (
            {"type": "thinking", "thinking": "", "signature": ""},
            [{"type": "thinking_delta", "thinking": "hm"}, {"type": "signature_delta", "signature": "signed"}],
        ),
        ({"type": "redacted_thinking", "data": "sealed"}, []),
        TEXT,
    ),
    **{
        f"stop {stop}": anthropic(TEXT, stop=stop)
        for stop in ("max_tokens", "pause_turn", "refusal", "stop_sequence", "unknown")
    },
    "refusal with reason": anthropic(
        stop="refusal", stop_details={"type": "refusal", "explanation": "no", "category": None}
    ),
    "no stop": anthropic(TEXT, stop=None),
    "error first": [{"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}],
    "error later": [
        *anthropic(TEXT, stop=None),
        {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}},
    ],
    "unknown event first": [{"type": "new_thing"}, *anthropic(TEXT)],
    "unknown delta": anthropic(({"type": "text", "text": ""}, [{"type": "new_delta", "x": 1}]), TEXT),
    "unknown event": [*anthropic(TEXT)[:2], {"type": "new_thing"}, *anthropic(TEXT)[2:]],
    "empty": [],
}
ANSWERS: Final = {"openai": CHAT, "openai-responses": RESPONSES, "anthropic": ANTHROPIC}
CASES: Final = [(api, name) for api, answers in ANSWERS.items() for name in answers]


def stream(api: str, events: Sequence[Any], *, newline: str = "\n") -> bytes:
    frames = []
    for event in events:
        data = event if isinstance(event, str) else msgspec.json.encode(event).decode()
        name = f"event: {event['type']}{newline}" if api != "openai" and isinstance(event, dict) else ""
        frames.append(f"{name}data: {data}{newline}{newline}")
    return "".join(frames).encode()
