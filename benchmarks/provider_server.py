"""A stand-in for a model provider, in a process of its own: prebuilt answers, so that it costs little.

`python -m benchmarks.provider_server` prints its URL. The first part of a path is what it answers: `/text/20/v1` is a
text in 20 chunks, `/tool/20/v1` calls the tool `look` first, `/paced/100/v1` sends one chunk every 10 ms. It speaks
chat completions and Responses, streamed or not, and answers Messages with one chunk. It imports nothing of Holdfast.
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

PACE_SECONDS = 0.01
TEXT = "word " * 100

_HEAD = {"id": "c1", "object": "chat.completion.chunk", "created": 1_750_000_000, "model": "stand-in"}
_USAGE = {"prompt_tokens": 20, "completion_tokens": 20, "total_tokens": 40}
_CALL = {"index": 0, "id": "call_00000001", "type": "function", "function": {"name": "look", "arguments": "{}"}}
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _pieces(chunks: int) -> Iterator[str]:
    for index in range(chunks):
        yield TEXT[index * len(TEXT) // chunks : (index + 1) * len(TEXT) // chunks]


def _chat_events(chunks: int, *, call: bool) -> Iterator[dict[str, Any]]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**_HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    if call:
        yield chunk({"tool_calls": [_CALL]})
    else:
        for text in _pieces(chunks):
            yield chunk({"content": text})
    yield chunk({}, "tool_calls" if call else "stop")
    yield {**_HEAD, "choices": [], "usage": _USAGE}


_RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1_750_000_000,
    "model": "gpt-5",
    "output": [],
    "tools": [],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "status": "in_progress",
}
_RESPONSE_USAGE = {
    "input_tokens": 20,
    "output_tokens": 20,
    "total_tokens": 40,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}


def _response_item(*, call: bool) -> dict[str, Any]:
    """Return the one item of a response when it is complete."""
    if call:
        about = {"type": "function_call", "id": "fc_1", "call_id": "call_00000001", "name": "look"}
        return {**about, "arguments": "{}", "status": "completed"}
    content = [{"type": "output_text", "text": TEXT, "annotations": [], "logprobs": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": content, "status": "completed"}


def _responses_events(chunks: int, *, call: bool) -> Iterator[dict[str, Any]]:
    item, place = _response_item(call=call), {"output_index": 0}
    empty: dict[str, Any] = {"arguments": ""} if call else {"content": []}
    yield {"type": "response.created", "response": _RESPONSE}
    yield {"type": "response.in_progress", "response": _RESPONSE}
    yield {"type": "response.output_item.added", **place, "item": {**item, **empty, "status": "in_progress"}}
    if call:
        yield {"type": "response.function_call_arguments.delta", "item_id": "fc_1", **place, "delta": "{}"}
        yield {"type": "response.function_call_arguments.done", "item_id": "fc_1", **place, "arguments": "{}"}
    else:
        where = {"item_id": "msg_1", **place, "content_index": 0}
        part = {"type": "output_text", "text": "", "annotations": []}
        yield {"type": "response.content_part.added", **where, "part": part}
        for text in _pieces(chunks):
            yield {"type": "response.output_text.delta", **where, "delta": text, "logprobs": []}
        yield {"type": "response.output_text.done", **where, "text": TEXT, "logprobs": []}
        yield {"type": "response.content_part.done", **where, "part": {**part, "text": TEXT}}
    yield {"type": "response.output_item.done", **place, "item": item}
    yield {"type": "response.completed", "response": _response(call=call)}


def _response(*, call: bool) -> dict[str, Any]:
    return {**_RESPONSE, "status": "completed", "output": [_response_item(call=call)], "usage": _RESPONSE_USAGE}


def _messages_events() -> Iterator[dict[str, Any]]:
    usage = {"input_tokens": 20, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5", "content": []}
    yield {"type": "message_start", "message": {**message, "usage": usage}}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": TEXT}}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 20}}
    yield {"type": "message_stop"}


def _frame(event: dict[str, Any] | str) -> bytes:
    name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
    data = f"{name}data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(data), data)


@cache
def _streamed(api: str, chunks: int, *, call: bool) -> tuple[bytes, ...]:
    """Return the packets of a streamed answer."""
    match api:
        case "chat":
            frames = [*map(_frame, _chat_events(chunks, call=call)), _frame("[DONE]")]
        case "responses":
            numbered = enumerate(_responses_events(chunks, call=call))
            frames = [_frame({**event, "sequence_number": number}) for number, event in numbered]
        case _:
            frames = [*map(_frame, _messages_events())]
    return (_STREAM_HEAD + frames[0], *frames[1:-1], frames[-1] + b"0\r\n\r\n")


@cache
def _whole(api: str, *, call: bool) -> bytes:
    """Return an answer that is not streamed."""
    if api == "chat":
        message = {"role": "assistant", "content": None if call else TEXT, "tool_calls": [_CALL] if call else None}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if call else "stop"}
        answer = {**_HEAD, "object": "chat.completion", "choices": [choice], "usage": _USAGE}
    else:
        answer = _response(call=call)
    body = json.dumps(answer).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


class _Connection(asyncio.Protocol):
    """Reads requests and answers each; pacing is one timer per stream."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, rest = bytes(self._received).partition(b"\r\n\r\n")
        if not separator:
            return
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        length = int(lengths[0].partition(b":")[2]) if lengths else 0
        if len(rest) >= length:
            del self._received[: len(head) + 4 + length]
            self._answer(head.split(b" ", 2)[1].decode(), rest[:length])

    def _answer(self, path: str, body: bytes) -> None:
        _, kind, chunks, *_, resource = path.partition("?")[0].split("/")
        api = {"completions": "chat", "responses": "responses"}.get(resource, "messages")
        call = kind == "tool" and b'"call_00000001"' not in body
        if b'"stream":true' not in body.replace(b" ", b""):
            self._transport.write(_whole(api, call=call))
            return
        packets = _streamed(api, int(chunks), call=call)
        if kind != "paced":
            self._transport.write(b"".join(packets))
            return
        loop = asyncio.get_running_loop()
        self._send(packets, 0, loop, loop.time())

    def _send(self, packets: tuple[bytes, ...], index: int, loop: asyncio.AbstractEventLoop, started: float) -> None:
        """Send what is due by now, and the next packet at its time."""
        due = min(len(packets), int((loop.time() - started) / PACE_SECONDS) + 1)
        if self._transport.is_closing():
            return
        self._transport.write(b"".join(packets[index:due]))
        if due < len(packets):
            loop.call_at(started + due * PACE_SECONDS, self._send, packets, due, loop, started)


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", 0, backlog=4096)
    sys.stdout.write(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())
