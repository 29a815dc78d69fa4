"""Limits of a run: iterations, duration, tokens and cost. An exceeded limit is a typed error."""

import asyncio
from datetime import timedelta
from typing import Final

import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.events.custom import StepChanged
from holdfast.domain.limits import Limits
from holdfast.domain.message import Role
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.tool import ToolClass
from holdfast.testing.clock import HeldClock
from holdfast.testing.openai_server import StubOpenAIServer, StubReply, StubToolCall
from tests.scenario.agents.fake_tools import BlockingTool, answers
from tests.scenario.agents.workshop import SPACE, STAND_IN, Floor, Workshop, call, calling, say

NOTE: Final = call("log_write", message="x")
USED: Final = {"input_tokens": 90, "output_tokens": 10}
CHILDREN: Final = 20
PRICES: Final = {"input_usd_per_million": 1000.0, "output_usd_per_million": 1000.0}
"""A call of ten tokens in and five out costs 0.015 dollars."""


def failed(run: Run) -> str:
    """Return why a run failed."""
    assert run.status is RunStatus.FAILED and run.error is not None, run
    return run.error.code


def notes(number: int) -> list[dict[str, Json]]:
    """Return turns that each write another note."""
    return [calling(call("log_write", message=f"{index}"), usage=USED) for index in range(number)]


async def test_a_run_fails_at_its_iteration_limit(anywhere: Workshop) -> None:
    anywhere.agent(*notes(5), say("done"), tools=["log_write"], limits={"max_iterations": 3})
    async with anywhere.open() as floor:
        run = await floor.play()
        calls = [message for message in await floor.messages(run) if message.role is Role.ASSISTANT]
    assert failed(run) == "ITERATION_LIMIT"
    assert run.error is not None and run.error.iteration == 3
    assert run.iterations == len(calls) == 3


async def test_a_run_that_needs_exactly_its_iteration_limit_completes(workshop: Workshop) -> None:
    workshop.agent(*notes(2), say("done"), tools=["log_write"], limits={"max_iterations": 3})
    async with workshop.open() as floor:
        assert (await floor.play()).output == "done"


async def test_a_request_may_set_the_duration_but_not_raise_the_budget(workshop: Workshop) -> None:
    workshop.agent(*notes(5), say("done"), tools=["log_write"], limits={"max_iterations": 3, "token_budget": 5000})
    async with workshop.open() as floor:
        tight = await floor.play(limits=Limits(max_iterations=1, max_duration_seconds=60))
        loose = await floor.play(limits=Limits(max_iterations=100, token_budget=9000))
    assert tight.limits == Limits(max_iterations=1, max_duration_seconds=60, token_budget=5000)
    assert loose.limits == Limits(max_iterations=100, token_budget=5000)
    assert (tight.iterations, loose.iterations) == (1, 6)


async def test_a_run_fails_at_its_maximum_duration(anywhere: Workshop, clock: HeldClock) -> None:
    gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
    anywhere.agent(calling(call("gate")), say("done"), tools=["gate"], limits={"max_duration_seconds": 60})
    async with anywhere.open(gate, clock=clock, lease=timedelta(days=1)) as floor:
        run = await floor.start()
        await gate.begun.acquire()
        await floor.later(timedelta(seconds=59))
        await floor.later(timedelta(seconds=1))
        ended = await floor.ended(run)
        assert failed(ended) == "DEADLINE_EXCEEDED"
        async with asyncio.timeout(30):
            while gate.cut == 0:  # noqa: ASYNC110 - the worker hears of it
                await asyncio.sleep(0.002)
        await floor.events(run)


async def test_waiting_for_a_person_does_not_count_as_duration(anywhere: Workshop, clock: HeldClock) -> None:
    ask = calling(call("ask_user", question="?"))
    anywhere.agent(ask, ask, say("done"), tools=["ask_user"], limits={"max_duration_seconds": 60})
    async with anywhere.open(clock=clock, lease=timedelta(days=1000)) as floor:
        run = await floor.start()
        for _ in range(2):
            await floor.asks(run)
            await floor.comes_to(run, RunStatus.WAITING)
            await floor.later(timedelta(days=2))
            await floor.runs.respond(SPACE, run.id, "yes")
        assert (await floor.ended(run)).output == "done"


async def test_sleeping_counts_as_duration(workshop: Workshop, clock: HeldClock) -> None:
    nap = calling(call("sleep", seconds=3600))
    workshop.agent(nap, say("done"), tools=["sleep"], limits={"max_duration_seconds": 60})
    async with workshop.open(clock=clock, lease=timedelta(days=1)) as floor:
        run = await floor.start()
        await floor.comes_to(run, RunStatus.WAITING)
        await floor.later(timedelta(seconds=60))
        assert failed(await floor.ended(run)) == "DEADLINE_EXCEEDED"


async def test_the_deadline_of_a_parent_ends_its_children(workshop: Workshop, clock: HeldClock) -> None:
    spawn, ask = call("agent_spawn", agent="kid", input="x"), call("sleep", seconds=3600)
    workshop.agent(calling(spawn), say("done"), tools=["agent_spawn"], limits={"max_duration_seconds": 60})
    workshop.agent(calling(ask), say("I did"), name="kid", tools=["sleep"])
    async with workshop.open(clock=clock, lease=timedelta(days=1)) as floor:
        run = await floor.start()
        await floor.comes_to(run, RunStatus.WAITING)
        child = await floor.child(run)
        await floor.comes_to(child, RunStatus.WAITING)
        await floor.later(timedelta(seconds=60))
        assert failed(await floor.ended(run)) == "DEADLINE_EXCEEDED"
        assert (await floor.get(child)).status.terminal


async def test_no_model_call_starts_when_the_token_budget_is_spent(anywhere: Workshop) -> None:
    anywhere.agent(*notes(9), say("done"), tools=["log_write"], limits={"token_budget": 250})
    async with anywhere.open() as floor:
        run = await floor.play()
        steps = await floor.steps(run)
        changes = await floor.told(run, StepChanged)
    assert failed(run) == "BUDGET_EXCEEDED"
    assert {change.number for change in changes} == {step.number for step in steps}
    assert run.usage.total_tokens == 300
    assert run.iterations == len([step for step in steps if step.kind == "model"]) == 3
    assert run.error is not None
    assert run.error.details == {"budget": "token_budget", "limit": 250, "spent": 300}


async def test_no_model_call_starts_when_the_cost_budget_is_spent(workshop: Workshop) -> None:
    replies = StubReply(calls=[StubToolCall(name="log_write", arguments={"message": "x"})])
    async with StubOpenAIServer(default_reply=replies) as server:
        workshop.provider(server, **PRICES)
        workshop.agent(model=STAND_IN, tools=["log_write"], limits={"cost_budget_usd": 0.04})
        async with workshop.open() as floor:
            run = await floor.play()
    assert failed(run) == "BUDGET_EXCEEDED"
    assert run.usage.cost_usd == pytest.approx(0.045)
    assert len(server.requests) == 3


async def test_a_cost_budget_needs_a_model_with_a_price(workshop: Workshop) -> None:
    async with StubOpenAIServer() as server:
        workshop.provider(server)
        workshop.agent(model=STAND_IN, limits={"cost_budget_usd": 1.0})
        workshop.agent(say("x"), name="falls", model=["scripted:script.json", STAND_IN])
        async with workshop.open() as floor:
            with pytest.raises(Invalid, match="known price"):
                await floor.start()
            with pytest.raises(Invalid, match="known price"):
                await floor.start(agent="falls", limits=Limits(cost_budget_usd=1.0))
            assert (await floor.store.runs.page(SPACE)).items == []


async def test_a_call_without_reported_usage_is_charged_by_estimate(workshop: Workshop) -> None:
    """Its tokens are estimated, so that a budget holds, and what they cost is not known."""
    look = StubReply(text="let me see " * 20, calls=[StubToolCall(name="look")], input_tokens=None)
    async with StubOpenAIServer(default_reply=look) as server:
        workshop.provider(server, input_usd_per_million=1, output_usd_per_million=1)
        workshop.agent(model=STAND_IN, tools=["look"], limits={"token_budget": 1000, "max_iterations": 50})
        async with workshop.open(answers("look", "seen")) as floor:
            run = await floor.play()
    assert failed(run) == "BUDGET_EXCEEDED"
    assert run.usage.output_tokens >= 40 * run.iterations
    assert run.usage.cost_usd is None


async def test_a_call_whose_price_is_not_known_is_never_free(workshop: Workshop) -> None:
    """A child of another provider spends from its parent's budget what nobody can count."""
    spawn = calling(call("agent_spawn", agent="kid", input="x"))
    async with StubOpenAIServer(StubReply(text="cheap?")) as server:
        workshop.provider(server)
        workshop.agent(spawn, say("done"), tools=["agent_spawn"], limits={"cost_budget_usd": 1.0})
        workshop.agent(name="kid", model=STAND_IN)
        async with workshop.open() as floor:
            run = await floor.play()
    assert failed(run) == "BUDGET_EXCEEDED"
    assert "no known price" in str(run.error)


async def spend_together(floor: Floor) -> None:
    run = await floor.play()
    children = [await floor.ended(child) for child in await floor.store.runs.children(SPACE, run.id)]
    family = [run, *children]
    spent = sum(each.usage.total_tokens for each in family)
    assert len(children) == CHILDREN
    assert failed(run) == "BUDGET_EXCEEDED"
    assert {child.error.code for child in children if child.error is not None} == {"BUDGET_EXCEEDED"}
    assert 2000 <= spent <= 2000 + 100 * len(family)
    for each in family:
        assert each.usage.total_tokens == 100 * each.iterations


async def test_parallel_children_overshoot_the_budget_by_at_most_one_call_each(anywhere: Workshop) -> None:
    spawn = [call("agent_spawn", agent="kid", input=f"{number}") for number in range(CHILDREN)]
    turns = calling(*spawn, usage=USED), say("done", usage=USED)
    anywhere.agent(*turns, tools=["agent_spawn"], limits={"token_budget": 2000})
    anywhere.agent(*notes(9), say("I did"), name="kid", tools=["log_write"])
    async with anywhere.open(workers=CHILDREN) as floor:
        await spend_together(floor)


async def test_a_child_has_its_own_budget_in_addition_to_its_parents(workshop: Workshop) -> None:
    spawn = calling(call("agent_spawn", agent="kid", input="x"), usage=USED)
    workshop.agent(spawn, say("{$last_tool}", usage=USED), tools=["agent_spawn"], limits={"token_budget": 1000})
    workshop.agent(*notes(9), name="kid", tools=["log_write"], limits={"token_budget": 200})
    async with workshop.open() as floor:
        run = await floor.play()
        child = await floor.child(run)
    assert failed(child) == "BUDGET_EXCEEDED"
    assert child.usage.total_tokens == 200
    assert str(run.output).startswith("agent `kid` failed: BUDGET_EXCEEDED")


async def test_a_repeated_call_causes_a_reminder_and_then_a_stop(anywhere: Workshop) -> None:
    anywhere.agent(*[calling(NOTE)] * 9, say("done"), tools=["log_write"])
    async with anywhere.open() as floor:
        run = await floor.play()
        told = [await floor.context(run, number) for number in range(run.iterations)]
    assert failed(run) == "LOOP_DETECTED"
    assert run.iterations == 5
    reminders = [[message for message in context.messages if message.role is Role.SYSTEM] for context in told]
    assert [len(each) for each in reminders] == [0, 0, 0, 1, 1]
    assert "log_write" in str(reminders[3][0].content)


async def test_a_user_message_resets_the_count_of_repeated_calls(workshop: Workshop) -> None:
    gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
    workshop.agent(*[calling(NOTE)] * 4, calling(call("gate")), *[calling(NOTE)] * 4, say("done"), tools=["*"])
    async with workshop.open(gate) as floor:
        run = await floor.start()
        await gate.begun.acquire()
        gate.open.set()
        assert (await floor.ended(run)).output == "done"
