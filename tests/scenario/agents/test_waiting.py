"""A waiting run: for a person, a child or a timer, alone and several at once."""

import asyncio
from datetime import timedelta

import pytest

from holdfast.domain.errors import AlreadyAnswered, Waiting
from holdfast.domain.events import RunFinished, RunStarted, SubagentFinished, SubagentStarted
from holdfast.domain.events.custom import ChildChanged, InterruptChanged
from holdfast.domain.events.messages import InterruptOutcome
from holdfast.domain.interrupt import InterruptStatus
from holdfast.domain.run import RunStatus
from holdfast.domain.step import StepState
from holdfast.testing.clock import HeldClock
from tests.scenario.agents.workshop import SPACE, Workshop, call, calling, say

RACERS = 100
ASK = call("ask_user", question="may I?")
RESPOND = call("task_respond", message="I am stuck")
SPAWN = call("agent_spawn", agent="kid", input="help")
DETACH = call("agent_spawn", agent="kid", input="help", wait=False)
NAP = call("sleep", seconds=0.01)
LONG = call("sleep", seconds=3600)
TOOLS = ["ask_user", "task_respond", "agent_spawn", "sleep", "task_create"]


def asked_in(events: list[object]) -> list[list[str]]:
    """Return the questions that each segment ended with."""
    outcomes = [event.outcome for event in events if isinstance(event, RunFinished)]
    return [[asked.id for asked in outcome.interrupts] for outcome in outcomes if isinstance(outcome, InterruptOutcome)]


@pytest.mark.parametrize("question", [ASK, RESPOND], ids=["ask_user", "task_respond"])
async def test_a_response_is_the_result_of_its_call(anywhere: Workshop, question: dict[str, object]) -> None:
    anywhere.agent(calling(question), say("You said {$last_tool}"), tools=TOOLS)
    async with anywhere.open() as floor:
        run = await floor.start()
        waiting = await floor.comes_to(run, RunStatus.WAITING)
        assert waiting.status_reason == "person"
        (asked,) = await floor.questions(run)
        await floor.runs.respond(SPACE, run.id, "yes", by="ada")
        assert (await floor.ended(run)).output == "You said yes"
        events = await floor.events(run)
        changes = await floor.told(run, InterruptChanged)
    assert sum(isinstance(event, RunStarted) for event in events) == 2
    assert asked_in(list(events)) == [[asked.id]]
    assert [change.status for change in changes] == [InterruptStatus.OPEN, InterruptStatus.ANSWERED]


async def test_a_run_sleeps_without_a_worker(anywhere: Workshop) -> None:
    anywhere.agent(calling(NAP), say("{$last_tool}"), tools=TOOLS)
    async with anywhere.open(workers=1) as floor:
        runs = [await floor.start() for _ in range(5)]
        ended = [await floor.ended(run) for run in runs]
    assert [run.output for run in ended] == ['{"slept_seconds":0.01}'] * 5


async def test_the_output_of_a_child_is_the_result_of_the_call_that_spawned_it(anywhere: Workshop) -> None:
    anywhere.agent(calling(SPAWN), say("It says: {$last_tool}"), tools=TOOLS)
    anywhere.agent(say("I {$last_user}"), name="kid")
    async with anywhere.open(workers=1) as floor:
        run = await floor.play()
        child = await floor.child(run)
        events = await floor.events(run)
    assert run.output == "It says: I help"
    assert (child.parent_run_id, child.root_run_id, child.status) == (run.id, run.id, RunStatus.COMPLETED)
    assert child.thread_id != run.thread_id
    agents = [event for event in events if isinstance(event, SubagentStarted | SubagentFinished)]
    assert [event.subagent_run_id for event in agents] == [child.id, child.id]
    assert sum(isinstance(event, RunStarted) for event in events) == 1


@pytest.mark.parametrize("error", [{"code": "BAD_WORD", "message": "no"}, {"code": "CONTEXT_OVERFLOW"}])
async def test_a_child_that_fails_is_a_result_for_its_parent(workshop: Workshop, error: dict[str, object]) -> None:
    workshop.agent(calling(SPAWN), say("{$last_tool}"), tools=TOOLS)
    workshop.agent(say("half", error=error), name="kid")
    async with workshop.open() as floor:
        run = await floor.play()
        child = await floor.child(run)
    assert run.status is RunStatus.COMPLETED
    assert child.error is not None
    assert run.output == f"agent `kid` failed: {child.error.code}: {child.error.message}"


async def test_all_waiting_calls_start_together(anywhere: Workshop) -> None:
    anywhere.agent(calling(ASK, SPAWN, NAP, RESPOND), say("done"), tools=TOOLS)
    anywhere.agent(say("I did"), name="kid")
    async with anywhere.open() as floor:
        run = await floor.start()
        first, second = await floor.asks(run, 2)
        await floor.ended(await floor.child(run))
        await floor.runs.respond(SPACE, run.id, "two", interrupt=second.id)
        await floor.runs.respond(SPACE, run.id, "one", interrupt=first.id)
        await floor.ended(run)
        assert [step.state for step in await floor.steps(run)] == [StepState.DONE] * 6
        results = {message.tool_call_id: message.content for message in await floor.messages(run)}
        asked = (await floor.messages(run))[1]
        events = await floor.events(run)
    assert [results[each.id] for each in asked.tool_calls] == ["one", "I did", '{"slept_seconds":0.01}', "two"]
    assert asked_in(list(events))[0] == [first.id, second.id]
    assert first.created_at == second.created_at


async def test_a_later_call_starts_after_the_waiting_call_has_settled(workshop: Workshop) -> None:
    workshop.agent(calling(ASK, call("todo_read"), RESPOND), say("done"), tools=[*TOOLS, "todo_read"])
    async with workshop.open() as floor:
        run = await floor.start()
        (first,) = await floor.asks(run)
        assert [step.name for step in await floor.steps(run)][1:] == ["ask_user"]
        await floor.runs.respond(SPACE, run.id, "go on", interrupt=first.id)
        (second,) = await floor.asks(run)
        assert second.id != first.id
        await floor.runs.respond(SPACE, run.id, "and on", interrupt=second.id)
        assert (await floor.ended(run)).output == "done"


async def test_a_run_keeps_waiting_after_one_response_of_two(anywhere: Workshop) -> None:
    anywhere.agent(calling(ASK, RESPOND), say("done"), tools=TOOLS)
    async with anywhere.open() as floor:
        run = await floor.start()
        first, second = await floor.asks(run, 2)
        await floor.runs.respond(SPACE, run.id, "one", interrupt=first.id)
        await floor.until(run, lambda event: isinstance(event, RunFinished) and _asks(event) == [second.id])
        waiting = await floor.comes_to(run, RunStatus.WAITING)
        assert waiting.status_reason == "person"
        assert [each.id for each in await floor.questions(run)] == [second.id]
        await floor.runs.respond(SPACE, run.id, "two", interrupt=second.id)
        assert (await floor.ended(run)).output == "done"
        said = await floor.said(run)
    assert said[2:] == ["tool: one", "tool: two", "assistant: done"]


def _asks(event: RunFinished) -> list[str]:
    return [each.id for each in event.outcome.interrupts] if isinstance(event.outcome, InterruptOutcome) else []


async def test_an_expired_interrupt_has_its_default_outcome(anywhere: Workshop, clock: HeldClock) -> None:
    anywhere.agent(calling(ASK), say("{$last_tool}"), tools=TOOLS)
    async with anywhere.open(clock=clock) as floor:
        run = await floor.start()
        (asked,) = await floor.asks(run)
        await floor.later(timedelta(days=7))
        ended = await floor.ended(run)
        settled = await floor.store.interrupts.get(SPACE, asked.id)
        with pytest.raises(AlreadyAnswered):
            await floor.runs.respond(SPACE, run.id, "too late", interrupt=asked.id)
        changes = await floor.told(run, InterruptChanged)
    assert ended.output == "nobody answered in time, and there is no default: go on as you think best"
    assert settled.status is InterruptStatus.EXPIRED
    assert changes[-1].status is InterruptStatus.EXPIRED


async def test_one_of_many_simultaneous_responses_wins(anywhere: Workshop) -> None:
    anywhere.agent(calling(ASK), say("{$last_tool}"), tools=TOOLS)
    async with anywhere.open() as floor:
        run = await floor.start()
        (asked,) = await floor.asks(run)
        racing = [floor.runs.respond(SPACE, run.id, n, interrupt=asked.id, by=f"p{n}") for n in range(RACERS)]
        outcomes = await asyncio.gather(*racing, return_exceptions=True)
        (winner,) = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
        assert sum(isinstance(outcome, AlreadyAnswered) for outcome in outcomes) == RACERS - 1
        ended = await floor.ended(run)
    assert ended.output == str(winner.response)
    assert winner.answered_by == f"p{winner.response}"


async def test_a_message_ends_a_sleep(anywhere: Workshop) -> None:
    anywhere.agent(calling(LONG), say("I hear {$last_user}, {$last_tool}"), tools=TOOLS)
    async with anywhere.open() as floor:
        run = await floor.start()
        await floor.comes_to(run, RunStatus.WAITING)
        await floor.runs.steer(SPACE, run.id, "hurry")
        ended = await floor.ended(run)
        assert await floor.store.timers.next_due() is None
        said = await floor.said(run)
    assert ended.output == 'I hear hurry, {"woke_early":true,"because":"a person said something"}'
    assert said[-2] == "user: hurry"


async def test_a_message_moves_an_awaited_child_to_the_background(anywhere: Workshop) -> None:
    anywhere.agent(calling(SPAWN), calling(ASK), say("{$last_user}"), tools=TOOLS)
    anywhere.agent(calling(ASK), say("I did"), name="kid", tools=TOOLS)
    async with anywhere.open() as floor:
        run = await floor.start()
        (of_child,) = await floor.asks(run)
        await floor.comes_to(run, RunStatus.WAITING)
        await floor.runs.steer(SPACE, run.id, "and something else")
        (_, own) = await floor.asks(run, 2)
        await floor.runs.respond(SPACE, run.id, "ok", interrupt=of_child.id)
        child = await floor.ended(await floor.child(run))
        await floor.runs.respond(SPACE, run.id, "ok", interrupt=own.id)
        ended = await floor.ended(run)
        said = await floor.said(run)
        changes = await floor.told(run, ChildChanged)
    told = f"Run `{child.id}`, which you started in the background, has completed: I did"
    assert "it goes on in the background" in said[2]
    assert said[3] == "user: and something else"
    assert said[-2] == f"user: {told}"
    assert ended.output == told
    assert [change.status for change in changes] == [RunStatus.COMPLETED]


async def test_a_child_that_exceeds_the_maximum_wait_continues_in_the_background(
    anywhere: Workshop, clock: HeldClock
) -> None:
    spawn, week = call("agent_spawn", agent="kid", input="x"), call("sleep", seconds=7 * 24 * 3600)
    anywhere.agent(calling(spawn), say("{$last_tool}"), tools=TOOLS)
    anywhere.agent(*[calling(week)] * 9, name="kid", tools=TOOLS)
    async with anywhere.open(clock=clock) as floor:
        run = await floor.start()
        await floor.comes_to(run, RunStatus.WAITING)
        child = await floor.comes_to(await floor.child(run), RunStatus.WAITING)
        await floor.later(timedelta(days=29))
        assert (await floor.get(run)).status is RunStatus.WAITING
        await floor.later(timedelta(days=2))
        ended = await floor.ended(run)
        await floor.events(run)
        assert not (await floor.get(child)).status.terminal
        await floor.runs.cancel(SPACE, child.id)
    assert "it goes on in the background: 30 days have passed meanwhile" in str(ended.output)
    assert child.id in str(ended.output)


async def test_a_wait_for_a_child_leaves_no_timer(workshop: Workshop) -> None:
    workshop.agent(calling(call("agent_spawn", agent="kid", input="x")), calling(ASK), say("done"), tools=TOOLS)
    workshop.agent(say("I did"), name="kid")
    async with workshop.open() as floor:
        run = await floor.start()
        await floor.asks(run)
        assert await floor.store.timers.next_due() is None


async def test_a_message_to_a_run_with_an_open_interrupt_is_refused(anywhere: Workshop) -> None:
    anywhere.agent(calling(ASK), say("{$last_tool}"), tools=TOOLS)
    async with anywhere.open() as floor:
        run = await floor.start()
        (asked,) = await floor.asks(run)
        with pytest.raises(Waiting) as refused:
            await floor.runs.steer(SPACE, run.id, "by the way")
        assert refused.value.details["interrupts"] == [asked.id]
        await floor.runs.respond(SPACE, run.id, "yes")
        assert (await floor.ended(run)).output == "yes"


async def test_a_child_that_ends_during_its_parents_interrupt_is_reported_later(anywhere: Workshop) -> None:
    anywhere.agent(calling(DETACH), calling(ASK), say("{$last_user}"), tools=TOOLS)
    anywhere.agent(calling(NAP), say("I did"), name="kid", tools=TOOLS)
    async with anywhere.open() as floor:
        run = await floor.start()
        (asked,) = await floor.asks(run)
        child = await floor.ended(await floor.child(run))
        await floor.until(run, lambda event: "holdfast.child" in str(event) and "completed" in str(event))
        assert (await floor.comes_to(run, RunStatus.WAITING)).status_reason == "person"
        values = await floor.store.values.of_run(SPACE, run.id)
        assert [each["content"] for each in values["mail"]] == [
            f"Run `{child.id}`, which you started in the background, has completed: I did"
        ]
        assert [each.id for each in await floor.questions(run)] == [asked.id]
        await floor.runs.respond(SPACE, run.id, "yes")
        ended = await floor.ended(run)
        assert (await floor.store.values.of_run(SPACE, run.id))["mail"] is None
        said, told = await floor.said(run), await floor.context(run)
    assert ended.output == f"Run `{child.id}`, which you started in the background, has completed: I did"
    assert said[-3:-1] == ["tool: yes", f"user: {ended.output}"]
    assert str(told.messages[-1].content).startswith("<untrusted-")


async def test_a_background_child_does_not_delay_its_parent(workshop: Workshop) -> None:
    workshop.agent(calling(DETACH), say("done"), tools=TOOLS)
    workshop.agent(calling(ASK), say("I did"), name="kid", tools=TOOLS)
    async with workshop.open() as floor:
        run = await floor.play()
        (asked,) = await floor.asks(run)
        await floor.runs.respond(SPACE, run.id, "go", interrupt=asked.id)
        child = await floor.ended(await floor.child(run))
    assert (run.output, child.output) == ("done", "I did")


async def test_a_waiting_run_continues_in_another_process(anywhere: Workshop) -> None:
    anywhere.agent(calling(ASK, SPAWN, NAP), say("{$last_tool}"), tools=TOOLS)
    anywhere.agent(calling(ASK), say("I did"), name="kid", tools=TOOLS)
    async with anywhere.open() as floor:
        run = await floor.start()
        await floor.asks(run, 2)
    async with anywhere.open() as floor:
        for asked in await floor.questions(run):
            await floor.runs.respond(SPACE, run.id, "yes", interrupt=asked.id)
        ended = await floor.ended(run)
        assert [step.state for step in await floor.steps(run)] == [StepState.DONE] * 5
    assert ended.status is RunStatus.COMPLETED
