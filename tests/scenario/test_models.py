"""A stub provider over a real connection, on both lanes: its responses and every fault.

Nothing here may hang, and nothing is tried again behind our back: each call is one request.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.domain.errors import ContextOverflow, HoldfastError, ModelRefused, ModelUnavailable
from holdfast.domain.limits import Usage
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.model_provider import ProviderSettings
from holdfast.domain.step import Lane
from holdfast.models.messages import PROVIDER_METADATA_KEY
from holdfast.models.registry import ModelRegistry
from holdfast.ports.model import Model, ModelDelta, TextDelta
from holdfast.testing.openai_server import StubFault, StubOpenAIServer, StubReply, StubToolCall
from tests.builders import user
from tests.unit.models.model_calls import CALL_TIMEOUT_SECONDS, calls, deltas, finished, model_request, text, thoughts

NAME = "local:some-model"
AT_ONCE = (StubFault.HANG_UP, StubFault.SILENCE, StubFault.PAGE)


class LaneServer(StubOpenAIServer):
    """A provider whose models take one of the lanes."""

    lane = Lane.DIRECT


@pytest.fixture(params=list(Lane))
async def server(request: pytest.FixtureRequest) -> AsyncIterator[LaneServer]:
    """Yield a provider without replies."""
    async with LaneServer() as stand_in:
        stand_in.lane = request.param
        yield stand_in


@pytest.fixture
async def model(server: LaneServer) -> AsyncIterator[Model]:
    """Yield a model of the provider."""
    async with _models(server) as models:
        yield models.find(NAME)


@pytest.fixture
async def short_timeout_model(server: LaneServer) -> AsyncIterator[Model]:
    """Yield a model of the provider with a short timeout."""
    async with _models(server, timeout_seconds=1) as models:
        yield models.find(NAME)


async def test_a_response_is_streamed(server: LaneServer, model: Model) -> None:
    server.add_replies(
        StubReply(text="hello, world", chunks=4, think="hm", input_tokens=20, output_tokens=8, cached_tokens=5)
    )
    streamed = await deltas(model)
    assert (thoughts(streamed), text(streamed)) == ("hm", "hello, world")
    assert finished(streamed).lane is server.lane
    assert finished(streamed).usage == Usage(input_tokens=20, output_tokens=8, cached_input_tokens=5, cost_usd=None)


async def test_interleaved_calls_with_arguments_in_pieces_are_joined(server: LaneServer, model: Model) -> None:
    first = StubToolCall(name="look", arguments={"at": "the sea", "for": [1, 2]}, chunks=5)
    server.add_replies(StubReply(text="I will", calls=[first, StubToolCall(name="jump")]))
    streamed = await deltas(model, model_request(tools=["look", "jump"]))
    assert calls(streamed) == [("look", {"at": "the sea", "for": [1, 2]}), ("jump", {})]
    assert finished(streamed).reason == "tool_calls"
    assert [tool["function"]["name"] for tool in server.requests[0]["tools"]] == ["look", "jump"]


async def test_numbered_call_ids_are_made_unique(server: LaneServer, model: Model) -> None:
    server.add_replies(StubReply(calls=[StubToolCall(name="look", id="0"), StubToolCall(name="look", id="0")]))
    assert len(calls(await deltas(model, model_request(tools=["look"])))) == 2


async def test_reasoning_is_sent_back_with_its_response(server: LaneServer, model: Model) -> None:
    server.add_replies(StubReply(text="so", think="hm"), StubReply(text="ok"))
    streamed = await deltas(model)
    answer = NewMessage(
        role=Role.ASSISTANT, content="so", metadata={PROVIDER_METADATA_KEY: finished(streamed).provider_data}
    )
    await deltas(model, model_request(user("hi"), answer, user("go on")))
    assert "hm" in str(server.requests[1]["messages"])


@pytest.mark.parametrize(("finish", "reason"), [("length", "length"), ("content_filter", "refused"), ("eos", "stop")])
async def test_the_finish_reason_is_converted(server: LaneServer, model: Model, finish: str, reason: str) -> None:
    server.add_replies(StubReply(text="so far", finish=finish))
    assert finished(await deltas(model)).reason == reason


async def test_the_text_of_a_refusal_is_returned(server: LaneServer, model: Model) -> None:
    server.add_replies(StubReply(refusal="not this"))
    streamed = await deltas(model)
    assert (text(streamed), finished(streamed).reason) == ("not this", "refused")


@pytest.mark.filterwarnings("ignore:Failed to extract usage")
async def test_missing_or_implausible_usage_has_no_cost(server: LaneServer) -> None:
    server.add_replies(
        StubReply(text="x"), StubReply(text="x", input_tokens=None), StubReply(text="x", input_tokens=-7)
    )
    async with _models(server, input_usd_per_million=1, output_usd_per_million=2) as models:
        reported, missing, implausible = [finished(await deltas(models.find(NAME))).usage for _ in range(3)]
    assert reported.cost_usd == pytest.approx((10 * 1 + 5 * 2) / 1_000_000)
    assert missing == implausible == Usage(cost_usd=None)


@pytest.mark.parametrize(
    ("reply", "kind", "details"),
    [
        (StubReply(status=429, retry_after="7"), ModelUnavailable, {"status": 429, "retry_after": 7.0}),
        (StubReply(status=529, retry_after="3"), ModelUnavailable, {"status": 529, "retry_after": 3.0}),
        (StubReply(status=408), ModelUnavailable, {"status": 408}),
        (StubReply(status=500), ModelUnavailable, {"status": 500}),
        (StubReply(status=502), ModelUnavailable, {"status": 502}),
        (StubReply(status=503, retry_after="1"), ModelUnavailable, {"status": 503, "retry_after": 1.0}),
        (StubReply(status=504), ModelUnavailable, {"status": 504}),
        (StubReply(status=429, error_code="insufficient_quota"), ModelUnavailable, {"status": 429}),
        (StubReply(status=400, error_code="context_length_exceeded"), ContextOverflow, {"status": 400}),
        (
            StubReply(status=400, error_message="maximum context length is 8192 tokens"),
            ContextOverflow,
            {"status": 400},
        ),
        (StubReply(status=413), ContextOverflow, {"status": 413}),
        (StubReply(status=400, error_message="no such setting"), ModelRefused, {"status": 400}),
        (StubReply(status=401), ModelRefused, {"status": 401}),
        (StubReply(status=403), ModelRefused, {"status": 403}),
        (StubReply(status=404, error_code="model_not_found"), ModelRefused, {"status": 404}),
    ],
)
async def test_a_status_is_one_of_our_errors_after_one_request(
    server: LaneServer, model: Model, reply: StubReply, kind: type[HoldfastError], details: dict[str, Any]
) -> None:
    server.add_replies(reply)
    streamed, error = await _call_until_error(model)
    assert streamed == []
    assert type(error) is kind
    assert {key: error.details.get(key) for key in details} == details
    assert NAME in error.message
    assert len(server.requests) == 1


@pytest.mark.parametrize("fault", StubFault)
async def test_any_fault_in_a_response_is_an_outage_after_its_text(
    server: LaneServer, short_timeout_model: Model, fault: StubFault
) -> None:
    server.add_replies(StubReply(text="so far", chunks=2, fault=fault, status=500))
    streamed, error = await _call_until_error(short_timeout_model)
    assert type(error) is ModelUnavailable
    assert text(streamed) == ("" if fault in AT_ONCE else "so far")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "fault", [StubFault.CUT, StubFault.GARBAGE, StubFault.NONSENSE, StubFault.UNFINISHED, StubFault.STALL]
)
async def test_a_fault_before_the_first_text_is_an_outage(
    server: LaneServer, short_timeout_model: Model, fault: StubFault
) -> None:
    server.add_replies(StubReply(fault=fault))
    streamed, error = await _call_until_error(short_timeout_model)
    assert (streamed, type(error)) == ([], ModelUnavailable)


async def test_truncated_calls_are_an_outage(server: LaneServer, model: Model) -> None:
    server.add_replies(
        StubReply(calls=[StubToolCall(name="look", arguments={"at": 1}, chunks=3)], fault=StubFault.UNFINISHED)
    )
    _, error = await _call_until_error(model)
    assert type(error) is ModelUnavailable


async def test_a_slow_stream_does_not_time_out(server: LaneServer, short_timeout_model: Model) -> None:
    server.add_replies(StubReply(text="slowly but surely", chunks=8, delay_ms=150))
    assert text(await deltas(short_timeout_model)) == "slowly but surely"


async def test_an_unreachable_server_is_an_outage() -> None:
    async with LaneServer() as closed_server:
        pass
    async with _models(closed_server) as models:
        _, error = await _call_until_error(models.find(NAME))
    assert type(error) is ModelUnavailable


async def test_after_every_fault_the_next_call_is_served(server: LaneServer, short_timeout_model: Model) -> None:
    for fault in StubFault:
        server.add_replies(StubReply(text="so far", fault=fault, status=500), StubReply(text="well again"))
        await _call_until_error(short_timeout_model)
        assert text(await deltas(short_timeout_model)) == "well again"


async def test_an_abandoned_call_closes_its_connection(server: LaneServer, model: Model) -> None:
    server.add_replies(StubReply(text="hello", fault=StubFault.STALL))
    async with asyncio.timeout(CALL_TIMEOUT_SECONDS):
        async with model.stream(model_request()) as stream:
            assert await anext(stream) == TextDelta("hello")
            assert server.open_connections == 1
        await server.wait_until(_wait_until_disconnected)


@pytest.mark.parametrize("fault", [StubFault.SILENCE, StubFault.STALL])
async def test_a_cancelled_call_closes_its_connection(server: LaneServer, model: Model, fault: StubFault) -> None:
    server.add_replies(StubReply(text="hello", fault=fault))
    async with asyncio.timeout(CALL_TIMEOUT_SECONDS):
        calling = asyncio.ensure_future(deltas(model))
        await server.wait_until(lambda it: len(it.requests) == 1)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await server.wait_until(_wait_until_disconnected)


async def test_a_closed_registry_leaves_no_connection_open(server: LaneServer) -> None:
    server.add_replies(StubReply(text="one"), StubReply(text="two"))
    async with _models(server) as models:
        await deltas(models.find(NAME))
        await deltas(models.find(NAME))
        assert server.open_connections == 1  # kept alive for the next call
    async with asyncio.timeout(CALL_TIMEOUT_SECONDS):
        await server.wait_until(_wait_until_disconnected)


async def test_the_next_model_answers_when_the_first_is_down(server: LaneServer) -> None:
    server.add_replies(StubReply(status=529), StubReply(text="from the second"))
    async with _models(server) as models:
        assert text(await deltas(models.fallback(["local:first", "local:second"]))) == "from the second"
    assert [request["model"] for request in server.requests] == ["first", "second"]


async def test_the_key_is_read_from_its_variable(monkeypatch: pytest.MonkeyPatch, server: LaneServer) -> None:
    monkeypatch.setenv("HOUSE_KEY", "not-the-right-one")
    server.add_replies(StubReply(status=401))
    async with _models(server, api_key_env="HOUSE_KEY") as models:
        _, error = await _call_until_error(models.find(NAME))
    assert type(error) is ModelRefused
    assert "`HOUSE_KEY`" in error.message
    assert "not-the-right-one" not in error.message
    assert server.keys == ["not-the-right-one"]


def _models(server: LaneServer, **settings: Any) -> ModelRegistry:
    providers = {"local": ProviderSettings(api="openai", base_url=server.url, **settings)}
    return ModelRegistry(providers, direct_lane_off=["local"] if server.lane is Lane.LIBRARY else [])


async def _call_until_error(model: Model) -> tuple[list[ModelDelta], HoldfastError]:
    """Return the deltas of a call before it failed, and its error."""
    streamed: list[ModelDelta] = []
    with pytest.raises(HoldfastError) as caught:
        async with asyncio.timeout(CALL_TIMEOUT_SECONDS), model.stream(model_request(tools=["look"])) as stream:
            async for delta in stream:
                streamed.append(delta)
    return streamed, caught.value


def _wait_until_disconnected(server: LaneServer) -> bool:
    return server.open_connections == 0
