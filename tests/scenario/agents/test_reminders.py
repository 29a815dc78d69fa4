"""An agent sets a reminder; it survives a restart, reaches the next turn, and is settled by the agent."""

from datetime import timedelta

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.ids import ReminderId, ScheduleId
from holdfast.domain.limits import Limits
from holdfast.domain.reminder import NewReminder, Reminder, ReminderPriority, ReminderStatus, TriggerType
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.schedule import FiringCause, RunAction
from holdfast.testing.clock import HeldClock
from tests.api.site import eventually
from tests.scenario.agents.agent_workspace import (
    SPACE,
    AgentRuntime,
    AgentWorkspace,
    call,
    calling,
    say,
)

TOOLS: list[Json] = ["set_reminder", "list_reminders", "complete_reminder", "dismiss_reminder"]


async def only_reminder(runtime: AgentRuntime) -> Reminder:
    (reminder,) = (await runtime.holdfast.store.reminders.page(SPACE)).items
    return reminder


async def triggered(runtime: AgentRuntime) -> Reminder:
    async def is_triggered() -> bool:
        return (await only_reminder(runtime)).status is ReminderStatus.TRIGGERED

    await eventually(is_triggered)
    return await only_reminder(runtime)


async def sent(runtime: AgentRuntime, run: Run) -> str:
    return msgspec.json.encode((await runtime.context(run, call=0)).messages).decode()


async def test_a_reminder_survives_a_restart_and_reaches_the_next_turn(any_workspace: AgentWorkspace) -> None:
    clock = HeldClock()
    given = call("set_reminder", content="water the plants", trigger_type="time", trigger_value="in 2 h")
    any_workspace.agent(calling(given), say("noted"), say("hello"), say("hello again"), tools=TOOLS)
    async with any_workspace.open(clock=clock) as runtime:
        first = await runtime.run_to_end("remind me")
        made = await only_reminder(runtime)
        assert (made.thread_id, made.run_id, made.status) == (first.thread_id, first.id, ReminderStatus.PENDING)
    clock.tick(timedelta(hours=3))  # nothing runs when it is due
    async with any_workspace.open(clock=clock) as runtime:
        await triggered(runtime)
        second = await runtime.run_to_end("hi", thread=first.thread_id)
        assert "water the plants" in await sent(runtime, second)
        elsewhere = await runtime.run_to_end("hi")
        assert "water the plants" not in await sent(runtime, elsewhere)
        await runtime.holdfast.store.reminders.settle(SPACE, made.id, to=ReminderStatus.COMPLETED)
        third = await runtime.run_to_end("hi", thread=first.thread_id)
        assert "runtime-notice" not in await sent(runtime, third)


async def test_an_agent_lists_and_settles_reminders(any_workspace: AgentWorkspace) -> None:
    settle = [call("complete_reminder", reminder_id="tea"), call("complete_reminder", reminder_id="tea")]
    wrong = [call("dismiss_reminder", reminder_id="tea"), call("complete_reminder", reminder_id="none")]
    any_workspace.agent(calling(call("list_reminders")), calling(*settle), calling(*wrong), say("done"), tools=TOOLS)
    async with any_workspace.open() as runtime:
        new = NewReminder(id=ReminderId("tea"), content="drink tea", trigger_type=TriggerType.CONTEXT)
        await runtime.holdfast.store.reminders.create(SPACE, new)
        run = await runtime.run_to_end("go")
        assert run.status is RunStatus.COMPLETED
        results = [str(each.content) for each in await runtime.messages(run) if each.role == "tool"]
        assert "drink tea" in results[0], results
        assert ["completed" in each for each in results[1:3]] == [True, True], results
        assert "CONFLICT" in results[3] and "NOT_FOUND" in results[4]


async def test_a_wrong_reminder_of_an_agent_is_refused(any_workspace: AgentWorkspace) -> None:
    wrong: list[dict[str, Json]] = [
        {"trigger_type": "time", "trigger_value": "2020-01-01T00:00:00Z"},
        {"trigger_type": "time", "trigger_value": "whenever"},
        {"trigger_type": "condition", "trigger_value": {"event": "rain"}},
        {"trigger_type": "condition", "trigger_value": "often"},
        {"trigger_type": "mood", "trigger_value": "x"},
        {"trigger_type": "time"},
    ]
    calls = [call("set_reminder", content="x", **each) for each in wrong]
    any_workspace.agent(calling(*calls), say("done"), tools=TOOLS)
    async with any_workspace.open() as runtime:
        run = await runtime.run_to_end("go")
        results = [str(each.content) for each in await runtime.messages(run) if each.role == "tool"]
        assert "it was understood as 2020-01-01T00:00:00.000Z" in results[0]
        assert all("INVALID" in each.upper() for each in results), results
        assert (await runtime.holdfast.store.reminders.page(SPACE)).items == []


async def test_an_agent_asks_no_judge_but_itself(workspace: AgentWorkspace) -> None:
    def judged(**more: Json) -> dict[str, Json]:
        value: Json = {"judge": "Is it out?", "token_budget": 900, **more}
        return call("set_reminder", content="x", trigger_type="condition", trigger_value=value)

    spawn = call("agent_spawn", agent="kid", input="go")
    workspace.agent(calling(judged(agent="boss"), judged(), spawn), say("done"), tools=["set_reminder", "agent_spawn"])
    workspace.agent(calling(judged()), say("no"), name="kid", tools=["set_reminder"])
    workspace.agent(say("never"), name="boss")
    async with workspace.open() as runtime:
        run = await runtime.run_to_end("go")
        results = [str(each.content) for each in await runtime.messages(run) if each.role == "tool"]
        child = [str(each.content) for each in await runtime.messages(await runtime.child(run)) if each.role == "tool"]
        made = await only_reminder(runtime)
    assert "an agent can only ask itself" in results[0] and "a sub-agent may not start runs" in child[0]
    assert isinstance(made.trigger_value, dict) and made.trigger_value["agent"] == "bot"


async def test_a_run_of_an_agents_reminder_has_the_limits_of_its_run(workspace: AgentWorkspace) -> None:
    given = call("set_reminder", content="x", trigger_type="time", trigger_value="in 2 h", run=True)
    workspace.agent(calling(given), say("done"), tools=TOOLS)
    async with workspace.open() as runtime:
        run = await runtime.run_to_end("go", limits=Limits(token_budget=5_000))
        made = await only_reminder(runtime)
    assert run.status == "completed", run.error
    assert made.action is not None and made.action.limits.token_budget == 5_000


async def test_a_reminder_of_a_tainted_run_taints_the_turn_that_reads_it(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(say("ok"), tools=TOOLS)
    async with any_workspace.open() as runtime:
        store = runtime.holdfast.store
        new = NewReminder(content="x", trigger_type=TriggerType.CONTEXT, taint=["web:example.com"])
        made = await store.reminders.create(SPACE, new)
        await store.schedules.trigger(SPACE, ScheduleId(made.id), cause=FiringCause.MANUAL)
        run = await runtime.run_to_end("hi")
        values = await store.values.of_run(SPACE, run.id)
        assert values["taint"]["sources"][0]["name"] == f"reminder:{made.id}"


async def test_only_the_most_important_reminders_are_sent(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(say("ok"), tools=TOOLS)
    async with any_workspace.open() as runtime:
        store = runtime.holdfast.store
        for number, priority in enumerate([*[ReminderPriority.LOW] * 20, ReminderPriority.CRITICAL]):
            content = f"number {number}: " + "word " * 100
            new = NewReminder(content=content, trigger_type=TriggerType.CONTEXT, priority=priority)
            made = await store.reminders.create(SPACE, new)
            await store.schedules.trigger(SPACE, ScheduleId(made.id), cause=FiringCause.MANUAL)
        text = await sent(runtime, await runtime.run_to_end("hi"))
        assert text.index("number 20") < text.index("number 19")
        assert "number 19" in text and "number 0:" not in text and "more do not fit" in text


async def test_a_judge_that_answers_yes_triggers_the_reminder(any_workspace: AgentWorkspace) -> None:
    clock = HeldClock()
    yes = msgspec.json.encode({"answer": True, "reason": "it is out"}).decode()
    any_workspace.agent(say(yes, usage={"input_tokens": 5, "output_tokens": 5}), name="judge")
    any_workspace.agent(say("I know"))
    async with any_workspace.open(clock=clock) as runtime:
        store = runtime.holdfast.store
        value = {"judge": "Is it out?", "agent": "judge", "token_budget": 100_000}
        action = RunAction(agent="bot")
        new = NewReminder(content="publish", trigger_type=TriggerType.CONDITION, trigger_value=value, action=action)
        await store.reminders.create(SPACE, new)
        await runtime.advance(timedelta(hours=1))
        found = await triggered(runtime)
        assert found.trigger_reason is not None and found.trigger_reason.endswith("it is out")
        firings = (await store.schedules.firings(SPACE, ScheduleId(found.id))).items
        assert [each.cause for each in firings] == [FiringCause.CONDITION, FiringCause.CHECK]
        assert all(each.run_id is not None for each in firings)
