"""Limits of a run: iterations, duration, tokens and cost. An exceeded limit is a typed error."""

import asyncio
from datetime import timedelta
from typing import Final

import pytest

from holdfast.agent.model_step import MAX_ABANDONED_CALLS
from holdfast.agent.run_context import RetryPolicy
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.events.custom import StepChanged
from holdfast.domain.limits import Limits
from holdfast.domain.message import Role
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.step import StepState
from holdfast.domain.tool import ToolClass
from holdfast.testing.clock import HeldClock
from holdfast.testing.openai_server import StubOpenAIServer, StubReply, StubToolCall
from tests.scenario.agents.agent_workspace import SPACE, STAND_IN, AgentRuntime, AgentWorkspace, call, calling, say
from tests.scenario.agents.fake_tools import BlockingTool, fixed_tool

NOTE: Final = call("log_write", message="x")
USED: Final = {"input_tokens": 90, "output_tokens": 10}
CHILDREN: Final = 20
PRICES: Final[dict[str, Json]] = {"input_usd_per_million": 1000.0, "output_usd_per_million": 1000.0}
"""A call of ten tokens in and five out costs 0.015 dollars."""


def failed(run: Run) -> str:
    """Return the error of a failed run."""
    assert run.status is RunStatus.FAILED and run.error is not None, run
    return run.error.code


def notes(number: int) -> list[dict[str, Json]]:
    """Return turns that each write a different note."""
    return [calling(call("log_write", message=f"{index}"), usage=USED) for index in range(number)]


async def test_a_run_fails_at_its_iteration_limit(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(*notes(5), say("done"), tools=["log_write"], limits={"max_iterations": 3})
    async with any_workspace.open() as runtime:
        run = await runtime.run_to_end()
        calls = [message for message in await runtime.messages(run) if message.role is Role.ASSISTANT]
    assert failed(run) == "ITERATION_LIMIT"
    assert run.error is not None and run.error.iteration == 3
    assert run.iterations == len(calls) == 3


async def test_a_run_that_needs_exactly_its_iteration_limit_completes(workspace: AgentWorkspace) -> None:
    workspace.agent(*notes(2), say("done"), tools=["log_write"], limits={"max_iterations": 3})
    async with workspace.open() as runtime:
        assert (await runtime.run_to_end()).output == "done"


async def test_a_model_call_that_the_provider_did_not_serve_uses_up_no_iteration(any_workspace: AgentWorkspace) -> None:
    down, look = StubReply(status=503), StubReply(calls=[StubToolCall(name="look")])
    async with StubOpenAIServer() as server:
        any_workspace.provider(server)
        any_workspace.agent(model=STAND_IN, tools=["look"], limits={"max_iterations": 2})
        server.add_replies(down, down, look, down, StubReply(text="done"))
        retries = RetryPolicy(first_delay_seconds=0.01)
        async with any_workspace.open(fixed_tool("look", "seen"), retry_policy=retries) as runtime:
            run = await runtime.run_to_end()
    assert (run.output, run.iterations, len(server.requests)) == ("done", 2, 5)


async def test_a_model_call_that_a_stopping_worker_abandoned_uses_up_no_iteration(
    any_workspace: AgentWorkspace,
) -> None:
    any_workspace.agent(say("one moment", stall=True), limits={"max_iterations": 1})
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        await runtime.wait_for_event(run, lambda event: "one moment" in str(event))
        runtime.holdfast.engine.drain(timedelta())
    any_workspace.script(say("here it is"))
    async with any_workspace.open() as runtime:
        ended_run = await runtime.wait_until_ended(run)
    assert (ended_run.output, ended_run.iterations) == ("here it is", 1)


async def test_abandoned_model_calls_have_a_limit_of_their_own(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(say("one moment", stall=True))
    run: Run | None = None
    for number in range(1, MAX_ABANDONED_CALLS + 1):
        async with any_workspace.open() as runtime:
            run = run or await runtime.start()
            while len([each for each in await runtime.events(run) if "one moment" in str(each)]) < number:
                await runtime.wait_for_event(run, lambda event: "one moment" in str(event))
            runtime.holdfast.engine.drain(timedelta())
    assert run is not None
    async with any_workspace.open() as runtime:
        ended_run = await runtime.wait_until_ended(run)
        steps = await runtime.steps(run)
        states = [event.state for event in await runtime.custom_events(run, StepChanged)]
    assert failed(ended_run) == "ATTEMPTS_EXHAUSTED"
    assert ended_run.error is not None and f"{MAX_ABANDONED_CALLS} model calls" in ended_run.error.message
    assert [(step.state, step.attempt) for step in steps] == [(StepState.FAILED, MAX_ABANDONED_CALLS)]
    assert states == [*[StepState.STARTED] * MAX_ABANDONED_CALLS, StepState.FAILED]


async def test_a_request_may_set_the_duration_but_not_raise_the_budget(workspace: AgentWorkspace) -> None:
    workspace.agent(*notes(5), say("done"), tools=["log_write"], limits={"max_iterations": 3, "token_budget": 5000})
    async with workspace.open() as runtime:
        tight = await runtime.run_to_end(limits=Limits(max_iterations=1, max_duration_seconds=60))
        loose = await runtime.run_to_end(limits=Limits(max_iterations=100, token_budget=9000))
    assert tight.limits == Limits(max_iterations=1, max_duration_seconds=60, token_budget=5000)
    assert loose.limits == Limits(max_iterations=100, token_budget=5000)
    assert (tight.iterations, loose.iterations) == (1, 6)


async def test_a_run_fails_at_its_maximum_duration(any_workspace: AgentWorkspace, clock: HeldClock) -> None:
    gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
    any_workspace.agent(calling(call("gate")), say("done"), tools=["gate"], limits={"max_duration_seconds": 60})
    async with any_workspace.open(gate, clock=clock, lease=timedelta(days=1)) as runtime:
        run = await runtime.start()
        await gate.started.acquire()
        await runtime.advance(timedelta(seconds=59))
        await runtime.advance(timedelta(seconds=1))
        ended_run = await runtime.wait_until_ended(run)
        assert failed(ended_run) == "DEADLINE_EXCEEDED"
        async with asyncio.timeout(30):
            while gate.cancellations == 0:  # noqa: ASYNC110 - the worker hears of it
                await asyncio.sleep(0.002)
        await runtime.events(run)


async def test_waiting_for_a_person_does_not_count_as_duration(any_workspace: AgentWorkspace, clock: HeldClock) -> None:
    ask = calling(call("ask_user", question="?"))
    any_workspace.agent(ask, ask, say("done"), tools=["ask_user"], limits={"max_duration_seconds": 60})
    async with any_workspace.open(clock=clock, lease=timedelta(days=1000)) as runtime:
        run = await runtime.start()
        for _ in range(2):
            await runtime.wait_for_interrupts(run)
            await runtime.wait_for_status(run, RunStatus.WAITING)
            await runtime.advance(timedelta(days=2))
            await runtime.runs.respond(SPACE, run.id, "yes")
        assert (await runtime.wait_until_ended(run)).output == "done"


async def test_sleeping_counts_as_duration(workspace: AgentWorkspace, clock: HeldClock) -> None:
    nap = calling(call("sleep", seconds=3600))
    workspace.agent(nap, say("done"), tools=["sleep"], limits={"max_duration_seconds": 60})
    async with workspace.open(clock=clock, lease=timedelta(days=1)) as runtime:
        run = await runtime.start()
        await runtime.wait_for_status(run, RunStatus.WAITING)
        await runtime.advance(timedelta(seconds=60))
        assert failed(await runtime.wait_until_ended(run)) == "DEADLINE_EXCEEDED"


async def test_the_deadline_of_a_parent_ends_its_children(workspace: AgentWorkspace, clock: HeldClock) -> None:
    spawn, ask = call("agent_spawn", agent="kid", input="x"), call("sleep", seconds=3600)
    workspace.agent(calling(spawn), say("done"), tools=["agent_spawn"], limits={"max_duration_seconds": 60})
    workspace.agent(calling(ask), say("I did"), name="kid", tools=["sleep"])
    async with workspace.open(clock=clock, lease=timedelta(days=1)) as runtime:
        run = await runtime.start()
        await runtime.wait_for_status(run, RunStatus.WAITING)
        child = await runtime.child(run)
        await runtime.wait_for_status(child, RunStatus.WAITING)
        await runtime.advance(timedelta(seconds=60))
        assert failed(await runtime.wait_until_ended(run)) == "DEADLINE_EXCEEDED"
        assert (await runtime.get(child)).status.terminal


async def test_no_model_call_starts_when_the_token_budget_is_spent(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(*notes(9), say("done"), tools=["log_write"], limits={"token_budget": 250})
    async with any_workspace.open() as runtime:
        run = await runtime.run_to_end()
        steps = await runtime.steps(run)
        changes = await runtime.custom_events(run, StepChanged)
    assert failed(run) == "BUDGET_EXCEEDED"
    assert {change.number for change in changes} == {step.number for step in steps}
    assert run.usage.total_tokens == 300
    assert run.iterations == len([step for step in steps if step.kind == "model"]) == 3
    assert run.error is not None
    assert run.error.details == {"budget": "token_budget", "limit": 250, "spent": 300}


async def test_no_model_call_starts_when_the_cost_budget_is_spent(workspace: AgentWorkspace) -> None:
    replies = StubReply(calls=[StubToolCall(name="log_write", arguments={"message": "x"})])
    async with StubOpenAIServer(default_reply=replies) as server:
        workspace.provider(server, **PRICES)
        workspace.agent(model=STAND_IN, tools=["log_write"], limits={"cost_budget_usd": 0.04})
        async with workspace.open() as runtime:
            run = await runtime.run_to_end()
    assert failed(run) == "BUDGET_EXCEEDED"
    assert run.usage.cost_usd == pytest.approx(0.045)
    assert len(server.requests) == 3


async def test_a_cost_budget_needs_a_model_with_a_price(workspace: AgentWorkspace) -> None:
    async with StubOpenAIServer() as server:
        workspace.provider(server)
        workspace.agent(model=STAND_IN, limits={"cost_budget_usd": 1.0})
        workspace.agent(say("x"), name="falls", model=["scripted:script.json", STAND_IN])
        async with workspace.open() as runtime:
            with pytest.raises(Invalid, match="known price"):
                await runtime.start()
            with pytest.raises(Invalid, match="known price"):
                await runtime.start(agent="falls", limits=Limits(cost_budget_usd=1.0))
            assert (await runtime.store.runs.page(SPACE)).items == []


async def test_a_call_without_reported_usage_is_charged_by_estimate(workspace: AgentWorkspace) -> None:
    """Its tokens are estimated, so that a token budget applies; its cost is unknown."""
    look = StubReply(text="let me see " * 20, calls=[StubToolCall(name="look")], input_tokens=None)
    async with StubOpenAIServer(default_reply=look) as server:
        workspace.provider(server, input_usd_per_million=1, output_usd_per_million=1)
        workspace.agent(model=STAND_IN, tools=["look"], limits={"token_budget": 1000, "max_iterations": 50})
        async with workspace.open(fixed_tool("look", "seen")) as runtime:
            run = await runtime.run_to_end()
    assert failed(run) == "BUDGET_EXCEEDED"
    assert run.usage.output_tokens >= 40 * run.iterations
    assert run.usage.cost_usd is None


async def test_a_call_whose_price_is_not_known_is_never_free(workspace: AgentWorkspace) -> None:
    """A child with another provider spends an uncountable cost from its parent's budget."""
    spawn = calling(call("agent_spawn", agent="kid", input="x"))
    async with StubOpenAIServer(StubReply(text="cheap?")) as server:
        workspace.provider(server)
        workspace.agent(spawn, say("done"), tools=["agent_spawn"], limits={"cost_budget_usd": 1.0})
        workspace.agent(name="kid", model=STAND_IN)
        async with workspace.open() as runtime:
            run = await runtime.run_to_end()
    assert failed(run) == "BUDGET_EXCEEDED"
    assert "no known price" in str(run.error)


async def spend_together(runtime: AgentRuntime) -> None:
    run = await runtime.run_to_end()
    children = [await runtime.wait_until_ended(child) for child in await runtime.store.runs.children(SPACE, run.id)]
    family = [run, *children]
    spent = sum(each.usage.total_tokens for each in family)
    assert len(children) == CHILDREN
    assert failed(run) == "BUDGET_EXCEEDED"
    assert {child.error.code for child in children if child.error is not None} == {"BUDGET_EXCEEDED"}
    assert 2000 <= spent <= 2000 + 100 * len(family)
    for each in family:
        assert each.usage.total_tokens == 100 * each.iterations


async def test_parallel_children_overshoot_the_budget_by_at_most_one_call_each(any_workspace: AgentWorkspace) -> None:
    spawn = [call("agent_spawn", agent="kid", input=f"{number}") for number in range(CHILDREN)]
    turns = calling(*spawn, usage=USED), say("done", usage=USED)
    any_workspace.agent(*turns, tools=["agent_spawn"], limits={"token_budget": 2000})
    any_workspace.agent(*notes(9), say("I did"), name="kid", tools=["log_write"])
    async with any_workspace.open(workers=CHILDREN) as runtime:
        await spend_together(runtime)


async def test_a_child_has_its_own_budget_in_addition_to_its_parents(workspace: AgentWorkspace) -> None:
    spawn = calling(call("agent_spawn", agent="kid", input="x"), usage=USED)
    workspace.agent(spawn, say("{$last_tool}", usage=USED), tools=["agent_spawn"], limits={"token_budget": 1000})
    workspace.agent(*notes(9), name="kid", tools=["log_write"], limits={"token_budget": 200})
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        child = await runtime.child(run)
    assert failed(child) == "BUDGET_EXCEEDED"
    assert child.usage.total_tokens == 200
    assert str(run.output).startswith("agent `kid` failed: BUDGET_EXCEEDED")


async def test_a_repeated_call_causes_a_reminder_and_then_a_stop(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(*[calling(NOTE)] * 9, say("done"), tools=["log_write"])
    async with any_workspace.open() as runtime:
        run = await runtime.run_to_end()
        contexts = [await runtime.context(run, number) for number in range(run.iterations)]
    assert failed(run) == "LOOP_DETECTED"
    assert run.iterations == 5
    reminders = [[message for message in context.messages if message.role is Role.SYSTEM] for context in contexts]
    assert [len(each) for each in reminders] == [0, 0, 0, 1, 1]
    assert "log_write" in str(reminders[3][0].content)


async def test_a_user_message_resets_the_count_of_repeated_calls(workspace: AgentWorkspace) -> None:
    gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
    workspace.agent(*[calling(NOTE)] * 4, calling(call("gate")), *[calling(NOTE)] * 4, say("done"), tools=["*"])
    async with workspace.open(gate) as runtime:
        run = await runtime.start()
        await gate.started.acquire()
        gate.open.set()
        assert (await runtime.wait_until_ended(run)).output == "done"
