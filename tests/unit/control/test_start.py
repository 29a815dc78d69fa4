"""Starting a run: values inherited from its agent, and errors before anything is created."""

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.domain.errors import Conflict, HoldfastError, IdempotencyMismatch, Invalid, NotFound, ThreadClosed
from holdfast.domain.ids import RunId, ThreadId
from holdfast.domain.limits import Limits
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Mode, RunStatus
from holdfast.domain.thread import NewThread, ThreadPatch, ThreadStatus
from tests.builders import assistant, call, user
from tests.scenario.agents.agent_workspace import SPACE, AgentRuntime, AgentWorkspace, say
from tests.unit.control.unchanged import unchanged


async def test_a_run_inherits_the_model_and_the_limits_of_its_agent(floor: AgentRuntime) -> None:
    run = await floor.start(limits=Limits(token_budget=10))
    assert (run.agent_type, run.model, run.status) == ("bot", "scripted:script.json", RunStatus.QUEUED)
    assert run.limits == Limits(max_iterations=20, token_budget=10)


async def test_a_run_keeps_the_model_that_is_chosen_for_it(floor: AgentRuntime, workshop: AgentWorkspace) -> None:
    workshop.write("agents/bot/other.json", {"turns": [say("x")]})
    assert (await floor.start(model="scripted:other.json")).model == "scripted:other.json"


async def test_the_agent_defaults_to_that_of_the_thread(floor: AgentRuntime) -> None:
    thread = await floor.store.threads.create(SPACE, NewThread(agent_type="bot"))
    assert (await floor.start(thread=thread.id)).agent_type == "bot"


async def test_the_current_agent_of_the_thread_is_used(floor: AgentRuntime, workshop: AgentWorkspace) -> None:
    thread = (await floor.store.threads.create(SPACE, NewThread(agent_type="bot"))).id
    assert (await floor.start(thread=thread)).agent_type == "bot"
    workshop.agent(say("x"), name="other")
    await floor.store.threads.update(SPACE, thread, ThreadPatch(agent_type="other"))
    assert (await floor.start(thread=thread)).agent_type == "other"
    await floor.store.threads.update(SPACE, thread, ThreadPatch(agent_type="nobody"))
    with pytest.raises(NotFound, match="no agent `nobody`"):
        await floor.start(thread=thread)
    await floor.store.threads.update(SPACE, thread, ThreadPatch(agent_type="bot"))
    assert (await floor.start(thread=thread)).agent_type == "bot"


REFUSED: list[tuple[dict[str, Any], type[HoldfastError], str]] = [
    ({"agent_type": "nobody"}, NotFound, "no agent `nobody`"),
    ({"agent_type": "default"}, NotFound, "set `default_agent` in settings.json"),
    ({"agent_type": "../bot"}, NotFound, "no agent"),
    ({"mode": Mode.DAEMON}, Conflict, "not enabled for daemon"),
    ({"model": "scripted:/dev/zero"}, Invalid, "in the folder of its agent"),
    ({"model": "scripted:../other/script.json"}, Invalid, "in the folder of its agent"),
    ({"model": "scripted:a/../../other/script.json"}, Invalid, "in the folder of its agent"),
    ({"model": "scripted:no\x00thing"}, Invalid, "NUL"),
    ({"thread": ThreadId("thr_none")}, NotFound, "thr_none"),
    ({"messages": [assistant("", call("c"))]}, Invalid, "each tool call must be followed"),
    ({"messages": [user("a", id="m"), user("b", id="m")]}, Invalid, "same id"),
    ({"id": RunId("no id!")}, Invalid, "id"),
    ({"tags": ["x"] * 51}, Invalid, "tags"),
    ({"parent_run_id": RunId("run_none")}, NotFound, "run_none"),
    ({"idempotency_key": ""}, Invalid, "idempotency key"),
    ({"input": float("nan"), "idempotency_key": "k", "values": {"nonsense": 1}}, Invalid, "values"),
]


@pytest.mark.parametrize(("options", "error", "message"), REFUSED, ids=lambda value: str(value)[:30])
async def test_an_invalid_run_is_refused_and_nothing_is_created(
    floor: AgentRuntime, workshop: AgentWorkspace, options: dict[str, Any], error: type[HoldfastError], message: str
) -> None:
    async with unchanged(floor, workshop):
        with pytest.raises(error, match=message):
            await floor.start(**options)


@pytest.mark.parametrize("model", ["scripted:missing.json", "nothing", "nobody:nobody"])
async def test_a_model_is_checked_by_the_process_that_calls_it(workshop: AgentWorkspace, model: str) -> None:
    async with workshop.open(workers=1) as runtime, unchanged(runtime, workshop):
        with pytest.raises(Invalid, match=model.rpartition(":")[2]):
            await runtime.start(model=model)
    async with workshop.open(workers=0) as runtime:  # its workers know what they can call
        assert (await runtime.start(model=model)).model == model


async def test_an_invalid_agent_starts_no_run(floor: AgentRuntime, workshop: AgentWorkspace) -> None:
    workshop.write("agents/bad/AGENT.md", "x")
    workshop.write("agents/bad/agent.json", {"model": "scripted:x.json", "toolz": []})
    async with unchanged(floor, workshop):
        with pytest.raises(Invalid, match="toolz"):
            await floor.start(agent="bad")


async def test_a_thread_that_is_archived_takes_no_run(floor: AgentRuntime, workshop: AgentWorkspace) -> None:
    thread = await floor.store.threads.create(SPACE, NewThread(agent_type="bot"))
    await floor.store.threads.update(SPACE, thread.id, ThreadPatch(status=ThreadStatus.ARCHIVED))
    async with unchanged(floor, workshop):
        with pytest.raises(ThreadClosed):
            await floor.start(thread=thread.id)


async def test_the_same_request_under_the_same_key_returns_the_same_run(
    floor: AgentRuntime, workshop: AgentWorkspace
) -> None:
    thread = await floor.store.threads.create(SPACE, NewThread(agent_type="bot"))
    new = NewRun(thread=thread.id, messages=[user("go")], idempotency_key="once")
    first = await floor.runs.start(SPACE, new)
    async with unchanged(floor, workshop):
        replay = await floor.runs.start(SPACE, new)
    assert (first.replayed, replay.replayed) == (False, True)
    assert replay.run == first.run


EDITS: list[Callable[[AgentWorkspace], None]] = [
    lambda workshop: workshop.configure(model=["scripted:script.json", "scripted:other.json"], limits={}),
    lambda workshop: workshop.configure(model="scripted:other.json", limits={"max_iterations": 3}),
]


@pytest.mark.parametrize("edit", EDITS)
async def test_a_request_is_the_same_after_its_agent_was_edited(
    floor: AgentRuntime, workshop: AgentWorkspace, edit: Callable[[AgentWorkspace], None]
) -> None:
    thread = await floor.store.threads.create(SPACE, NewThread(agent_type="bot"))
    new = NewRun(thread=thread.id, messages=[user("go")], idempotency_key="once")
    first = await floor.runs.start(SPACE, new)
    workshop.write("agents/bot/other.json", {"turns": [say("x")]})
    edit(workshop)
    floor.holdfast.agents.refresh()
    assert (await floor.runs.start(SPACE, new)).run == first.run
    with pytest.raises(IdempotencyMismatch):
        await floor.runs.start(SPACE, NewRun(thread=thread.id, messages=[user("other")], idempotency_key="once"))
