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
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace, call, calling, say

RACERS = 100
ASK = call("ask_user", question="may I?")
RESPOND = call("task_respond", message="I am stuck")
SPAWN = call("agent_spawn", agent="kid", input="help")
DETACH = call("agent_spawn", agent="kid", input="help", wait=False)
NAP = call("sleep", seconds=0.01)
LONG = call("sleep", seconds=3600)
TOOLS = ["ask_user", "task_respond", "agent_spawn", "sleep", "task_create"]


def interrupts_by_segment(events: list[object]) -> list[list[str]]:
    """Return the interrupts that each segment ended with."""
    outcomes = [event.outcome for event in events if isinstance(event, RunFinished)]
    return [
        [interrupt.id for interrupt in outcome.interrupts]
        for outcome in outcomes
        if isinstance(outcome, InterruptOutcome)
    ]


@pytest.mark.parametrize("question", [ASK, RESPOND], ids=["ask_user", "task_respond"])
async def test_a_response_is_the_result_of_its_call(any_workspace: AgentWorkspace, question: dict[str, object]) -> None:
    any_workspace.agent(calling(question), say("You said {$last_tool}"), tools=TOOLS)
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        waiting = await runtime.wait_for_status(run, RunStatus.WAITING)
        assert waiting.status_reason == "person"
        (interrupt,) = await runtime.open_interrupts(run)
        await runtime.runs.respond(SPACE, run.id, "yes", by="ada")
        assert (await runtime.wait_until_ended(run)).output == "You said yes"
        events = await runtime.events(run)
        changes = await runtime.custom_events(run, InterruptChanged)
    assert sum(isinstance(event, RunStarted) for event in events) == 2
    assert interrupts_by_segment(list(events)) == [[interrupt.id]]
    assert [change.status for change in changes] == [InterruptStatus.OPEN, InterruptStatus.ANSWERED]


async def test_a_run_sleeps_without_a_worker(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(calling(NAP), say("{$last_tool}"), tools=TOOLS)
    async with any_workspace.open(workers=1) as runtime:
        runs = [await runtime.start() for _ in range(5)]
        ended_runs = [await runtime.wait_until_ended(run) for run in runs]
    assert [run.output for run in ended_runs] == ['{"slept_seconds":0.01}'] * 5


async def test_the_output_of_a_child_is_the_result_of_the_call_that_spawned_it(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(calling(SPAWN), say("It says: {$last_tool}"), tools=TOOLS)
    any_workspace.agent(say("I {$last_user}"), name="kid")
    async with any_workspace.open(workers=1) as runtime:
        run = await runtime.run_to_end()
        child = await runtime.child(run)
        events = await runtime.events(run)
    assert run.output == "It says: I help"
    assert (child.parent_run_id, child.root_run_id, child.status) == (run.id, run.id, RunStatus.COMPLETED)
    assert child.thread_id != run.thread_id
    agents = [event for event in events if isinstance(event, SubagentStarted | SubagentFinished)]
    assert [event.subagent_run_id for event in agents] == [child.id, child.id]
    assert sum(isinstance(event, RunStarted) for event in events) == 1


@pytest.mark.parametrize("error", [{"code": "BAD_WORD", "message": "no"}, {"code": "CONTEXT_OVERFLOW"}])
async def test_a_child_that_fails_is_a_result_for_its_parent(
    workspace: AgentWorkspace, error: dict[str, object]
) -> None:
    workspace.agent(calling(SPAWN), say("{$last_tool}"), tools=TOOLS)
    workspace.agent(say("half", error=error), name="kid")
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        child = await runtime.child(run)
    assert run.status is RunStatus.COMPLETED
    assert child.error is not None
    assert run.output == f"agent `kid` failed: {child.error.code}: {child.error.message}"


async def test_all_waiting_calls_start_together(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(calling(ASK, SPAWN, NAP, RESPOND), say("done"), tools=TOOLS)
    any_workspace.agent(say("I did"), name="kid")
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        first, second = await runtime.wait_for_interrupts(run, 2)
        await runtime.wait_until_ended(await runtime.child(run))
        await runtime.runs.respond(SPACE, run.id, "two", interrupt=second.id)
        await runtime.runs.respond(SPACE, run.id, "one", interrupt=first.id)
        await runtime.wait_until_ended(run)
        assert [step.state for step in await runtime.steps(run)] == [StepState.DONE] * 6
        results = {message.tool_call_id: message.content for message in await runtime.messages(run)}
        call_message = (await runtime.messages(run))[1]
        events = await runtime.events(run)
    assert [results[each.id] for each in call_message.tool_calls] == ["one", "I did", '{"slept_seconds":0.01}', "two"]
    assert interrupts_by_segment(list(events))[0] == [first.id, second.id]
    assert first.created_at == second.created_at


async def test_a_later_call_starts_after_the_waiting_call_has_settled(workspace: AgentWorkspace) -> None:
    workspace.agent(calling(ASK, call("todo_read"), RESPOND), say("done"), tools=[*TOOLS, "todo_read"])
    async with workspace.open() as runtime:
        run = await runtime.start()
        (first,) = await runtime.wait_for_interrupts(run)
        assert [step.name for step in await runtime.steps(run)][1:] == ["ask_user"]
        await runtime.runs.respond(SPACE, run.id, "go on", interrupt=first.id)
        (second,) = await runtime.wait_for_interrupts(run)
        assert second.id != first.id
        await runtime.runs.respond(SPACE, run.id, "and on", interrupt=second.id)
        assert (await runtime.wait_until_ended(run)).output == "done"


async def test_a_run_keeps_waiting_after_one_response_of_two(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(calling(ASK, RESPOND), say("done"), tools=TOOLS)
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        first, second = await runtime.wait_for_interrupts(run, 2)
        await runtime.runs.respond(SPACE, run.id, "one", interrupt=first.id)
        await runtime.wait_for_event(run, lambda event: isinstance(event, RunFinished) and _asks(event) == [second.id])
        waiting = await runtime.wait_for_status(run, RunStatus.WAITING)
        assert waiting.status_reason == "person"
        assert [each.id for each in await runtime.open_interrupts(run)] == [second.id]
        await runtime.runs.respond(SPACE, run.id, "two", interrupt=second.id)
        assert (await runtime.wait_until_ended(run)).output == "done"
        texts = await runtime.texts(run)
    assert texts[2:] == ["tool: one", "tool: two", "assistant: done"]


def _asks(event: RunFinished) -> list[str]:
    return [each.id for each in event.outcome.interrupts] if isinstance(event.outcome, InterruptOutcome) else []


async def test_an_expired_interrupt_has_its_default_outcome(any_workspace: AgentWorkspace, clock: HeldClock) -> None:
    any_workspace.agent(calling(ASK), say("{$last_tool}"), tools=TOOLS)
    async with any_workspace.open(clock=clock) as runtime:
        run = await runtime.start()
        (interrupt,) = await runtime.wait_for_interrupts(run)
        await runtime.advance(timedelta(days=7))
        ended_run = await runtime.wait_until_ended(run)
        settled = await runtime.store.interrupts.get(SPACE, interrupt.id)
        with pytest.raises(AlreadyAnswered):
            await runtime.runs.respond(SPACE, run.id, "too late", interrupt=interrupt.id)
        changes = await runtime.custom_events(run, InterruptChanged)
    assert ended_run.output == "nobody answered in time, and there is no default: go on as you think best"
    assert settled.status is InterruptStatus.EXPIRED
    assert changes[-1].status is InterruptStatus.EXPIRED


async def test_one_of_many_simultaneous_responses_wins(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(calling(ASK), say("{$last_tool}"), tools=TOOLS)
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        (interrupt,) = await runtime.wait_for_interrupts(run)
        racing = [runtime.runs.respond(SPACE, run.id, n, interrupt=interrupt.id, by=f"p{n}") for n in range(RACERS)]
        outcomes = await asyncio.gather(*racing, return_exceptions=True)
        (winner,) = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
        assert sum(isinstance(outcome, AlreadyAnswered) for outcome in outcomes) == RACERS - 1
        ended_run = await runtime.wait_until_ended(run)
    assert ended_run.output == str(winner.response)
    assert winner.answered_by == f"p{winner.response}"


async def test_a_message_ends_a_sleep(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(calling(LONG), say("I hear {$last_user}, {$last_tool}"), tools=TOOLS)
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        await runtime.wait_for_status(run, RunStatus.WAITING)
        await runtime.runs.steer(SPACE, run.id, "hurry")
        ended_run = await runtime.wait_until_ended(run)
        assert await runtime.store.timers.next_due() is None
        texts = await runtime.texts(run)
    assert ended_run.output == 'I hear hurry, {"woke_early":true,"because":"a person said something"}'
    assert texts[-2] == "user: hurry"


async def test_a_message_moves_an_awaited_child_to_the_background(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(calling(SPAWN), calling(ASK), say("{$last_user}"), tools=TOOLS)
    any_workspace.agent(calling(ASK), say("I did"), name="kid", tools=TOOLS)
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        (of_child,) = await runtime.wait_for_interrupts(run)
        await runtime.wait_for_status(run, RunStatus.WAITING)
        await runtime.runs.steer(SPACE, run.id, "and something else")
        (_, parent_interrupt) = await runtime.wait_for_interrupts(run, 2)
        await runtime.runs.respond(SPACE, run.id, "ok", interrupt=of_child.id)
        child = await runtime.wait_until_ended(await runtime.child(run))
        await runtime.runs.respond(SPACE, run.id, "ok", interrupt=parent_interrupt.id)
        ended_run = await runtime.wait_until_ended(run)
        texts = await runtime.texts(run)
        changes = await runtime.custom_events(run, ChildChanged)
    report = f"Run `{child.id}`, which you started in the background, has completed: I did"
    assert "it goes on in the background" in texts[2]
    assert texts[3] == "user: and something else"
    assert texts[-2] == f"user: {report}"
    assert ended_run.output == report
    assert [change.status for change in changes] == [RunStatus.COMPLETED]


async def test_a_child_that_exceeds_the_maximum_wait_continues_in_the_background(
    any_workspace: AgentWorkspace, clock: HeldClock
) -> None:
    spawn, week = call("agent_spawn", agent="kid", input="x"), call("sleep", seconds=7 * 24 * 3600)
    any_workspace.agent(calling(spawn), say("{$last_tool}"), tools=TOOLS)
    any_workspace.agent(*[calling(week)] * 9, name="kid", tools=TOOLS)
    async with any_workspace.open(clock=clock) as runtime:
        run = await runtime.start()
        await runtime.wait_for_status(run, RunStatus.WAITING)
        child = await runtime.wait_for_status(await runtime.child(run), RunStatus.WAITING)
        await runtime.advance(timedelta(days=29))
        assert (await runtime.get(run)).status is RunStatus.WAITING
        await runtime.advance(timedelta(days=2))
        ended_run = await runtime.wait_until_ended(run)
        await runtime.events(run)
        assert not (await runtime.get(child)).status.terminal
        await runtime.runs.cancel(SPACE, child.id)
    assert "it goes on in the background: 30 days have passed meanwhile" in str(ended_run.output)
    assert child.id in str(ended_run.output)


async def test_a_wait_for_a_child_leaves_no_timer(workspace: AgentWorkspace) -> None:
    workspace.agent(calling(call("agent_spawn", agent="kid", input="x")), calling(ASK), say("done"), tools=TOOLS)
    workspace.agent(say("I did"), name="kid")
    async with workspace.open() as runtime:
        run = await runtime.start()
        await runtime.wait_for_interrupts(run)
        assert await runtime.store.timers.next_due() is None


async def test_a_message_to_a_run_with_an_open_interrupt_is_refused(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(calling(ASK), say("{$last_tool}"), tools=TOOLS)
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        (interrupt,) = await runtime.wait_for_interrupts(run)
        with pytest.raises(Waiting) as refused:
            await runtime.runs.steer(SPACE, run.id, "by the way")
        assert refused.value.details["interrupts"] == [interrupt.id]
        await runtime.runs.respond(SPACE, run.id, "yes")
        assert (await runtime.wait_until_ended(run)).output == "yes"


async def test_a_child_that_ends_during_its_parents_interrupt_is_reported_later(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(calling(DETACH), calling(ASK), say("{$last_user}"), tools=TOOLS)
    any_workspace.agent(calling(NAP), say("I did"), name="kid", tools=TOOLS)
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        (interrupt,) = await runtime.wait_for_interrupts(run)
        child = await runtime.wait_until_ended(await runtime.child(run))
        await runtime.wait_for_event(run, lambda event: "holdfast.child" in str(event) and "completed" in str(event))
        assert (await runtime.wait_for_status(run, RunStatus.WAITING)).status_reason == "person"
        values = await runtime.store.values.of_run(SPACE, run.id)
        assert [each["content"] for each in values["mail"]] == [
            f"Run `{child.id}`, which you started in the background, has completed: I did"
        ]
        assert [each.id for each in await runtime.open_interrupts(run)] == [interrupt.id]
        await runtime.runs.respond(SPACE, run.id, "yes")
        ended_run = await runtime.wait_until_ended(run)
        assert (await runtime.store.values.of_run(SPACE, run.id))["mail"] is None
        texts, context = await runtime.texts(run), await runtime.context(run)
    assert ended_run.output == f"Run `{child.id}`, which you started in the background, has completed: I did"
    assert texts[-3:-1] == ["tool: yes", f"user: {ended_run.output}"]
    assert str(context.messages[-1].content).startswith("<untrusted-")


async def test_a_background_child_does_not_delay_its_parent(workspace: AgentWorkspace) -> None:
    workspace.agent(calling(DETACH), say("done"), tools=TOOLS)
    workspace.agent(calling(ASK), say("I did"), name="kid", tools=TOOLS)
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        (interrupt,) = await runtime.wait_for_interrupts(run)
        await runtime.runs.respond(SPACE, run.id, "go", interrupt=interrupt.id)
        child = await runtime.wait_until_ended(await runtime.child(run))
    assert (run.output, child.output) == ("done", "I did")


async def test_a_waiting_run_continues_in_another_process(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(calling(ASK, SPAWN, NAP), say("{$last_tool}"), tools=TOOLS)
    any_workspace.agent(calling(ASK), say("I did"), name="kid", tools=TOOLS)
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        await runtime.wait_for_interrupts(run, 2)
    async with any_workspace.open() as runtime:
        for interrupt in await runtime.open_interrupts(run):
            await runtime.runs.respond(SPACE, run.id, "yes", interrupt=interrupt.id)
        ended_run = await runtime.wait_until_ended(run)
        assert [step.state for step in await runtime.steps(run)] == [StepState.DONE] * 5
    assert ended_run.status is RunStatus.COMPLETED


async def test_a_sleep_ends_in_its_time_although_the_clock_goes_back(any_workspace: AgentWorkspace) -> None:
    clock = HeldClock()
    any_workspace.agent(calling(call("sleep", seconds=10)), say("awake"), tools=TOOLS)
    async with any_workspace.open(clock=clock) as runtime:
        run = await runtime.start()
        await runtime.wait_for_status(run, RunStatus.WAITING)
        await runtime.store.timers.follow_clock()
        clock.step_back(timedelta(hours=1))
        await runtime.store.timers.follow_clock()  # or the engine did so before
        await runtime.advance(timedelta(seconds=10))
        assert (await runtime.wait_until_ended(run)).output == "awake"
