"""Failing providers: a model call is retried later, by any worker, or the run fails with a typed error."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from typing import Final

import pytest

from holdfast.agent.model_stream import StreamTimings
from holdfast.agent.run_context import RetryPolicy
from holdfast.domain.events import ToolCallStart
from holdfast.domain.events.custom import RetryScheduled, StatusChanged
from holdfast.domain.instant import millis
from holdfast.domain.limits import MAX_TOKENS_PER_CALL, Usage
from holdfast.domain.message import Role
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.step import Lane, StepState
from holdfast.testing.openai_server import StubFault, StubOpenAIServer, StubReply, StubToolCall
from tests.scenario.agents.agent_workspace import SPACE, STAND_IN, AgentWorkspace, call, calling, say
from tests.scenario.agents.fake_tools import fixed_tool

OUTAGE: Final = {"code": "OVERLOADED", "message": "come back later"}
HOURS: Final = RetryPolicy(first_delay_seconds=3600, max_delay_seconds=3600)
MOMENTS: Final = 20


@pytest.fixture(params=list(Lane))
async def server(workspace: AgentWorkspace, request: pytest.FixtureRequest) -> AsyncIterator[StubOpenAIServer]:
    """Yield a provider that the agent `bot` of the workspace uses, over each lane, with the tool `look`."""
    async with StubOpenAIServer() as stand_in:
        workspace.provider(stand_in, lane=request.param)
        workspace.agent(model=STAND_IN, tools=["look"])
        yield stand_in


def error_code(run: Run) -> str:
    """Return the error code of a failed run."""
    assert run.status is RunStatus.FAILED and run.error is not None, run
    return run.error.code


async def test_the_run_and_the_step_name_the_model_that_answered(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent({"error": OUTAGE}, {"error": OUTAGE}, tools=["look"])
    turns = [calling(call("look")), say("from the second")]
    any_workspace.write("agents/bot/second.json", {"turns": turns})
    any_workspace.configure(model=["scripted:script.json", "scripted:second.json"], tools=["look"])
    async with any_workspace.open(fixed_tool("look", "seen")) as runtime:
        started = await runtime.start()
        run = await runtime.wait_until_ended(started)
        steps = await runtime.steps(run)
    assert (run.output, started.model_used) == ("from the second", None)
    assert (run.model, run.model_used) == ("scripted:script.json", "scripted:second.json")
    assert [step.name for step in steps] == ["scripted:second.json", "look", "scripted:second.json"]


BAD = [
    StubReply(status=429),
    StubReply(status=500),
    StubReply(status=529),
    StubReply(fault=StubFault.HANG_UP),
    *(
        StubReply(text="half an answer", chunks=3, fault=fault, status=500 if fault is StubFault.ERROR else 200)
        for fault in (
            StubFault.CUT,
            StubFault.UNFINISHED,
            StubFault.GARBAGE,
            StubFault.NONSENSE,
            StubFault.ERROR,
            StubFault.STALL,
        )
    ),
    StubReply(fault=StubFault.SILENCE),
]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: str(bad.fault or bad.status))
async def test_a_failed_model_call_is_retried(
    workspace: AgentWorkspace, server: StubOpenAIServer, bad: StubReply
) -> None:
    server.add_replies(bad, StubReply(text="the answer"))
    async with workspace.open(
        fixed_tool("look", "seen"), stream_timings=StreamTimings(idle_timeout_seconds=0.3)
    ) as runtime:
        run = await runtime.run_to_end()
        assert run.output == "the answer"
        assert await runtime.texts(run) == ["user: go", "assistant: the answer"]
        assert [step.state for step in await runtime.steps(run)] == [StepState.FAILED, StepState.DONE]
        reasons = [each for each in await runtime.custom_events(run, StatusChanged) if each.to is RunStatus.QUEUED]
        await runtime.check_abandoned(run)
    assert len(server.requests) == 2
    assert [str(each.reason)[:18] for each in reasons] == ["MODEL_UNAVAILABLE:"]
    assert run.attempt <= 2


async def test_retry_after_of_a_provider_is_respected(workspace: AgentWorkspace, server: StubOpenAIServer) -> None:
    server.add_replies(StubReply(status=429, retry_after="7"))
    async with workspace.open(fixed_tool("look", "seen")) as runtime:
        run = await runtime.start()
        await runtime.wait_for_event(run, lambda event: "MODEL_UNAVAILABLE" in str(event))
        queued = await runtime.get(run)
        assert (queued.status, queued.attempt) == (RunStatus.QUEUED, 0)
        assert queued.wait_until is not None
        assert millis(queued.wait_until) - millis(queued.created_at) >= 7000
        await runtime.runs.cancel(SPACE, run.id)
    assert len(server.requests) == 1


async def test_each_failed_model_call_is_logged_with_the_address_of_its_provider(
    workspace: AgentWorkspace, server: StubOpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.add_replies(*[StubReply(status=503)] * 3)
    policy = RetryPolicy(max_attempts=3, first_delay_seconds=0.01)
    with caplog.at_level(logging.WARNING, logger="holdfast.agent"):
        async with workspace.open(fixed_tool("look", "seen"), retry_policy=policy) as runtime:
            run = await runtime.run_to_end()
    assert error_code(run) == "MODEL_UNAVAILABLE"
    lines = [record.getMessage() for record in caplog.records if record.name == "holdfast.agent"]
    assert all(run.id in line and server.url in line and "503" in line for line in lines)
    assert [line.partition("failed, ")[2].partition(" in a row")[0] for line in lines] == ["1 of 3", "2 of 3", "3 of 3"]
    assert ["next in" in line for line in lines] == [True, True, False]


async def test_a_provider_that_nobody_listens_for_is_logged_with_the_cause(
    workspace: AgentWorkspace, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://secret:word@127.0.0.1:{closed.getsockname()[1]}/v1"
        workspace.write("settings.json", {"providers": {"local": {"api": "openai", "base_url": url}}})
        workspace.agent(model=STAND_IN)
        async with workspace.open(retry_policy=RetryPolicy(max_attempts=1)) as runtime:
            assert error_code(await runtime.run_to_end()) == "MODEL_UNAVAILABLE"
    (line,) = [record.getMessage() for record in caplog.records if record.name == "holdfast.agent"]
    assert url.replace("secret:word@", "") in line and "secret" not in line
    assert "connection" in line.lower() and "refused" in line.lower()


async def test_a_run_that_waits_for_its_provider_says_so_in_its_stream(
    any_workspace: AgentWorkspace,
) -> None:
    any_workspace.agent(say("half", error=OUTAGE))
    async with any_workspace.open(retry_policy=HOURS) as runtime:
        run = await runtime.start()
        await runtime.wait_for_event(run, lambda event: "holdfast.retry" in str(event))
        waiting = await runtime.get(run)
        (retry,) = await runtime.custom_events(run, RetryScheduled)
        assert waiting.status is RunStatus.QUEUED
        assert waiting.wait_until is not None
        # PostgreSQL adds the delay to its own clock, a moment later.
        assert 0 <= millis(waiting.wait_until) - millis(retry.retry_at) < 60_000
        assert (retry.failures, retry.max_failures) == (1, HOURS.max_attempts)
        assert "come back later" in retry.message
        await runtime.runs.cancel(SPACE, run.id)


@pytest.mark.parametrize("years", ["99999999", "9" * 30, "Fri, 31 Dec 9999 23:59:59 GMT"])
async def test_retry_after_is_limited_to_a_day(workspace: AgentWorkspace, server: StubOpenAIServer, years: str) -> None:
    server.add_replies(StubReply(status=529, retry_after=years))
    async with workspace.open(fixed_tool("look", "seen")) as runtime:
        run = await runtime.start()
        await runtime.wait_for_event(run, lambda event: "MODEL_UNAVAILABLE" in str(event))
        queued = await runtime.get(run)
        assert queued.wait_until is not None
        assert 24 <= (millis(queued.wait_until) - millis(queued.created_at)) / 3_600_000 < 25
        await runtime.runs.cancel(SPACE, run.id)


async def test_retries_back_off_and_stop_at_the_maximum(workspace: AgentWorkspace, server: StubOpenAIServer) -> None:
    server.add_replies(*[StubReply(status=503)] * 9)
    async with workspace.open(
        fixed_tool("look", "seen"), retry_policy=RetryPolicy(max_attempts=4, first_delay_seconds=0.01)
    ) as runtime:
        run = await runtime.run_to_end()
        steps = await runtime.steps(run)
    assert error_code(run) == "MODEL_UNAVAILABLE"
    assert len(server.requests) == len(steps) == 4
    starts = [millis(step.started_at) for step in steps if step.started_at is not None]
    pauses = [later - earlier for earlier, later in zip(starts, starts[1:], strict=False)]
    assert all(pause >= least for pause, least in zip(pauses, (10, 20, 40), strict=True))


async def test_a_success_resets_the_retry_count(workspace: AgentWorkspace, server: StubOpenAIServer) -> None:
    out, look = StubReply(status=500), StubReply(calls=[StubToolCall(name="look")])
    server.add_replies(out, out, look, out, out, StubReply(text="done"))
    async with workspace.open(
        fixed_tool("look", "seen"), retry_policy=RetryPolicy(max_attempts=3, first_delay_seconds=0.01)
    ) as runtime:
        assert (await runtime.run_to_end()).output == "done"


@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_a_refused_model_call_fails_the_run(
    workspace: AgentWorkspace, server: StubOpenAIServer, status: int
) -> None:
    server.add_replies(StubReply(status=status, error_message="no such thing"))
    async with workspace.open(fixed_tool("look", "seen")) as runtime:
        run = await runtime.run_to_end()
        assert [step.state for step in await runtime.steps(run)] == [StepState.FAILED]
        await runtime.events(run)
    assert error_code(run) == "MODEL_REFUSED"
    assert run.error is not None and run.error.iteration == run.iterations == 0
    assert len(server.requests) == 1


@pytest.mark.parametrize("scripted", ["CONTENT_FILTER", "SOMETHING_ELSE"])
async def test_a_scripted_refusal_fails_the_run(workspace: AgentWorkspace, scripted: str) -> None:
    workspace.agent(say("half", error={"code": scripted, "message": "no"}))
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        await runtime.check_abandoned(run)
    assert error_code(run) == "MODEL_REFUSED"
    assert run.error is not None and run.error.details["code"] == scripted


async def test_a_script_that_expects_something_else_says_so(workspace: AgentWorkspace) -> None:
    workspace.agent(calling(call("todo_read")))
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
    assert error_code(run) == "SCRIPT_ERROR"
    assert "it calls `todo_read`" in str(run.error)


async def test_a_model_call_is_retried_by_another_process(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(say("half", error=OUTAGE))
    async with any_workspace.open(retry_policy=RetryPolicy(first_delay_seconds=0.2)) as runtime:
        run = await runtime.start()
        await runtime.wait_for_event(run, lambda event: "come back later" in str(event))
        assert (await runtime.get(run)).wait_until is not None
    any_workspace.script(say("whole"))
    async with any_workspace.open() as runtime:
        assert (await runtime.wait_until_ended(run)).output == "whole"
        await runtime.check_abandoned(run)


async def test_a_message_during_the_backoff_is_part_of_the_retry(workspace: AgentWorkspace) -> None:
    workspace.agent(say("half", error=OUTAGE))
    async with workspace.open(retry_policy=RetryPolicy(first_delay_seconds=0.3)) as runtime:
        run = await runtime.start()
        await runtime.wait_for_event(run, lambda event: "come back later" in str(event))
        await runtime.runs.steer(SPACE, run.id, "still there?")
        workspace.script(say("{$last_user}"))
        assert (await runtime.wait_until_ended(run)).output == "still there?"


async def test_a_run_that_waits_for_a_retry_can_be_cancelled(workspace: AgentWorkspace) -> None:
    workspace.agent(say("half", error=OUTAGE))
    async with workspace.open(retry_policy=HOURS) as runtime:
        run = await runtime.start()
        await runtime.wait_for_event(run, lambda event: "come back later" in str(event))
        await runtime.runs.cancel(SPACE, run.id)
        await runtime.check_abandoned(run)
        assert (await runtime.get(run)).status is RunStatus.CANCELLED


async def test_an_agent_falls_back_on_its_next_model(workspace: AgentWorkspace, server: StubOpenAIServer) -> None:
    server.add_replies(StubReply(status=500))
    workspace.configure(model=[STAND_IN, "scripted:script.json"])
    workspace.script(say("at your service"))
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        steps = await runtime.steps(run)
    assert run.output == "at your service"
    assert [step.state for step in steps] == [StepState.DONE]


async def test_an_agent_falls_back_when_its_model_sends_nothing(workspace: AgentWorkspace) -> None:
    async with (
        StubOpenAIServer(default_reply=StubReply(fault=StubFault.SILENCE)) as silent,
        StubOpenAIServer(StubReply(text="I am")) as other,
    ):
        providers = {"silent": silent, "other": other}
        workspace.write(
            "settings.json",
            {
                "providers": {
                    name: {"api": "openai", "base_url": server.url, "timeout_seconds": 0.3}
                    for name, server in providers.items()
                }
            },
        )
        workspace.agent(model=["silent:one", "other:two"])
        async with workspace.open(retry_policy=RetryPolicy(max_attempts=1)) as runtime:
            assert (await runtime.run_to_end()).output == "I am"


async def test_the_streamed_part_of_an_unfinished_call_is_charged(
    workspace: AgentWorkspace, server: StubOpenAIServer
) -> None:
    server.add_replies(StubReply(text="half an answer " * 20, fault=StubFault.CUT), StubReply(text="whole"))
    async with workspace.open(fixed_tool("look", "seen")) as runtime:
        run = await runtime.run_to_end()
        broken, whole = await runtime.steps(run)
    assert broken.usage is not None and whole.usage is not None
    assert broken.usage.output_tokens > 40
    assert run.usage.output_tokens == broken.usage.output_tokens + whole.usage.output_tokens


@pytest.mark.parametrize("tokens", [2**53, 2**62, 10**25])
async def test_impossible_usage_of_a_provider_does_not_break_the_log(
    any_workspace: AgentWorkspace, tokens: int
) -> None:
    """The call is charged with the maximum usage of a call, and its cost is unknown."""
    reply = StubReply(text="hello", input_tokens=tokens, output_tokens=tokens)
    async with StubOpenAIServer(default_reply=reply) as server:
        any_workspace.provider(server, input_usd_per_million=1, output_usd_per_million=1)
        any_workspace.agent(model=STAND_IN)
        async with any_workspace.open() as runtime:
            run = await runtime.run_to_end()
            await runtime.events(run)
    assert run.output == "hello"
    assert run.usage == Usage(input_tokens=MAX_TOKENS_PER_CALL, output_tokens=MAX_TOKENS_PER_CALL, cost_usd=None)


async def test_an_unfinished_model_call_leaves_no_open_tool_call(
    workspace: AgentWorkspace, server: StubOpenAIServer
) -> None:
    """A provider that numbers its calls gives the same id to the next one."""
    look = StubToolCall(name="look", id="0")
    server.add_replies(
        StubReply(calls=[look], fault=StubFault.CUT),
        StubReply(calls=[look]),
        StubReply(calls=[look]),
        StubReply(text="done"),
    )
    tool = fixed_tool("look", "seen")
    async with workspace.open(tool) as runtime:
        run = await runtime.run_to_end()
        messages, events = await runtime.messages(run), await runtime.events(run)
    assert run.output == "done"
    assert len(tool.calls) == 2
    call_ids = [each.id for message in messages for each in message.tool_calls]
    assert len(set(call_ids)) == 2
    assert [message.tool_call_id for message in messages if message.role is Role.TOOL] == call_ids
    streamed = [event.tool_call_id for event in events if isinstance(event, ToolCallStart)]
    assert set(call_ids) < set(streamed)


async def test_the_log_is_valid_wherever_a_stream_breaks_off(any_workspace: AgentWorkspace) -> None:
    """Chunks arrive while commits are in progress, and then the call fails."""
    for number in range(MOMENTS):
        any_workspace.agent(
            say("a few words", chunks=1 + number % 4, delay_ms=number / 4, error=OUTAGE), name=f"b{number}"
        )
    async with any_workspace.open(
        retry_policy=RetryPolicy(max_attempts=2, first_delay_seconds=0.01),
        stream_timings=StreamTimings(commit_seconds=0.001),
    ) as runtime:
        runs = await asyncio.gather(*(runtime.run_to_end(agent=f"b{number}") for number in range(MOMENTS)))
        for run in runs:
            assert error_code(run) == "MODEL_UNAVAILABLE"
            await runtime.check_abandoned(run)


async def test_any_model_output_can_be_stored(any_workspace: AgentWorkspace) -> None:
    text = "nul \x00, line \u2028, emoji \N{SMILING FACE WITH SUNGLASSES}"
    looking = StubToolCall(name="look", arguments={"at": text})
    async with StubOpenAIServer(StubReply(text=text, think=text, calls=[looking]), StubReply(text=text)) as server:
        any_workspace.provider(server)
        any_workspace.agent(model=STAND_IN, tools=["look"])
        tool = fixed_tool("look", text)
        async with any_workspace.open(tool) as runtime:
            run = await runtime.run_to_end(text)
            messages = await runtime.messages(run)
            await runtime.events(run)
    assert run.output == text
    assert messages[1].tool_calls[0].arguments == {"at": text}
    assert messages[1].metadata["thinking"] == text
