"""Spans of real runs, by the GenAI semantic conventions."""

import json
from pathlib import Path

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from holdfast.domain.events import TextMessageContent
from holdfast.domain.run import RunStatus
from holdfast.telemetry.run_spans import run_span_id, run_trace_id
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace, call, calling, say
from tests.unit.telemetry.spans import Recorded, about, is_below


@pytest.fixture
def workshop(tmp_path: Path) -> AgentWorkspace:
    return AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db")


@pytest.fixture
def recorded() -> Recorded:
    return Recorded(version="1.2.3")


async def test_the_spans_of_a_run_its_model_calls_and_its_tools_are_one_tree(
    workshop: AgentWorkspace, recorded: Recorded
) -> None:
    usage = {"input_tokens": 7, "output_tokens": 2}
    workshop.agent(calling(call("todo_read"), usage=usage), say("done", usage=usage), tools=["todo_read"])
    async with workshop.open(tracing=recorded.tracing) as floor:
        run = await floor.run_to_end()
    work, tool, chats = (
        recorded.one("invoke_agent bot"),
        recorded.one("execute_tool todo_read"),
        recorded.named("chat script.json"),
    )
    assert (work.parent, work.context.trace_id) == (None, run_trace_id(SPACE, run.id))
    assert all(is_below(span, work) for span in (tool, *chats))
    assert (work.kind, tool.kind, {chat.kind for chat in chats}) == (
        SpanKind.INTERNAL,
        SpanKind.INTERNAL,
        {SpanKind.CLIENT},
    )
    assert about(work) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "bot",
        "gen_ai.conversation.id": run.thread_id,
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "script.json",
        "gen_ai.usage.input_tokens": 14,
        "gen_ai.usage.output_tokens": 4,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "holdfast.usage.cost_usd": 0.0,
        "holdfast.run.id": run.id,
        "holdfast.space.id": SPACE,
        "holdfast.lease.number": 1,
        "holdfast.run.status": "completed",
    }
    assert about(tool) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "todo_read",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": about(tool)["gen_ai.tool.call.id"],
        "holdfast.run.id": run.id,
        "holdfast.tool.outcome": "done",
    }
    assert [about(chat)["gen_ai.response.finish_reasons"] for chat in chats] == [("tool_calls",), ("stop",)]
    assert about(chats[1]) | {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 7} == about(chats[1])
    assert {span.resource.attributes["service.name"] for span in recorded.all()} == {"holdfast"}
    assert {span.resource.attributes["service.version"] for span in recorded.all()} == {"1.2.3"}


async def test_spans_of_a_child_run_are_below_its_parents_span(workshop: AgentWorkspace, recorded: Recorded) -> None:
    workshop.agent(say("helped"), name="helper")
    workshop.agent(calling(call("agent_spawn", agent="helper", input="help")), say("done"), tools=["agent_spawn"])
    async with workshop.open(tracing=recorded.tracing) as floor:
        run = await floor.run_to_end()
    first, again = sorted(recorded.named("invoke_agent bot"), key=lambda span: span.start_time or 0)
    child = recorded.one("invoke_agent helper")
    assert {span.context.trace_id for span in recorded.all()} == {run_trace_id(SPACE, run.id)}
    assert is_below(child, first) and is_below(again, first)
    assert first.context.span_id == run_span_id(SPACE, run.id)
    assert (about(first)["holdfast.run.status"], about(again)["holdfast.run.status"]) == ("waiting", "completed")
    assert [about(span)["holdfast.tool.outcome"] for span in recorded.named("execute_tool agent_spawn")] == [
        "waits",
        "done",
    ]


async def test_a_run_that_another_process_continues_stays_in_its_trace(workshop: AgentWorkspace) -> None:
    before, after = Recorded(), Recorded()
    workshop.agent(calling(call("ask_user", question="which?")), say("done"), tools=["ask_user"])
    async with workshop.open(tracing=before.tracing) as floor:
        run = await floor.start()
        (question,) = await floor.wait_for_interrupts(run)
        await floor.wait_for_status(run, RunStatus.WAITING)
    async with workshop.open(tracing=after.tracing) as floor:
        await floor.runs.respond(SPACE, run.id, response="this", interrupt=question.id)
        await floor.wait_until_ended(run)
    assert is_below(after.one("invoke_agent bot"), before.one("invoke_agent bot"))


async def test_spans_have_content_only_if_it_is_enabled(workshop: AgentWorkspace) -> None:
    plain, with_content = Recorded(), Recorded(capture_content=True)
    workshop.agent(
        calling(call("todo_write", items=[{"title": "sesame"}]), say="opening"), say("sesame"), tools=["todo_write"]
    )
    for recorded in (plain, with_content):
        async with workshop.open(tracing=recorded.tracing) as floor:
            await floor.run_to_end("sesame?")
    assert not [span for span in plain.all() if "sesame" in str(about(span)) or span.events]
    first, last = with_content.named("chat script.json")
    assert json.loads(about(first)["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "sesame?"}]}
    ]
    assert "Do as you are told." in json.loads(about(first)["gen_ai.system_instructions"])[0]["content"]
    (told,) = json.loads(about(first)["gen_ai.output.messages"])
    assert (told["role"], told["finish_reason"]) == ("assistant", "tool_call")
    assert {"type": "text", "content": "opening"} in told["parts"]
    assert [part["name"] for part in told["parts"] if part["type"] == "tool_call"] == ["todo_write"]
    assert [message["role"] for message in json.loads(about(last)["gen_ai.input.messages"])] == [
        "user",
        "assistant",
        "tool",
    ]
    tool = about(with_content.one("execute_tool todo_write"))
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"items": [{"title": "sesame"}]}
    assert "gen_ai.tool.call.result" in tool


async def test_the_span_of_a_failed_run_has_a_code_and_no_message(workshop: AgentWorkspace, recorded: Recorded) -> None:
    workshop.agent({"error": {"code": "MODEL_REFUSED", "message": "the word is sesame"}})
    async with workshop.open(tracing=recorded.tracing) as floor:
        await floor.run_to_end()
    for name in ("chat script.json", "invoke_agent bot"):
        span = recorded.one(name)
        assert (about(span)["error.type"], span.status.status_code) == ("MODEL_REFUSED", StatusCode.ERROR)
        assert "sesame" not in f"{about(span)} {span.status.description} {span.events}"


async def test_a_cancelled_run_ends_its_spans(workshop: AgentWorkspace, recorded: Recorded) -> None:
    workshop.agent(say("one moment", stall=True))
    async with workshop.open(tracing=recorded.tracing) as floor:
        run = await floor.start()
        await floor.wait_for_event(run, lambda event: isinstance(event, TextMessageContent))
        await floor.runs.cancel(SPACE, run.id)
    for name in ("chat script.json", "invoke_agent bot"):
        assert about(recorded.one(name))["error.type"] == "cut_off"


async def test_a_sampler_decides_for_a_whole_tree(workshop: AgentWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    recorded = Recorded()
    workshop.agent(say("helped"), name="helper")
    workshop.agent(calling(call("agent_spawn", agent="helper", input="help")), say("done"), tools=["agent_spawn"])
    async with workshop.open(tracing=recorded.tracing) as floor:
        runs = [await floor.run_to_end() for _ in range(8)]
    seen = {span.context.trace_id: 0 for span in recorded.all()}
    for span in recorded.all():
        seen[span.context.trace_id] += 1
    assert set(seen) <= {run_trace_id(SPACE, run.id) for run in runs}
    assert len(set(seen.values())) <= 1, "a trace is whole, or there is none of it"


async def test_the_environment_can_disable_spans(workshop: AgentWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    recorded = Recorded()
    workshop.agent(say("done"))
    async with workshop.open(tracing=recorded.tracing) as floor:
        assert (await floor.run_to_end()).status is RunStatus.COMPLETED
    assert recorded.all() == ()
