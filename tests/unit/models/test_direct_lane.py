"""Both lanes return the same for the same bytes, whole and cut, and send the same requests.

This is also the alarm for a new version of pydantic-ai or of a client: what it does differently fails here.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.domain.content import DataSource, DocumentPart, ImagePart, TextPart, UrlSource
from holdfast.domain.errors import HoldfastError, ModelUnavailable
from holdfast.domain.ids import ToolCallId
from holdfast.domain.message import FAILED_METADATA_KEY, NewMessage, Role, ToolCall
from holdfast.domain.model_provider import ProviderSettings
from holdfast.domain.step import Lane
from holdfast.models.messages import PROVIDER_METADATA_KEY
from holdfast.models.registry import ModelRegistry
from holdfast.ports.model import (
    Model,
    ModelFinished,
    ModelRequest,
    ModelSettings,
    ReasoningDelta,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallStarted,
)
from tests.builders import result, user
from tests.unit.models.model_calls import CALL_TIMEOUT_SECONDS, model_request
from tests.unit.models.wire_answers import ANSWERS, CASES, CHAT, TEXT, anthropic, call, chat, stream

pytestmark = [
    pytest.mark.filterwarnings("ignore::pydantic_ai._warnings.UsageExtractionFailedWarning"),  # of wrong counts
    pytest.mark.filterwarnings("ignore:Sampling parameters"),
]

APIS: Final = {"openai": "some-model", "openai-responses": "gpt-5", "anthropic": "claude-sonnet-5"}


class ByteServer:
    """A server that answers each request with the same bytes, in the given packets, and counts what it sees."""

    def __init__(
        self,
        *packets: bytes,
        status: int = 200,
        headers: str = "",
        cut: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.packets = packets
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.connections = 0
        self.open = 0
        self.all_closed = asyncio.Event()
        self._head = f"HTTP/1.1 {status} Status\r\ncontent-type: text/event-stream\r\n{headers}"
        self._cut = cut
        self._tls = tls
        self._server: asyncio.Server | None = None
        self.url = ""

    async def __aenter__(self) -> "ByteServer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        origin = "http://127.0.0.1" if self._tls is None else "https://localhost"
        self.url = f"{origin}:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            while await self._answer(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()
            if self.open == 0:
                self.all_closed.set()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines) if name}
        body = await reader.readexactly(int(headers["content-length"]))
        self.requests.append((first, headers, msgspec.json.decode(body)))
        writer.write(f"{self._head}transfer-encoding: chunked\r\n\r\n".encode())
        for packet in self.packets:
            writer.write(b"%x\r\n%b\r\n" % (len(packet), packet))
            await writer.drain()
            await asyncio.sleep(0)
        if self._cut:
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


class RecoveringServer(ByteServer):
    """A server whose first response is an error, and the further ones `answer`."""

    def __init__(self, error: bytes, answer: bytes) -> None:
        super().__init__(error, status=400)
        self._answer_later = answer

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        goes_on = await super()._answer(reader, writer)
        self._head, self.packets = self._head.replace(" 400 ", " 200 "), (self._answer_later,)
        return goes_on


@asynccontextmanager
async def opened(server: ByteServer, api: Any, lane: Lane, *, name: str = "") -> AsyncIterator[Model]:
    base_url = server.url if api == "anthropic" else f"{server.url}/v1"
    settings = ProviderSettings(api=api, base_url=base_url, input_usd_per_million=1, output_usd_per_million=2)
    off = ["house"] if lane is Lane.LIBRARY else []
    async with ModelRegistry({"house": settings}, direct_lane_off=off) as models:
        yield models.find(f"house:{name or APIS[api]}")


async def outcome(model: Model, request: ModelRequest, *, lane: Lane | None = None) -> Any:
    """Return what a call gave: its text, reasoning and calls in order, and how it ended; ids are left out.

    A call that ends well must have taken `lane`.
    """
    seen: list[list[Any]] = []
    names: dict[str, int] = {}

    def add(kind: str, piece: str) -> None:
        if seen and seen[-1][0] == kind:
            seen[-1][1] += piece
        else:
            seen.append([kind, piece])

    try:
        async with asyncio.timeout(CALL_TIMEOUT_SECONDS), model.stream(request) as stream:
            async for delta in stream:
                match delta:
                    case TextDelta(text):
                        add("text", text)
                    case ReasoningDelta(text):
                        add("reasoning", text)
                    case ToolCallStarted(id, name):
                        names[id] = len(names)
                        seen.append([f"call {names[id]} {name}", ""])
                    case ToolArgumentsDelta(id, arguments):
                        add(f"arguments {names[id]}", arguments)
                    case ModelFinished():
                        assert lane in (None, delta.lane)
                        seen.append([delta.reason, delta.usage, delta.provider_data])
    except HoldfastError as error:
        details = {name: error.details.get(name) for name in ("status", "provider_code", "retry_after")}
        return seen, type(error), details
    return seen, None, None


async def on_both_lanes(server: ByteServer, api: str, request: ModelRequest | None = None) -> list[Any]:
    outcomes = []
    for lane in Lane:
        async with opened(server, api, lane) as model:
            outcomes.append(await outcome(model, request or model_request(tools=["look", "jump"]), lane=lane))
    return outcomes


@pytest.mark.parametrize(("api", "name"), CASES)
async def test_both_lanes_return_the_same(api: str, name: str) -> None:
    async with ByteServer(stream(api, ANSWERS[api][name])) as server:
        direct, library = await on_both_lanes(server, api)
    assert direct == library
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("api", "name"), [(api, "text") for api in APIS] + [("openai", "calls"), ("anthropic", "calls")]
)
async def test_the_packets_do_not_matter(api: str, name: str) -> None:
    for newline in ("\n", "\r\n"):
        body = b": a comment" + newline.encode() * 2 + stream(api, ANSWERS[api][name], newline=newline)
        pieces = [body[place : place + 1] for place in range(len(body))]
        async with ByteServer(*pieces) as server, opened(server, api, Lane.DIRECT) as model:
            split = await outcome(model, model_request())
            server.packets = (b"".join(pieces),)
            assert split == await outcome(model, model_request())


@pytest.mark.parametrize(("api", "name"), [case for case in CASES if case[1] != "empty"])
async def test_every_response_that_is_cut_in_the_middle_fails_alike(api: str, name: str) -> None:
    whole = stream(api, ANSWERS[api][name])
    async with ByteServer(whole[: len(whole) * 2 // 3], cut=True) as server:
        direct, library = await on_both_lanes(server, api)
    assert direct[1:] == library[1:]
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("api", "name"), [("openai", "calls"), ("openai-responses", "text"), ("anthropic", "thinking")]
)
async def test_a_response_cut_at_any_place_fails_alike(api: str, name: str) -> None:
    whole = stream(api, ANSWERS[api][name])
    for place in range(1, len(whole), max(1, len(whole) // 12)):
        async with ByteServer(whole[:place], cut=True) as server:
            direct, library = await on_both_lanes(server, api)
        assert direct[1:] == library[1:], place


ERRORS: Final = {
    "rate limit": (429, {"error": {"message": "slow", "code": "rate_limit_exceeded", "type": "rate_limit_error"}}),
    "no credit": (429, {"error": {"message": "pay", "code": "insufficient_quota"}}),
    "bad request": (400, {"error": {"message": "no", "type": "invalid_request_error"}}),
    "too long": (400, {"error": {"message": "prompt is too long", "type": "invalid_request_error"}}),
    "bad key": (401, {"error": {"message": "who?", "code": "invalid_api_key"}}),
    "no model": (404, {"error": {"message": "none", "code": "model_not_found", "type": "not_found_error"}}),
    "too large": (413, {"error": {"message": "big", "type": "request_too_large"}}),
    "server": (500, {"error": {"message": "oops", "type": "api_error"}}),
    "overloaded": (529, {"error": {"message": "busy", "type": "overloaded_error"}}),
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("api", APIS)
async def test_errors_are_the_same_and_made_with_one_call(api: str, name: str) -> None:
    status, body = ERRORS[name]
    async with ByteServer(msgspec.json.encode(body), status=status, headers="retry-after: 7\r\n") as server:
        direct, library = await on_both_lanes(server, api)
    assert direct == library
    assert direct[1] is not None
    assert len(server.requests) == 2


CALLS: Final = [
    ToolCall(id=ToolCallId("call_1"), name="look", arguments={"at": [1, None]}),
    ToolCall(id=ToolCallId("call_2"), name="jump", arguments={}),
]
PICTURE: Final = ImagePart(source=DataSource(value="aGk=", mime_type="image/png"))
PHOTO: Final = ImagePart(source=UrlSource(value="https://a.example/a.png", mime_type="image/png"))
PAPER: Final = DocumentPart(source=DataSource(value="aGk=", mime_type="application/pdf"))
CONVERSATIONS: Final[dict[str, list[NewMessage]]] = {
    "short": [user("hi")],
    "calls": [
        user("hi"),
        NewMessage(role=Role.ASSISTANT, content="I look.", tool_calls=CALLS),
        result("call_2", "jumped"),
        result("call_1", "seen"),
        user("ok"),
    ],
    "picture": [NewMessage(role=Role.USER, content=[TextPart(text="this?"), PICTURE])],
    "links": [NewMessage(role=Role.USER, content=[TextPart(text="these?"), PHOTO, PAPER])],
    "failed calls": [
        user("hi"),
        NewMessage(role=Role.ASSISTANT, content="", tool_calls=CALLS),
        replace(result("call_1", "not found"), metadata={FAILED_METADATA_KEY: True}),
        NewMessage(role=Role.TOOL, tool_call_id=ToolCallId("call_2"), content=[TextPart(text="look:"), PICTURE]),
        user(""),
    ],
    "system": [
        NewMessage(role=Role.SYSTEM, content="be kind"),
        user("hi"),
        NewMessage(role=Role.ASSISTANT, content="ho"),
        user("日本"),
    ],
}
SETTINGS: Final = [ModelSettings(), ModelSettings(temperature=0.5, thinking="high", max_output_tokens=2000)]


@pytest.mark.parametrize("settings", SETTINGS, ids=["plain", "settings"])
@pytest.mark.parametrize("conversation", CONVERSATIONS)
@pytest.mark.parametrize("api", APIS)
async def test_requests_are_the_same(api: str, conversation: str, settings: ModelSettings) -> None:
    for tools, schema in (([], {"type": "object", "properties": {"a": {"type": "string"}}}), (["look", "jump"], None)):
        request = model_request(*CONVERSATIONS[conversation], tools=tools, settings=settings, output_schema=schema)
        async with ByteServer(stream(api, ANSWERS[api]["text"])) as server:
            await on_both_lanes(server, api, request)
        (first, direct_headers, direct), (second, library_headers, library) = server.requests
        assert (first, direct) == (second, library)
        # Both clients name the encodings that they can decode; aiohttp does not repeat HTTP/1.1's default connection.
        for header in ("accept-encoding", "connection", "content-length", "host"):
            direct_headers.pop(header, None), library_headers.pop(header, None)
        assert direct_headers == library_headers


@pytest.mark.parametrize(
    ("api", "name"), [("openai", "reasoning"), ("openai-responses", "summary"), ("anthropic", "thinking")]
)
async def test_a_kept_response_is_sent_back_alike(api: str, name: str) -> None:
    sent: list[Any] = []
    for lane in Lane:
        async with ByteServer(stream(api, ANSWERS[api][name])) as server, opened(server, api, lane) as model:
            seen, _, _ = await outcome(model, model_request(), lane=lane)
            said = "".join(piece for kind, piece, *_ in seen if kind == "text")
            answer = NewMessage(role=Role.ASSISTANT, content=said, metadata={PROVIDER_METADATA_KEY: seen[-1][2]})
            await outcome(model, model_request(user("hi"), answer, user("go on")), lane=lane)
            assert seen[-1][2]
            sent.append(server.requests[-1][2])
    assert sent[0] == sent[1]


@pytest.mark.filterwarnings("ignore:.*thinking block")
@pytest.mark.parametrize("lane", list(Lane))
async def test_a_call_with_stale_reasoning_is_made_once_more_without_it(lane: Lane) -> None:
    message = "thinking: The block is bound to a different conversation"
    error = msgspec.json.encode({"type": "error", "error": {"type": "invalid_request_error", "message": message}})
    server = RecoveringServer(error, stream("anthropic", anthropic(TEXT)))
    async with server, opened(server, "anthropic", lane, name="claude-sonnet-5-5") as model:
        seen, failure, _ = await outcome(model, model_request())
        await outcome(model, model_request(), lane=lane)
    assert (seen[0], failure) == (["text", "hello"], None)
    stale, again, later = (body.get("thinking", {}) for _, _, body in server.requests)
    assert ["block_binding" in each for each in (stale, again, later)] == [False, True, False]


async def test_connections_are_reused_and_closed_with_the_registry() -> None:
    async with ByteServer(stream("openai", CHAT["text"])) as server:
        async with opened(server, "openai", Lane.DIRECT) as model:
            for _ in range(5):
                await outcome(model, model_request())
            assert (server.connections, len(server.requests)) == (1, 5)
            await asyncio.gather(*(outcome(model, model_request()) for _ in range(4)))
            assert (server.connections, len(server.requests)) == (4, 9)
        async with asyncio.timeout(CALL_TIMEOUT_SECONDS):
            await server.all_closed.wait()


async def test_a_redirect_is_refused_with_its_target() -> None:
    headers = "location: https://elsewhere.example/\r\n"
    async with ByteServer(status=307, headers=headers) as server, opened(server, "openai", Lane.DIRECT) as model:
        with pytest.raises(HoldfastError, match="elsewhere.example"):
            async with model.stream(model_request()):
                pass
    assert len(server.requests) == 1


@pytest.mark.parametrize("after", [[], [{"content": "a"}]], ids=["last", "before text"])
async def test_a_call_that_is_never_named_is_an_outage(after: list[Any]) -> None:
    """pydantic-ai drops such a call if it is the last part, and the run would end without its effect."""
    events = chat(call(0, id="call_12345678", arguments="{}"), *after, finish="tool_calls")
    async with ByteServer(stream("openai", events)) as server, opened(server, "openai", Lane.DIRECT) as model:
        _, error, _ = await outcome(model, model_request(tools=["look"]))
    assert error is ModelUnavailable


async def test_an_unknown_part_makes_the_model_leave_the_lane() -> None:
    events = anthropic(({"type": "new_block"}, []), TEXT)
    async with ByteServer(stream("anthropic", events)) as server, opened(server, "anthropic", Lane.DIRECT) as model:
        _, error, _ = await outcome(model, model_request())
        assert error is not None
        seen, error, _ = await outcome(model, model_request())
    assert error is None
    assert ["text", "hello"] in seen
