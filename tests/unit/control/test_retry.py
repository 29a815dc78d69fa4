"""Retrying a run: from its last step, or from the start."""

from typing import Any

import pytest

from holdfast.domain.errors import Conflict, NotFound
from holdfast.domain.ids import RunId
from holdfast.domain.limits import Limits
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.run import Mode, Priority, Run, RunStatus
from tests.builders import assistant, call, claim, finish, result, user
from tests.conformance.run_builders import FAILED, commit
from tests.scenario.agents.agent_workspace import SPACE, AgentRuntime, AgentWorkspace
from tests.unit.control.unchanged import unchanged


async def failed_run(floor: AgentRuntime, **options: Any) -> Run:
    """Return a run that failed after it had called a tool."""
    run = await floor.start("begin", **options)
    lease = await claim(floor.store)
    await commit(floor.store, lease, messages=[assistant("hm", call("c")), result("c")], move=FAILED)
    return await floor.get(run)


async def test_a_retry_continues_from_the_last_step(floor: AgentRuntime) -> None:
    failed = await failed_run(
        floor,
        mode=Mode.TASK,
        priority=Priority.HIGH,
        tags=["a"],
        input={"x": 1},
        limits=Limits(max_iterations=7),
    )
    retried = (await floor.runs.retry(SPACE, failed.id, by="ada")).run
    assert (retried.base_run_id, retried.thread_id, retried.status) == (failed.id, failed.thread_id, RunStatus.QUEUED)
    assert await floor.messages(retried) == []
    history = await floor.store.messages.history(SPACE, retried.id)
    assert [message.content for message in history] == ["begin", "hm", "seen"]
    for field in ("agent_type", "model", "mode", "priority", "tags", "input", "limits"):
        assert getattr(retried, field) == getattr(failed, field)
    assert retried.created_by == "ada"


async def test_a_retry_from_the_start_is_a_fork_with_the_same_input(floor: AgentRuntime) -> None:
    first = await floor.start("one")
    await finish(floor.store, await claim(floor.store))
    input_messages = [NewMessage(role=Role.SYSTEM, content="be brief"), user("two", id="mine")]
    second = await floor.start(thread=first.thread_id, messages=input_messages)
    await commit(floor.store, await claim(floor.store), messages=[assistant("hm")], move=FAILED)
    retried = (await floor.runs.retry(SPACE, second.id, from_start=True)).run
    messages = await floor.messages(retried)
    assert (retried.base_run_id, retried.base_sequence) == (second.base_run_id, second.base_sequence)
    assert [(message.role, message.content) for message in messages] == [
        (each.role, each.content) for each in input_messages
    ]
    assert messages[1].revises == "mine"
    history = await floor.store.messages.history(SPACE, retried.id)
    assert [message.content for message in history] == ["one", "done", "be brief", "two"]


async def test_a_retry_from_the_start_of_the_first_run_has_no_base(floor: AgentRuntime) -> None:
    failed = await failed_run(floor)
    retried = (await floor.runs.retry(SPACE, failed.id, from_start=True)).run
    assert retried.base_run_id is None
    assert [message.content for message in await floor.store.messages.history(SPACE, retried.id)] == ["begin"]


async def test_a_cancelled_run_can_be_retried(floor: AgentRuntime) -> None:
    run = await floor.start("begin")
    await floor.runs.cancel(SPACE, run.id)
    retried = (await floor.runs.retry(SPACE, run.id)).run
    assert (retried.status, retried.base_run_id) == (RunStatus.QUEUED, run.id)


async def test_only_failed_and_cancelled_runs_are_retried(floor: AgentRuntime, workshop: AgentWorkspace) -> None:
    completed = await floor.start()
    await finish(floor.store, await claim(floor.store))
    live = await floor.start()
    async with unchanged(floor, workshop):
        for run in (completed, live):
            with pytest.raises(Conflict, match="only a failed or cancelled run can be retried"):
                await floor.runs.retry(SPACE, run.id)
        with pytest.raises(NotFound):
            await floor.runs.retry(SPACE, RunId("run_none"))
