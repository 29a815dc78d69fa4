"""`/metrics`: what the process counts, read with Prometheus's own parser."""

from collections.abc import AsyncIterator
from typing import Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.api.router import ROUTES
from holdfast.bootstrap import open_store
from holdfast.bus.local import LocalBus
from holdfast.control.monitoring import MetricsControl
from holdfast.metrics.meters import MAX_ROUTES, Meters
from holdfast.testing.openai_server import StubOpenAIServer, StubReply, StubToolCall
from tests.api.site import Site, eventually, serve
from tests.api.streams.readers import sse, ws
from tests.architecture.project import ROOT
from tests.scenario.agents.agent_workspace import STAND_IN, AgentWorkspace, call, calling, say

REFERENCE: Final = ROOT / "docs" / "reference" / "metrics.md"
BOT: Final = "scripted:script.json"


class Numbers:
    """What was read at one moment."""

    def __init__(self, text: str) -> None:
        self.families = list(text_string_to_metric_families(text))
        self._values = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families
            for sample in family.samples
        }

    def of(self, name: str, **labels: str) -> float:
        """Return one number; what was never counted is 0."""
        return self._values.get((name, frozenset(labels.items())), 0)

    def labels(self, name: str, label: str) -> set[str]:
        """Return the values of a label."""
        return {dict(labels)[label] for found, labels in self._values if found == name}


@pytest.fixture(scope="module")
async def provider() -> AsyncIterator[StubOpenAIServer]:
    async with StubOpenAIServer(
        default_reply=StubReply(text="hello", input_tokens=20, output_tokens=8, cached_tokens=5)
    ) as server:
        yield server


@pytest.fixture(scope="module")
async def shop(tmp_path_factory: pytest.TempPathFactory, provider: StubOpenAIServer) -> AsyncIterator[Site]:
    """Yield a server whose agents talk, use tools, wait and stall."""
    folder = tmp_path_factory.mktemp("metrics")
    workshop = AgentWorkspace(folder / "workspace", folder / "holdfast.db")
    workshop.provider(provider)
    workshop.agent(say("hello you", usage={"input_tokens": 7, "output_tokens": 2}))
    tools = [call("todo_read"), call("plan_start", task_id=9)]
    workshop.agent(calling(*tools), say("done"), name="user", tools=["todo_read", "plan_start"])
    workshop.agent(calling(call("ask_user", question="which?")), say("ok"), name="asker", tools=["ask_user"])
    workshop.agent(say("one moment", stall=True), name="staller")
    workshop.agent({"error": {"code": "MODEL_REFUSED", "message": "no"}}, name="failing")
    workshop.agent(name="unpriced", model=STAND_IN)
    async with serve(workshop) as site:
        yield site


async def numbers(site: Site) -> Numbers:
    response = await site.request("GET", "/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Numbers(response.text)


async def play(site: Site, agent: str) -> tuple[Numbers, Numbers]:
    """Have an agent work, and return what was read before and after."""
    thread, before = await site.thread(agent_type=agent), await numbers(site)
    await site.play(thread)
    return before, await numbers(site)


def grown(moments: tuple[Numbers, Numbers], name: str, **labels: str) -> float:
    before, after = moments
    return after.of(name, **labels) - before.of(name, **labels)


async def test_every_metric_is_in_the_reference_in_its_own_words(shop: Site) -> None:
    for family in (await numbers(shop)).families:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert f"| `{name}` | {family.type} |" in REFERENCE.read_text(), name
        assert family.documentation in REFERENCE.read_text()


async def test_a_run_is_counted_from_its_claim_to_its_end(shop: Site) -> None:
    moments = await play(shop, "bot")
    assert grown(moments, "holdfast_runs_claimed_total") == 1
    assert grown(moments, "holdfast_runs_ended_total", status="completed") == 1
    commits = grown(moments, "holdfast_commits_total", outcome="done")
    assert commits >= 1
    assert grown(moments, "holdfast_commit_seconds_count") == commits
    assert grown(moments, "holdfast_commit_batch_size_sum") == commits


async def test_a_model_call_is_counted_with_what_it_used(shop: Site) -> None:
    moments = await play(shop, "bot")
    assert grown(moments, "holdfast_model_call_seconds_count", model=BOT, outcome="done") == 1
    assert grown(moments, "holdfast_model_tokens_total", model=BOT, kind="input") == 7
    assert grown(moments, "holdfast_model_tokens_total", model=BOT, kind="output") == 2
    assert moments[1].of("holdfast_model_cost_usd_total", model=BOT) == 0
    assert BOT in moments[1].labels("holdfast_model_cost_usd_total", "model")


async def test_a_price_that_is_not_known_is_counted_and_not_taken_for_nothing(shop: Site) -> None:
    moments = await play(shop, "unpriced")
    assert grown(moments, "holdfast_model_calls_unpriced_total", model=STAND_IN) == 1
    assert grown(moments, "holdfast_model_tokens_total", model=STAND_IN, kind="cached_input") == 5
    assert STAND_IN not in moments[1].labels("holdfast_model_cost_usd_total", "model")


async def test_a_call_without_an_agent_is_counted_too(shop: Site) -> None:
    before = await numbers(shop)
    await shop.post("/completions", {"model": STAND_IN, "messages": [{"content": "hi"}]}, expect=200)
    moments = before, await numbers(shop)
    assert grown(moments, "holdfast_model_call_seconds_count", model=STAND_IN, outcome="done") == 1
    assert grown(moments, "holdfast_model_tokens_total", model=STAND_IN, kind="input") == 20


async def test_a_model_that_refuses_is_told_from_one_that_answers(shop: Site) -> None:
    moments = await play(shop, "failing")
    assert grown(moments, "holdfast_model_call_seconds_count", model=BOT, outcome="refused") == 1
    assert grown(moments, "holdfast_runs_ended_total", status="failed") == 1


async def test_tools_are_counted_by_outcome(shop: Site) -> None:
    moments = await play(shop, "user")
    assert grown(moments, "holdfast_tool_call_seconds_count", tool="todo_read", outcome="done") == 1
    assert grown(moments, "holdfast_tool_call_seconds_count", tool="plan_start", outcome="failed") == 1


async def test_a_tool_that_a_model_makes_up_is_no_label(shop: Site, provider: StubOpenAIServer) -> None:
    provider.add_replies(StubReply(calls=[StubToolCall(name="made_up")]))
    moments = await play(shop, "unpriced")
    assert grown(moments, "holdfast_model_call_seconds_count", model=STAND_IN, outcome="done") == 2
    assert "made_up" not in moments[1].labels("holdfast_tool_call_seconds_count", "tool")


async def test_a_run_that_waits_is_counted_among_those_that_have_not_ended(shop: Site) -> None:
    moments = await play(shop, "asker")
    assert grown(moments, "holdfast_runs", status="waiting") == 1
    assert grown(moments, "holdfast_tool_call_seconds_count", tool="ask_user", outcome="waits") == 1
    assert moments[1].of("holdfast_queue_depth", state="ready") == moments[1].of("holdfast_queue_oldest_seconds") == 0


async def test_a_run_that_is_cancelled_is_counted_as_such(shop: Site) -> None:
    thread, before = await shop.thread(agent_type="staller"), await numbers(shop)
    run = await shop.post(f"/api/threads/{thread}/runs", {"input": "go"})

    async def runs() -> bool:
        return (await numbers(shop)).of("holdfast_runs", status="running") == 1

    await eventually(runs)
    await shop.post(f"/api/runs/{run['id']}/cancel", {}, expect=200)
    after = await numbers(shop)
    assert grown((before, after), "holdfast_runs_ended_total", status="cancelled") == 1

    async def cut_off() -> bool:
        now = await numbers(shop)
        return grown((before, now), "holdfast_model_call_seconds_count", model=BOT, outcome="cut_off") == 1

    await eventually(cut_off)


async def test_streams_are_counted_while_they_are_open(shop: Site) -> None:
    run = await shop.post(f"/api/threads/{await shop.thread(agent_type='staller')}/runs", {"input": "go"})
    async with sse(shop.host, f"/api/runs/{run['id']}/sse"), ws(shop.host, f"/api/runs/{run['id']}/ws"):
        now = await numbers(shop)
        assert now.of("holdfast_stream_clients", transport="sse") == 1
        assert now.of("holdfast_stream_clients", transport="websocket") == 1

    async def none_left() -> bool:
        now = await numbers(shop)
        return not any(now.of("holdfast_stream_clients", transport=each) for each in ("sse", "websocket"))

    await eventually(none_left)
    await shop.post(f"/api/runs/{run['id']}/cancel", {}, expect=200)


async def test_requests_are_counted_by_the_route_and_never_by_the_path(shop: Site) -> None:
    before = await numbers(shop)
    for path in ("/api/runs/one", "/api/runs/two", "/nowhere", "/nowhere/else"):
        await shop.get(path, expect=404)
    await shop.request("BREW", "/health")
    moments = before, await numbers(shop)
    route = "/api/runs/{run_id}"
    assert grown(moments, "holdfast_http_requests_total", route=route, method="GET", status="404") == 2
    assert grown(moments, "holdfast_http_request_seconds_count", route=route, method="GET") == 2
    assert grown(moments, "holdfast_http_requests_total", route="unmatched", method="GET", status="404") == 2
    assert moments[1].labels("holdfast_http_requests_total", "method") <= {"GET", "POST", "DELETE", "WS", "other"}


def test_there_is_room_for_every_route() -> None:
    assert len({path for route in ROUTES for path in route.paths}) < MAX_ROUTES


async def test_what_the_gate_refuses_is_counted_too(shop: Site) -> None:
    before = await numbers(shop)
    await shop.request("GET", "/health", headers={"Host": "elsewhere.example"})
    moments = before, await numbers(shop)
    assert grown(moments, "holdfast_http_requests_total", route="unmatched", method="GET", status="403") == 1


async def test_without_a_store_that_answers_the_rest_is_told_all_the_same(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    meters = Meters()
    async with open_store(tmp_path_factory.mktemp("shut") / "holdfast.db", bus=LocalBus(), meters=meters) as store:
        control = MetricsControl(meters, store.run_counts, version="1.2.3")
        up = Numbers(await control.read())
    down = Numbers(await control.read())
    assert (up.of("holdfast_store_up"), down.of("holdfast_store_up")) == (1, 0)
    assert down.of("holdfast_build_info", version="1.2.3") == 1
    assert "holdfast_runs" not in {family.name for family in down.families}
    assert "holdfast_commits" in {family.name for family in down.families}
