"""Interrupts of children show on all parents that wait for them, and can be answered on any of these runs."""

from datetime import timedelta
from typing import Final

import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import AlreadyAnswered
from holdfast.domain.events import (
    Event,
    RunFinished,
    RunStarted,
    SubagentFinished,
    SubagentSuspended,
)
from holdfast.domain.events.messages import InterruptOutcome
from holdfast.domain.ids import RunId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.interrupt import InterruptResponse, InterruptStatus
from holdfast.domain.limits import Limits
from holdfast.domain.notification import NotificationKind
from holdfast.domain.run import Run, RunStatus
from holdfast.testing.clock import HeldClock
from tests.scenario.agents.agent_workspace import SPACE, AgentRuntime, AgentWorkspace, call, calling, say

ASK: Final = call("ask_user", question="may I?")
TOOLS: Final[list[Json]] = ["agent_spawn", "agent_message", "ask_user", "log_write"]


def spawn(agent: str, **more: Json) -> dict[str, Json]:
    """Return a call that spawns an agent."""
    return call("agent_spawn", agent=agent, input="help", **more)


def write_family(workspace: AgentWorkspace, *turns: dict[str, Json]) -> None:
    """Write a root agent, its child, and a grandchild that opens interrupts."""
    workspace.agent(calling(spawn("mid")), say("root {$last_tool}"), tools=TOOLS)
    workspace.agent(calling(spawn("leaf")), say("mid {$last_tool}"), name="mid", tools=TOOLS)
    workspace.agent(calling(*(turns or [ASK])), say("leaf {$last_tool}"), name="leaf", tools=TOOLS)


async def wait_for_segment_interrupts(runtime: AgentRuntime, run: Run, count: int = 1) -> list[Event]:
    """Wait until a segment of a run ends with `count` interrupts, and return its events."""
    return await runtime.wait_for_event(run, lambda event: len(interrupt_ids(event)) == count)


def interrupt_ids(event: Event) -> list[str]:
    outcome = event.outcome if isinstance(event, RunFinished) else None
    return [each.id for each in outcome.interrupts] if isinstance(outcome, InterruptOutcome) else []


async def test_an_interrupt_of_a_child_shows_on_all_waiting_parents_and_is_answered_at_the_root(
    any_workspace: AgentWorkspace,
) -> None:
    write_family(any_workspace)
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        await wait_for_segment_interrupts(runtime, run)
        mid = await runtime.child(run)
        leaf = await runtime.child(mid)
        statuses = [(await runtime.get(each)).status_reason for each in (run, mid, leaf)]
        (interrupt,) = await runtime.store.interrupts.open_for_run(SPACE, run.id)
        await runtime.runs.respond(SPACE, run.id, "yes", by="ada")
        ended_run = await runtime.wait_until_ended(run)
        events = {each.id: await runtime.events(each) for each in (run, mid, leaf)}
        answered_interrupt = await runtime.store.interrupts.get(SPACE, interrupt.id)
    assert (statuses, ended_run.output) == (["person"] * 3, "root mid leaf yes")
    assert (interrupt.run_id, answered_interrupt.answered_by) == (leaf.id, "ada")
    for log in events.values():
        assert [interrupt_ids(event) for event in log if interrupt_ids(event)] == [[interrupt.id]]
        assert sum(isinstance(event, RunStarted) for event in log) == 2
    suspended = [event for event in events[run.id] if isinstance(event, SubagentFinished)]
    assert suspended[0].outcome == SubagentSuspended(interrupt_ids=[interrupt.id])
    assert [event.subagent_run_id for event in suspended] == [mid.id, mid.id]


@pytest.mark.parametrize("where", ["root", "mid", "leaf"])
async def test_an_interrupt_may_be_answered_on_any_run_once(workspace: AgentWorkspace, where: str) -> None:
    write_family(workspace)
    async with workspace.open() as runtime:
        run = await runtime.start()
        await wait_for_segment_interrupts(runtime, run)
        mid = await runtime.child(run)
        names = {"root": run, "mid": mid, "leaf": await runtime.child(mid)}
        await runtime.runs.respond(SPACE, names[where].id, "yes")
        for each in names.values():
            with pytest.raises(AlreadyAnswered):
                await runtime.runs.respond(SPACE, each.id, "again")
        assert (await runtime.wait_until_ended(run)).output == "root mid leaf yes"


async def test_interrupts_of_two_children_get_their_own_responses(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(calling(spawn("one"), spawn("two"), ASK), say("done"), tools=TOOLS)
    for name in ("one", "two"):
        any_workspace.agent(
            calling(call("ask_user", question=name)), say(name + " {$last_tool}"), name=name, tools=TOOLS
        )
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        await wait_for_segment_interrupts(runtime, run, 3)
        for interrupt in await runtime.store.interrupts.open_for_run(SPACE, run.id):
            await runtime.runs.respond(SPACE, run.id, f"to {interrupt.message}", interrupt=interrupt.id)
        await runtime.wait_until_ended(run)
        texts = await runtime.texts(run)
        await runtime.events(run)
    assert sorted(texts[2:5]) == ["tool: one to one", "tool: to may I?", "tool: two to two"]


async def test_one_response_of_two_leaves_the_other_interrupt_open(workspace: AgentWorkspace) -> None:
    write_family(workspace, ASK, call("ask_user", question="sure?"))
    async with workspace.open() as runtime:
        run = await runtime.start()
        await wait_for_segment_interrupts(runtime, run, 2)
        first, second = await runtime.store.interrupts.open_for_run(SPACE, run.id)
        await runtime.runs.respond(SPACE, run.id, "one", interrupt=first.id)
        await runtime.wait_for_event(run, lambda event: interrupt_ids(event) == [second.id])
        await runtime.runs.respond(SPACE, run.id, "two")
        assert (await runtime.wait_until_ended(run)).output == "root mid leaf two"


async def test_all_interrupts_are_answered_at_once_with_a_segment_id(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(calling(spawn("kid"), ASK), say("done"), tools=TOOLS)
    any_workspace.agent(calling(ASK), say("I did"), name="kid", tools=TOOLS)
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        await wait_for_segment_interrupts(runtime, run, 2)
        interrupts = await runtime.store.interrupts.open_for_run(SPACE, run.id)
        responses = {each.id: InterruptResponse(response="yes") for each in interrupts}
        await runtime.store.interrupts.respond_all(SPACE, run.id, responses, segment=RunId("next"))
        ended_run = await runtime.wait_until_ended(run)
        events = await runtime.events(run)
    assert ended_run.output == "done"
    assert [event.run_id for event in events if isinstance(event, RunStarted)][-1] == "next"


async def test_an_interrupt_of_a_background_child_does_not_show_on_its_parent(workspace: AgentWorkspace) -> None:
    workspace.agent(calling(spawn("kid", wait=False)), calling(spawn("other")), say("{$last_tool}"), tools=TOOLS)
    workspace.agent(calling(ASK), say("I did"), name="kid", tools=TOOLS)
    workspace.agent(say("well"), name="other")
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        (interrupt,) = await runtime.wait_for_interrupts(run)
        assert not any(interrupt_ids(event) for event in await runtime.events(run))
        await runtime.runs.respond(SPACE, run.id, "yes", interrupt=interrupt.id)
    assert run.output == "well"


async def test_an_answered_interrupt_of_a_background_child_causes_no_second_answer(
    any_workspace: AgentWorkspace,
) -> None:
    slowly = say("my only answer", chunks=14, delay_ms=50)  # the child asks in the middle of it
    any_workspace.agent(calling(spawn("kid", wait=False)), slowly, say("once more"), tools=TOOLS)
    any_workspace.agent(calling(ASK), calling(ASK), say("I did"), name="kid", tools=TOOLS)
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        (interrupt,) = await runtime.wait_for_interrupts(run)
        await runtime.runs.respond(SPACE, interrupt.run_id, "yes", interrupt=interrupt.id)
        ended_run = await runtime.wait_until_ended(run)
        assert [message for message in await runtime.texts(run) if message.startswith("assistant: my")] == [
            "assistant: my only answer"
        ]
    assert (ended_run.output, ended_run.iterations) == ("my only answer", 2)


async def test_a_message_to_the_root_leaves_the_childs_interrupt_open(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(calling(spawn("kid")), calling(ASK), say("{$last_user}"), tools=TOOLS)
    any_workspace.agent(calling(call("ask_user", question="child?")), say("I did"), name="kid", tools=TOOLS)
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        await wait_for_segment_interrupts(runtime, run)
        await runtime.runs.steer(SPACE, run.id, "something else")
        (_, root_interrupt) = await runtime.wait_for_interrupts(run, 2)
        await runtime.wait_for_status(run, RunStatus.WAITING)
        assert [each.id for each in await runtime.store.interrupts.open_for_run(SPACE, run.id)] == [root_interrupt.id]
        await runtime.runs.respond(SPACE, run.id, "yes", interrupt=root_interrupt.id)
        await runtime.wait_until_ended(run)
        await runtime.events(run)


async def test_a_message_to_the_child_withdraws_its_interrupt_everywhere(any_workspace: AgentWorkspace) -> None:
    """The child continues without a response, so its ancestors show no interrupt any more."""
    write_family(any_workspace)
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        await wait_for_segment_interrupts(runtime, run)
        leaf = await runtime.child(await runtime.child(run))
        await runtime.store.inbox.put(
            SPACE, leaf.id, kind=InboxKind.MESSAGE, data={"role": "user", "content": "never mind"}
        )
        ended_run = await runtime.wait_until_ended(run)
        (interrupt,) = await runtime.store.interrupts.of_run(SPACE, leaf.id)
        await runtime.events(run)
    assert interrupt.status is InterruptStatus.CANCELLED
    assert str(ended_run.output).startswith("root mid leaf not answered")


async def test_an_expired_interrupt_of_a_child_has_its_default_outcome(any_workspace: AgentWorkspace) -> None:
    clock = HeldClock()
    write_family(any_workspace)
    async with any_workspace.open(clock=clock, lease=timedelta(days=30)) as runtime:
        run = await runtime.start()
        await wait_for_segment_interrupts(runtime, run)
        await runtime.advance(timedelta(days=7))
        ended_run = await runtime.wait_until_ended(run)
    assert str(ended_run.output).startswith("root mid leaf nobody answered in time")


async def test_cancelling_a_child_closes_its_interrupt_at_the_root(any_workspace: AgentWorkspace) -> None:
    write_family(any_workspace)
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        await wait_for_segment_interrupts(runtime, run)
        mid = await runtime.child(run)
        await runtime.runs.cancel(SPACE, (await runtime.child(mid)).id)
        ended_run = await runtime.wait_until_ended(run)
        assert await runtime.store.interrupts.open_for_run(SPACE, run.id) == []
        await runtime.events(run)
    assert ended_run.output == "root mid agent `leaf` was cancelled"


async def test_a_childs_approval_is_given_at_the_root(workspace: AgentWorkspace) -> None:
    write_family(workspace, call("log_write", message="x"))
    workspace.configure("leaf", tools=TOOLS, permissions={"ask": ["log_write"]})
    async with workspace.open() as runtime:
        run = await runtime.start()
        events = await wait_for_segment_interrupts(runtime, run)
        (outcome,) = [event.outcome for event in events if interrupt_ids(event) and isinstance(event, RunFinished)]
        assert isinstance(outcome, InterruptOutcome)
        shown = outcome.interrupts[0]
        assert isinstance(shown.metadata, dict)
        approve = {"decision": "approve"}
        await runtime.runs.respond(SPACE, run.id, approve, interrupt=shown.id, digest=shown.metadata["digest"])
        ended_run = await runtime.wait_until_ended(run)
    assert (shown.reason, ended_run.output) == ("tool_call", 'root mid leaf {"logged":true}')


async def test_the_wait_for_a_childs_interrupt_does_not_count_as_duration(workspace: AgentWorkspace) -> None:
    clock = HeldClock()
    write_family(workspace)
    async with workspace.open(clock=clock, lease=timedelta(days=30)) as runtime:
        run = await runtime.start(limits=Limits(max_duration_seconds=60))
        await wait_for_segment_interrupts(runtime, run)
        await runtime.advance(timedelta(hours=1))
        await runtime.runs.respond(SPACE, run.id, "yes")
        assert (await runtime.wait_until_ended(run)).status is RunStatus.COMPLETED


async def test_an_interrupt_of_a_child_is_notified_once(workspace: AgentWorkspace) -> None:
    write_family(workspace)
    async with workspace.open() as runtime:
        run = await runtime.start()
        await wait_for_segment_interrupts(runtime, run)
        leaf = await runtime.child(await runtime.child(run))
        await runtime.runs.respond(SPACE, run.id, "yes")
        await runtime.wait_until_ended(run)
        while await runtime.store.notifications.dispatch():
            pass
        notifications = await runtime.store.notifications.after(SPACE, number=0)
        asked = await runtime.store.interrupts.page(SPACE, status=InterruptStatus.ANSWERED)
    waiting = [each for each in notifications if each.kind is NotificationKind.RUN_WAITING]
    assert [each.run_id for each in waiting] == [leaf.id]
    assert [each.data["interrupt_ids"] for each in waiting] == [[each.id for each in asked.items]]


async def test_a_tree_with_an_open_interrupt_continues_in_another_process(any_workspace: AgentWorkspace) -> None:
    write_family(any_workspace)
    async with any_workspace.open() as runtime:
        run = await runtime.start()
        await wait_for_segment_interrupts(runtime, run)
    async with any_workspace.open() as runtime:
        await runtime.runs.respond(SPACE, run.id, "yes")
        assert (await runtime.wait_until_ended(run)).output == "root mid leaf yes"
        await runtime.events(run)
