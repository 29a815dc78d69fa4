"""`/metrics`, read with the parser of Prometheus."""

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


class MetricsSample:
    """The metrics of one request."""

    def __init__(self, text: str) -> None:
        self.families = list(text_string_to_metric_families(text))
        self._values = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        """Return the value of a sample, or 0 if there is none."""
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
async def metrics_site(tmp_path_factory: pytest.TempPathFactory, provider: StubOpenAIServer) -> AsyncIterator[Site]:
    """Yield a server whose agents respond, call tools, wait and stall."""
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


async def read_metrics(site: Site) -> MetricsSample:
    response = await site.request("GET", "/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return MetricsSample(response.text)


async def play(site: Site, agent: str) -> tuple[MetricsSample, MetricsSample]:
    """Run an agent, and return the metrics before and after."""
    thread, before = await site.thread(agent_type=agent), await read_metrics(site)
    await site.play(thread)
    return before, await read_metrics(site)


def growth(samples: tuple[MetricsSample, MetricsSample], name: str, **labels: str) -> float:
    before, after = samples
    return after.value(name, **labels) - before.value(name, **labels)


async def test_every_metric_is_in_the_reference_with_its_description(metrics_site: Site) -> None:
    for family in (await read_metrics(metrics_site)).families:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert f"| `{name}` | {family.type} |" in REFERENCE.read_text(), name
        assert family.documentation in REFERENCE.read_text()


async def test_a_run_is_counted_from_its_claim_to_its_end(metrics_site: Site) -> None:
    samples = await play(metrics_site, "bot")
    assert growth(samples, "holdfast_runs_claimed_total") == 1
    assert growth(samples, "holdfast_runs_ended_total", status="completed") == 1
    commits = growth(samples, "holdfast_commits_total", outcome="done")
    assert commits >= 1
    assert growth(samples, "holdfast_commit_seconds_count") == commits
    assert growth(samples, "holdfast_commit_batch_size_sum") == commits


async def test_a_model_call_is_counted_with_its_usage(metrics_site: Site) -> None:
    samples = await play(metrics_site, "bot")
    assert growth(samples, "holdfast_model_call_seconds_count", model=BOT, outcome="done") == 1
    assert growth(samples, "holdfast_model_tokens_total", model=BOT, kind="input") == 7
    assert growth(samples, "holdfast_model_tokens_total", model=BOT, kind="output") == 2
    assert samples[1].value("holdfast_model_cost_usd_total", model=BOT) == 0
    assert BOT in samples[1].labels("holdfast_model_cost_usd_total", "model")


async def test_a_call_with_an_unknown_price_is_counted_and_not_priced_at_zero(metrics_site: Site) -> None:
    samples = await play(metrics_site, "unpriced")
    assert growth(samples, "holdfast_model_calls_unpriced_total", model=STAND_IN) == 1
    assert growth(samples, "holdfast_model_tokens_total", model=STAND_IN, kind="cached_input") == 5
    assert STAND_IN not in samples[1].labels("holdfast_model_cost_usd_total", "model")


async def test_a_model_call_without_an_agent_is_counted(metrics_site: Site) -> None:
    before = await read_metrics(metrics_site)
    await metrics_site.post("/completions", {"model": STAND_IN, "messages": [{"content": "hi"}]}, expect=200)
    samples = before, await read_metrics(metrics_site)
    assert growth(samples, "holdfast_model_call_seconds_count", model=STAND_IN, outcome="done") == 1
    assert growth(samples, "holdfast_model_tokens_total", model=STAND_IN, kind="input") == 20


async def test_a_refused_model_call_is_counted_as_refused(metrics_site: Site) -> None:
    samples = await play(metrics_site, "failing")
    assert growth(samples, "holdfast_model_call_seconds_count", model=BOT, outcome="refused") == 1
    assert growth(samples, "holdfast_runs_ended_total", status="failed") == 1


async def test_tools_are_counted_by_outcome(metrics_site: Site) -> None:
    samples = await play(metrics_site, "user")
    assert growth(samples, "holdfast_tool_call_seconds_count", tool="todo_read", outcome="done") == 1
    assert growth(samples, "holdfast_tool_call_seconds_count", tool="plan_start", outcome="failed") == 1


async def test_an_unknown_tool_name_does_not_become_a_label(metrics_site: Site, provider: StubOpenAIServer) -> None:
    provider.add_replies(StubReply(calls=[StubToolCall(name="made_up")]))
    samples = await play(metrics_site, "unpriced")
    assert growth(samples, "holdfast_model_call_seconds_count", model=STAND_IN, outcome="done") == 2
    assert "made_up" not in samples[1].labels("holdfast_tool_call_seconds_count", "tool")


async def test_a_waiting_run_is_counted_as_waiting(metrics_site: Site) -> None:
    samples = await play(metrics_site, "asker")
    assert growth(samples, "holdfast_runs", status="waiting") == 1
    assert growth(samples, "holdfast_tool_call_seconds_count", tool="ask_user", outcome="waits") == 1
    assert (
        samples[1].value("holdfast_queue_depth", state="ready")
        == samples[1].value("holdfast_queue_oldest_seconds")
        == 0
    )


async def test_a_cancelled_run_is_counted_as_cancelled(metrics_site: Site) -> None:
    thread, before = await metrics_site.thread(agent_type="staller"), await read_metrics(metrics_site)
    run = await metrics_site.post(f"/api/threads/{thread}/runs", {"input": "go"})

    async def runs() -> bool:
        return (await read_metrics(metrics_site)).value("holdfast_runs", status="running") == 1

    await eventually(runs)
    await metrics_site.post(f"/api/runs/{run['id']}/cancel", {}, expect=200)
    after = await read_metrics(metrics_site)
    assert growth((before, after), "holdfast_runs_ended_total", status="cancelled") == 1

    async def cut_off() -> bool:
        now = await read_metrics(metrics_site)
        return growth((before, now), "holdfast_model_call_seconds_count", model=BOT, outcome="cut_off") == 1

    await eventually(cut_off)


async def test_streams_are_counted_while_they_are_open(metrics_site: Site) -> None:
    run = await metrics_site.post(
        f"/api/threads/{await metrics_site.thread(agent_type='staller')}/runs", {"input": "go"}
    )
    async with sse(metrics_site.host, f"/api/runs/{run['id']}/sse"), ws(metrics_site.host, f"/api/runs/{run['id']}/ws"):
        now = await read_metrics(metrics_site)
        assert now.value("holdfast_stream_clients", transport="sse") == 1
        assert now.value("holdfast_stream_clients", transport="websocket") == 1

    async def none_left() -> bool:
        now = await read_metrics(metrics_site)
        return not any(now.value("holdfast_stream_clients", transport=each) for each in ("sse", "websocket"))

    await eventually(none_left)
    await metrics_site.post(f"/api/runs/{run['id']}/cancel", {}, expect=200)


async def test_requests_are_counted_by_route_and_never_by_path(metrics_site: Site) -> None:
    before = await read_metrics(metrics_site)
    for path in ("/api/runs/one", "/api/runs/two", "/nowhere", "/nowhere/else"):
        await metrics_site.get(path, expect=404)
    await metrics_site.request("BREW", "/health")
    samples = before, await read_metrics(metrics_site)
    route = "/api/runs/{run_id}"
    assert growth(samples, "holdfast_http_requests_total", route=route, method="GET", status="404") == 2
    assert growth(samples, "holdfast_http_request_seconds_count", route=route, method="GET") == 2
    assert growth(samples, "holdfast_http_requests_total", route="unmatched", method="GET", status="404") == 2
    assert samples[1].labels("holdfast_http_requests_total", "method") <= {"GET", "POST", "DELETE", "WS", "other"}


def test_the_route_limit_of_the_metrics_covers_every_route() -> None:
    assert len({path for route in ROUTES for path in route.paths}) < MAX_ROUTES


async def test_requests_that_the_host_check_refuses_are_counted(metrics_site: Site) -> None:
    before = await read_metrics(metrics_site)
    await metrics_site.request("GET", "/health", headers={"Host": "elsewhere.example"})
    samples = before, await read_metrics(metrics_site)
    assert growth(samples, "holdfast_http_requests_total", route="unmatched", method="GET", status="403") == 1


async def test_metrics_of_the_process_are_returned_while_the_store_is_down(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    meters = Meters()
    async with open_store(tmp_path_factory.mktemp("shut") / "holdfast.db", bus=LocalBus(), meters=meters) as store:
        control = MetricsControl(meters, store.run_counts, version="1.2.3")
        up = MetricsSample(await control.read())
    down = MetricsSample(await control.read())
    assert (up.value("holdfast_store_up"), down.value("holdfast_store_up")) == (1, 0)
    assert down.value("holdfast_build_info", version="1.2.3") == 1
    assert "holdfast_runs" not in {family.name for family in down.families}
    assert "holdfast_commits" in {family.name for family in down.families}
